#include "base/ref.h"

#include <gtest/gtest.h>
#include <utility>

namespace stator {
namespace {

TEST(Ref, StealTakesOverTheCallersReference) {
  PyObject* list = PyList_New(0);
  Py_INCREF(list);
  {
    Ref<> owner = Ref<>::steal(list);
    EXPECT_EQ(Py_REFCNT(list), 2);
  }
  EXPECT_EQ(Py_REFCNT(list), 1);
  Py_DECREF(list);
}

TEST(Ref, CreateAndCopyOwnReferencesOfTheirOwn) {
  Ref<> list = Ref<>::steal(PyList_New(0));
  {
    Ref<> second = Ref<>::create(list.get());
    Ref<> third = second;
    EXPECT_EQ(Py_REFCNT(list.get()), 3);
    Ref<> moved = std::move(third);
    EXPECT_EQ(Py_REFCNT(list.get()), 3);
    EXPECT_FALSE(third);
  }
  EXPECT_EQ(Py_REFCNT(list.get()), 1);
}

TEST(Ref, AssignmentToItselfKeepsTheObject) {
  Ref<> list = Ref<>::steal(PyList_New(0));
  Ref<>& alias = list;
  list = alias;
  EXPECT_EQ(Py_REFCNT(list.get()), 1);
}

TEST(Ref, ReleaseHandsTheReferenceOut) {
  Ref<> list = Ref<>::steal(PyList_New(0));
  PyObject* raw = list.release();
  EXPECT_FALSE(list);
  EXPECT_EQ(Py_REFCNT(raw), 1);
  Py_DECREF(raw);
}

}  // namespace
}  // namespace stator
