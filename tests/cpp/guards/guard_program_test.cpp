#include "base/check.h"
#include "guards/guard.h"

#include <gtest/gtest.h>

namespace stator::guards {
namespace {

using sources::Source;
using sources::SourceKind;
using sources::SourceSet;

Ref<> text(const char* value) { return stealRef(PyUnicode_FromString(value)); }
Ref<> number(long long value) { return stealRef(PyLong_FromLongLong(value)); }

struct Frame {
  std::vector<PyObject*> slots;
  sources::Roots roots;
  explicit Frame(std::vector<PyObject*> values) : slots(std::move(values)) {
    roots.slots = slots.data();
  }
};

TEST(GuardSet, TheSameFactCountsOnce) {
  SourceSet sources;
  GuardSet guards;
  const Source* x = sources.root(SourceKind::kLocal, 0);
  Ref<> type = newRef(reinterpret_cast<PyObject*>(&PyList_Type));
  for (int i = 0; i < 3; ++i) guards.add(Guard{GuardKind::kType, x, nullptr, type});
  guards.add(Guard{GuardKind::kLength, x, nullptr, Ref<>(), 1});
  guards.add(Guard{GuardKind::kLength, x, nullptr, Ref<>(), 2});
  EXPECT_EQ(guards.size(), 3u);
  EXPECT_THROW(guards.add(Guard{GuardKind::kType}), InternalError);
}

TEST(GuardSet, TruncateForgets) {
  SourceSet sources;
  GuardSet guards;
  const Source* x = sources.root(SourceKind::kLocal, 0);
  guards.add(Guard{GuardKind::kPresent, x});
  for (int i = 0; i < 200; ++i) guards.add(Guard{GuardKind::kLength, x, nullptr, Ref<>(), i});
  guards.truncate(1);
  EXPECT_EQ(guards.size(), 1u);
  for (int i = 150; i < 250; ++i) guards.add(Guard{GuardKind::kLength, x, nullptr, Ref<>(), i});
  guards.add(Guard{GuardKind::kPresent, x});
  EXPECT_EQ(guards.size(), 101u);
  EXPECT_EQ(guards.all()[1].number, 150);
}

TEST(GuardSet, ATypeHasOneGuardForAllItsNames) {
  SourceSet sources;
  GuardSet guards;
  PyTypeObject* type = &PyList_Type;
  for (const char* name : {"append", "missing", "append", "pop"}) {
    Ref<> key = text(name);
    PyObject* interned = key.release();
    PyUnicode_InternInPlace(&interned);
    key = stealRef(interned);
    guards.addTypeLookup(sources.pinned(reinterpret_cast<PyObject*>(type)), type, key.get(),
                         _PyType_Lookup(type, key.get()));
  }
  ASSERT_EQ(guards.size(), 1u);
  EXPECT_EQ(guards.all()[0].names.size(), 3u);
  GuardProgram program(sources, guards);
  EXPECT_TRUE(program.check(Frame({}).roots));
  // Without names the guard is about all of the type.
  guards.add(
      Guard{GuardKind::kTypeVersion, nullptr, nullptr, newRef(reinterpret_cast<PyObject*>(type))});
  EXPECT_EQ(guards.size(), 1u);
  EXPECT_TRUE(guards.all()[0].names.empty());
}

TEST(GuardProgram, HandsOutWantedValues) {
  SourceSet sources;
  GuardSet guards;
  const Source* x = sources.root(SourceKind::kLocal, 0);
  const Source* items = sources.child(SourceKind::kDictItem, x, text("items").get());
  std::vector<const Source*> wanted;
  Ref<> dict = stealRef(PyDict_New());
  Ref<> list = stealRef(PyList_New(0));
  PyDict_SetItemString(dict.get(), "items", list.get());
  // Enough of them that the subtree is answered from memory from the second check on.
  for (int i = 0; i < 40; ++i) {
    PyList_Append(list.get(), stealRef(PyList_New(0)).get());
    const Source* item = sources.child(SourceKind::kListItem, items, nullptr, i);
    guards.add(
        Guard{GuardKind::kType, item, nullptr, newRef(reinterpret_cast<PyObject*>(&PyList_Type))});
    if (i % 2 == 0) wanted.push_back(item);
  }
  wanted.push_back(x);
  wanted.push_back(wanted.front());
  GuardProgram program(sources, guards, wanted);
  Frame frame({dict.get()});
  for (int round = 0; round < 4; ++round) {
    std::vector<Ref<>> values;
    ASSERT_TRUE(program.check(frame.roots, values));
    ASSERT_EQ(values.size(), 22u);
    for (int i = 0; i < 20; ++i)
      EXPECT_EQ(values[static_cast<size_t>(i)].get(), PyList_GET_ITEM(list.get(), 2 * i));
    EXPECT_EQ(values[20].get(), dict.get());
    EXPECT_EQ(values[21].get(), PyList_GET_ITEM(list.get(), 0));
    if (round == 2) PyList_SetItem(list.get(), 4, PyList_New(0));
  }
  EXPECT_GT(program.counts().replayed, 0u);
  EXPECT_EQ(Py_REFCNT(PyList_GET_ITEM(list.get(), 0)), 1);
  PyList_SetItem(list.get(), 4, number(1).release());
  std::vector<Ref<>> values;
  EXPECT_FALSE(program.check(frame.roots, values));
}

TEST(GuardProgram, WantsAnInstanceDictThatDoesNotExistYet) {
  SourceSet sources;
  GuardSet guards;
  Ref<> globals = stealRef(PyDict_New());
  PyDict_SetItemString(globals.get(), "__builtins__", PyEval_GetBuiltins());
  ASSERT_TRUE(stealRef(PyRun_String("class C: pass\nc = C()\nc.a = 1", Py_file_input, globals.get(),
                                    globals.get())));
  PyObject* object = PyDict_GetItemString(globals.get(), "c");
  const Source* dict = sources.child(SourceKind::kObjectDict, sources.root(SourceKind::kLocal, 0));
  guards.add(Guard{GuardKind::kLength, dict, nullptr, Ref<>(), 1});
  GuardProgram program(sources, guards, {dict});
  Frame frame({object});
  std::vector<Ref<>> values;
  ASSERT_TRUE(program.check(frame.roots));
  ASSERT_TRUE(program.check(frame.roots, values));
  ASSERT_TRUE(PyDict_CheckExact(values[0].get()));
  EXPECT_EQ(PyDict_Size(values[0].get()), 1);
  ASSERT_TRUE(program.check(frame.roots, values));
}

TEST(GuardProgram, TraverseReportsEveryReference) {
  SourceSet sources;
  GuardSet guards;
  Ref<> object = stealRef(PyList_New(0));
  guards.add(Guard{GuardKind::kIs, sources.root(SourceKind::kLocal, 0), nullptr, object});
  auto program = std::make_unique<GuardProgram>(sources, guards);
  guards.truncate(0);
  EXPECT_EQ(Py_REFCNT(object.get()), 2);
  struct Seen {
    PyObject* object;
    int count = 0;
  } seen{object.get()};
  program->traverse(
      [](PyObject* visited, void* into) {
        auto* expected = static_cast<Seen*>(into);
        expected->count += visited == expected->object;
        return 0;
      },
      &seen);
  EXPECT_EQ(seen.count, 1);
  program.reset();
  EXPECT_EQ(Py_REFCNT(object.get()), 1);
}

TEST(GuardProgram, AnEmptyOneHolds) {
  SourceSet sources;
  GuardSet guards;
  GuardProgram program(sources, guards);
  EXPECT_TRUE(program.check(Frame({}).roots));
  EXPECT_EQ(program.explain(Frame({}).roots), "");
  EXPECT_EQ(program.text(nullptr), "");
}

}  // namespace
}  // namespace stator::guards
