#include "interpret/core/apparent_types.h"

#include "graph/graph.h"
#include "interpret/core/known.h"

namespace stator::interpret {

bool isCast(PyObject* stand_in) {
  graph::StandIn* tensor = graph::asStandIn(stand_in);
  if (tensor->meta == nullptr) return false;
  auto* type = reinterpret_cast<PyTypeObject*>(tensor->apparent_type);
  if (wrapperOf(stand_in) != nullptr) return false;
  if (tensor->node->op != graph::Op::kInput)
    return type != tensorType() && PyType_IsSubtype(type, tensorType());
  return tensor->node->example && Py_TYPE(tensor->node->example.get()) != type;
}

PyObject* wrapperOf(PyObject* stand_in) {
  const graph::StandIn* value = graph::asStandIn(stand_in);
  PyObject* fake = value->node->wrapper.get();
  return fake != nullptr && value->meta != nullptr &&
                 reinterpret_cast<PyObject*>(Py_TYPE(fake)) == value->apparent_type
             ? fake
             : nullptr;
}

}  // namespace stator::interpret
