// Instructions of `match`.
#include "base/check.h"
#include "interpret/calls/calls.h"
#include "interpret/calls/instance_checks.h"
#include "interpret/core/outside.h"
#include "interpret/frames/handlers.h"
#include "interpret/objects/attributes.h"
#include "interpret/objects/contents.h"
#include "interpret/objects/keys.h"
#include "interpret/objects/lookups.h"

namespace stator::interpret::handlers {

Flow matchMapping(Tracer& tracer, SymbolicFrame& frame, const Instr&) {
  PyTypeObject* type = typeOf(tracer, frame.top());
  frame.push(newRef((type->tp_flags & Py_TPFLAGS_MAPPING) != 0 ? Py_True : Py_False));
  advance(frame);
  return Flow::kOk;
}

Flow matchSequence(Tracer& tracer, SymbolicFrame& frame, const Instr&) {
  PyTypeObject* type = typeOf(tracer, frame.top());
  frame.push(newRef((type->tp_flags & Py_TPFLAGS_SEQUENCE) != 0 ? Py_True : Py_False));
  advance(frame);
  return Flow::kOk;
}

Flow matchKeys(Tracer& tracer, SymbolicFrame& frame, const Instr&) {
  PyObject* subject = frame.top(1);
  if (!PyDict_CheckExact(subject))
    return tracer.breakWith(Reason::kUnsupportedObject, "matches a mapping that is no dict");
  STATOR_VALUE(keys, contents(tracer, frame.top()));
  Ref<> found = stealRef(PyTuple_New(PyTuple_GET_SIZE(keys.get())));
  Ref<> seen = stealRef(PySet_New(nullptr));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(keys.get()); ++i) {
    PyObject* key = PyTuple_GET_ITEM(keys.get(), i);
    STATOR_VALUE(repeated, withOwnKeys(tracer, nullptr, [&](PyObject*) -> PyObject* {
                   int there = PySet_Contains(seen.get(), key);
                   if (there < 0 || PySet_Add(seen.get(), key) != 0) return nullptr;
                   return PyBool_FromLong(there);
                 }));
    if (repeated.get() == Py_True) {
      if (!isNativeSafe(tracer, key))
        return tracer.breakWith(Reason::kRaises, "a mapping pattern with a key twice");
      return tracer.raiseNew(PyExc_ValueError, "mapping pattern checks duplicate key (%R)", key);
    }
    STATOR_VALUE(value, dictGet(tracer, subject, key));
    if (!value) {
      frame.push(newRef(Py_None));
      advance(frame);
      return Flow::kOk;
    }
    PyTuple_SET_ITEM(found.get(), i, value.release());
  }
  frame.push(found);
  advance(frame);
  return Flow::kOk;
}

namespace {

// The attributes of a subject that a class pattern asks for, each once.
class ClassPattern {
 public:
  ClassPattern(Tracer& tracer, PyObject* type, PyObject* subject)
      : t_(tracer), type_(reinterpret_cast<PyTypeObject*>(type)), subject_(subject) {}

  // Ok with null: the subject has no such attribute.
  Out ask(PyObject* name) {
    const int there = PySet_Contains(seen_.get(), name);
    if (there < 0) throw PythonError();
    if (there > 0)
      return t_.raiseNew(PyExc_TypeError, "%s() got multiple sub-patterns for attribute %R",
                         type_->tp_name, name);
    if (PySet_Add(seen_.get(), name) != 0) throw PythonError();
    Out value = runEntered(t_, getAttrOrNull(t_, subject_, name));
    if (value.flow() == Flow::kRaise && t_.errors.raisedIs(PyExc_AttributeError)) {
      t_.errors.dropRaised();
      return Ref<>();
    }
    return value;
  }

  // By their places, as __match_args__ names them. Ok with null: the subject lacks one.
  Out askPlaces(int count, PyObject* into) {
    static PyObject* const match_args = PyUnicode_InternFromString("__match_args__");
    auto* type = reinterpret_cast<PyObject*>(type_);
    Out answer = runEntered(t_, getAttrOrNull(t_, type, match_args));
    if (answer.flow() == Flow::kRaise && t_.errors.raisedIs(PyExc_AttributeError)) {
      t_.errors.dropRaised();
      answer = Ref<>();
    }
    STATOR_VALUE(named, std::move(answer));
    if (named && !PyTuple_CheckExact(named.get()))
      return t_.raiseNew(PyExc_TypeError, "%s.__match_args__ must be a tuple (got %s)",
                         type_->tp_name, typeOf(t_, named.get())->tp_name);
    STATOR_VALUE(fields, named ? contents(t_, named.get()) : Out(stealRef(PyTuple_New(0))));
    const bool whole = !named && (type_->tp_flags & _Py_TPFLAGS_MATCH_SELF) != 0;
    const Py_ssize_t most = whole ? 1 : PyTuple_GET_SIZE(fields.get());
    if (most < count)
      return t_.raiseNew(PyExc_TypeError, "%s() accepts %zd positional sub-pattern%s (%d given)",
                         type_->tp_name, most, most == 1 ? "" : "s", count);
    if (whole) PyList_Append(into, subject_);
    for (int i = 0; !whole && i < count; ++i) {
      PyObject* name = PyTuple_GET_ITEM(fields.get(), i);
      if (!PyUnicode_CheckExact(name))
        return t_.raiseNew(PyExc_TypeError, "__match_args__ elements must be strings (got %s)",
                           typeOf(t_, name)->tp_name);
      STATOR_VALUE(value, ask(name));
      if (!value) return Ref<>();
      PyList_Append(into, value.get());
    }
    return newRef(Py_None);
  }

 private:
  Tracer& t_;
  PyTypeObject* type_;
  PyObject* subject_;
  Ref<> seen_ = stealRef(PySet_New(nullptr));
};

}  // namespace

Flow matchClass(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  PyObject* names = frame.top();
  PyObject* type = frame.top(1);
  PyObject* subject = frame.top(2);
  if (graph::isStandIn(type) || !PyType_Check(type))
    return tracer.raiseNew(PyExc_TypeError, kPatternIsNoClass);
  STATOR_VALUE(fits, isInstance(tracer, subject, type));
  if (fits.get() != Py_True) return deliver(tracer, frame, newRef(Py_None), 3);
  ClassPattern pattern(tracer, type, subject);
  Ref<> attributes = stealRef(PyList_New(0));
  if (instr.oparg > 0) {
    STATOR_VALUE(all, pattern.askPlaces(instr.oparg, attributes.get()));
    if (!all) return deliver(tracer, frame, newRef(Py_None), 3);
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); ++i) {
    STATOR_VALUE(value, pattern.ask(PyTuple_GET_ITEM(names, i)));
    if (!value) return deliver(tracer, frame, newRef(Py_None), 3);
    PyList_Append(attributes.get(), value.get());
  }
  return deliver(tracer, frame, stealRef(PyList_AsTuple(attributes.get())), 3);
}

}  // namespace stator::interpret::handlers
