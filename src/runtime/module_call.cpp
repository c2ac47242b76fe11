#include "runtime/module_call.h"

#include "base/hot.h"
#include "bytecode/code_info.h"
#include "bytecode/opcodes.h"
#include "known/known_types.h"
#include "known/module_hooks.h"
#include "known/names.h"
#include "python/objects.h"
#include "tensor/tensor_guard.h"

#include <algorithm>
#include <array>

namespace stator::runtime {

namespace {

struct Name {
  PyObject* text;
  Py_hash_t hash;
  explicit Name(const char* name)
      : text(PyUnicode_InternFromString(name)), hash(PyObject_Hash(text)) {}
};

const Name& forwardName() {
  static const Name name("forward");
  return name;
}

using Names = std::array<Name, 4>;
Names named(const std::array<const char*, 4>& texts) {
  return {Name(texts[0]), Name(texts[1]), Name(texts[2]), Name(texts[3])};
}
const Names& ownHooks() {
  static const Names names = named(known::kOwnHooks);
  return names;
}
const Names& globalHooks() {
  static const Names names = named(known::kGlobalHooks);
  return names;
}

// The function as this version of torch has it. It serves if what it asks before it calls forward is what is asked
// below.
struct Shape {
  PyCodeObject* code = nullptr;
  int call_offset = -1;
  int forward_slot = -1;

  explicit Shape(PyCodeObject* of) {
    constexpr int kTakesAll = CO_VARARGS | CO_VARKEYWORDS;
    if (of->co_argcount != 1 || of->co_kwonlyargcount != 0 ||
        (of->co_flags & kTakesAll) != kTakesAll)
      return;
    std::vector<const char*> asked = {"torch", "_C", "_get_tracing_state", "_slow_forward",
                                      "forward"};
    asked.insert(asked.end(), known::kOwnHooks.begin(), known::kOwnHooks.end());
    asked.insert(asked.end(), known::kGlobalHooks.begin(), known::kGlobalHooks.end());
    if (PyTuple_GET_SIZE(of->co_names) < static_cast<Py_ssize_t>(asked.size())) return;
    for (size_t i = 0; i < asked.size(); ++i) {
      PyObject* name = PyTuple_GET_ITEM(of->co_names, static_cast<Py_ssize_t>(i));
      if (PyUnicode_CompareWithASCIIString(name, asked[i]) != 0) return;
    }
    bytecode::CodeInfo* info = bytecode::CodeInfo::of(of);
    if (info == nullptr) {
      PyErr_Clear();
      return;
    }
    for (const bytecode::Instr& instr : info->instrs()) {
      if (instr.opcode != CALL_FUNCTION_EX) continue;
      call_offset = instr.opcode_offset;
      break;
    }
    PyObject* slots = stator_code_slot_names(of);
    for (Py_ssize_t i = 0; slots != nullptr && i < PyTuple_GET_SIZE(slots); ++i) {
      if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(slots, i), "forward_call") == 0)
        forward_slot = static_cast<int>(i);
    }
    if (call_offset >= 0 && forward_slot >= 0) code = of;
  }
};

bool isEmptyDict(PyObject* value) {
  return (PyDict_CheckExact(value) || PyODict_CheckExact(value)) && PyDict_GET_SIZE(value) == 0;
}

// Of a class that reads attributes as nn.Module does and has none of these names itself: a function of the class, null
// otherwise.
PyObject* plainForward(PyTypeObject* type) {
  struct Seen {
    PyTypeObject* type = nullptr;
    uint32_t version = 0;
    PyObject* forward = nullptr;
  };
  static std::array<Seen, 16> seen;  // a version is of one type, and of one state of it
  Seen& place = seen[(reinterpret_cast<uintptr_t>(type) >> 6) % seen.size()];
  if (place.type == type && place.version != 0 && place.version == stator_type_version(type))
    return place.forward;
  static const Name getattribute("__getattribute__");
  PyObject* forward = _PyType_Lookup(type, forwardName().text);
  const bool plain = PyType_IsSubtype(type, known::moduleType()) &&
                     _PyType_Lookup(type, getattribute.text) ==
                         _PyType_Lookup(&PyBaseObject_Type, getattribute.text) &&
                     forward != nullptr && PyFunction_Check(forward) &&
                     std::all_of(ownHooks().begin(), ownHooks().end(), [&](const Name& name) {
                       return _PyType_Lookup(type, name.text) == nullptr;
                     });
  place = {type, stator_type_version(type), plain ? forward : nullptr};
  return place.forward;
}

using HookDicts = std::array<PyObject*, 8>;
bool hasNoHooks(const StatorView& view, PyObject* globals, HookDicts& found) {
  size_t next = 0;
  for (const Name& name : ownHooks()) {
    const Py_ssize_t index = stator_view_find(&view, name.text, name.hash);
    PyObject* value = index >= 0 ? stator_view_value(&view, index) : nullptr;
    if (value == nullptr || !isEmptyDict(value)) return false;
    found[next++] = value;
  }
  for (const Name& name : globalHooks()) {
    PyObject* value = nullptr;
    if (stator_dict_get(globals, name.text, name.hash, &value) != STATOR_FOUND ||
        !isEmptyDict(value))
      return false;
    found[next++] = value;
  }
  return true;
}

}  // namespace

STATOR_HOT PyObject* PlainModule::forwardOf(PyObject* module, PyObject* globals) {
  if (tensor::jitTraces()) return nullptr;
  PyTypeObject* type = Py_TYPE(module);
  StatorView view;
  if (!stator_view_object(&view, module) || view.keys == nullptr || view.dict == nullptr)
    return nullptr;
  if (type == type_ && type_version_ == stator_type_version(type) &&
      own_version_ == stator_dict_version(reinterpret_cast<PyObject*>(view.dict)) &&
      global_version_ == stator_dict_version(globals)) [[likely]] {
    if (forward_ == nullptr) return nullptr;
    const bool empty = std::all_of(hooks_.begin(), hooks_.end(),
                                   [](PyObject* dict) { return PyDict_GET_SIZE(dict) == 0; });
    return empty ? forward_ : nullptr;
  }
  forward_ = plainForward(type);
  type_ = type;
  type_version_ = stator_type_version(type);
  own_version_ = stator_dict_version(reinterpret_cast<PyObject*>(view.dict));
  global_version_ = stator_dict_version(globals);
  // it cannot be told whether they change
  if (type_version_ == 0 || !stator_dict_versioned(view.dict)) type_ = nullptr;
  if (stator_view_find(&view, forwardName().text, forwardName().hash) != -1) forward_ = nullptr;
  if (forward_ != nullptr && !hasNoHooks(view, globals, hooks_)) {
    // There are some now; when there are none any more no dict's version tells.
    type_ = nullptr;
    return nullptr;
  }
  return forward_;
}

ModuleCall plainModuleCall(StatorFrame* frame) {
  ModuleCall call;
  PyCodeObject* code = stator_frame_code(frame);
  if (reinterpret_cast<PyObject*>(code) != known::names().nn_module_call_impl) return call;
  static const Shape shape(code);
  if (shape.code != code || tensor::jitTraces()) return call;
  PyObject* module = stator_frame_slots(frame)[0];
  PyObject* of_class = plainForward(Py_TYPE(module));
  StatorView view;
  HookDicts dicts;
  if (of_class == nullptr || !stator_view_object(&view, module) || view.keys == nullptr ||
      !hasNoHooks(view, stator_frame_globals(frame), dicts))
    return call;
  const Py_ssize_t index = stator_view_find(&view, forwardName().text, forwardName().hash);
  PyObject* own = index >= 0 ? stator_view_value(&view, index) : nullptr;
  call.forward = own != nullptr ? newRef(own) : stealRef(PyMethod_New(of_class, module));
  if (!call.forward) PyErr_Clear();
  call.call_offset = shape.call_offset;
  call.forward_slot = shape.forward_slot;
  return call;
}

}  // namespace stator::runtime
