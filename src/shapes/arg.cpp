#include "shapes/arg.h"

#include "base/check.h"
#include "base/imports.h"
#include "base/text.h"
#include "shapes/dims.h"
#include "shapes/dtypes.h"
#include "shapes/fallback.h"
#include "symbolic/sym_int.h"

#include <algorithm>
#include <iterator>

namespace stator::shapes {

namespace {

constexpr int kMaxDepth = 8;

TorchTypes types;
std::vector<std::pair<PyObject*, int64_t>> dtypes;
std::vector<std::pair<PyObject*, int64_t>> memory_formats;
std::vector<std::pair<PyObject*, int64_t>> layouts;

int64_t numberOf(const std::vector<std::pair<PyObject*, int64_t>>& table, PyObject* object) {
  for (const auto& [known, number] : table) {
    if (known == object) return number;
  }
  return -1;
}

// torch keeps these objects for the life of the process; so do we.
bool addNamed(PyObject* torch, const char* name, int64_t number,
              std::vector<std::pair<PyObject*, int64_t>>& table) {
  PyObject* object = PyObject_GetAttrString(torch, name);
  if (object == nullptr) return false;
  table.emplace_back(object, number);
  return true;
}

bool addType(PyObject* torch, const char* name, PyTypeObject*& slot) {
  PyObject* object = PyObject_GetAttrString(torch, name);
  if (object == nullptr) return false;
  slot = reinterpret_cast<PyTypeObject*>(object);
  return true;
}

}  // namespace

const TorchTypes& torchTypes() { return types; }

bool initTorchTypes() {
  if (types.dtype != nullptr) return true;
  Ref<> torch = stealRef(importModule("torch"));
  if (!torch) return false;
  // Most frequent first: the tables are searched from the front.
  static constexpr DType kOrder[] = {DType::Float, DType::BFloat16, DType::Half, DType::Long,
                                     DType::Bool,  DType::Double,   DType::Int};
  dtypes.clear();
  for (DType dtype : kOrder) {
    if (!addNamed(torch.get(), torchName(dtype), static_cast<int64_t>(dtype), dtypes)) return false;
  }
  for (int number = 0; number < 64; ++number) {
    const auto dtype = static_cast<DType>(number);
    if (torchName(dtype) == nullptr || std::count(std::begin(kOrder), std::end(kOrder), dtype)) {
      continue;
    }
    if (!addNamed(torch.get(), torchName(dtype), number, dtypes)) return false;
  }
  static constexpr std::pair<const char*, MemoryFormat> kFormats[] = {
      {"contiguous_format", MemoryFormat::Contiguous},
      {"preserve_format", MemoryFormat::Preserve},
      {"channels_last", MemoryFormat::ChannelsLast},
      {"channels_last_3d", MemoryFormat::ChannelsLast3d}};
  memory_formats.clear();
  for (auto [name, format] : kFormats) {
    if (!addNamed(torch.get(), name, static_cast<int64_t>(format), memory_formats)) return false;
  }
  layouts.clear();
  static constexpr const char* kLayouts[] = {"strided",    "sparse_coo", "sparse_csr", "_mkldnn",
                                             "sparse_csc", "sparse_bsr", "sparse_bsc", "jagged"};
  int64_t layout = 0;
  for (const char* name : kLayouts) {
    if (!addNamed(torch.get(), name, layout++, layouts)) return false;
  }
  return addType(torch.get(), "device", types.device) &&
         addType(torch.get(), "layout", types.layout) &&
         addType(torch.get(), "memory_format", types.memory_format) &&
         addType(torch.get(), "Size", types.size) && addType(torch.get(), "dtype", types.dtype);
}

PyObject* dtypeObject(DType dtype) {
  for (const auto& [object, number] : dtypes) {
    if (number == static_cast<int64_t>(dtype)) return object;
  }
  return nullptr;
}

DType dtypeOf(PyObject* object) {
  const int64_t number = numberOf(dtypes, object);
  return number < 0 ? DType::Undefined : static_cast<DType>(number);
}

Ref<> sizeObject(const Dims& sizes) {
  Ref<> tuple = stealRef(PyTuple_New(static_cast<Py_ssize_t>(sizes.size())));
  if (!tuple) throw PythonError();
  bool has_symbols = false;
  for (size_t i = 0; i < sizes.size(); ++i) {
    PyTuple_SET_ITEM(tuple.get(), i, symbolic::makeInt(sizes[i]).release());
    has_symbols |= !sizes[i].isStatic();
  }
  if (has_symbols) {
    // torch.Size itself takes nothing but ints.
    Ref<> args = stealRef(PyTuple_Pack(1, tuple.get()));
    Ref<> made = stealRef(args ? PyTuple_Type.tp_new(types.size, args.get(), nullptr) : nullptr);
    if (!made) throw PythonError();
    return made;
  }
  Ref<> size = stealRef(PyObject_CallOneArg(reinterpret_cast<PyObject*>(types.size), tuple.get()));
  if (!size) throw PythonError();
  return size;
}

Dim Arg::dim() const {
  STATOR_CHECK(isInt());
  return kind == Kind::kInt ? Dim(i) : symbolic::dimOf(object);
}

std::string_view Arg::text() const { return utf8View(object).value_or(std::string_view()); }

bool Workspace::lower(const State& state) {
  for (size_t i = 0; i < tensor_count_; ++i) {
    Arg* arg = spilled_.empty() ? tensors_[i] : spilled_[i];
    const TensorMeta& meta = *arg->tensor;
    const DType dtype =
        meta.device == DeviceType::CPU ? state.autocast_cpu_dtype : state.autocast_cuda_dtype;
    if (!isFloating(meta.dtype) || meta.dtype == DType::Double || meta.dtype == dtype) continue;
    if (!isNonOverlappingDense(meta.sizes, meta.strides)) return false;
    TensorMeta& cast = lowered_.emplace_back(meta);
    cast.dtype = dtype;
    cast.storage_offset = 0;
    cast.storage_id = 0;
    cast.is_leaf = !cast.requires_grad;
    cast.is_parameter = cast.is_wrapped_number = false;
    arg->tensor = &cast;
  }
  return true;
}

Arg* Workspace::allocate(size_t count) {
  if (used_ + count <= kInline) {
    Arg* start = reinterpret_cast<Arg*>(inline_) + used_;
    std::uninitialized_value_construct_n(start, count);
    used_ += count;
    return start;
  }
  overflow_.push_back(std::make_unique<Arg[]>(count));
  return overflow_.back().get();
}

bool Workspace::read() {
  keyword_count_ = request_.kwnames == nullptr ? 0 : PyTuple_GET_SIZE(request_.kwnames);
  const size_t count = request_.positional + keyword_count_;
  args_ = allocate(count);
  for (size_t i = 0; i < count; ++i) {
    if (!readOne(request_.args[i], args_[i], 0)) return false;
  }
  return true;
}

bool Workspace::readItems(PyObject* const* items, size_t count, Arg& arg, int depth) {
  if (depth >= kMaxDepth) return false;
  Arg* read = allocate(count);
  for (size_t i = 0; i < count; ++i) {
    if (!readOne(items[i], read[i], depth + 1)) return false;
  }
  arg.items = read;
  arg.count = static_cast<uint32_t>(count);
  return true;
}

void Workspace::readTensor(PyObject* object, const TensorMeta* meta, Arg& arg) {
  arg.kind = Arg::Kind::kTensor;
  symbolic_ = symbolic_ || meta->isSymbolic();
  arg.tensor = meta;
  arg.i = static_cast<int64_t>(tensor_count_);
  if (tensor_count_ < std::size(tensors_)) {
    tensors_[tensor_count_] = &arg;
  } else {
    if (spilled_.empty()) spilled_.assign(std::begin(tensors_), std::end(tensors_));
    spilled_.push_back(&arg);
  }
  ++tensor_count_;
}

bool Workspace::readOne(PyObject* object, Arg& arg, int depth) {
  using Kind = Arg::Kind;
  arg.object = object;
  PyTypeObject* type = Py_TYPE(object);
  const Reader& reader = request_.reader;
  if (type == &PyLong_Type) {
    int overflow = 0;
    arg.i = PyLong_AsLongLongAndOverflow(object, &overflow);
    arg.kind = overflow == 0 ? Kind::kInt : Kind::kOther;
    if (overflow != 0) memoisable_ = false;
    return true;
  }
  // Builtin types first: asking the reader about them would cost more than they do.
  if (object == Py_None) {
    arg.kind = Kind::kNone;
  } else if (type == &PyBool_Type) {
    arg.kind = Kind::kBool;
    arg.i = object == Py_True;
  } else if (type == &PyFloat_Type) {
    arg.kind = Kind::kFloat;
    arg.f = PyFloat_AS_DOUBLE(object);
  } else if (type == &PyTuple_Type || type == types.size) {
    arg.kind = Kind::kTuple;
    return readItems(&PyTuple_GET_ITEM(object, 0), PyTuple_GET_SIZE(object), arg, depth);
  } else if (type == &PyList_Type) {
    arg.kind = Kind::kList;
    return readItems(PySequence_Fast_ITEMS(object), PyList_GET_SIZE(object), arg, depth);
  } else if (type == &PySlice_Type) {
    const auto* slice = reinterpret_cast<PySliceObject*>(object);
    PyObject* const parts[] = {slice->start, slice->stop, slice->step};
    arg.kind = Kind::kSlice;
    return readItems(parts, 3, arg, depth);
  } else if (object == Py_Ellipsis) {
    arg.kind = Kind::kEllipsis;
  } else if (type == &PyUnicode_Type) {
    arg.kind = Kind::kStr;
  } else if (const TensorMeta* meta =
                 reader.tensor_of == nullptr ? nullptr : reader.tensor_of(object)) {
    readTensor(object, meta, arg);
    return true;
  } else if (type == &symbolic::SymIntType) {
    const Dim dim = symbolic::dimOf(object);
    arg.kind = dim.isStatic() ? Kind::kInt : Kind::kSymInt;
    arg.i = dim.bits();
    symbolic_ |= !dim.isStatic();
  } else if (type == &symbolic::SymScalarType) {
    if (symbolic::asSymScalar(object)->of != &PyFloat_Type) return false;
    arg.kind = Kind::kSymFloat;
  } else if (type == types.dtype) {
    arg.kind = Kind::kDtype;
    arg.i = numberOf(dtypes, object);
  } else if (type == types.device) {
    arg.kind = readDevice(object, arg.device, arg.device_index) ? Kind::kDevice : Kind::kOther;
  } else if (type == types.memory_format) {
    arg.kind = Kind::kMemoryFormat;
    arg.i = numberOf(memory_formats, object);
  } else if (type == types.layout) {
    arg.kind = Kind::kLayout;
    arg.i = numberOf(layouts, object);
  } else if (type == &PyComplex_Type) {
    arg.kind = Kind::kComplex;
  } else {
    if (reader.is_opaque != nullptr && reader.is_opaque(object)) return false;
    arg.kind = Kind::kOther;
    memoisable_ = false;
    return true;
  }
  if (arg.i < 0 &&
      (arg.kind == Kind::kDtype || arg.kind == Kind::kMemoryFormat || arg.kind == Kind::kLayout)) {
    arg.kind = Kind::kOther;  // a name that torch has and our tables do not
    memoisable_ = false;
  }
  return true;
}

}  // namespace stator::shapes
