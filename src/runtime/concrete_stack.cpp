// Stack, fast locals, cells.
#include "base/error_aside.h"
#include "runtime/concrete.h"

namespace stator::runtime::concrete {

Step nop(Machine&, int) { return Step::kNext; }

// RESUME 0 is a function's start and 1 a generator's after `yield`; CPython looks at signals there, but not inside
// `yield from` and `await` (2, 3), where the innermost generator is to be interrupted.
Step resume(Machine&, int oparg) { return oparg < 2 ? Step::kNextChecked : Step::kNext; }

Step popTop(Machine& m, int) {
  m.pop();
  return Step::kNext;
}

Step pushNull(Machine& m, int) {
  m.push(nullptr);
  return Step::kNext;
}

Step copy(Machine& m, int oparg) {
  m.push(newRef(m.peek(oparg)));
  return Step::kNext;
}

Step swap(Machine& m, int oparg) {
  std::swap(m.peek(1), m.peek(oparg));
  return Step::kNext;
}

Step loadConst(Machine& m, int oparg) {
  m.push(newRef(m.constant(oparg)));
  return Step::kNext;
}

Step loadFast(Machine& m, int oparg) {
  PyObject* value = m.slots[oparg];
  if (!value) {
    PyErr_Format(PyExc_UnboundLocalError,
                 "cannot access local variable '%U' where it is not associated with a value",
                 PyTuple_GET_ITEM(stator_code_slot_names(m.code), oparg));
    return Step::kRaise;
  }
  m.push(newRef(value));
  return Step::kNext;
}

Step storeFast(Machine& m, int oparg) {
  Ref<> value = m.pop();
  // The old value dies when the new one is in place: its destructor may look at the frame.
  Ref<> old = stealRef(std::exchange(m.slots[oparg], value.release()));
  return Step::kNext;
}

// For a name of an inlined comprehension: the function's own value waits on the stack, NULL if it has none.
Step loadFastAndClear(Machine& m, int oparg) {
  m.push(stealRef(std::exchange(m.slots[oparg], nullptr)));
  return Step::kNext;
}

// Two slots in one argument, the first to be dealt with in the upper bits.
Step loadFastLoadFast(Machine& m, int oparg) {
  const Step first = loadFast(m, oparg >> 4);
  return first == Step::kNext ? loadFast(m, oparg & 15) : first;
}
Step storeFastLoadFast(Machine& m, int oparg) {
  storeFast(m, oparg >> 4);
  return loadFast(m, oparg & 15);
}
Step storeFastStoreFast(Machine& m, int oparg) {
  storeFast(m, oparg >> 4);
  return storeFast(m, oparg & 15);
}

Step deleteFast(Machine& m, int oparg) {
  if (!m.slots[oparg]) return loadFast(m, oparg);  // raises
  Ref<> old = stealRef(std::exchange(m.slots[oparg], nullptr));
  return Step::kNext;
}

Step raiseUnboundSlot(const Machine& m, int slot) {
  PyObject* name = PyTuple_GET_ITEM(stator_code_slot_names(m.code), slot);
  if (slot < m.info->slotCount() - PyCode_GetNumFree(m.code)) {
    PyErr_Format(PyExc_UnboundLocalError,
                 "cannot access local variable '%U' where it is not associated with a value", name);
  } else {
    PyErr_Format(PyExc_NameError,
                 "cannot access free variable '%U' where it is not associated with a value in "
                 "enclosing scope",
                 name);
    ErrorKept error;
    if (PyObject_SetAttrString(error.instance(), "name", name) < 0) PyErr_Clear();
  }
  return Step::kRaise;
}

Step loadDeref(Machine& m, int oparg) {
  PyObject* value = PyCell_GET(m.slots[oparg]);
  if (!value) return raiseUnboundSlot(m, oparg);
  m.push(newRef(value));
  return Step::kNext;
}

Step storeDeref(Machine& m, int oparg) {
  Ref<> value = m.pop();
  PyObject* cell = m.slots[oparg];
  Ref<> old = stealRef(PyCell_GET(cell));
  PyCell_SET(cell, value.release());
  return Step::kNext;
}

Step deleteDeref(Machine& m, int oparg) {
  PyObject* cell = m.slots[oparg];
  Ref<> old = stealRef(PyCell_GET(cell));
  if (!old) return raiseUnboundSlot(m, oparg);
  PyCell_SET(cell, nullptr);
  return Step::kNext;
}

Step makeCell(Machine& m, int oparg) {
  Ref<> cell = stealRef(PyCell_New(m.slots[oparg]));
  if (!cell) return Step::kRaise;
  Ref<> initial = stealRef(std::exchange(m.slots[oparg], cell.release()));
  return Step::kNext;
}

Step copyFreeVars(Machine& m, int oparg) {
  PyObject* closure = stator_frame_function(m.frame)->func_closure;
  int first = m.info->slotCount() - oparg;
  for (int i = 0; i < oparg; i++)
    m.slots[first + i] = newRef(PyTuple_GET_ITEM(closure, i)).release();
  return Step::kNext;
}

}  // namespace stator::runtime::concrete
