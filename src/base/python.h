// The only door to CPython's public headers. Everything that needs a version's internals goes through python/.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

// Functions that every version we build for exports in one form, but that not every version's public headers show.
#ifdef __cplusplus
extern "C" {
#endif
PyAPI_FUNC(int) _PySet_NextEntry(PyObject*, Py_ssize_t*, PyObject**, Py_hash_t*);
PyAPI_FUNC(int) _PySet_Update(PyObject*, PyObject*);
PyAPI_FUNC(int) _PyDict_SetItem_KnownHash(PyObject*, PyObject*, PyObject*, Py_hash_t);
PyAPI_FUNC(PyObject*) _PyDict_GetItem_KnownHash(PyObject*, PyObject*, Py_hash_t);
PyAPI_FUNC(int) _PyDict_DelItem_KnownHash(PyObject*, PyObject*, Py_hash_t);
PyAPI_FUNC(int) _PyDict_MergeEx(PyObject*, PyObject*, int);
PyAPI_FUNC(PyObject*) _PyList_Extend(PyListObject*, PyObject*);
PyAPI_FUNC(PyObject*) _PyObject_FunctionStr(PyObject*);
PyAPI_FUNC(int) _PyObject_GetMethod(PyObject*, PyObject*, PyObject**);
PyAPI_FUNC(PyObject*) _PyErr_FormatFromCause(PyObject*, const char*, ...);
PyAPI_FUNC(PyObject*) _PyUnicode_JoinArray(PyObject*, PyObject* const*, Py_ssize_t);
PyAPI_FUNC(PyObject*) _PyUnicode_Copy(PyObject*);
PyAPI_FUNC(PyObject*) _PyLong_Copy(PyLongObject*);
PyAPI_FUNC(int) _PyLong_Sign(PyObject*);
PyAPI_FUNC(void) _PyTraceback_Add(const char*, const char*, int);
#ifdef __cplusplus
}
#endif
