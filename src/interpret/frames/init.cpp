#include "interpret/frames/init.h"

#include "base/ref.h"
#include "interpret/calls/rows.h"
#include "interpret/core/known.h"
#include "interpret/core/tables.h"
#include "interpret/library/rows.h"
#include "interpret/objects/rows.h"
#include "interpret/tensors/rows.h"

#include <string_view>

namespace stator::interpret {

bool initTracer() {
  static bool done = false;
  if (done) {
    registerCollectives();
    registerDistributedTensors();
    registerArrays();
    return true;
  }
  if (!initKnownTypes() || !initNames()) return false;
  registerTorch();
  registerSwitches();
  registerTorchStates();
  registerContainers();
  registerDictMethods();
  registerSetMethods();
  registerAskedOnce();
  registerBuiltins();
  registerIterators();
  registerNamespaces();
  registerNumbers();
  registerOrderings();
  registerOperatorFunctions();
  registerTorchContexts();
  registerNestedTensors();
  registerOptimizers();
  registerOptimizerStates();
  registerTensorAttributes();
  registerTensorHooks();
  registerUntypedStorages();
  registerTorchFunction();
  registerFunctionModes();
  registerItertools();
  registerSubgraphs();
  registerNodesOfPolyfills();
  registerLibrary();
  registerRandom();
  registerArrays();
  registerClasses();
  registerInstanceChecks();
  registerLogging();
  registerWarnings();
  registerWeakReferences();
  registerTypeParameters();
  registerTypes();
  registerExceptions();
  allowSymbolsInHandlers();
  registerLazyModules();
  registerProcessGroups();
  registerCollectives();
  registerDistributedTensors();
  PyErr_Clear();
  done = true;
  return true;
}

namespace {

// Whether calls of it become graph nodes, were it not for a rule of the user's.
PyObject* goesIntoGraph(PyObject*, PyObject* callable) {
  if (!initTracer()) return nullptr;
  const CallRow* row = findCall(callable);
  const char* kind = Py_TYPE(callable)->tp_name;
  bool operation =
      std::string_view(kind) == "OpOverload" || std::string_view(kind) == "OpOverloadPacket";
  return PyBool_FromLong(operation || (row != nullptr && row->kind == CallKind::kGraph));
}

}  // namespace

PyMethodDef tracer_methods[] = {
    {"goes_into_graph", goesIntoGraph, METH_O,
     "goes_into_graph(callable): whether its calls become graph nodes by themselves."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace stator::interpret
