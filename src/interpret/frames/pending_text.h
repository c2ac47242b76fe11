// Which instructions may have a text that is not made among their operands (core/pending_texts.h).
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

// The text of a tensor; null: it has to be made here.
Ref<> pendingText(Tracer& tracer);
// The text is looked at: the trace starts over.
Flow readText(Tracer& tracer, PyObject* text);

// Around an instruction, in traces that have such texts: what it does to those among its operands.
class TextOperands {
 public:
  TextOperands(const Tracer& tracer, const bytecode::Instr& instr);
  // One that the instruction looks at; null: there is none.
  PyObject* read() const;
  // Behind it: one that a call got, and that is in no variable of the frame it entered; null: there is none.
  PyObject* taken(const Tracer& tracer) const;

 private:
  const SymbolicFrame* frame_;
  size_t frames_;
  size_t reach_;  // how much of the stack a call takes; 0: it is none
  size_t handed_ = 0;
  Ref<> first_;
};

}  // namespace stator::interpret
