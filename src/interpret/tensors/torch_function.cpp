// __torch_function__: of tensor subclasses, of objects that are no tensors, and of modes. A call of torch's with such
// arguments is handed to the Python handler, which is traced like any other function. Below the handlers the graph sees
// plain tensors: an instance of a subclass is a stand-in whose apparent type is the subclass, and becomes a real one
// where it leaves the trace.
#include "interpret/tensors/torch_function.h"

#include "base/check.h"
#include "base/rebuilt.h"
#include "base/stack_room.h"
#include "interpret/core/arguments.h"
#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/core/tables.h"
#include "interpret/core/trace_iterator.h"
#include "interpret/core/tracer.h"
#include "interpret/objects/attribute_writes.h"
#include "interpret/objects/attributes.h"
#include "interpret/objects/class_lookups.h"
#include "interpret/objects/contents.h"
#include "interpret/objects/descriptors.h"
#include "interpret/objects/iteration.h"
#include "interpret/objects/native_calls.h"
#include "interpret/objects/special_methods.h"
#include "interpret/objects/subclass_checks.h"
#include "interpret/tensors/function_modes.h"
#include "interpret/tensors/parameters.h"
#include "interpret/tensors/rows.h"
#include "interpret/tensors/tensor_call.h"
#include "interpret/tensors/wrapper_tensors.h"
#include "shapes/arg.h"

#include <cctype>
#include <string_view>

namespace stator::interpret {

using tensor::TorchFunction;

namespace {

PyObject* handlerName() {
  static PyObject* const name = PyUnicode_InternFromString("__torch_function__");
  return name;
}

bool isOverloaded(Tracer& t, PyObject* value) {
  if (graph::isStandIn(value))
    return graph::asStandIn(value)->meta != nullptr && isOverloadedType(typeOf(t, value));
  if (values::isScalar(value) || PyType_Check(value) || isTraceIterator(value)) return false;
  return isOverloadedType(Py_TYPE(value));
}

// One argument for each type, a subclass before its bases.
void addOverloaded(Tracer& t, PyObject* value, std::vector<PyObject*>& out) {
  if (!isOverloaded(t, value)) return;
  PyTypeObject* type = typeOf(t, value);
  size_t at = out.size();
  for (size_t i = 0; i < out.size(); ++i) {
    if (typeOf(t, out[i]) == type) return;
    if (at == out.size() && PyType_IsSubtype(type, typeOf(t, out[i]))) at = i;
  }
  out.insert(out.begin() + static_cast<std::ptrdiff_t>(at), value);
}

Flow collectOverloaded(Tracer& t, const Args& args, std::vector<PyObject*>& out) {
  for (PyObject* value : args.values) {
    if (PyTuple_CheckExact(value) || PyList_CheckExact(value)) {
      STATOR_VALUE(items, contents(t, value));
      for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i)
        addOverloaded(t, PySequence_Fast_GET_ITEM(items.get(), i), out);
      continue;
    }
    addOverloaded(t, value, out);
  }
  return Flow::kOk;
}

// Real objects in the places of trace values, and back.
class Spelling {
 public:
  explicit Spelling(Tracer& tracer) : t_(tracer) {}

  Ref<> outward(PyObject* value) {
    if (graph::isStandIn(value)) {
      const shapes::TensorMeta* meta = graph::asStandIn(value)->meta;
      if (meta == nullptr) return Ref<>();
      Ref<> dims = stealRef(PyLong_FromSize_t(meta->sizes.size()));
      return keep(stealRef(PyObject_CallFunctionObjArgs(
                      torchObject("stator._torch_function.tensor"), dims.get(),
                      shapes::dtypeObject(meta->dtype),
                      isOverloaded(t_, value) ? Py_True : Py_False, nullptr)),
                  value);
    }
    if (values::isScalar(value) || values::isConstantDeep(value) || PyType_Check(value) ||
        isEnumMember(value))
      return newRef(value);
    auto part = [&](PyObject* item) { return outward(item); };
    if (PyTuple_CheckExact(value) || PyList_CheckExact(value)) {
      Out items = contents(t_, value);
      if (!items.ok()) return Ref<>();
      return keep(rebuilt(items.get(), part), value);
    }
    if (PySlice_Check(value)) return keep(rebuilt(value, part), value);
    if (isOverloaded(t_, value))
      return keep(
          stealRef(PyObject_CallNoArgs(torchObject("stator._torch_function.ListenerObject"))),
          value);
    return Ref<>();
  }

  Ref<> inward(PyObject* object) {
    for (auto& [real, value] : pairs_) {
      if (real.get() == object) return value;
    }
    if (isPlainContainer(object) && !PySlice_Check(object))
      return rebuilt(object, [&](PyObject* item) { return inward(item); });
    return newRef(object);
  }

 private:
  Ref<> keep(Ref<> real, PyObject* value) {
    if (real)
      pairs_.emplace_back(real, newRef(value));
    else
      PyErr_Clear();
    return real;
  }
  Tracer& t_;
  std::vector<std::pair<Ref<>, Ref<>>> pairs_;
};

// The handler of an object's class, bound as Python binds it.
Out handlerOf(Tracer& t, PyObject* value) {
  PyTypeObject* type = typeOf(t, value);
  STATOR_VALUE(found, typeLookup(t, type, handlerName()));
  STATOR_CHECK(found, "__torch_function__ has gone");
  return bindDescriptor(t, found.get(), value, type, classEntry(t, type, handlerName()));
}

Args handlerArgs(PyObject* func, PyObject* types, PyObject* args, PyObject* kwargs) {
  Args out;
  out.values = {func, types, args, kwargs};
  out.positional = 4;
  return out;
}

// torch.device as a mode: factories without a device of their own get this one.
bool isFactory(PyObject* target) {
  static PyObject* const factories = [] {
    PyObject* made = PyObject_CallNoArgs(torchObject("stator._torch_function.device_constructors"));
    if (made == nullptr) throw PythonError();
    return made;
  }();
  int found = PySet_Contains(factories, target);
  if (found < 0) PyErr_Clear();
  return found == 1;
}

}  // namespace

bool hasOverloaded(Tracer& tracer, const Args& args) {
  std::vector<PyObject*> overloaded;
  if (collectOverloaded(tracer, args, overloaded) != Flow::kOk) return false;
  return !overloaded.empty();
}

bool hasUnreadOverloaded(Tracer& tracer, const Args& args) {
  for (PyObject* value : args.values) {
    if (!PyList_CheckExact(value) && !PyTuple_CheckExact(value)) continue;
    const values::Info* info = tracer.values.find(value);
    if (info == nullptr || info->origin != values::Origin::kOutside || info->shadow) continue;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); ++i) {
      PyObject* item = PySequence_Fast_GET_ITEM(value, i);
      if (!values::isScalar(item) && !PyType_Check(item) && isOverloadedType(Py_TYPE(item)))
        return true;
    }
  }
  return false;
}

// torch asks numbers, names and sequences of a class of their own for __torch_function__.
bool answersForAll(Tracer& tracer, PyObject* value) {
  static PyObject* torch_function = PyUnicode_InternFromString("__torch_function__");
  PyTypeObject* type = Py_TYPE(value);
  if (type->tp_getattro == PyObject_GenericGetAttr || graph::isStandIn(value)) return false;
  const bool number = PyLong_Check(value) || PyFloat_Check(value) || PyComplex_Check(value);
  if (!number && !PyUnicode_Check(value) && !PyTuple_Check(value) && !PyList_Check(value))
    return false;
  return isProgrammed(tracer, type, "__getattribute__") ||
         (isProgrammed(tracer, type, "__getattr__") &&
          _PyType_Lookup(type, torch_function) == nullptr);
}

Out castTo(Tracer& tracer, PyObject* stand_in, PyTypeObject* type) {
  graph::StandIn* tensor = graph::asStandIn(stand_in);
  Ref<> alias;
  if (type == tensorType() || (tensor->node->op == graph::Op::kInput && tensor->node->example &&
                               Py_TYPE(tensor->node->example.get()) == type)) {
    // What the graph has is of that type already, and is another object.
    Args args;
    args.values = {stand_in};
    args.positional = 1;
    TorchFunction before = tracer.torch_function.state();
    tracer.torch_function.setState(TorchFunction::kOff);
    Out made = tensorCall(tracer, graph::Op::kCallFunction,
                          torchObject("torch.ops.aten.alias.default"), args);
    tracer.torch_function.setState(before);
    if (!made.ok() || type == tensorType()) return made;
    alias = made.take();
    tensor = graph::asStandIn(alias.get());
  }
  if (isOverloadedType(type)) tracer.torch_function.noteRelevant();
  if (type != tensorType()) tracer.torch_function.noteCast();
  Ref<> made = graph::makeStandIn(tensor->node, tensor->meta, reinterpret_cast<PyObject*>(type));
  tracer.values.addMade(made.get(), tracer.frames.instruction());
  return made;
}

Out dispatchTorchFunction(Tracer& tracer, graph::Op op, PyObject* target, const Args& args,
                          bool& handled) {
  handled = false;
  if (tracer.torch_function.state() == TorchFunction::kOff) return Ref<>();
  std::vector<PyObject*> overloaded;
  if (tracer.torch_function.state() == TorchFunction::kEnabled)
    STATOR_FLOW(collectOverloaded(tracer, args, overloaded));
  bool by_mode = !tracer.torch_function.modes().empty();
  if (overloaded.empty() && !by_mode) return Ref<>();
  Ref<> device = by_mode ? deviceOfMode(tracer.torch_function.modes().back().get()) : Ref<>();
  if (device) {
    Ref<> mode = tracer.torch_function.modes().back();
    tracer.torch_function.modes().pop_back();
    handled = true;
    Out out = Ref<>();
    PyObject* given = args.keyword("device");
    if (op == graph::Op::kCallFunction && isFactory(target) &&
        (given == nullptr || given == Py_None)) {
      Args placed = args;
      Ref<> all = stealRef(
          PyTuple_New(static_cast<Py_ssize_t>(args.keywordCount() + (given == nullptr ? 1 : 0))));
      static PyObject* const keyword = PyUnicode_InternFromString("device");
      for (size_t i = 0; i < args.keywordCount(); ++i) {
        PyTuple_SET_ITEM(all.get(), static_cast<Py_ssize_t>(i), Py_NewRef(args.name(i)));
        if (args.name(i) == keyword || PyUnicode_Compare(args.name(i), keyword) == 0)
          placed.values[args.positional + i] = device.get();
      }
      if (given == nullptr) {
        PyTuple_SET_ITEM(all.get(), static_cast<Py_ssize_t>(args.keywordCount()),
                         Py_NewRef(keyword));
        placed.values.push_back(device.get());
      }
      placed.names = all.get();
      out = tensorCall(tracer, op, target, placed);
    } else {
      out = tensorCall(tracer, op, target, args);
    }
    tracer.torch_function.modes().push_back(std::move(mode));
    return out;
  }
  Ref<> function = newRef(target);
  if (op == graph::Op::kCallMethod) function = Ref<>::create(_PyType_Lookup(tensorType(), target));
  if (!function) return Ref<>();
  Spelling spelling(tracer);
  Ref<> given = stealRef(PyTuple_New(static_cast<Py_ssize_t>(args.positional)));
  Ref<> named = stealRef(PyDict_New());
  for (size_t i = 0; i < args.values.size(); ++i) {
    Ref<> real = spelling.outward(args.values[i]);
    if (!real) {
      handled = true;
      return tracer.breakWith(Reason::kUnsupportedTensorOp,
                              std::string("__torch_function__ with an argument that is a ") +
                                  typeOf(tracer, args.values[i])->tp_name);
    }
    if (i < args.positional)
      PyTuple_SET_ITEM(given.get(), static_cast<Py_ssize_t>(i), real.release());
    else
      PyDict_SetItem(named.get(), args.name(i - args.positional), real.get());
  }
  Ref<> heard = stealRef(PyObject_CallFunctionObjArgs(torchObject("stator._torch_function.spell"),
                                                      function.get(), given.get(), named.get(),
                                                      by_mode ? Py_True : Py_False, nullptr));
  if (!heard) throw PythonError();
  bool asked = PyTuple_Check(heard.get());
  if (PyFunction_Check(function.get()) &&
      (!asked || PyTuple_GET_ITEM(heard.get(), 0) != function.get())) {
    // torch asks for what the function calls, not for the function.
    handled = true;
    return tracer.above.runEntered(
        tracer.above.inlineFunction(function.get(), args, Continuation::kPush));
  }
  if (!asked) return Ref<>();
  handled = true;
  PyObject* func = PyTuple_GET_ITEM(heard.get(), 0);
  Ref<> its_args = spelling.inward(PyTuple_GET_ITEM(heard.get(), 1)),
        its_kwargs = spelling.inward(PyTuple_GET_ITEM(heard.get(), 2));
  Ref<> types = stealRef(PyTuple_New(static_cast<Py_ssize_t>(overloaded.size())));
  for (size_t i = 0; i < overloaded.size(); ++i)
    PyTuple_SET_ITEM(types.get(), static_cast<Py_ssize_t>(i),
                     Py_NewRef(reinterpret_cast<PyObject*>(typeOf(tracer, overloaded[i]))));
  tracer.world.keepAll({heard, its_args, types});
  tracer.made(its_kwargs);
  if (by_mode) {
    Ref<> mode = tracer.torch_function.modes().back();
    tracer.torch_function.modes().pop_back();
    Out bound = handlerOf(tracer, mode.get());
    Out out = bound.ok() ? tracer.above.callNested(
                               bound.get(),
                               handlerArgs(func, types.get(), its_args.get(), its_kwargs.get()))
                         : std::move(bound);
    tracer.torch_function.modes().push_back(std::move(mode));
    if (!out.ok() || out.get() != Py_NotImplemented) return out;
  }
  for (PyObject* value : overloaded) {
    STATOR_VALUE(bound, handlerOf(tracer, value));
    STATOR_VALUE(
        result, tracer.above.callNested(
                    bound.get(), handlerArgs(func, types.get(), its_args.get(), its_kwargs.get())));
    if (result.get() != Py_NotImplemented) return result;
  }
  return tracer.breakWith(Reason::kRaises, "no __torch_function__ takes the call");
}

namespace {

// torch.Tensor.__torch_function__: the function itself, on plain tensors, and the results made instances of the class.
Out converted(Tracer& t, PyObject* value, PyTypeObject* type) {
  needStack();
  if (graph::isStandIn(value) && graph::asStandIn(value)->meta != nullptr) {
    if (PyType_IsSubtype(typeOf(t, value), type)) return newRef(value);
    return castTo(t, value, type);
  }
  if (!PyTuple_Check(value) && !PyList_Check(value)) return newRef(value);
  STATOR_VALUE(items, contents(t, value));
  Ref<> list = stealRef(PyList_New(0));
  for (Py_ssize_t i = 0; i < PyObject_Size(items.get()); ++i) {
    Ref<> item = stealRef(PySequence_GetItem(items.get(), i));
    STATOR_VALUE(one, converted(t, item.get(), type));
    PyList_Append(list.get(), one.get());
  }
  if (PyList_CheckExact(value)) return t.made(list);
  Ref<> tuple = stealRef(PyList_AsTuple(list.get()));
  if (PyTuple_CheckExact(value)) return tuple;
  if (PyTuple_Check(value) && Py_TYPE(value) == sizeType()) return newRef(value);
  return fromNativeMade(
      t, stealRef(PyObject_CallOneArg(reinterpret_cast<PyObject*>(Py_TYPE(value)), tuple.get())));
}

Out defaultTorchFunction(Tracer& t, const Args& args) {
  if (args.keywordCount() != 0 || args.positional < 3 || !PyType_Check(args.values[0]))
    return t.breakWith(Reason::kCallsOutside, "Tensor.__torch_function__");
  auto* cls = reinterpret_cast<PyTypeObject*>(args.values[0]);
  PyObject* func = args.values[1];
  STATOR_VALUE(types, listOf(t, args.values[2]));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(types.get()); ++i) {
    STATOR_VALUE(fits, isSubclass(t, args.values[0], PyList_GET_ITEM(types.get(), i)));
    if (fits.get() != Py_True) return newRef(Py_NotImplemented);
  }
  Ref<> positional = stealRef(PyList_New(0)), named = stealRef(PyDict_New());
  if (args.positional > 3) {
    STATOR_VALUE(items, listOf(t, args.values[3]));
    positional = items;
  }
  if (args.positional > 4 && args.values[4] != Py_None) {
    STATOR_VALUE(items, contents(t, args.values[4]));
    named = items;
  }
  if (!PyDict_Check(named.get()))
    return t.breakWith(Reason::kCallsOutside, "Tensor.__torch_function__");
  Args call;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(positional.get()); ++i)
    call.values.push_back(PyList_GET_ITEM(positional.get(), i));
  call.positional = call.values.size();
  Ref<> keys = stealRef(PyDict_Keys(named.get()));
  Ref<> names_tuple = stealRef(PyList_AsTuple(keys.get()));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names_tuple.get()); ++i)
    call.values.push_back(PyDict_GetItem(named.get(), PyTuple_GET_ITEM(names_tuple.get(), i)));
  if (PyTuple_GET_SIZE(names_tuple.get()) > 0) call.names = names_tuple.get();
  TorchFunction before = t.torch_function.state();
  if (before == TorchFunction::kEnabled) t.torch_function.setState(TorchFunction::kSubclassesOff);
  Out result = t.above.callNested(func, call);
  t.torch_function.setState(before);
  if (!result.ok() || cls == tensorType()) return result;
  Ref<> unwrapped =
      stealRef(PyObject_CallNoArgs(torchObject("torch.overrides.get_default_nowrap_functions")));
  if (!unwrapped) return t.raiseCurrentError();
  int plain = PySet_Contains(unwrapped.get(), func);
  if (plain < 0) PyErr_Clear();
  if (plain == 1) return result;
  return converted(t, result.get(), cls);
}

Out asSubclass(Tracer& t, const Args& args) {
  if (args.values.size() != 2 || args.keywordCount() != 0 || !graph::isStandIn(args.values[0]) ||
      !PyType_Check(args.values[1])) {
    return t.breakWith(Reason::kRaises, "as_subclass");
  }
  auto* type = reinterpret_cast<PyTypeObject*>(args.values[1]);
  if (!PyType_IsSubtype(type, tensorType()) || hasOwnDispatch(type))
    return t.breakWith(Reason::kSubclass, std::string("as_subclass(") + type->tp_name + ")");
  return castTo(t, args.values[0], type);
}

// Tensor._make_subclass(cls, data, require_grad=False)
Out makeSubclass(Tracer& t, const Args& args) {
  if (args.positional < 2 || args.positional > 3 || !PyType_Check(args.values[0]) ||
      !graph::isStandIn(args.values[1]) || args.keywordCount() > 1) {
    return t.breakWith(Reason::kCallsOutside, "Tensor._make_subclass");
  }
  PyObject* grad = args.positional > 2        ? args.values[2]
                   : args.keywordCount() == 1 ? args.keyword("require_grad")
                                              : Py_False;
  auto* type = reinterpret_cast<PyTypeObject*>(args.values[0]);
  const shapes::TensorMeta* meta = graph::asStandIn(args.values[1])->meta;
  if (grad == nullptr || !PyBool_Check(grad) || meta == nullptr || hasOwnDispatch(type))
    return t.breakWith(Reason::kSubclass, std::string("makes a ") + type->tp_name);
  // Backends that differentiate cannot have leaves that are made in the graph.
  if (grad == Py_True && !t.options.runs_as_captured) return newLeaf(t, type, args.values[1]);
  static PyObject* const detach = PyUnicode_InternFromString("detach");
  static PyObject* const require = PyUnicode_InternFromString("requires_grad_");
  Args one;
  one.values = {args.values[1]};
  one.positional = 1;
  TorchFunction before = t.torch_function.state();
  t.torch_function.setState(TorchFunction::kOff);
  Out data = tensorCall(t, graph::Op::kCallMethod, detach, one);
  if (data.ok() && grad == Py_True) {
    Args leaf;
    leaf.values = {data.get()};
    leaf.positional = 1;
    Out set = tensorCall(t, graph::Op::kCallMethod, require, leaf);
    if (!set.ok()) data = set.flow();
  }
  t.torch_function.setState(before);
  if (!data.ok()) return data;
  return castTo(t, data.get(), type);
}

Out hasTorchFunction(Tracer& t, const Args& args) {
  if (args.keywordCount() != 0) return wrongArguments(t, "has_torch_function");
  if (t.torch_function.state() == TorchFunction::kOff) return newRef(Py_False);
  if (!t.torch_function.modes().empty() && !deviceOfMode(t.torch_function.modes().back().get()))
    return newRef(Py_True);
  if (t.torch_function.state() != TorchFunction::kEnabled) return newRef(Py_False);
  return newRef(hasOverloaded(t, args) ? Py_True : Py_False);
}

Out hasTorchFunctionUnary(Tracer& t, const Args& args) {
  NEED(1, "has_torch_function_unary");
  return hasTorchFunction(t, args);
}

// handle_torch_function(public_api, relevant_args, *args, **kwargs)
Out handleTorchFunction(Tracer& t, const Args& args) {
  if (args.positional < 2) return t.breakWith(Reason::kRaises, "handle_torch_function");
  Args relevant;
  relevant.values = {args.values[1]};
  relevant.positional = 1;
  std::vector<PyObject*> overloaded;
  STATOR_FLOW(collectOverloaded(t, relevant, overloaded));
  if (overloaded.empty() || !t.torch_function.modes().empty())
    return t.breakWith(Reason::kCallsOutside, "handle_torch_function");
  Ref<> types = stealRef(PyTuple_New(static_cast<Py_ssize_t>(overloaded.size())));
  for (size_t i = 0; i < overloaded.size(); ++i)
    PyTuple_SET_ITEM(types.get(), static_cast<Py_ssize_t>(i),
                     Py_NewRef(reinterpret_cast<PyObject*>(typeOf(t, overloaded[i]))));
  Ref<> positional = stealRef(PyTuple_New(static_cast<Py_ssize_t>(args.positional - 2))),
        named = stealRef(PyDict_New());
  for (size_t i = 2; i < args.positional; ++i)
    PyTuple_SET_ITEM(positional.get(), static_cast<Py_ssize_t>(i - 2), Py_NewRef(args.values[i]));
  for (size_t i = 0; i < args.keywordCount(); ++i)
    PyDict_SetItem(named.get(), args.name(i), args.values[args.positional + i]);
  t.made(named);
  t.world.keepAll({types, positional});
  for (PyObject* value : overloaded) {
    STATOR_VALUE(bound, handlerOf(t, value));
    STATOR_VALUE(result,
                 t.above.callNested(bound.get(), handlerArgs(args.values[0], types.get(),
                                                             positional.get(), named.get())));
    if (result.get() != Py_NotImplemented) return result;
  }
  return t.breakWith(Reason::kRaises, "no __torch_function__ takes the call");
}

}  // namespace

// Plain calls of a subclass without a Python __new__: torch's old constructor, of which the form with one tensor is an
// alias of it.
Out newTensorOf(Tracer& tracer, PyTypeObject* type, const Args& args) {
  if (args.positional == 1 && args.keywordCount() == 0 && graph::isStandIn(args.values[0]) &&
      graph::asStandIn(args.values[0])->meta != nullptr && !hasOwnDispatch(type) &&
      type != tensorType() &&
      graph::asStandIn(args.values[0])->meta->dtype == tracer.torch.now().default_dtype) {
    return castTo(tracer, args.values[0], type);
  }
  if (type == tensorType() && args.keywordCount() == 0 && args.positional > 0 &&
      !graph::isStandIn(args.values[0]))
    return tracer.above.callNested(torchObject("stator.polyfills.tensors.old_tensor"), args);
  return tracer.breakWith(Reason::kUnsupportedTensorOp, std::string(type->tp_name) + "()");
}

// `Tensor.shape.__get__` and its like, as handlers get them for attributes.
Out callMethodWrapper(Tracer& tracer, PyObject* wrapper, const Args& args) {
  Ref<> descriptor = stealRef(PyObject_GetAttr(wrapper, names().dunder_self));
  Ref<> name = stealRef(PyObject_GetAttr(wrapper, names().name));
  if (!descriptor || !name) return tracer.raiseCurrentError();
  // A wrapper is a new object each time: which one it is, is what it binds and by which name.
  if (const Source* source = tracer.sourceOf(wrapper)) {
    STATOR_VALUE(bound, fromOutside(tracer, descriptor.get(),
                                    tracer.world.child(SourceKind::kGenericAttr, source,
                                                       names().dunder_self)));
    STATOR_VALUE(called,
                 fromOutside(tracer, name.get(),
                             tracer.world.child(SourceKind::kGenericAttr, source, names().name)));
    tracer.world.keep(bound);
    tracer.world.keep(called);
  }
  bool getset = Py_TYPE(descriptor.get()) == &PyGetSetDescr_Type ||
                Py_TYPE(descriptor.get()) == &PyMemberDescr_Type;
  // `type.__dict__['__mro__'].__get__` and its like, where the object's own class would find that descriptor too.
  if (getset && args.values.size() == 1 && args.positional == 1 &&
      !graph::isStandIn(args.values[0]) &&
      PyUnicode_CompareWithASCIIString(name.get(), "__get__") == 0) {
    PyTypeObject* type = Py_TYPE(args.values[0]);
    PyObject* attribute = PyDescr_NAME(descriptor.get());
    if (typeOf(tracer, args.values[0]) == type &&
        _PyType_Lookup(type, attribute) == descriptor.get() &&
        (type->tp_getattro == PyObject_GenericGetAttr ||
         type->tp_getattro == PyType_Type.tp_getattro))
      return getAttr(tracer, args.values[0], attribute);
  }
  getset = Py_TYPE(descriptor.get()) == &PyGetSetDescr_Type &&
           PyType_IsSubtype(tensorType(), PyDescr_TYPE(descriptor.get()));
  if (!getset || args.keywordCount() != 0 || args.positional == 0 ||
      !graph::isStandIn(args.values[0])) {
    return tracer.breakWith(Reason::kCallsOutside, "a method-wrapper");
  }
  PyObject* attribute = PyDescr_NAME(descriptor.get());
  if (PyUnicode_CompareWithASCIIString(name.get(), "__get__") == 0)
    return getAttr(tracer, args.values[0], attribute);
  if (PyUnicode_CompareWithASCIIString(name.get(), "__set__") == 0 && args.positional == 2) {
    STATOR_FLOW(setAttr(tracer, args.values[0], attribute, args.values[1]));
    return newRef(Py_None);
  }
  return tracer.breakWith(Reason::kCallsOutside, "a method-wrapper");
}

void registerTorchFunction() {
  Ref<> method = stealRef(
      PyObject_GetAttrString(reinterpret_cast<PyObject*>(tensorType()), "__torch_function__"));
  if (method && PyMethod_Check(method.get()))
    registerRow(PyMethod_GET_FUNCTION(method.get()),
                CallRow{CallKind::kHandler, defaultTorchFunction});
  registerHandler("torch.Tensor.as_subclass", asSubclass);
  Ref<> make =
      stealRef(PyObject_GetAttrString(reinterpret_cast<PyObject*>(tensorType()), "_make_subclass"));
  registerRow(make.get(), CallRow{CallKind::kHandler, makeSubclass});
  for (const char* path :
       {"torch.overrides.has_torch_function", "torch.overrides.has_torch_function_unary",
        "torch.overrides.has_torch_function_variadic", "torch._C._has_torch_function",
        "torch._C._has_torch_function_unary", "torch._C._has_torch_function_variadic"}) {
    registerHandler(path, hasTorchFunction);
  }
  for (const char* path :
       {"torch.overrides.has_torch_function_unary", "torch._C._has_torch_function_unary"})
    registerHandler(path, hasTorchFunctionUnary);
  registerHandler("torch.overrides.handle_torch_function", handleTorchFunction);
  for (const char* kind :
       {"Float", "Double", "Half", "BFloat16", "Byte", "Char", "Short", "Int", "Long", "Bool"}) {
    std::string name = kind;
    for (char& letter : name) letter = static_cast<char>(std::tolower(letter));
    registerPolyfill((std::string("torch.") + kind + "Tensor").c_str(),
                     ("tensors." + name + "_tensor").c_str());
  }
  registerPolyfill("torch._C.DisableTorchFunctionSubclass",
                   "contexts.DisableTorchFunctionSubclass");
  registerPolyfill("torch._C.DisableTorchFunction", "contexts.DisableTorchFunction");
}

}  // namespace stator::interpret
