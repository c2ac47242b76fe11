// Calls, and making functions.
#include "runtime/concrete.h"
#include "runtime/hook.h"

namespace stator::runtime::concrete {
namespace {

Ref<> describe(PyObject* function) {
  PyErr_Clear();
  return stealRef(_PyObject_FunctionStr(function));
}

// Where a call's operands lie: the callable and then self, or the callable and NULL in the version's order, or
// (function, self) once a bound method is taken apart; the arguments follow.
struct Operands {
  PyObject** first;
  bool with_self;

  Operands(Machine& m, int count) : first(&m.peek(count + 2)) {
    takeMethodApart();
    with_self = kNullBehindCallable ? first[1] != nullptr : first[0] != nullptr;
  }
  PyObject* callable() const { return first[kNullBehindCallable || with_self ? 0 : 1]; }
  PyObject** arguments() const { return first + (with_self ? 1 : 2); }

 private:
  // So that the call needs no tuple of its own for `self`.
  void takeMethodApart() {
    if (first[kNullBehindCallable ? 1 : 0]) return;
    PyObject* callable = first[kNullBehindCallable ? 0 : 1];
    if (Py_TYPE(callable) != &PyMethod_Type) return;
    Ref<> method = stealRef(callable);
    first[0] = newRef(PyMethod_GET_FUNCTION(callable)).release();
    first[1] = newRef(PyMethod_GET_SELF(callable)).release();
  }
};

Step callOperands(Machine& m, int oparg, PyObject* keywords) {
  const Operands operands(m, oparg);
  const Py_ssize_t positional =
      oparg + operands.with_self - (keywords ? PyTuple_GET_SIZE(keywords) : 0);
  // CPython moves the operands of a call of a Python function into the new frame, so that the callee can be the last to
  // hold them.
  Handover handover(m, operands.callable(), oparg + 2);
  Ref<> result =
      stealRef(PyObject_Vectorcall(operands.callable(), operands.arguments(),
                                   positional | PY_VECTORCALL_ARGUMENTS_OFFSET, keywords));
  handover.finish();
  if (!result) return Step::kRaise;
  m.push(std::move(result));
  return Step::kNextChecked;
}

}  // namespace

// KW_NAMES, if there, names the last of the arguments.
Step callUnit(Machine& m, int oparg) {
  PyObject* keywords = nullptr;
  if (m.instr->opcode == KW_NAMES) {
    keywords = m.constant(oparg);
    m.instr++;
  }
  if (m.instr->opcode == PRECALL) m.instr++;
  stator_frame_set_offset(m.frame, m.instr->opcode_offset);
  return callOperands(m, m.instr->oparg, keywords);
}

// The names are on top of the arguments.
Step callKw(Machine& m, int oparg) {
  Ref<> keywords = m.pop();
  return callOperands(m, oparg, keywords.get());
}

void rewordKeywordError(PyObject* function, PyObject* keywords) {
  if (PyErr_ExceptionMatches(PyExc_AttributeError)) {
    // The lookup of `keys` failed: not a mapping.
    if (Ref<> text = describe(function)) {
      PyErr_Format(PyExc_TypeError, "%U argument after ** must be a mapping, not %.200s",
                   text.get(), Py_TYPE(keywords)->tp_name);
    }
  } else if (PyErr_ExceptionMatches(PyExc_KeyError)) {
    Ref<> key = stealRef(stator_take_repeated_key());
    if (!key) return;
    if (Ref<> text = describe(function)) {
      PyErr_Format(PyExc_TypeError, "%U got multiple values for keyword argument '%S'", text.get(),
                   key.get());
    }
  }
}

Step callFunctionEx(Machine& m, int oparg) {
  // Below the argument tuple.
  constexpr int kCallable = kNullBehindCallable ? 2 : 1;
  Ref<> keywords;
  if (oparg & 1) {
    keywords = m.pop();
    if (!PyDict_CheckExact(keywords.get())) {
      Ref<> merged = stealRef(PyDict_New());
      if (!merged) return Step::kRaise;
      if (_PyDict_MergeEx(merged.get(), keywords.get(), 2) < 0) {
        rewordKeywordError(m.peek(kCallable + 1), keywords.get());
        return Step::kRaise;
      }
      keywords = std::move(merged);
    }
  }
  Ref<> arguments = m.pop();
  if (!PyTuple_CheckExact(arguments.get())) {
    if (!Py_TYPE(arguments.get())->tp_iter && !PySequence_Check(arguments.get())) {
      if (Ref<> text = describe(m.peek(kCallable))) {
        PyErr_Format(PyExc_TypeError, "%U argument after * must be an iterable, not %.200s",
                     text.get(), Py_TYPE(arguments.get())->tp_name);
      }
      return Step::kRaise;
    }
    arguments = stealRef(PySequence_Tuple(arguments.get()));
    if (!arguments) return Step::kRaise;
  }
  Ref<> result = stealRef(PyObject_Call(m.peek(kCallable), arguments.get(), keywords.get()));
  // CPython drops the callable first; the other of both is NULL.
  if (kNullBehindCallable) m.pop();
  m.pop();
  arguments.reset();
  keywords.reset();
  if (!kNullBehindCallable) m.pop();
  if (!result) return Step::kRaise;
  m.push(std::move(result));
  return Step::kNextChecked;
}

Step makeFunction(Machine& m, int oparg) {
  Ref<> code = m.pop();
  Ref<> made = stealRef(PyFunction_New(code.get(), stator_frame_globals(m.frame)));
  code.reset();
  if (!made) return Step::kRaise;
  auto* function = reinterpret_cast<PyFunctionObject*>(made.get());
  if (oparg & 8) function->func_closure = m.pop().release();
  if (oparg & 4) function->func_annotations = m.pop().release();
  if (oparg & 2) function->func_kwdefaults = m.pop().release();
  if (oparg & 1) function->func_defaults = m.pop().release();
  m.push(std::move(made));
  return Step::kNext;
}

// [attribute, function] -> [function]; the argument says which attribute.
Step setFunctionAttribute(Machine& m, int oparg) {
  Ref<> made = m.pop();
  auto* function = reinterpret_cast<PyFunctionObject*>(made.get());
  PyObject*& place = oparg == 8   ? function->func_closure
                     : oparg == 4 ? function->func_annotations
                     : oparg == 2 ? function->func_kwdefaults
                                  : function->func_defaults;
  place = m.pop().release();
  m.push(std::move(made));
  return Step::kNext;
}

}  // namespace stator::runtime::concrete
