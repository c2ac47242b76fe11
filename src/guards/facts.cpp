#include "guards/facts.h"

#include "base/hot.h"
#include "base/imports.h"
#include "base/numpy_number.h"
#include "base/parts.h"
#include "base/ref.h"
#include "base/stack_room.h"
#include "python/objects.h"
#include "python/types.h"
#include "tensor/tensor_guard.h"

#include <array>
#include <bit>
#include <cstring>
#include <string_view>

namespace stator::guards {

namespace {

PyTypeObject* namedType(const char* module, const char* name) {
  Ref<> imported = stealRef(importModule(module));
  PyObject* type = imported ? PyObject_GetAttrString(imported.get(), name) : nullptr;
  if (type == nullptr) PyErr_Clear();
  return reinterpret_cast<PyTypeObject*>(type);  // kept for good
}

PyTypeObject* dequeType() {
  static PyTypeObject* type = namedType("collections", "deque");
  return type;
}

PyTypeObject* sizeType() {
  static PyTypeObject* type = namedType("torch", "Size");
  return type;
}

bool isTupleOfConstants(PyTypeObject* type) { return type == &PyTuple_Type || type == sizeType(); }

// The entries of a set, or false at the end.
bool nextElement(PyObject* set, Py_ssize_t& position, PyObject*& item, Py_hash_t& hash) {
  return _PySet_NextEntry(set, &position, &item, &hash) != 0;
}

STATOR_HOT bool sameLong(PyObject* seen, PyObject* expected) {
  return stator_same_int(seen, expected) != 0;
}

bool sameFrozenSet(PyObject* seen, PyObject* expected) {
  if (PySet_GET_SIZE(seen) != PySet_GET_SIZE(expected)) return false;
  Py_ssize_t position = 0;
  PyObject* item = nullptr;
  Py_hash_t hash = 0;
  while (nextElement(expected, position, item, hash)) {
    // Small sets; a look-up would compare with __eq__, which calls 1, True and 1.0 equal.
    Py_ssize_t other_position = 0;
    PyObject* other = nullptr;
    Py_hash_t other_hash = 0;
    bool found = false;
    while (!found && nextElement(seen, other_position, other, other_hash))
      found = other_hash == hash && sameConstant(other, item);
    if (!found) return false;
  }
  return true;
}

PyObject* rangePart(PyObject* range, int part) {
  // A range keeps start, stop, step and length in this order behind its header.
  return reinterpret_cast<PyObject**>(range + 1)[part];
}

}  // namespace

PyObject* instanceDictOf(PyObject* object) {
  StatorView view;
  if (!stator_view_object(&view, object)) return nullptr;
  return view.dict != nullptr ? reinterpret_cast<PyObject*>(view.dict) : asInstanceDict(object);
}

STATOR_HOT PyTypeObject* typeOf(PyObject* value) {
  return isInstanceDict(value) ? &PyDict_Type : Py_TYPE(value);
}

bool isDict(PyObject* value) { return isInstanceDict(value) || PyDict_Check(value); }

bool isConstant(PyObject* value) {
  if (stator_is_plain_key(value)) return true;
  PyTypeObject* type = Py_TYPE(value);
  if (value == Py_NotImplemented || tensor::isDevice(value)) return true;
  needStack();
  if (isTupleOfConstants(type)) return everyItem(value, isConstant);
  if (type == &PyFrozenSet_Type) return everyElement(value, isConstant);
  if (type == &PySlice_Type) return everyBound(value, isConstant);
  if (type == &PyRange_Type) return true;
  // Singletons of torch's, also inside of tuples: compared by identity.
  if (stator_is_user_class(type)) return false;
  if (isNumpyNumber(value)) return true;
  const std::string_view name = type->tp_name;
  return name == "torch.dtype" || name == "torch.layout" || name == "torch.memory_format" ||
         name == "torch.qscheme";
}

namespace {

bool sameText(PyObject* seen, PyObject* expected) {
  const Py_ssize_t length = PyUnicode_GET_LENGTH(seen);
  return length == PyUnicode_GET_LENGTH(expected) &&
         PyUnicode_KIND(seen) == PyUnicode_KIND(expected) &&
         std::memcmp(PyUnicode_DATA(seen), PyUnicode_DATA(expected),
                     static_cast<size_t>(length) * PyUnicode_KIND(seen)) == 0;
}

}  // namespace

STATOR_HOT bool sameConstant(PyObject* seen, PyObject* expected) {
  if (seen == expected) return true;
  PyTypeObject* type = Py_TYPE(expected);
  if (Py_TYPE(seen) != type) return false;
  if (type == &PyLong_Type) return sameLong(seen, expected);
  if (type == &PyUnicode_Type) return sameText(seen, expected);
  if (type == &PyFloat_Type) {
    // by their bits: -0.0 is not 0.0, and a NaN is itself
    return std::bit_cast<uint64_t>(PyFloat_AS_DOUBLE(seen)) ==
           std::bit_cast<uint64_t>(PyFloat_AS_DOUBLE(expected));
  }
  if (type == &PyBytes_Type) {
    return PyBytes_GET_SIZE(seen) == PyBytes_GET_SIZE(expected) &&
           std::memcmp(PyBytes_AS_STRING(seen), PyBytes_AS_STRING(expected),
                       static_cast<size_t>(PyBytes_GET_SIZE(seen))) == 0;
  }
  if (type == &PyComplex_Type) {
    using Bits = std::array<uint64_t, 2>;
    return std::bit_cast<Bits>(reinterpret_cast<PyComplexObject*>(seen)->cval) ==
           std::bit_cast<Bits>(reinterpret_cast<PyComplexObject*>(expected)->cval);
  }
  needStack();
  if (isTupleOfConstants(type)) {
    if (PyTuple_GET_SIZE(seen) != PyTuple_GET_SIZE(expected)) return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(seen); ++i) {
      if (!sameConstant(PyTuple_GET_ITEM(seen, i), PyTuple_GET_ITEM(expected, i))) return false;
    }
    return true;
  }
  if (type == &PyFrozenSet_Type) return sameFrozenSet(seen, expected);
  if (type == &PySlice_Type) {
    auto* a = reinterpret_cast<PySliceObject*>(seen);
    auto* b = reinterpret_cast<PySliceObject*>(expected);
    return sameConstant(a->start, b->start) && sameConstant(a->stop, b->stop) &&
           sameConstant(a->step, b->step);
  }
  if (type == &PyRange_Type) {
    for (int part = 0; part < 3; ++part) {
      if (!sameConstant(rangePart(seen, part), rangePart(expected, part))) return false;
    }
    return true;
  }
  if (tensor::isDevice(seen)) return tensor::sameDevice(seen, expected);
  // bool, None and the like are singletons; anything else is only itself
  return sameNumpyNumber(seen, expected);
}

Py_ssize_t lengthOf(PyObject* value) {
  if (isInstanceDict(value) || PyDict_Check(value)) {
    if (!isInstanceDict(value)) return PyDict_GET_SIZE(value);
    StatorView view;
    return stator_view_object(&view, ownerOfDict(value)) ? stator_view_length(&view) : -1;
  }
  if (PyList_Check(value) || PyTuple_Check(value) || PyBytes_Check(value)) return Py_SIZE(value);
  if (PyAnySet_Check(value)) return PySet_GET_SIZE(value);
  if (PyUnicode_Check(value)) return PyUnicode_GET_LENGTH(value);
  if (dequeType() != nullptr && PyType_IsSubtype(Py_TYPE(value), dequeType()))
    return Py_SIZE(value);
  if (Py_TYPE(value) == &PyRange_Type) {
    Py_ssize_t length = PyObject_Size(value);  // built-in and final
    if (length < 0) PyErr_Clear();
    return length;
  }
  if (PyByteArray_Check(value)) return PyByteArray_GET_SIZE(value);
  return -1;
}

namespace {

// The keys of a dict in their order: of an OrderedDict, of an object's attributes, of any other.
class Keys {
 public:
  explicit Keys(PyObject* dict)
      : dict_(dict), ordered_(!isInstanceDict(dict) && PyODict_Check(dict)) {
    if (isInstanceDict(dict)) {
      stator_view_object(&view_, ownerOfDict(dict));
    } else if (!ordered_) {
      stator_view_dict(&view_, dict);
    }
  }
  // Null: there are no more.
  PyObject* next() {
    PyObject *key = nullptr, *value = nullptr;
    const bool more = ordered_ ? stator_odict_next(dict_, &cursor_, &key) > 0
                               : stator_view_next(&view_, &position_, &key, &value) != 0;
    return more ? key : nullptr;
  }

 private:
  PyObject* dict_;
  const bool ordered_;
  StatorView view_;
  Py_ssize_t position_ = 0;
  void* cursor_ = nullptr;
};

}  // namespace

PyObject* keyAt(PyObject* dict, int64_t index) {
  if (!isDict(dict)) return nullptr;
  Keys keys(dict);
  PyObject* key = nullptr;
  for (int64_t i = 0; i <= index; ++i) {
    key = keys.next();
    if (key == nullptr) return nullptr;
  }
  return key;
}

bool hasKeys(PyObject* dict, PyObject* keys) {
  if (!isDict(dict) || lengthOf(dict) != PyTuple_GET_SIZE(keys)) return false;
  Keys present(dict);
  return everyItem(keys, [&](PyObject* wanted) {
    PyObject* key = present.next();
    return key != nullptr && sameConstant(key, wanted);
  });
}

}  // namespace stator::guards
