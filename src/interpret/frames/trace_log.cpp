#include "interpret/frames/trace_log.h"

#include "base/text.h"
#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "symbolic/sym_int.h"

#include <string_view>

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
  const char* utf8 = text && PyUnicode_Check(text.get()) ? utf8OrNull(text.get()) : nullptr;
  if (utf8 == nullptr) PyErr_Clear();
  constexpr size_t kLongest = 60;
  std::string shown = utf8 != nullptr ? utf8 : "?";
  return shown.size() > kLongest ? shown.substr(0, kLongest) + "..." : shown;
}

void tell(const char* function, const Ref<>& arguments) {
  PyObject* const listener = torchObject(function);
  Ref<> done = listener != nullptr && arguments
                   ? stealRef(PyObject_Call(listener, arguments.get(), nullptr))
                   : Ref<>();
  if (!done) PyErr_Clear();
}

// What was last told, and looked at: one thread traces at a time.
struct LastTold {
  const graph::Graph* graph = nullptr;
  size_t calls = 0;
  Ref<> code;
  int offset = 0;
};

LastTold& lastTold() {
  static auto* last = new LastTold();
  return *last;
}

// The call that the instruction before this one put into the graph.
void logNodes(Tracer& tracer, const SymbolicFrame& frame) {
  LastTold& last = lastTold();
  const graph::Graph& graph = tracer.graphs.current();
  const size_t calls = graph.callCount();
  if (last.graph == &graph && calls > last.calls && last.code) {
    PyObject* target = Py_None;
    for (const graph::Node& node : graph.nodes()) {
      if (node.target) target = node.target.get();
    }
    tell("stator._trace_log.node",
         stealRef(Py_BuildValue("(OiO)", last.code.get(), last.offset, target)));
  }
  last.graph = &graph;
  last.calls = calls;
  last.code = newRef(reinterpret_cast<PyObject*>(frame.code->code()));
  last.offset = frame.instr().opcode_offset;
}

// Comprehensions are no calls for those who read the program, and since 3.12 none for CPython.
bool isComprehension(PyCodeObject* code) {
  for (const char* name : {"<listcomp>", "<setcomp>", "<dictcomp>"}) {
    if (PyUnicode_CompareWithASCIIString(code->co_name, name) == 0) return true;
  }
  return false;
}

bool isPolyfill(PyCodeObject* code) {
  const char* file = utf8OrNull(code->co_filename);
  return file != nullptr && std::string_view(file).find("/stator/polyfills/") != std::string::npos;
}

// How many calls deep the innermost frame is for the program: what we trace in the place of a function is that one
// call.
Py_ssize_t depthOf(const Tracer& tracer) {
  Py_ssize_t depth = 0;
  for (size_t i = 1; i < tracer.frames.size(); ++i) {
    const bool inside = isPolyfill(tracer.frames.at(i).code->code()) &&
                        isPolyfill(tracer.frames.at(i - 1).code->code());
    if (!inside) depth++;
  }
  return depth;
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
  if ((logs & kLogCalls) != 0) logNodes(tracer, frame);
  if ((logs & kLogCalls) != 0 && frame.index == 0 && tracer.frames.size() > 1 &&
      !isComprehension(frame.code->code())) {
    const SymbolicFrame& caller = tracer.frames.at(tracer.frames.size() - 2);
    const bytecode::Instr& call = caller.code->instrs()[static_cast<size_t>(callIndex(caller))];
    tell("stator._trace_log.inlined",
         stealRef(Py_BuildValue("(OiO)", caller.code->code(), call.opcode_offset, code)));
  }
  const int line = frame.code->line(instr.opcode_offset);
  if ((logs & kLogSource) != 0 && line > 0 && startsLine(frame)) {
    tell("stator._trace_log.line", stealRef(Py_BuildValue("(Oin)", code, line, depthOf(tracer))));
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
