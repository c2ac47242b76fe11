// Reading a source: one step by the concrete C layout of its base, so that no user code runs.
#include "base/check.h"
#include "base/hot.h"
#include "base/imports.h"
#include "python/dict_views.h"
#include "python/fields.h"
#include "python/objects.h"
#include "python/types.h"
#include "sources/short_lived.h"
#include "sources/source.h"

#include <string_view>
#include <structmember.h>
#include <vector>

namespace stator::sources {

namespace {

TensorParts tensor_parts;

// Offset of a C member of a type that CPython does not publish the layout of, read from the type's own member
// descriptor; -1: none.
Py_ssize_t memberOffset(PyTypeObject* type, const char* name) {
  PyObject* own = stator_type_entries(type);
  PyObject* found = own != nullptr ? PyDict_GetItemString(own, name) : nullptr;
  if (found == nullptr || Py_TYPE(found) != &PyMemberDescr_Type) return -1;
  const PyMemberDef* member = stator_descriptor_member(found);
  return member->type == T_OBJECT || member->type == T_OBJECT_EX ? member->offset : -1;
}

PyTypeObject* importedType(const char* module, const char* name) {
  PyObject* type = nullptr;
  if (Ref<> imported = stealRef(importModule(module)))
    type = PyObject_GetAttrString(imported.get(), name);
  if (type == nullptr) PyErr_Clear();
  // kept for good
  return type != nullptr && PyType_Check(type) ? reinterpret_cast<PyTypeObject*>(type) : nullptr;
}

struct Layouts {
  PyTypeObject* partial = importedType("functools", "partial");
  PyTypeObject* deque = importedType("collections", "deque");
  Py_ssize_t partial_func = partial ? memberOffset(partial, "func") : -1;
  Py_ssize_t partial_args = partial ? memberOffset(partial, "args") : -1;
  Py_ssize_t partial_keywords = partial ? memberOffset(partial, "keywords") : -1;
  Py_ssize_t range_start = memberOffset(&PyRange_Type, "start");
  Py_ssize_t range_stop = memberOffset(&PyRange_Type, "stop");
  Py_ssize_t range_step = memberOffset(&PyRange_Type, "step");
};

const Layouts& layouts() {
  static const Layouts known;
  return known;
}

PyObject* fieldAt(PyObject* object, Py_ssize_t offset) {
  return offset < 0 ? nullptr
                    : *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + offset);
}

PyObject* tupleItem(PyObject* tuple, int64_t index) {
  if (tuple == nullptr || !PyTuple_Check(tuple) || index < 0 || index >= PyTuple_GET_SIZE(tuple))
    return nullptr;
  return PyTuple_GET_ITEM(tuple, index);
}

PyObject* dictEntry(PyObject* dict, const Source& source, bool* unknown) {
  if (dict == nullptr || !PyDict_Check(dict) || source.hash == -1) return nullptr;
  PyObject* value = nullptr;
  if (stator_dict_get(dict, source.key.get(), source.hash, &value) == STATOR_UNKNOWN &&
      unknown != nullptr)
    *unknown = true;
  return value;
}

PyObject* attribute(PyObject* object, PyObject* name, bool* unknown) {
  if (!PyUnicode_CheckExact(name)) return nullptr;
  PyObject* value = nullptr;
  if (stator_object_lookup(object, name, &value) == STATOR_UNKNOWN && unknown != nullptr)
    *unknown = true;
  return value;
}

// An entry of one of nn.Module's three dicts.
PyObject* moduleEntry(PyObject* module, const char* which, const Source& source, bool* unknown) {
  Ref<> dict_name = stealRef(PyUnicode_InternFromString(which));
  return dictEntry(attribute(module, dict_name.get(), unknown), source, unknown);
}

PyObject* nthKey(PyObject* dict, int64_t index) {
  PyObject* key = nullptr;
  if (PyODict_Check(dict)) {
    void* cursor = nullptr;
    for (int64_t i = 0; i <= index; ++i) {
      if (stator_odict_next(dict, &cursor, &key) <= 0) return nullptr;
    }
    return key;
  }
  if (!PyDict_Check(dict)) return nullptr;
  Py_ssize_t position = 0;
  PyObject* value = nullptr;
  for (int64_t i = 0; i <= index; ++i) {
    if (!PyDict_Next(dict, &position, &key, &value)) return nullptr;
  }
  return key;
}

// Without a look-up: the keys' hashes may be Python code.
PyObject* nthValue(PyObject* dict, int64_t index) {
  if (!PyDict_Check(dict)) return nullptr;
  Py_ssize_t position = 0;
  PyObject *key = nullptr, *value = nullptr;
  for (int64_t i = 0; i <= index; ++i) {
    if (!PyDict_Next(dict, &position, &key, &value)) return nullptr;
  }
  return value;
}

PyObject* nthElement(PyObject* set, int64_t index) {
  if (!PyAnySet_Check(set)) return nullptr;
  Py_ssize_t position = 0;
  PyObject* key = nullptr;
  Py_hash_t hash = 0;
  for (int64_t i = 0; i <= index; ++i) {
    if (!_PySet_NextEntry(set, &position, &key, &hash)) return nullptr;
  }
  return key;
}

PyObject* owned(PyObject* value, Ref<>& keep) {
  if (value == nullptr) PyErr_Clear();
  keep = Ref<>::steal(value);
  return value;
}

PyFunctionObject* asFunction(PyObject* object) {
  return PyFunction_Check(object) ? reinterpret_cast<PyFunctionObject*>(object) : nullptr;
}

PyObject* readRoot(const Source& source, const Roots& roots) {
  switch (source.kind) {
    case SourceKind::kLocal:
      return roots.slots != nullptr ? roots.slots[source.index] : nullptr;
    case SourceKind::kStack:
      return roots.stack != nullptr ? roots.stack[source.index] : nullptr;
    case SourceKind::kGlobals:
      return roots.globals;
    case SourceKind::kBuiltins:
      return roots.builtins;
    case SourceKind::kFunction:
      return roots.function;
    case SourceKind::kHandled:
      return roots.handled;
    case SourceKind::kFunctionMode:
      return tensor_parts.function_mode != nullptr ? tensor_parts.function_mode(source.index)
                                                   : nullptr;
    case SourceKind::kDrawn:
      return roots.drawn != nullptr ? roots.drawn[source.index].get() : Py_None;
    default: {
      if (source.index != kWeakPin) return source.key.get();
      PyObject* object = PyWeakref_GET_OBJECT(source.key.get());
      return object != Py_None ? object : nullptr;
    }
  }
}

PyObject* readFunctionPart(const Source& source, PyObject* base, bool* unknown) {
  PyFunctionObject* function = asFunction(base);
  if (function == nullptr) return nullptr;
  switch (source.kind) {
    case SourceKind::kClosure:
      return tupleItem(function->func_closure, source.index);
    case SourceKind::kDefault:
      return tupleItem(function->func_defaults, source.index);
    case SourceKind::kKwDefault:
      return dictEntry(function->func_kwdefaults, source, unknown);
    case SourceKind::kFuncGlobals:
      return function->func_globals;
    default:
      return function->func_code;
  }
}

PyObject* readTensorPart(const Source& source, PyObject* base, Ref<>& keep) {
  if (source.kind == SourceKind::kTensorGrad)
    return tensor_parts.grad != nullptr ? owned(tensor_parts.grad(base), keep) : nullptr;
  if (source.kind == SourceKind::kTensorNumber)
    return tensor_parts.number != nullptr ? owned(tensor_parts.number(base, source.index), keep)
                                          : nullptr;
  return tensor_parts.size != nullptr ? owned(tensor_parts.size(base, source.index), keep)
                                      : nullptr;
}

// A tensor of the memory of an array.
PyObject* tensorOfArray(PyObject* base, Ref<>& keep) {
  static PyObject* const from_numpy = [] {
    Ref<> torch = stealRef(importModule("torch"));
    return torch ? PyObject_GetAttrString(torch.get(), "from_numpy") : nullptr;
  }();
  if (base == Py_None) return base;  // not drawn yet
  if (std::string_view(Py_TYPE(base)->tp_name) != "numpy.ndarray") {
    // a single number of NumPy's
    static PyObject* const as_array = [] {
      Ref<> numpy = stealRef(importModule("numpy"));
      return numpy ? PyObject_GetAttrString(numpy.get(), "asarray") : nullptr;
    }();
    Ref<> array = Ref<>::steal(PyObject_CallOneArg(as_array, base));
    if (!array) return owned(nullptr, keep);
    return owned(PyObject_CallOneArg(from_numpy, array.get()), keep);
  }
  return owned(PyObject_CallOneArg(from_numpy, base), keep);
}

// Built-in objects' own fields.
PyObject* fieldOf(const Source& source, PyObject* base) {
  switch (source.kind) {
    case SourceKind::kCell:
      return PyCell_Check(base) ? PyCell_GET(base) : nullptr;
    case SourceKind::kMethodSelf:
      return PyMethod_Check(base)      ? PyMethod_GET_SELF(base)
             : PyCFunction_Check(base) ? PyCFunction_GET_SELF(base)
                                       : nullptr;
    case SourceKind::kMethodFunc:
      return PyMethod_Check(base) ? PyMethod_GET_FUNCTION(base) : nullptr;
    case SourceKind::kPartialFunc:
    case SourceKind::kPartialArgs:
    case SourceKind::kPartialKeywords: {
      const Layouts& known = layouts();
      if (known.partial == nullptr || !PyType_IsSubtype(Py_TYPE(base), known.partial))
        return nullptr;
      return fieldAt(base, source.kind == SourceKind::kPartialFunc   ? known.partial_func
                           : source.kind == SourceKind::kPartialArgs ? known.partial_args
                                                                     : known.partial_keywords);
    }
    case SourceKind::kSliceStart:
      return PySlice_Check(base) ? reinterpret_cast<PySliceObject*>(base)->start : nullptr;
    case SourceKind::kSliceStop:
      return PySlice_Check(base) ? reinterpret_cast<PySliceObject*>(base)->stop : nullptr;
    case SourceKind::kSliceStep:
      return PySlice_Check(base) ? reinterpret_cast<PySliceObject*>(base)->step : nullptr;
    case SourceKind::kRangeStart:
      return PyRange_Check(base) ? fieldAt(base, layouts().range_start) : nullptr;
    case SourceKind::kRangeStop:
      return PyRange_Check(base) ? fieldAt(base, layouts().range_stop) : nullptr;
    case SourceKind::kRangeStep:
      return PyRange_Check(base) ? fieldAt(base, layouts().range_step) : nullptr;
    case SourceKind::kWeakTarget: {
      if (!PyWeakref_Check(base)) return nullptr;
      PyObject* target = PyWeakref_GET_OBJECT(base);
      return target != Py_None ? target : nullptr;
    }
    case SourceKind::kProxied:
      // A class's own dict, reached as its kObjectDict, is the dict already.
      return PyDict_Check(base)                   ? base
             : Py_TYPE(base) == &PyDictProxy_Type ? reinterpret_cast<PyObject**>(base)[2]
                                                  : nullptr;
    default:
      STATOR_CHECK(false, "unknown kind of source");
  }
  return nullptr;
}

// Of what runs, nothing is known.
PyObject* generatorPart(PyObject* generator, int64_t index, Ref<>& keep) {
  const int place = stator_generator_place(generator);
  if (index == kIteratorState) return owned(PyLong_FromLong(place), keep);
  StatorFrame* frame = stator_generator_frame(generator);
  if (frame == nullptr || place == STATOR_RUNNING || stator_generator_handled(generator) != nullptr)
    return nullptr;
  if (index == kIteratorFunction) return reinterpret_cast<PyObject*>(stator_frame_function(frame));
  if (index >= stator_frame_slot_count(frame) + stator_frame_depth(frame)) return nullptr;
  return stator_frame_slots(frame)[index];
}

PyObject* iteratorPart(PyObject* iterator, int64_t index, Ref<>& keep) {
  if (PyGen_CheckExact(iterator)) return generatorPart(iterator, index, keep);
  return index == kIteratorState ? owned(stator_iterator_state(iterator), keep)
                                 : stator_iterator_part(iterator, index);
}

// What containers and iterators hold.
STATOR_HOT PyObject* itemOf(const Source& source, PyObject* base, Ref<>& keep, bool* unknown) {
  PyObject* key = source.key.get();
  const int64_t index = source.index;
  switch (source.kind) {
    case SourceKind::kDictItem:
      return dictEntry(base, source, unknown);
    case SourceKind::kDictKey:
      return nthKey(base, index);
    case SourceKind::kDictValue: {
      if (!PyODict_Check(base)) return nthValue(base, index);
      PyObject* nth = nthKey(base, index);
      return nth != nullptr && (PyLong_CheckExact(nth) || PyUnicode_CheckExact(nth))
                 ? PyDict_GetItemWithError(base, nth)
                 : nullptr;
    }
    case SourceKind::kListItem:
      return PyList_Check(base) && index >= 0 && index < PyList_GET_SIZE(base)
                 ? PyList_GET_ITEM(base, index)
                 : nullptr;
    case SourceKind::kTupleItem:
      return tupleItem(base, index);
    case SourceKind::kSetItem:
      return nthElement(base, index);
    case SourceKind::kDequeItem: {
      PyTypeObject* deque = layouts().deque;
      if (deque == nullptr || !PyType_IsSubtype(Py_TYPE(base), deque) || index < 0 ||
          index >= Py_SIZE(base))
        return nullptr;
      return owned(deque->tp_as_sequence->sq_item(base, index), keep);
    }
    case SourceKind::kAhead:
      return stator_iterator_known(base) ? owned(stator_iterator_ahead(base, index), keep)
                                         : nullptr;
    case SourceKind::kIteratorPart:
      return iteratorPart(base, index, keep);
    case SourceKind::kViewDict:
      return PyDictViewSet_Check(base) || PyDictValues_Check(base) ? stator_dict_of_view(base)
                                                                   : nullptr;
    case SourceKind::kLruEntry: {
      PyObject* value = nullptr;
      if (stator_lru_get(base, key, source.hash, &value) == STATOR_UNKNOWN && unknown != nullptr)
        *unknown = true;
      return value;
    }
    default:
      return fieldOf(source, base);
  }
}

}  // namespace

STATOR_HOT PyObject* peek(const Source& source, PyObject* base, const Roots& roots, Ref<>& keep,
                          bool* unknown) {
  if (source.base == nullptr) return readRoot(source, roots);
  if (base == nullptr) return nullptr;
  PyObject* key = source.key.get();
  switch (source.kind) {
    case SourceKind::kAttr:
    case SourceKind::kTensorAttr:
      return attribute(base, key, unknown);
    case SourceKind::kGenericAttr:
      return owned(PyObject_GetAttr(base, key), keep);
    case SourceKind::kAsked:
      return owned(PyObject_CallOneArg(key, base), keep);
    case SourceKind::kParameter:
      return moduleEntry(base, "_parameters", source, unknown);
    case SourceKind::kBuffer:
      return moduleEntry(base, "_buffers", source, unknown);
    case SourceKind::kSubmodule:
      return moduleEntry(base, "_modules", source, unknown);
    case SourceKind::kObjectDict: {
      StatorView view;
      if (!stator_view_object(&view, base)) return nullptr;
      if (view.dict != nullptr) return reinterpret_cast<PyObject*>(view.dict);
      return owned(PyObject_GenericGetDict(base, nullptr), keep);  // brings the dict into being
    }
    case SourceKind::kType:
      return reinterpret_cast<PyObject*>(Py_TYPE(base));
    case SourceKind::kClassDict:
      return PyType_Check(base)
                 ? dictEntry(stator_type_entries(reinterpret_cast<PyTypeObject*>(base)), source,
                             unknown)
                 : nullptr;
    case SourceKind::kClosure:
    case SourceKind::kDefault:
    case SourceKind::kKwDefault:
    case SourceKind::kFuncGlobals:
    case SourceKind::kCode:
      return readFunctionPart(source, base, unknown);
    case SourceKind::kTensorGrad:
    case SourceKind::kTensorSize:
    case SourceKind::kTensorNumber:
      return readTensorPart(source, base, keep);
    case SourceKind::kArrayTensor:
      return tensorOfArray(base, keep);
    case SourceKind::kFloatTensor:
      if (base == Py_None) return base;  // not drawn yet
      if (!PyFloat_CheckExact(base)) return nullptr;
      return owned(tensor_parts.of_float(PyFloat_AS_DOUBLE(base)), keep);
    case SourceKind::kScalarValue:
      return owned(stator_exact_scalar(base), keep);
    default:
      return itemOf(source, base, keep, unknown);
  }
}

void setTensorParts(TensorParts parts) { tensor_parts = parts; }

Ref<> step(const Source& source, PyObject* base, const Roots& roots) {
  Ref<> keep;
  PyObject* value = peek(source, base, roots, keep);
  return keep ? keep : Ref<>::create(value);
}

Ref<> read(const Source& source, const Roots& roots) {
  // The way from the root, which may be as long as a list that the program has linked.
  constexpr size_t kUsual = 16;
  const Source* usual[kUsual];
  std::vector<const Source*> longer;
  size_t count = 0;
  const Source* at = &source;
  for (; at->base != nullptr; at = at->base, ++count) {
    if (count < kUsual) {
      usual[count] = at;
    } else {
      longer.push_back(at);
    }
  }
  Ref<> value = Ref<>::create(readRoot(*at, roots));
  while (value && count > 0) {
    --count;
    value = step(count < kUsual ? *usual[count] : *longer[count - kUsual], value.get(), roots);
  }
  return value;
}

}  // namespace stator::sources
