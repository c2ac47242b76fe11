#include "runtime/kept_captures.h"

#include "base/boundary.h"
#include "base/fields.h"
#include "base/ref.h"
#include "breaks/plan_text.h"
#include "bytecode/code_info.h"
#include "bytecode/opcodes.h"
#include "graph/graph.h"
#include "guards/explain.h"
#include "runtime/driver.h"

#include <array>
#include <string_view>

namespace stator::runtime {

namespace {

PyObject* kept = nullptr;  // a list, while somebody wants them

const char* opcodeAt(PyCodeObject* code, int offset) {
  const bytecode::CodeInfo* info = bytecode::CodeInfo::of(code);
  const int index = info != nullptr ? info->indexAt(offset) : -1;
  if (index < 0) return "";
  return bytecode::opcodeRow(info->instrs()[static_cast<size_t>(index)].opcode).name;
}

// (code or None, line, opcode, how the caller goes on, what was written)
Ref<> frameRow(const breaks::FrameText& frame, bool driven) {
  PyCodeObject* code = frame.code.get();
  return orThrow(
      Py_BuildValue("(Oisss)", code != nullptr ? reinterpret_cast<PyObject*>(code) : Py_None,
                    code != nullptr ? PyCode_Addr2Line(code, frame.offset) : 0,
                    code != nullptr ? opcodeAt(code, frame.offset) : "",
                    driven ? "" : breaks::nameOf(frame.continuation), frame.written.c_str()));
}

// The functions that the graph calls (torch.cond's branches, ...): GraphModules among the arguments of its nodes.
Ref<> bodiesOf(const graph::Graph& graph) {
  Ref<> bodies = orThrow(PyList_New(0));
  for (const graph::Node& node : graph.nodes()) {
    for (Py_ssize_t i = 0; node.args && i < PyTuple_GET_SIZE(node.args.get()); ++i) {
      PyObject* argument = PyTuple_GET_ITEM(node.args.get(), i);
      if (std::string_view(Py_TYPE(argument)->tp_name) == "GraphModule" &&
          PyList_Append(bodies.get(), argument) != 0)
        throw PythonError();
    }
  }
  return bodies;
}

PyObject* keepFromPython(PyObject*, PyObject* on) {
  const int wanted = PyObject_IsTrue(on);
  if (wanted < 0) return nullptr;
  Ref<> list = stealRef(wanted != 0 ? PyList_New(0) : nullptr);
  if (wanted != 0 && !list) return nullptr;
  setField(kept, std::move(list));
  Py_RETURN_NONE;
}

PyObject* takeFromPython(PyObject*, PyObject*) {
  PyObject* taken = kept;
  PyObject* fresh = PyList_New(0);
  if (fresh == nullptr || taken == nullptr) return fresh;
  kept = fresh;
  return taken;
}

}  // namespace

bool keepsCaptures() { return kept != nullptr; }

void keepCapture(StatorFrame* frame, const graph::Graph& captured, const breaks::Plan& plan,
                 const std::string& graph, const std::string& guards) {
  breaks::PlanTerms terms{sources::Roots::of(frame), {}, guards::show};
  for (const graph::Node* node : captured.outputs())
    terms.outputs.push_back("%" + std::to_string(node->index));
  const breaks::PlanText text = breaks::describe(plan, terms);
  Ref<> frames = orThrow(PyList_New(0));
  for (const breaks::FrameText& one : text.frames) {
    Ref<> row = frameRow(one, &one == &text.frames.front());
    if (PyList_Append(frames.get(), row.get()) != 0) throw PythonError();
  }
  Ref<> bodies = bodiesOf(captured);
  PyCodeObject* code = stator_frame_code(frame);
  const int offset = stator_frame_offset(frame);
  const bytecode::CodeInfo* info = bytecode::CodeInfo::of(code);
  const bool at_head = info != nullptr && offset <= info->firstLegal();
  Ref<> row = orThrow(Py_BuildValue(
      "{s:O,s:i,s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:O,s:O}", "code", code, "line",
      at_head ? 0 : PyCode_Addr2Line(code, offset), "opcode", at_head ? "" : opcodeAt(code, offset),
      "graph", graph.c_str(), "guards", guards.c_str(), "makes", text.makes.c_str(), "changes",
      text.changes.c_str(), "exit", plan.text().c_str(), "returned", text.returned.c_str(),
      "frames", frames.get(), "bodies", bodies.get()));
  if (PyList_Append(kept, row.get()) != 0) throw PythonError();
}

PyMethodDef kept_methods[] = {
    {"keep_captures", keepFromPython, METH_O, "Whether captures are kept as text from now on."},
    {"take_captures", takeFromPython, METH_NOARGS,
     "The captures since this was last asked, in order, each a dict of texts; see keep_captures."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace stator::runtime
