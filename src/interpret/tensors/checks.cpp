#include "interpret/tensors/checks.h"

#include "bytecode/opcodes.h"
#include "interpret/core/known.h"
#include "interpret/core/symbols.h"
#include "interpret/core/tables.h"
#include "interpret/core/tracer.h"
#include "interpret/objects/known_scalars.h"
#include "interpret/tensors/tensor_call.h"

#include <optional>

namespace stator::interpret {

namespace {

// Straight to a `raise`, whatever is computed for it. `text`: the one string constant on the way, if there is no other.
bool onlyRaises(const bytecode::CodeInfo& code, int index, PyObject*& text) {
  const auto& instrs = code.instrs();
  int texts = 0;
  for (int steps = 0; steps < 200 && index >= 0 && static_cast<size_t>(index) < instrs.size();
       ++steps) {
    const bytecode::Instr& instr = instrs[static_cast<size_t>(index)];
    if (instr.opcode == RAISE_VARARGS) {
      if (texts != 1) text = nullptr;
      return instr.oparg > 0;
    }
    if (instr.opcode == BUILD_STRING) texts = 2;  // made of parts
    if (instr.opcode == LOAD_CONST) {
      PyObject* constant = PyTuple_GET_ITEM(code.code()->co_consts, instr.oparg);
      if (PyUnicode_CheckExact(constant)) {
        text = constant;
        ++texts;
      }
    }
    if (instr.opcode == RETURN_VALUE || instr.opcode == YIELD_VALUE || instr.opcode == RERAISE ||
        instr.opcode == SEND || instr.opcode == RETURN_CONST)
      return false;
    if (instr.opcode == JUMP_FORWARD) {
      index = code.indexAt(instr.target);
      continue;
    }
    if (instr.target >= 0) return false;
    ++index;
  }
  return false;
}

// Random numbers from torch's own generator of the CPU.
bool canBeDrawnAgain(const graph::Node& node) {
  if (!node.random || node.meta == nullptr || node.meta->device != shapes::DeviceType::CPU)
    return false;
  static auto* const generator = reinterpret_cast<PyTypeObject*>(torchObject("torch.Generator"));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(node.args.get()); ++i) {
    if (Py_TYPE(PyTuple_GET_ITEM(node.args.get(), i)) == generator) return false;
  }
  PyObject *key = nullptr, *value = nullptr;
  for (Py_ssize_t at = 0; node.kwargs && PyDict_Next(node.kwargs.get(), &at, &key, &value);) {
    if (Py_TYPE(value) == generator) return false;
  }
  return true;
}

}  // namespace

std::optional<bool> checkedTruth(Tracer& t, SymbolicFrame& frame, const bytecode::Instr& instr,
                                 bool if_true) {
  PyObject* value = frame.top();
  const shapes::TensorMeta* meta =
      graph::isStandIn(value) ? graph::asStandIn(value)->meta : nullptr;
  if (meta == nullptr || t.graphs.nested() || t.torch_function.relevant() || t.wrappers.any() ||
      meta->device != shapes::DeviceType::CPU || meta->layout != 0)
    return std::nullopt;
  for (shapes::Dim size : meta->sizes) {
    if (!size.isStatic() || size.value() != 1) return std::nullopt;
  }
  PyObject *jump_text = nullptr, *next_text = nullptr;
  const bool jump_raises = onlyRaises(*frame.code, frame.code->indexAt(instr.target), jump_text);
  const bool next_raises = onlyRaises(*frame.code, frame.index + 1, next_text);
  if (jump_raises == next_raises) return std::nullopt;
  if (knownTensor(t, value)) return std::nullopt;
  const bool wanted = jump_raises ? !if_true : if_true;
  static PyObject* const check = torchObject("torch._assert_async");
  static PyObject* const unnamed =
      PyUnicode_InternFromString("a check of the program on the data of a tensor");
  PyObject* message = jump_raises ? jump_text : next_text;
  if (message == nullptr) message = unnamed;
  Ref<> condition = newRef(value);
  if (!wanted) {
    Args one;
    one.values = {value};
    one.positional = 1;
    Out negated = tensorCall(t, graph::Op::kCallFunction, torchObject("torch.logical_not"), one);
    if (!negated.ok()) return std::nullopt;
    condition = negated.take();
  }
  graph::Node* node =
      t.graphs.current().addCall(graph::Op::kCallFunction, newRef(check),
                                 stealRef(PyTuple_Pack(2, condition.get(), message)), Ref<>());
  node->location = t.location();
  node->scope = frame.scope;
  node->mutates = node->repeatable = node->check = true;
  return wanted;
}

bool checksCanFail(Tracer& t) {
  const graph::Node* first = nullptr;
  bool effects = false;
  for (const graph::Node& node : std::as_const(t.graphs.current()).nodes()) {
    if (node.check && first == nullptr) first = &node;
    effects |= node.written ||
               (node.mutates && !node.repeatable && !node.sets_mode && !canBeDrawnAgain(node));
  }
  if (first == nullptr || !effects || forExport()) return true;
  t.ending.restartAt(first->instruction, Reason::kDataDependentBranch,
                     "a check, in a graph that has effects");
  return false;
}

}  // namespace stator::interpret
