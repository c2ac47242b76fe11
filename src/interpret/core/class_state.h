// What the trace did to classes, and which of them are guarded already.
#pragma once

#include "base/ref.h"

#include <unordered_set>
#include <utility>
#include <vector>

namespace stator::interpret {

class ClassState {
 public:
  // `object.__class__ = ...` of objects from outside. They are of the new class for as long as the trace runs: all of
  // it goes by their types.
  struct Change {
    Ref<> object, before, now;
  };
  const std::vector<Change>& changes() const { return changes_; }  // by the first change of each
  void change(PyObject* object, Ref<> before, PyObject* now);
  // The trace is over: objects get the classes back that they had.
  void restore();

  bool anyWritten() const { return any_written_; }  // some class has an overlay
  void noteWritten() { any_written_ = true; }

  // True once for each class: its part in attribute access is to be guarded, as the object's class or as the class of
  // an entry in a class.
  bool firstAsOwner(PyTypeObject* type) { return owners_.insert(type).second; }
  bool firstAsDescriptor(PyTypeObject* type) { return descriptors_.insert(type).second; }

 private:
  std::vector<Change> changes_;
  bool any_written_ = false;
  std::unordered_set<PyTypeObject*> owners_, descriptors_;
};

PyObject* classDescriptor();  // object.__class__, borrowed

}  // namespace stator::interpret
