// See hidden.h. CPython's list of objects that the garbage collector looks at, and its chain of frames.
#define Py_BUILD_CORE 1
#include "python/hidden.h"

#include "internal/pycore_gc.h"

void stator_hide(PyObject* object) {
  // A list of our own, in no generation: the collector unlinks what it moves, and dealloc what it frees, wherever it is
  // linked.
  static PyGC_Head hidden;
  if (hidden._gc_next == 0) {
    _PyGCHead_SET_NEXT(&hidden, &hidden);
    _PyGCHead_SET_PREV(&hidden, &hidden);
  }
  if (!_PyObject_GC_IS_TRACKED(object)) return;
  PyObject_GC_UnTrack(object);
  PyGC_Head* head = _Py_AS_GC(object);
  PyGC_Head* last = _PyGCHead_PREV(&hidden);
  _PyGCHead_SET_NEXT(last, head);
  _PyGCHead_SET_PREV(head, last);
  _PyGCHead_SET_NEXT(head, &hidden);
  hidden._gc_prev = (uintptr_t)head;
}

#if PY_MINOR_VERSION < 13
static struct _PyInterpreterFrame** innermost(void) {
  return &PyThreadState_Get()->cframe->current_frame;
}
#else
static struct _PyInterpreterFrame** innermost(void) { return &PyThreadState_Get()->current_frame; }
#endif

void* stator_callers_hide(void) {
  struct _PyInterpreterFrame* callers = *innermost();
  *innermost() = NULL;
  return callers;
}

void stator_callers_show(void* callers) { *innermost() = callers; }
