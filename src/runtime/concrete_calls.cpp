// Calls, and making functions.
#include "runtime/concrete.h"
#include "runtime/hook.h"

namespace stator::runtime::concrete {
namespace {

Ref<> describe(PyObject* function) {
  PyErr_Clear();
  return stealRef(_PyObject_FunctionStr(function));
}

// PRECALL's part: a bound method in the callable's place is taken apart, so that the call needs no tuple of its own for `self`.
void takeMethodApart(Machine& m, int oparg) {
  if (m.peek(oparg + 2)) return;
  PyObject* callable = m.peek(oparg + 1);
  if (Py_TYPE(callable) != &PyMethod_Type) return;
  Ref<> method = stealRef(callable);
  m.peek(oparg + 1) = newRef(PyMethod_GET_SELF(callable)).release();
  m.peek(oparg + 2) = newRef(PyMethod_GET_FUNCTION(callable)).release();
}

}  // namespace

// The stack holds NULL, callable, arguments; or function, self, arguments. KW_NAMES, if there, names the last of the arguments.
Step callUnit(Machine& m, int oparg) {
  PyObject* keywords = nullptr;
  if (m.instr->opcode == KW_NAMES) {
    keywords = m.constant(oparg);
    m.instr++;
  }
  if (m.instr->opcode == PRECALL) m.instr++;
  oparg = m.instr->oparg;
  stator_frame_set_offset(m.frame, m.instr->opcode_offset);
  takeMethodApart(m, oparg);

  const bool with_self = m.peek(oparg + 2) != nullptr;
  const int total = oparg + with_self;
  PyObject* callable = m.peek(total + 1);
  PyObject** arguments = m.slots + *m.top - total;
  const Py_ssize_t positional = total - (keywords ? PyTuple_GET_SIZE(keywords) : 0);

  // CPython moves the operands of a call of a Python function into the new frame, so that the callee can be the last to hold them.
  Handover handover(m, callable, oparg + 2);
  Ref<> result = stealRef(PyObject_Vectorcall(
      callable, arguments, positional | PY_VECTORCALL_ARGUMENTS_OFFSET, keywords));
  handover.finish();
  if (!result) return Step::kRaise;
  m.push(std::move(result));
  return Step::kNextChecked;
}

void rewordKeywordError(PyObject* function, PyObject* keywords) {
  if (PyErr_ExceptionMatches(PyExc_AttributeError)) {
    // The lookup of `keys` failed: not a mapping.
    if (Ref<> text = describe(function)) {
      PyErr_Format(PyExc_TypeError, "%U argument after ** must be a mapping, not %.200s",
                   text.get(), Py_TYPE(keywords)->tp_name);
    }
  } else if (PyErr_ExceptionMatches(PyExc_KeyError)) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    // A key that occurs twice comes as the bare argument tuple of a KeyError that was not made yet.
    if (!value || !PyTuple_Check(value) || PyTuple_GET_SIZE(value) != 1)
      return PyErr_Restore(type, value, traceback);
    Ref<> owned[] = {stealRef(type), stealRef(value), stealRef(traceback)};
    if (Ref<> text = describe(function)) {
      PyErr_Format(PyExc_TypeError, "%U got multiple values for keyword argument '%S'", text.get(),
                   PyTuple_GET_ITEM(value, 0));
    }
  }
}

Step callFunctionEx(Machine& m, int oparg) {
  Ref<> keywords;
  if (oparg & 1) {
    keywords = m.pop();
    if (!PyDict_CheckExact(keywords.get())) {
      Ref<> merged = stealRef(PyDict_New());
      if (!merged) return Step::kRaise;
      if (_PyDict_MergeEx(merged.get(), keywords.get(), 2) < 0) {
        rewordKeywordError(m.peek(2), keywords.get());
        return Step::kRaise;
      }
      keywords = std::move(merged);
    }
  }
  Ref<> arguments = m.pop();
  if (!PyTuple_CheckExact(arguments.get())) {
    if (!Py_TYPE(arguments.get())->tp_iter && !PySequence_Check(arguments.get())) {
      if (Ref<> text = describe(m.peek(1))) {
        PyErr_Format(PyExc_TypeError, "%U argument after * must be an iterable, not %.200s",
                     text.get(), Py_TYPE(arguments.get())->tp_name);
      }
      return Step::kRaise;
    }
    arguments = stealRef(PySequence_Tuple(arguments.get()));
    if (!arguments) return Step::kRaise;
  }
  Ref<> result = stealRef(PyObject_Call(m.peek(1), arguments.get(), keywords.get()));
  m.pop();
  arguments.reset();
  keywords.reset();
  m.pop();  // the NULL below the callable
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

}  // namespace stator::runtime::concrete
