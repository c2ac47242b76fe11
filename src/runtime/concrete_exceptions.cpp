// raise, except, except*, with. The exception that handlers are busy with lives in the thread's exc_info; PUSH_EXC_INFO
// saves the outer one on the stack and POP_EXCEPT puts it back.
#include "base/error_aside.h"
#include "runtime/active.h"
#include "runtime/concrete.h"

namespace stator::runtime::concrete {
namespace {

// Sets the exception as the current error, with the traceback that it already has.
Step restore(Ref<> exception) {
  setError(std::move(exception));
  return Step::kReraise;
}

Ref<> instantiate(PyObject* type) {
  Ref<> value = stealRef(PyObject_CallNoArgs(type));
  if (value && !PyExceptionInstance_Check(value.get())) {
    PyErr_Format(PyExc_TypeError,
                 "calling %R should have returned an instance of BaseException, not %R", type,
                 Py_TYPE(value.get()));
    return nullptr;
  }
  return value;
}

// False with an error set if the `from` clause is no exception.
bool setCause(PyObject* exception, Ref<> cause) {
  if (PyExceptionClass_Check(cause.get())) {
    cause = stealRef(PyObject_CallNoArgs(cause.get()));
    if (!cause) return false;
  } else if (cause.get() == Py_None) {
    cause.reset();
  } else if (!PyExceptionInstance_Check(cause.get())) {
    PyErr_SetString(PyExc_TypeError, "exception causes must derive from BaseException");
    return false;
  }
  PyException_SetCause(exception, cause.release());
  return true;
}

// Calls `test` for the class, or each of the tuple of classes, that a handler names.
template <class Test>
bool allCatchable(PyObject* wanted, Test test) {
  if (!PyTuple_Check(wanted)) return test(wanted);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(wanted); i++) {
    if (!test(PyTuple_GET_ITEM(wanted, i))) return false;
  }
  return true;
}

bool checkCatchable(PyObject* wanted) {
  return allCatchable(wanted, [](PyObject* one) {
    if (PyExceptionClass_Check(one)) return true;
    PyErr_SetString(PyExc_TypeError,
                    "catching classes that do not inherit from BaseException is not allowed");
    return false;
  });
}

bool checkStarCatchable(PyObject* wanted) {
  return checkCatchable(wanted) && allCatchable(wanted, [](PyObject* one) {
           int group = PyObject_IsSubclass(one, PyExc_BaseExceptionGroup);
           if (group > 0) {
             PyErr_SetString(
                 PyExc_TypeError,
                 "catching ExceptionGroup with except* is not allowed. Use except instead.");
           }
           return group == 0;
         });
}

bool isGroup(PyObject* value) {
  return PyObject_TypeCheck(value, reinterpret_cast<PyTypeObject*>(PyExc_BaseExceptionGroup));
}

struct Split {
  Ref<> match;
  Ref<> rest;
};

// What an except* clause takes of the exception and what it leaves; both null with an error set.
Split splitGroup(PyObject* exception, PyObject* wanted) {
  if (exception == Py_None) return {newRef(Py_None), newRef(Py_None)};
  if (PyErr_GivenExceptionMatches(exception, wanted)) {
    if (isGroup(exception)) return {newRef(exception), newRef(Py_None)};
    Ref<> members = stealRef(PyTuple_Pack(1, exception));
    if (!members) return {};
    Ref<> wrapped =
        stealRef(PyObject_CallFunction(PyExc_BaseExceptionGroup, "sO", "", members.get()));
    return wrapped ? Split{std::move(wrapped), newRef(Py_None)} : Split{};
  }
  if (!isGroup(exception)) return {newRef(Py_None), newRef(Py_None)};
  Ref<> pair = stealRef(PyObject_CallMethod(exception, "split", "(O)", wanted));
  if (!pair) return {};
  if (!PyTuple_CheckExact(pair.get()) || PyTuple_GET_SIZE(pair.get()) < 2) {
    PyErr_Format(PyExc_TypeError, "%.200s.split must return a 2-tuple",
                 Py_TYPE(exception)->tp_name);
    return {};
  }
  return {newRef(PyTuple_GET_ITEM(pair.get(), 0)), newRef(PyTuple_GET_ITEM(pair.get(), 1))};
}

}  // namespace

Step raiseVarargs(Machine& m, int oparg) {
  if (oparg == 0) {
    PyObject* handled = stator_topmost_exception();
    if (!handled || handled == Py_None) {
      PyErr_SetString(PyExc_RuntimeError, "No active exception to reraise");
      return Step::kRaise;
    }
    return restore(newRef(handled));
  }
  Ref<> cause = oparg == 2 ? m.pop() : nullptr;
  Ref<> exception = m.pop();
  if (PyExceptionClass_Check(exception.get())) {
    exception = instantiate(exception.get());
    if (!exception) return Step::kRaise;
  } else if (!PyExceptionInstance_Check(exception.get())) {
    PyErr_SetString(PyExc_TypeError, "exceptions must derive from BaseException");
    return Step::kRaise;
  }
  if (cause && !setCause(exception.get(), std::move(cause))) return Step::kRaise;
  PyErr_SetObject(PyExceptionInstance_Class(exception.get()), exception.get());
  return Step::kRaise;
}

// With an argument, the stack also holds the index of the instruction that raised first: the frame's line goes back
// there.
Step reraise(Machine& m, int oparg) {
  if (oparg) {
    PyObject* lasti = m.peek(oparg + 1);
    if (!PyLong_Check(lasti)) {
      PyErr_SetString(PyExc_SystemError, "lasti is not an int");
      return Step::kRaise;
    }
    stator_frame_set_offset(m.frame, static_cast<int>(PyLong_AsLong(lasti)) * 2);
  }
  return restore(m.pop());
}

// [delegated to, last value, exception] -> [None, returned], where the delegated one has ended while an exception was
// thrown into it.
Step cleanupThrow(Machine& m, int) {
  if (!PyErr_GivenExceptionMatches(m.peek(1), PyExc_StopIteration))
    return restore(newRef(m.peek(1)));
  Ref<> returned = stealRef(PyObject_GetAttrString(m.peek(1), "value"));
  if (!returned) return Step::kRaise;
  Ref<> exception = m.pop();
  Ref<> sent = m.pop();
  Ref<> delegate = m.pop();
  m.push(newRef(Py_None));
  m.push(std::move(returned));
  return Step::kNext;
}

Step pushExcInfo(Machine& m, int) {
  Ref<> exception = m.pop();
  PyObject* outer = stator_handled_exception();
  m.push(newRef(outer ? outer : Py_None));
  stator_set_handled_exception(exception.get());
  m.push(std::move(exception));
  return Step::kNext;
}

Step popExcept(Machine& m, int) {
  Ref<> outer = m.pop();
  stator_set_handled_exception(outer.get());
  return Step::kNext;
}

Step checkExcMatch(Machine& m, int) {
  Ref<> wanted = m.pop();
  if (!checkCatchable(wanted.get())) return Step::kRaise;
  int matches = PyErr_GivenExceptionMatches(m.peek(1), wanted.get());
  m.push(newRef(matches ? Py_True : Py_False));
  return Step::kNext;
}

// [exception, types] -> [rest, match], or [exception, None] if nothing matches.
Step checkEgMatch(Machine& m, int) {
  Ref<> wanted = m.pop();
  if (!checkStarCatchable(wanted.get())) return Step::kRaise;
  Split split = splitGroup(m.peek(1), wanted.get());
  wanted.reset();
  if (!split.match || !split.rest) return Step::kRaise;
  if (split.match.get() != Py_None) {
    Ref<> exception = stealRef(std::exchange(m.peek(1), split.rest.release()));
    m.push(split.match);
    stator_set_handled_exception(split.match.get());
    return Step::kNext;
  }
  m.push(std::move(split.match));
  return Step::kNext;
}

Step prepReraiseStar(Machine& m, int) {
  Ref<> raised = m.pop();
  Ref<> original = m.pop();
  HookDisabledScope native;
  return m.finish(stealRef(stator_prep_reraise_star(original.get(), raised.get())));
}

namespace {

// [manager] -> [exit method, result of entering].
Step enterContext(Machine& m, const char* enter_name, const char* exit_name, const char* protocol) {
  auto look_up = [&](const char* name, const char* missed) -> Ref<> {
    Ref<> key = stealRef(PyUnicode_InternFromString(name));
    Ref<> method = key ? stealRef(stator_lookup_special(m.peek(1), key.get())) : nullptr;
    if (!method && !PyErr_Occurred()) {
      PyErr_Format(PyExc_TypeError, "'%.200s' object does not support the %s protocol%s",
                   Py_TYPE(m.peek(1))->tp_name, protocol, missed);
    }
    return method;
  };
  Ref<> enter = look_up(enter_name, "");
  if (!enter) return Step::kRaise;
  Ref<> exit = look_up(
      exit_name, exit_name[2] == 'a' ? " (missed __aexit__ method)" : " (missed __exit__ method)");
  if (!exit) return Step::kRaise;
  stealRef(std::exchange(m.peek(1), exit.release()));  // drops the manager
  return m.finish(stealRef(PyObject_CallNoArgs(enter.get())));
}

}  // namespace

Step beforeWith(Machine& m, int) {
  return enterContext(m, "__enter__", "__exit__", "context manager");
}
Step beforeAsyncWith(Machine& m, int) {
  return enterContext(m, "__aenter__", "__aexit__", "asynchronous context manager");
}

// The stack holds the exit method, lasti, the outer exception, the exception.
Step withExceptStart(Machine& m, int) {
  PyObject* exception = m.peek(1);
  Ref<> traceback = stealRef(PyException_GetTraceback(exception));
  // The exception keeps its traceback alive; None stands for none.
  PyObject* arguments[] = {nullptr, PyExceptionInstance_Class(exception), exception,
                           traceback ? traceback.get() : Py_None};
  traceback.reset();
  return m.finish(stealRef(
      PyObject_Vectorcall(m.peek(4), arguments + 1, 3 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr)));
}

}  // namespace stator::runtime::concrete
