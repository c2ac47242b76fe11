// Operators, subscripts, attributes. Operands are popped right to left, so that C++ destroys them left to right, as
// CPython does.
#include "runtime/concrete.h"

namespace stator::runtime::concrete {
namespace {

template <PyObject* (*Operation)(PyObject*)>
Step unary(Machine& m) {
  Ref<> value = m.pop();
  return m.finish(stealRef(Operation(value.get())));
}

PyObject* power(PyObject* left, PyObject* right) { return PyNumber_Power(left, right, Py_None); }
PyObject* inPlacePower(PyObject* left, PyObject* right) {
  return PyNumber_InPlacePower(left, right, Py_None);
}

// Indexed by BINARY_OP's argument (NB_ADD ... NB_INPLACE_XOR of opcode.h).
constexpr PyObject* (*kBinary[])(PyObject*, PyObject*) = {
    PyNumber_Add,
    PyNumber_And,
    PyNumber_FloorDivide,
    PyNumber_Lshift,
    PyNumber_MatrixMultiply,
    PyNumber_Multiply,
    PyNumber_Remainder,
    PyNumber_Or,
    power,
    PyNumber_Rshift,
    PyNumber_Subtract,
    PyNumber_TrueDivide,
    PyNumber_Xor,
    PyNumber_InPlaceAdd,
    PyNumber_InPlaceAnd,
    PyNumber_InPlaceFloorDivide,
    PyNumber_InPlaceLshift,
    PyNumber_InPlaceMatrixMultiply,
    PyNumber_InPlaceMultiply,
    PyNumber_InPlaceRemainder,
    PyNumber_InPlaceOr,
    inPlacePower,
    PyNumber_InPlaceRshift,
    PyNumber_InPlaceSubtract,
    PyNumber_InPlaceTrueDivide,
    PyNumber_InPlaceXor,
};
static_assert(NB_ADD == 0 && NB_POWER == 8 && NB_INPLACE_ADD == 13 && NB_INPLACE_POWER == 21 &&
              NB_INPLACE_XOR == 25);

}  // namespace

Step unaryPositive(Machine& m, int) { return unary<PyNumber_Positive>(m); }
Step unaryNegative(Machine& m, int) { return unary<PyNumber_Negative>(m); }
Step unaryInvert(Machine& m, int) { return unary<PyNumber_Invert>(m); }

Step unaryNot(Machine& m, int) {
  Ref<> value = m.pop();
  int truth = PyObject_IsTrue(value.get());
  return truth < 0 ? Step::kRaise : m.finish(newRef(truth ? Py_False : Py_True));
}

Step toBool(Machine& m, int) {
  int truth = PyObject_IsTrue(m.peek(1));
  if (truth < 0) return Step::kRaise;
  Ref<> value = m.pop();
  m.push(newRef(truth ? Py_True : Py_False));
  return Step::kNext;
}

Step binaryOp(Machine& m, int oparg) {
  Ref<> right = m.pop();
  Ref<> left = m.pop();
  return m.finish(stealRef(kBinary[oparg](left.get(), right.get())));
}

Step binarySubscr(Machine& m, int) {
  Ref<> key = m.pop();
  Ref<> container = m.pop();
  return m.finish(stealRef(PyObject_GetItem(container.get(), key.get())));
}

namespace {

// [start, stop] -> a slice that takes them over.
Ref<> popSlice(Machine& m) {
  Ref<> stop = m.pop();
  Ref<> start = m.pop();
  return stealRef(PySlice_New(start.get(), stop.get(), Py_None));
}

}  // namespace

Step binarySlice(Machine& m, int) {
  Ref<> slice = popSlice(m);
  Ref<> container = m.pop();
  if (!slice) return Step::kRaise;
  Ref<> result = stealRef(PyObject_GetItem(container.get(), slice.get()));
  slice.reset();
  return m.finish(std::move(result));
}

Step storeSlice(Machine& m, int) {
  Ref<> slice = popSlice(m);
  Ref<> container = m.pop();
  Ref<> value = m.pop();
  if (!slice) return Step::kRaise;
  int status = PyObject_SetItem(container.get(), slice.get(), value.get());
  slice.reset();
  return Machine::check(status);
}

// CPython drops the value first, then container and key.
Step storeSubscr(Machine& m, int) {
  Ref<> key = m.pop();
  Ref<> container = m.pop();
  Ref<> value = m.pop();
  return Machine::check(PyObject_SetItem(container.get(), key.get(), value.get()));
}

Step deleteSubscr(Machine& m, int) {
  Ref<> key = m.pop();
  Ref<> container = m.pop();
  return Machine::check(PyObject_DelItem(container.get(), key.get()));
}

Step compareOp(Machine& m, int oparg) {
  Ref<> right = m.pop();
  Ref<> left = m.pop();
  return m.finish(stealRef(PyObject_RichCompare(left.get(), right.get(), oparg)));
}

Step compareOpToBool(Machine& m, int oparg) {
  Ref<> right = m.pop();
  Ref<> left = m.pop();
  Ref<> result = stealRef(PyObject_RichCompare(left.get(), right.get(), oparg));
  int truth = result ? PyObject_IsTrue(result.get()) : -1;
  return truth < 0 ? Step::kRaise : m.finish(newRef(truth ? Py_True : Py_False));
}

Step isOp(Machine& m, int oparg) {
  Ref<> right = m.pop();
  Ref<> left = m.pop();
  return m.finish(newRef((left.get() == right.get()) != (oparg != 0) ? Py_True : Py_False));
}

Step containsOp(Machine& m, int oparg) {
  Ref<> right = m.pop();
  Ref<> left = m.pop();
  int found = PySequence_Contains(right.get(), left.get());
  return found < 0 ? Step::kRaise
                   : m.finish(newRef((found != 0) != (oparg != 0) ? Py_True : Py_False));
}

Step getLen(Machine& m, int) {
  Py_ssize_t length = PyObject_Length(m.peek(1));
  return length < 0 ? Step::kRaise : m.finish(stealRef(PyLong_FromSsize_t(length)));
}

Step loadAttr(Machine& m, int oparg) {
  Ref<> value = stealRef(PyObject_GetAttr(m.peek(1), m.name(oparg)));
  if (!value) return Step::kRaise;
  Ref<> owner = m.pop();
  m.push(std::move(value));
  return Step::kNext;
}

// [owner] -> function and owner if the attribute is a plain method, so that no bound method has to be made; else the
// attribute and NULL.
Step loadMethod(Machine& m, int oparg) {
  PyObject* found = nullptr;
  int unbound = _PyObject_GetMethod(m.peek(1), m.name(oparg), &found);
  Ref<> method = stealRef(found);
  if (!method) return Step::kRaise;
  Ref<> owner = m.pop();
  if (!unbound) owner.reset();
  m.pushCallable(std::move(method), std::move(owner));
  return Step::kNext;
}

// [super, class, self] -> super(class, self).name, as LOAD_ATTR or LOAD_METHOD leaves it; super() without bit 1.
Step loadSuperAttr(Machine& m, int oparg) {
  PyObject* arguments[] = {m.peek(2), m.peek(1)};
  Ref<> made = stealRef(PyObject_Vectorcall(m.peek(3), arguments, oparg & 2, nullptr));
  {
    Ref<> self = m.pop();
    Ref<> type = m.pop();
    Ref<> super = m.pop();
  }
  if (!made) return Step::kRaise;
  Ref<> attribute = stealRef(PyObject_GetAttr(made.get(), m.name(oparg >> 2)));
  made.reset();
  if (!attribute) return Step::kRaise;
  if (oparg & 1) {
    m.pushCallable(std::move(attribute), nullptr);
  } else {
    m.push(std::move(attribute));
  }
  return Step::kNext;
}

Step storeAttr(Machine& m, int oparg) {
  Ref<> owner = m.pop();
  Ref<> value = m.pop();
  return Machine::check(PyObject_SetAttr(owner.get(), m.name(oparg), value.get()));
}

Step deleteAttr(Machine& m, int oparg) {
  Ref<> owner = m.pop();
  return Machine::check(PyObject_SetAttr(owner.get(), m.name(oparg), nullptr));
}

}  // namespace stator::runtime::concrete
