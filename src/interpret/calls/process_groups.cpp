// torch.distributed's questions about the process: whether there is a process group, and this process's rank and the number of ranks in the
// default one. The answers are constants, guarded by the group's identity; a call about another group runs outside of the graph.
#include "interpret/calls/tables.h"
#include "interpret/torch_names.h"
#include "interpret/tracer.h"

namespace stator::interpret {

namespace {

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
      t.sources->child(sources::SourceKind::kAttr, t.sources->pinned(world), name);
  t.guards->add(guards::Guard{guards::GuardKind::kIs, source, nullptr, group});
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
  t.guards->add(guards::Guard{guards::GuardKind::kIs, source, nullptr, newRef(group)});
  return t.fromNative(stealRef(PyObject_GetAttrString(group, "group_name")));
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
}

}  // namespace stator::interpret
