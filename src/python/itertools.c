// Iterators of itertools that stand in their middle. Their own __setstate__ warns since 3.12 and is gone in 3.14, so
// that the fields are set here; they are laid out alike in 3.11 to 3.13.
#include "python/itertools.h"

#include "python/objects.h"

#include <string.h>

typedef struct {
  PyObject_HEAD
  PyObject* it;
  PyObject* saved;
  Py_ssize_t index;
  int firstpass;
} Cycle;

typedef struct {
  PyObject_HEAD
  PyObject* total;
  PyObject* it;
  PyObject* function;
  PyObject* initial;
} Accumulate;

typedef struct {
  PyObject_HEAD
  PyObject* func;
  PyObject* it;
  long start;
} DropWhile;

typedef struct {
  PyObject_HEAD
  Py_ssize_t tuplesize;
  Py_ssize_t numactive;
  PyObject* ittuple;
  PyObject* result;
  PyObject* fillvalue;
} ZipLongest;

static int is(PyObject* iterator, const char* name, size_t size) {
  PyTypeObject* type = Py_TYPE(iterator);
  return strcmp(type->tp_name, name) == 0 && (size_t)type->tp_basicsize >= size;
}

static void put(PyObject** field, PyObject* value) {
  PyObject* old = *field;
  *field = Py_XNewRef(value);
  Py_XDECREF(old);
}

static PyObject* set_state(PyObject* module, PyObject* const* args, Py_ssize_t count) {
  if (count != 2 && count != 3) {
    PyErr_SetString(PyExc_TypeError, "an iterator and its state");
    return NULL;
  }
  PyObject* iterator = args[0];
  PyObject* state = args[1];
  if (count == 3) {  // of accumulate alone: what it starts with, not given out yet
    if (!is(iterator, "itertools.accumulate", sizeof(Accumulate))) {
      PyErr_SetString(PyExc_TypeError, "only accumulate starts with something");
      return NULL;
    }
    put(&((Accumulate*)iterator)->initial, args[2]);
    Py_RETURN_NONE;
  }
  if (is(iterator, "itertools.chain", sizeof(StatorChain)) && PyTuple_Check(state)) {
    StatorChain* chain = (StatorChain*)iterator;
    put(&chain->source, PyTuple_GET_ITEM(state, 0));
    put(&chain->active, PyTuple_GET_SIZE(state) > 1 ? PyTuple_GET_ITEM(state, 1) : NULL);
  } else if (Py_TYPE(iterator) == &PyEnum_Type && PyLong_CheckExact(state)) {
    stator_enumerate_set(iterator, PyLong_AsSsize_t(state));
  } else if (is(iterator, "itertools.cycle", sizeof(Cycle)) && PyTuple_Check(state)) {
    Cycle* cycle = (Cycle*)iterator;
    put(&cycle->saved, PyTuple_GET_ITEM(state, 0));
    cycle->firstpass = PyTuple_GET_ITEM(state, 1) == Py_True;
    cycle->index = 0;
  } else if (is(iterator, "itertools.accumulate", sizeof(Accumulate))) {
    put(&((Accumulate*)iterator)->total, state);
  } else if (is(iterator, "itertools.dropwhile", sizeof(DropWhile))) {
    ((DropWhile*)iterator)->start = state == Py_True;
  } else if (is(iterator, "itertools.zip_longest", sizeof(ZipLongest))) {
    put(&((ZipLongest*)iterator)->fillvalue, state);
  } else {
    PyErr_Format(PyExc_TypeError, "'%.200s' has no state that is known here",
                 Py_TYPE(iterator)->tp_name);
    return NULL;
  }
  Py_RETURN_NONE;
}

// An iterator that is handed on: its iter() is the iterator itself, and the class of that is not asked again.
typedef struct {
  PyObject_HEAD
  PyObject* iterator;
} Handed;

static void handed_dealloc(PyObject* self) {
  Py_XDECREF(((Handed*)self)->iterator);
  PyObject_Free(self);
}

static PyObject* handed_iter(PyObject* self) { return Py_NewRef(((Handed*)self)->iterator); }

static PyTypeObject HandedType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "stator._core.HandedIterator",
    .tp_basicsize = sizeof(Handed),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_dealloc = handed_dealloc,
    .tp_iter = handed_iter,
};

static PyObject* hand_iterator(PyObject* module, PyObject* iterator) {
  if (PyType_Ready(&HandedType) != 0) return NULL;
  Handed* handed = PyObject_New(Handed, &HandedType);
  if (handed != NULL) handed->iterator = Py_NewRef(iterator);
  return (PyObject*)handed;
}

static PyObject* iterate_by_index(PyObject* module, PyObject* sequence) {
  return PySeqIter_New(sequence);
}

PyMethodDef stator_itertools_methods[] = {
    {"iterate_by_index", iterate_by_index, METH_O,
     "iterate_by_index(sequence): what iter() makes of an object that has only __getitem__."},
    {"hand_iterator", hand_iterator, METH_O,
     "hand_iterator(iterator): what zip and its kin take in its place, so that its __iter__ does "
     "not run again."},
    {"set_iterator_state", (PyCFunction)(void (*)(void))set_state, METH_FASTCALL,
     "set_iterator_state(iterator, state): __setstate__ of itertools' iterators; a third argument "
     "is what "
     "accumulate starts with."},
    {NULL, NULL, 0, NULL},
};
