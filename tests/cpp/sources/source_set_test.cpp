#include "base/check.h"
#include "sources/source.h"

#include <gtest/gtest.h>

namespace stator::sources {
namespace {

Ref<> text(const char* value) { return stealRef(PyUnicode_FromString(value)); }
Ref<> number(long long value) { return stealRef(PyLong_FromLongLong(value)); }

TEST(SourceSet, OneThingHasOneSource) {
  SourceSet set;
  const Source* self = set.root(SourceKind::kLocal, 0);
  EXPECT_EQ(self, set.root(SourceKind::kLocal, 0));
  EXPECT_NE(self, set.root(SourceKind::kLocal, 1));
  EXPECT_NE(self, set.root(SourceKind::kStack, 0));
  // Equal strings and numbers are one key, whatever object they come in.
  Ref<> first = stealRef(PyUnicode_FromFormat("na%s", "me")),
        second = stealRef(PyUnicode_FromFormat("n%s", "ame"));
  ASSERT_NE(first.get(), second.get());
  const Source* name = set.child(SourceKind::kAttr, self, first.get());
  EXPECT_EQ(name, set.child(SourceKind::kAttr, self, second.get()));
  EXPECT_NE(name, set.child(SourceKind::kDictItem, self, first.get()));
  EXPECT_EQ(set.child(SourceKind::kDictItem, self, number(1LL << 40).get()),
            set.child(SourceKind::kDictItem, self, number(1LL << 40).get()));
  EXPECT_NE(set.child(SourceKind::kDictItem, self, number(1).get()),
            set.child(SourceKind::kDictItem, self, Py_True));
  EXPECT_NE(set.child(SourceKind::kListItem, self, nullptr, 0),
            set.child(SourceKind::kListItem, self, nullptr, 1));
}

TEST(SourceSet, PinnedObjectsAreThemselves) {
  SourceSet set;
  Ref<> first = stealRef(PyList_New(0)), second = stealRef(PyList_New(0));
  EXPECT_EQ(set.pinned(first.get()), set.pinned(first.get()));
  EXPECT_NE(set.pinned(first.get()), set.pinned(second.get()));
  const Py_ssize_t count = Py_REFCNT(first.get());
  set.pinned(first.get());
  EXPECT_EQ(Py_REFCNT(first.get()), count);
}

TEST(SourceSet, ParentsComeBeforeChildrenHoweverMany) {
  SourceSet set;
  const Source* root = set.root(SourceKind::kGlobals);
  std::vector<const Source*> made;
  for (int i = 0; i < 3000; ++i) {
    made.push_back(set.child(SourceKind::kListItem, i % 3 == 0 || made.empty() ? root : made.back(),
                             nullptr, i));
  }
  EXPECT_EQ(set.size(), 3001u);
  for (const Source* source : made) {
    EXPECT_LT(source->base->id, source->id);
    EXPECT_EQ(&set.at(source->id), source);
    EXPECT_EQ(set.child(source->kind, source->base, nullptr, source->index), source);
  }
  EXPECT_EQ(set.size(), 3001u);
}

TEST(SourceSet, WrongUseIsNoticed) {
  SourceSet set;
  EXPECT_THROW(set.root(SourceKind::kAttr), InternalError);
  EXPECT_THROW(set.child(SourceKind::kAttr, nullptr, text("a").get()), InternalError);
  EXPECT_THROW(set.child(SourceKind::kLocal, set.root(SourceKind::kGlobals)), InternalError);
}

TEST(Source, TraverseReportsWhatTheSetOwns) {
  SourceSet set;
  Ref<> object = stealRef(PyList_New(0));
  set.child(SourceKind::kAttr, set.pinned(object.get()), text("a").get());
  int seen = 0;
  set.traverse([](PyObject*, void* count) { return ++*static_cast<int*>(count), 0; }, &seen);
  EXPECT_EQ(seen, 2);
}

TEST(Source, PeekTakesNoReference) {
  SourceSet set;
  Ref<> list = stealRef(PyList_New(1));
  PyList_SET_ITEM(list.get(), 0, PyDict_New());
  PyObject* item = PyList_GET_ITEM(list.get(), 0);
  const Source* source =
      set.child(SourceKind::kListItem, set.root(SourceKind::kLocal, 0), nullptr, 0);
  PyObject* slots[] = {list.get()};
  Roots roots;
  roots.slots = slots;
  Ref<> keep;
  EXPECT_EQ(peek(*source, list.get(), roots, keep), item);
  EXPECT_FALSE(keep);
  EXPECT_EQ(Py_REFCNT(item), 1);
  EXPECT_EQ(read(*source, roots).get(), item);
  EXPECT_EQ(Py_REFCNT(item), 1);
}

}  // namespace
}  // namespace stator::sources
