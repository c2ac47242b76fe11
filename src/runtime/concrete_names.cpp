// Globals, and the names of class bodies and modules.
#include "base/error_aside.h"
#include "base/text.h"
#include "runtime/concrete.h"

namespace stator::runtime::concrete {
namespace {

// Looks a name up in a namespace that may be any mapping: null without an error set if it is not there.
Ref<> lookUp(PyObject* space, PyObject* name) {
  if (PyDict_CheckExact(space)) return newRef(PyDict_GetItemWithError(space, name));
  Ref<> value = stealRef(PyObject_GetItem(space, name));
  if (!value && PyErr_ExceptionMatches(PyExc_KeyError)) PyErr_Clear();
  return value;
}

Ref<> missingNamespace(const char* what, PyObject* name) {
  PyErr_Format(PyExc_SystemError, what, name);
  return nullptr;
}

int storeIn(PyObject* space, PyObject* name, PyObject* value) {
  return PyDict_CheckExact(space) ? PyDict_SetItem(space, name, value)
                                  : PyObject_SetItem(space, name, value);
}

}  // namespace

Step raiseUndefinedName(PyObject* name) {
  const char* text = utf8OrError(name);
  if (!text) return Step::kRaise;
  PyErr_Format(PyExc_NameError, "name '%.200s' is not defined", text);
  // The name goes into the exception: CPython offers suggestions from it.
  ErrorKept error;
  if (PyErr_GivenExceptionMatches(error.instance(), PyExc_NameError) &&
      PyObject_SetAttrString(error.instance(), "name", name) < 0)
    PyErr_Clear();
  return Step::kRaise;
}

namespace {

// Null, with an error set: also if there is no such name.
Ref<> globalNamed(Machine& m, PyObject* name) {
  PyObject* globals = stator_frame_globals(m.frame);
  PyObject* builtins = stator_frame_builtins(m.frame);
  Ref<> value;
  if (PyDict_CheckExact(globals) && PyDict_CheckExact(builtins)) {
    value = lookUp(globals, name);
  } else {
    // A subclass of dict as globals is asked through __getitem__ (and __missing__) only here, not in LOAD_NAME.
    value = stealRef(PyObject_GetItem(globals, name));
    if (!value && PyErr_ExceptionMatches(PyExc_KeyError)) PyErr_Clear();
  }
  if (!value && !PyErr_Occurred()) value = lookUp(builtins, name);
  if (!value && !PyErr_Occurred()) raiseUndefinedName(name);
  return value;
}

}  // namespace

Step loadGlobal(Machine& m, int oparg) {
  Ref<> value = globalNamed(m, m.name(oparg >> 1));
  if (!value) return Step::kRaise;
  if (oparg & 1) {
    m.pushCallable(std::move(value), nullptr);
  } else {
    m.push(std::move(value));
  }
  return Step::kNext;
}

Step storeGlobal(Machine& m, int oparg) {
  Ref<> value = m.pop();
  return Machine::check(PyDict_SetItem(stator_frame_globals(m.frame), m.name(oparg), value.get()));
}

Step deleteGlobal(Machine& m, int oparg) {
  if (PyDict_DelItem(stator_frame_globals(m.frame), m.name(oparg)) == 0) return Step::kNext;
  return PyErr_ExceptionMatches(PyExc_KeyError) ? raiseUndefinedName(m.name(oparg)) : Step::kRaise;
}

Step loadName(Machine& m, int oparg) {
  PyObject* name = m.name(oparg);
  PyObject* locals = stator_frame_namespace(m.frame);
  if (!locals) return m.finish(missingNamespace(kNoLocalsToLoad, name));
  Ref<> value = lookUp(locals, name);
  if (!value && !PyErr_Occurred())
    value = newRef(PyDict_GetItemWithError(stator_frame_globals(m.frame), name));
  if (!value && !PyErr_Occurred()) value = lookUp(stator_frame_builtins(m.frame), name);
  if (!value) return PyErr_Occurred() ? Step::kRaise : raiseUndefinedName(name);
  m.push(std::move(value));
  return Step::kNext;
}

Step storeName(Machine& m, int oparg) {
  Ref<> value = m.pop();
  PyObject* locals = stator_frame_namespace(m.frame);
  if (!locals) return m.finish(missingNamespace("no locals found when storing %R", m.name(oparg)));
  return Machine::check(storeIn(locals, m.name(oparg), value.get()));
}

Step deleteName(Machine& m, int oparg) {
  PyObject* locals = stator_frame_namespace(m.frame);
  if (!locals) return m.finish(missingNamespace("no locals when deleting %R", m.name(oparg)));
  return PyObject_DelItem(locals, m.name(oparg)) == 0 ? Step::kNext
                                                      : raiseUndefinedName(m.name(oparg));
}

Step loadClassDeref(Machine& m, int oparg) {
  PyObject* name = PyTuple_GET_ITEM(stator_code_slot_names(m.code), oparg);
  Ref<> value = lookUp(stator_frame_namespace(m.frame), name);
  if (value) {
    m.push(std::move(value));
    return Step::kNext;
  }
  return PyErr_Occurred() ? Step::kRaise : loadDeref(m, oparg);
}

Step loadLocals(Machine& m, int) {
  PyObject* locals = stator_frame_namespace(m.frame);
  if (!locals) PyErr_SetString(PyExc_SystemError, "no locals found");
  return m.finish(newRef(locals));
}

// [namespace] -> [value]: of the namespace of a class body that the code around it hands on, then of the cell.
Step loadFromDictOrDeref(Machine& m, int oparg) {
  PyObject* name = PyTuple_GET_ITEM(stator_code_slot_names(m.code), oparg);
  Ref<> value = lookUp(m.peek(1), name);
  if (!value && PyErr_Occurred()) return Step::kRaise;
  if (!value) value = newRef(PyCell_GET(m.slots[oparg]));
  if (!value) return raiseUnboundSlot(m, oparg);
  Ref<> space = m.pop();
  m.push(std::move(value));
  return Step::kNext;
}

Step loadFromDictOrGlobals(Machine& m, int oparg) {
  PyObject* name = m.name(oparg);
  Ref<> value = lookUp(m.peek(1), name);
  if (!value && !PyErr_Occurred()) value = globalNamed(m, name);
  if (!value) return Step::kRaise;
  Ref<> space = m.pop();
  m.push(std::move(value));
  return Step::kNext;
}

Step setupAnnotations(Machine& m, int) {
  PyObject* locals = stator_frame_namespace(m.frame);
  if (!locals) {
    PyErr_SetString(PyExc_SystemError, "no locals found when setting up annotations");
    return Step::kRaise;
  }
  Ref<> key = stealRef(PyUnicode_InternFromString("__annotations__"));
  if (!key) return Step::kRaise;
  if (lookUp(locals, key.get())) return Step::kNext;
  if (PyErr_Occurred()) return Step::kRaise;
  Ref<> made = stealRef(PyDict_New());
  return made ? Machine::check(storeIn(locals, key.get(), made.get())) : Step::kRaise;
}

Step loadBuildClass(Machine& m, int) {
  Ref<> key = stealRef(PyUnicode_InternFromString("__build_class__"));
  if (!key) return Step::kRaise;
  Ref<> value = lookUp(stator_frame_builtins(m.frame), key.get());
  if (!value && !PyErr_Occurred()) PyErr_SetString(PyExc_NameError, "__build_class__ not found");
  return m.finish(std::move(value));
}

Step loadAssertionError(Machine& m, int) {
  m.push(newRef(PyExc_AssertionError));
  return Step::kNext;
}

}  // namespace stator::runtime::concrete
