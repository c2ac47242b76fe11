// Dicts whose keys have a __hash__ or __eq__ of their own, written in Python. The trace runs these methods itself. In the working dict such
// a key stands under a hash that nothing else has (its address), so that CPython never compares it; the true hash is kept aside.
#include "interpret/known_types.h"
#include "interpret/tracer.h"

namespace stator::interpret {

Out Tracer::hashOf(PyObject* value) {
  STATOR_VALUE(bound, special(value, "__hash__"));
  if (!bound)
    return raiseNew(PyExc_TypeError, "unhashable type: '%.200s'", Py_TYPE(value)->tp_name);
  STATOR_VALUE(result, callNested(bound.get(), {}));
  // CPython reduces what does not fit a machine word, and takes -1 for an error.
  if (!PyLong_CheckExact(result.get()))
    return breakWith(Reason::kUnsupportedObject, "a __hash__ that gives no int");
  Py_ssize_t hash = PyLong_AsSsize_t(result.get());
  if (hash == -1 && PyErr_Occurred()) {
    PyErr_Clear();
    hash = PyLong_Type.tp_hash(result.get());
  }
  return stealRef(PyLong_FromSsize_t(hash == -1 ? -2 : hash));
}

bool Tracer::needsOwnHash(PyObject* dict, PyObject* key) {
  if (!PyDict_CheckExact(dict)) return false;
  if (user_keyed.count(dict) != 0) return true;
  return !hashableNatively(key) && !graph::isStandIn(key) && !PyTuple_Check(key) &&
         !PyFrozenSet_Check(key) && isMade(key) && isUserOverride(key, "__hash__");
}

namespace {

Py_hash_t standingHash(PyObject* key) {
  return static_cast<Py_hash_t>(reinterpret_cast<uintptr_t>(key) >> 4);
}

}  // namespace

// The key in the dict that equals this one, found as CPython does: by hash, then by identity, then by the __eq__ of the one in the dict.
Out Tracer::findKey(PyObject* dict, PyObject* key, Py_hash_t& hash) {
  if (hashableNatively(key)) {
    hash = PyObject_Hash(key);
    if (hash == -1) return raiseCurrentError();
  } else {
    STATOR_VALUE(number, hashOf(key));
    hash = PyLong_AsSsize_t(number.get());
  }
  std::vector<Ref<>> candidates;
  PyObject *known = nullptr, *value = nullptr;
  Py_ssize_t position = 0;
  Py_hash_t stored = 0;
  while (_PyDict_Next(dict, &position, &known, &value, &stored)) {
    auto own = key_hashes.find(known);
    if ((own != key_hashes.end() ? own->second : stored) == hash)
      candidates.push_back(newRef(known));
  }
  for (const Ref<>& candidate : candidates) {
    if (candidate.get() == key) return candidate;
    STATOR_VALUE(compared, settle(compare(Py_EQ, candidate.get(), key)));
    STATOR_VALUE(equal, truth(compared.get()));
    if (equal.get() == Py_True) return candidate;
  }
  return Ref<>();
}

Out Tracer::userKeyGet(PyObject* dict, PyObject* key) {
  Py_hash_t hash = 0;
  STATOR_VALUE(found, findKey(dict, key, hash));
  if (!found) return found;
  bool own = key_hashes.count(found.get()) != 0;
  return Ref<>::create(
      _PyDict_GetItem_KnownHash(dict, found.get(), own ? standingHash(found.get()) : hash));
}

Flow Tracer::userKeySet(PyObject* dict, PyObject* key, PyObject* value) {
  Py_hash_t hash = 0;
  STATOR_VALUE(found, findKey(dict, key, hash));
  Ref<> stored = found ? found : newRef(key);
  if (!found && !hashableNatively(key)) {
    keep_alive.push_back(stored);  // the table is keyed by address
    key_hashes[key] = hash;
    user_keyed.insert(dict);
  }
  bool own = key_hashes.count(stored.get()) != 0;
  if (_PyDict_SetItem_KnownHash(dict, stored.get(), value,
                                own ? standingHash(stored.get()) : hash) != 0)
    return raiseCurrentError();
  return Flow::kOk;
}

Flow Tracer::userKeyDelete(PyObject* dict, PyObject* key) {
  Py_hash_t hash = 0;
  STATOR_VALUE(found, findKey(dict, key, hash));
  if (!found) {
    PyErr_SetObject(PyExc_KeyError, key);
    return raiseCurrentError();
  }
  bool own = key_hashes.count(found.get()) != 0;
  if (_PyDict_DelItem_KnownHash(dict, found.get(), own ? standingHash(found.get()) : hash) != 0)
    return raiseCurrentError();
  return Flow::kOk;
}

}  // namespace stator::interpret
