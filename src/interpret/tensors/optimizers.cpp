// Operations of optimizers whose scalar is a tensor: torch reads its value, captured code multiplies by it. The same
// where it is a float that changes, and the graph has it as a tensor: AOTAutograd computes with that where it stands in
// a product, and takes it for a constant elsewhere.
#include "interpret/core/known.h"
#include "interpret/core/tables.h"
#include "interpret/core/tracer.h"
#include "interpret/tensors/rows.h"
#include "interpret/tensors/tensor_call.h"
#include "symbolic/sym_int.h"

#include <iterator>
#include <utility>

namespace stator::interpret {

namespace {

struct ScaledCall {
  const char* path;
  const char* name;     // of the method; null: a function
  const char* keyword;  // the scalar's; null: it has none
  size_t position;      // of the scalar; 0: it is given by name
  const char* polyfill;
};

constexpr ScaledCall kCalls[] = {
    {"torch.Tensor.addcdiv_", "addcdiv_", "value", 0, "stator.polyfills.optim.addcdiv_"},
    {"torch.Tensor.addcmul_", "addcmul_", "value", 0, "stator.polyfills.optim.addcmul_"},
    {"torch.Tensor.add_", "add_", "alpha", 0, "stator.polyfills.optim.add_"},
    {"torch.Tensor.sub_", "sub_", "alpha", 0, "stator.polyfills.optim.sub_"},
    {"torch.Tensor.add", "add", "alpha", 0, "stator.polyfills.optim.add"},
    {"torch.Tensor.sub", "sub", "alpha", 0, "stator.polyfills.optim.sub"},
    {"torch._foreach_addcdiv_", nullptr, "value", 3, "stator.polyfills.optim.foreach_addcdiv_"},
    {"torch._foreach_addcmul_", nullptr, "value", 3, "stator.polyfills.optim.foreach_addcmul_"},
    {"torch._foreach_add_", nullptr, "alpha", 0, "stator.polyfills.optim.foreach_add_"},
    {"torch._foreach_sub_", nullptr, "alpha", 0, "stator.polyfills.optim.foreach_sub_"},
};

// One tensor for each of the others, where eager has floats.
bool beginsWithTensor(PyObject* scalars) {
  return (PyList_CheckExact(scalars) || PyTuple_CheckExact(scalars)) &&
         PySequence_Fast_GET_SIZE(scalars) > 0 &&
         graph::isStandIn(PySequence_Fast_GET_ITEM(scalars, 0));
}

template <size_t index>
Out scaled(Tracer& t, const Args& args) {
  const ScaledCall& which = kCalls[index];
  const bool by_place = which.position > 0 && args.positional > which.position;
  PyObject* scalar = by_place ? args.values[which.position] : args.keyword(which.keyword);
  const bool changes = scalar != nullptr && t.options.floats_are_tensors &&
                       symbolic::isSymScalar(scalar) &&
                       symbolic::asSymScalar(scalar)->of == &PyFloat_Type;
  if (scalar != nullptr && (changes || graph::isStandIn(scalar) || beginsWithTensor(scalar)))
    return t.above.callNested(torchObject(which.polyfill), args);
  if (which.name == nullptr || args.positional == 0 || !graph::isStandIn(args.values[0])) {
    return tensorCall(t, graph::Op::kCallFunction, torchObject(which.path), args);
  }
  static PyObject* const name =
      PyUnicode_InternFromString(kCalls[index].name != nullptr ? kCalls[index].name : "");
  return tensorCall(t, graph::Op::kCallMethod, name, args);
}

template <size_t... indices>
void registerCalls(std::index_sequence<indices...>) {
  (registerHandler(kCalls[indices].path, scaled<indices>), ...);
}

}  // namespace

void registerOptimizers() {
  registerCalls(std::make_index_sequence<std::size(kCalls)>());
  for (const ScaledCall& call : kCalls) allowSymbols(call.path);
  registerPolyfill("torch._C._group_tensors_by_device_and_dtype", "optim.group_tensors");
  registerPolyfill("torch.optim.Optimizer.zero_grad", "optim.zero_grad");
}

}  // namespace stator::interpret
