// Objects of ours that a program should not meet.
#pragma once

#include "base/python.h"

#ifdef __cplusplus
extern "C" {
#endif

// Takes a weak reference out of what gc.get_objects() lists, and no collection looks at it. It stays a tracked object, since a collection
// that finds its target to be garbage moves it to a list of its own before its callback is called.
void stator_hide(PyObject* object);

#ifdef __cplusplus
}
#endif
