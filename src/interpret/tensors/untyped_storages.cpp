// The memory behind an input, as an object of the program's: read from the tensor, asked for its size, resized in the
// graph.
#include "base/text.h"
#include "interpret/core/apparent_types.h"
#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/core/tables.h"
#include "interpret/core/tracer.h"
#include "interpret/tensors/rows.h"
#include "interpret/tensors/tensor_call.h"

#include <string_view>
#include <utility>

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
                     wrapperOf(args.values[0]) == nullptr && t.options.fake_mode == nullptr;
  if (!plain) return t.breakWith(Reason::kCallsOutside, "TensorBase.untyped_storage");
  const graph::Node* node = graph::asStandIn(args.values[0])->node;
  Ref<> storage = stealRef(PyObject_CallOneArg(reader(), node->example.get()));
  if (!storage) return t.raiseCurrentError();
  return fromOutside(t, storage.get(),
                     t.world.child(SourceKind::kAsked, node->source, newRef(reader()).get()));
}

// Where the tensor comes from whose storage this is; null: it is none that was read above.
const Source* ownerOf(Tracer& t, PyObject* storage) {
  const values::Info* info = graph::isStandIn(storage) ? nullptr : t.values.find(storage);
  const Source* source = info != nullptr ? info->source : nullptr;
  const bool is_read =
      source != nullptr && source->kind == SourceKind::kAsked && source->key.get() == reader();
  return is_read ? source->base : nullptr;
}

// Whether the captured part has given a tensor other memory, or memory another size.
bool anyMemoryChanges(Tracer& t) {
  const auto changes = [](const graph::Node& node) {
    if (!node.mutates || !node.target) return false;
    Ref<> text = stealRef(PyObject_Str(node.target.get()));
    if (!text) PyErr_Clear();
    const std::string_view name = text ? utf8(text.get()) : "set_";
    return name.find("resize") != name.npos || name.find("set_") != name.npos;
  };
  if (t.graphs.nested()) return true;
  for (const graph::Node& node : std::as_const(t.graphs.root()).nodes()) {
    if (changes(node)) return true;
  }
  return false;
}

// storage.size(), storage.nbytes()
Out storageSize(Tracer& t, const Args& args) {
  const Source* owner = args.values.size() == 1 ? ownerOf(t, args.values[0]) : nullptr;
  if (owner == nullptr || anyMemoryChanges(t))
    return t.breakWith(Reason::kCallsOutside, "UntypedStorage.nbytes");
  static PyObject* const ask = torchObject("stator._contexts.read_storage_size");
  static PyObject* const nbytes = PyUnicode_InternFromString("nbytes");
  Ref<> size = stealRef(PyObject_CallMethodNoArgs(args.values[0], nbytes));
  if (!size) return t.raiseCurrentError();
  t.world.guard(Guard{GuardKind::kEquals,
                      t.world.child(SourceKind::kAsked, owner, newRef(ask).get()), nullptr, size});
  return size;
}

// storage.resize_(size)
Out resizeStorage(Tracer& t, const Args& args) {
  const auto refused = [&] { return t.breakWith(Reason::kCallsOutside, "UntypedStorage.resize_"); };
  if (args.positional != 2 || args.keywordCount() != 0 || !t.options.runs_as_captured)
    return refused();
  const Source* owner = ownerOf(t, args.values[0]);
  if (owner == nullptr) return refused();
  for (graph::Node* input : t.graphs.root().inputs()) {
    if (input->source != owner || input->meta == nullptr || t.graphs.nested()) continue;
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
  registerHandler("torch.UntypedStorage.nbytes", storageSize);
  registerHandler("torch.UntypedStorage.size", storageSize);
}

}  // namespace stator::interpret
