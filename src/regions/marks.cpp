#include "regions/marks.h"

#include <unordered_set>

namespace stator::regions {

namespace {

std::unordered_set<const PyCodeObject*>& marked() {
  static std::unordered_set<const PyCodeObject*> codes;
  return codes;
}

}  // namespace

void noteMarked(PyObject* function) {
  if (PyMethod_Check(function)) function = PyMethod_GET_FUNCTION(function);
  if (!PyFunction_Check(function)) return;
  marked().insert(reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function)));
}

bool hasMarked() { return !marked().empty(); }

bool isMarked(const graph::Node& node) {
  for (const auto* at = node.location; at != nullptr; at = at->caller) {
    if (marked().count(at->code.get()) != 0) return true;
  }
  return false;
}

}  // namespace stator::regions
