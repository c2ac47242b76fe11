#include "debug/reduce.h"

#include <gtest/gtest.h>
#include <set>

namespace stator::debug {
namespace {

using graph::Node;
using graph::Op;

Ref<> negative() {
  Ref<> module = Ref<>::steal(PyImport_ImportModule("_operator"));
  return Ref<>::steal(PyObject_GetAttrString(module.get(), "neg"));
}

// x -> c0 -> c1 -> ... ; the last one is the output
Specimen chain(int length) {
  Specimen made;
  Node* last = made.graph->addInput(nullptr, nullptr, nullptr);
  last->name_hint = "x";
  made.facts.push_back({Kind::kTensor, "f32[2]", ""});
  for (int i = 0; i < length; ++i) {
    Ref<> used = graph::makeStandIn(last, nullptr, reinterpret_cast<PyObject*>(&PyBaseObject_Type));
    last = made.graph->addCall(Op::kCallFunction, negative(),
                               Ref<>::steal(PyTuple_Pack(1, used.get())), nullptr);
    last->name_hint = "c" + std::to_string(i);
    made.facts.push_back({Kind::kTensor, "f32[" + std::to_string(i) + "]", ""});
  }
  made.graph->addOutput(last);
  return made;
}

std::set<std::string> callsOf(const Specimen& specimen) {
  std::set<std::string> names;
  for (int index : specimen.calls()) names.insert(specimen.name(index));
  return names;
}

TEST(Edit, KeepCallsMakesInputsOfWhatIsMissing) {
  Specimen whole = chain(6);
  std::vector<bool> keep(whole.graph->nodes().size(), false);
  keep[3] = keep[5] = true;  // c2 and c4
  auto edited = keepCalls(whole, keep);
  ASSERT_TRUE(edited.has_value());
  EXPECT_EQ(callsOf(edited->specimen), (std::set<std::string>{"c2", "c4"}));
  EXPECT_EQ(edited->cut, (std::vector<int>{2, 4}));  // c1 and c3
  EXPECT_EQ(edited->specimen.graph->outputs().size(), 2U);
  EXPECT_EQ(whole.calls().size(), 6U);
}

TEST(Edit, HashDependsOnTheProgramAndNotOnNames) {
  Specimen one = chain(3);
  Specimen other = chain(3);
  other.graph->nodes()[2].name_hint = "another";
  EXPECT_EQ(hashOf(one), hashOf(other));
  EXPECT_NE(hashOf(one), hashOf(chain(4)));
}

TEST(Reducer, FindsOneCallInLogarithmicallyManyTries) {
  for (int wanted : {0, 1, 137, 298, 299}) {
    int tries = 0;
    Reducer reducer(chain(300), [&](const Specimen&, const Edited& candidate, const std::string&) {
      ++tries;
      return callsOf(candidate.specimen).contains("c" + std::to_string(wanted));
    });
    reducer.reduceCalls();
    EXPECT_EQ(callsOf(reducer.current()), std::set<std::string>{"c" + std::to_string(wanted)});
    EXPECT_LE(tries, 20) << wanted;
  }
}

TEST(Reducer, KeepsWhatFailsTogether) {
  std::set<std::string> together = {"c3", "c80", "c140"};
  Reducer reducer(chain(150), [&](const Specimen&, const Edited& candidate, const std::string&) {
    std::set<std::string> calls = callsOf(candidate.specimen);
    return std::includes(calls.begin(), calls.end(), together.begin(), together.end());
  });
  reducer.reduceCalls();
  EXPECT_EQ(callsOf(reducer.current()), together);
}

TEST(Reducer, NeverAsksForTheSameCandidateTwice) {
  std::set<uint64_t> asked;
  Reducer reducer(chain(40), [&](const Specimen&, const Edited& candidate, const std::string&) {
    EXPECT_TRUE(asked.insert(hashOf(candidate.specimen)).second);
    return false;
  });
  reducer.reduceCalls();
  reducer.reduceValues();
  EXPECT_EQ(reducer.current().calls().size(), 40U);
}

}  // namespace
}  // namespace stator::debug
