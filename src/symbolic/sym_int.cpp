#include "symbolic/sym_int.h"

#include "base/check.h"
#include "base/fields.h"

namespace stator::symbolic {

namespace {

bool leaked = false;

PyObject* raiseObject() {
  leaked = true;
  PyErr_SetString(PyExc_RuntimeError,
                  "stator: native code touched a symbolic int; this is an internal error");
  return nullptr;
}
int raiseInt() {
  raiseObject();
  return -1;
}
PyObject* one(PyObject*) { return raiseObject(); }
PyObject* two(PyObject*, PyObject*) { return raiseObject(); }
PyObject* three(PyObject*, PyObject*, PyObject*) { return raiseObject(); }

PyNumberMethods makeNumber() {
  PyNumberMethods m = {};
  m.nb_add = m.nb_subtract = m.nb_multiply = m.nb_remainder = m.nb_divmod = two;
  m.nb_power = three;
  m.nb_negative = m.nb_positive = m.nb_absolute = m.nb_invert = one;
  m.nb_bool = [](PyObject*) { return raiseInt(); };
  m.nb_lshift = m.nb_rshift = m.nb_and = m.nb_xor = m.nb_or = two;
  m.nb_int = m.nb_float = m.nb_index = one;
  m.nb_floor_divide = m.nb_true_divide = two;
  return m;
}

PyNumberMethods number_methods = makeNumber();

}  // namespace

PyTypeObject SymIntType = {PyVarObject_HEAD_INIT(nullptr, 0)};
PyTypeObject SymScalarType = {PyVarObject_HEAD_INIT(nullptr, 0)};

bool initSymIntType() {
  PyTypeObject& scalar = SymScalarType;
  scalar.tp_name = "stator._core.SymScalar";
  scalar.tp_basicsize = sizeof(SymScalar);
  scalar.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION;
  scalar.tp_doc = "A float or bool that the graph computes, inside a capture.";
  scalar.tp_as_number = &number_methods;
  scalar.tp_dealloc = [](PyObject* self) {
    clearField(asSymScalar(self)->stand_in);
    clearField(asSymScalar(self)->formula);
    Py_TYPE(self)->tp_free(self);
  };
  scalar.tp_repr = scalar.tp_str = one;
  scalar.tp_hash = [](PyObject*) -> Py_hash_t { return raiseInt(); };
  scalar.tp_richcompare = [](PyObject*, PyObject*, int) { return raiseObject(); };
  scalar.tp_getattro = two;
  scalar.tp_setattro = [](PyObject*, PyObject*, PyObject*) { return raiseInt(); };
  if (PyType_Ready(&scalar) != 0) return false;
  PyTypeObject& type = SymIntType;
  type.tp_name = "stator._core.SymInt";
  type.tp_basicsize = sizeof(SymInt);
  type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION;
  type.tp_doc = "A symbolic int inside a capture.";
  type.tp_as_number = &number_methods;
  type.tp_dealloc = [](PyObject* self) { Py_TYPE(self)->tp_free(self); };
  type.tp_repr = [](PyObject* self) -> PyObject* {
    leaked = true;
    return PyUnicode_FromString(dimOf(self).text().c_str());
  };
  type.tp_str = one;
  type.tp_hash = [](PyObject*) -> Py_hash_t { return raiseInt(); };
  type.tp_richcompare = [](PyObject*, PyObject*, int) { return raiseObject(); };
  type.tp_getattro = two;
  type.tp_setattro = [](PyObject*, PyObject*, PyObject*) { return raiseInt(); };
  return PyType_Ready(&type) == 0;
}

Ref<> makeInt(Dim dim) {
  if (dim.isStatic()) {
    Ref<> number = stealRef(PyLong_FromLongLong(dim.value()));
    if (!number) throw PythonError();
    return number;
  }
  Ref<> made = stealRef(SymIntType.tp_alloc(&SymIntType, 0));
  if (!made) throw PythonError();
  reinterpret_cast<SymInt*>(made.get())->dim = dim;
  return made;
}

Ref<> makeScalar(PyTypeObject* of, Ref<> stand_in) {
  Ref<> made = stealRef(SymScalarType.tp_alloc(&SymScalarType, 0));
  if (!made) throw PythonError();
  asSymScalar(made.get())->of = of;
  asSymScalar(made.get())->stand_in = stand_in.release();
  return made;
}

Ref<> makeFormula(PyTypeObject* of, Ref<> formula) {
  constexpr int deepest = 500;  // what walks and frees formulas recurses
  int depth = 1;
  for (Py_ssize_t i = 1; i < PyTuple_GET_SIZE(formula.get()); ++i) {
    PyObject* operand = PyTuple_GET_ITEM(formula.get(), i);
    if (isSymScalar(operand)) depth = std::max(depth, asSymScalar(operand)->formula_depth + 1);
  }
  if (depth > deepest) return Ref<>();
  Ref<> made = makeScalar(of, Ref<>());
  asSymScalar(made.get())->formula = formula.release();
  asSymScalar(made.get())->formula_depth = depth;
  return made;
}

bool takeSymIntLeakFlag() {
  const bool was = leaked;
  leaked = false;
  return was;
}

}  // namespace stator::symbolic
