// Values that existed before the trace: giving them sources and guards as they are read, and working copies once their
// contents matter.
#include "interpret/core/outside.h"

#include "base/check.h"
#include "base/numpy_number.h"
#include "interpret/core/callers_fakes.h"
#include "interpret/core/guarded_values.h"
#include "interpret/core/known.h"
#include "interpret/core/outside_symbols.h"
#include "interpret/core/sym_scalars.h"
#include "interpret/core/symbols.h"
#include "interpret/core/trace_iterator.h"
#include "interpret/core/trace_traceback.h"
#include "interpret/core/tracer.h"
#include "python/objects.h"
#include "python/types.h"
#include "symbolic/sym_int.h"
#include "tensor/meta_of.h"
#include "values/dicts.h"

namespace stator::interpret {

bool guardedByIdentity(PyObject* object) {
  return PyType_Check(object) || PyModule_Check(object) ||
         (PyCFunction_Check(object) && !isBoundBuiltin(object)) || PyCode_Check(object) ||
         Py_TYPE(object) == &PyMethodDescr_Type || Py_TYPE(object) == &PyWrapperDescr_Type ||
         Py_TYPE(object) == &PyGetSetDescr_Type || Py_TYPE(object) == &PyMemberDescr_Type ||
         Py_TYPE(object) == &PyClassMethodDescr_Type || Py_TYPE(object) == &PyProperty_Type ||
         Py_TYPE(object) == &PyStaticMethod_Type || Py_TYPE(object) == &PyClassMethod_Type ||
         isEnumMember(object) || isOpaqueConstant(object);
}

namespace {

// mark_static_address(tensor, guard=True): the graph is for this very tensor.
bool isGuardedByAddress(PyObject* tensor) {
  static PyObject* const mark = PyUnicode_InternFromString("_dynamo_static_input_type");
  PyObject* found = nullptr;
  return stator_object_lookup(tensor, mark, &found) == STATOR_FOUND && PyUnicode_Check(found) &&
         PyUnicode_CompareWithASCIIString(found, "guarded") == 0;
}

// None, bools, and the numbers of which CPython makes one object each.
bool isOneOfItsValue(PyObject* scalar) {
  if (scalar == Py_None || PyBool_Check(scalar)) return true;
  if (!PyLong_CheckExact(scalar)) return false;
  int overflow = 0;
  const long value = PyLong_AsLongAndOverflow(scalar, &overflow);
  return overflow == 0 && value >= -5 && value <= 256;
}

// A NaN equals nothing but itself, in containers: which of them are one object tells what comes of it.
void tellNansApart(Tracer& tracer, PyObject* raw, const Source* source) {
  constexpr size_t kMost = 16;  // each with each
  std::vector<PyObject*> seen;
  for (const auto& [known, other] : tracer.identities.scalars()) {
    if (!values::isNan(known) || std::find(seen.begin(), seen.end(), known) != seen.end()) continue;
    seen.push_back(known);
    if (seen.size() > kMost) return;
    const GuardKind kind = known == raw ? GuardKind::kSameAs : GuardKind::kNotSameAs;
    if (other != source) tracer.world.guard(Guard{kind, source, other});
  }
}

Out scalarFromOutside(Tracer& tracer, PyObject* raw, const Source* source) {
  if (PyLong_CheckExact(raw)) {
    STATOR_VALUE(symbol, intFromOutside(tracer, raw, source));
    if (symbol) return symbol;
  }
  if (PyFloat_CheckExact(raw) && tracer.options.symbolic_floats) {
    STATOR_VALUE(symbol, floatFromOutside(tracer, raw, source));
    if (symbol) return symbol;
  }
  if (values::isNan(raw)) tellNansApart(tracer, raw, source);
  if (!isOneOfItsValue(raw)) tracer.identities.addScalar(raw, source);
  tracer.world.guard(Guard{GuardKind::kEquals, source, nullptr, newRef(raw)});
  return newRef(raw);
}

// It has come up before, maybe by another way.
Out seenBefore(Tracer& tracer, PyObject* raw, const values::Info* info, const Source* source) {
  if (info->source != nullptr &&
      (info->source->kind == SourceKind::kProxied) != (source->kind == SourceKind::kProxied))
    return tracer.breakWith(breaks::Reason::kUnsupportedObject,
                            "a dict beside a read-only view of it");
  if (info->constant) {
    guardConstant(tracer, raw, source);
    if (info->source != source) tracer.identities.addSource(raw, source);
  } else if (info->source != source && info->source != nullptr) {
    tracer.world.guard(Guard{GuardKind::kSameAs, source, info->source});
  }
  if (info->unpacked) return info->shadow;
  if (!info->stand_in) return newRef(raw);
  if (source->kind == SourceKind::kParameter || source->kind == SourceKind::kBuffer)
    graph::asStandIn(info->stand_in.get())->node->of_module = true;
  return info->stand_in;
}

// The graph is for this very tensor where the program, or the way in which parameters are treated, says so.
void guardSpecialised(Tracer& tracer, PyObject* raw, const Source* source, graph::Node* node) {
  if (tracer.options.own_parameters &&
      (source->kind == SourceKind::kParameter || source->kind == SourceKind::kBuffer)) {
    node->specialised = true;
    tracer.world.guard(Guard{GuardKind::kIs, source, nullptr, newRef(raw)});
  }
  if (isGuardedByAddress(raw)) {
    node->specialised = true;
    tracer.world.guard(Guard{GuardKind::kIsWeak, source, nullptr, newRef(raw)});
  }
}

// An input of the graph, and the stand-in for it.
Out tensorFromOutside(Tracer& tracer, PyObject* raw, const Source* source) {
  // As under a transform itself (frames/trace.cpp); those of one that is over have no storage to ask for.
  if (!tracer.options.runs_as_captured && tensor::isOfTransform(raw))
    return tracer.breakWith(Reason::kSubclass, "a tensor of one of torch.func's transforms");
  STATOR_FLOW(checkFake(tracer, raw));
  values::Info& info = tracer.values.addOutside(raw, source);
  graph::Graph& root = tracer.graphs.root();
  root.metas.push_back(tensor::metaOf(raw));
  shapes::TensorMeta& meta = root.metas.back();
  std::shared_ptr<tensor::TensorGuard> guard = tensor::TensorGuard::of(raw);
  noteFakeSizes(tracer, raw, *guard);
  shapeFromOutside(tracer, raw, source, *guard, meta);
  if (guardFake(tracer, raw, source, *guard))
    tracer.world.guard(Guard{GuardKind::kTensor, source, nullptr, Ref<>(), 0, std::move(guard)});
  if (uintptr_t storage = tensor::storageOf(raw)) {
    const uint32_t id = meta.storage_id = tracer.storages.at(storage);
    tracer.storages.noteInput(id, meta.requires_grad);
    if (wasWrittenThrough(tracer, id))
      return tracer.breakWith(Reason::kSubclass,
                              "memory that was written to by way of another input");
  }
  graph::Node* node = root.addInput(source, newRef(raw), &meta);
  node->location = tracer.location();  // where the program first came to it
  node->scope = tracer.frames.innermost().scope;
  guardSpecialised(tracer, raw, source, node);
  node->of_module = source->kind == SourceKind::kParameter || source->kind == SourceKind::kBuffer;
  info.stand_in = graph::makeStandIn(node, &meta, reinterpret_cast<PyObject*>(Py_TYPE(raw)));
  // owned until the trace ends, as the graph's arguments refer to it
  tracer.values.addMade(info.stand_in.get(), 0);
  return info.stand_in;
}

// Item by item: some are symbols. The tuple that the trace works with stands for the one outside.
Out unpackedTuple(Tracer& tracer, PyObject* raw, const Source* source) {
  tracer.world.guard(
      Guard{GuardKind::kType, source, nullptr, newRef(reinterpret_cast<PyObject*>(Py_TYPE(raw)))});
  tracer.values.addOutside(raw, source);
  tracer.world.guard(Guard{GuardKind::kLength, source, nullptr, Ref<>(), PyTuple_GET_SIZE(raw)});
  Ref<> items = stealRef(PyTuple_New(PyTuple_GET_SIZE(raw)));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(raw); ++i) {
    STATOR_VALUE(item, fromOutside(tracer, PyTuple_GET_ITEM(raw, i),
                                   tracer.world.child(SourceKind::kTupleItem, source, nullptr, i)));
    PyTuple_SET_ITEM(items.get(), i, item.release());
  }
  if (!PyTuple_CheckExact(raw)) {
    // torch.Size itself takes nothing but ints.
    Ref<> packed = stealRef(PyTuple_Pack(1, items.get()));
    items = stealRef(packed ? PyTuple_Type.tp_new(Py_TYPE(raw), packed.get(), nullptr) : nullptr);
    if (!items) throw PythonError();
  }
  values::Info* info = tracer.values.find(raw);
  info->shadow = items;
  info->unpacked = true;
  tracer.identities.setOriginal(items.get(), raw);
  return items;
}

// A value that cannot change: it is guarded whole.
Out constantFromOutside(Tracer& tracer, PyObject* raw, const Source* source) {
  if (tupleChanged(tracer, raw, source)) return unpackedTuple(tracer, raw, source);
  guardConstant(tracer, raw, source);
  // The value is known; but what the program puts somewhere is its own object, not an equal one of an earlier call.
  if (PyTuple_Check(raw) || PyFrozenSet_CheckExact(raw) || PyRange_Check(raw) ||
      PySlice_Check(raw) || isNumpyNumber(raw) || partsReader(raw) != nullptr)
    tracer.values.addOutside(raw, source).constant = true;
  return newRef(raw);
}

Out identityFromOutside(Tracer& tracer, PyObject* raw, const Source* source) {
  if (isPlacement(raw)) {
    Ref<> check = stealRef(PyObject_CallOneArg(torchObject("stator._wrappers.equals"), raw));
    if (!check) return tracer.raiseCurrentError();
    tracer.world.guard(Guard{GuardKind::kIs,
                             tracer.world.child(SourceKind::kAsked, source, check.get()), nullptr,
                             newRef(Py_True)});
  } else {
    // A pattern may be the program's for a moment; modules, classes and the like are held.
    static const std::string_view kPattern = "re.Pattern";
    const GuardKind kind = Py_TYPE(raw)->tp_name == kPattern ? GuardKind::kIsWeak : GuardKind::kIs;
    tracer.world.guard(Guard{kind, source, nullptr, newRef(raw)});
  }
  tracer.values.addOutside(raw, source);
  return newRef(raw);
}

// The dict behind a read-only view; null: the view is an object as any other.
PyObject* viewedMapping(PyObject* raw) {
  if (Py_TYPE(raw) != mappingProxyType()) return nullptr;
  // What is behind it serves, since the program cannot write through the view. Other classes of dicts answer by
  // methods of their own, which the view asks.
  PyObject* mapping = reinterpret_cast<PyObject**>(raw)[2];
  return mapping != nullptr && (PyDict_CheckExact(mapping) || PyODict_CheckExact(mapping))
             ? mapping
             : nullptr;
}

void guardType(Tracer& tracer, PyObject* raw, const Source* source) {
  tracer.world.guard(
      Guard{GuardKind::kType, source, nullptr, newRef(reinterpret_cast<PyObject*>(Py_TYPE(raw)))});
}

}  // namespace

Out fromOutside(Tracer& tracer, PyObject* object, const Source* source) {
  PyObject* raw = object;
  if (values::isScalar(raw)) return scalarFromOutside(tracer, raw, source);
  if (PyType_Check(raw) &&
      PyTuple_GET_SIZE(stator_type_mro(reinterpret_cast<PyTypeObject*>(raw))) == 0)
    return tracer.breakWith(breaks::Reason::kUnsupportedClass,
                            "a class whose mro() is being asked for");
  if (const values::Info* info = tracer.values.find(raw))
    return seenBefore(tracer, raw, info, source);
  if (graph::isStandIn(raw) || isTraceIterator(raw) || symbolic::isSymbol(raw)) return newRef(raw);
  if (PyObject* mapping = viewedMapping(raw)) {
    if (source->kind != SourceKind::kObjectDict) guardType(tracer, raw, source);
    return fromOutside(tracer, mapping, tracer.world.child(SourceKind::kProxied, source));
  }
  if (tensor::isTensor(raw)) {
    if (!isPlainTensorType(Py_TYPE(raw))) {
      if (isOverloadedType(Py_TYPE(raw))) tracer.torch_function.noteRelevant();
      if (hasOwnDispatch(Py_TYPE(raw)) && !isCallersFake(tracer, raw))
        return tracer.above.wrapperFromOutside(raw, source);
    }
    if (!tensor::hasPlainFacts(raw)) {
      return tracer.breakWith(breaks::Reason::kSubclass,
                              std::string("an input is a ") + Py_TYPE(raw)->tp_name);
    }
    return tensorFromOutside(tracer, raw, source);
  }
  {
    STATOR_VALUE(array, tracer.above.arrayFromOutside(raw, source));
    if (array) return array;
  }
  if (values::isConstantDeep(raw) || partsReader(raw) != nullptr)
    return constantFromOutside(tracer, raw, source);
  if (guardedByIdentity(raw)) return identityFromOutside(tracer, raw, source);
  if (PyFunction_Check(raw)) {
    tracer.world.guard(Guard{GuardKind::kIs, tracer.world.child(SourceKind::kCode, source), nullptr,
                             newRef(PyFunction_GET_CODE(raw))});
  } else {
    guardType(tracer, raw, source);
  }
  tracer.values.addOutside(raw, source);
  return newRef(raw);
}

bool isProxied(Tracer& tracer, PyObject* value) {
  if (!PyDict_Check(value)) return false;
  const Source* source = tracer.sourceOf(value);
  return source != nullptr && source->kind == SourceKind::kProxied;
}

PyTypeObject* typeOf(Tracer& tracer, PyObject* value) {
  if (graph::isStandIn(value))
    return reinterpret_cast<PyTypeObject*>(graph::asStandIn(value)->apparent_type);
  if (symbolic::isSymScalar(value)) return symbolic::asSymScalar(value)->of;
  if (symbolic::isSymInt(value)) return &PyLong_Type;
  if (isTraceIterator(value)) return iteratorType(asTraceIterator(value));
  if (isAddress(value)) return &PyLong_Type;
  if (isTraceTraceback(value)) return &PyTraceBack_Type;
  if (isProxied(tracer, value)) return mappingProxyType();
  if (PyMethod_Check(value) && tracer.sourceOf(value) == nullptr) {
    // Methods in C, bound in the trace, are kept as methods of Python's.
    PyTypeObject* of = Py_TYPE(PyMethod_GET_FUNCTION(value));
    if (of == &PyMethodDescr_Type || of == &PyClassMethodDescr_Type) return &PyCFunction_Type;
    static PyTypeObject* const wrapper = Py_TYPE(PyObject_GetAttrString(Py_None, "__str__"));
    if (of == &PyWrapperDescr_Type) return wrapper;
  }
  return Py_TYPE(value);
}

void noteWrite(Tracer& tracer, PyObject* object) {
  values::Info* info = tracer.values.find(object);
  if (info == nullptr) return;
  const bool outside = info->origin == values::Origin::kOutside;
  if (outside) tracer.effects.write(info);
  if (outside || info->born <= tracer.modules.foldStarted()) tracer.effects.note();
}

bool runsModuleCall(Tracer& tracer) {
  auto* code = reinterpret_cast<PyObject*>(tracer.frames.innermost().code->code());
  return code == names().nn_module_call_impl || code == names().nn_module_call_inner;
}

Out readSlot(Tracer& tracer, SymbolicFrame& frame, size_t slot) {
  if (!frame.untouched.empty() && frame.untouched[slot]) {
    PyObject* raw = tracer.world.roots().slots[slot];
    const Source* source = tracer.world.root(SourceKind::kLocal, static_cast<int64_t>(slot));
    if (raw == nullptr) {
      tracer.world.guard(Guard{GuardKind::kAbsent, source});
      frame.untouched[slot] = false;
      return Ref<>();
    }
    STATOR_VALUE(value, fromOutside(tracer, raw, source));
    frame.slots[slot] = value;
    frame.untouched[slot] = false;
    return value;
  }
  return frame.slots[slot];
}

Out cellContents(Tracer& tracer, PyObject* cell) {
  values::Info* info = tracer.values.find(cell);
  if (info == nullptr || info->origin == values::Origin::kMade)
    return Ref<>::create(PyCell_GET(cell));
  if (info->dirty) return info->shadow;
  if (info->known) return info->known;
  const Source* source = tracer.world.child(SourceKind::kCell, info->source);
  PyObject* raw = PyCell_GET(cell);
  if (raw == nullptr) {
    tracer.world.guard(Guard{GuardKind::kAbsent, source});
    return Ref<>();
  }
  STATOR_VALUE(value, fromOutside(tracer, raw, source));
  tracer.values.find(cell)->known = value;
  return value;
}

Flow storeCell(Tracer& tracer, PyObject* cell, Ref<> value) {
  noteWrite(tracer, cell);
  values::Info* info = tracer.values.find(cell);
  if (info == nullptr || info->origin == values::Origin::kMade) {
    PyCell_Set(cell, value.get());
    return Flow::kOk;
  }
  info->dirty = true;
  info->shadow = std::move(value);
  return Flow::kOk;
}

bool wasWrittenThrough(Tracer& tracer, uint32_t storage) {
  if (tracer.options.runs_as_captured || storage == 0) return false;
  if (!tracer.wrappers.any() && !tracer.storages.mixesGrads(storage)) return false;
  const std::unordered_set<uint32_t> tied =
      tracer.wrappers.any() ? tracer.wrappers.tied(storage) : std::unordered_set<uint32_t>{storage};
  for (const graph::Node* input : tracer.graphs.root().inputs()) {
    if (input->written && input->meta != nullptr && tied.count(input->meta->storage_id) != 0)
      return true;
  }
  return false;
}

void specialise(Tracer& tracer, PyObject* module) {
  values::Info* info = tracer.values.find(module);
  if (info == nullptr || info->origin != values::Origin::kOutside) return;
  tracer.world.guard(Guard{GuardKind::kIsWeak, info->source, nullptr, newRef(module)});
}

namespace {

// The cell of a function's closure by its name; null: there is none.
PyObject* closureCell(PyObject* function, const char* name) {
  auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function));
  PyObject* closure = PyFunction_GET_CLOSURE(function);
  Ref<> free = stealRef(PyCode_GetFreevars(code));
  for (Py_ssize_t i = 0; free && closure != nullptr && i < PyTuple_GET_SIZE(free.get()); ++i) {
    if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(free.get(), i), name) == 0)
      return PyTuple_GET_ITEM(closure, i);
  }
  return nullptr;
}

}  // namespace

// What such a cell holds, as a trace value.
Out fromClosure(Tracer& t, PyObject* function, const char* name) {
  PyObject* closure = PyFunction_GET_CLOSURE(function);
  PyObject* cell = closureCell(function, name);
  if (cell == nullptr) return t.breakWith(Reason::kCallsOutside, name);
  if (t.values.find(cell) == nullptr) {
    if (const sources::Source* source = t.sourceOf(function)) {
      Py_ssize_t index = 0;
      while (PyTuple_GET_ITEM(closure, index) != cell) ++index;
      STATOR_VALUE(
          ignored,
          fromOutside(t, cell, t.world.child(SourceKind::kClosure, source, nullptr, index)));
    }
  }
  STATOR_VALUE(value, cellContents(t, cell));
  if (!value) return t.breakWith(Reason::kCallsOutside, name);
  return value;
}

}  // namespace stator::interpret
