// Values that existed before the trace: read by way of a source, guarded at that moment.
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

// Objects that are the same for every call unless somebody rebinds a name: guarded by identity.
bool guardedByIdentity(PyObject* object);
Out fromOutside(Tracer& tracer, PyObject* object, const sources::Source* source);
// the type that the program sees (stand-ins: Tensor, Parameter ...)
// a dict that the program sees through a mappingproxy
bool isProxied(Tracer& tracer, PyObject* value);
PyTypeObject* typeOf(Tracer& tracer, PyObject* value);
// the innermost frame is nn.Module._call_impl
bool runsModuleCall(Tracer& tracer);
// Single keys and attributes that are written, without a look at the rest.
void noteWrite(Tracer& tracer, PyObject* object);
Out readSlot(Tracer& tracer, SymbolicFrame& frame, size_t slot);
// ok with a null Ref: empty
Out cellContents(Tracer& tracer, PyObject* cell);
Flow storeCell(Tracer& tracer, PyObject* cell, Ref<> value);

// the same for an input that comes up after the write
bool wasWrittenThrough(Tracer& tracer, uint32_t storage);

// the trace is about this very module
void specialise(Tracer& tracer, PyObject* module);

// What a cell of the function's closure holds, as a trace value; breaks if there is none of this name.
Out fromClosure(Tracer& tracer, PyObject* function, const char* name);

}  // namespace stator::interpret
