// Entries as they are found (entry.cpp; direct_call.cpp without a frame), made (capture.cpp) and run (run_entry.cpp).
#pragma once

#include "runtime/cache.h"
#include "runtime/driver.h"

#include <chrono>
#include <memory>
#include <vector>

namespace stator::interpret {
struct TraceOptions;
struct Captured;
}  // namespace stator::interpret

namespace stator::runtime {

// Something for the time of one run, in memory that the next one uses again.
template <class T>
class Spare {
 public:
  Spare() {
    if (spare.empty()) return;
    value_ = std::move(spare.back());
    spare.pop_back();
  }
  ~Spare() {
    value_.clear();  // may run code
    if (spare.size() < kMost) spare.push_back(std::move(value_));
  }
  Spare(const Spare&) = delete;
  Spare& operator=(const Spare&) = delete;
  T& operator*() { return value_; }

 private:
  static constexpr size_t kMost = 16;
  static inline std::vector<T> spare;
  T value_;
};
using References = Spare<std::vector<Ref<>>>;

// The graph's inputs, as an entry's guards find them.
struct GraphInputs {
  std::vector<PyObject*> values;
  std::vector<Ref<>> owned;  // what came into being by the asking, and with `hold` all of them
  // Whether the entry serves.
  bool found(Entry& entry, const sources::Roots& roots) {
    return (guardsHold(*entry.guards, roots) ||
            (entry.same_modules != nullptr && guardsHold(*entry.same_modules, roots))) &&
           memoryHolds(entry);
  }
  bool guardsHold(guards::GuardProgram& guards, const sources::Roots& roots) {
    owned.clear();
    return guards.check(roots, values, owned);
  }
  bool memoryHolds(const Entry& entry) const {
    return entry.memory == nullptr || entry.memory->holds(values);
  }
  // Before anything runs that could drop them; a function of Python's takes references of its own at once.
  void hold() {
    owned.reserve(owned.size() + values.size());
    for (PyObject* value : values) owned.push_back(newRef(value));
  }
  void clear() {
    values.clear();
    owned.clear();
  }
};

// By the settings, the cache's and the process's.
interpret::TraceOptions traceOptions(const Cache& cache, StatorFrame* frame);
// What a place has learned of its backend.
void chooseFloats(Floats floats, interpret::TraceOptions& options);
// Traces until no trace has to start over.
interpret::Captured traceFrame(StatorFrame* frame, interpret::TraceOptions& options);
// What a capture is for.
struct CaptureWish {
  int logs = 0;  // LogWord: who listens
  // in the place of a graph that failed (failed_graph.h): without the backend, and alone
  bool runs_as_is = false;
  // the place has as many entries as it may have: for what stays from call to call
  bool steady = false;
  // the one that made this entry, once more: what the place counts stays as it is
  const Entry* repeats = nullptr;
};
// Captures from the frame's offset on. Null: nothing was captured here (the site says why).
bool asksBackend(const Cache& cache, const char* name);  // an attribute of its that is True
std::unique_ptr<Entry> capture(Cache& cache, StatorFrame* frame, CaptureWish wish = {});
// The stance eager_then_compile: a place runs eagerly the first time. What it reads is taken down all the same, so that
// what is other the second time is dynamic at once.
void noteFirstRun(Site& site, const Cache& cache, StatorFrame* frame);
// Whether one is among the frame's locals and on its stack.
bool holdsTensor(StatorFrame* frame);

// The error for outputsFit; false.
bool refuseOutputs(const Entry& entry, PyObject* outputs);
// Whether a backend's callable has returned what the graph returns; false with an error set that says what came
// instead.
inline bool outputsFit(const Entry& entry, PyObject* outputs) {
  const bool sequence = PyTuple_Check(outputs) || PyList_Check(outputs);
  if (sequence && static_cast<size_t>(Py_SIZE(outputs)) >= entry.outputs) [[likely]]
    return true;
  return refuseOutputs(entry, outputs);
}

// `inputs`: the graph's, held.
Exit runEntry(Cache& cache, Entry& entry, StatorFrame* frame, sources::Roots roots,
              std::vector<PyObject*>& inputs);
// Its parts. Inputs that are drawn are read, and instances of tensor subclasses become plain; `owned` holds what was
// made for that.
void prepareInputs(const Entry& entry, const sources::Roots& roots, std::vector<PyObject*>& inputs,
                   std::vector<Ref<>>& owned);
// Null with a Python error set.
Ref<> callGraph(const Entry& entry, const std::vector<PyObject*>& inputs);
// What follows a graph: objects, effects, and the state in which the frame goes on.
Exit finishEntry(const breaks::Plan& plan, StatorFrame* frame, const sources::Roots& roots,
                 Ref<> outputs);

inline double secondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace stator::runtime
