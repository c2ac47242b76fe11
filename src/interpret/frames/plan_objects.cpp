// Instances, exceptions, functions and what is bound to them, as steps of a plan.
#include "base/check.h"
#include "interpret/core/known.h"
#include "interpret/frames/plan_builder.h"
#include "interpret/library/type_parameters.h"
#include "interpret/objects/class_attributes.h"
#include "interpret/objects/exceptions.h"
#include "interpret/objects/instance_attributes.h"
#include "interpret/tensors/arrays.h"
#include "interpret/tensors/random_draws.h"
#include "known/own_objects.h"
#include "python/objects.h"
#include "python/types.h"
#include "sources/short_lived.h"

namespace stator::interpret {

using breaks::PlanOp;
using breaks::Register;

void PlanBuilder::fillAttributes(Register target, PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  PyObject* mro = stator_type_mro(type);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(mro); ++i) {
    auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(mro, i));
    if (!stator_is_user_class(base)) continue;
    PyObject *name = nullptr, *entry = nullptr;
    Py_ssize_t position = 0;
    while (PyDict_Next(stator_type_entries(base), &position, &name, &entry)) {
      if (Py_TYPE(entry) != &PyMemberDescr_Type) continue;
      Ref<> held =
          stealRef(Py_TYPE(entry)->tp_descr_get(entry, object, reinterpret_cast<PyObject*>(type)));
      if (!held) {
        PyErr_Clear();
        continue;
      }
      fill(PlanOp::kAttributeSet, {target, value(held.get())}, newRef(name));
    }
  }
  Ref<> dict = stealRef(PyObject_GenericGetDict(object, nullptr));
  if (!dict) {
    PyErr_Clear();
    return;
  }
  // `self.__dict__ = self`, or a dict that the program has by itself too.
  const values::Info* known = t_.values.find(dict.get());
  if (dict.get() == object || (known != nullptr && known->attributes_of != object)) {
    fill(PlanOp::kAttributeSet, {target, value(dict.get())}, newRef(names().dunder_dict));
    return;
  }
  PyObject *name = nullptr, *item = nullptr;
  Py_ssize_t position = 0;
  while (PyDict_Next(dict.get(), &position, &name, &item)) {
    if (!PyUnicode_Check(name)) {
      fail(object);  // a key of its __dict__ that is no attribute's name
      return;
    }
    fill(PlanOp::kEntrySet, {target, value(item)}, newRef(name));
  }
}

Register PlanBuilder::exception(PyObject* object) {
  values::Info* info = t_.values.find(object);
  auto* raw = reinterpret_cast<PyBaseExceptionObject*>(object);
  if (info == nullptr || info->was_raised || !isPlainException(object)) {
    // What it holds may fail too, and was there before: the trace starts over once and not for each.
    if (raw->args != nullptr) sequence(raw->args);
    return fail(object);
  }
  Register result = add(PlanOp::kException, object,
                        newRef(reinterpret_cast<PyObject*>(Py_TYPE(object))), sequence(raw->args));
  fillAttributes(result, object);
  auto attribute = [&](const char* name, PyObject* held) {
    fill(PlanOp::kAttributeSet, {result, value(held)}, stealRef(PyUnicode_InternFromString(name)));
  };
  if (raw->cause != nullptr) attribute("__cause__", raw->cause);
  if (raw->context != nullptr) attribute("__context__", raw->context);
  if (raw->suppress_context) attribute("__suppress_context__", Py_True);
  return result;
}

void PlanBuilder::setRandomState(Register target, PyObject* generator, bool is_effect) {
  static PyObject* const set_state = torchObject("_random.Random.setstate");
  static PyObject* const gauss_next = PyUnicode_InternFromString("gauss_next");
  Ref<> state = randomState(generator);
  Ref<> gauss = state ? stealRef(PyObject_GetAttr(generator, gauss_next)) : Ref<>();
  if (!gauss) throw PythonError();
  std::vector<Register> operands = {target, constant(state.get())};
  std::vector<Register> attribute = {target, constant(gauss.get())};
  t_.world.keep(state);
  t_.world.keep(gauss);
  if (is_effect) {
    effect(PlanOp::kEffectCall, newRef(set_state), std::move(operands));
    effect(PlanOp::kAttributeSet, newRef(gauss_next), std::move(attribute));
  } else {
    add(PlanOp::kCall, nullptr, newRef(set_state), std::move(operands));
    fill(PlanOp::kAttributeSet, std::move(attribute), newRef(gauss_next));
  }
}

// A plan does not keep classes of a function's body alive: it reads them where the guards do.
Register PlanBuilder::newOf(PyObject* object) {
  auto* type = reinterpret_cast<PyObject*>(Py_TYPE(object));
  if (sources::isShortLived(type) && t_.sourceOf(type) != nullptr)
    return add(PlanOp::kNew, object, Ref<>(), {value(type)});
  return add(PlanOp::kNew, object, newRef(type));
}

Register PlanBuilder::getter(PyObject* object) {
  Ref<> reduced = stealRef(PyObject_CallMethod(object, "__reduce__", nullptr));
  if (!reduced) PyErr_Clear();
  if (!reduced ||
      PyTuple_GET_ITEM(reduced.get(), 0) != reinterpret_cast<PyObject*>(Py_TYPE(object)))
    return fail(object);
  t_.world.keep(reduced);
  return add(PlanOp::kCall, object, newRef(reinterpret_cast<PyObject*>(Py_TYPE(object))),
             sequence(PyTuple_GET_ITEM(reduced.get(), 1)));
}

Register PlanBuilder::method(PyObject* object) {
  PyObject* function = PyMethod_GET_FUNCTION(object);
  if (isTraceArray(PyMethod_GET_SELF(object)) && PyFunction_Check(function)) {
    // The array's own method of that name.
    PyObject* name = reinterpret_cast<PyFunctionObject*>(function)->func_name;
    return add(PlanOp::kCall, object, newRef(builtinFunction("getattr")),
               {value(PyMethod_GET_SELF(object)), constant(name)});
  }
  if (Py_TYPE(function) == &PyMethodDescr_Type || Py_TYPE(function) == &PyWrapperDescr_Type) {
    PyObject* self = PyMethod_GET_SELF(object);
    return add(PlanOp::kBoundBuiltin, object, newRef(function), {dictBehind(self)});
  }
  return add(PlanOp::kMethod, object, Ref<>(), {value(function), value(PyMethod_GET_SELF(object))});
}

// functools.partial
Register PlanBuilder::partial(PyObject* object) {
  Ref<> function = stealRef(PyObject_GetAttrString(object, "func"));
  Ref<> args = stealRef(PyObject_GetAttrString(object, "args"));
  Ref<> keywords = stealRef(PyObject_GetAttrString(object, "keywords"));
  std::vector<Register> operands = {value(function.get())};
  for (Register item : sequence(args.get())) operands.push_back(item);
  Register result =
      add(PlanOp::kCall, object, newRef(reinterpret_cast<PyObject*>(Py_TYPE(object))), operands);
  if (PyDict_Size(keywords.get()) == 0) return result;
  std::vector<Register> state = {operands[0],
                                 add(PlanOp::kTuple, nullptr, Ref<>(), sequence(args.get())),
                                 value(keywords.get()), constant(Py_None)};
  add(PlanOp::kCall, nullptr, newRef(torchObject("functools.partial.__setstate__")),
      {result, add(PlanOp::kTuple, nullptr, Ref<>(), state)});
  return result;
}

std::optional<Register> PlanBuilder::callable(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  if (PyFunction_Check(object)) {
    // A function that the trace did not make and that has no source is reached through a class or module that is
    // guarded.
    values::Info* info = t_.values.find(object);
    return info != nullptr ? function(object) : constant(object);
  }
  if (PyWeakref_CheckRefExact(object))
    return add(PlanOp::kCall, object, newRef(reinterpret_cast<PyObject*>(type)),
               {value(PyWeakref_GET_OBJECT(object))});
  if (PyMethod_Check(object)) return method(object);
  if (type == &PySuper_Type) {
    Ref<> this_class = superPart(object, "__thisclass__");
    Ref<> self = superPart(object, "__self__");
    return add(PlanOp::kCall, object, newRef(reinterpret_cast<PyObject*>(&PySuper_Type)),
               {value(this_class.get()), value(self.get())});
  }
  if (type == partialType()) return partial(object);
  return std::nullopt;
}

Register PlanBuilder::array(PyObject* object) {
  PyObject* tensor = arrayTensor(object);
  const sources::Source* source = graph::asStandIn(tensor)->node->source;
  if (source != nullptr && source->kind == sources::SourceKind::kArrayTensor &&
      graph::asStandIn(tensor)->node->op == graph::Op::kInput) {
    Register result = add(PlanOp::kSource, object);
    plan_.steps.back().source = source->base;
    return result;
  }
  const bool scalar = isArrayScalar(object), frozen = isArrayFrozen(object);
  Register result = add(PlanOp::kCall, scalar || frozen ? nullptr : object,
                        newRef(torchObject("torch._C.TensorBase.numpy")), {value(tensor)});
  if (frozen && !scalar)
    return add(PlanOp::kCall, object, newRef(torchObject("stator._numpy.freeze")), {result});
  if (!scalar) return result;
  Ref<> nothing = stealRef(PyTuple_New(0));
  return add(PlanOp::kCall, object, newRef(operatorFunction("getitem")),
             {result, constant(nothing.get())});
}

Register PlanBuilder::attentionParameters(PyObject* object) {
  std::vector<Register> operands;
  for (const char* name :
       {"query", "key", "value", "attn_mask", "dropout", "is_causal", "enable_gqa"}) {
    Ref<> text = stealRef(PyUnicode_InternFromString(name));
    PyObject* held = rawInstanceAttr(object, text.get());
    if (held == nullptr) return fail(object);
    operands.push_back(value(held));
  }
  return add(PlanOp::kCall, object, newRef(torchObject("torch._C._SDPAParams")), operands);
}

// Types of C's and torch's own, each of which is made in its own way. Without a value: it is none of these.
std::optional<Register> PlanBuilder::nativeInstance(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  auto* type_object = reinterpret_cast<PyObject*>(type);
  if (isTraceArray(object)) return array(object);
  if (isRandomGenerator(object)) {
    Register result = add(PlanOp::kCall, object, newRef(torchObject("_random.Random.__new__")),
                          {constant(type_object)});
    setRandomState(result, object, false);
    fillAttributes(result, object);
    return result;
  }
  if (isStructSequence(object)) {
    Register items = add(PlanOp::kTuple, nullptr, Ref<>(), sequence(object));
    return add(PlanOp::kCall, object, newRef(type_object), {items});
  }
  if (type->tp_name == std::string_view("types.GenericAlias") ||
      type->tp_name == std::string_view("types.UnionType"))
    return constant(object);
  if (type == mappingProxyType()) {
    PyObject* mapping = reinterpret_cast<PyObject**>(object)[2];
    return add(PlanOp::kCall, object, newRef(type_object), {value(mapping)});
  }
  if (type == &PyODict_Type || type == defaultDictType()) return dictLike(object, type);
  if (isGraphModule(object)) return fail(object);  // a function that the graph calls
  if (PyObject* recipe = typeParameterRecipe(t_, object)) {
    std::vector<Register> operands = sequence(recipe);
    operands.erase(operands.begin());
    Register result =
        add(PlanOp::kCall, object, newRef(PyTuple_GET_ITEM(recipe, 0)), std::move(operands));
    fillAttributes(result, object);
    return result;
  }
  if (type->tp_name == std::string_view("SdpaParams") &&
      known::isOwnObject(type_object, "stator.polyfills.contexts.SdpaParams"))
    return attentionParameters(object);
  if (type == itemGetterType() || type == attrGetterType() || type == methodCallerType())
    return getter(object);
  return std::nullopt;
}

Register PlanBuilder::instance(PyObject* object) {
  if (std::optional<Register> made = nativeInstance(object)) return *made;
  PyTypeObject* type = Py_TYPE(object);
  PyTypeObject* base = stator_native_base(type);
  if (t_.values.find(object) == nullptr && !(base == &PyTuple_Type && isNamedTuple(object))) {
    // Neither made by the program nor read from outside: a native result of a kind that nobody taught us to rebuild.
    return fail(object);
  }
  if (type == &PyByteArray_Type) {
    Ref<> bytes = stealRef(PyBytes_FromObject(object));
    return add(PlanOp::kCall, object, newRef(reinterpret_cast<PyObject*>(type)),
               {constant(bytes.get())});
  }
  if (Ref<> scalar = stealRef(stator_exact_scalar(object))) {
    Register result = add(PlanOp::kScalarOf, object, newRef(reinterpret_cast<PyObject*>(type)),
                          {constant(scalar.get())});
    fillAttributes(result, object);
    return result;
  }
  if (base == &PyTuple_Type) {
    Register result =
        add(PlanOp::kTupleOf, object, newRef(reinterpret_cast<PyObject*>(type)), sequence(object));
    fillAttributes(result, object);
    return result;
  }
  if (base == &PyDict_Type || base == &PyODict_Type || base == defaultDictType())
    return dictLike(object, type);
  bool plain_base = base == &PyBaseObject_Type || base == &PyList_Type || base == &PySet_Type ||
                    reinterpret_cast<PyObject*>(base) == torchObject("types.SimpleNamespace");
  if (!plain_base) return fail(object);
  Register result = newOf(object);
  if (base == &PyList_Type) fillList(result, object);
  if (base == &PySet_Type) fillSet(result, object);
  fillAttributes(result, object);
  return result;
}

}  // namespace stator::interpret
