// functools.lru_cache by its layout in CPython 3.11 to 3.13 (Modules/_functoolsmodule.c); see objects.h.
#include "python/objects.h"

// An entry of a bounded cache, in a ring whose root is the wrapper itself: oldest behind the root, youngest before it.
// An unbounded cache keeps the results themselves in its dict.
typedef struct Link {
  PyObject_HEAD
  struct Link *previous, *next;
  Py_hash_t hash;
  PyObject *key, *result;
} Link;

typedef struct Wrapper {
  Link root;
  void* call;
  int typed;
  PyObject* cache;
  Py_ssize_t hits;
  PyObject* function;
  Py_ssize_t limit;  // -1: unbounded
  Py_ssize_t misses;
  PyObject* keyword_mark;
  PyTypeObject* link_type;
  PyObject* info_type;
  PyObject* dict;
  PyObject* weak_references;
} Wrapper;

int stator_lru_known(PyObject* object) {
  if (Py_TYPE(object)->tp_basicsize != (Py_ssize_t)sizeof(Wrapper) ||
      Py_TYPE(object)->tp_weaklistoffset != (Py_ssize_t)offsetof(Wrapper, weak_references)) {
    return 0;
  }
  Wrapper* wrapper = (Wrapper*)object;
  return wrapper->cache != NULL && PyDict_CheckExact(wrapper->cache) &&
         wrapper->link_type != NULL && PyType_Check((PyObject*)wrapper->link_type);
}

Py_ssize_t stator_lru_room(PyObject* object) {
  Wrapper* wrapper = (Wrapper*)object;
  if (wrapper->limit < 0) return -1;
  Py_ssize_t room = wrapper->limit - PyDict_GET_SIZE(wrapper->cache);
  return room > 0 ? room : 0;
}

PyObject* stator_lru_key(PyObject* object, PyObject* const* args, Py_ssize_t positional,
                         PyObject* names) {
  Wrapper* wrapper = (Wrapper*)object;
  Py_ssize_t named = names != NULL ? PyTuple_GET_SIZE(names) : 0;
  if (!wrapper->typed && named == 0 && positional == 1 &&
      (PyUnicode_CheckExact(args[0]) || PyLong_CheckExact(args[0]))) {
    Py_INCREF(args[0]);
    return args[0];
  }
  Py_ssize_t size = positional + (named > 0 ? 1 + 2 * named : 0);
  if (wrapper->typed) size += positional + named;
  PyObject* key = PyTuple_New(size);
  if (key == NULL) return NULL;
  Py_ssize_t at = 0;
#define PUT(value) PyTuple_SET_ITEM(key, at++, Py_NewRef(value))
  for (Py_ssize_t i = 0; i < positional; ++i) PUT(args[i]);
  if (named > 0) PUT(wrapper->keyword_mark);
  for (Py_ssize_t i = 0; i < named; ++i) {
    PUT(PyTuple_GET_ITEM(names, i));
    PUT(args[positional + i]);
  }
  if (wrapper->typed) {
    for (Py_ssize_t i = 0; i < positional + named; ++i) PUT((PyObject*)Py_TYPE(args[i]));
  }
#undef PUT
  return key;
}

int stator_lru_get(PyObject* object, PyObject* key, Py_hash_t hash, PyObject** value) {
  Wrapper* wrapper = (Wrapper*)object;
  if (!stator_lru_known(object)) return STATOR_UNKNOWN;
  int found = stator_dict_get(wrapper->cache, key, hash, value);
  if (found == STATOR_FOUND && wrapper->limit > 0) *value = ((Link*)*value)->result;
  return found;
}

static void take_out(Link* link) {
  link->previous->next = link->next;
  link->next->previous = link->previous;
}

static void put_last(Wrapper* wrapper, Link* link) {
  Link* last = wrapper->root.previous;
  last->next = wrapper->root.previous = link;
  link->previous = last;
  link->next = &wrapper->root;
}

int stator_lru_hit(PyObject* object, PyObject* key) {
  Wrapper* wrapper = (Wrapper*)object;
  wrapper->hits++;
  if (wrapper->limit <= 0) return 0;
  Link* link = (Link*)PyDict_GetItemWithError(wrapper->cache, key);
  if (link == NULL) return PyErr_Occurred() ? -1 : 0;
  take_out(link);
  put_last(wrapper, link);
  return 0;
}

int stator_lru_miss(PyObject* object) {
  ((Wrapper*)object)->misses++;
  return 0;
}

int stator_lru_store(PyObject* object, PyObject* key, PyObject* value) {
  Wrapper* wrapper = (Wrapper*)object;
  if (wrapper->limit == 0) return 0;
  if (wrapper->limit < 0) return PyDict_SetItem(wrapper->cache, key, value);
  if (PyDict_Contains(wrapper->cache, key) != 0) return PyErr_Occurred() ? -1 : 0;
  if (PyDict_GET_SIZE(wrapper->cache) >= wrapper->limit) {
    Link* oldest = wrapper->root.next;
    if (oldest == &wrapper->root) return 0;
    take_out(oldest);
    // The dict and the list own the link, one reference each; its key and result go with it.
    PyObject* old_key = Py_NewRef(oldest->key);
    int failed = _PyDict_DelItem_KnownHash(wrapper->cache, old_key, oldest->hash);
    Py_DECREF(old_key);
    Py_DECREF(oldest);
    if (failed) return -1;
  }
  Py_hash_t hash = PyObject_Hash(key);
  if (hash == -1) return -1;
  Link* link = (Link*)wrapper->link_type->tp_alloc(wrapper->link_type, 0);
  if (link == NULL) return -1;
  link->hash = hash;
  link->key = Py_NewRef(key);
  link->result = Py_NewRef(value);
  if (_PyDict_SetItem_KnownHash(wrapper->cache, key, (PyObject*)link, hash) != 0) {
    Py_DECREF(link);
    return -1;
  }
  put_last(wrapper, link);  // which takes over our reference
  return 0;
}
