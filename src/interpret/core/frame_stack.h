// The frames of the trace: the driven one at the bottom, those of inlined calls above it, and how the innermost one is
// left.
#pragma once

#include "base/ref.h"
#include "breaks/continuation.h"
#include "bytecode/code_info.h"
#include "graph/graph.h"
#include "interpret/core/flow.h"
#include "shapes/infer.h"
#include "sources/source.h"

#include <memory>
#include <utility>
#include <vector>

namespace stator::interpret {

using breaks::Continuation;

// A call of one of torch's own layers of a specialised module, under way: what its trace is replaced by is one node.
struct FoldedCall {
  Ref<> module;
  std::vector<Ref<>> values;
  size_t positional = 0;
  Ref<> keywords;         // names, or null
  size_t first_node = 0;  // of the graph, at the call
  uint64_t instruction = 0;
  uint64_t effects = 0;  // Effects::count() then
  shapes::State state;
  bool by_name = false;  // module.forward(...), not module(...)
};

struct SymbolicFrame {
  bytecode::CodeInfo* code = nullptr;
  Ref<> function;  // the function object (trace value); null for the driven frame
  Ref<> keep_code;
  PyObject* globals = nullptr;  // borrowed: the function keeps it
  PyObject* builtins = nullptr;
  const sources::Source* globals_source = nullptr;
  std::vector<Ref<>> slots;
  std::vector<Ref<>> stack;
  // Slots (and stack) of the driven frame that have not been looked at yet: read from outside on first use.
  std::vector<bool> untouched;
  size_t lazy_stack = 0;  // so many entries from the bottom still hold `unread` markers
  int index = 0;          // instruction
  PyObject* kw_names = nullptr;
  Ref<> contents;  // of a class body: the dict that its names go to
  Continuation then = Continuation::kPush;
  Ref<> instance;
  const graph::Location* call_site = nullptr;
  const graph::ModuleScope* scope = nullptr;
  uint64_t entered_at = 0;  // instruction count of the call
  std::unique_ptr<FoldedCall> fold;
  bool folding = false;  // this frame's call, or one around it, is to become one node
  bool nested = false;   // entered from C++ code: cannot become a real frame
  bool generator = false;
  // a descriptor's method: an AttributeError that leaves it makes the caller ask __getattr__
  bool getattr_follows = false;
  PyObject* generator_object = nullptr;

  const bytecode::Instr& instr() const { return code->instrs()[static_cast<size_t>(index)]; }
  PyObject* top(size_t n = 0) const { return stack[stack.size() - 1 - n].get(); }
  void push(Ref<> value) { stack.push_back(std::move(value)); }
  void drop(size_t n = 1) { stack.resize(stack.size() - n); }
  Ref<> pop() {
    Ref<> value = std::move(stack.back());
    stack.pop_back();
    return value;
  }
};

// The instruction of the frame that makes the call under way, or the present one.
int callIndex(const SymbolicFrame& frame);

// Stands on the stack of the driven frame for a value that has not been looked at.
PyObject* unreadMarker();

class FrameStack {
 public:
  using Frames = std::vector<std::unique_ptr<SymbolicFrame>>;

  bool empty() const { return frames_.empty(); }
  size_t size() const { return frames_.size(); }
  SymbolicFrame& innermost() const { return *frames_.back(); }
  SymbolicFrame& driven() const { return *frames_.front(); }
  SymbolicFrame& at(size_t i) const { return *frames_[i]; }
  const Frames& all() const { return frames_; }
  void enter(std::unique_ptr<SymbolicFrame> frame) { frames_.push_back(std::move(frame)); }
  std::unique_ptr<SymbolicFrame> leave() {
    std::unique_ptr<SymbolicFrame> frame = std::move(frames_.back());
    frames_.pop_back();
    return frame;
  }
  void leaveTo(size_t depth) { frames_.resize(depth); }
  // The driven frame, once it has returned.
  const SymbolicFrame& finished() const { return *finished_; }
  void finish(std::unique_ptr<SymbolicFrame> driven) { finished_ = std::move(driven); }
  void clear() {
    frames_.clear();
    finished_.reset();
  }

  // What the innermost frame returned, or yielded.
  PyObject* returned() const { return returned_.get(); }
  void setReturned(Ref<> value, bool yields = false) {
    returned_ = std::move(value);
    yielded_ = yields;
  }
  Ref<> takeReturned() { return std::move(returned_); }
  bool yielded() const { return yielded_; }
  void forgetYield() { yielded_ = false; }

  // How deep the driven frame's stack was at the entry.
  size_t stackAtEntry() const { return stack_at_entry_; }
  void setStackAtEntry(size_t depth) { stack_at_entry_ = depth; }

  // The instruction under way in the frames that can become real, by its count.
  uint64_t instruction() const { return instruction_; }
  void begin(uint64_t instruction) {
    instruction_ = instruction;
    committed_ = false;
  }
  // The instruction under way has run Python code from C++, or changed something: it cannot simply be left.
  void commit() { committed_ = true; }
  bool committed() const { return committed_; }

  // Frames that are run to their end from C++ code, while the scope lives.
  class Nested {
   public:
    explicit Nested(FrameStack& frames) : frames_(frames) { ++frames_.nested_; }
    ~Nested() { --frames_.nested_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;

   private:
    FrameStack& frames_;
  };
  bool nested() const { return nested_ > 0; }

 private:
  Frames frames_;
  std::unique_ptr<SymbolicFrame> finished_;
  Ref<> returned_;
  bool yielded_ = false;
  size_t stack_at_entry_ = 0;
  uint64_t instruction_ = 0;
  bool committed_ = false;
  int nested_ = 0;
};

}  // namespace stator::interpret
