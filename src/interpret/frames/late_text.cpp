#include "interpret/frames/late_text.h"

#include "interpret/calls/calls.h"
#include "interpret/calls/switches.h"
#include "interpret/core/known.h"
#include "interpret/frames/handlers.h"
#include "interpret/frames/pending_text.h"
#include "known/own_objects.h"
#include "python/types.h"

#include <string_view>

namespace stator::interpret {

bool runsLate(PyObject* callable) {
  const CallRow* rule =
      callable != nullptr && callable != unreadMarker() ? findUserRule(callable) : nullptr;
  if (rule == nullptr || rule->polyfill == nullptr || !PyFunction_Check(rule->polyfill))
    return false;
  PyObject* name = reinterpret_cast<PyFunctionObject*>(rule->polyfill)->func_qualname;
  return PyUnicode_CompareWithASCIIString(name, "later.<locals>.reordered") == 0;
}

namespace {

// Of straight code, whose reach into the stack is what it pops.
bool isStraight(const bytecode::Instr& instr) {
  using namespace bytecode;
  constexpr int other = kJumps | kLeaves | kHandled | kLooksAtTop | kLooksAtOparg | kLooksAround;
  return (opcodeRow(instr.opcode).effects & other) == 0;
}

// The stack from FORMAT_VALUE on: where the text is in it.
struct Ahead {
  size_t height;
  size_t text;

  // False: the text is used here for something else than a longer one.
  bool pass(const bytecode::Instr& instr) {
    if (!isStraight(instr)) return false;
    const auto used = static_cast<size_t>(bytecode::stackPops(instr.opcode, instr.oparg, false));
    if (height < used) return false;
    const size_t left = height - used;
    if (text >= left) {
      const bool formats = instr.opcode == FORMAT_VALUE && (instr.oparg & 4) == 0;
      if (instr.opcode != BUILD_STRING && !formats) return false;
      text = left;
    }
    height = left + static_cast<size_t>(bytecode::stackPushes(instr.opcode, instr.oparg, false));
    return true;
  }
};

}  // namespace

PyObject* calledWithText(const SymbolicFrame& frame, size_t operands) {
  const size_t below = frame.stack.size() - operands;
  Ahead ahead{below + 1, below};
  const auto& instrs = frame.code->instrs();
  for (auto at = static_cast<size_t>(frame.index) + 1; at < instrs.size(); ++at) {
    const bytecode::Instr& instr = instrs[at];
    if (instr.opcode != CALL || ahead.height < static_cast<size_t>(instr.oparg) + 2 ||
        ahead.text < ahead.height - static_cast<size_t>(instr.oparg)) {
      if (!ahead.pass(instr)) return nullptr;
      continue;
    }
    // the method, or NULL before a function
    const size_t first = ahead.height - static_cast<size_t>(instr.oparg) - 2;
    if (first + 1 >= below) return nullptr;
    PyObject* method = frame.stack[first].get();
    return method != nullptr ? method : frame.stack[first + 1].get();
  }
  return nullptr;
}

Out lateText(Tracer& tracer, PyObject* value, int conversion, PyObject* spec) {
  Ref<> number = stealRef(PyLong_FromLong(conversion));
  Ref<> format = spec != nullptr ? newRef(spec) : stealRef(PyUnicode_FromString(""));
  return callNested(tracer, torchObject("stator.polyfills.switches.text_later"),
                    {value, number.get(), format.get()});
}

Ref<> textForLater(Tracer& tracer, const SymbolicFrame& frame, bool has_spec) {
  PyObject* called = has_spec ? nullptr : calledWithText(frame, 1);
  // C code that gets it reads it
  if (has_spec || (called != nullptr && PyCFunction_Check(called))) return Ref<>();
  return pendingText(tracer);
}

Out textOfTensor(Tracer& tracer, const SymbolicFrame& frame, int conversion, PyObject* spec) {
  const size_t operands = spec != nullptr ? 2 : 1;
  if (runsLate(calledWithText(frame, operands)))
    return lateText(tracer, frame.top(operands - 1), conversion, spec);
  Ref<> text = textForLater(tracer, frame, spec != nullptr);
  if (!text) return tracer.breakWith(Reason::kDataDependentRead, "formats a tensor");
  return text;
}

bool isLateText(PyObject* value) {
  return stator_is_user_class(Py_TYPE(value)) &&
         known::isOwnObject(reinterpret_cast<PyObject*>(Py_TYPE(value)),
                            "stator.polyfills.switches.LateText");
}

Out joinLateTexts(Tracer& tracer, const std::vector<PyObject*>& parts) {
  Args args;
  args.values = parts;
  args.positional = parts.size();
  return callNested(tracer, torchObject("stator.polyfills.switches.join_later"), args);
}

}  // namespace stator::interpret
