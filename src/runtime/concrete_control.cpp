// Jumps, iteration, return, structural matching.
#include "runtime/concrete.h"

namespace stator::runtime::concrete {
namespace {

// A jump that is taken; CPython looks at signals when it goes backwards.
Step jumpNow(const Machine& m) {
  return m.instr->target <= m.instr->offset ? Step::kJumpChecked : Step::kJump;
}

Step popJumpIf(Machine& m, bool wanted) {
  Ref<> condition = m.pop();
  int truth = PyObject_IsTrue(condition.get());
  if (truth < 0) return Step::kRaise;
  return (truth != 0) == wanted ? jumpNow(m) : Step::kNext;
}

Step jumpOrPop(Machine& m, bool wanted) {
  int truth = PyObject_IsTrue(m.peek(1));
  if (truth < 0) return Step::kRaise;
  if ((truth != 0) == wanted) return Step::kJump;
  m.pop();
  return Step::kNext;
}

// An attribute for a class pattern: null without an error set if the subject does not have it.
Ref<> patternAttribute(PyObject* subject, PyObject* type, PyObject* name, PyObject* seen) {
  int known = PySet_Contains(seen, name);
  if (known == 0) known = PySet_Add(seen, name);
  if (known != 0) {
    if (!PyErr_Occurred()) {
      PyErr_Format(PyExc_TypeError, "%s() got multiple sub-patterns for attribute %R",
                   reinterpret_cast<PyTypeObject*>(type)->tp_name, name);
    }
    return nullptr;
  }
  Ref<> attribute = stealRef(PyObject_GetAttr(subject, name));
  if (!attribute && PyErr_ExceptionMatches(PyExc_AttributeError)) PyErr_Clear();
  return attribute;
}

// Appends the attributes that the `count` positional sub-patterns ask for; false: no match, or an error is set.
bool matchPositional(PyObject* subject, PyObject* type, int count, PyObject* seen,
                     PyObject* found) {
  const char* type_name = reinterpret_cast<PyTypeObject*>(type)->tp_name;
  Ref<> names = stealRef(PyObject_GetAttrString(type, "__match_args__"));
  bool match_self = false;
  if (!names) {
    if (!PyErr_ExceptionMatches(PyExc_AttributeError)) return false;
    PyErr_Clear();
    names = stealRef(PyTuple_New(0));
    if (!names) return false;
    // int, str and their like stand for themselves as the one sub-pattern, unless a subclass names its own.
    match_self = PyType_HasFeature(reinterpret_cast<PyTypeObject*>(type), _Py_TPFLAGS_MATCH_SELF);
  } else if (!PyTuple_CheckExact(names.get())) {
    PyErr_Format(PyExc_TypeError, "%s.__match_args__ must be a tuple (got %s)", type_name,
                 Py_TYPE(names.get())->tp_name);
    return false;
  }
  Py_ssize_t allowed = match_self ? 1 : PyTuple_GET_SIZE(names.get());
  if (allowed < count) {
    PyErr_Format(PyExc_TypeError, "%s() accepts %d positional sub-pattern%s (%d given)", type_name,
                 static_cast<int>(allowed), allowed == 1 ? "" : "s", count);
    return false;
  }
  if (match_self) return PyList_Append(found, subject) == 0;
  for (int i = 0; i < count; i++) {
    PyObject* name = PyTuple_GET_ITEM(names.get(), i);
    if (!PyUnicode_CheckExact(name)) {
      PyErr_Format(PyExc_TypeError, "__match_args__ elements must be strings (got %s)",
                   Py_TYPE(name)->tp_name);
      return false;
    }
    Ref<> attribute = patternAttribute(subject, type, name, seen);
    if (!attribute || PyList_Append(found, attribute.get()) < 0) return false;
  }
  return true;
}

// Tuple of the attributes, or null: no match, or an error is set.
Ref<> matchedAttributes(PyObject* subject, PyObject* type, int positional, PyObject* keywords) {
  if (!PyType_Check(type)) {
    PyErr_SetString(PyExc_TypeError, kPatternIsNoClass);
    return nullptr;
  }
  if (PyObject_IsInstance(subject, type) <= 0) return nullptr;
  Ref<> seen = stealRef(PySet_New(nullptr));
  Ref<> found = stealRef(PyList_New(0));
  if (!seen || !found) return nullptr;
  if (positional && !matchPositional(subject, type, positional, seen.get(), found.get()))
    return nullptr;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(keywords); i++) {
    Ref<> attribute = patternAttribute(subject, type, PyTuple_GET_ITEM(keywords, i), seen.get());
    if (!attribute || PyList_Append(found.get(), attribute.get()) < 0) return nullptr;
  }
  return stealRef(PyList_AsTuple(found.get()));
}

// Tuple of the mapping's values for the keys, None if one is missing. Keys are asked for by `get` with a default, so
// that a defaultdict does not grow.
Ref<> matchedValues(PyObject* subject, PyObject* keys) {
  const Py_ssize_t count = PyTuple_GET_SIZE(keys);
  Ref<> values = stealRef(PyTuple_New(count));
  if (!values || count == 0) return values;
  Ref<> get = stealRef(PyObject_GetAttrString(subject, "get"));
  if (!get) return nullptr;
  Ref<> seen = stealRef(PySet_New(nullptr));
  Ref<> absent = stealRef(PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&PyBaseObject_Type)));
  if (!seen || !absent) return nullptr;
  for (Py_ssize_t i = 0; i < count; i++) {
    PyObject* key = PyTuple_GET_ITEM(keys, i);
    if (PySet_Contains(seen.get(), key) || PySet_Add(seen.get(), key)) {
      if (!PyErr_Occurred())
        PyErr_Format(PyExc_ValueError, "mapping pattern checks duplicate key (%R)", key);
      return nullptr;
    }
    PyObject* arguments[] = {key, absent.get()};
    Ref<> value = stealRef(PyObject_Vectorcall(get.get(), arguments, 2, nullptr));
    if (!value) return nullptr;
    if (value.get() == absent.get()) return newRef(Py_None);
    PyTuple_SET_ITEM(values.get(), i, value.release());
  }
  return values;
}

Step pushTypeFlag(Machine& m, unsigned long flag) {
  return m.finish(newRef(PyType_HasFeature(Py_TYPE(m.peek(1)), flag) ? Py_True : Py_False));
}

}  // namespace

Step jump(Machine&, int) { return Step::kJump; }
Step jumpBackward(Machine&, int) { return Step::kJumpChecked; }
Step jumpIfFalseOrPop(Machine& m, int) { return jumpOrPop(m, false); }
Step jumpIfTrueOrPop(Machine& m, int) { return jumpOrPop(m, true); }
Step popJumpIfFalse(Machine& m, int) { return popJumpIf(m, false); }
Step popJumpIfTrue(Machine& m, int) { return popJumpIf(m, true); }
Step popJumpIfNone(Machine& m, int) { return m.pop().get() == Py_None ? jumpNow(m) : Step::kNext; }
Step popJumpIfNotNone(Machine& m, int) {
  return m.pop().get() != Py_None ? jumpNow(m) : Step::kNext;
}

Step getIter(Machine& m, int) {
  Ref<> iterable = m.pop();
  return m.finish(stealRef(PyObject_GetIter(iterable.get())));
}

Step forIter(Machine& m, int) {
  PyObject* iterator = m.peek(1);
  Ref<> item = stealRef(Py_TYPE(iterator)->tp_iternext(iterator));
  if (item) {
    m.push(std::move(item));
    return Step::kNext;
  }
  if (PyErr_Occurred()) {
    if (!PyErr_ExceptionMatches(PyExc_StopIteration)) return Step::kRaise;
    PyErr_Clear();
  }
  m.pop();
  return Step::kJump;
}

// FOR_ITER jumps behind it.
Step endFor(Machine& m, int) {
  m.pop();
  m.pop();
  return Step::kNext;
}

Step returnConst(Machine& m, int oparg) {
  m.value = newRef(m.constant(oparg));
  return Step::kReturn;
}

Step returnValue(Machine& m, int) {
  m.value = m.pop();
  return Step::kReturn;
}

Step matchMapping(Machine& m, int) { return pushTypeFlag(m, Py_TPFLAGS_MAPPING); }
Step matchSequence(Machine& m, int) { return pushTypeFlag(m, Py_TPFLAGS_SEQUENCE); }
Step matchKeys(Machine& m, int) { return m.finish(matchedValues(m.peek(2), m.peek(1))); }

Step matchClass(Machine& m, int oparg) {
  Ref<> keywords = m.pop();
  Ref<> type = m.pop();
  Ref<> attributes = matchedAttributes(m.peek(1), type.get(), oparg, keywords.get());
  if (!attributes && PyErr_Occurred()) return Step::kRaise;
  Ref<> subject = m.pop();
  m.push(attributes ? std::move(attributes) : newRef(Py_None));
  return Step::kNext;
}

}  // namespace stator::runtime::concrete
