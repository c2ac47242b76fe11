// One thread traces at a time. A trace runs Python code, which lets other threads in, and much of what it uses is made
// on first use, by code that imports modules: two threads in the middle of that would wait for each other. Backends run
// without the turn.
#pragma once

#include "base/python.h"

#include <chrono>
#include <mutex>

namespace stator::runtime {

class CaptureTurn {
 public:
  // Waits with the interpreter's lock released. A thread that holds what the tracing one waits for (the lock of a
  // module that it imports) goes without after a while, and its call is not captured.
  explicit CaptureTurn(bool wanted = true) {
    if (!wanted || depth()++ > 0) {
      nested_ = wanted;
      held_ = true;
      return;
    }
    owner_ = true;
    held_ = mutex().try_lock();
    if (held_) return;
    PyThreadState* state = PyEval_SaveThread();
    held_ = mutex().try_lock_for(std::chrono::seconds(10));
    PyEval_RestoreThread(state);
  }
  ~CaptureTurn() { end(); }
  CaptureTurn(const CaptureTurn&) = delete;
  CaptureTurn& operator=(const CaptureTurn&) = delete;

  bool held() const { return held_; }
  void end() {
    if (owner_ || nested_) depth()--;
    if (owner_ && held_) mutex().unlock();
    owner_ = nested_ = false;
  }

 private:
  static std::timed_mutex& mutex() {
    static std::timed_mutex one;
    return one;
  }
  static int& depth() {
    thread_local int count = 0;
    return count;
  }
  bool owner_ = false, nested_ = false, held_ = false;
};

}  // namespace stator::runtime
