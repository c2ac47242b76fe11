// Classes made in a trace: real ones, whose functions are the trace's own. None is ever rebuilt: if one gets out, the trace breaks before it
// was made.
#include "interpret/calls/tables.h"
#include "interpret/known_types.h"
#include "interpret/names.h"
#include "interpret/torch_names.h"
#include "interpret/trace_iterator.h"
#include "interpret/tracer.h"
#include "python/objects.h"

namespace stator::interpret {

namespace {

// Python code that type.__new__ would call: it has to be traced, and cannot be from there.
bool callsBack(Tracer& t, PyObject* bases, PyObject* contents) {
  static PyObject* init_subclass = PyUnicode_InternFromString("__init_subclass__");
  static PyObject* set_name = PyUnicode_InternFromString("__set_name__");
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(bases); ++i) {
    Out found =
        t.typeLookup(reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(bases, i)), init_subclass);
    if (found.get() == nullptr || Py_TYPE(found.get()) != &PyClassMethodDescr_Type) return true;
  }
  PyObject *name = nullptr, *value = nullptr;
  Py_ssize_t position = 0;
  while (PyDict_Next(contents, &position, &name, &value)) {
    if (!graph::isStandIn(value) && _PyType_Lookup(Py_TYPE(value), set_name) != nullptr)
      return true;
  }
  return false;
}

Out buildClass(Tracer& t, const Args& args) {
  if (args.positional < 2 || !PyFunction_Check(args.values[0]) ||
      !PyUnicode_CheckExact(args.values[1]))
    return t.breakWith(Reason::kRaises, "__build_class__");
  Ref<> bases = stealRef(PyTuple_New(static_cast<Py_ssize_t>(args.positional) - 2));
  PyObject* meta = args.keyword("metaclass");
  if (meta == nullptr)
    meta =
        reinterpret_cast<PyObject*>(args.positional > 2 ? Py_TYPE(args.values[2]) : &PyType_Type);
  for (size_t i = 2; i < args.positional; ++i) {
    PyObject* base = args.values[i];
    if (!PyType_Check(base))
      return t.breakWith(Reason::kUnsupportedClass, "a base that is no class");
    if (PyType_Check(meta) &&
        PyType_IsSubtype(Py_TYPE(base), reinterpret_cast<PyTypeObject*>(meta)))
      meta = reinterpret_cast<PyObject*>(Py_TYPE(base));
    PyTuple_SET_ITEM(bases.get(), static_cast<Py_ssize_t>(i) - 2, Py_NewRef(base));
  }
  static PyObject* prepare = PyUnicode_InternFromString("__prepare__");
  if (!PyType_Check(meta))
    return t.breakWith(Reason::kUnsupportedClass, "a metaclass that is no class");
  STATOR_VALUE(preparing, t.typeLookup(reinterpret_cast<PyTypeObject*>(meta), prepare));
  if (preparing.get() != _PyType_Lookup(&PyType_Type, prepare))
    return t.breakWith(Reason::kUnsupportedClass, "a metaclass with __prepare__");
  Ref<> contents = t.made(stealRef(PyDict_New()));
  Out entered = t.inlineFunction(args.values[0], Args{}, Then::kPush);
  if (entered.flow() != Flow::kEntered) return entered;
  t.frames.back()->contents = contents;
  STATOR_VALUE(cell, t.settle(std::move(entered)));
  Args making;
  making.values = {args.values[1], bases.get(), contents.get()};
  making.positional = 3;
  Ref<> names = stealRef(PyList_New(0));
  for (size_t i = 0; i < args.keywordCount(); ++i) {
    if (PyUnicode_CompareWithASCIIString(args.name(i), "metaclass") == 0) continue;
    PyList_Append(names.get(), args.name(i));
    making.values.push_back(args.values[args.positional + i]);
  }
  Ref<> name_tuple = stealRef(PyList_AsTuple(names.get()));
  if (making.keywordCount() > 0) making.names = name_tuple.get();
  return t.callNested(meta, making);
}

}  // namespace

bool Tracer::isMadeClass(PyObject* object) {
  if (!classes_written || !PyType_Check(object)) return false;
  values::Info* info = values.find(object);
  return info != nullptr && info->origin == values::Origin::kMade;
}

Out Tracer::makeClass(PyTypeObject* meta, const Args& args) {
  if (args.values.size() != 3 || args.keywordCount() != 0 ||
      !PyUnicode_CheckExact(args.values[0]) || !PyTuple_Check(args.values[1]) ||
      !PyDict_Check(args.values[2])) {
    return breakWith(Reason::kUnsupportedClass, "a class with keywords");
  }
  STATOR_VALUE(bases, contents(args.values[1]));
  STATOR_VALUE(entries, contents(args.values[2]));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(bases.get()); ++i) {
    if (!PyType_Check(PyTuple_GET_ITEM(bases.get(), i)))
      return breakWith(Reason::kUnsupportedClass, "a base that is no class");
  }
  if (callsBack(*this, bases.get(), entries.get()))
    return breakWith(Reason::kUnsupportedClass, "a class whose base or attributes are told of it");
  static PyObject* mro = PyUnicode_InternFromString("mro");
  STATOR_VALUE(order, typeLookup(meta, mro));
  if (order.get() != _PyType_Lookup(&PyType_Type, mro))
    return breakWith(Reason::kUnsupportedClass, "a metaclass with mro()");
  Ref<> own = stealRef(PyDict_Copy(entries.get()));
  Ref<> tuple = stealRef(PyTuple_Pack(3, args.values[0], bases.get(), own.get()));
  Ref<> result = stealRef(PyType_Type.tp_new(meta, tuple.get(), nullptr));
  if (!result) return raiseCurrentError();
  // Nobody outside is to see it.
  auto* type = reinterpret_cast<PyTypeObject*>(result.get());
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_bases); ++i) {
    PyObject* base = PyTuple_GET_ITEM(type->tp_bases, i);
    if (!isMadeClass(base)) stator_type_hide(type, reinterpret_cast<PyTypeObject*>(base));
  }
  classes_written = true;
  return made(result);
}

namespace {

// classmethod(function), staticmethod(function): they keep the function.
template <PyTypeObject* type>
Out wrapMethod(Tracer& t, const Args& args) {
  if (args.values.size() != 1 || args.keywordCount() != 0 || graph::isStandIn(args.values[0]) ||
      isTraceIterator(args.values[0])) {
    return t.breakWith(Reason::kCallsOutside, type->tp_name);
  }
  return t.fromNativeMade(
      stealRef(PyObject_CallOneArg(reinterpret_cast<PyObject*>(type), args.values[0])));
}

// types.MethodType(function, object)
Out makeMethod(Tracer& t, const Args& args) {
  bool fits = args.values.size() == 2 && args.keywordCount() == 0 &&
              PyCallable_Check(args.values[0]) && args.values[1] != Py_None;
  if (!fits) return t.breakWith(Reason::kCallsOutside, "types.MethodType()");
  return stealRef(PyMethod_New(args.values[0], args.values[1]));
}

}  // namespace

void registerClasses() {
  registerHandler("builtins.__build_class__", buildClass);
  registerHandler("builtins.classmethod", wrapMethod<&PyClassMethod_Type>);
  registerHandler("builtins.staticmethod", wrapMethod<&PyStaticMethod_Type>);
  registerHandler("builtins.property", wrapMethod<&PyProperty_Type>);
  registerHandler("types.MethodType", makeMethod);
}

}  // namespace stator::interpret
