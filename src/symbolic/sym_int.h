// The Python object that stands for a symbolic int while tracing. Like a tensor's stand-in, no native code may work on
// it: every slot raises and sets a sticky flag. The tracer gives it the meaning of an int, or makes it one
// (Dim::value).
#pragma once

#include "base/python.h"
#include "base/ref.h"
#include "symbolic/dim.h"

namespace stator::symbolic {

struct SymInt {
  PyObject_HEAD
  Dim dim;
};

// A float or bool that only the graph knows: an input, what item() reads from a tensor, or computed from these.
struct SymScalar {
  PyObject_HEAD
  PyTypeObject* of;  // float or bool
  // of its node in the graph; null: an input, or a number computed from inputs, that the graph does not have yet
  PyObject* stand_in;
  const void* source;  // of an input: where it is read
  // (function, operand, ...): how a plan computes it behind the graph, from inputs and plain numbers; or null
  PyObject* formula;
  int formula_depth;
  double hint;  // the value now, if `backed`; of a number that is drawn one that it might have
  bool backed;
  const Expr* condition;  // of a bool that says something about symbolic ints, or null
};

extern PyTypeObject SymScalarType;
inline bool isSymScalar(PyObject* object) {
  return object != nullptr && Py_TYPE(object) == &SymScalarType;
}
inline SymScalar* asSymScalar(PyObject* object) { return reinterpret_cast<SymScalar*>(object); }
Ref<> makeScalar(PyTypeObject* of, Ref<> stand_in);  // without a value. Throws PythonError.
// A number by a formula of bounded depth; null: the operands' are too deep for one more.
Ref<> makeFormula(PyTypeObject* of, Ref<> formula);

extern PyTypeObject SymIntType;
inline bool isSymInt(PyObject* object) {
  return object != nullptr && Py_TYPE(object) == &SymIntType;
}
inline bool isSymbol(PyObject* object) { return isSymInt(object) || isSymScalar(object); }
inline Dim dimOf(PyObject* sym_int) { return reinterpret_cast<SymInt*>(sym_int)->dim; }
// An exact int for a number. Throws PythonError.
Ref<> makeInt(Dim dim);
bool initSymIntType();      // once, at module init
bool takeSymIntLeakFlag();  // true if a slot fired since the last call; clears the flag

}  // namespace stator::symbolic
