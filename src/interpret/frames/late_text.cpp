#include "interpret/frames/late_text.h"

#include "interpret/calls/calls.h"
#include "interpret/calls/switches.h"
#include "interpret/core/known.h"
#include "interpret/frames/handlers.h"
#include "python/types.h"

#include <string_view>

namespace stator::interpret {

namespace {

// A function whose calls run behind the captured part.
bool runsLate(PyObject* callable) {
  const CallRow* rule =
      callable != nullptr && callable != unreadMarker() ? findUserRule(callable) : nullptr;
  if (rule == nullptr || rule->polyfill == nullptr || !PyFunction_Check(rule->polyfill))
    return false;
  PyObject* name = reinterpret_cast<PyFunctionObject*>(rule->polyfill)->func_qualname;
  return PyUnicode_CompareWithASCIIString(name, "later.<locals>.reordered") == 0;
}

// How many values on top of the stack an instruction of straight code takes; -1: more happens than can be told.
int taken(const bytecode::Instr& instr) {
  switch (instr.opcode) {
    case LOAD_CONST:
    case LOAD_FAST:
    case LOAD_DEREF:
    case LOAD_GLOBAL:
    case PUSH_NULL:
    case KW_NAMES:
    case PRECALL:
      return 0;
    case LOAD_ATTR:
    case LOAD_METHOD:
    case UNARY_NEGATIVE:
    case UNARY_NOT:
      return 1;
    case BINARY_OP:
    case BINARY_SUBSCR:
    case COMPARE_OP:
      return 2;
    case FORMAT_VALUE:
      return (instr.oparg & 4) != 0 ? 2 : 1;
    case BUILD_TUPLE:
    case BUILD_LIST:
    case BUILD_SLICE:
    case BUILD_STRING:
      return instr.oparg;
    case CALL:
      return instr.oparg + 2;
    default:
      return -1;
  }
}

// The stack from FORMAT_VALUE on: where the text is in it.
struct Ahead {
  size_t height;
  size_t text;

  // False: the text is used here for something else than a longer one.
  bool pass(const bytecode::Instr& instr) {
    const int used = taken(instr);
    if (used < 0 || height < static_cast<size_t>(used)) return false;
    const size_t left = height - static_cast<size_t>(used);
    if (text >= left) {
      if (instr.opcode != BUILD_STRING) return false;
      text = left;
    }
    // PRECALL and CALL share what a call does to the stack
    const int change = instr.opcode == CALL ? 1 - used
                       : instr.opcode == PRECALL
                           ? 0
                           : PyCompile_OpcodeStackEffect(instr.opcode, instr.oparg);
    height = static_cast<size_t>(static_cast<int>(height) + change);
    return true;
  }
};

}  // namespace

bool goesIntoLateCall(const SymbolicFrame& frame, size_t operands) {
  const size_t below = frame.stack.size() - operands;
  Ahead ahead{below + 1, below};
  const auto& instrs = frame.code->instrs();
  for (auto at = static_cast<size_t>(frame.index) + 1; at < instrs.size(); ++at) {
    const bytecode::Instr& instr = instrs[at];
    if (instr.opcode != CALL || ahead.height < static_cast<size_t>(instr.oparg) + 2 ||
        ahead.text < ahead.height - static_cast<size_t>(instr.oparg)) {
      if (!ahead.pass(instr)) return false;
      continue;
    }
    // the method, or NULL before a function
    const size_t first = ahead.height - static_cast<size_t>(instr.oparg) - 2;
    if (first + 1 >= below) return false;
    if (PyObject* method = frame.stack[first].get()) return runsLate(method);
    return runsLate(frame.stack[first + 1].get());
  }
  return false;
}

Out lateText(Tracer& tracer, PyObject* value, int conversion, PyObject* spec) {
  Ref<> number = stealRef(PyLong_FromLong(conversion));
  Ref<> format = spec != nullptr ? newRef(spec) : stealRef(PyUnicode_FromString(""));
  return callNested(tracer, torchObject("stator.polyfills.switches.text_later"),
                    {value, number.get(), format.get()});
}

bool isLateText(PyObject* value) {
  if (!stator_is_user_class(Py_TYPE(value))) return false;
  static PyObject* const type = torchObject("stator.polyfills.switches.LateText");
  return reinterpret_cast<PyObject*>(Py_TYPE(value)) == type;
}

Out joinLateTexts(Tracer& tracer, const std::vector<PyObject*>& parts) {
  Args args;
  args.values = parts;
  args.positional = parts.size();
  return callNested(tracer, torchObject("stator.polyfills.switches.join_later"), args);
}

}  // namespace stator::interpret
