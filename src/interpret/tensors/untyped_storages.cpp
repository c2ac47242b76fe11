// The memory behind an input, as an object of the program's: read from the tensor, resized in the graph.
#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/core/tables.h"
#include "interpret/core/tracer.h"
#include "interpret/tensors/rows.h"
#include "interpret/tensors/tensor_call.h"

namespace stator::interpret {

namespace {

PyObject* reader() {
  static PyObject* const read = torchObject("stator._contexts.read_storage");
  return read;
}

Out untypedStorage(Tracer& t, const Args& args) {
  const bool plain = args.values.size() == 1 && graph::isStandIn(args.values[0]) &&
                     graph::asStandIn(args.values[0])->node->source != nullptr &&
                     graph::asStandIn(args.values[0])->meta != nullptr &&
                     t.options.runs_as_captured;
  if (!plain) return t.breakWith(Reason::kCallsOutside, "TensorBase.untyped_storage");
  const graph::Node* node = graph::asStandIn(args.values[0])->node;
  Ref<> storage = stealRef(PyObject_CallOneArg(reader(), node->example.get()));
  if (!storage) return t.raiseCurrentError();
  return fromOutside(t, storage.get(),
                     t.world.child(SourceKind::kAsked, node->source, newRef(reader()).get()));
}

// storage.resize_(size)
Out resizeStorage(Tracer& t, const Args& args) {
  const auto refused = [&] { return t.breakWith(Reason::kCallsOutside, "UntypedStorage.resize_"); };
  if (args.positional != 2 || args.keywordCount() != 0 || graph::isStandIn(args.values[0]))
    return refused();
  const values::Info* info = t.values.find(args.values[0]);
  const Source* source = info != nullptr ? info->source : nullptr;
  if (source == nullptr || source->kind != SourceKind::kAsked || source->key.get() != reader())
    return refused();
  for (graph::Node* input : t.graphs.root().inputs()) {
    if (input->source != source->base || input->meta == nullptr || t.graphs.nested()) continue;
    Ref<> tensor =
        graph::makeStandIn(input, input->meta, reinterpret_cast<PyObject*>(tensorType()));
    t.values.addMade(tensor.get(), t.frames.instruction());
    Args call;
    call.values = {tensor.get(), args.values[1]};
    call.positional = 2;
    STATOR_VALUE(done, tensorCall(t, graph::Op::kCallFunction,
                                  torchObject("torch.ops.inductor.resize_storage_bytes_.default"),
                                  call, true));
    return newRef(args.values[0]);
  }
  return refused();
}

}  // namespace

void registerUntypedStorages() {
  registerHandler("torch.Tensor.untyped_storage", untypedStorage);
  registerHandler("torch.UntypedStorage.resize_", resizeStorage);
}

}  // namespace stator::interpret
