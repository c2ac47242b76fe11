// Iterators made in a trace. Our own, so that they can be advanced, looked into and rebuilt as CPython's at an exit. A
// generator made in the trace is a suspended symbolic frame.
#pragma once

#include "base/ref.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace stator::interpret {

struct SymbolicFrame;

enum class IteratorKind : uint8_t {
  kSequence,  // source[0]: list, tuple, str, range, bytes, by index (a list that grows is seen)
  kReversed,  // the same, from the end: index counts down; flag: asks __getitem__ for each
  // source[0]: an object that has only __getitem__, which is asked for each; index counts up
  kByIndex,
  // source[0]: a tuple of the items; source[1]: the object to rebuild the iterator from (dict view, set ...);
  kSnapshot,
  // source[2], of values and items of a dict: its keys
  kZip,        // sources: iterators; flag: strict
  kEnumerate,  // source[0]: iterator; index: the next number
  kMap,        // source[0]: function; then iterators
  kFilter,     // source[0]: function or None; source[1]: iterator
  kCallable,   // source[0]: callable, source[1]: sentinel
  kGenerator,  // frame
  // Those of itertools; see library/itertools.cpp.
  kChain,  // source[0]: iterator over iterables; source[1]: the one under way, or null
  // source[0]: iterator; source[1], [2], [3]: next, stop (or None), step; index: taken so far
  kIslice,
  kCount,  // source[0]: the next number; source[1]: step
  // source[0]: iterator; source[1]: list of what it gave; flag: it has ended; index: the next of the list
  kCycle,
  kRepeat,  // source[0]: object; index: how often, -1: for ever
  // source[0]: iterator; source[1]: function or None; source[2]: total or null; source[3]: initial value or null
  kAccumulate,
  kStarMap,      // source[0]: function; source[1]: iterator
  kTakeWhile,    // the same
  kDropWhile,    // the same; flag: it has begun
  kFilterFalse,  // the same
  kCompress,     // source[0]: data; source[1]: selectors
  kZipLongest,   // source[0]: fill value; then iterators, null where one has ended
  kPairwise,     // source[0]: iterator; source[1]: the item before, or null
  kTee,          // source[0]: list of the iterator and what it gave so far, shared by all; index
  // source[0]: CPython's own iterator, which only moves references; source[1]: its type; source[2]: tuple of its
  // arguments
  kMoves,
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
  PyObject* function;    // kGenerator: what made it (owned)
};

extern PyTypeObject TraceIteratorType;
bool initTraceIteratorType();
inline bool isTraceIterator(PyObject* object) {
  return object != nullptr && Py_TYPE(object) == &TraceIteratorType;
}
inline TraceIterator* asTraceIterator(PyObject* object) {
  return reinterpret_cast<TraceIterator*>(object);
}
Ref<> makeTraceIterator(IteratorKind kind, std::vector<Ref<>> sources, int64_t index = 0);
Ref<> makeTraceGenerator(std::unique_ptr<SymbolicFrame> frame);

PyTypeObject* iteratorType(const TraceIterator* iterator);  // the CPython type it stands for

}  // namespace stator::interpret
