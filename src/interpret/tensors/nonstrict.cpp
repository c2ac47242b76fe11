// What functions under nonstrict_trace need of the tracer (stator/polyfills/nonstrict.py): objects of the program's
// own, as they are, in a node.
#include "interpret/tensors/nonstrict.h"

#include "base/parts.h"
#include "base/stack_room.h"
#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/core/tables.h"
#include "interpret/core/tracer.h"
#include "interpret/objects/contents.h"
#include "interpret/objects/instance_attributes.h"
#include "interpret/tensors/rows.h"
#include "python/types.h"

namespace stator::interpret {

namespace {

// An object from outside in which nothing was written: the very one at every call.
bool pin(Tracer& t, PyObject* object) {
  values::Info* info = t.values.find(object);
  if (info == nullptr || info->origin != values::Origin::kOutside || info->dirty || info->overlay ||
      info->stand_in || info->source == nullptr)
    return false;
  const bool weak = PyType_SUPPORTS_WEAKREFS(Py_TYPE(object));
  t.world.guard(
      Guard{weak ? GuardKind::kIsWeak : GuardKind::kIs, info->source, nullptr, newRef(object)});
  return true;
}

}  // namespace

bool isPlainPart(Tracer& t, PyObject* object, int depth) {
  if (isNativeSafe(t, object) || pin(t, object)) return true;
  if (graph::isStandIn(object) || depth > 6) return false;
  auto plain = [&](PyObject* part) { return isPlainPart(t, part, depth + 1); };
  if (PyTuple_CheckExact(object) || PyList_CheckExact(object)) return everyItem(object, plain);
  values::Info* info = t.values.find(object);
  if (info == nullptr || info->origin != values::Origin::kMade ||
      !stator_is_user_class(Py_TYPE(object)))
    return false;
  // An instance of a class of Python's.
  static PyObject* const constant = torchObject("torch.utils._pytree.ConstantNode");
  if (reinterpret_cast<PyObject*>(Py_TYPE(object)) == constant) {
    Ref<> value = stealRef(PyObject_GetAttrString(object, "value"));
    if (!value) PyErr_Clear();
    return value && plain(value.get());
  }
  Ref<> dict = Py_TYPE(object)->tp_itemsize == 0 && hasInstanceDict(object)
                   ? stealRef(PyObject_GenericGetDict(object, nullptr))
                   : Ref<>();
  PyErr_Clear();
  return dict && everyPart(dict.get(), plain);
}

namespace {

// The structure of arguments: made in the trace, of constants and classes, and of objects that are registered as
// constants.
bool isPlainSpec(Tracer& t, PyObject* spec) {
  needStack();
  static PyObject* const context_name = PyUnicode_InternFromString("_context");
  static PyObject* const children_name = PyUnicode_InternFromString("_children");
  static PyObject* const types[] = {torchObject("torch.utils._pytree.TreeSpec"),
                                    torchObject("torch.utils._pytree.LeafSpec")};
  auto* type = reinterpret_cast<PyObject*>(Py_TYPE(spec));
  if (type == types[1]) return true;
  if (type != types[0]) return false;
  Ref<> context_ref = stealRef(PyObject_GetAttr(spec, context_name));
  Ref<> children_ref = stealRef(PyObject_GetAttr(spec, children_name));
  PyErr_Clear();
  PyObject *context = context_ref.get(), *children = children_ref.get();
  if (context == nullptr || children == nullptr || !PyList_CheckExact(children)) return false;
  if (!isPlainPart(t, context)) return false;
  return everyItem(children, [&](PyObject* child) { return isPlainSpec(t, child); });
}

Out site(Tracer& t, const Args& args) {
  if (args.values.size() != 3 || !PyList_CheckExact(args.values[2]))
    return t.breakWith(Reason::kRaises, "site");
  PyObject* function = args.values[0];
  if (t.values.find(function) != nullptr && t.isMade(function))
    return t.breakWith(Reason::kUnsupportedObject,
                       "nonstrict_trace of a function that is made in the captured part");
  if (!isPlainSpec(t, args.values[1]))
    return t.breakWith(Reason::kUnsupportedObject,
                       "nonstrict_trace: an argument's structure holds what the trace has made");
  Ref<> owners = stealRef(PyList_New(0));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(args.values[2]); ++i) {
    PyObject* owner = PyList_GET_ITEM(args.values[2], i);
    if (owner != Py_None) {
      PyObject* module = PyTuple_GET_ITEM(owner, 0);
      if (!pin(t, module))
        return t.breakWith(Reason::kUnsupportedObject,
                           "nonstrict_trace: an argument is a module that the trace has changed");
      // Parts of it are read by the function itself.
      specialise(t, module);
    }
    PyList_Append(owners.get(), owner);
  }
  Ref<> made = stealRef(PyObject_CallFunctionObjArgs(
      torchObject("stator._nonstrict.Site"), function, args.values[1], owners.get(), nullptr));
  if (!made) return t.raiseCurrentError();
  return fromOutside(t, made.get(), t.world.sources().pinned(made.get()));
}

// (function, shapes of args and kwargs, number of leaves)
Out allowedSite(Tracer& t, const Args& args) {
  if (args.values.size() != 3) return t.breakWith(Reason::kRaises, "allowed_site");
  if (!isPlainPart(t, args.values[1]))
    return t.breakWith(Reason::kUnsupportedObject,
                       "allow_in_graph: an argument holds an object that capture cannot look into");
  Ref<> made = stealRef(PyObject_CallFunctionObjArgs(torchObject("stator._nonstrict.AllowedSite"),
                                                     args.values[0], args.values[1], args.values[2],
                                                     nullptr));
  if (!made) return t.raiseCurrentError();
  return fromOutside(t, made.get(), t.world.sources().pinned(made.get()));
}

Out outSpec(Tracer& t, const Args& args) {
  static PyObject* const name = PyUnicode_InternFromString("out_spec");
  Ref<> spec = stealRef(PyObject_GetAttr(args.values[0], name));
  if (!spec) return t.raiseCurrentError();
  return fromOutside(t, spec.get(), t.world.sources().pinned(spec.get()));
}

}  // namespace

void registerNonstrict() {
  registerHandler("stator.polyfills.nonstrict.site", site);
  registerHandler("stator.polyfills.nonstrict.allowed_site", allowedSite);
  registerHandler("stator.polyfills.nonstrict.out_spec", outSpec);
}

}  // namespace stator::interpret
