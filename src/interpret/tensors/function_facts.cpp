#include "interpret/tensors/function_facts.h"

#include "interpret/core/known.h"
#include "shapes/dtypes.h"

#include <unordered_set>

namespace stator::interpret {

namespace {

using StorageIds = std::unordered_set<uint32_t>;

// What the body writes to it has made itself.
bool onlyComputes(const graph::Graph& body, const StorageIds& of_inputs) {
  bool only = true;
  auto is_own = [&](graph::StandIn* used) {
    only &= used->meta != nullptr && used->meta->storage_id != 0 &&
            of_inputs.count(used->meta->storage_id) == 0;
  };
  for (const graph::Node& node : body.nodes()) {
    if (node.op == graph::Op::kInput || node.sets_mode) continue;
    only &= !node.random && !node.wrapper;
    if (!node.mutates) continue;
    graph::forEachUsed(node, is_own);
  }
  return only;
}

}  // namespace

void noteFunctionFacts(Tracer& tracer, PyObject* module, const graph::Graph& body,
                       const std::vector<PyObject*>& outputs) {
  StorageIds storages;
  for (const graph::Node* input : body.inputs()) {
    if (input->meta == nullptr || input->wrapper) return;
    storages.insert(input->meta->storage_id);
  }
  if (!onlyComputes(body, storages)) return;
  shapes::Inferred given;
  given.structure = shapes::Structure::kTuple;
  for (PyObject* output : outputs) {
    const shapes::TensorMeta& meta = *graph::asStandIn(output)->meta;
    if (!storages.insert(meta.storage_id).second || meta.layout != 0 || meta.is_conj ||
        meta.is_neg || meta.is_inference)
      return;
    given.outputs.emplace_back().meta = meta;
    given.outputs.back().meta.storage_id = 0;
  }
  tracer.graphs.noteResults(module, std::move(given));
}

std::optional<shapes::Inferred> factsOfFunction(Tracer& tracer, PyObject* target,
                                                const Args& args) {
  static PyObject* const apply = torchObject("torch.ops.higher_order.autograd_function_apply");
  if (target != apply || args.positional == 0 || args.keyword("dirty_idx") != nullptr) return {};
  const shapes::Inferred* given = tracer.graphs.resultsOf(args.values[0]);
  PyObject* fixed = args.keyword("non_differentiable_idx");
  if (given == nullptr || fixed == nullptr || !PyList_CheckExact(fixed)) return {};
  bool differentiable = false;
  for (PyObject* value : args.values) {
    differentiable |= graph::isStandIn(value) && graph::asStandIn(value)->meta != nullptr &&
                      graph::asStandIn(value)->meta->requires_grad;
  }
  shapes::Inferred facts = *given;
  for (size_t i = 0; i < facts.outputs.size(); ++i) {
    shapes::TensorMeta& meta = facts.outputs[i].meta;
    Ref<> place = stealRef(PyLong_FromSize_t(i));
    meta.requires_grad = differentiable && tracer.torch.now().grad_enabled &&
                         shapes::isDifferentiable(meta.dtype) &&
                         PySequence_Contains(fixed, place.get()) == 0;
    meta.is_leaf = !meta.requires_grad;
    meta.is_parameter = false;
  }
  return facts;
}

}  // namespace stator::interpret
