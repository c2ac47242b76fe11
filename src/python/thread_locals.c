#include "python/thread_locals.h"

#if PY_VERSION_HEX >= 0x030d0000
// Modules/_threadmodule.c: the object has a dict for each thread that used it, by a key of the thread's.
typedef struct {
  PyObject_HEAD
  PyObject* args;
  PyObject* kwargs;
  PyObject* weak_references;
  PyObject* dicts;
} LocalObject;

int stator_thread_local_started(PyObject* local) {
  PyObject* dicts = ((LocalObject*)local)->dicts;
  PyObject* key = PyThreadState_Get()->threading_local_key;
  return dicts == NULL || key == NULL ? 0 : PyDict_Contains(dicts, key);
}
#else
int stator_thread_local_started(PyObject* local) {
  // Modules/_threadmodule.c's name for it in the thread's dict.
  PyObject* dict = PyThreadState_GetDict();
  PyObject* key = PyUnicode_FromFormat("thread.local.%p", local);
  if (key == NULL) return -1;
  const int found = dict == NULL ? 0 : PyDict_Contains(dict, key);
  Py_DECREF(key);
  return found;
}
#endif
