// What iterators of C's go over and where they stand, as far as 3.11 to 3.13 lay them out alike; see objects.h.
#define Py_BUILD_CORE 1
#include "python/itertools.h"
#include "python/objects.h"

#include <string.h>

// Objects/listobject.c and Objects/tupleobject.c; `sequence` is NULL once the iterator has ended.
typedef struct {
  PyObject_HEAD
  Py_ssize_t index;
  PyObject* sequence;
} IndexIterator;

typedef struct {
  PyObject_HEAD
  Py_ssize_t index;
  PyObject* inner;
  PyObject* result;
  PyObject* long_index;
} Enumerate;

typedef struct {
  PyObject_HEAD
  Py_ssize_t size;
  PyObject* inner;  // a tuple of iterators
  PyObject* result;
  int strict;
} Zip;

typedef struct {
  PyObject_HEAD
  PyDictObject* dict;
  Py_ssize_t used;
  Py_ssize_t position;
  PyObject* result;
  Py_ssize_t left;
} DictIterator;

static int isSimple(PyTypeObject* type) {
  return type == &PyListIter_Type || type == &PyTupleIter_Type || type == &PyRangeIter_Type;
}

static int isOfDict(PyTypeObject* type) {
  return type == &PyDictIterKey_Type || type == &PyDictIterValue_Type ||
         type == &PyDictIterItem_Type;
}

// Keys that were deleted and came back lie behind the others: CPython raises where it finds more than it expects.
static int isAsExpected(DictIterator* iterator) {
  PyObject* dict = (PyObject*)iterator->dict;
  Py_ssize_t at = iterator->used;
  if (!PyDict_Next(dict, &at, NULL, NULL))
    return iterator->left == iterator->used - iterator->position;
  Py_ssize_t count = 0;
  for (at = iterator->position; count <= iterator->left && PyDict_Next(dict, &at, NULL, NULL);)
    ++count;
  return count == iterator->left;
}

// How many containers are behind an iterator; 0: it is not one of these, or somebody else may move what it goes over.
static int containersBehind(PyObject* iterator, PyObject** found, int room) {
  PyTypeObject* type = Py_TYPE(iterator);
  if (room == 0) return 0;
  if (isSimple(type) || type == &PyListRevIter_Type) {
    found[0] = type == &PyRangeIter_Type ? NULL : ((IndexIterator*)iterator)->sequence;
    return 1;
  }
  if (isOfDict(type)) {
    DictIterator* of_dict = (DictIterator*)iterator;
    found[0] = (PyObject*)of_dict->dict;
    return of_dict->dict == NULL ||
           (PyDict_CheckExact(of_dict->dict) && of_dict->used == of_dict->dict->ma_used &&
            isAsExpected(of_dict));
  }
  if (type == &PyEnum_Type) {
    Enumerate* counted = (Enumerate*)iterator;
    if (counted->long_index != NULL || Py_REFCNT(counted->inner) != 1) return 0;
    return containersBehind(counted->inner, found, room);
  }
  if (type == &PyZip_Type) {
    Zip* zipped = (Zip*)iterator;
    int count = 0;
    if (zipped->strict || zipped->size == 0) return 0;
    for (Py_ssize_t i = 0; i < zipped->size; i++) {
      PyObject* inner = PyTuple_GET_ITEM(zipped->inner, i);
      int more = Py_REFCNT(inner) == 1 ? containersBehind(inner, found + count, room - count) : 0;
      if (more == 0) return 0;
      count += more;
    }
    return count;
  }
  return 0;
}

int stator_iterator_known(PyObject* iterator) {
  PyObject* found[STATOR_MOST_CONTAINERS];
  return isSimple(Py_TYPE(iterator)) ||
         containersBehind(iterator, found, STATOR_MOST_CONTAINERS) > 0;
}

int stator_iterator_is_simple(PyObject* iterator) { return isSimple(Py_TYPE(iterator)); }

PyObject* stator_iterator_container(PyObject* iterator, int n) {
  PyObject* found[STATOR_MOST_CONTAINERS];
  return n < containersBehind(iterator, found, STATOR_MOST_CONTAINERS) ? found[n] : NULL;
}

static PyObject* aheadInDict(DictIterator* iterator, Py_ssize_t n) {
  PyObject *key = NULL, *value = NULL;
  Py_ssize_t position = iterator->position;
  if (iterator->dict == NULL) return NULL;
  do {
    if (!PyDict_Next((PyObject*)iterator->dict, &position, &key, &value)) return NULL;
  } while (n-- > 0);
  if (Py_TYPE(iterator) == &PyDictIterKey_Type) return Py_NewRef(key);
  if (Py_TYPE(iterator) == &PyDictIterValue_Type) return Py_NewRef(value);
  return PyTuple_Pack(2, key, value);
}

static PyObject* aheadInZip(Zip* zipped, Py_ssize_t n) {
  PyObject* items = PyTuple_New(zipped->size);
  for (Py_ssize_t i = 0; items != NULL && i < zipped->size; i++) {
    PyObject* item = stator_iterator_ahead(PyTuple_GET_ITEM(zipped->inner, i), n);
    if (item == NULL)
      Py_CLEAR(items);
    else
      PyTuple_SET_ITEM(items, i, item);
  }
  return items;
}

static PyObject* aheadInEnumerate(Enumerate* counted, Py_ssize_t n) {
  PyObject* item = stator_iterator_ahead(counted->inner, n);
  PyObject* index = item != NULL ? PyLong_FromSsize_t(counted->index + n) : NULL;
  PyObject* pair = index != NULL ? PyTuple_Pack(2, index, item) : NULL;
  Py_XDECREF(index);
  Py_XDECREF(item);
  return pair;
}

PyObject* stator_iterator_ahead(PyObject* iterator, Py_ssize_t n) {
  PyTypeObject* type = Py_TYPE(iterator);
  if (type == &PyRangeIter_Type) {
    return stator_range_ahead(iterator, n);
  }
  if (isOfDict(type)) return aheadInDict((DictIterator*)iterator, n);
  if (type == &PyZip_Type) return aheadInZip((Zip*)iterator, n);
  if (type == &PyEnum_Type) return aheadInEnumerate((Enumerate*)iterator, n);
  IndexIterator* by_index = (IndexIterator*)iterator;
  if (by_index->sequence == NULL) return NULL;
  Py_ssize_t at = by_index->index + n;
  if (type == &PyListRevIter_Type) {
    at = by_index->index - n;
    return at >= 0 && at < PyList_GET_SIZE(by_index->sequence)
               ? Py_NewRef(PyList_GET_ITEM(by_index->sequence, at))
               : NULL;
  }
  if (type == &PyListIter_Type)
    return at < PyList_GET_SIZE(by_index->sequence)
               ? Py_NewRef(PyList_GET_ITEM(by_index->sequence, at))
               : NULL;
  if (type == &PyTupleIter_Type)
    return at < PyTuple_GET_SIZE(by_index->sequence)
               ? Py_NewRef(PyTuple_GET_ITEM(by_index->sequence, at))
               : NULL;
  return NULL;
}

void stator_iterator_skip(PyObject* iterator, Py_ssize_t n) {
  PyTypeObject* type = Py_TYPE(iterator);
  if (type == &PyRangeIter_Type) {
    stator_range_skip(iterator, n);
    return;
  }
  if (!isSimple(type)) {
    // None of these runs code of the program.
    while (n-- > 0) Py_XDECREF(type->tp_iternext(iterator));
    PyErr_Clear();
    return;
  }
  IndexIterator* by_index = (IndexIterator*)iterator;
  if (by_index->sequence == NULL) return;
  by_index->index += n;
  Py_ssize_t length = type == &PyListIter_Type ? PyList_GET_SIZE(by_index->sequence)
                                               : PyTuple_GET_SIZE(by_index->sequence);
  if (by_index->index > length) {
    // 3.13 asks the index of a list's iterator, not the list, whether it has ended.
    if (type == &PyListIter_Type) by_index->index = -1;
    Py_CLEAR(by_index->sequence);
  }
}

typedef struct {
  PyObject_HEAD
  PyObject* inner;  // a tuple of iterators
  PyObject* function;
} Map;

static int isChain(PyTypeObject* type) {
  return strcmp(type->tp_name, "itertools.chain") == 0 && type->tp_basicsize == sizeof(StatorChain);
}

static PyObject* partAt(PyObject* tuple, Py_ssize_t n) {
  return tuple != NULL && n >= 0 && n < PyTuple_GET_SIZE(tuple) ? PyTuple_GET_ITEM(tuple, n) : NULL;
}

PyObject* stator_iterator_part(PyObject* iterator, Py_ssize_t n) {
  PyTypeObject* type = Py_TYPE(iterator);
  if (type == &PyZip_Type) return partAt(((Zip*)iterator)->inner, n);
  if (type == &PyEnum_Type) return n == 0 ? ((Enumerate*)iterator)->inner : NULL;
  if (type == &PyMap_Type) {
    Map* map = (Map*)iterator;
    return n == 0 ? map->function : partAt(map->inner, n - 1);
  }
  if (!isChain(type)) return NULL;
  return n == 0   ? ((StatorChain*)iterator)->source
         : n == 1 ? ((StatorChain*)iterator)->active
                  : NULL;
}

PyObject* stator_iterator_state(PyObject* iterator) {
  PyTypeObject* type = Py_TYPE(iterator);
  if (type == &PyZip_Type) {
    Zip* zipped = (Zip*)iterator;
    return Py_BuildValue("(ni)", zipped->size, zipped->strict);
  }
  if (type == &PyEnum_Type) {
    Enumerate* counted = (Enumerate*)iterator;
    return counted->long_index == NULL ? PyLong_FromSsize_t(counted->index) : NULL;
  }
  if (type == &PyMap_Type) return PyLong_FromSsize_t(PyTuple_GET_SIZE(((Map*)iterator)->inner));
  if (!isChain(type) || ((StatorChain*)iterator)->source == NULL) return NULL;
  return PyBool_FromLong(((StatorChain*)iterator)->active != NULL);
}

void stator_enumerate_set(PyObject* iterator, Py_ssize_t next) {
  ((Enumerate*)iterator)->index = next;
}
