#include "interpret/objects/outside_numbers.h"

#include "base/boundary.h"
#include "base/text.h"
#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/core/rebuilt_values.h"
#include "shapes/dtypes.h"
#include "tensor/tensor_guard.h"

#include <algorithm>
#include <string_view>

namespace stator::interpret {

namespace {

// A tensor is a way to hand on one number, or a few; of more each would be a guard.
constexpr int64_t kMostNumbers = 16;

bool isThereBefore(const Source* source) {
  while (source->base != nullptr) source = source->base;
  return source->kind != SourceKind::kDrawn;
}

bool mayRead(Tracer& tracer, PyObject* value) {
  return graph::isStandIn(value) && graph::asStandIn(value)->meta != nullptr &&
         tracer.options.reads_numbers && !tracer.graphs.nested() &&
         !tracer.options.capture_scalar_outputs;
}

bool isFromOutside(const graph::Node& node) {
  return node.op == graph::Op::kInput && node.source != nullptr && node.example &&
         !node.scalar_type && !node.wrapper && node.meta != nullptr &&
         isPlainTensorType(Py_TYPE(node.example.get())) && isThereBefore(node.source);
}

Out numberAt(Tracer& tracer, const graph::Node& input, int64_t index, bool any = false) {
  // What is captured has written to it.
  if (tracer.storages.isInputWritten(input.meta->storage_id)) return Ref<>();
  Ref<> number = stealRef(tensor::numberOf(input.example.get(), index));
  if (!number) return Ref<>();
  tracer.storages.noteNumberRead(input.meta->storage_id);
  const Source* source =
      tracer.world.child(SourceKind::kTensorNumber, input.source, nullptr, index);
  if (any && tracer.options.history != nullptr)
    tracer.options.history->at(sourceKey(*source)).number_changed = true;
  return fromOutside(tracer, number.get(), source);
}

// The input and the element of it that a tensor of one element is a view of.
const graph::Node* viewedInput(Tracer& tracer, const graph::StandIn& view, int64_t& index) {
  for (const graph::Node* input : tracer.graphs.root().inputs()) {
    if (input->meta == nullptr || input->meta->storage_id != view.meta->storage_id) continue;
    const shapes::TensorMeta& meta = *input->meta;
    if (meta.dtype != view.meta->dtype || !isFromOutside(*input)) continue;
    int64_t inside = 1;
    bool in_order = meta.storage_offset.isStatic();
    for (size_t dim = meta.sizes.size(); dim-- > 0 && in_order;) {
      in_order = meta.sizes[dim].identical(1) || meta.strides[dim].identical(inside);
      if (dim > 0 && meta.sizes[dim].isStatic()) inside *= meta.sizes[dim].value();
    }
    if (!in_order || view.meta->isSymbolic()) continue;
    index = view.meta->storage_offset.value() - meta.storage_offset.value();
    if (index >= 0) return input;
  }
  return nullptr;
}

// The elements from `first` on, as lists of lists.
Out listAt(Tracer& tracer, PyObject* stand_in, size_t dim, int64_t first) {
  const shapes::Dims& sizes = graph::asStandIn(stand_in)->meta->sizes;
  if (dim == sizes.size()) return numberAt(tracer, *graph::asStandIn(stand_in)->node, first);
  int64_t inside = 1;
  for (size_t i = dim + 1; i < sizes.size(); ++i) inside *= sizes[i].value();
  Ref<> list = stealRef(PyList_New(0));
  for (int64_t i = 0; i < sizes[dim].value(); ++i) {
    STATOR_VALUE(item, listAt(tracer, stand_in, dim + 1, first + i * inside));
    if (!item) return item;
    if (PyList_Append(list.get(), item.get()) < 0) throw PythonError();
  }
  return tracer.made(list);
}

bool isWhole(PyObject* stand_in) {
  const shapes::TensorMeta* meta = graph::asStandIn(stand_in)->meta;
  return meta != nullptr && !shapes::isDifferentiable(meta->dtype) &&
         meta->dtype != shapes::DType::Bool;
}

// Operations that do with tensors of 64 bits what Python does with ints.
bool isLikePythons(PyObject* function) {
  static PyObject* const functions[] = {
      operatorFunction("add"), operatorFunction("sub"), operatorFunction("mul"),
      operatorFunction("eq"),  operatorFunction("ne"),  operatorFunction("lt"),
      operatorFunction("le"),  operatorFunction("gt"),  operatorFunction("ge")};
  return std::find(std::begin(functions), std::end(functions), function) != std::end(functions);
}

// Of such a tensor, of an element of one, or of what was computed of some: `sizes - t`. `any`: whichever number it is,
// the captured part is the same.
Out computed(Tracer& tracer, PyObject* value, bool any, int depth = 0) {
  constexpr int kDeepest = 4;
  if (PyLong_CheckExact(value)) return newRef(value);
  if (!graph::isStandIn(value) || depth > kDeepest) return Ref<>();
  const graph::StandIn* stand_in = graph::asStandIn(value);
  if (stand_in->meta == nullptr || stand_in->meta != stand_in->node->meta) return Ref<>();
  const graph::Node& node = *stand_in->node;
  if (depth == 0 || stand_in->meta->dtype == shapes::DType::Long) {
    int64_t index = 0;
    const graph::Node* input = isFromOutside(node) ? &node : viewedInput(tracer, *stand_in, index);
    if (input != nullptr) return numberAt(tracer, *input, index, any);
  }
  if (node.op != graph::Op::kCallFunction || !isLikePythons(node.target.get()) ||
      !stand_in->meta->sizes.empty() || PyTuple_GET_SIZE(node.args.get()) != 2)
    return Ref<>();
  STATOR_VALUE(left, computed(tracer, PyTuple_GET_ITEM(node.args.get(), 0), any, depth + 1));
  if (!left) return left;
  STATOR_VALUE(right, computed(tracer, PyTuple_GET_ITEM(node.args.get(), 1), any, depth + 1));
  if (!right) return right;
  return tracer.above.callNested(node.target.get(), {left.get(), right.get()});
}

Out numberOf(Tracer& tracer, PyObject* stand_in, bool any) {
  if (!mayRead(tracer, stand_in)) return Ref<>();
  const shapes::TensorMeta& meta = *graph::asStandIn(stand_in)->meta;
  return meta.isSymbolic() || meta.numel() != 1 ? Out(Ref<>()) : computed(tracer, stand_in, any);
}

// Whether captures of this place have seen the number steer the program both ways, and others too. Each such tensor
// doubles the graphs, where a break leaves one for each way: two of them are worth it.
bool isOneOfManyFlags(Tracer& tracer, PyObject* stand_in) {
  if (tracer.options.history == nullptr || tracer.options.fullgraph || !mayRead(tracer, stand_in))
    return false;
  int64_t index = 0;
  const graph::StandIn* value = graph::asStandIn(stand_in);
  const graph::Node* input =
      isFromOutside(*value->node) ? value->node : viewedInput(tracer, *value, index);
  if (input == nullptr || value->meta->isSymbolic() || value->meta->numel() != 1) return false;
  Ref<> number = stealRef(tensor::numberOf(input->example.get(), index));
  if (!number) return false;
  // Apart from the number's own history, which says what becomes a symbol.
  constexpr uint64_t kTruth = 0x7A11'5EED'0B00'1EA7;
  const Source* source =
      tracer.world.child(SourceKind::kTensorNumber, input->source, nullptr, index);
  constexpr int kMostFlags = 2;
  // the map's values stay where they are
  int& flags = tracer.options.history->at(kTruth).times_pinned;
  DynamicHistory::Seen& seen = tracer.options.history->at(sourceKey(*source) ^ kTruth);
  const int64_t truth = PyObject_IsTrue(number.get());
  if (seen.has_number && seen.number != truth && !seen.number_changed) {
    seen.number_changed = true;
    ++flags;
  }
  seen.has_number = true;
  seen.number = truth;
  return seen.number_changed && flags > kMostFlags;
}

}  // namespace

Out outsideNumber(Tracer& tracer, PyObject* stand_in) { return numberOf(tracer, stand_in, false); }

Out outsideTruth(Tracer& tracer, PyObject* stand_in) {
  return isOneOfManyFlags(tracer, stand_in) ? Out(Ref<>()) : outsideNumber(tracer, stand_in);
}

Out readOutside(Tracer& tracer, PyObject* method, PyObject* stand_in) {
  const std::string_view name = utf8(method);
  if (name == "tolist") {
    const graph::StandIn* value = graph::asStandIn(stand_in);
    const bool few = mayRead(tracer, stand_in) && isFromOutside(*value->node) &&
                     value->meta == value->node->meta && !value->meta->isSymbolic() &&
                     value->meta->numel() <= kMostNumbers;
    return few ? listAt(tracer, stand_in, 0, 0) : Out(Ref<>());
  }
  // It raises, or is not asked for often.
  if (name == "__complex__" || (name == "__index__" && !isWhole(stand_in))) return Ref<>();
  STATOR_VALUE(number, name == "__bool__" ? outsideTruth(tracer, stand_in)
                                          : outsideNumber(tracer, stand_in));
  if (!number || name == "item" || name == "__index__") return number;
  const char* kind = name == "__int__" ? "int" : name == "__float__" ? "float" : "bool";
  return tracer.above.callNested(builtinFunction(kind), {number.get()});
}

Out outsideSizes(Tracer& tracer, PyObject* argument, bool any) {
  if (graph::isStandIn(argument))
    return isWhole(argument) ? numberOf(tracer, argument, any) : Out(Ref<>());
  if (!PyTuple_CheckExact(argument) && !PyList_CheckExact(argument) && !PySlice_Check(argument))
    return Ref<>();
  bool found = false;
  STATOR_VALUE(made, rebuiltValues(argument, [&](PyObject* part) -> Out {
                 STATOR_VALUE(number, outsideSizes(tracer, part, any));
                 found |= static_cast<bool>(number);
                 return number ? number : newRef(part);
               }));
  return found ? made : Ref<>();
}

}  // namespace stator::interpret
