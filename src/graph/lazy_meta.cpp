// A subclass of dict. C code that takes dicts apart by itself (PyDict_Next, PyDict_Copy) would miss what is not made
// yet; but merging and `**` look at tp_iter first and take the long way when it is not dict's own (CPython 3.11,
// dict_merge).
#include "graph/lazy_meta.h"

#include "base/fields.h"
#include "graph/fx_record.h"

namespace stator::graph {

namespace {

struct LazyMeta {
  PyDictObject dict;
  PyObject* record;  // null when nothing is left to make
  int index;
  uint8_t pending;  // a bit for each MetaKey that is not made yet
};

LazyMeta* as(PyObject* self) { return reinterpret_cast<LazyMeta*>(self); }

// The pending bit that `key` names, or 0.
uint8_t pendingBit(LazyMeta* meta, PyObject* key) {
  if (meta->pending == 0 || !PyUnicode_CheckExact(key)) return 0;
  for (int i = 0; i < kMetaKeys; ++i) {
    PyObject* name = metaKeyName(static_cast<MetaKey>(i));
    auto bit = static_cast<uint8_t>(1U << i);
    if ((meta->pending & bit) == 0) continue;
    if (name == key || (PyUnicode_CHECK_INTERNED(key) == 0 && PyUnicode_Compare(name, key) == 0))
      return bit;
  }
  return 0;
}

void noLongerPending(LazyMeta* meta, uint8_t bit) {
  meta->pending &= static_cast<uint8_t>(~bit);
  if (meta->pending == 0) clearField(meta->record);
}

bool make(LazyMeta* meta, uint8_t bit) {
  Ref<> record = newRef(meta->record);
  auto key = static_cast<MetaKey>(__builtin_ctz(bit));
  Ref<> value = makeMeta(record.get(), meta->index, key);
  if (!value ||
      PyDict_SetItem(reinterpret_cast<PyObject*>(meta), metaKeyName(key), value.get()) < 0)
    return false;
  noLongerPending(meta, bit);
  return true;
}

bool fill(PyObject* self) {
  for (int i = 0; i < kMetaKeys; ++i) {
    auto bit = static_cast<uint8_t>(1U << i);
    if ((as(self)->pending & bit) != 0 && !make(as(self), bit)) return false;
  }
  return true;
}

PyObject* subscript(PyObject* self, PyObject* key) {
  uint8_t bit = pendingBit(as(self), key);
  if (bit != 0 && !make(as(self), bit)) return nullptr;
  return PyDict_Type.tp_as_mapping->mp_subscript(self, key);
}

int assign(PyObject* self, PyObject* key, PyObject* value) {
  uint8_t bit = pendingBit(as(self), key);
  if (bit == 0) return PyDict_Type.tp_as_mapping->mp_ass_subscript(self, key, value);
  noLongerPending(as(self), bit);
  return value == nullptr ? 0 : PyDict_SetItem(self, key, value);
}

Py_ssize_t length(PyObject* self) {
  return PyDict_GET_SIZE(self) + __builtin_popcount(as(self)->pending);
}

int contains(PyObject* self, PyObject* key) {
  return pendingBit(as(self), key) != 0 ? 1 : PyDict_Contains(self, key);
}

PyObject* iterate(PyObject* self) { return fill(self) ? PyDict_Type.tp_iter(self) : nullptr; }

PyObject* represent(PyObject* self) { return fill(self) ? PyDict_Type.tp_repr(self) : nullptr; }

PyObject* compare(PyObject* self, PyObject* other, int op) {
  if (!fill(self) || (Py_TYPE(other) == Py_TYPE(self) && !fill(other))) return nullptr;
  return PyDict_Type.tp_richcompare(self, other, op);
}

PyObject* get(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  if (count < 1 || count > 2) {
    PyErr_Format(PyExc_TypeError, "get expected 1 or 2 arguments, got %zd", count);
    return nullptr;
  }
  uint8_t bit = pendingBit(as(self), args[0]);
  if (bit != 0 && !make(as(self), bit)) return nullptr;
  PyObject* value = PyDict_GetItemWithError(self, args[0]);
  if (value == nullptr && PyErr_Occurred() != nullptr) return nullptr;
  if (value == nullptr) value = count == 2 ? args[1] : Py_None;
  return newRef(value).release();
}

// dict's own method, once everything is made.
template <const char* Name>
PyObject* filled(PyObject* self, PyObject* args, PyObject* kwargs) {
  if (!fill(self)) return nullptr;
  Ref<> method =
      Ref<>::steal(PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyDict_Type), Name));
  Ref<> own = Ref<>::steal(PyTuple_Pack(1, self));
  Ref<> all = own ? Ref<>::steal(PySequence_Concat(own.get(), args)) : Ref<>();
  if (!method || !all) return nullptr;
  return PyObject_Call(method.get(), all.get(), kwargs);
}

PyObject* clearAll(PyObject* self, PyObject*) {
  as(self)->pending = 0;
  clearField(as(self)->record);
  PyDict_Clear(self);
  return newRef(Py_None).release();
}

PyTypeObject& type();

PyObject* copy(PyObject* self, PyObject*) {
  if (as(self)->pending == 0) return PyDict_Copy(self);
  Ref<> none = Ref<>::steal(PyTuple_New(0));
  Ref<> made = none ? Ref<>::steal(PyDict_Type.tp_new(&type(), none.get(), nullptr)) : Ref<>();
  if (!made) return nullptr;
  PyObject* key = nullptr;
  PyObject* value = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(self, &at, &key, &value);) {
    if (PyDict_SetItem(made.get(), key, value) < 0) return nullptr;
  }
  as(made.get())->record = newRef(as(self)->record).release();
  as(made.get())->index = as(self)->index;
  as(made.get())->pending = as(self)->pending;
  return made.release();
}

// Pickled and deeply copied as the plain dict that it stands for.
PyObject* reduce(PyObject* self, PyObject*) {
  if (!fill(self)) return nullptr;
  Ref<> plain = Ref<>::steal(PyDict_Copy(self));
  return plain ? Py_BuildValue("(O(O))", reinterpret_cast<PyObject*>(&PyDict_Type), plain.get())
               : nullptr;
}

PyObject* unionOf(PyObject* left, PyObject* right) {
  for (PyObject* side : {left, right}) {
    if (Py_TYPE(side) == &type() && !fill(side)) return nullptr;
  }
  return PyDict_Type.tp_as_number->nb_or(left, right);
}

PyObject* unionInto(PyObject* self, PyObject* other) {
  return fill(self) ? PyDict_Type.tp_as_number->nb_inplace_or(self, other) : nullptr;
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(as(self)->record);
  return PyDict_Type.tp_traverse(self, visit, arg);
}

int clear(PyObject* self) {
  as(self)->pending = 0;
  clearField(as(self)->record);
  return PyDict_Type.tp_clear(self);
}

void deallocate(PyObject* self) {
  PyObject_GC_UnTrack(self);
  clearField(as(self)->record);
  PyDict_Type.tp_dealloc(self);
}

constexpr char kItems[] = "items";
constexpr char kKeys[] = "keys";
constexpr char kValues[] = "values";
constexpr char kPop[] = "pop";
constexpr char kPopItem[] = "popitem";
constexpr char kSetDefault[] = "setdefault";
constexpr char kUpdate[] = "update";
constexpr char kReversed[] = "__reversed__";

template <const char* Name>
constexpr PyMethodDef delegate() {
  return {Name, reinterpret_cast<PyCFunction>(filled<Name>), METH_VARARGS | METH_KEYWORDS, nullptr};
}

PyMethodDef methods[] = {{"get", reinterpret_cast<PyCFunction>(get), METH_FASTCALL, nullptr},
                         {"copy", copy, METH_NOARGS, nullptr},
                         {"__copy__", copy, METH_NOARGS, nullptr},
                         {"clear", clearAll, METH_NOARGS, nullptr},
                         {"__reduce__", reduce, METH_NOARGS, nullptr},
                         {"__reduce_ex__", reduce, METH_O, nullptr},
                         delegate<kItems>(),
                         delegate<kKeys>(),
                         delegate<kValues>(),
                         delegate<kPop>(),
                         delegate<kPopItem>(),
                         delegate<kSetDefault>(),
                         delegate<kUpdate>(),
                         delegate<kReversed>(),
                         {nullptr}};

PyTypeObject& type() {
  static PyMappingMethods mapping = {length, subscript, assign};
  static PySequenceMethods sequence = [] {
    PySequenceMethods made = {};
    made.sq_contains = contains;
    return made;
  }();
  static PyNumberMethods number = [] {
    PyNumberMethods made = {};
    made.nb_or = unionOf;
    made.nb_inplace_or = unionInto;
    return made;
  }();
  static PyTypeObject lazy = [] {
    PyTypeObject made = {PyVarObject_HEAD_INIT(nullptr, 0)};
    made.tp_name = "stator._core.LazyMeta";
    made.tp_basicsize = sizeof(LazyMeta);
    made.tp_dealloc = deallocate;
    made.tp_repr = represent;
    made.tp_as_number = &number;
    made.tp_as_sequence = &sequence;
    made.tp_as_mapping = &mapping;
    made.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC;
    made.tp_doc = "node.meta whose usual entries are made when they are read.";
    made.tp_traverse = traverse;
    made.tp_clear = clear;
    made.tp_richcompare = compare;
    made.tp_iter = iterate;
    made.tp_methods = methods;
    made.tp_base = &PyDict_Type;
    made.tp_hash = PyObject_HashNotImplemented;
    return made;
  }();
  return lazy;
}

}  // namespace

bool initLazyMetaType() { return PyType_Ready(&type()) == 0; }

Ref<> makeLazyMeta(PyObject* record, int index) {
  static PyObject* none = PyTuple_New(0);
  Ref<> made = none != nullptr ? Ref<>::steal(PyDict_Type.tp_new(&type(), none, nullptr)) : Ref<>();
  if (!made) return nullptr;
  as(made.get())->index = index;
  as(made.get())->pending =
      metaKeysOf(recordOf(record)->graph->nodes()[static_cast<size_t>(index)]);
  if (as(made.get())->pending != 0) as(made.get())->record = newRef(record).release();
  return made;
}

}  // namespace stator::graph
