// Fields of CPython's objects that its headers show and its reference does not promise; laid out alike in all versions
// here. Where CPython has a macro of its own for a field (PyDescr_TYPE, PyDict_GET_SIZE, PyList_GET_ITEM,
// PyCode_GetNumFree), that one is used everywhere.
#pragma once

#include "base/python.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Words that guards remember: the length of a list or tuple, the array of a list, and the version of a type, which may
// be stale (stator_type_version). The rest of the word of a version is padding, which nobody writes.
static inline const Py_ssize_t* stator_size_field(PyObject* object) {
  return &((PyVarObject*)object)->ob_size;
}
static inline PyObject** const* stator_list_items_field(PyObject* list) {
  return &((PyListObject*)list)->ob_item;
}
static inline const uint32_t* stator_type_version_field(PyTypeObject* type) {
  return &type->tp_version_tag;
}

// The classes below a class that Python code has made, by their addresses, in a dict; NULL: there was none yet.
// Borrowed.
static inline PyObject* stator_type_subclasses(PyTypeObject* type) {
  return (PyObject*)type->tp_subclasses;
}

// Locals, cells and free variables together.
static inline int stator_code_slot_count(PyCodeObject* code) { return code->co_nlocalsplus; }

// What descriptors and functions of C were made from.
static inline const PyMemberDef* stator_descriptor_member(PyObject* descriptor) {
  return ((PyMemberDescrObject*)descriptor)->d_member;
}
static inline const PyGetSetDef* stator_descriptor_getset(PyObject* descriptor) {
  return ((PyGetSetDescrObject*)descriptor)->d_getset;
}
static inline const PyMethodDef* stator_descriptor_method(PyObject* descriptor) {
  return ((PyMethodDescrObject*)descriptor)->d_method;
}
// Whether the wrapper of a slot (PyWrapperDescr_Type) calls this very function.
static inline int stator_descriptor_wraps(PyObject* descriptor, void* function) {
  return ((PyWrapperDescrObject*)descriptor)->d_wrapped == function;
}
static inline const PyMethodDef* stator_function_method(PyObject* function) {
  return ((PyCFunctionObject*)function)->m_ml;
}

#ifdef __cplusplus
}
#endif
