#include "interpret/trace_iterator.h"

#include "interpret/tracer.h"

namespace stator::interpret {

namespace {

void dealloc(PyObject* self) {
  TraceIterator* iterator = asTraceIterator(self);
  delete iterator->sources;
  delete iterator->frame;
  Py_XDECREF(iterator->handled);
  Py_XDECREF(iterator->function);
  Py_TYPE(self)->tp_free(self);
}

}  // namespace

PyTypeObject TraceIteratorType = {PyVarObject_HEAD_INIT(nullptr, 0)};

bool initTraceIteratorType() {
  TraceIteratorType.tp_name = "stator._core.TraceIterator";
  TraceIteratorType.tp_basicsize = sizeof(TraceIterator);
  TraceIteratorType.tp_flags = Py_TPFLAGS_DEFAULT;
  TraceIteratorType.tp_dealloc = dealloc;
  return PyType_Ready(&TraceIteratorType) == 0;
}

Ref<> makeTraceIterator(IteratorKind kind, std::vector<Ref<>> sources, int64_t index) {
  Ref<> object = stealRef(TraceIteratorType.tp_alloc(&TraceIteratorType, 0));
  TraceIterator* iterator = asTraceIterator(object.get());
  iterator->kind = kind;
  iterator->index = index;
  iterator->sources = new std::vector<Ref<>>(std::move(sources));
  return object;
}

Ref<> makeTraceGenerator(std::unique_ptr<SymbolicFrame> frame) {
  Ref<> object = makeTraceIterator(IteratorKind::kGenerator, {});
  asTraceIterator(object.get())->function = Py_XNewRef(frame->function.get());
  asTraceIterator(object.get())->frame = frame.release();
  return object;
}

}  // namespace stator::interpret
