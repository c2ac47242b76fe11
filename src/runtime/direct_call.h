// A call of a compiled function whose entry ends in a return needs no frame of CPython's: its arguments are bound here,
// the guards look at them where they lie, and what the graph gives is made into what the function returns. Half of the
// cost of a small call was frames: the function's own, and _call_impl's of a module.
//
// Whatever is not plain (an argument that does not fit, a trace function, a signal, an entry that needs its frame, no
// entry at all) is left to the hook, with nothing done yet. So is a graph that raises: it is run again there, where the
// frame is, and raises as eager does.
#pragma once

#include "base/python.h"
#include "bytecode/binding.h"
#include "runtime/module_call.h"

#include <cstdint>
#include <vector>

namespace stator::runtime {

class Cache;
struct Site;

class DirectCall {
 public:
  // True: the call was served; `result` is what it returns, null with a Python error set.
  bool serve(PyObject* callable, Cache& cache, PyObject* const* args, size_t nargsf,
             PyObject* kwnames, PyObject** result);

 private:
  static constexpr int kMostSlots = 96;
  struct Arguments;
  struct Bound;
  bool find(PyFunctionObject* function, Cache& cache);
  void describe(PyCodeObject* code);
  bool bind(PyFunctionObject* function, PyObject* self, PyObject* const* args,
            Py_ssize_t positional, PyObject* kwnames, Arguments& into) const;
  PyObject* run(Site& site, PyFunctionObject* function, Arguments& arguments, bool& served);

  // The place whose entries serve, as found when the cache was in that generation.
  Site* site_ = nullptr;
  uint64_t generation_ = 0;
  uint64_t marks_version_ = 0;  // of the function's dict, in which it could be marked as disabled
  // How its code lays out a frame.
  PyCodeObject* code_ = nullptr;  // compared, never followed before that
  bytecode::Parameters parameters_;
  int slots_ = 0, free_ = 0;
  std::vector<int> cells_;  // slots that the function puts into cells of its own
  PlainModule module_;
};

}  // namespace stator::runtime
