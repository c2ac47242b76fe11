// torch.distributed's questions about the process: whether there is a process group, and this process's rank and the
// number of ranks in the default one. The answers are constants, guarded by the group's identity; a call about another
// group runs outside of the graph. Collectives that write in place are functional ones and a copy:
// stator/polyfills/collectives.py, which asks here about groups.
#include "base/imports.h"
#include "interpret/core/known.h"
#include "interpret/core/tables.h"
#include "interpret/core/tracer.h"
#include "interpret/tensors/rows.h"

namespace stator::interpret {

namespace {

// The very group, or None. Held weakly: a group that the program destroys has threads that must end.
void guardGroup(Tracer& t, const sources::Source* source, const Ref<>& group) {
  auto kind = group.get() == Py_None ? guards::GuardKind::kIs : guards::GuardKind::kIsWeak;
  t.world.guard(guards::Guard{kind, source, nullptr, group});
}

// The default group, guarded; None: there is none.
Ref<> defaultGroup(Tracer& t) {
  PyObject* world = torchObject("torch.distributed.distributed_c10d._world");
  static PyObject* const name = PyUnicode_InternFromString("_default_pg");
  Ref<> group = world != nullptr ? stealRef(PyObject_GetAttr(world, name)) : Ref<>();
  if (!group) {
    PyErr_Clear();
    return group;
  }
  const sources::Source* source =
      t.world.child(sources::SourceKind::kAttr, t.world.sources().pinned(world), name);
  guardGroup(t, source, group);
  return group;
}

Out isInitialized(Tracer& t, const Args&) {
  Ref<> group = defaultGroup(t);
  if (!group) return t.breakWith(breaks::Reason::kCallsOutside, "torch.distributed.is_initialized");
  return newRef(group.get() == Py_None ? Py_False : Py_True);
}

Out askDefaultGroup(Tracer& t, const Args& args, const char* method) {
  PyObject* asked = !args.values.empty() ? args.values[0] : Py_None;
  Ref<> group = asked == Py_None && args.values.size() <= 1 ? defaultGroup(t) : Ref<>();
  if (!group || group.get() == Py_None)
    return t.breakWith(breaks::Reason::kCallsOutside, std::string("torch.distributed: ") + method);
  return t.fromNative(stealRef(PyObject_CallMethod(group.get(), method, nullptr)));
}

Out getRank(Tracer& t, const Args& args) { return askDefaultGroup(t, args, "rank"); }
Out getWorldSize(Tracer& t, const Args& args) { return askDefaultGroup(t, args, "size"); }

// What names a group for a functional collective: the group's name, a constant, since the group has to be the very one.
Out groupName(Tracer& t, const Args& args) {
  PyObject* group = !args.values.empty() ? args.values[0] : nullptr;
  const sources::Source* source = group != nullptr ? t.sourceOf(group) : nullptr;
  static PyObject* const kind = torchObject("torch._C._distributed_c10d.ProcessGroup");
  if (group != nullptr && PyUnicode_Check(group)) return newRef(group);
  if (source == nullptr || kind == nullptr || PyObject_IsInstance(group, kind) != 1)
    return t.breakWith(breaks::Reason::kCallsOutside,
                       "a functional collective over what is no process group");
  guardGroup(t, source, newRef(group));
  return t.fromNative(stealRef(PyObject_GetAttrString(group, "group_name")));
}

Out refused(Tracer& t, const char* why) {
  return t.breakWith(breaks::Reason::kCallsOutside, std::string("torch.distributed: ") + why);
}

// collectives.group_facts(group): (name, number of ranks), both constants, since the group has to be the very one.
Out groupFacts(Tracer& t, const Args& args) {
  // What operators look like in a trace is said by a module that torch does not load by itself.
  static PyObject* const functional = importModule("torch.distributed._functional_collectives");
  static PyObject* const kind = torchObject("torch._C._distributed_c10d.ProcessGroup");
  if (functional == nullptr || kind == nullptr || args.values.size() != 1) {
    PyErr_Clear();
    return refused(t, "an in-place collective");
  }
  registerCollectives();
  Ref<> group = newRef(args.values[0]);
  if (group.get() == Py_None) {
    group = defaultGroup(t);
  } else if (const sources::Source* source = t.sourceOf(group.get()); source != nullptr) {
    guardGroup(t, source, group);
  } else {
    group.reset();
  }
  // A group that this process is not in is a number.
  if (!group || PyObject_IsInstance(group.get(), kind) != 1) {
    PyErr_Clear();
    return refused(t, "a collective over what is no process group of this process");
  }
  Ref<> name = stealRef(PyObject_GetAttrString(group.get(), "group_name"));
  Ref<> size = stealRef(PyObject_CallMethod(group.get(), "size", nullptr));
  if (!name || !size) return t.fromNative(Ref<>());
  return t.fromNative(stealRef(PyTuple_Pack(2, name.get(), size.get())));
}

// collectives.reduction(op)
Out reduction(Tracer& t, const Args& args) {
  static PyObject* const kind = torchObject("torch._C._distributed_c10d.ReduceOp.RedOpType");
  PyObject* op = args.values.size() == 1 ? args.values[0] : nullptr;
  const sources::Source* source = op != nullptr ? t.sourceOf(op) : nullptr;
  if (kind == nullptr || source == nullptr || PyObject_IsInstance(op, kind) != 1) {
    PyErr_Clear();
    return refused(t, "a reduction that has no name");
  }
  t.world.guard(guards::Guard{guards::GuardKind::kIs, source, nullptr, newRef(op)});
  Ref<> name = stealRef(PyObject_GetAttrString(op, "name"));
  Ref<> word = name ? stealRef(PyObject_CallMethod(name.get(), "lower", nullptr)) : Ref<>();
  if (word && PyUnicode_CompareWithASCIIString(word.get(), "premul_sum") == 0)
    return refused(t, "a reduction that has no name");
  return t.fromNative(word);
}

// collectives.coalescing(): what the manager has noted for its groups is a dict of the module's.
Out coalescing(Tracer& t, const Args&) {
  PyObject* held = torchObject("torch.distributed.distributed_c10d._world.pg_coalesce_state");
  if (held == nullptr || !PyDict_CheckExact(held)) {
    PyErr_Clear();
    return refused(t, "an in-place collective");
  }
  if (PyDict_GET_SIZE(held) > 0) return newRef(Py_True);
  t.world.guard(guards::Guard{guards::GuardKind::kDictEmpty, t.world.sources().pinned(held)});
  return newRef(Py_False);
}

// In a trace, a functional collective is followed by its wait, in place of a tensor that waits when it is used.
Out weAreTracing(Tracer&, const Args&) { return newRef(Py_True); }

}  // namespace

// torch does not load them by itself, and nothing here is a reason to.
void registerCollectives() {
  static bool done = false;
  static PyObject* const name =
      PyUnicode_InternFromString("torch.distributed._functional_collectives");
  if (done) return;
  Ref<> loaded = stealRef(PyImport_GetModule(name));
  if (!loaded) return;
  done = true;
  for (const char* path : {"_resolve_group", "_resolve_group_name", "_group_or_group_name"})
    registerHandler((std::string("torch.distributed._functional_collectives.") + path).c_str(),
                    groupName);
  registerHandler("torch.distributed._functional_collectives._are_we_tracing", weAreTracing);
  PyErr_Clear();
}

void registerProcessGroups() {
  registerHandler("torch.distributed.distributed_c10d.is_initialized", isInitialized);
  registerHandler("torch.distributed.distributed_c10d.get_rank", getRank);
  registerHandler("torch.distributed.distributed_c10d.get_world_size", getWorldSize);
  registerHandler("stator.polyfills.collectives.group_facts", groupFacts);
  registerHandler("stator.polyfills.collectives.reduction", reduction);
  registerHandler("stator.polyfills.collectives.coalescing", coalescing);
  // The older names warn that they are old, and call the others.
  constexpr std::pair<const char*, const char*> kInPlace[] = {
      {"all_reduce", "all_reduce"},
      {"all_gather", "all_gather"},
      {"all_gather_single", "all_gather_single"},
      {"all_gather_into_tensor", "all_gather_single"},
      {"_all_gather_base", "all_gather_single"},
      {"reduce_scatter_single", "reduce_scatter_single"},
      {"reduce_scatter_tensor", "reduce_scatter_single"},
      {"_reduce_scatter_base", "reduce_scatter_single"},
      {"all_to_all_single", "all_to_all_single"},
  };
  for (const auto& [name, polyfill] : kInPlace)
    registerWholePolyfill((std::string("torch.distributed.distributed_c10d.") + name).c_str(),
                          (std::string("collectives.") + polyfill).c_str());
}

}  // namespace stator::interpret
