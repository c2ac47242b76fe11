// threading.local, of which CPython does not tell whether a thread has used it.
#pragma once

#include "base/python.h"

#ifdef __cplusplus
extern "C" {
#endif

// Whether this thread has used the object: if not, its next use runs the class's __init__. -1 with an error set.
int stator_thread_local_started(PyObject* local);

#ifdef __cplusplus
}
#endif
