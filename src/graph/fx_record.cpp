#include "graph/fx_record.h"

#include "base/boundary.h"
#include "base/check.h"
#include "base/imports.h"
#include "base/rebuilt.h"
#include "base/stack_room.h"
#include "base/text.h"
#include "graph/fx_names.h"
#include "python/types.h"

#include <algorithm>
#include <cctype>
#include <string_view>

namespace stator::graph {

namespace {

struct RecordObject {
  PyObject_HEAD
  FxRecord* record;
};

FxRecord& get(PyObject* self) { return *reinterpret_cast<RecordObject*>(self)->record; }

PyObject* helpers() {
  static PyObject* module = nullptr;
  if (module == nullptr) module = importModule("stator._node_meta");
  return module;
}

Ref<> call(const char* helper, std::initializer_list<PyObject*> arguments) {
  PyObject* module = helpers();
  Ref<> function =
      module != nullptr ? Ref<>::steal(PyObject_GetAttrString(module, helper)) : Ref<>();
  if (!function) return nullptr;
  return Ref<>::steal(
      PyObject_Vectorcall(function.get(), std::data(arguments), arguments.size(), nullptr));
}

// A number, or the text of an expression over s0, s1 ...; new reference.
PyObject* sizeValue(symbolic::Dim dim) {
  return dim.isStatic() ? PyLong_FromLongLong(dim.value())
                        : PyUnicode_FromString(dim.text().c_str());
}

Ref<> dimsTuple(const shapes::Dims& dims) {
  Ref<> tuple = Ref<>::steal(PyTuple_New(static_cast<Py_ssize_t>(dims.size())));
  for (size_t i = 0; tuple && i < dims.size(); ++i) {
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), sizeValue(dims[i]));
  }
  return tuple;
}

// Inputs stand in the order of their indices.
size_t inputPosition(const FxRecord& record, const Node& node) {
  const auto& inputs = record.graph->inputs();
  auto before = [](const Node* left, const Node* right) { return left->index < right->index; };
  auto found = std::lower_bound(inputs.begin(), inputs.end(), &node, before);
  return static_cast<size_t>(found - inputs.begin());
}

Ref<> fakeOf(PyObject* self, Node& node);

// The structure that the tracer handed out, with the fakes in the stand-ins' places.
Ref<> fakesIn(PyObject* self, PyObject* structure) {
  needStack();
  if (isStandIn(structure)) return fakeOf(self, *asStandIn(structure)->node);
  if (!PyTuple_Check(structure) && !PyList_Check(structure)) return newRef(structure);
  return rebuilt(structure, [&](PyObject* item) { return fakesIn(self, item); });
}

Ref<> fakeOfMeta(PyObject* self, const shapes::TensorMeta& meta) {
  Ref<> sizes = dimsTuple(meta.sizes);
  Ref<> strides = dimsTuple(meta.strides);
  if (!sizes || !strides) return nullptr;
  Ref<> facts = Ref<>::steal(
      Py_BuildValue("(OOiiiiNii)", sizes.get(), strides.get(), static_cast<int>(meta.dtype),
                    static_cast<int>(meta.device), static_cast<int>(meta.device_index),
                    static_cast<int>(meta.layout), sizeValue(meta.storage_offset),
                    meta.requires_grad ? 1 : 0, meta.is_parameter ? 1 : 0));
  return facts ? call("fake_from_facts", {self, facts.get()}) : nullptr;
}

Ref<> fakeOf(PyObject* self, Node& node) {
  FxRecord& record = get(self);
  // a dropped output has no place
  bool kept = node.index >= 0 && static_cast<size_t>(node.index) < record.fakes.size();
  if (kept && record.fakes[node.index]) return record.fakes[node.index];
  Ref<> fake;
  if (node.scalar_type && !node.size.isStatic()) {
    Ref<> text = Ref<>::steal(sizeValue(node.size));
    fake = text ? call("symbolic_value", {self, text.get()}) : nullptr;
  } else if (node.op == Op::kInput && node.example) {
    Ref<> position = Ref<>::steal(PyLong_FromSize_t(inputPosition(record, node)));
    if (!position) return nullptr;
    fake = call("fake_input", {self, position.get(), node.example.get()});
  } else if (node.wrapper) {
    fake = call("fake_wrapper", {self, node.wrapper.get()});
  } else if (node.meta != nullptr) {
    fake = fakeOfMeta(self, *node.meta);
  } else if (node.structure) {
    fake = fakesIn(self, node.structure.get());
  } else if (node.scalar_type) {
    fake = Ref<>::steal(PyObject_CallNoArgs(node.scalar_type.get()));
  } else {
    fake = newRef(Py_None);
  }
  if (fake && kept) record.fakes[node.index] = fake;
  return fake;
}

// Text in the form of Python's tracebacks, outermost frame first.
Ref<> traceOf(FxRecord& record, const Location* location) {
  if (location == nullptr) return Ref<>::steal(PyUnicode_FromString(""));
  auto found = record.traces.find(location);
  if (found != record.traces.end()) return found->second;
  Ref<> outer = traceOf(record, location->caller);
  if (!outer) return nullptr;
  PyCodeObject* code = location->code.get();
  const int number = PyCode_Addr2Line(code, location->offset);
  Ref<>& own = record.lines[{code, number}];
  if (!own) {
    Ref<> line = Ref<>::steal(PyLong_FromLong(number));
    if (line) own = call("frame_text", {code->co_filename, line.get(), code->co_name});
    if (!own) return nullptr;
  }
  Ref<> text = Ref<>::steal(PyUnicode_Concat(outer.get(), own.get()));
  if (text) record.traces[location] = text;
  return text;
}

// {key: (path, class)}, outermost module first.
Ref<> stackOf(FxRecord& record, const ModuleScope* scope) {
  auto found = record.stacks.find(scope);
  if (found != record.stacks.end()) return found->second;
  Ref<> stack =
      scope->outer != nullptr ? stackOf(record, scope->outer) : Ref<>::steal(PyDict_New());
  if (stack && scope->outer != nullptr) stack = Ref<>::steal(PyDict_Copy(stack.get()));
  std::string key;
  for (char c : scope->path) key += (std::isalnum(static_cast<unsigned char>(c)) != 0) ? c : '_';
  if (scope->call > 0) key.append("@").append(std::to_string(scope->call));
  PyObject* type = scope->type ? scope->type.get() : Py_None;
  Ref<> value = Ref<>::steal(Py_BuildValue("(sO)", scope->path.c_str(), type));
  if (!stack || !value || PyDict_SetItemString(stack.get(), key.c_str(), value.get()) < 0)
    return nullptr;
  record.stacks[scope] = stack;
  return stack;
}

// Whether a class is one of torch's own modules, other than a container.
bool isOfTorch(PyObject* type) {
  Ref<> module = Ref<>::steal(PyObject_GetAttrString(type, "__module__"));
  const char* text = module && PyUnicode_Check(module.get()) ? utf8OrNull(module.get()) : nullptr;
  if (text == nullptr) {
    PyErr_Clear();
    return false;
  }
  const std::string_view name = text;
  return (name.starts_with("torch.nn.modules") || name.starts_with("torch.ao.")) &&
         !name.starts_with("torch.nn.modules.container");
}

Ref<> sourceFnOf(FxRecord& record, const Node& node) {
  PyObject* target = node.target.get();
  if (node.op == Op::kCallModule) target = reinterpret_cast<PyObject*>(Py_TYPE(target));
  Ref<> name = newRef(record.names[node.index].get());
  // Inside one of torch's own modules the class is the interesting part.
  if (node.scope != nullptr && node.scope->type && isOfTorch(node.scope->type.get()))
    target = node.scope->type.get();
  Ref<> stack = record.outer_calls ? Ref<>::steal(PySequence_List(record.outer_calls.get()))
                                   : Ref<>::steal(PyList_New(0));
  Ref<> own = Ref<>::steal(Py_BuildValue("(OO)", name.get(), target));
  if (!stack || !own || PyList_Append(stack.get(), own.get()) < 0) return nullptr;
  return stack;
}

// What a graph holds that is the record's alone: a class in it may lead back to the compiled function.
int traverseGraph(const Graph& graph, visitproc visit, void* arg) {
  for (const Node& node : graph.nodes()) {
    for (const Ref<>* held : {&node.target, &node.args, &node.kwargs, &node.leave, &node.structure,
                              &node.wrapper, &node.scalar_type, &node.example})
      Py_VISIT(held->get());
  }
  Py_VISIT(graph.result.get());
  if (graph.places.use_count() == 1) {
    for (const ModuleScope& scope : graph.scopes) Py_VISIT(scope.type.get());
  }
  return 0;
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  FxRecord* record = reinterpret_cast<RecordObject*>(self)->record;
  if (record == nullptr) return 0;
  if (record->graph.use_count() == 1) {
    if (int stop = traverseGraph(*record->graph, visit, arg)) return stop;
  }
  for (const auto& [scope, stack] : record->stacks) Py_VISIT(stack.get());
  Py_VISIT(record->fake_mode.get());
  Py_VISIT(record->sources.get());
  Py_VISIT(record->outer_calls.get());
  for (const Ref<>& type : record->types) Py_VISIT(type.get());
  for (const Ref<>& fake : record->fakes) Py_VISIT(fake.get());
  return 0;
}

int clear(PyObject* self) {
  FxRecord* record = reinterpret_cast<RecordObject*>(self)->record;
  if (record == nullptr) return 0;
  record->fake_mode.reset();
  record->sources.reset();
  record->outer_calls.reset();
  auto fakes = std::move(record->fakes);
  record->fakes.clear();
  return 0;
}

void deallocate(PyObject* self) {
  PyObject_GC_UnTrack(self);
  delete reinterpret_cast<RecordObject*>(self)->record;
  PyObject_GC_Del(self);
}

PyObject* getFakeMode(PyObject* self, void*) {
  PyObject* mode = get(self).fake_mode.get();
  return newRef(mode != nullptr ? mode : Py_None).release();
}

int setFakeMode(PyObject* self, PyObject* value, void*) {
  get(self).fake_mode = value == nullptr || value == Py_None ? Ref<>() : newRef(value);
  // Fakes belong to one mode.
  for (Ref<>& fake : get(self).fakes) fake.reset();
  return 0;
}

PyObject* getSources(PyObject* self, void*) {
  PyObject* sources = get(self).sources.get();
  return newRef(sources != nullptr ? sources : Py_None).release();
}

int setSources(PyObject* self, PyObject* value, void*) {
  get(self).sources = value == nullptr ? Ref<>() : newRef(value);
  return 0;
}

PyObject* getOuterCalls(PyObject* self, void*) {
  FxRecord& record = get(self);
  if (!record.outer_calls) record.outer_calls = Ref<>::steal(PyList_New(0));
  return record.outer_calls ? newRef(record.outer_calls.get()).release() : nullptr;
}

PyObject* getInputs(PyObject* self, void*) {
  const FxRecord& record = get(self);
  Ref<> list = Ref<>::steal(PyList_New(static_cast<Py_ssize_t>(record.expressions.size())));
  for (size_t i = 0; list && i < record.expressions.size(); ++i) {
    PyObject* item = Py_BuildValue("(sO)", record.expressions[i].c_str(),
                                   record.is_static[i] ? Py_True : Py_False);
    if (item == nullptr) return nullptr;
    PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), item);
  }
  return list.release();
}

PyObject* getExamples(PyObject* self, void*) {
  const auto& inputs = get(self).graph->inputs();
  Ref<> list = Ref<>::steal(PyList_New(static_cast<Py_ssize_t>(inputs.size())));
  for (size_t i = 0; list && i < inputs.size(); ++i) {
    PyObject* example = inputs[i]->example ? inputs[i]->example.get() : Py_None;
    PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), newRef(example).release());
  }
  return list.release();
}

// Of each input: None, or (sizes, strides) of a tensor that has symbols among them, or the name of a symbol.
PyObject* getShapes(PyObject* self, void*) {
  const auto& inputs = get(self).graph->inputs();
  Ref<> list = Ref<>::steal(PyList_New(static_cast<Py_ssize_t>(inputs.size())));
  for (size_t i = 0; list && i < inputs.size(); ++i) {
    Ref<> item = newRef(Py_None);
    if (inputs[i]->scalar_type) {
      item = Ref<>::steal(sizeValue(inputs[i]->size));
    } else if (inputs[i]->meta != nullptr && inputs[i]->meta->isSymbolic()) {
      Ref<> sizes = dimsTuple(inputs[i]->meta->sizes),
            strides = dimsTuple(inputs[i]->meta->strides);
      item = Ref<>::steal(sizes && strides ? PyTuple_Pack(2, sizes.get(), strides.get()) : nullptr);
    }
    if (!item) return nullptr;
    PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), item.release());
  }
  return list.release();
}

// Of each input: the trace's fake instance of a wrapper class, or None.
PyObject* getWrappers(PyObject* self, void*) {
  const auto& inputs = get(self).graph->inputs();
  Ref<> list = Ref<>::steal(PyList_New(static_cast<Py_ssize_t>(inputs.size())));
  for (size_t i = 0; list && i < inputs.size(); ++i) {
    PyObject* wrapper = inputs[i]->wrapper ? inputs[i]->wrapper.get() : Py_None;
    PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), newRef(wrapper).release());
  }
  return list.release();
}

// The positions of tensors of which only facts are known: values of another region.
PyObject* getUnseen(PyObject* self, void*) {
  const auto& inputs = get(self).graph->inputs();
  Ref<> list = Ref<>::steal(PyList_New(0));
  for (size_t i = 0; list && i < inputs.size(); ++i) {
    if (inputs[i]->example || inputs[i]->scalar_type || inputs[i]->meta == nullptr) continue;
    Ref<> position = Ref<>::steal(PyLong_FromSize_t(i));
    if (!position || PyList_Append(list.get(), position.get()) < 0) return nullptr;
  }
  return list.release();
}

PyObject* inputFake(PyObject* self, PyObject* position) {
  const size_t at = PyLong_AsSize_t(position);
  const auto& inputs = get(self).graph->inputs();
  if (at >= inputs.size()) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_IndexError, "the graph has no such input");
    return nullptr;
  }
  return fakeOf(self, *inputs[at]).release();
}

PyObject* countCalls(PyObject* self, void*) {
  return PyLong_FromSize_t(get(self).graph->callCount());
}

PyObject* hasScalars(PyObject* self, void*) {
  for (const Node* input : get(self).graph->inputs()) {
    if (input->scalar_type) return newRef(Py_True).release();
  }
  return newRef(Py_False).release();
}

PyObject* getFloats(PyObject* self, void*) {
  const auto& inputs = get(self).graph->inputs();
  Ref<> list = Ref<>::steal(PyList_New(0));
  for (size_t i = 0; list && i < inputs.size(); ++i) {
    if (!isFloatTensor(*inputs[i])) continue;
    Ref<> position = Ref<>::steal(PyLong_FromSize_t(i));
    if (!position || PyList_Append(list.get(), position.get()) < 0) return nullptr;
  }
  return list.release();
}

PyObject* getSymbols(PyObject* self, void*) {
  const Symbols* symbols = get(self).graph->symbols.get();
  if (symbols == nullptr) return newRef(Py_None).release();
  Ref<> hints = Ref<>::steal(PyList_New(0)), conditions = Ref<>::steal(PyList_New(0));
  if (!hints || !conditions) return nullptr;
  for (int64_t hint : symbols->hints) {
    if (PyList_Append(hints.get(), Ref<>::steal(PyLong_FromLongLong(hint)).get()) < 0)
      return nullptr;
  }
  for (const std::string& condition : symbols->conditions) {
    if (PyList_Append(conditions.get(),
                      Ref<>::steal(PyUnicode_FromString(condition.c_str())).get()) < 0)
      return nullptr;
  }
  Ref<> unbacked = Ref<>::steal(PyList_New(0));
  for (int64_t number : symbols->unbacked) {
    if (!unbacked ||
        PyList_Append(unbacked.get(), Ref<>::steal(PyLong_FromLongLong(number)).get()) < 0)
      return nullptr;
  }
  return PyTuple_Pack(3, hints.get(), conditions.get(), unbacked.get());
}

PyGetSetDef properties[] = {
    {"shapes", getShapes, nullptr,
     "of each input: None, (sizes, strides) with symbols, or a symbol's name", nullptr},
    {"wrappers", getWrappers, nullptr,
     "of each input: the trace's fake instance of a wrapper class, or None", nullptr},
    {"unseen", getUnseen, nullptr,
     "positions of inputs of which only facts are known, while the examples are there", nullptr},
    {"calls", countCalls, nullptr, "how many nodes are calls", nullptr},
    {"has_scalars", hasScalars, nullptr, "whether ints or floats are among the inputs", nullptr},
    {"floats", getFloats, nullptr, "positions of inputs that are floats, as tensors", nullptr},
    {"outer_calls", getOuterCalls, nullptr,
     "of a function that graphs call: the calls around it, outermost first", nullptr},
    {"symbols", getSymbols, nullptr,
     "(hints, conditions, numbers of unbacked ones) of the symbols, or None", nullptr},
    {"fake_mode", getFakeMode, setFakeMode,
     "the FakeTensorMode that example values belong to, or None", nullptr},
    {"sources", getSources, setSources, "source objects of the inputs, or None", nullptr},
    {"inputs", getInputs, nullptr, "(expression, is static) of each input", nullptr},
    {"examples", getExamples, nullptr, "the values seen at capture; None once they are dropped",
     nullptr},
    {nullptr}};

// Copies of a module share its record.
PyObject* same(PyObject* self, PyObject*) { return newRef(self).release(); }

PyMethodDef methods[] = {
    {"__copy__", same, METH_NOARGS, nullptr},
    {"__deepcopy__", same, METH_O, nullptr},
    {"input_fake", inputFake, METH_O, "input_fake(position): a FakeTensor by the input's facts."},
    {nullptr}};

PyTypeObject makeType() {
  PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
  type.tp_name = "stator._core.FxRecord";
  type.tp_basicsize = sizeof(RecordObject);
  type.tp_dealloc = deallocate;
  type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION;
  type.tp_doc = "What the lazy parts of one FX graph share.";
  type.tp_traverse = traverse;
  type.tp_clear = clear;
  type.tp_methods = methods;
  type.tp_getset = properties;
  return type;
}

PyTypeObject record_type = makeType();

PyObject* key_names[kMetaKeys];

void describeInputs(FxRecord& record, const Graph& graph, PyCodeObject* code) {
  const size_t count = graph.inputs().size();
  record.expressions.reserve(count);
  record.is_static.reserve(count);
  record.types.reserve(count);
  SourceExpressions expressions(code);
  for (const Node* node : graph.inputs()) {
    record.expressions.push_back(node->source != nullptr ? expressions.of(*node->source)
                                                         : node->name_hint);
    const bool registered =
        node->source != nullptr && (node->source->kind == sources::SourceKind::kParameter ||
                                    node->source->kind == sources::SourceKind::kBuffer);
    record.is_static.push_back(node->of_module || registered ||
                               (node->meta != nullptr && node->meta->is_parameter));
    const bool typed = node->example && !node->scalar_type;
    record.types.push_back(typed ? newRef(reinterpret_cast<PyObject*>(Py_TYPE(node->example.get())))
                                 : Ref<>());
  }
}

}  // namespace

bool initRecordType() {
  const char* names[kMetaKeys] = {"example_value",   "stack_trace", "nn_module_stack",
                                  "source_fn_stack", "grapharg",    "tensor_dict"};
  for (int i = 0; i < kMetaKeys; ++i) {
    key_names[i] = PyUnicode_InternFromString(names[i]);
    if (key_names[i] == nullptr) return false;
  }
  return PyType_Ready(&record_type) == 0;
}

PyObject* metaKeyName(MetaKey key) { return key_names[static_cast<int>(key)]; }

Ref<> makeRecord(std::shared_ptr<Graph> graph, PyCodeObject* code) {
  auto* self = PyObject_GC_New(RecordObject, &record_type);
  if (self == nullptr) return nullptr;
  self->record = new FxRecord();
  self->record->names.resize(graph->nodes().size());
  self->record->fakes.resize(graph->nodes().size());
  describeInputs(*self->record, *graph, code);
  self->record->graph = std::move(graph);
  auto* object = reinterpret_cast<PyObject*>(self);
  PyObject_GC_Track(object);
  return Ref<>::steal(object);
}

FxRecord* recordOf(PyObject* object) {
  STATOR_CHECK(Py_TYPE(object) == &record_type);
  return &get(object);
}

std::shared_ptr<Graph> bodyOf(PyObject* value) {
  if (!stator_is_user_class(Py_TYPE(value))) return nullptr;
  Ref<> name = stealRef(PyObject_GetAttrString(value, "_stator_name"));
  if (!name) {
    PyErr_Clear();
    return nullptr;
  }
  Ref<> home = orThrow(importModule("stator._fx"));
  Ref<> records = orThrow(PyObject_GetAttrString(home.get(), "_function_records"));
  Ref<> record = orThrow(PyObject_CallMethod(records.get(), "get", "(O)", value));
  return record.get() != Py_None ? recordOf(record.get())->graph : nullptr;
}

uint8_t metaKeysOf(const Node& node) {
  auto bit = [](MetaKey key) { return static_cast<uint8_t>(1U << static_cast<int>(key)); };
  uint8_t keys = 0;
  if (node.meta != nullptr || node.structure || node.scalar_type)
    keys |= bit(MetaKey::kExampleValue);
  if (node.location != nullptr) keys |= bit(MetaKey::kStackTrace);
  if (node.scope != nullptr) keys |= bit(MetaKey::kModuleStack);
  if (node.op == Op::kInput) {
    keys |= bit(MetaKey::kGraphArg);
    if (node.meta != nullptr) keys |= bit(MetaKey::kTensorDict);
  } else if (node.op != Op::kAttribute) {
    keys |= bit(MetaKey::kSourceFn);
  }
  return keys;
}

Ref<> makeMeta(PyObject* self, int index, MetaKey key) {
  FxRecord& record = get(self);
  Node& node = record.graph->nodes()[static_cast<size_t>(index)];
  switch (key) {
    case MetaKey::kExampleValue:
      return fakeOf(self, node);
    case MetaKey::kStackTrace:
      return traceOf(record, node.location);
    case MetaKey::kModuleStack: {
      Ref<> stack = stackOf(record, node.scope);
      return stack ? Ref<>::steal(PyDict_Copy(stack.get())) : nullptr;
    }
    case MetaKey::kSourceFn:
      return sourceFnOf(record, node);
    case MetaKey::kGraphArg:
    case MetaKey::kTensorDict: {
      const size_t at = inputPosition(record, node);
      PyObject* example = node.example ? node.example.get() : Py_None;
      if (key == MetaKey::kTensorDict)
        return call("tensor_dict", {record.is_static[at] ? Py_True : Py_False, example});
      Ref<> position = Ref<>::steal(PyLong_FromSize_t(at));
      return position ? call("graph_arg", {self, position.get(), example}) : nullptr;
    }
  }
  return nullptr;
}

}  // namespace stator::graph
