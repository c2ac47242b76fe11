// Errors that CPython raises by itself: made by CPython, so that type and text are its own.
#include "interpret/objects/errors.h"

#include "base/check.h"
#include "base/parts.h"
#include "base/rebuilt.h"
#include "base/stack_room.h"
#include "base/text.h"
#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/core/tables.h"
#include "interpret/core/trace_iterator.h"
#include "interpret/core/tracer.h"
#include "interpret/objects/contents.h"
#include "python/frame.h"
#include "python/types.h"
#include "python/version.h"
#include "symbolic/sym_int.h"

#include <algorithm>
#include <string_view>

namespace stator::interpret {

namespace {

// A copy that the call may change.
Ref<> ownCopy(PyObject* value) {
  if (PyList_CheckExact(value)) return stealRef(PySequence_List(value));
  if (PyDict_CheckExact(value)) return stealRef(PyDict_Copy(value));
  if (PySet_CheckExact(value)) return stealRef(PySet_New(value));
  if (Py_TYPE(value) == dequeType()) return stealRef(PyObject_CallMethod(value, "copy", nullptr));
  if (PyByteArray_CheckExact(value)) return stealRef(PyByteArray_FromObject(value));
  return newRef(value);
}

// Of what a call may change there is no copy.
bool changesForGood(PyObject* value) {
  if (PyBytes_Check(value) || PyByteArray_CheckExact(value)) return false;
  if (PyList_CheckExact(value) || PyDict_CheckExact(value) || PySet_CheckExact(value)) return false;
  if (Py_TYPE(value) == dequeType()) return false;
  return PyList_Check(value) || PyDict_Check(value) || PySet_Check(value) || isDeque(value) ||
         PyIter_Check(value) || PyObject_CheckBuffer(value) != 0;
}

bool onlyMovesReferences(PyObject* value) {
  return PyList_CheckExact(value) || PyDict_CheckExact(value) || PySet_CheckExact(value) ||
         Py_TYPE(value) == dequeType();
}

// An argument of the graph with tensors of zeros in place of stand-ins; null without an error: not for this one.
Ref<> withZeros(Tracer& t, PyObject* value) {
  needStack();
  static PyObject* const zeros = torchObject("stator._errors.zeros");
  static PyObject* const dtype_name = PyUnicode_InternFromString("dtype");
  if (graph::isStandIn(value)) {
    const shapes::TensorMeta* meta = graph::asStandIn(value)->meta;
    if (meta == nullptr || meta->device != shapes::DeviceType::CPU || meta->layout != 0 ||
        meta->isSymbolic() || meta->is_conj || meta->is_neg || meta->is_inference ||
        meta->numel().value() > 65536)
      return Ref<>();
    const PyTypeObject* type = typeOf(t, value);
    if (type != tensorType() && type != parameterType()) return Ref<>();
    Out dtype = t.above.tensorAttr(value, dtype_name);
    if (!dtype.ok()) return Ref<>();
    auto numbers = [](const shapes::Dims& dims) {
      Ref<> tuple = stealRef(PyTuple_New(static_cast<Py_ssize_t>(dims.size())));
      for (size_t i = 0; i < dims.size(); ++i)
        PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i),
                         PyLong_FromLongLong(dims[i].value()));
      return tuple;
    };
    Ref<> made = stealRef(PyObject_CallFunctionObjArgs(
        zeros, numbers(meta->sizes).get(), numbers(meta->strides).get(), dtype.get(),
        meta->requires_grad ? Py_True : Py_False, meta->is_leaf ? Py_True : Py_False,
        type == parameterType() ? Py_True : Py_False, nullptr));
    if (!made) PyErr_Clear();
    return made;
  }
  if (PyTuple_CheckExact(value) || PyList_CheckExact(value))
    return rebuilt(value, [&](PyObject* item) { return withZeros(t, item); });
  return values::isConstantDeep(value) ? newRef(value) : Ref<>();
}

// Some frame of the trace handles exceptions of the instruction under way.
bool hasHandler(Tracer& t) {
  for (const auto& frame : t.frames.all()) {
    const bytecode::Instr& instr = frame->code->instrs()[static_cast<size_t>(callIndex(*frame))];
    if (frame->code->findHandler(instr.opcode_offset)) return true;
  }
  return false;
}

bool writesInPlace(PyObject* target, const Args& args) {
  for (size_t i = args.positional; i < args.values.size(); ++i) {
    if (PyUnicode_CompareWithASCIIString(args.name(i - args.positional), "out") == 0) return true;
  }
  Ref<> own = PyUnicode_Check(target) ? newRef(target)
                                      : stealRef(PyObject_GetAttrString(target, "__name__"));
  if (!own) PyErr_Clear();
  const std::string_view name = own ? utf8(own.get()) : "";
  const bool special = name.size() > 4 && name.substr(name.size() - 2) == "__";
  return special ? name.substr(0, 3) == "__i" || name == "__setitem__"
                 : !name.empty() && name.back() == '_';
}

bool requiresGrad(PyObject* value) {
  if (graph::isStandIn(value)) {
    const shapes::TensorMeta* meta = graph::asStandIn(value)->meta;
    return meta == nullptr || meta->requires_grad;
  }
  return (PyTuple_CheckExact(value) || PyList_CheckExact(value)) &&
         !everyItem(value, [](PyObject* item) { return !requiresGrad(item); });
}

// Whether autograd looks at what the written tensor is a view of, and whether it is a leaf: tensors of zeros are other
// ones.
bool asksAboutViews(PyObject* target, const Args& args, const std::vector<PyObject*>& now,
                    bool grad_enabled) {
  return grad_enabled && std::any_of(now.begin(), now.end(), requiresGrad) &&
         writesInPlace(target, args);
}

}  // namespace

// The error of a tensor operation that cannot be right for any data, where the program handles errors. Ok with null: a
// break is as good.
Out tensorError(Tracer& t, PyObject* target, const Args& args, const std::vector<PyObject*>& now) {
  if (!hasHandler(t) || t.graphs.nested() || t.torch_function.relevant()) return Ref<>();
  // The question is asked here and now: of what the trace has switched, only gradients can be so for its time.
  shapes::State state = shapes::State::now();
  state.grad_enabled = t.torch.now().grad_enabled;
  if (!(state == t.torch.now())) return Ref<>();
  // One of torch's own operations, not a function that does several.
  if (!PyUnicode_Check(target) && !PyCFunction_Check(target)) return Ref<>();
  if (asksAboutViews(target, args, now, state.grad_enabled)) return Ref<>();
  Ref<> positional = stealRef(PyTuple_New(static_cast<Py_ssize_t>(args.positional)));
  Ref<> named = stealRef(PyDict_New());
  for (size_t i = 0; i < now.size(); ++i) {
    Ref<> value = withZeros(t, now[i]);
    if (!value) return Ref<>();
    if (i < args.positional)
      PyTuple_SET_ITEM(positional.get(), static_cast<Py_ssize_t>(i), value.release());
    else
      PyDict_SetItem(named.get(), args.name(i - args.positional), value.get());
  }
  static PyObject* const ask = torchObject("stator._errors.raised");
  Ref<> error =
      stealRef(PyObject_CallFunctionObjArgs(ask, target, positional.get(), named.get(),
                                            state.grad_enabled ? Py_True : Py_False, nullptr));
  if (!error) return t.raiseCurrentError();
  if (error.get() == Py_None) return Ref<>();
  return t.raise(std::move(error));
}

Out raiseNatively(Tracer& tracer, PyObject* callable, const Args& args) {
  Broke why = tracer.ending.broke();
  const bool is_method = PyObject_TypeCheck(callable, &PyMethodDescr_Type);
  std::vector<Ref<>> keep;
  std::vector<PyObject*> copies;
  for (size_t i = 0; i < args.values.size(); ++i) {
    PyObject* value = args.values[i];
    if (graph::isStandIn(value) || isTraceIterator(value))
      return tracer.breakWith(why.reason, why.detail);
    STATOR_VALUE(replaced, plain(tracer, value));
    // The container that a method belongs to may hold anything: wrong arguments are noticed before it is looked at.
    if (!isNativeSafe(tracer, replaced.get()) && !(i == 0 && onlyMovesReferences(replaced.get())))
      return tracer.breakWith(why.reason, why.detail);
    // Errors name the classes of arguments, not that of the object whose method it is.
    const bool names_class = !symbolic::isSymbol(value) && !(i == 0 && is_method);
    if ((names_class && Py_TYPE(value) != Py_TYPE(replaced.get())) ||
        changesForGood(replaced.get()))
      return tracer.breakWith(why.reason, why.detail);
    Ref<> copy = ownCopy(replaced.get());
    copies.push_back(copy.get());
    keep.push_back(std::move(copy));
  }
  graph::takeLeakFlag();
  Ref<> result =
      stealRef(PyObject_Vectorcall(callable, copies.data(), args.positional, args.names));
  bool leaked = graph::takeLeakFlag();
  if (!result && !leaked) return tracer.raiseCurrentError();
  PyErr_Clear();
  return tracer.breakWith(why.reason, why.detail);
}

namespace {

std::string asText(const Ref<>& text) {
  if (!text) PyErr_Clear();
  return text ? utf8(text.get()) : "";
}

// The error on its way, with the function that was called and the types of what it was given.
std::string mismatchText(Tracer& tracer, PyFunctionObject* function, const Args& args) {
  auto* code = reinterpret_cast<PyCodeObject*>(function->func_code);
  auto kind = [&](size_t i) {
    auto* type = reinterpret_cast<PyObject*>(typeOf(tracer, args.values[i]));
    return asText(stealRef(PyObject_Repr(type)));
  };
  const std::string file = utf8(code->co_filename);
  std::string text = asText(stealRef(PyObject_Str(tracer.errors.raised())));
  text += "; func = " + asText(stealRef(PyObject_Repr(function->func_qualname))) + " " +
          file.substr(file.rfind('/') + 1) + ":" + std::to_string(code->co_firstlineno) +
          ", args = [";
  for (size_t i = 0; i < args.positional; ++i) text += (i > 0 ? ", " : "") + kind(i);
  text += "], kwargs = {";
  for (size_t i = 0; i < args.keywordCount(); ++i) {
    text += (i > 0 ? ", " : "") + asText(stealRef(PyObject_Repr(args.name(i)))) + ": " +
            kind(args.positional + i);
  }
  return text + "}";
}

}  // namespace

Flow raiseBinding(Tracer& tracer, PyObject* callable, const Args& args) {
  // A function with the same parameters and an empty body, called with as many arguments: CPython finds what does not
  // fit.
  auto* function = reinterpret_cast<PyFunctionObject*>(callable);
  auto* code = reinterpret_cast<PyCodeObject*>(function->func_code);
  Ref<> replace = stealRef(PyObject_GetAttrString(function->func_code, "replace"));
  Ref<> source = stealRef(Py_CompileString("None", "<binding>", Py_eval_input));
  if (!replace || !source) return tracer.raiseCurrentError();
  auto* empty = reinterpret_cast<PyCodeObject*>(source.get());
  Ref<> body = stealRef(PyCode_GetCode(empty));
  Ref<> nothing = stealRef(PyTuple_New(0)),
        no_bytes = stealRef(PyBytes_FromStringAndSize(nullptr, 0));
  Ref<> kwargs = stealRef(
      Py_BuildValue("{s:O,s:O,s:O,s:O,s:O,s:i}", "co_code", body.get(), "co_consts",
                    empty->co_consts, "co_freevars", nothing.get(), "co_cellvars", nothing.get(),
                    "co_exceptiontable", no_bytes.get(), "co_flags",
                    code->co_flags & (CO_VARARGS | CO_VARKEYWORDS | CO_OPTIMIZED | CO_NEWLOCALS)));
  Ref<> stub_code =
      kwargs ? stealRef(PyObject_Call(replace.get(), nothing.get(), kwargs.get())) : Ref<>();
  Ref<> stub = stub_code ? stealRef(PyFunction_NewWithQualName(
                               stub_code.get(), function->func_globals, function->func_qualname))
                         : Ref<>();
  if (!stub) {
    PyErr_Clear();
    return tracer.breakWith(Reason::kRaises, "arguments that do not fit");
  }
  if (function->func_defaults != nullptr)
    PyFunction_SetDefaults(stub.get(), function->func_defaults);
  if (function->func_kwdefaults != nullptr)
    PyFunction_SetKwDefaults(stub.get(), function->func_kwdefaults);
  std::vector<PyObject*> values(args.values.size(), Py_None);
  Ref<> result =
      stealRef(PyObject_Vectorcall(stub.get(), values.data(), args.positional, args.names));
  if (result) return tracer.breakWith(Reason::kRaises, "arguments that do not fit");
  const Flow flow = tracer.raiseCurrentError();
  if (flow == Flow::kRaise) tracer.errors.noteMismatch(mismatchText(tracer, function, args));
  return flow;
}

namespace {

// A module has other words where it has no name, or is being imported: CPython finds them, as far as it sees what the
// trace sees.
Flow setModuleError(Tracer& tracer, PyObject* module, PyObject* name) {
  PyObject* dict = PyModule_GetDict(module);
  values::Info* info = dict != nullptr ? tracer.values.find(dict) : nullptr;
  const bool written = (info != nullptr && (info->overlay || info->shadow));
  if (written || (dict != nullptr && PyDict_Contains(dict, names().dunder_getattr) != 0)) {
    PyErr_Clear();
    PyObject* own = dict != nullptr ? PyDict_GetItemWithError(dict, names().name) : nullptr;
    if (written || own == nullptr || !PyUnicode_Check(own))
      return tracer.breakWith(Reason::kUnsupportedAttribute, "of a module that was written to");
    PyErr_Format(PyExc_AttributeError, "module '%U' has no attribute '%U'", own, name);
    return Flow::kOk;
  }
  Ref<> found = stealRef(PyModule_Type.tp_getattro(module, name));
  if (found)
    return tracer.breakWith(Reason::kUnsupportedAttribute, "of a module that was written to");
  return Flow::kOk;
}

// As PyObject_GetAttr leaves the error that is set.
Flow raiseAbout(Tracer& tracer, PyObject* object, PyObject* name) {
  Flow flow = tracer.raiseCurrentError();
  PyObject_SetAttrString(tracer.errors.raised(), "name", name);
  PyObject_SetAttrString(tracer.errors.raised(), "obj", object);
  PyErr_Clear();
  return flow;
}

}  // namespace

Flow raiseAttributeError(Tracer& tracer, PyObject* object, PyObject* name) {
  PyTypeObject* type = typeOf(tracer, object);
  if (PyType_Check(object)) {
    PyErr_Format(PyExc_AttributeError, "type object '%.50s' has no attribute '%U'",
                 reinterpret_cast<PyTypeObject*>(object)->tp_name, name);
  } else if (PyModule_Check(object)) {
    STATOR_FLOW(setModuleError(tracer, object, name));
  } else if (PyObject* found = _PyType_Lookup(type, name);
             found != nullptr && Py_TYPE(found) == &PyMemberDescr_Type) {
    Ref<> owner = stealRef(stator_name_of_slots_owner(type));
    if (!owner) throw PythonError();
    PyErr_Format(PyExc_AttributeError, "'%U' object has no attribute '%U'", owner.get(), name);
  } else {
    // A method asks its function.
    if (type == &PyMethod_Type) type = typeOf(tracer, PyMethod_GET_FUNCTION(object));
    PyErr_Format(PyExc_AttributeError, "'%.50s' object has no attribute '%U'", type->tp_name, name);
  }
  return raiseAbout(tracer, object, name);
}

Flow raiseNoDict(Tracer& tracer, PyObject* object, PyObject* name) {
  PyTypeObject* type = typeOf(tracer, object);
  const bool plain = type->tp_setattro == PyObject_GenericSetAttr;
  PyErr_Format(PyExc_AttributeError, "'%.100s' object has no attribute '%U'%s", type->tp_name, name,
               plain ? kNoDictToSetIn : "");
  return *kNoDictToSetIn != 0 ? raiseAbout(tracer, object, name) : tracer.raiseCurrentError();
}

Flow raiseNotThere(Tracer& tracer, PyObject* object, PyObject* name) {
  // CPython's own words, which have changed within 3.11: it is asked to delete the name from a dict that is empty.
  Ref<> empty = stealRef(PyDict_New());
  if (empty && _PyObject_GenericSetAttrWithDict(object, name, nullptr, empty.get()) == 0)
    return tracer.breakWith(Reason::kRaises, "deletes an attribute that is not there");
  return tracer.raiseCurrentError();
}

Flow raiseNameError(Tracer& tracer, PyObject* type, const char* format, PyObject* name) {
  PyErr_Format(type, format, name);
  Flow flow = tracer.raiseCurrentError();
  if (type == PyExc_NameError) PyObject_SetAttrString(tracer.errors.raised(), "name", name);
  PyErr_Clear();
  return flow;
}

}  // namespace stator::interpret
