// x[index] and x[index] = value: a chain of selects, slices and new dims gives a view; tensors among the indices give a
// gathered copy.
#include "shapes/rules/getitem.h"

#include "shapes/rules/views.h"

#include <deque>

namespace stator::shapes {

namespace {

using Kind = Arg::Kind;

// What an index expression comes to: the view that its basic parts make, and for each dim of that view the tensor that
// indexes it.
struct Indexed {
  Dims sizes;
  Dims strides;
  Dim offset = 0;
  std::vector<const TensorMeta*> tensors;
  std::deque<TensorMeta> made;  // of lists of ints, which torch turns into index tensors
  bool advanced = false;
  bool masked = false;  // a bool tensor: the size depends on data
};

bool isIndexDtype(DType dtype) { return dtype == DType::Long || dtype == DType::Int; }

size_t dimsTaken(const Arg& part) {
  if (part.is(Kind::kNone) || part.is(Kind::kEllipsis)) return 0;
  if (part.isTensor() && part.tensor->dtype == DType::Bool) return part.tensor->sizes.size();
  return 1;
}

const TensorMeta* indexOf(const Arg& list, Indexed& out) {
  for (const Arg& item : list.elements()) {
    if (!item.isInt()) return nullptr;
  }
  TensorMeta& index = out.made.emplace_back();
  index.dtype = DType::Long;
  index.sizes = {static_cast<Dim>(list.count)};
  index.strides = {1};
  return list.count == 0 ? nullptr : &index;
}

bool addPart(const Arg& part, const TensorMeta& meta, size_t& dim, Indexed& out) {
  if (part.is(Kind::kNone)) {
    // The new dim's stride is that of an unsqueeze at its place, which looks at the dim behind it.
    const bool inner = dim < meta.sizes.size();
    out.sizes.push_back(1);
    out.strides.push_back(inner ? meta.sizes[dim] * meta.strides[dim] : 1);
    out.tensors.push_back(nullptr);
    return true;
  }
  if (dim >= meta.sizes.size()) return false;
  const Dim size = meta.sizes[dim];
  const Dim stride = meta.strides[dim];
  if (part.isInt()) {
    const Dim at = part.dim();
    if (!lessThan(at, size) || lessThan(at, -size)) return false;
    out.offset += (isNegative(at) ? at + size : at) * stride;
    ++dim;
    return true;
  }
  if (part.is(Kind::kSlice)) {
    Dim start = 0;
    Dim length = 0;
    Dim step = 1;
    if (!sliceDim(part, size, start, length, step)) return false;
    out.offset += start * stride;
    out.sizes.push_back(length);
    out.strides.push_back(stride * step);
    out.tensors.push_back(nullptr);
    ++dim;
    return true;
  }
  const TensorMeta* from_list = part.is(Kind::kList) ? indexOf(part, out) : nullptr;
  if (!part.isTensor() && from_list == nullptr) return false;
  const TensorMeta& index = part.isTensor() ? *part.tensor : *from_list;
  const size_t taken = dimsTaken(part);
  if (index.dtype == DType::Bool) {
    if (taken == 0 || dim + taken > meta.sizes.size()) return false;
    for (size_t i = 0; i < taken; ++i) {
      if (!same(index.sizes[i], meta.sizes[dim + i])) return false;
    }
    out.masked = true;
  } else if (!isIndexDtype(index.dtype) || index.sizes.empty()) {
    return false;  // an index of rank 0 is read as a number
  }
  for (size_t i = 0; i < taken; ++i) {
    out.sizes.push_back(meta.sizes[dim]);
    out.strides.push_back(meta.strides[dim]);
    out.tensors.push_back(&index);
    ++dim;
  }
  out.advanced = true;
  return true;
}

bool applyIndex(const TensorMeta& meta, const Arg& index, Indexed& out) {
  std::span<const Arg> parts(&index, 1);
  if (index.is(Kind::kTuple)) parts = index.elements();
  size_t taken = 0;
  size_t ellipses = 0;
  for (const Arg& part : parts) {
    taken += dimsTaken(part);
    ellipses += part.is(Kind::kEllipsis);
  }
  if (taken > meta.sizes.size() || ellipses > 1) return false;
  const size_t hidden = meta.sizes.size() - taken;
  out.offset = meta.storage_offset;
  size_t dim = 0;
  const auto keep = [&](size_t count) {
    for (size_t i = 0; i < count; ++i, ++dim) {
      out.sizes.push_back(meta.sizes[dim]);
      out.strides.push_back(meta.strides[dim]);
      out.tensors.push_back(nullptr);
    }
  };
  for (const Arg& part : parts) {
    if (part.is(Kind::kEllipsis)) {
      keep(hidden);
    } else if (!addPart(part, meta, dim, out)) {
      return false;
    }
  }
  keep(meta.sizes.size() - dim);
  return true;
}

// The shape and strides of the gathered copy.
bool gathered(const Indexed& indexed, Dims& shape, Dims& strides) {
  Dims broadcast;
  size_t first = SIZE_MAX;
  size_t last = 0;
  size_t count = 0;
  for (size_t i = 0; i < indexed.tensors.size(); ++i) {
    if (indexed.tensors[i] == nullptr) continue;
    if (!broadcastInto(broadcast, indexed.tensors[i]->sizes)) return false;
    if (first == SIZE_MAX) first = i;
    last = i;
    ++count;
  }
  const bool adjacent = last - first + 1 == count;
  Dims source_strides;
  const auto insert = [&] {
    shape.insert(shape.end(), broadcast.begin(), broadcast.end());
    source_strides.insert(source_strides.end(), broadcast.size(), 0);
  };
  if (!adjacent) insert();  // dims of the index go to the front
  for (size_t i = 0; i < indexed.sizes.size(); ++i) {
    if (adjacent && i == first) insert();
    if (indexed.tensors[i] != nullptr) continue;
    shape.push_back(indexed.sizes[i]);
    source_strides.push_back(indexed.strides[i]);
  }
  // A source without elements says nothing about order.
  strides = isZero(product(indexed.sizes)) ? contiguousStrides(shape)
                                           : orderedStrides(shape, source_strides);
  return true;
}

bool indicesNearby(const Call& call) {
  const Place home = placeOf(*call[0].tensor);
  for (const Arg* tensor : call.tensors()) {
    const Place place = placeOf(*tensor->tensor);
    if (!(place == home) && place.type != DeviceType::CPU) return false;
  }
  return true;
}

}  // namespace

bool getItem(Call& call) {
  if (!call[0].isTensor()) return false;
  const TensorMeta& meta = *call[0].tensor;
  Indexed indexed;
  if (!applyIndex(meta, call[1], indexed) || indexed.masked || !indicesNearby(call)) return false;
  if (!indexed.advanced) {
    call.view(call[0], std::move(indexed.sizes), std::move(indexed.strides), indexed.offset);
    return true;
  }
  Dims shape;
  Dims strides;
  if (!gathered(indexed, shape, strides)) return false;
  call.fresh(meta.dtype, std::move(shape), std::move(strides));
  return true;
}

bool setItem(Call& call) {
  if (!call[0].isTensor()) return false;
  const TensorMeta& meta = *call[0].tensor;
  const Arg& value = call[2];
  Indexed indexed;
  if (!applyIndex(meta, call[1], indexed) || !indicesNearby(call)) return false;
  if (value.isTensor()) {
    if (isComplex(value.tensor->dtype) && !isComplex(meta.dtype)) return false;
    if (indexed.advanced && value.tensor->dtype != meta.dtype) return false;
    if (!(placeOf(*value.tensor) == placeOf(meta)) && !value.tensor->sizes.empty()) return false;
    Dims shape = indexed.sizes;
    if (indexed.masked) {
      // The dims behind a leading mask are known; the one that it leaves is not.
      const size_t mask_dims = indexed.tensors.empty() || indexed.tensors[0] == nullptr
                                   ? 0
                                   : indexed.tensors[0]->sizes.size();
      shape.erase(shape.begin(), shape.begin() + static_cast<ptrdiff_t>(mask_dims));
      for (size_t i = 0; i < indexed.tensors.size(); ++i) {
        if ((indexed.tensors[i] != nullptr) != (i < mask_dims)) return false;
      }
    } else if (indexed.advanced) {
      Dims strides;
      shape.clear();
      if (!gathered(indexed, shape, strides)) return false;
    }
    // Leading dims of size one are dropped from the value.
    Dims given = value.tensor->sizes;
    while (given.size() > shape.size() && isOne(given.front())) given.erase(given.begin());
    Dims broadcast = shape;
    if (!broadcastInto(broadcast, given) || broadcast != shape) return false;
  } else if (!value.isNumber() || (value.is(Kind::kComplex) && !isComplex(meta.dtype))) {
    return false;
  }
  if (!call.inplace(call[0], meta.dtype, meta.sizes)) return false;
  // The statement has no value; what remains is the change of the target.
  call.out.outputs.clear();
  call.constant(newRef(Py_None));
  return true;
}

}  // namespace stator::shapes
