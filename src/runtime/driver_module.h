// The driver's part of stator._core: doors for tests, and what the opcode table and decoded code say.
#pragma once

#include "base/python.h"

namespace stator::runtime {

extern PyMethodDef driver_methods[];
int addDriverObjects(PyObject* module);
// The driver keeps frames of counted code (bytecode::countFiles) where it would give others back to CPython.
bool stepsCounted();
// _core.NULL: stands for CPython's NULL in lists of slots and stack values. Borrowed.
PyObject* nullMarker();  // 0, or -1 with an error set

}  // namespace stator::runtime
