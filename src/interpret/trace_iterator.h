// Iterators made in a trace. Our own, so that they can be advanced, looked into and rebuilt as CPython's at an exit. A generator made in
// the trace is a suspended symbolic frame.
#pragma once

#include "base/ref.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace stator::interpret {

struct SymbolicFrame;

enum class IteratorKind : uint8_t {
  kSequence,   // source[0]: list, tuple, str, range, bytes, by index (a list that grows is seen)
  kReversed,   // the same, from the end: index counts down
  kSnapshot,   // source[0]: a tuple of the items; source[1]: the object to rebuild the iterator from (dict view, set ...)
  kZip,        // sources: iterators; flag: strict
  kEnumerate,  // source[0]: iterator; index: the next number
  kMap,        // source[0]: function; then iterators
  kFilter,     // source[0]: function or None; source[1]: iterator
  kCallable,   // source[0]: callable, source[1]: sentinel
  kGenerator,  // frame
};

struct TraceIterator {
  PyObject_HEAD
  IteratorKind kind;
  bool flag;
  bool exhausted;
  bool running;
  int64_t index;
  std::vector<Ref<>>* sources;
  SymbolicFrame* frame;  // kGenerator: owned
  PyObject* handled;     // kGenerator: the exception its handlers are busy with (owned)
};

extern PyTypeObject TraceIteratorType;
bool initTraceIteratorType();
inline bool isTraceIterator(PyObject* object) { return object != nullptr && Py_TYPE(object) == &TraceIteratorType; }
inline TraceIterator* asTraceIterator(PyObject* object) { return reinterpret_cast<TraceIterator*>(object); }
Ref<> makeTraceIterator(IteratorKind kind, std::vector<Ref<>> sources, int64_t index = 0);
Ref<> makeTraceGenerator(std::unique_ptr<SymbolicFrame> frame);

}  // namespace stator::interpret
