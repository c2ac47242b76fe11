// The Python object that stands for a graph value while tracing: a tensor, or a symbolic int, float or bool. No native
// code may see one: every slot of the type raises and sets a sticky flag that the tracer tests after each native call.
// Hashes by identity.
#pragma once

#include "base/python.h"
#include "base/ref.h"

namespace stator::shapes {
struct TensorMeta;
}

namespace stator::graph {

struct Node;

struct StandIn {
  PyObject_HEAD
  Node* node;
  // null for symbolic scalars; follows in-place changes of metadata
  const shapes::TensorMeta* meta;
  // torch.Tensor, nn.Parameter, a subclass; int, float or bool for scalars (owned)
  PyObject* apparent_type;
};

extern PyTypeObject StandInType;
inline bool isStandIn(PyObject* object) {
  return object != nullptr && Py_TYPE(object) == &StandInType;
}
inline StandIn* asStandIn(PyObject* object) { return reinterpret_cast<StandIn*>(object); }

Ref<> makeStandIn(Node* node, const shapes::TensorMeta* meta, PyObject* apparent_type);
bool initStandInType();  // once, at module init
bool takeLeakFlag();     // true if a slot fired since the last call; clears the flag

}  // namespace stator::graph
