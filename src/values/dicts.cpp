#include "values/dicts.h"

#include "python/objects.h"
#include "python/types.h"

#include <unordered_map>

namespace stator::values {

Ref<> itemsOf(PyObject* container) {
  Ref<> iterator = stealRef(stator_native_iter(container));
  return iterator ? stealRef(PySequence_List(iterator.get())) : Ref<>();
}

Ref<> dictKeys(PyObject* dict) {
  return PyODict_Check(dict) ? itemsOf(dict) : stealRef(PyDict_Keys(dict));
}

Ref<> dictItems(PyObject* dict) {
  if (!PyODict_Check(dict)) return stealRef(PyDict_Items(dict));
  Ref<> keys = dictKeys(dict);
  if (!keys) return keys;
  Ref<> items = stealRef(PyList_New(0));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(keys.get()); ++i) {
    PyObject* key = PyList_GET_ITEM(keys.get(), i);
    PyObject* value = PyDict_GetItemWithError(dict, key);
    Ref<> pair = value != nullptr ? stealRef(PyTuple_Pack(2, key, value)) : Ref<>();
    if (!pair || PyList_Append(items.get(), pair.get()) != 0) return Ref<>();
  }
  return items;
}

bool dictSet(PyObject* dict, PyObject* key, PyObject* value) {
  return (PyODict_Check(dict) ? PyODict_SetItem(dict, key, value)
                              : PyDict_SetItem(dict, key, value)) == 0;
}

bool dictDelete(PyObject* dict, PyObject* key) {
  return (PyODict_Check(dict) ? PyODict_DelItem(dict, key) : PyDict_DelItem(dict, key)) == 0;
}

bool dictClear(PyObject* dict) {
  if (!PyODict_Check(dict)) {
    PyDict_Clear(dict);
    return true;
  }
  // Its own method: iterators are told of a size that changed, and of nothing else.
  static PyObject* const clear =
      PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyODict_Type), "clear");
  return static_cast<bool>(stealRef(PyObject_CallOneArg(clear, dict)));
}

bool ordersAgree(PyObject* dict) {
  if (!PyODict_Check(dict)) return true;
  Ref<> keys = dictKeys(dict);
  Py_ssize_t position = 0, i = 0;
  PyObject *key = nullptr, *value = nullptr;
  while (PyDict_Next(dict, &position, &key, &value)) {
    if (i >= PyList_GET_SIZE(keys.get()) || PyList_GET_ITEM(keys.get(), i) != key) return false;
    ++i;
  }
  return true;
}

namespace {

struct Entry {
  PyObject *key, *value;
  Py_hash_t hash;
};

bool nextEntry(PyObject* dict, Py_ssize_t& position, Entry& entry) {
  return stator_dict_next(dict, &position, &entry.key, &entry.value, &entry.hash) != 0;
}

// The hash is known: a key's own __hash__ does not run again.
bool put(PyObject* target, const Entry& entry) {
  return (PyODict_Check(target)
              ? PyODict_SetItem(target, entry.key, entry.value)
              : _PyDict_SetItem_KnownHash(target, entry.key, entry.value, entry.hash)) == 0;
}

// Into a plain dict, in the order in which an OrderedDict iterates.
bool fillInOrder(PyObject* target, PyObject* from) {
  std::unordered_map<PyObject*, Entry> entries;
  Entry entry{};
  for (Py_ssize_t position = 0; nextEntry(from, position, entry);)
    entries.emplace(entry.key, entry);
  Ref<> keys = dictKeys(from);
  for (Py_ssize_t i = 0; keys && i < PyList_GET_SIZE(keys.get()); ++i) {
    if (!put(target, entries.at(PyList_GET_ITEM(keys.get(), i)))) return false;
  }
  return static_cast<bool>(keys);
}

}  // namespace

bool dictFill(PyObject* target, PyObject* from) {
  const bool agree = ordersAgree(from);
  if (!agree && !PyODict_Check(target)) return fillInOrder(target, from);
  Entry entry{};
  for (Py_ssize_t position = 0; nextEntry(from, position, entry);) {
    if (!put(target, entry)) return false;
  }
  if (agree) return true;
  Ref<> keys = dictKeys(from);
  for (Py_ssize_t i = 0; keys && i < PyList_GET_SIZE(keys.get()); ++i) {
    static PyObject* name = PyUnicode_InternFromString("move_to_end");
    PyObject* method = PyDict_GetItemWithError(stator_type_dict(&PyODict_Type), name);
    Ref<> done = stealRef(
        PyObject_CallFunctionObjArgs(method, target, PyList_GET_ITEM(keys.get(), i), nullptr));
    if (!done) return false;
  }
  return static_cast<bool>(keys);
}

}  // namespace stator::values
