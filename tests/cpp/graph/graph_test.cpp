#include "graph/graph.h"

#include "graph/executor.h"

#include <gtest/gtest.h>

namespace stator::graph {
namespace {

Ref<> standIn(Node* node) {
  return makeStandIn(node, nullptr, reinterpret_cast<PyObject*>(&PyLong_Type));
}

Ref<> tuple(std::initializer_list<Ref<>> items) {
  Ref<> made = Ref<>::steal(PyTuple_New(static_cast<Py_ssize_t>(items.size())));
  Py_ssize_t at = 0;
  for (const Ref<>& item : items) PyTuple_SET_ITEM(made.get(), at++, Ref<>(item).release());
  return made;
}

Ref<> function(const char* name) {
  Ref<> module = Ref<>::steal(PyImport_ImportModule("operator"));
  return Ref<>::steal(PyObject_GetAttrString(module.get(), name));
}

Node* input(Graph& graph, const char* name) {
  Node* node = graph.addInput(nullptr, nullptr, nullptr);
  node->name_hint = name;
  return node;
}

Node* call(Graph& graph, const char* name, std::initializer_list<Ref<>> args) {
  return graph.addCall(Op::kCallFunction, function(name), tuple(args), nullptr);
}

Ref<> number(long value) { return Ref<>::steal(PyLong_FromLong(value)); }

TEST(Graph, DropsWhatNobodyNeedsAndCountsUses) {
  Graph graph;
  Node* a = input(graph, "a");
  Node* unused = input(graph, "unused");
  Node* sum = call(graph, "add", {standIn(a), standIn(a)});
  Node* dead = call(graph, "neg", {standIn(sum)});
  call(graph, "abs", {standIn(dead)});
  Node* kept = call(graph, "neg", {standIn(a)});
  kept->mutates = true;
  graph.addOutput(sum);
  graph.addOutput(sum);
  graph.dropDead();
  EXPECT_EQ(graph.outputs().size(), 1u);
  EXPECT_EQ(graph.inputs(), std::vector<Node*>{a});
  EXPECT_EQ(graph.callCount(), 2u);
  EXPECT_EQ(a->uses, 3);
  EXPECT_EQ(kept->index, 2);
  EXPECT_EQ(dead->index, -1);
  EXPECT_EQ(unused->index, -1);
  EXPECT_EQ(graph.text(nullptr), "%0 = input a\n%1 = add(%0, %0)\n%2 = neg(%0)\nreturn %1\n");
}

TEST(Graph, TruncateUndoes) {
  Graph graph;
  Node* a = input(graph, "a");
  Node* first = call(graph, "neg", {standIn(a)});
  size_t length = graph.nodes().size();
  Node* second = call(graph, "neg", {standIn(first)});
  input(graph, "b");
  graph.addOutput(second);
  graph.addOutput(first);
  graph.truncate(length);
  EXPECT_EQ(graph.nodes().size(), 2u);
  EXPECT_EQ(graph.inputs().size(), 1u);
  EXPECT_EQ(graph.outputIndex(first), 0);
  Node* again = call(graph, "abs", {standIn(first)});
  EXPECT_EQ(again->index, 2);
}

TEST(Graph, ItemsAreGetitemNodes) {
  Graph graph;
  Node* a = input(graph, "a");
  Node* pair = call(graph, "neg", {standIn(a)});
  Node* item = graph.addItem(pair, 1);
  graph.addOutput(item);
  EXPECT_EQ(graph.text(nullptr), "%0 = input a\n%1 = neg(%0)\n%2 = getitem(%1, 1)\nreturn %2\n");
}

TEST(Executor, OutlivesTheGraph) {
  auto graph = std::make_unique<Graph>();
  Node* a = input(*graph, "a");
  Node* sum = call(*graph, "add", {standIn(a), number(1)});
  Node* twice = call(*graph, "mul", {standIn(sum), standIn(sum)});
  graph->addOutput(twice);
  graph->addOutput(a);
  Executor executor(*graph);
  graph.reset();
  Ref<> argument = number(4);
  PyObject* inputs[] = {argument.get()};
  for (int i = 0; i < 3; ++i) {
    Ref<> out = executor.run(inputs, 1);
    ASSERT_TRUE(out);
    EXPECT_EQ(PyLong_AsLong(PyTuple_GET_ITEM(out.get(), 0)), 25);
    EXPECT_EQ(PyTuple_GET_ITEM(out.get(), 1), argument.get());
  }
  EXPECT_EQ(executor.inputCount(), 1u);
  EXPECT_EQ(executor.outputCount(), 2u);
}

TEST(Executor, TellsWhereItFailed) {
  Graph graph;
  Ref<PyCodeObject> code = Ref<PyCodeObject>::steal(PyCode_NewEmpty("user.py", "f", 7));
  graph.locations.push_back({nullptr, code, 0});
  Node* a = input(graph, "a");
  Node* bad = call(graph, "truediv", {standIn(a), number(0)});
  bad->location = &graph.locations.back();
  graph.addOutput(bad);
  Executor executor(graph);
  Ref<> one = number(1);
  PyObject* inputs[] = {one.get()};
  FailedRun run;
  EXPECT_FALSE(executor.run(inputs, 1, &run));
  const Location* failed = run.location;
  ASSERT_NE(failed, nullptr);
  EXPECT_NE(failed, bad->location);  // its own copy
  EXPECT_EQ(failed->code.get(), code.get());
  EXPECT_TRUE(PyErr_ExceptionMatches(PyExc_ZeroDivisionError));
  addUserFrames(failed, true);
  EXPECT_TRUE(PyErr_ExceptionMatches(PyExc_ZeroDivisionError));
  PyErr_Clear();
}

TEST(StandIn, OwnsItsType) {
  Ref<> type = Ref<>::steal(
      PyObject_CallFunction(reinterpret_cast<PyObject*>(&PyType_Type), "s(){}", "Fresh"));
  Py_ssize_t before = Py_REFCNT(type.get());
  {
    Ref<> made = makeStandIn(nullptr, nullptr, type.get());
    EXPECT_TRUE(isStandIn(made.get()));
    EXPECT_EQ(asStandIn(made.get())->apparent_type, type.get());
    EXPECT_EQ(Py_REFCNT(type.get()), before + 1);
  }
  EXPECT_EQ(Py_REFCNT(type.get()), before);
  EXPECT_FALSE(isStandIn(nullptr));
}

}  // namespace
}  // namespace stator::graph
