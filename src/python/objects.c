// Objects, dicts and types, as far as 3.11 to 3.13 lay them out alike; see objects.h.
#define Py_BUILD_CORE 1
#include "python/objects.h"

#include "base/hot.h"

#include "internal/pycore_dict.h"

#include <structmember.h>

#define SAME_FIELD(ours, theirs)                                                         \
  _Static_assert(offsetof(StatorKeys, ours) == offsetof(struct _dictkeysobject, theirs), \
                 "layout of dict keys")
SAME_FIELD(refcnt, dk_refcnt);
SAME_FIELD(log2_size, dk_log2_size);
SAME_FIELD(log2_index_bytes, dk_log2_index_bytes);
SAME_FIELD(kind, dk_kind);
SAME_FIELD(version, dk_version);
SAME_FIELD(usable, dk_usable);
SAME_FIELD(used, dk_nentries);
SAME_FIELD(indices, dk_indices);
_Static_assert(DICT_KEYS_GENERAL == 0 && DICT_KEYS_UNICODE == 1 && DICT_KEYS_SPLIT == 2,
               "kinds of dict keys");
_Static_assert(sizeof(PyDictKeyEntry) == 3 * sizeof(void*) &&
                   offsetof(PyDictKeyEntry, me_key) == sizeof(void*),
               "layout of general entries");
_Static_assert(sizeof(PyDictUnicodeEntry) == 2 * sizeof(void*), "layout of str entries");
_Static_assert(offsetof(StatorDict, used) == offsetof(PyDictObject, ma_used) &&
                   offsetof(StatorDict, version) == offsetof(PyDictObject, ma_version_tag) &&
                   offsetof(StatorDict, keys) == offsetof(PyDictObject, ma_keys) &&
                   offsetof(StatorDict, values) == offsetof(PyDictObject, ma_values),
               "layout of dicts");
_Static_assert(offsetof(PyTypeObject, tp_version_tag) % 8 == 0, "a word for a type's version");

STATOR_HOT int stator_view_object(StatorView* view, PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  if (stator_has_managed_dict(type)) {
    stator_view_managed(view, object);
    return 1;
  }
  if (type->tp_dictoffset == 0) return 0;
  PyObject** slot = _PyObject_GetDictPtr(object);
  if (slot == NULL) return 0;
  if (*slot != NULL) {
    stator_view_dict(view, *slot);
  } else {
    stator_view_inline(view, NULL, type);
  }
  return 1;
}

static inline Py_ssize_t index_at(const StatorKeys* keys, size_t slot) {
  const char* table = keys->indices;
  if (keys->log2_size < 8) return ((const int8_t*)table)[slot];
  if (keys->log2_size < 16) return ((const int16_t*)table)[slot];
  if (keys->log2_size < 32) return ((const int32_t*)table)[slot];
  return (Py_ssize_t)((const int64_t*)table)[slot];
}

static inline Py_hash_t hash_of_str(PyObject* text) { return ((PyASCIIObject*)text)->hash; }

static inline int same_str(PyObject* left, PyObject* right) {
  Py_ssize_t length = PyUnicode_GET_LENGTH(left);
  if (length != PyUnicode_GET_LENGTH(right) || PyUnicode_KIND(left) != PyUnicode_KIND(right))
    return 0;
  return memcmp(PyUnicode_DATA(left), PyUnicode_DATA(right),
                (size_t)length * (size_t)PyUnicode_KIND(left)) == 0;
}

// Keys that are nested more deeply are not plain: walks over them, CPython's too, recurse.
#define DEEPEST_KEY 200

static int is_plain_key(PyObject* object, int depth) {
  PyTypeObject* type = Py_TYPE(object);
  if (type == &PyUnicode_Type || type == &PyLong_Type || type == &PyBool_Type ||
      type == &PyFloat_Type || type == &PyBytes_Type || type == &PyComplex_Type ||
      object == Py_None || object == Py_Ellipsis) {
    return 1;
  }
  if (depth > DEEPEST_KEY) return 0;
  // Subclasses in C too (torch.Size): they compare as tuples do.
  if (PyTuple_Check(object) && (type == &PyTuple_Type || !(type->tp_flags & Py_TPFLAGS_HEAPTYPE))) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i) {
      if (!is_plain_key(PyTuple_GET_ITEM(object, i), depth + 1)) return 0;
    }
    return 1;
  }
  if (type == &PyFrozenSet_Type) {
    Py_ssize_t position = 0;
    PyObject* item = NULL;
    Py_hash_t hash = 0;
    while (_PySet_NextEntry(object, &position, &item, &hash)) {
      if (!is_plain_key(item, depth + 1)) return 0;
    }
    return 1;
  }
  return 0;
}

int stator_is_plain_key(PyObject* object) { return is_plain_key(object, 0); }

// Types whose instances are equal only to themselves.
static int equal_by_identity(PyObject* object) {
  return Py_TYPE(object)->tp_richcompare == PyBaseObject_Type.tp_richcompare;
}

// 1 equal, 0 not, -2: only user code knows.
static int same_key(PyObject* mine, PyObject* theirs, int depth) {
  if (mine == theirs) return 1;
  if (stator_is_plain_key(mine) && stator_is_plain_key(theirs)) {
    int equal = PyObject_RichCompareBool(mine, theirs, Py_EQ);
    if (equal < 0) PyErr_Clear();
    return equal > 0;
  }
  if (depth > DEEPEST_KEY) return -2;
  if (Py_TYPE(mine) == &PyTuple_Type && Py_TYPE(theirs) == &PyTuple_Type) {
    if (PyTuple_GET_SIZE(mine) != PyTuple_GET_SIZE(theirs)) return 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(mine); ++i) {
      int equal = same_key(PyTuple_GET_ITEM(mine, i), PyTuple_GET_ITEM(theirs, i), depth + 1);
      if (equal != 1) return equal;
    }
    return 1;
  }
  if (PyWeakref_CheckRefExact(mine) && PyWeakref_CheckRefExact(theirs)) {
    // As their objects are; without one a reference equals itself alone.
    PyObject* left = ((PyWeakReference*)mine)->wr_object;
    PyObject* right = ((PyWeakReference*)theirs)->wr_object;
    return left == Py_None || right == Py_None ? 0 : same_key(left, right, depth + 1);
  }
  if (equal_by_identity(mine) && equal_by_identity(theirs)) return 0;
  if (equal_by_identity(mine) && stator_is_plain_key(theirs)) return 0;
  if (stator_is_plain_key(mine) && equal_by_identity(theirs)) return 0;
  return -2;
}

Py_ssize_t stator_view_find(const StatorView* view, PyObject* key, Py_hash_t hash) {
  const StatorKeys* keys = view->keys;
  if (keys == NULL) return -1;
  const size_t mask = ((size_t)1 << keys->log2_size) - 1;
  size_t perturb = (size_t)hash;
  size_t slot = (size_t)hash & mask;
  const int strings_only = keys->kind != 0;
  if (strings_only && !PyUnicode_CheckExact(key)) {
    // A str table holds exact strings alone (or nothing); a plain key of another type never equals one, nor does a
    // tuple of anything, or a weak reference.
    const int never = stator_is_plain_key(key) || PyTuple_CheckExact(key) ||
                      PyWeakref_CheckRefExact(key) || equal_by_identity(key);
    return never ? -1 : -2;
  }
  for (;;) {
    Py_ssize_t index = index_at(keys, slot);
    if (index == DKIX_EMPTY) return -1;
    if (index >= 0) {
      PyObject* candidate = view->entries[index * view->key_stride];
      int equal = 0;
      if (candidate == key) {
        equal = 1;
      } else if (candidate != NULL) {
        if (strings_only) {
          equal = hash_of_str(candidate) == hash && same_str(candidate, key);
        } else if ((Py_hash_t)(intptr_t)view->entries[index * view->key_stride - 1] == hash) {
          equal = same_key(key, candidate, 0);
          if (equal < 0) return -2;
        }
      }
      if (equal) return stator_view_value(view, index) != NULL ? index : -1;
    }
    perturb >>= 5;
    slot = (slot * 5 + perturb + 1) & mask;
  }
}

Py_ssize_t stator_view_length(const StatorView* view) {
  if (view->dict != NULL) return view->dict->ma_used;
  if (view->keys == NULL) return 0;
  return stator_values_count(view);
}

int stator_view_next(const StatorView* view, Py_ssize_t* position, PyObject** key,
                     PyObject** value) {
  if (view->dict != NULL) return PyDict_Next((PyObject*)view->dict, position, key, value);
  Py_ssize_t length = stator_view_length(view);
  while (*position < length) {
    Py_ssize_t index = stator_values_order(view, *position);
    ++*position;
    *value = stator_view_value(view, index);
    *key = stator_view_key(view, index);
    if (*value != NULL) return 1;
  }
  return 0;
}

int stator_dict_next(PyObject* dict, Py_ssize_t* position, PyObject** key, PyObject** value,
                     Py_hash_t* hash) {
  const Py_ssize_t before = *position;
  if (!PyDict_Next(dict, position, key, value)) return 0;
  const StatorDict* table = (const StatorDict*)dict;
  if (table->keys->kind != 0) {
    *hash = hash_of_str(*key);
    return 1;
  }
  // General entries are (hash, key, value); deleted ones were passed over.
  PyObject** entries = stator_keys_entries(table->keys);
  for (Py_ssize_t i = before; i < *position; ++i) {
    if (entries[3 * i + 1] == *key) *hash = (Py_hash_t)(intptr_t)entries[3 * i];
  }
  return 1;
}

int stator_dict_get(PyObject* dict, PyObject* key, Py_hash_t hash, PyObject** value) {
  StatorView view;
  stator_view_dict(&view, dict);
  Py_ssize_t index = stator_view_find(&view, key, hash);
  *value = index >= 0 ? stator_view_value(&view, index) : NULL;
  return index >= 0 ? STATOR_FOUND : index == -1 ? STATOR_MISSING : STATOR_UNKNOWN;
}

Py_ssize_t stator_slot_offset(PyTypeObject* type, PyObject* name) {
  PyObject* found = _PyType_Lookup(type, name);
  if (found == NULL || Py_TYPE(found) != &PyMemberDescr_Type) return 0;
  PyMemberDescrObject* member = (PyMemberDescrObject*)found;
  if (!PyType_IsSubtype(type, member->d_common.d_type)) return 0;
  if (member->d_member->type != T_OBJECT_EX && member->d_member->type != T_OBJECT) return 0;
  return member->d_member->offset;
}

int stator_object_lookup(PyObject* object, PyObject* name, PyObject** value) {
  // A slot's descriptor is a data descriptor: it hides an entry of the instance dict.
  Py_ssize_t offset = stator_slot_offset(Py_TYPE(object), name);
  if (offset > 0) {
    *value = *(PyObject**)((char*)object + offset);
    return *value != NULL ? STATOR_FOUND : STATOR_MISSING;
  }
  StatorView view;
  *value = NULL;
  if (!stator_view_object(&view, object)) return STATOR_MISSING;
  Py_ssize_t index = stator_view_find(&view, name, PyObject_Hash(name));
  if (index >= 0) *value = stator_view_value(&view, index);
  return index >= 0 ? STATOR_FOUND : index == -1 ? STATOR_MISSING : STATOR_UNKNOWN;
}

PyObject* stator_type_lookup(PyTypeObject* type, PyObject* name) {
  return _PyType_Lookup(type, name);
}

int stator_class_is_assignable(PyTypeObject* type) {
  return !(type->tp_flags & Py_TPFLAGS_IMMUTABLETYPE) || PyType_IsSubtype(type, &PyModule_Type);
}

// OrderedDict keeps its order in a linked list that starts behind the dict part.
typedef struct OrderedNode {
  PyObject* key;
  Py_hash_t hash;
  struct OrderedNode* next;
  struct OrderedNode* previous;
} OrderedNode;

typedef struct OrderedDict {
  PyDictObject dict;
  OrderedNode* first;
  OrderedNode* last;
  OrderedNode** fast_nodes;
  Py_ssize_t fast_nodes_size;
  void* resize_sentinel;
  size_t state;
  PyObject* instance_dict;
  PyObject* weak_references;
} OrderedDict;

int stator_odict_next(PyObject* odict, void** cursor, PyObject** key) {
  if (PyODict_Type.tp_basicsize != (Py_ssize_t)sizeof(OrderedDict)) return -1;
  OrderedNode* node =
      *cursor == NULL ? ((OrderedDict*)odict)->first : ((OrderedNode*)*cursor)->next;
  if (node == NULL) return 0;
  *cursor = node;
  *key = node->key;
  return 1;
}

PyObject* stator_exact_scalar(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  if (PyUnicode_Check(object)) return type == &PyUnicode_Type ? NULL : _PyUnicode_Copy(object);
  if (PyLong_Check(object))
    return type == &PyLong_Type || type == &PyBool_Type ? NULL
                                                        : _PyLong_Copy((PyLongObject*)object);
  if (PyFloat_Check(object))
    return type == &PyFloat_Type ? NULL : PyFloat_FromDouble(PyFloat_AS_DOUBLE(object));
  if (PyBytes_Check(object)) {
    return type == &PyBytes_Type
               ? NULL
               : PyBytes_FromStringAndSize(PyBytes_AS_STRING(object), PyBytes_GET_SIZE(object));
  }
  if (PyComplex_Check(object))
    return type == &PyComplex_Type ? NULL
                                   : PyComplex_FromCComplex(((PyComplexObject*)object)->cval);
  return NULL;
}

// Objects/dictobject.c and Objects/setobject.c: the container, how many entries it had, the position, (a tuple to be
// reused,) how many are left.
typedef struct {
  PyObject_HEAD
  PyObject* container;
  Py_ssize_t used;
  Py_ssize_t position;
} EntryIterator;

// Modules/_collectionsmodule.c: where the next item lies, the deque, how often it had been changed, how many are left.
typedef struct {
  PyObject_HEAD
  void* block;
  Py_ssize_t index;
  PyObject* deque;
  size_t state;
  Py_ssize_t left;
} DequeIterator;

static int is_deque_iterator(PyTypeObject* type) {
  return strcmp(type->tp_name, "_collections._deque_iterator") == 0 &&
         type->tp_basicsize == (Py_ssize_t)sizeof(DequeIterator);
}

size_t stator_deque_changes(PyObject* deque) {
  PyObject* iterator = PyObject_GetIter(deque);
  size_t changes = (size_t)-1;
  if (iterator == NULL) {
    PyErr_Clear();
    return changes;
  }
  if (is_deque_iterator(Py_TYPE(iterator))) changes = ((DequeIterator*)iterator)->state;
  Py_DECREF(iterator);
  return changes;
}

void stator_copy_iterator_position(PyObject* from, PyObject* to) {
  if (Py_TYPE(from) != Py_TYPE(to)) return;
  if (is_deque_iterator(Py_TYPE(to))) {
    const DequeIterator* other = (const DequeIterator*)from;
    DequeIterator* iterator = (DequeIterator*)to;
    iterator->block = other->block;
    iterator->index = other->index;
    iterator->state = other->state;
    iterator->left = other->left;
    return;
  }
  EntryIterator* source = (EntryIterator*)from;
  EntryIterator* target = (EntryIterator*)to;
  target->used = source->used;
  target->position = source->position;
  if (Py_TYPE(to) == &PySetIter_Type) {
    ((Py_ssize_t*)(target + 1))[0] = ((Py_ssize_t*)(source + 1))[0];
  } else {
    ((Py_ssize_t*)(target + 1))[1] = ((Py_ssize_t*)(source + 1))[1];
  }
}

// typeobject.c's superobject, which no header shows.
typedef struct {
  PyObject_HEAD
  PyTypeObject* type;
  PyObject* object;
  PyTypeObject* object_type;
} SuperObject;

PyObject* stator_make_super(PyTypeObject* type, PyObject* object, PyTypeObject* object_type) {
  SuperObject* made = (SuperObject*)PySuper_Type.tp_alloc(&PySuper_Type, 0);
  if (made == NULL) return NULL;
  made->type = (PyTypeObject*)Py_NewRef((PyObject*)type);
  made->object = Py_NewRef(object);
  made->object_type = (PyTypeObject*)Py_NewRef((PyObject*)object_type);
  return (PyObject*)made;
}

// A removed element leaves an entry with a key of setobject.c's own (not counted) and the hash -1, which no element
// has.
int stator_set_assign(PyObject* target, PyObject* from) {
  PySetObject* to = (PySetObject*)target;
  const PySetObject* other = (const PySetObject*)from;
  if (target == from) return 0;
  if (PySet_Clear(target) < 0 && PyErr_ExceptionMatches(PyExc_SystemError)) {
    // A frozenset that nobody has seen yet is empty already.
    PyErr_Clear();
    if (to->used != 0) {
      PyErr_BadInternalCall();
      return -1;
    }
  }
  const size_t size = (size_t)other->mask + 1;
  setentry* table = to->smalltable;
  if (other->table != other->smalltable) {
    table = PyMem_New(setentry, size);
    if (table == NULL) {
      PyErr_NoMemory();
      return -1;
    }
  }
  for (size_t i = 0; i < size; i++) {
    table[i] = other->table[i];
    if (table[i].key != NULL && table[i].hash != -1) Py_INCREF(table[i].key);
  }
  to->table = table;
  to->mask = other->mask;
  to->fill = other->fill;
  to->used = other->used;
  to->finger = other->finger;
  return 0;
}

PyObject* stator_set_like(PyTypeObject* type, PyObject* from) {
  PyTypeObject* base = PyType_IsSubtype(type, &PySet_Type) ? &PySet_Type : &PyFrozenSet_Type;
  PyObject* nothing = PyTuple_New(0);
  if (nothing == NULL) return NULL;
  // frozenset() without elements is a new object each time, and so may be filled.
  PyObject* made = base->tp_new(type, nothing, NULL);
  Py_DECREF(nothing);
  if (made != NULL && stator_set_assign(made, from) < 0) Py_CLEAR(made);
  return made;
}

void stator_set_rekey(PyObject* set, PyObject* const* keys) {
  PySetObject* to = (PySetObject*)set;
  for (Py_ssize_t i = 0; i <= to->mask; i++) {
    setentry* entry = &to->table[i];
    if (entry->key == NULL || entry->hash == -1) continue;
    PyObject* old = entry->key;
    entry->key = Py_NewRef(*keys++);
    Py_DECREF(old);
  }
}
