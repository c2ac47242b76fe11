// Exceptions of the traced program: the one that is on its way, and those that handlers are busy with.
#pragma once

#include "base/ref.h"
#include "interpret/core/flow.h"

#include <string>
#include <utility>
#include <vector>

namespace stator::interpret {

class Tracer;

class ErrorState {
 public:
  // The exception that a kRaise is about; borrowed.
  PyObject* raised() const { return raised_.get(); }
  bool raisedIs(PyObject* type) const {
    return PyErr_GivenExceptionMatches(raised_.get(), type) != 0;
  }
  void setRaised(Ref<> exception) { raised_ = std::move(exception); }
  Ref<> takeRaised() { return std::move(raised_); }
  void dropRaised() { raised_.reset(); }
  // What is on its way says that a call's arguments do not fit: which function's and which arguments, for people.
  void noteMismatch(std::string text) {
    mismatch_ = raised_;
    mismatch_text_ = std::move(text);
  }
  bool raisedMismatch() const { return mismatch_ && mismatch_.get() == raised_.get(); }
  const std::string& mismatchText() const { return mismatch_text_; }

  // What this frame's handlers are busy with; ok with null: none.
  Out handled(Tracer& tracer);
  // The same, or what the frames around a generator are busy with: what a bare `raise` raises.
  Out topmost(Tracer& tracer);
  void setHandled(Ref<> exception) { handled_ = {std::move(exception), true}; }
  bool handledTouched() const { return handled_.known; }
  // borrowed; null: none, or not touched
  PyObject* handledNow() const { return handled_.exception.get(); }

  // A generator under way has its own; those of the frames that resumed it wait.
  void enterGenerator(Ref<> handled);
  Ref<> leaveGenerator();  // what it was busy with

 private:
  // null: none, or as outside if it is not known
  struct Handled {
    Ref<> exception;
    bool known = false;
  };
  static Out readOutside(Tracer& tracer);

  Ref<> raised_;
  Ref<> mismatch_;
  std::string mismatch_text_;
  Handled handled_;
  std::vector<Handled> waiting_;  // the driven frame's at the bottom
};

}  // namespace stator::interpret
