#include "interpret/core/trace_traceback.h"

namespace stator::interpret {

PyTypeObject TraceTracebackType = {PyVarObject_HEAD_INIT(nullptr, 0)};

bool initTraceTracebackType() {
  TraceTracebackType.tp_name = "stator._core.TraceTraceback";
  TraceTracebackType.tp_basicsize = sizeof(PyObject);
  TraceTracebackType.tp_flags = Py_TPFLAGS_DEFAULT;
  return PyType_Ready(&TraceTracebackType) == 0;
}

}  // namespace stator::interpret
