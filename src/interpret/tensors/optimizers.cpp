// Operations of optimizers whose scalar is a tensor: torch reads its value, captured code multiplies by it.
#include "interpret/core/known.h"
#include "interpret/core/tables.h"
#include "interpret/core/tracer.h"
#include "interpret/tensors/rows.h"
#include "interpret/tensors/tensor_call.h"

namespace stator::interpret {

namespace {

struct ScaledCall {
  const char* path;
  const char* name;     // of the method; null: a function
  const char* keyword;  // the scalar's; null: it is the fourth argument
  const char* polyfill;
};

constexpr ScaledCall kCalls[] = {
    {"torch.Tensor.addcdiv_", "addcdiv_", "value", "stator.polyfills.optim.addcdiv_"},
    {"torch.Tensor.addcmul_", "addcmul_", "value", "stator.polyfills.optim.addcmul_"},
    {"torch.Tensor.add_", "add_", "alpha", "stator.polyfills.optim.add_"},
    {"torch.Tensor.sub_", "sub_", "alpha", "stator.polyfills.optim.sub_"},
    {"torch._foreach_addcdiv_", nullptr, nullptr, "stator.polyfills.optim.foreach_addcdiv_"},
    {"torch._foreach_addcmul_", nullptr, nullptr, "stator.polyfills.optim.foreach_addcmul_"},
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
  PyObject* scalar = which.keyword != nullptr  ? args.keyword(which.keyword)
                     : args.values.size() == 4 ? args.values[3]
                                               : nullptr;
  if (scalar != nullptr && (graph::isStandIn(scalar) || beginsWithTensor(scalar)))
    return t.above.callNested(torchObject(which.polyfill), args);
  if (which.name == nullptr || args.positional == 0 || !graph::isStandIn(args.values[0])) {
    return tensorCall(t, graph::Op::kCallFunction, torchObject(which.path), args);
  }
  static PyObject* const name =
      PyUnicode_InternFromString(kCalls[index].name != nullptr ? kCalls[index].name : "");
  return tensorCall(t, graph::Op::kCallMethod, name, args);
}

}  // namespace

void registerOptimizers() {
  registerHandler(kCalls[0].path, scaled<0>);
  registerHandler(kCalls[1].path, scaled<1>);
  registerHandler(kCalls[2].path, scaled<2>);
  registerHandler(kCalls[3].path, scaled<3>);
  registerHandler(kCalls[4].path, scaled<4>);
  registerHandler(kCalls[5].path, scaled<5>);
  for (const ScaledCall& call : kCalls) allowSymbols(call.path);
  registerPolyfill("torch._C._group_tensors_by_device_and_dtype", "optim.group_tensors");
  registerPolyfill("torch.optim.Optimizer.zero_grad", "optim.zero_grad");
}

}  // namespace stator::interpret
