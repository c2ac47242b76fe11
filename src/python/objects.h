// Instance attributes and dict entries by their memory layout: no user code runs, no instance dict comes into being,
// nothing is referenced. For whoever has to look at an object without touching it (guards above all), so the hot parts
// are inline.
//
// CPython keeps the attributes of most instances as a bare array of values ("inline values"), laid out by keys that all
// instances of the type share; a real dict replaces it, or uses it, when someone asks for `__dict__`. Both, and every
// kind of dict, are seen here through one StatorView. Where array and dict lie is layout311.h's and its siblings' part.
// The structs mirror CPython's internal ones, whose header does not compile as C++; objects.c asserts that they agree.
#pragma once

#include "base/python.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct StatorKeys {
  Py_ssize_t refcnt;
  uint8_t log2_size;
  uint8_t log2_index_bytes;
  // 0: any keys (hash, key, value); 1: only str (key, value); 2: only str, values elsewhere
  uint8_t kind;
  uint32_t version;
  Py_ssize_t usable;
  Py_ssize_t used;  // entries handed out, deleted ones included
  char indices[];   // hash table; the entries follow it
} StatorKeys;

// A dict, or the inline values of an object, seen as keys and values.
typedef struct StatorView {
  const StatorKeys* keys;  // NULL: no attributes at all
  PyObject** entries;      // first key of the keys' entries
  PyObject** values;       // value i is values[i * value_stride], NULL where there is none
  uint32_t key_stride;     // in pointers; key i is entries[i * key_stride]
  uint32_t value_stride;
  PyDictObject* dict;  // NULL for inline values
} StatorView;

static inline PyObject** stator_keys_entries(const StatorKeys* keys) {
  return (PyObject**)(keys->indices + ((size_t)1 << keys->log2_index_bytes));
}

// A dict, whose version CPython's headers call deprecated.
typedef struct StatorDict {
  PyObject_HEAD
  Py_ssize_t used;
  uint64_t version;
  StatorKeys* keys;
  void* values;
} StatorDict;

// In layout3xx.h.
// The word that tells which dict an object of a type with managed dicts has, and the dict that it tells of, or NULL.
static inline PyObject** stator_managed_dict_slot(PyObject* object);
static inline PyObject* stator_managed_dict(PyObject* object);
// The word that tells which inline values an object without a dict has (NULL: the one above does), and the values, or
// NULL.
static inline const uint64_t* stator_inline_values_word(PyObject* object);
static inline PyObject** stator_inline_values(PyObject* object);
// The values of a dict with shared keys.
static inline PyObject** stator_split_values(void* values);
// Of inline values: how many are set, and the index of each in the order in which they were.
static inline Py_ssize_t stator_values_count(const StatorView* view);
static inline Py_ssize_t stator_values_order(const StatorView* view, Py_ssize_t position);
// A type's own dict (borrowed).
static inline PyObject* stator_type_dict(PyTypeObject* type);
PyObject* stator_builtin_type_dict(PyTypeObject* type);
// Whether every change of the dict gives it a new version.
static inline int stator_dict_versioned(const PyDictObject* dict);
// Of no other type, and of no other contents of this one; 0 when the type has none at present.
static inline uint32_t stator_type_version(PyTypeObject* type);
// Of two exact ints.
static inline int stator_same_int(PyObject* left, PyObject* right);

static inline const StatorKeys* stator_type_keys(PyTypeObject* type) {
  return (const StatorKeys*)((PyHeapTypeObject*)type)->ht_cached_keys;
}
static inline int stator_has_managed_dict(PyTypeObject* type) {
  return (type->tp_flags & Py_TPFLAGS_MANAGED_DICT) != 0;
}

static inline void stator_view_dict(StatorView* view, PyObject* object) {
  StatorDict* dict = (StatorDict*)object;
  const StatorKeys* keys = dict->keys;
  view->dict = (PyDictObject*)object;
  view->keys = keys;
  view->entries = stator_keys_entries(keys);
  if (dict->values != NULL) {
    view->values = stator_split_values(dict->values);
    view->key_stride = 2;
    view->value_stride = 1;
  } else {
    int general = keys->kind == 0;
    view->entries += general;  // skips the hash
    view->values = view->entries + 1;
    view->key_stride = view->value_stride = general ? 3 : 2;
  }
}

static inline void stator_view_inline(StatorView* view, PyObject** values, PyTypeObject* type) {
  view->dict = NULL;
  view->keys = values != NULL ? stator_type_keys(type) : NULL;
  view->entries = view->keys != NULL ? stator_keys_entries(view->keys) : NULL;
  view->values = values;
  view->key_stride = 2;
  view->value_stride = 1;
}

// The instance dict of a type with managed dicts.
static inline void stator_view_managed(StatorView* view, PyObject* object) {
  PyObject* dict = stator_managed_dict(object);
  if (dict != NULL) {
    stator_view_dict(view, dict);
  } else {
    stator_view_inline(view, stator_inline_values(object), Py_TYPE(object));
  }
}

static inline PyObject* stator_view_key(const StatorView* view, Py_ssize_t index) {
  return view->entries[index * view->key_stride];
}
static inline PyObject* stator_view_value(const StatorView* view, Py_ssize_t index) {
  return view->values[index * view->value_stride];
}

// The instance dict of any object; 0 when its type has none.
int stator_view_object(StatorView* view, PyObject* object);
// Where an object of a type without managed dicts keeps its dict; NULL: nowhere, or behind a variable part.
static inline PyObject** stator_fixed_dict_slot(PyObject* object) {
  Py_ssize_t offset = Py_TYPE(object)->tp_dictoffset;
  return offset > 0 ? (PyObject**)((char*)object + offset) : NULL;
}
// Index of the entry, -1 when there is none, -2 when only the key's own __eq__ could tell. `hash` is the key's.
Py_ssize_t stator_view_find(const StatorView* view, PyObject* key, Py_hash_t hash);
// In iteration order, `position` from 0 on; 0 at the end.
int stator_view_next(const StatorView* view, Py_ssize_t* position, PyObject** key,
                     PyObject** value);
Py_ssize_t stator_view_length(const StatorView* view);

// What the results below mean when nothing is found.
enum { STATOR_FOUND = 1, STATOR_MISSING = 0, STATOR_UNKNOWN = -1 };
// The entry of a dict (borrowed).
int stator_dict_get(PyObject* dict, PyObject* key, Py_hash_t hash, PyObject** value);
// The entry of an object's instance dict, or the value of its slot (`__slots__`) of that name (borrowed). `name`: an
// exact str.
int stator_object_lookup(PyObject* object, PyObject* name, PyObject** value);
// Where a type keeps the slot of that name: offset in the instance, or 0.
Py_ssize_t stator_slot_offset(PyTypeObject* type, PyObject* name);
// An OrderedDict has its own order; 0 at the end, -1 if this build lays it out otherwise. `cursor` starts as NULL.
int stator_odict_next(PyObject* odict, void** cursor, PyObject** key);

// Of no other dict, and of no other contents of this one; 0 for NULL.
static inline uint64_t stator_dict_version(PyObject* dict) {
  return dict != NULL ? ((StatorDict*)dict)->version : 0;
}

// Of a dict in which every entry has its hash: borrowed references, in iteration order; 0 at the end. `position` starts
// as 0.
int stator_dict_next(PyObject* dict, Py_ssize_t* position, PyObject** key, PyObject** value,
                     Py_hash_t* hash);

// What the MRO has under that name (borrowed, NULL: nothing). Gives the type a version if it can have one.
PyObject* stator_type_lookup(PyTypeObject* type, PyObject* name);
// Whether an object of this type can have its type changed by an assignment to __class__.
int stator_class_is_assignable(PyTypeObject* type);
// Both of exact built-in types that are compared and hashed without any user code (int, str, bytes, float, bool, None,
// ...).
int stator_is_plain_key(PyObject* object);

// The exact built-in value (new reference) that an instance of a subclass of str, int, float, complex or bytes holds;
// NULL without an error: it is no such instance.
PyObject* stator_exact_scalar(PyObject* object);

// How often an exact deque was changed in a way that its iterators notice: for one that was only filled, its size. The
// largest number: unknown.
size_t stator_deque_changes(PyObject* deque);

// Both iterators of one dict, view, set or deque: the second one goes on where the first one does, whatever happened to
// the container since.
void stator_copy_iterator_position(PyObject* from, PyObject* to);

// Iterators of lists (from either end), tuples, ranges and dicts, enumerate and zip over these that nobody else has:
// the item `n` places ahead (new reference; NULL without an error: there is none), and moving on by so many places; one
// that has gone past the end has ended for good.
enum { STATOR_MOST_CONTAINERS = 4 };
int stator_iterator_known(PyObject* iterator);
int stator_iterator_is_simple(PyObject* iterator);  // known by its type alone
PyObject* stator_iterator_ahead(PyObject* iterator, Py_ssize_t n);
void stator_iterator_skip(PyObject* iterator, Py_ssize_t n);
PyObject* stator_range_ahead(PyObject* iterator, Py_ssize_t n);  // of a range's iterator
void stator_range_skip(PyObject* iterator, Py_ssize_t n);
// what such an iterator goes over, by number (borrowed); NULL: there are no so many, or it has ended
PyObject* stator_iterator_container(PyObject* iterator, int n);

// What other iterators of C's are made of, by number (borrowed); NULL: there is no such part. zip: the iterators.
// enumerate: the iterator. map: the function, the iterators. chain: the iterator over iterables, the one under way.
PyObject* stator_iterator_part(PyObject* iterator, Py_ssize_t n);
// New reference. zip: how many, and whether it is strict; map: how many; enumerate: the next number; chain: whether one
// is under way. NULL without an error: it is none of these, or its number does not fit.
PyObject* stator_iterator_state(PyObject* iterator);
void stator_enumerate_set(PyObject* iterator, Py_ssize_t next);

// A class no longer is among its base's __subclasses__(), nor told of what changes there.
void stator_type_hide(PyTypeObject* type, PyTypeObject* base);

// The order in which a set gives its elements comes from its table: how large it has grown, and what was removed from
// it. A copy that CPython makes has a table of its own; these have the same one. The elements' hashes are not computed
// again. 0, or -1 with an error set. What the target held is released first.
int stator_set_assign(PyObject* target, PyObject* from);
// A new set or frozenset, of exactly that type or a subclass of it; NULL with an error set.
PyObject* stator_set_like(PyTypeObject* type, PyObject* from);
// Puts other keys in the places of its elements, in their order; the hashes stay.
void stator_set_rekey(PyObject* set, PyObject* const* keys);

// functools.lru_cache's C wrapper, which publishes none of this. All but the first fail with an error set.
int stator_lru_known(PyObject* wrapper);  // the layout is the one known here
// the key of a call
PyObject* stator_lru_key(PyObject* wrapper, PyObject* const* args, Py_ssize_t positional,
                         PyObject* names);
// as stator_dict_get
int stator_lru_get(PyObject* wrapper, PyObject* key, Py_hash_t hash, PyObject** value);
// counts a hit and makes the entry the youngest
int stator_lru_hit(PyObject* wrapper, PyObject* key);
int stator_lru_miss(PyObject* wrapper);  // counts a miss
// how many more entries it takes before it drops the oldest; -1: any number
Py_ssize_t stator_lru_room(PyObject* wrapper);
// what a miss stores, dropping the oldest if need be
int stator_lru_store(PyObject* wrapper, PyObject* key, PyObject* value);

// super(type, object) for a stand-in of an object whose class is object_type. New reference.
PyObject* stator_make_super(PyTypeObject* type, PyObject* object, PyTypeObject* object_type);

#if PY_MINOR_VERSION == 11
#include "python/layout311.h"
#elif PY_MINOR_VERSION == 12
#include "python/layout312.h"
#elif PY_MINOR_VERSION == 13
#include "python/layout313.h"
#endif

#ifdef __cplusplus
}
#endif
