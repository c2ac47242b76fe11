// Calls of nn.Module objects: straight to forward where nothing is hooked, module scopes for the graph, lazy modules.
#include "interpret/calls/modules.h"

#include "base/check.h"
#include "base/text.h"
#include "interpret/calls/calls.h"
#include "interpret/calls/folded_modules.h"
#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/core/tables.h"
#include "interpret/core/tracer.h"
#include "interpret/objects/attributes.h"
#include "interpret/objects/class_lookups.h"
#include "interpret/objects/instance_attributes.h"
#include "interpret/objects/special_methods.h"
#include "known/module_hooks.h"
#include "python/objects.h"
#include "python/types.h"

#include <unordered_set>

namespace stator::interpret {

namespace {

// torch.fx.GraphModule puts a __call__ into each class it makes, which only adds the generated line to errors of
// torch's own.
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
    for (const char* name : known::kGlobalHooks) {
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
  if (tracer.modules.firstGlobalHooks() && !tracer.options.skip_hook_guards) {
    for (PyObject* dict : dicts)
      tracer.world.guard(Guard{GuardKind::kDictEmpty, tracer.world.sources().pinned(dict)});
  }
  return true;
}

namespace {

// Whether torch's own `__call__` comes straight to torch's own `_call_impl`. A yes is guarded: with the class's other
// facts, and by an absence in the instance's dict.
Out reachesCallImpl(Tracer& t, PyObject* module) {
  PyTypeObject* type = Py_TYPE(module);
  STATOR_VALUE(call_impl, typeLookup(t, type, names().call_impl));
  STATOR_VALUE(read, typeLookup(t, type, names().dunder_getattribute));
  STATOR_VALUE(compiled, typeLookup(t, type, names().compiled_call_impl));
  static PyObject* plain_read = _PyType_Lookup(&PyBaseObject_Type, names().dunder_getattribute);
  if (!known::isModuleCallImpl(call_impl.get()) || read.get() != plain_read ||
      (compiled && compiled.get() != Py_None))
    return Ref<>();
  STATOR_VALUE(own, instanceAttr(t, module, names().call_impl));
  if (own) return Ref<>();
  STATOR_VALUE(own_compiled, instanceAttr(t, module, names().compiled_call_impl));
  return own_compiled && own_compiled.get() != Py_None ? Ref<>() : newRef(Py_True);
}

bool noOwnHooks(Tracer& t, PyObject* module) {
  static const std::vector<PyObject*> hook_names = [] {
    std::vector<PyObject*> made;
    for (const char* name : known::kOwnHooks) made.push_back(PyUnicode_InternFromString(name));
    return made;
  }();
  values::Info* info = t.values.find(module);
  const bool outside = info != nullptr && info->origin == values::Origin::kOutside;
  for (PyObject* name : hook_names) {
    PyObject* dict = rawInstanceAttr(module, name);
    if (dict == nullptr || !PyDict_Check(dict) ||
        (outside && info->overlay && PyDict_Contains(info->overlay.get(), name) == 1))
      return false;
    if (PyDict_Size(dict) != 0 || t.values.find(dict) != nullptr) return false;
    if (outside && !t.options.skip_hook_guards)
      t.world.guard(
          Guard{GuardKind::kDictEmpty, t.world.child(SourceKind::kAttr, info->source, name)});
  }
  return true;
}

// A class whose `__call__` is not torch's: its frame is the module's in the graph, with all that it calls.
Out callOwn(Tracer& t, PyObject* module, const Args& args, Continuation then) {
  STATOR_VALUE(bound, special(t, module, "__call__"));
  if (!bound || !PyMethod_Check(bound.get()))
    return t.breakWith(Reason::kCallsOutside, Py_TYPE(module)->tp_name);
  t.world.keep(bound);
  const graph::ModuleScope* scope = moduleScope(t, module);
  Out result = call(t, bound.get(), args, then);
  if (result.flow() == Flow::kEntered) t.frames.innermost().scope = scope;
  return result;
}

}  // namespace

// `module(...)`: straight to forward when all in between is torch's own and no hook is registered anywhere, which is
// guarded; otherwise the code in between is traced.
Out callModule(Tracer& tracer, PyObject* module, const Args& args, Continuation then) {
  PyTypeObject* type = Py_TYPE(module);
  STATOR_VALUE(call_raw, typeLookup(tracer, type, names().dunder_call));
  static PyObject* script_module = torchObject("torch.jit.ScriptModule");
  if (script_module != nullptr && PyType_Check(script_module) &&
      PyObject_TypeCheck(module, reinterpret_cast<PyTypeObject*>(script_module))) {
    return tracer.breakWith(Reason::kCallsOutside, "a torch.jit.ScriptModule");
  }
  if (!known::isModuleCall(call_raw.get()) && isGraphModuleCall(tracer, type, call_raw.get())) {
    STATOR_VALUE(own_call, typeLookup(tracer, moduleType(), names().dunder_call));
    if (known::isModuleCall(own_call.get())) call_raw = std::move(own_call);
  }
  if (!known::isModuleCall(call_raw.get())) return callOwn(tracer, module, args, then);
  bool plain_call = noOwnHooks(tracer, module);
  if (plain_call) {
    STATOR_VALUE(reaches, reachesCallImpl(tracer, module));
    plain_call = reaches && noGlobalHooks(tracer);
  }
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
    if (plain_call && tracer.options.specialize_modules) {
      SymbolicFrame& entered = tracer.frames.innermost();
      if (entered.fold && entered.fold->module.get() == module)
        entered.fold->by_name = false;
      else
        startFold(tracer, module, args, entered);
    }
  }
  return result;
}

namespace {

// Whether the code is that of a forward of the class or of its bases, or of what a call of the module runs before it.
bool isCallOf(PyTypeObject* type, PyCodeObject* code) {
  PyObject* mro = stator_type_mro(type);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(mro); ++i) {
    auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(mro, i));
    for (PyObject* name : {names().forward, names().dunder_call, names().call_impl}) {
      PyObject* found = PyDict_GetItemWithError(stator_type_entries(base), name);
      if (found != nullptr && PyFunction_Check(found) &&
          PyFunction_GET_CODE(found) == reinterpret_cast<PyObject*>(code))
        return true;
    }
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
    for (const char* dict : known::kOwnHooks) {
      if (PyUnicode_CompareWithASCIIString(source->key.get(), dict) == 0) return true;
    }
  }
  return false;
}

}  // namespace

namespace {

// Whether a module has an attribute, or not, which is none of its parameters.
bool isOwnName(const Guard& guard, const ManagedModules& managed) {
  const Source* source = guard.source;
  if ((guard.kind != GuardKind::kAbsent && guard.kind != GuardKind::kPresent) ||
      source->kind != SourceKind::kAttr || !source->key)
    return false;
  static PyObject* const parameters = PyUnicode_InternFromString("_parameters");
  for (const auto& [owner, module] : managed) {
    if (owner != source->base) continue;
    PyObject* dict = rawInstanceAttr(module.get(), parameters);
    return dict == nullptr || !PyDict_Check(dict) || PyDict_Contains(dict, source->key.get()) == 0;
  }
  return false;
}

// Of the program's own values, which FSDP leaves alone: it moves parameters about.
bool isOwnValue(const Guard& guard, const ManagedModules& managed) {
  return guard.kind == GuardKind::kEquals || guard.kind == GuardKind::kLength ||
         guard.kind == GuardKind::kType || isOwnName(guard, managed);
}

}  // namespace

std::unique_ptr<guards::GuardSet> guardsOfSameModules(const guards::GuardSet& guards,
                                                      const ManagedModules& managed) {
  const FsdpInside inside(managed);
  auto kept = std::make_unique<guards::GuardSet>();
  for (const Guard& guard : guards.all()) {
    const bool stays = guard.kind == GuardKind::kTensor || isOwnValue(guard, managed) ||
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
  if (module == nullptr || !isModule(module) || (!hooks && !isCallOf(Py_TYPE(module), code)))
    return;
  graph::ModuleScope scope;
  scope.path = std::string("L['") + utf8(PyTuple_GET_ITEM(slot_names, slot)) + "']";
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
