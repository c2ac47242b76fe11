// Calls of nn.Module objects: straight to forward where nothing is hooked, module scopes for the graph, lazy modules.
#include "interpret/calls/modules.h"

#include "base/check.h"
#include "interpret/calls/calls.h"
#include "interpret/calls/folded_modules.h"
#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/core/tables.h"
#include "interpret/core/tracer.h"
#include "interpret/objects/attributes.h"
#include "python/objects.h"

#include <unordered_set>

namespace stator::interpret {

namespace {

// torch.fx.GraphModule puts a __call__ into each class it makes, which only adds the generated line to errors of torch's own.
bool isGraphModuleCall(Tracer& t, PyTypeObject* type, PyObject* call) {
  if (call == nullptr || !PyFunction_Check(call)) return false;
  auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(call));
  if (PyUnicode_CompareWithASCIIString(code->co_qualname,
                                       "GraphModule.recompile.<locals>.call_wrapped") != 0)
    return false;
  static PyObject* wrapped_name = PyUnicode_InternFromString("_wrapped_call");
  PyObject* wrapped = _PyType_Lookup(type, wrapped_name);
  if (wrapped == nullptr) return false;
  t.world.guards().addTypeLookup(t.world.sources().pinned(reinterpret_cast<PyObject*>(type)), type,
                                 wrapped_name, wrapped);
  Ref<> of_class = stealRef(PyObject_GetAttrString(wrapped, "cls_call"));
  if (!of_class) PyErr_Clear();
  return of_class.get() == Py_None;
}

}  // namespace

bool noGlobalHooks(Tracer& tracer) {
  static const std::vector<PyObject*> dicts = [] {
    std::vector<PyObject*> found;
    for (const char* name : {"_global_backward_pre_hooks", "_global_backward_hooks",
                             "_global_forward_hooks", "_global_forward_pre_hooks"}) {
      if (PyObject* dict = torchObject((std::string("torch.nn.modules.module.") + name).c_str()))
        found.push_back(dict);
    }
    return found;
  }();
  for (PyObject* dict : dicts) {
    if (PyDict_Size(dict) != 0) return false;
    values::Info* info = tracer.values.find(dict);
    if (info != nullptr && (info->overlay || info->dirty)) return false;
  }
  if (tracer.modules.firstGlobalHooks()) {
    for (PyObject* dict : dicts)
      tracer.world.guard(Guard{GuardKind::kDictEmpty, tracer.world.sources().pinned(dict)});
  }
  return true;
}

// `module(...)`: straight to forward when no hook is registered anywhere, which is guarded; otherwise nn.Module's own code is traced.
Out callModule(Tracer& tracer, PyObject* module, const Args& args, Then then) {
  PyTypeObject* type = Py_TYPE(module);
  STATOR_VALUE(call_raw, typeLookup(tracer, type, names().dunder_call));
  static PyObject* script_module = torchObject("torch.jit.ScriptModule");
  if (script_module != nullptr && PyType_Check(script_module) &&
      PyObject_TypeCheck(module, reinterpret_cast<PyTypeObject*>(script_module))) {
    return tracer.breakWith(Reason::kCallsOutside, "a torch.jit.ScriptModule");
  }
  if (call_raw.get() != names().nn_module_call && isGraphModuleCall(tracer, type, call_raw.get())) {
    STATOR_VALUE(own_call, typeLookup(tracer, moduleType(), names().dunder_call));
    call_raw = own_call;
  }
  if (call_raw.get() != names().nn_module_call) {
    STATOR_VALUE(bound, special(tracer, module, "__call__"));
    if (!bound || !PyMethod_Check(bound.get()))
      return tracer.breakWith(Reason::kCallsOutside, type->tp_name);
    tracer.world.keep(bound);
    return call(tracer, bound.get(), args, then);
  }
  bool plain_call = true;
  static PyObject* const hook_names[] = {PyUnicode_InternFromString("_backward_hooks"),
                                         PyUnicode_InternFromString("_backward_pre_hooks"),
                                         PyUnicode_InternFromString("_forward_hooks"),
                                         PyUnicode_InternFromString("_forward_pre_hooks")};
  static PyObject* compiled_name = PyUnicode_InternFromString("_compiled_call_impl");
  values::Info* info = tracer.values.find(module);
  bool outside = info != nullptr && info->origin == values::Origin::kOutside;
  for (PyObject* name : hook_names) {
    PyObject* dict = rawInstanceAttr(module, name);
    if (dict == nullptr || !PyDict_Check(dict) ||
        (outside && info->overlay && PyDict_Contains(info->overlay.get(), name) == 1)) {
      plain_call = false;
      break;
    }
    if (PyDict_Size(dict) != 0 || tracer.values.find(dict) != nullptr) {
      plain_call = false;
      break;
    }
    if (outside)
      tracer.world.guard(
          Guard{GuardKind::kDictEmpty, tracer.world.child(SourceKind::kAttr, info->source, name)});
  }
  if (plain_call) {
    STATOR_VALUE(own, instanceAttr(tracer, module, compiled_name));
    PyObject* on_class = _PyType_Lookup(type, compiled_name);
    plain_call = (!own || own.get() == Py_None) && (on_class == nullptr || on_class == Py_None);
  }
  if (plain_call) plain_call = noGlobalHooks(tracer);
  const graph::ModuleScope* scope = moduleScope(tracer, module);
  if (tracer.options.specialize_modules) specialise(tracer, module);
  Out result = Flow::kOk;
  if (plain_call) {
    STATOR_VALUE(forward, getAttr(tracer, module, names().forward));
    tracer.world.keep(forward);
    result = call(tracer, forward.get(), args, then);
  } else {
    STATOR_VALUE(function, classAttrValue(tracer, type, names().dunder_call, call_raw.get()));
    result = call(tracer, function.get(), args.withFirst(module), then);
  }
  if (result.flow() == Flow::kEntered) {
    tracer.frames.innermost().scope = scope;
    if (plain_call && tracer.options.specialize_modules)
      startFold(tracer, module, args, tracer.frames.innermost());
  }
  return result;
}

namespace {

// Whether the code is that of a forward of the class or of its bases.
bool isForwardOf(PyTypeObject* type, PyCodeObject* code) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i));
    PyObject* found = PyDict_GetItemWithError(base->tp_dict, names().forward);
    if (found != nullptr && PyFunction_Check(found) &&
        PyFunction_GET_CODE(found) == reinterpret_cast<PyObject*>(code))
      return true;
  }
  return false;
}

}  // namespace

bool isFsdpManaged(PyObject* module) {
  static PyObject* mark = PyUnicode_InternFromString("_is_fsdp_managed_module");
  return rawInstanceAttr(module, mark) == Py_True;
}

// FSDP changes what is inside of the modules it manages with each call, and sees to it that this does not matter.
void noteFsdpModules(Tracer& tracer, Captured& captured) {
  for (values::Info* info : tracer.values.all()) {
    if (info->origin == values::Origin::kOutside && info->source != nullptr &&
        isModule(info->object.get()) && isFsdpManaged(info->object.get())) {
      captured.managed.emplace_back(info->source, info->object);
    }
  }
  if (captured.managed.empty()) return;
  const FsdpInside inside(captured.managed);
  for (graph::Node* input : tracer.graphs.current().inputs()) {
    if (inside(input->source)) input->specialised = false;
  }
  if (!tracer.options.skip_fsdp_guards) captured.managed.clear();
}

FsdpInside::FsdpInside(const ManagedModules& managed) {
  for (const auto& [source, module] : managed) managed_.insert(source);
}

bool FsdpInside::operator()(const Source* source) const {
  for (source = source != nullptr ? source->base : nullptr; source != nullptr;
       source = source->base) {
    if (managed_.count(source) != 0) return true;
  }
  return false;
}

namespace {

// Below one of a module's hook dicts: which hooks run is not FSDP's alone to say.
bool isHook(const Source* source) {
  for (; source != nullptr; source = source->base) {
    if (!source->key || !PyUnicode_CheckExact(source->key.get())) continue;
    for (const char* dict :
         {"_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"}) {
      if (PyUnicode_CompareWithASCIIString(source->key.get(), dict) == 0) return true;
    }
  }
  return false;
}

}  // namespace

std::unique_ptr<guards::GuardSet> guardsOfSameModules(const guards::GuardSet& guards,
                                                      const ManagedModules& managed) {
  const FsdpInside inside(managed);
  auto kept = std::make_unique<guards::GuardSet>();
  for (const Guard& guard : guards.all()) {
    const bool stays = guard.kind == GuardKind::kTensor ||
                       (!inside(guard.source) && !inside(guard.other)) || isHook(guard.source);
    if (stays) kept->add(guard);
  }
  for (const auto& [source, module] : managed)
    kept->add(Guard{GuardKind::kIsWeak, source, nullptr, module});
  kept->relations = guards.relations;
  return kept;
}

void setRootScope(Tracer& tracer) {
  PyCodeObject* code = tracer.frames.driven().code->code();
  PyObject* slot_names = stator_code_slot_names(code);
  // The part of nn.Module._call_impl that sees to hooks has the module in a cell.
  bool hooks =
      PyUnicode_CompareWithASCIIString(code->co_qualname, "Module._call_impl.<locals>.inner") == 0;
  static PyObject* self_name = PyUnicode_InternFromString("self");
  Py_ssize_t slot = 0;
  if (hooks) {
    while (slot < PyTuple_GET_SIZE(slot_names) && PyTuple_GET_ITEM(slot_names, slot) != self_name)
      ++slot;
  } else if (code->co_argcount == 0) {
    return;
  }
  if (slot >= PyTuple_GET_SIZE(slot_names)) return;
  PyObject* module = tracer.world.roots().slots[slot];
  if (module != nullptr && PyCell_Check(module)) module = PyCell_GET(module);
  if (module == nullptr || !isModule(module) || (!hooks && !isForwardOf(Py_TYPE(module), code)))
    return;
  graph::ModuleScope scope;
  scope.path = std::string("L['") + PyUnicode_AsUTF8(PyTuple_GET_ITEM(slot_names, slot)) + "']";
  scope.type = newRef(reinterpret_cast<PyObject*>(Py_TYPE(module)));
  scope.call = tracer.modules.next(module);
  tracer.graphs.current().scopes.push_back(std::move(scope));
  tracer.frames.driven().scope = &tracer.graphs.current().scopes.back();
  if (tracer.options.specialize_modules && !hooks && tracer.world.roots().slots[slot] == module) {
    tracer.world.guard(Guard{GuardKind::kIsWeak, tracer.world.root(SourceKind::kLocal, slot),
                             nullptr, newRef(module)});
  }
}

const graph::ModuleScope* moduleScope(Tracer& tracer, PyObject* module) {
  graph::ModuleScope scope;
  scope.outer = tracer.frames.innermost().scope;
  if (const Source* source = tracer.sourceOf(module))
    scope.path = sources::printModulePath(*source, tracer.frames.driven().code->code());
  scope.type = newRef(reinterpret_cast<PyObject*>(Py_TYPE(module)));
  scope.call = tracer.modules.next(module);
  tracer.graphs.current().scopes.push_back(std::move(scope));
  return &tracer.graphs.current().scopes.back();
}

}  // namespace stator::interpret
