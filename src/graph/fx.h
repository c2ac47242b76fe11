// From the captured graph to torch.fx, with the conventions that backends know from TorchDynamo: placeholders `l_x_`,
// `l_self_modules_linear_parameters_weight_`; call_function with operator.* or torch functions, call_method by name,
// getitem for several outputs; one output node with a tuple; `example_value`, `stack_trace`, `nn_module_stack`,
// `source_fn_stack` in node.meta, made when they are read. `forward` of the module is the C++ executor until the module
// is recompiled or its `.code` is read.
#pragma once

#include "base/python.h"
#include "base/ref.h"
#include "graph/graph.h"

#include <memory>
#include <string>
#include <vector>

namespace stator::graph {

// The module shares the graph: lazy meta entries and the executor read it. The graph has to be final (dropDead has
// run). Its sources have to live until this returns, its locations, scopes and metas are its own. `code` names the
// locals in the placeholders' names. The module's FX graph is made when it is first read, if the module needs no
// attributes for it. Null with a Python error set.
Ref<> toGraphModule(const std::shared_ptr<Graph>& graph, PyCodeObject* code);
// The same for a backend; None if it runs the graph as captured and nobody looks at it.
Ref<> moduleFor(const std::shared_ptr<Graph>& graph, PyCodeObject* code, PyObject* backend);
// The torch.fx.Graph of a record (graph/fx_record.h) whose module needs no attributes. Throws PythonError.
Ref<> makeFxGraph(PyObject* record);

// A relation between inputs that a backend relied on and that the caller has to guard.
struct BackendGuard {
  enum class Kind : uint8_t {
    kSameInput,      // inputs[0] and inputs[1] are the same object
    kStorageOverlap  // `inputs` overlap in storage, `others` overlap with nothing
  };
  Kind kind;
  std::vector<int> inputs;  // positions in graph.inputs()
  std::vector<int> others;
};

struct Compiled {
  // called with the inputs in order, returns a tuple or list in graph.outputs() order; null: a Python error is set
  Ref<> callable;
  std::vector<BackendGuard> guards;
  std::vector<std::string> conditions;  // on the graph's symbols, as symbolic/expr.h reads them
  long number = -1;                     // of __compiled_fn_<number>; -1: it runs as captured
};

// Hands the module (None: the callable is the graph's runner) and the graph's example inputs to `backend(gm,
// example_inputs)` under a TracingContext. Afterwards the examples are dropped from the graph. `backend` is a callable.
// An error of the backend is left as it is. `disk_key`: where what it makes is kept (runtime/disk_cache.h), if it can
// be; empty: nowhere.
Compiled compile(const std::shared_ptr<Graph>& graph, PyObject* graph_module, PyObject* backend,
                 const std::string& disk_key = "");
// From what stator/_fx.py's compile_graph and stator/_disk.py's load give: (callable, [(kind, [positions],
// [positions]), ...], [condition, ...], number).
Compiled readCompiled(PyObject* answer);

}  // namespace stator::graph
