#include "runtime/disk_cache.h"

#include "base/boundary.h"
#include "base/imports.h"
#include "disk/artifact_file.h"
#include "disk/digest.h"
#include "disk/machine.h"
#include "graph/content.h"
#include "runtime/settings.h"
#include "shapes/dtypes.h"
#include "symbolic/expr.h"
#include "tensor/meta_of.h"
#include "tensor/tensor_guard.h"

#include <map>
#include <utility>

namespace stator::runtime {

namespace {

Ref<> callDisk(const char* function, PyObject* argument) {
  Ref<> module = orThrow(importModule("stator._disk"));
  Ref<> called = orThrow(PyObject_GetAttrString(module.get(), function));
  return orThrow(PyObject_CallOneArg(called.get(), argument));
}

void notKept(const std::string& why) {
  Ref<> text = orThrow(PyUnicode_FromString(why.c_str()));
  callDisk("not_kept", text.get());
}

void word(std::string& out, uint64_t value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void addMeta(const shapes::TensorMeta& meta, std::string& out) {
  word(out, static_cast<uint64_t>(meta.dtype));
  word(out, static_cast<uint64_t>(meta.device) << 16 | static_cast<uint16_t>(meta.device_index));
  word(out, (meta.requires_grad ? 1 : 0) | (meta.is_leaf ? 2 : 0) | (meta.is_conj ? 4 : 0) |
                (meta.is_neg ? 8 : 0) | (meta.is_inference ? 16 : 0) |
                (meta.is_parameter ? 32 : 0) | (meta.is_wrapped_number ? 64 : 0));
}

// What the backend reads of the inputs beyond their sizes, and which of them share memory. False: one of them is no
// plain tensor.
bool addInputs(const graph::Graph& graph, std::string& out) {
  // By address, and by number for what another region of the graph makes.
  std::map<std::pair<bool, uintptr_t>, uint64_t> storages;
  auto share = [&](bool made, uintptr_t storage) {
    word(out, storages.try_emplace({made, storage}, storages.size()).first->second);
  };
  for (const graph::Node* input : graph.inputs()) {
    if (input->scalar_type) continue;
    PyObject* example = input->example.get();
    if (example == nullptr && input->meta != nullptr && input->meta->storage_id != 0 &&
        input->meta->layout == 0) {
      addMeta(*input->meta, out);
      share(true, input->meta->storage_id);
      continue;
    }
    if (example == nullptr || !tensor::isExactTensor(example)) return false;
    const shapes::TensorMeta meta = tensor::metaOf(example);
    const std::shared_ptr<tensor::TensorGuard> guard = tensor::TensorGuard::of(example);
    if (meta.layout != 0) return false;  // strided
    addMeta(meta, out);
    word(out, guard->dispatch_keys);
    word(out, guard->dynamo_attributes);
    share(false, tensor::storageOf(example));
    // Code for GPUs takes parameters to begin where they did.
    if (meta.device != shapes::DeviceType::CPU)
      word(out,
           static_cast<uint64_t>(meta.storage_offset.value() * shapes::itemSize(meta.dtype)) % 16);
  }
  return true;
}

std::string diskKey(const graph::Graph& graph, PyObject* backend) {
  Ref<> ask = Ref<>::steal(PyObject_GetAttrString(backend, "disk_settings"));
  if (!ask) {
    PyErr_Clear();  // a callable as it is
    return "";
  }
  Ref<> settings = orThrow(PyObject_CallNoArgs(ask.get()));
  if (!PyBytes_Check(settings.get())) return "";
  const tensor::GlobalState state = tensor::GlobalState::now();
  if (state.modes) {
    notKept("a mode of torch is active");
    return "";
  }
  Result<std::string> content = graph::contentOf(graph);
  if (!content) {
    notKept(content.failure().why);
    return "";
  }
  std::string inputs;
  if (!addInputs(graph, inputs)) {
    notKept("an input is no plain tensor");
    return "";
  }
  disk::Digest digest;
  auto part = [&](std::string_view bytes) {
    std::string size;
    word(size, bytes.size());
    digest.add(size);
    digest.add(bytes);
  };
  std::string words;
  word(words, disk::kFormat);
  for (uint64_t one : state.words) word(words, one);
  part({PyBytes_AS_STRING(settings.get()), static_cast<size_t>(PyBytes_GET_SIZE(settings.get()))});
  part(disk::processor());
  part(words);
  part(inputs);
  part(*content);
  return disk::hex(digest.finish());
}

graph::Compiled load(const std::string& key, PyObject* backend) {
  Ref<> found = orThrow(PyObject_CallMethod(backend, "find_kept", "s", key.c_str()));
  return found.get() == Py_None ? graph::Compiled() : graph::readCompiled(found.get());
}

// Whether what the backend relied on is true for the sizes of this capture.
bool fits(const graph::Compiled& found, const graph::Symbols& symbols) {
  for (const std::string& text : found.conditions) {
    const symbolic::Expr* condition = symbolic::parse(text);
    if (condition == nullptr || !condition->isTruth()) return false;
    if (symbolic::evaluate(condition, symbols.hints.data(), symbols.hints.size()) != 1)
      return false;
  }
  return true;
}

// For a graph whose symbols have other values than those that the one under `key` was made for, and does not fit.
std::string keyOfHints(const std::string& key, const graph::Symbols& symbols) {
  std::string words = key;
  for (int64_t hint : symbols.hints) word(words, static_cast<uint64_t>(hint));
  return disk::hex(disk::sumOf(words));
}

}  // namespace

Kept findKept(const graph::Graph& graph, PyObject* backend) {
  Kept kept;
  kept.key = diskKey(graph, backend);
  if (kept.key.empty()) return kept;
  kept.compiled = load(kept.key, backend);
  if (kept.compiled.callable && graph.symbols && !fits(kept.compiled, *graph.symbols)) {
    kept.key = keyOfHints(kept.key, *graph.symbols);
    kept.compiled = load(kept.key, backend);
  }
  (kept.compiled.callable ? statistics().disk_hits : statistics().disk_misses)++;
  return kept;
}

}  // namespace stator::runtime
