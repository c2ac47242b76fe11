// States of torch and of the process as the trace sees them: grad mode and its kin, contexts that the graph has
// entered, settings.
#pragma once

#include "base/ref.h"
#include "shapes/infer.h"

#include <map>
#include <utility>
#include <vector>

namespace stator::interpret {

// A context manager of torch's that the graph has entered and not left yet.
struct OpenContext {
  PyObject* object = nullptr;  // borrowed: the value table or the program's frames keep it
  uint64_t entered_at = 0;
  shapes::State outer;
  Ref<> stand_in;  // what the graph's entry returns
  bool sets_cache = false;
  bool cache = false;
};

class TorchState {
 public:
  // States of the process that the trace has set (tensors/torch_states.cpp), by row.
  struct Setting {
    Ref<> before, now;
  };

  TorchState() : now_(shapes::State::now()), initial_(now_) {}

  shapes::State& now() { return now_; }
  const shapes::State& now() const { return now_; }
  const shapes::State& initial() const { return initial_; }

  std::vector<OpenContext>& contexts() { return contexts_; }  // the innermost one last
  const std::vector<OpenContext>& contexts() const { return contexts_; }
  std::map<size_t, Setting>& settings() { return settings_; }
  const std::map<size_t, Setting>& settings() const { return settings_; }

  // Something was decided on whether a tensor requires grad. If nothing was, and grad mode is off, guards need not
  // tell.
  bool gradsMatter() const { return grads_matter_; }
  void noteGradsMatter() { grads_matter_ = true; }

  // A break is an error (stator.error_on_graph_break).
  bool breakIsError() const { return break_is_error_; }
  bool breakIsErrorChanged() const { return break_is_error_ != break_was_error_; }
  void setBreakIsError(bool is_error) { break_is_error_ = is_error; }
  void beginBreakIsError(bool is_error) { break_is_error_ = break_was_error_ = is_error; }

  bool hasArrays() const { return has_arrays_; }  // a NumPy array has come up
  void noteArray() { has_arrays_ = true; }

 private:
  shapes::State now_;
  shapes::State initial_;
  std::vector<OpenContext> contexts_;
  std::map<size_t, Setting> settings_;
  bool grads_matter_ = false;
  bool break_is_error_ = false;
  bool break_was_error_ = false;
  bool has_arrays_ = false;
};

}  // namespace stator::interpret
