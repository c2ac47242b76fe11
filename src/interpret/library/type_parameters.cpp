// TypeVar, ParamSpec and TypeVarTuple, where they are of C: CPython 3.12 and later. The trace makes real ones. Each has
// its identity, so that a plan makes it again, by the same call.
#include "interpret/library/type_parameters.h"

#include "interpret/core/known.h"
#include "interpret/core/tables.h"
#include "interpret/library/rows.h"
#include "python/frame.h"

namespace stator::interpret {

namespace {

// (callable, arguments, keywords)
PyObject* callWith(PyObject*, PyObject* const* operands, Py_ssize_t) {
  return PyObject_Call(operands[0], operands[1], operands[2]);
}

// (number, argument)
PyObject* callIntrinsic(PyObject*, PyObject* const* operands, Py_ssize_t) {
  return stator_intrinsic_1(static_cast<int>(PyLong_AsLong(operands[0])), operands[1]);
}

PyObject* nativeFunction(const char* name, _PyCFunctionFast body) {
  auto* method = new PyMethodDef{name, reinterpret_cast<PyCFunction>(body), METH_FASTCALL, nullptr};
  return PyCFunction_New(method, nullptr);
}

// What a type may be described by; nothing of it is asked by running a program's code.
bool describesType(PyObject* object) {
  return values::isScalar(object) || PyType_Check(object) || isTypingObject(object);
}

// The first of `recipe` is what makes the object. It lies where a container from outside has its working copy.
Out madeBy(Tracer& t, Ref<> object, std::vector<Ref<>> recipe) {
  Ref<> held = stealRef(PyTuple_New(static_cast<Py_ssize_t>(recipe.size())));
  for (size_t i = 0; i < recipe.size(); ++i)
    PyTuple_SET_ITEM(held.get(), static_cast<Py_ssize_t>(i), recipe[i].release());
  t.values.addMade(object.get(), t.frames.instruction()).shadow = std::move(held);
  return object;
}

// A new one belongs to the module of the function that calls; here that is one of the trace's.
Flow setModule(Tracer& t, PyObject* object) {
  static PyObject* const name = PyUnicode_InternFromString("__module__");
  const SymbolicFrame& frame = t.frames.innermost();
  PyObject* module = frame.function && PyFunction_Check(frame.function.get())
                         ? reinterpret_cast<PyFunctionObject*>(frame.function.get())->func_module
                         : PyDict_GetItemWithError(frame.globals, names().name);
  if (module == nullptr) module = Py_None;
  if (!PyUnicode_CheckExact(module) && module != Py_None)
    return t.breakWith(Reason::kCallsOutside, "a type variable of a module without a name");
  return PyObject_SetAttr(object, name, module) == 0 ? Flow::kOk : t.raiseCurrentError();
}

Out construct(Tracer& t, const Args& args, const char* path) {
  static PyObject* const again = nativeFunction("call_with", callWith);
  for (PyObject* value : args.values) {
    if (!describesType(value)) return t.breakWith(Reason::kCallsOutside, path);
  }
  PyObject* type = torchObject(path);
  Ref<> positional = stealRef(PyTuple_New(static_cast<Py_ssize_t>(args.positional)));
  Ref<> keywords = stealRef(PyDict_New());
  for (size_t i = 0; i < args.positional; ++i)
    PyTuple_SET_ITEM(positional.get(), static_cast<Py_ssize_t>(i), Py_NewRef(args.values[i]));
  for (size_t i = 0; i < args.keywordCount(); ++i)
    PyDict_SetItem(keywords.get(), args.name(i), args.values[args.positional + i]);
  Ref<> object = stealRef(PyObject_Call(type, positional.get(), keywords.get()));
  if (!object) {
    PyErr_Clear();
    return t.breakWith(Reason::kRaises, path);
  }
  STATOR_FLOW(setModule(t, object.get()));
  return madeBy(t, std::move(object),
                {newRef(again), newRef(type), std::move(positional), std::move(keywords)});
}

}  // namespace

Out makeTypeParameter(Tracer& tracer, int which, PyObject* name) {
  static PyObject* const again = nativeFunction("call_intrinsic", callIntrinsic);
  Ref<> object = stealRef(stator_intrinsic_1(which, name));
  if (!object) return tracer.raiseCurrentError();
  return madeBy(tracer, std::move(object),
                {newRef(again), stealRef(PyLong_FromLong(which)), newRef(name)});
}

PyObject* typeParameterRecipe(Tracer& tracer, PyObject* object) {
  values::Info* info = tracer.values.find(object);
  return info != nullptr && info->origin == values::Origin::kMade && info->shadow &&
                 isTypingObject(object)
             ? info->shadow.get()
             : nullptr;
}

void registerTypeParameters() {
  registerHandler("_typing.TypeVar", [](Tracer& t, const Args& args) {
    return construct(t, args, "_typing.TypeVar");
  });
  registerHandler("_typing.ParamSpec", [](Tracer& t, const Args& args) {
    return construct(t, args, "_typing.ParamSpec");
  });
  registerHandler("_typing.TypeVarTuple", [](Tracer& t, const Args& args) {
    return construct(t, args, "_typing.TypeVarTuple");
  });
}

}  // namespace stator::interpret
