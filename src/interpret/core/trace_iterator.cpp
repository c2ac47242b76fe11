#include "interpret/core/trace_iterator.h"

#include "base/check.h"
#include "interpret/core/frame_stack.h"
#include "interpret/core/known.h"
#include "interpret/core/tracer.h"
#include "python/types.h"

namespace stator::interpret {

namespace {

// What an iterator owned.
struct Parts {
  explicit Parts(TraceIterator* of)
      : sources(of->sources),
        frame(of->frame),
        handled(Ref<>::steal(of->handled)),
        function(Ref<>::steal(of->function)) {}
  std::unique_ptr<std::vector<Ref<>>> sources;
  std::unique_ptr<SymbolicFrame> frame;
  Ref<> handled;
  Ref<> function;
};

// Iterators over iterators end one after the other, not one inside of the other: a program may nest them as deeply as
// it likes.
void dealloc(PyObject* self) {
  static thread_local std::vector<Parts>* ending = nullptr;
  Parts parts(asTraceIterator(self));
  Py_TYPE(self)->tp_free(self);
  if (ending != nullptr) {
    ending->push_back(std::move(parts));
    return;
  }
  std::vector<Parts> inner;
  ending = &inner;
  {
    Parts own = std::move(parts);
  }
  while (!inner.empty()) {
    Parts next = std::move(inner.back());
    inner.pop_back();
  }
  ending = nullptr;
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

namespace {

// Lists and ranges have their own.
PyTypeObject* reversedType(PyObject* sequence) {
  if (!PyList_Check(sequence) && !PyRange_Check(sequence)) return &PyReversed_Type;
  Ref<> sample = PyList_Check(sequence) ? stealRef(PyList_New(0)) : newRef(sequence);
  Ref<> made =
      stealRef(PyObject_CallOneArg(reinterpret_cast<PyObject*>(&PyReversed_Type), sample.get()));
  if (!made) throw PythonError();
  return Py_TYPE(made.get());
}

}  // namespace

PyTypeObject* iteratorType(const TraceIterator* iterator) {
  static PyTypeObject* list_iterator = nullptr;
  if (list_iterator == nullptr) {
    Ref<> empty = stealRef(PyList_New(0));
    Ref<> sample = stealRef(PyObject_GetIter(empty.get()));
    list_iterator = Py_TYPE(sample.get());
  }
  switch (iterator->kind) {
    case IteratorKind::kZip:
      return &PyZip_Type;
    case IteratorKind::kEnumerate:
      return &PyEnum_Type;
    case IteratorKind::kMap:
      return &PyMap_Type;
    case IteratorKind::kFilter:
      return &PyFilter_Type;
    case IteratorKind::kReversed:
      return iterator->flag ? &PyReversed_Type : reversedType((*iterator->sources)[0].get());
    case IteratorKind::kByIndex:
      return &PySeqIter_Type;
    case IteratorKind::kCallable:
      return &PyCallIter_Type;
    case IteratorKind::kGenerator:
      return generatorType();
    case IteratorKind::kChain:
      return itertoolsType("chain");
    case IteratorKind::kIslice:
      return itertoolsType("islice");
    case IteratorKind::kCount:
      return itertoolsType("count");
    case IteratorKind::kCycle:
      return itertoolsType("cycle");
    case IteratorKind::kRepeat:
      return itertoolsType("repeat");
    case IteratorKind::kAccumulate:
      return itertoolsType("accumulate");
    case IteratorKind::kStarMap:
      return itertoolsType("starmap");
    case IteratorKind::kTakeWhile:
      return itertoolsType("takewhile");
    case IteratorKind::kDropWhile:
      return itertoolsType("dropwhile");
    case IteratorKind::kFilterFalse:
      return itertoolsType("filterfalse");
    case IteratorKind::kCompress:
      return itertoolsType("compress");
    case IteratorKind::kZipLongest:
      return itertoolsType("zip_longest");
    case IteratorKind::kPairwise:
      return itertoolsType("pairwise");
    case IteratorKind::kTee:
      return itertoolsType("_tee");
    case IteratorKind::kMoves:
      return reinterpret_cast<PyTypeObject*>((*iterator->sources)[1].get());
    case IteratorKind::kSequence:
    case IteratorKind::kSnapshot: {
      PyObject* over =
          (*iterator->sources)[iterator->kind == IteratorKind::kSequence ? 0 : 1].get();
      if (PyType_Check(over) || graph::isStandIn(over))
        return graph::isStandIn(over) ? &PyTupleIter_Type : list_iterator;
      Ref<> sample = stealRef(iterator->sources->size() > 4 ? stator_native_reversed(over)
                                                            : stator_native_iter(over));
      if (!sample) PyErr_Clear();
      return sample ? Py_TYPE(sample.get()) : list_iterator;
    }
    default:
      return list_iterator;
  }
}

}  // namespace stator::interpret
