// Names in classes: found along the MRO, guarded, with what the trace has written there.
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

inline bool isDescriptor(PyObject* value) { return Py_TYPE(value)->tp_descr_get != nullptr; }
inline bool isDataDescriptor(PyObject* descriptor) {
  return Py_TYPE(descriptor)->tp_descr_set != nullptr;
}

// along the MRO, guarded; ok with a null Ref: not there
Out typeLookup(Tracer& tracer, PyTypeObject* type, PyObject* name);
// The value of a plain (non-descriptor) entry of a class.
Out classAttrValue(Tracer& tracer, PyTypeObject* owner, PyObject* name, PyObject* raw);
// The source of the raw entry in the class that has it, for descriptors that carry functions.
const sources::Source* classEntry(Tracer& tracer, PyTypeObject* type, PyObject* name);
// What the trace has put into a class under that name (borrowed), the marker of a deletion, or null: nothing was
// written there.
PyObject* writtenInClass(Tracer& tracer, PyTypeObject* type, PyObject* name);
// A class that the trace has made.
bool isMadeClass(Tracer& tracer, PyObject* object);

}  // namespace stator::interpret
