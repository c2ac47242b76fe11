// Generators, coroutines, async iteration.
#include "runtime/concrete.h"

namespace stator::runtime::concrete {
namespace {

// A generator that types.coroutine has marked can be awaited.
bool isIterableCoroutine(PyObject* object) {
  if (!PyGen_CheckExact(object)) return false;
  Ref<> code = stealRef(PyObject_GetAttrString(object, "gi_code"));
  if (!code || !PyCode_Check(code.get())) {
    PyErr_Clear();
    return false;
  }
  return reinterpret_cast<PyCodeObject*>(code.get())->co_flags & CO_ITERABLE_COROUTINE;
}

bool isCoroutine(PyObject* object) {
  return PyCoro_CheckExact(object) || isIterableCoroutine(object);
}

unaryfunc asyncSlot(PyObject* object, unaryfunc PyAsyncMethods::* slot) {
  PyAsyncMethods* methods = Py_TYPE(object)->tp_as_async;
  return methods ? methods->*slot : nullptr;
}

// What `await object` iterates over; null with an error set.
Ref<> awaitableIterator(PyObject* object) {
  if (isCoroutine(object)) return newRef(object);
  unaryfunc await = asyncSlot(object, &PyAsyncMethods::am_await);
  if (!await) {
    PyErr_Format(PyExc_TypeError, "object %.100s can't be used in 'await' expression",
                 Py_TYPE(object)->tp_name);
    return nullptr;
  }
  Ref<> iterator = stealRef(await(object));
  if (!iterator) return nullptr;
  if (isCoroutine(iterator.get())) {
    PyErr_SetString(PyExc_TypeError, "__await__() returned a coroutine");
    return nullptr;
  }
  if (!PyIter_Check(iterator.get())) {
    PyErr_Format(PyExc_TypeError, "__await__() returned non-iterator of type '%.100s'",
                 Py_TYPE(iterator.get())->tp_name);
    return nullptr;
  }
  return iterator;
}

}  // namespace

// CPython makes the generator itself: the driver leaves a frame that is about to do so to it.
Step returnGenerator(Machine&, int) {
  PyErr_SetString(PyExc_SystemError, "stator: RETURN_GENERATOR reached the driver");
  return Step::kRaise;
}

Step yieldValue(Machine& m, int) {
  m.value = m.pop();
  return Step::kYield;
}

// [receiver, value] -> [receiver, yielded], or [returned] and the jump.
Step send(Machine& m, int) {
  Ref<> value = m.pop();
  PyObject* answer = nullptr;
  PySendResult status = PyIter_Send(m.peek(1), value.get(), &answer);
  value.reset();
  if (status == PYGEN_ERROR) return Step::kRaise;
  if (status == PYGEN_RETURN) {
    Ref<> receiver = m.pop();
    receiver.reset();
    m.push(stealRef(answer));
    return Step::kJump;
  }
  m.push(stealRef(answer));
  return Step::kNext;
}

// [receiver, value] -> [value]
Step endSend(Machine& m, int) {
  Ref<> value = m.pop();
  Ref<> receiver = m.pop();
  m.push(std::move(value));
  return Step::kNext;
}

Step asyncGenWrap(Machine& m, int) {
  Ref<> wrapped = stealRef(stator_async_gen_wrap(m.peek(1)));
  if (!wrapped) return Step::kRaise;
  Ref<> value = m.pop();
  m.push(std::move(wrapped));
  return Step::kNext;
}

Step getYieldFromIter(Machine& m, int) {
  PyObject* iterable = m.peek(1);
  if (PyCoro_CheckExact(iterable)) {
    if (m.code->co_flags & (CO_COROUTINE | CO_ITERABLE_COROUTINE)) return Step::kNext;
    m.pop();
    PyErr_SetString(PyExc_TypeError,
                    "cannot 'yield from' a coroutine object in a non-coroutine generator");
    return Step::kRaise;
  }
  return PyGen_CheckExact(iterable) ? Step::kNext : getIter(m, 0);
}

Step getAwaitable(Machine& m, int oparg) {
  Ref<> object = m.pop();
  Ref<> iterator = awaitableIterator(object.get());
  if (!iterator && (oparg == 1 || oparg == 2) &&
      !asyncSlot(object.get(), &PyAsyncMethods::am_await)) {
    PyErr_Format(
        PyExc_TypeError,
        "'async with' received an object from %s that does not implement __await__: %.100s",
        oparg == 1 ? "__aenter__" : "__aexit__", Py_TYPE(object.get())->tp_name);
  }
  object.reset();
  if (iterator && PyCoro_CheckExact(iterator.get())) {
    Ref<> awaited = stealRef(PyObject_GetAttrString(iterator.get(), "cr_await"));
    if (!awaited) return Step::kRaise;
    if (awaited.get() != Py_None) {
      iterator.reset();
      PyErr_SetString(PyExc_RuntimeError, "coroutine is being awaited already");
    }
  }
  return m.finish(std::move(iterator));
}

Step getAiter(Machine& m, int) {
  Ref<> object = m.pop();
  unaryfunc getter = asyncSlot(object.get(), &PyAsyncMethods::am_aiter);
  if (!getter) {
    PyErr_Format(PyExc_TypeError,
                 "'async for' requires an object with __aiter__ method, got %.100s",
                 Py_TYPE(object.get())->tp_name);
    return Step::kRaise;
  }
  Ref<> iterator = stealRef(getter(object.get()));
  object.reset();
  if (iterator && !asyncSlot(iterator.get(), &PyAsyncMethods::am_anext)) {
    PyErr_Format(
        PyExc_TypeError,
        "'async for' received an object from __aiter__ that does not implement __anext__: %.100s",
        Py_TYPE(iterator.get())->tp_name);
    return Step::kRaise;
  }
  return m.finish(std::move(iterator));
}

Step getAnext(Machine& m, int) {
  PyObject* iterator = m.peek(1);
  unaryfunc getter = asyncSlot(iterator, &PyAsyncMethods::am_anext);
  if (!getter) {
    PyErr_Format(PyExc_TypeError,
                 "'async for' requires an iterator with __anext__ method, got %.100s",
                 Py_TYPE(iterator)->tp_name);
    return Step::kRaise;
  }
  Ref<> next = stealRef(getter(iterator));
  if (!next || PyAsyncGen_CheckExact(iterator)) return m.finish(std::move(next));
  Ref<> awaitable = awaitableIterator(next.get());
  if (!awaitable) {
    _PyErr_FormatFromCause(PyExc_TypeError,
                           "'async for' received an invalid object from __anext__: %.100s",
                           Py_TYPE(next.get())->tp_name);
  }
  return m.finish(std::move(awaitable));
}

// [iterator, exception]: StopAsyncIteration ends the loop.
Step endAsyncFor(Machine& m, int) {
  if (PyErr_GivenExceptionMatches(m.peek(1), PyExc_StopAsyncIteration)) {
    m.pop();
    m.pop();
    return Step::kNext;
  }
  return reraise(m, 0);
}

}  // namespace stator::runtime::concrete
