// What polyfills put into the graph themselves, beside the functions that graphs call (subgraphs.cpp): nodes for any
// callable, and the end of a capture.

#include "base/check.h"
#include "base/stack_room.h"
#include "base/text.h"
#include "interpret/core/known.h"
#include "interpret/core/tables.h"
#include "interpret/core/tracer.h"
#include "interpret/tensors/rows.h"
#include "interpret/tensors/tensor_call.h"
#include "interpret/tensors/torch_calls.h"
#include "symbolic/sym_int.h"

namespace stator::interpret {

namespace {

Out refuse(Tracer& t, const Args& args) {
  return t.breakWith(
      Reason::kUnsupportedTensorOp,
      args.values.size() == 1 && PyUnicode_Check(args.values[0]) ? utf8(args.values[0]) : "");
}

// is_open(value): a bool that the graph computes, or that nobody has asked for yet.
Out isOpenBool(Tracer&, const Args& args) {
  STATOR_CHECK(args.values.size() == 1, "is_open() of subgraphs");
  const bool open = symbolic::isSymScalar(args.values[0]) &&
                    symbolic::asSymScalar(args.values[0])->of == &PyBool_Type;
  return newRef(open ? Py_True : Py_False);
}

// Such a node is no call of torch's that a __torch_function__ would see.
class NodeOfOurOwn {
 public:
  explicit NodeOfOurOwn(Tracer& tracer) : tracer_(tracer), before_(tracer.torch_function.state()) {
    tracer.torch_function.setState(tensor::TorchFunction::kOff);
  }
  ~NodeOfOurOwn() { tracer_.torch_function.setState(before_); }
  NodeOfOurOwn(const NodeOfOurOwn&) = delete;
  NodeOfOurOwn& operator=(const NodeOfOurOwn&) = delete;

 private:
  Tracer& tracer_;
  tensor::TorchFunction before_;
};

// An object of the program's that is the same one at every call: found by its source, or a partial of such objects.
bool isFixed(Tracer& t, PyObject* value) {
  needStack();
  if (values::isConstantDeep(value) || PyCFunction_Check(value) || PyType_Check(value)) return true;
  if (const sources::Source* source = t.sourceOf(value)) {
    t.world.guard(guards::Guard{guards::GuardKind::kIs, source, nullptr, newRef(value)});
    return true;
  }
  if (Py_TYPE(value) != partialType()) return false;
  Ref<> function = stealRef(PyObject_GetAttrString(value, "func"));
  Ref<> args = stealRef(PyObject_GetAttrString(value, "args"));
  Ref<> keywords = stealRef(PyObject_GetAttrString(value, "keywords"));
  if (!function || !args || !keywords || PyDict_Size(keywords.get()) != 0) {
    PyErr_Clear();
    return false;
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args.get()); ++i) {
    if (!isFixed(t, PyTuple_GET_ITEM(args.get(), i))) return false;
  }
  return isFixed(t, function.get());
}

// set_meta(module, key, value): an entry of a captured function's `meta`.
Out setMeta(Tracer& t, const Args& args) {
  STATOR_CHECK(args.values.size() == 3, "set_meta() of subgraphs");
  if (!isFixed(t, args.values[2]))
    return t.breakWith(Reason::kUnsupportedObject, "a context_fn that the trace has made");
  Ref<> meta = stealRef(PyObject_GetAttrString(args.values[0], "meta"));
  if (!meta || PyDict_SetItem(meta.get(), args.values[1], args.values[2]) != 0)
    return t.raiseCurrentError();
  return newRef(Py_None);
}

// call(function, *args, **kwargs): a node of the graph, whatever the function is.
Out call(Tracer& t, const Args& args) {
  NodeOfOurOwn scope(t);
  return tensorCall(t, graph::Op::kCallFunction, args.values[0], args.withoutFirst(), false);
}

// call_like(function, facts, *args): a node whose results have the facts of `facts(*args)`.
Out callLike(Tracer& t, const Args& args) {
  NodeOfOurOwn scope(t);
  return tensorCall(t, graph::Op::kCallFunction, args.values[0], args.withoutFirst().withoutFirst(),
                    false, args.values[1]);
}

}  // namespace

void registerNodesOfPolyfills() {
  registerHandler("stator.polyfills.subgraphs.refuse", refuse);
  registerHandler("stator.polyfills.subgraphs.is_open", isOpenBool);
  allowSymbols("stator.polyfills.subgraphs.is_open");
  registerHandler("stator.polyfills.subgraphs.call", call);
  registerHandler("stator.polyfills.subgraphs.set_meta", setMeta);
  registerHandler("stator.polyfills.subgraphs.call_like", callLike);
  allowSymbols("stator.polyfills.subgraphs.call");
  allowSymbols("stator.polyfills.subgraphs.call_like");
}

}  // namespace stator::interpret
