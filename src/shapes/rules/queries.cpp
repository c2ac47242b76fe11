// Questions about a tensor whose answer is a Python value: sizes, strides, dtype and the like. They put nothing into
// the graph.
#include "shapes/call.h"
#include "shapes/fallback.h"
#include "symbolic/sym_int.h"

namespace stator::shapes {

namespace {

Ref<> tupleOf(const Dims& dims) {
  Ref<> tuple = stealRef(PyTuple_New(static_cast<Py_ssize_t>(dims.size())));
  for (size_t i = 0; tuple && i < dims.size(); ++i) {
    PyTuple_SET_ITEM(tuple.get(), i, symbolic::makeInt(dims[i]).release());
  }
  return tuple;
}

template <class Answer>
bool answer(Call& call, Answer&& value) {
  if (!call[0].isTensor()) return false;
  call.constant(value(*call[0].tensor));
  return true;
}

bool size(Call& call) {
  if (!call[0].isTensor()) return false;
  const Dims& sizes = call[0].tensor->sizes;
  if (!call[1].given()) {
    call.constant(sizeObject(sizes));
    return true;
  }
  int64_t dim = 0;
  if (sizes.empty() || !call.dim(1, sizes.size(), dim)) return false;
  call.constant(sizes[dim]);
  return true;
}

bool stride(Call& call) {
  if (!call[0].isTensor()) return false;
  const Dims& strides = call[0].tensor->strides;
  if (!call[1].given()) {
    call.constant(tupleOf(strides));
    return true;
  }
  int64_t dim = 0;
  if (strides.empty() || !call.dim(1, strides.size(), dim)) return false;
  call.constant(strides[dim]);
  return true;
}

bool length(Call& call) {
  if (!call[0].isTensor() || call[0].tensor->sizes.empty()) return false;
  call.constant(call[0].tensor->sizes[0]);
  return true;
}

bool isContiguousQuery(Call& call) {
  MemoryFormat format = MemoryFormat::Contiguous;
  if (!call.formatOr(1, format, format) || format == MemoryFormat::Preserve) return false;
  return answer(call, [&](const TensorMeta& meta) { return isContiguousIn(meta, format); });
}

bool rank(Call& call) {
  return answer(call,
                [](const TensorMeta& meta) { return static_cast<int64_t>(meta.sizes.size()); });
}
bool numel(Call& call) {
  return answer(call, [](const TensorMeta& meta) { return meta.numel(); });
}
bool itemBytes(Call& call) {
  return answer(call, [](const TensorMeta& meta) { return itemSize(meta.dtype); });
}
bool storageOffset(Call& call) {
  return answer(call, [](const TensorMeta& meta) { return meta.storage_offset; });
}
bool dtypeQuery(Call& call) {
  return answer(call, [](const TensorMeta& meta) { return newRef(dtypeObject(meta.dtype)); });
}
bool deviceQuery(Call& call) {
  return answer(call,
                [](const TensorMeta& meta) { return makeDevice(meta.device, meta.device_index); });
}
bool needsGrad(Call& call) {
  return answer(call, [](const TensorMeta& meta) { return meta.requires_grad; });
}
bool leaf(Call& call) {
  return answer(call, [](const TensorMeta& meta) { return meta.is_leaf; });
}
bool floating(Call& call) {
  return answer(call, [](const TensorMeta& meta) { return isFloating(meta.dtype); });
}
bool complexQuery(Call& call) {
  return answer(call, [](const TensorMeta& meta) { return isComplex(meta.dtype); });
}
template <DeviceType wanted>
bool onDevice(Call& call) {
  return answer(call, [](const TensorMeta& meta) { return meta.device == wanted; });
}

// Tensors of other kinds never come here: a rule sees strided, ordinary tensors alone.
bool never(Call& call) {
  return answer(call, [](const TensorMeta&) { return false; });
}

constexpr OpRow kRows[] = {
    {"Tensor.size", "self, dim", size},
    {"Tensor.shape", "self", size},
    {"Tensor.stride", "self, dim", stride},
    {"Tensor.__len__", "self", length},
    {"Tensor.is_contiguous", "self, memory_format", isContiguousQuery},
    {"Tensor.dim|ndimension|ndim", "self", rank},
    {"Tensor.numel|nelement torch.numel", "input", numel},
    {"Tensor.element_size|itemsize", "self", itemBytes},
    {"Tensor.storage_offset", "self", storageOffset},
    {"Tensor.dtype", "self", dtypeQuery},
    {"Tensor.device", "self", deviceQuery},
    {"Tensor.requires_grad", "self", needsGrad},
    {"Tensor.is_leaf", "self", leaf},
    {"Tensor.is_floating_point torch.is_floating_point", "input", floating},
    {"Tensor.is_complex torch.is_complex", "input", complexQuery},
    {"Tensor.is_nested|is_sparse|is_sparse_csr|is_quantized|is_mkldnn", "self", never},
    {"Tensor.is_meta", "self", onDevice<DeviceType::Meta>},
    {"Tensor.is_mps", "self", onDevice<DeviceType::MPS>},
    {"Tensor.is_xpu", "self", onDevice<DeviceType::XPU>},
    {"Tensor.is_cuda", "self", onDevice<DeviceType::CUDA>},
    {"Tensor.is_cpu", "self", onDevice<DeviceType::CPU>},
};

}  // namespace

std::span<const OpRow> queryRows() { return kRows; }

}  // namespace stator::shapes
