#include "python/thread_locals.h"

int stator_thread_local_started(PyObject* local) {
  // Modules/_threadmodule.c's name for it in the thread's dict (3.11 to 3.13). Under another version's name: not there.
  PyObject* dict = PyThreadState_GetDict();
  PyObject* key = PyUnicode_FromFormat("thread.local.%p", local);
  if (key == NULL) return -1;
  const int found = dict == NULL ? 0 : PyDict_Contains(dict, key);
  Py_DECREF(key);
  return found;
}
