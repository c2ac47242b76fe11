// Told of changes instead of looking for them (python/watchers.h): on CPython 3.12 and later a record (replay.h)
// watches the dicts that it rests on, and as long as nobody changed one of them, or assigned a class or dict to any
// object, only what nobody tells of is looked at.
#pragma once

#include "python/watchers.h"

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace stator::guards {

class Watch {
 public:
  static std::unique_ptr<Watch> begin();  // null: nobody tells of changes here
  ~Watch();
  Watch(const Watch&) = delete;
  // From here on; to be called before the dict's version is read. Not held: one that goes is told of too.
  void add(PyObject* dict);
  // Whether nothing but an assignment can give instances of the type another class or dict.
  bool tellsOf(PyTypeObject* type);
  bool quiet() const { return told_.empty() && assignments_ == stator_assignments; }
  // All that it rests on was looked at and is as it was.
  void resume();

 private:
  Watch() : assignments_(stator_assignments) {}
  static void onChange(PyObject* dict, int goes);

  uint64_t assignments_;
  std::unordered_set<PyObject*> told_;  // dicts that changed since; not watched, perhaps gone
  std::vector<PyObject*> dicts_;        // all it ever watched
  std::unordered_map<PyTypeObject*, bool> types_;
};

}  // namespace stator::guards
