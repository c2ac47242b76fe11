#include "interpret/frames/trace_log.h"

#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "symbolic/sym_int.h"

namespace stator::interpret {

namespace {

// A value of the stack, in a few words.
std::string shortText(Tracer& tracer, PyObject* value) {
  if (value == nullptr) return "NULL";
  if (value == unreadMarker()) return "...";
  if (graph::isStandIn(value)) {
    const graph::StandIn* stand_in = graph::asStandIn(value);
    std::string text = "%" + std::to_string(stand_in->node->index);
    return stand_in->meta != nullptr ? text + ": " + stand_in->meta->text() : text;
  }
  if (symbolic::isSymInt(value)) return symbolic::text(symbolic::dimOf(value).expr());
  Ref<> text;
  if (values::isScalar(value)) {
    text = stealRef(PyObject_Repr(value));
  } else if (PyFunction_Check(value) || PyType_Check(value)) {
    text = stealRef(PyObject_GetAttrString(value, "__qualname__"));
  } else {
    text = stealRef(PyUnicode_FromString(typeOf(tracer, value)->tp_name));
  }
  const char* utf8 = text && PyUnicode_Check(text.get()) ? PyUnicode_AsUTF8(text.get()) : nullptr;
  if (utf8 == nullptr) PyErr_Clear();
  constexpr size_t kLongest = 60;
  std::string shown = utf8 != nullptr ? utf8 : "?";
  return shown.size() > kLongest ? shown.substr(0, kLongest) + "..." : shown;
}

void tell(const char* function, Ref<> arguments) {
  PyObject* const listener = torchObject(function);
  Ref<> done = listener != nullptr && arguments
                   ? stealRef(PyObject_Call(listener, arguments.get(), nullptr))
                   : Ref<>();
  if (!done) PyErr_Clear();
}

bool startsLine(const SymbolicFrame& frame) {
  if (frame.index == 0) return true;
  const auto& instrs = frame.code->instrs();
  const auto at = static_cast<size_t>(frame.index);
  return frame.code->line(instrs[at].opcode_offset) !=
         frame.code->line(instrs[at - 1].opcode_offset);
}

}  // namespace

void logInstruction(Tracer& tracer, const SymbolicFrame& frame) {
  const int logs = tracer.options.logs;
  const bytecode::Instr& instr = frame.instr();
  auto* code = reinterpret_cast<PyObject*>(frame.code->code());
  if ((logs & kLogCalls) != 0 && frame.index == 0 && tracer.frames.size() > 1) {
    const SymbolicFrame& caller = tracer.frames.at(tracer.frames.size() - 2);
    const bytecode::Instr& call = caller.code->instrs()[static_cast<size_t>(callIndex(caller))];
    tell("stator._trace_log.inlined",
         stealRef(Py_BuildValue("(OiO)", caller.code->code(), call.opcode_offset, code)));
  }
  if ((logs & kLogSource) != 0 && startsLine(frame)) {
    tell("stator._trace_log.line",
         stealRef(Py_BuildValue("(Oin)", code, frame.code->line(instr.opcode_offset),
                                static_cast<Py_ssize_t>(tracer.frames.size() - 1))));
  }
  if ((logs & kLogBytecode) == 0) return;
  Ref<> stack = stealRef(PyList_New(0));
  for (const Ref<>& value : frame.stack) {
    Ref<> text = stealRef(PyUnicode_FromString(shortText(tracer, value.get()).c_str()));
    if (text) PyList_Append(stack.get(), text.get());
  }
  tell("stator._trace_log.instruction",
       stealRef(Py_BuildValue("(OiO)", code, instr.opcode_offset, stack.get())));
}

}  // namespace stator::interpret
