#include "interpret/frames/pending_text.h"

#include "interpret/frames/handlers.h"

namespace stator::interpret {

namespace {

// Moves its operand without a look at it, or looks at nothing but that it is a string.
bool leavesTextsAlone(int opcode) {
  switch (opcode) {
    case POP_TOP:
    case SWAP:
    case COPY:
    case STORE_FAST:
    case STORE_FAST_LOAD_FAST:
    case STORE_FAST_STORE_FAST:
    case STORE_DEREF:
    case RETURN_VALUE:
    case BUILD_STRING:
    case IS_OP:
    case POP_JUMP_FORWARD_IF_NONE:
    case POP_JUMP_FORWARD_IF_NOT_NONE:
    case POP_JUMP_BACKWARD_IF_NONE:
    case POP_JUMP_BACKWARD_IF_NOT_NONE:
      return true;
    default:
      return false;
  }
}

// How many entries of the stack a call takes; 0: it is none.
size_t callReach(const bytecode::Instr& instr) {
  switch (instr.opcode) {
    case PRECALL:
    case CALL:
      return static_cast<size_t>(instr.oparg) + 2;
    case CALL_KW:
      return static_cast<size_t>(instr.oparg) + 3;
    default:
      return 0;
  }
}

size_t countTexts(const std::vector<Ref<>>& values, size_t reach) {
  size_t count = 0;
  for (size_t i = values.size() - std::min(reach, values.size()); i < values.size(); ++i)
    count += isPendingText(values[i].get()) ? 1 : 0;
  return count;
}

}  // namespace

Ref<> pendingText(Tracer& tracer) { return tracer.texts.make(tracer.budget.instructions()); }

Flow readText(Tracer& tracer, PyObject* text) {
  tracer.texts.noteRead(text);
  tracer.ending.startAnew();
  return tracer.breakWith(Reason::kDataDependentRead, "formats a tensor");
}

TextOperands::TextOperands(const Tracer& tracer, const bytecode::Instr& instr)
    : frame_(&tracer.frames.innermost()), frames_(tracer.frames.size()), reach_(callReach(instr)) {
  if (leavesTextsAlone(instr.opcode)) return;
  const auto& stack = frame_->stack;
  const size_t taken =
      reach_ != 0 ? reach_
                  : static_cast<size_t>(bytecode::stackPops(instr.opcode, instr.oparg, false));
  handed_ = countTexts(stack, taken);
  if (handed_ == 0) return;
  for (size_t i = stack.size() - std::min(taken, stack.size()); !first_; ++i) {
    if (isPendingText(stack[i].get())) first_ = newRef(stack[i].get());
  }
}

PyObject* TextOperands::read() const { return reach_ == 0 ? first_.get() : nullptr; }

PyObject* TextOperands::taken(const Tracer& tracer) const {
  if (handed_ == 0) return nullptr;
  if (tracer.frames.size() > frames_) {
    const auto& slots = tracer.frames.innermost().slots;
    return countTexts(slots, slots.size()) >= handed_ ? nullptr : first_.get();
  }
  // a first part of the call, which has left the stack as it was
  return countTexts(frame_->stack, reach_) >= handed_ ? nullptr : first_.get();
}

}  // namespace stator::interpret
