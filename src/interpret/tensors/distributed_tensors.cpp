// torch.distributed.tensor: DTensor's own functions are nodes of the graph, with meshes and placements as constants in
// them; what a tensor or a mesh says of itself is a constant too, since both are guarded. Operations on DTensors need
// nothing here (interpret/tensors/wrapper_tensors.cpp).
#include "base/stack_room.h"
#include "interpret/core/apparent_types.h"
#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/core/rebuilt_values.h"
#include "interpret/core/tables.h"
#include "interpret/core/tracer.h"
#include "interpret/objects/contents.h"
#include "interpret/tensors/rows.h"
#include "interpret/tensors/wrapper_tensors.h"

#include <string>

namespace stator::interpret {

namespace {

PyObject* meshType() {
  static PyObject* const type = torchObject("torch.distributed.device_mesh.DeviceMesh");
  return type;
}

// A mesh has to be the very one. Held weakly: its process groups have threads that must end.
bool guardMesh(Tracer& t, PyObject* mesh) {
  if (meshType() == nullptr || reinterpret_cast<PyObject*>(Py_TYPE(mesh)) != meshType())
    return false;
  const Source* source = t.sourceOf(mesh);
  if (source == nullptr) return false;
  if (source->kind != SourceKind::kPinned)
    t.world.guard(Guard{GuardKind::kIsWeak, source, nullptr, newRef(mesh)});
  return true;
}

// As it is, whatever call it is for: constants, placements and meshes, in tuples and lists. Ok with null: something
// else.
Out asConstant(Tracer& t, PyObject* value) {
  needStack();
  if (graph::isStandIn(value)) return Ref<>();
  STATOR_VALUE(plain, plain(t, value));
  value = plain.get();
  if (values::isScalar(value) || values::isConstantDeep(value) || isPlacement(value) ||
      guardMesh(t, value))
    return plain;
  if (!PyTuple_CheckExact(value) && !PyList_CheckExact(value)) return Ref<>();
  STATOR_VALUE(items, rebuiltValues(value, [&](PyObject* item) { return asConstant(t, item); }));
  return items && PyList_Check(items.get()) ? stealRef(PyList_AsTuple(items.get())) : items;
}

// function(tensor, ...): a node whose function knows all arguments but the tensor.
Out functionOfTensor(Tracer& t, const Args& args, const char* path) {
  PyObject* function = torchObject(path);
  auto refused = [&](const char* why) {
    return t.breakWith(Reason::kCallsOutside, std::string(path) + ": " + why);
  };
  if (args.positional == 0 || !graph::isStandIn(args.values[0])) return refused("no tensor");
  Ref<> rest = stealRef(PyList_New(0)), named = stealRef(PyDict_New());
  for (size_t i = 1; i < args.values.size(); ++i) {
    STATOR_VALUE(constant, asConstant(t, args.values[i]));
    if (!constant) return refused("an argument that is no constant");
    if (i < args.positional)
      PyList_Append(rest.get(), constant.get());
    else
      PyDict_SetItem(named.get(), args.name(i - args.positional), constant.get());
  }
  Ref<> bound = stealRef(PyObject_CallFunctionObjArgs(torchObject("stator._wrappers.bound"),
                                                      function, rest.get(), named.get(), nullptr));
  if (!bound) return t.raiseCurrentError();
  Args tensor;
  tensor.values = {args.values[0]};
  tensor.positional = 1;
  t.world.keep(bound);
  return callForWrapper(t, graph::Op::kCallFunction, bound.get(), tensor);
}

Out toLocal(Tracer& t, const Args& args) {
  return functionOfTensor(t, args, "torch.distributed.tensor.DTensor.to_local");
}
Out redistribute(Tracer& t, const Args& args) {
  return functionOfTensor(t, args, "torch.distributed.tensor.DTensor.redistribute");
}
Out fullTensor(Tracer& t, const Args& args) {
  return functionOfTensor(t, args, "torch.distributed.tensor.DTensor.full_tensor");
}
Out fromLocal(Tracer& t, const Args& args) {
  return functionOfTensor(t, args, "torch.distributed.tensor.DTensor.from_local");
}

PyObject* fakeOf(const Args& args) {
  return args.values.size() == 1 && graph::isStandIn(args.values[0]) ? wrapperOf(args.values[0])
                                                                     : nullptr;
}

Out placements(Tracer& t, const Args& args) {
  PyObject* fake = fakeOf(args);
  if (fake == nullptr) return t.breakWith(Reason::kCallsOutside, "DTensor.placements");
  return t.fromNative(stealRef(PyObject_GetAttrString(fake, "placements")));
}

Out deviceMesh(Tracer& t, const Args& args) {
  PyObject* fake = fakeOf(args);
  if (fake == nullptr) return t.breakWith(Reason::kCallsOutside, "DTensor.device_mesh");
  Ref<> mesh = stealRef(PyObject_GetAttrString(fake, "device_mesh"));
  if (!mesh) return t.raiseCurrentError();
  const graph::Node* node = graph::asStandIn(args.values[0])->node;
  if (node->source == nullptr)
    return fromOutside(t, mesh.get(), t.world.sources().pinned(mesh.get()));
  static PyObject* const name = PyUnicode_InternFromString("device_mesh");
  Ref<> real = stealRef(PyObject_GetAttr(node->example.get(), name));
  if (!real) return t.raiseCurrentError();
  return fromOutside(t, real.get(), t.world.child(SourceKind::kGenericAttr, node->source, name));
}

// What a mesh says of itself and of this process's place in it.
Out askMesh(Tracer& t, const Args& args, const char* name, bool property) {
  auto refused = [&] {
    return t.breakWith(Reason::kCallsOutside, std::string("DeviceMesh.") + name);
  };
  if (args.values.empty() || !guardMesh(t, args.values[0])) return refused();
  Ref<> asked = stealRef(PyObject_GetAttrString(args.values[0], name));
  if (!asked) return t.raiseCurrentError();
  if (property) return asked;
  std::vector<Ref<>> keep;
  std::vector<PyObject*> constants;
  for (size_t i = 1; i < args.values.size(); ++i) {
    STATOR_VALUE(constant, asConstant(t, args.values[i]));
    if (!constant) return refused();
    constants.push_back(constant.get());
    keep.push_back(std::move(constant));
  }
  Ref<> said =
      stealRef(PyObject_Vectorcall(asked.get(), constants.data(), args.positional - 1, args.names));
  if (said && !values::isConstantDeep(said.get())) return refused();
  return t.fromNative(std::move(said));
}

template <size_t n>
struct Name {
  char text[n];
  constexpr Name(const char (&from)[n]) {
    for (size_t i = 0; i < n; ++i) text[i] = from[i];
  }
};
template <Name name, bool property>
Out ask(Tracer& t, const Args& args) {
  return askMesh(t, args, name.text, property);
}

template <Name name>
void registerMeshMethod() {
  registerHandler((std::string("torch.distributed.device_mesh.DeviceMesh.") + name.text).c_str(),
                  ask<name, false>);
}
template <Name name>
void registerMeshProperty() {
  registerHandler(
      (std::string("torch.distributed.device_mesh.DeviceMesh.") + name.text + ".fget").c_str(),
      ask<name, true>);
}

}  // namespace

void registerDistributedTensors() {
  static bool done = false;
  static PyObject* const name = PyUnicode_InternFromString("torch.distributed.tensor");
  if (done) return;
  Ref<> loaded = stealRef(PyImport_GetModule(name));
  if (!loaded) return;
  done = true;
  registerHandler("torch.distributed.tensor.DTensor.to_local", toLocal);
  registerHandler("torch.distributed.tensor.DTensor.redistribute", redistribute);
  registerHandler("torch.distributed.tensor.DTensor.full_tensor", fullTensor);
  registerRow(torchObject("torch.distributed.tensor.DTensor.from_local"),
              CallRow{CallKind::kHandler, fromLocal});
  registerHandler("torch.distributed.tensor.DTensor.placements.fget", placements);
  registerHandler("torch.distributed.tensor.DTensor.device_mesh.fget", deviceMesh);
  registerMeshMethod<"size">();
  registerMeshMethod<"get_rank">();
  registerMeshMethod<"get_local_rank">();
  registerMeshMethod<"get_coordinate">();
  registerMeshProperty<"ndim">();
  registerMeshProperty<"shape">();
  registerMeshProperty<"device_type">();
  registerMeshProperty<"mesh_dim_names">();
  PyErr_Clear();
}

}  // namespace stator::interpret
