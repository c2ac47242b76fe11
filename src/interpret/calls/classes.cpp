// Classes made in a trace: real ones, whose functions are the trace's own. None is ever rebuilt: if one gets out, the
// trace breaks before it was made.
#include "interpret/calls/classes.h"

#include "base/text.h"
#include "interpret/calls/calls.h"
#include "interpret/calls/inlining.h"
#include "interpret/calls/instances.h"
#include "interpret/calls/rows.h"
#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/core/tables.h"
#include "interpret/core/trace_iterator.h"
#include "interpret/core/tracer.h"
#include "interpret/objects/attributes.h"
#include "interpret/objects/class_lookups.h"
#include "interpret/objects/contents.h"
#include "interpret/objects/keys.h"
#include "interpret/objects/native_calls.h"
#include "interpret/objects/special_methods.h"
#include "python/objects.h"

#include <string_view>

namespace stator::interpret {

namespace {

PyObject* initSubclass() {
  static PyObject* const name = PyUnicode_InternFromString("__init_subclass__");
  return name;
}
PyObject* setName() {
  static PyObject* const name = PyUnicode_InternFromString("__set_name__");
  return name;
}

// type.__new__ calls Python code: attributes are told their names, bases of the new class. The trace does so itself,
// once the class is there. While it is made, None stands for such attributes, and a class that tells nobody for the
// bases.
struct ToldLater {
  bool bases = false;
  std::vector<std::pair<Ref<>, Ref<>>> attributes;  // name, value
};

Out findTold(Tracer& t, PyObject* bases, PyObject* contents, ToldLater& told) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(bases); ++i) {
    STATOR_VALUE(found, typeLookup(t, reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(bases, i)),
                                   initSubclass()));
    told.bases |= !found || Py_TYPE(found.get()) != &PyClassMethodDescr_Type;
  }
  PyObject *name = nullptr, *value = nullptr;
  Py_ssize_t position = 0;
  while (PyDict_Next(contents, &position, &name, &value)) {
    if (graph::isStandIn(value) || _PyType_Lookup(Py_TYPE(value), setName()) == nullptr) continue;
    // Names that fill the class's slots have to be there from the start.
    if (!PyUnicode_CheckExact(name) || std::string_view(utf8(name)).substr(0, 2) == "__")
      return t.breakWith(Reason::kUnsupportedClass, "a class whose attributes are told of it");
    told.attributes.emplace_back(newRef(name), newRef(value));
  }
  return newRef(Py_None);
}

// A base with the layout that most classes have.
PyObject* silentBase() {
  static PyObject* const base =
      PyObject_CallFunction(reinterpret_cast<PyObject*>(&PyType_Type), "s(){}", "base");
  return base;
}

Out tell(Tracer& t, PyObject* made, const ToldLater& told, const Args& keywords) {
  auto* type = reinterpret_cast<PyTypeObject*>(made);
  for (const auto& [name, value] : told.attributes)
    PyDict_SetItem(stator_type_dict(type), name.get(), value.get());
  PyType_Modified(type);
  for (const auto& [name, value] : told.attributes) {
    STATOR_VALUE(hook, special(t, value.get(), "__set_name__"));
    if (!hook) continue;
    Out out = callNested(t, hook.get(), {made, name.get()});
    // eager's error is another one, which speaks of the attribute
    if (out.flow() == Flow::kRaise)
      return t.breakWith(Reason::kUnsupportedClass, "an attribute that does not want its name");
    if (!out.ok()) return out;
  }
  if (!told.bases) return newRef(Py_None);
  Ref<> above = stealRef(PyObject_CallFunctionObjArgs(reinterpret_cast<PyObject*>(&PySuper_Type),
                                                      made, made, nullptr));
  if (!above) return t.raiseCurrentError();
  STATOR_VALUE(hook, runEntered(t, getAttr(t, t.made(above).get(), initSubclass())));
  return callNested(t, hook.get(), keywords);
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
  STATOR_VALUE(preparing, typeLookup(t, reinterpret_cast<PyTypeObject*>(meta), prepare));
  if (preparing.get() != _PyType_Lookup(&PyType_Type, prepare))
    return t.breakWith(Reason::kUnsupportedClass, "a metaclass with __prepare__");
  Ref<> contents = t.made(stealRef(PyDict_New()));
  Out entered = inlineFunction(t, args.values[0], Args{}, Continuation::kPush);
  if (entered.flow() != Flow::kEntered) return entered;
  t.frames.innermost().contents = contents;
  STATOR_VALUE(cell, runEntered(t, std::move(entered)));
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
  return callNested(t, meta, making);
}

}  // namespace

Out makeClass(Tracer& tracer, PyTypeObject* meta, const Args& args) {
  if (args.positional == 3 && PyDict_Check(args.values[2]) && hasOwnKeys(tracer, args.values[2]))
    return tracer.breakWith(Reason::kUnsupportedClass, "names with their own __hash__ or __eq__");
  if (args.positional != 3 || !PyUnicode_CheckExact(args.values[0]) ||
      !PyTuple_Check(args.values[1]) || !PyDict_Check(args.values[2]) ||
      isProxied(tracer, args.values[2])) {
    return tracer.breakWith(Reason::kUnsupportedClass, "a class by other arguments");
  }
  STATOR_VALUE(bases, contents(tracer, args.values[1]));
  STATOR_VALUE(entries, contents(tracer, args.values[2]));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(bases.get()); ++i) {
    if (!PyType_Check(PyTuple_GET_ITEM(bases.get(), i)))
      return tracer.breakWith(Reason::kUnsupportedClass, "a base that is no class");
  }
  ToldLater told;
  STATOR_VALUE(looked, findTold(tracer, bases.get(), entries.get(), told));
  if (args.keywordCount() != 0 && !told.bases)
    return tracer.breakWith(Reason::kUnsupportedClass, "a class with keywords");
  static PyObject* mro = PyUnicode_InternFromString("mro");
  STATOR_VALUE(order, typeLookup(tracer, meta, mro));
  if (order.get() != _PyType_Lookup(&PyType_Type, mro))
    return tracer.breakWith(Reason::kUnsupportedClass, "a metaclass with mro()");
  Ref<> own = stealRef(PyDict_Copy(entries.get()));
  for (const auto& [name, value] : told.attributes) PyDict_SetItem(own.get(), name.get(), Py_None);
  Ref<> silent = told.bases ? stealRef(PyTuple_Pack(1, silentBase())) : bases;
  Ref<> tuple = stealRef(PyTuple_Pack(3, args.values[0], silent.get(), own.get()));
  Ref<> result = stealRef(PyType_Type.tp_new(meta, tuple.get(), nullptr));
  if (!result) return tracer.raiseCurrentError();
  if (told.bases && PyObject_SetAttrString(result.get(), "__bases__", bases.get()) != 0) {
    PyErr_Clear();  // of another layout
    return tracer.breakWith(Reason::kUnsupportedClass, "a class whose bases are told of it");
  }
  // Nobody outside is to see it.
  auto* type = reinterpret_cast<PyTypeObject*>(result.get());
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_bases); ++i) {
    PyObject* base = PyTuple_GET_ITEM(type->tp_bases, i);
    if (!isMadeClass(tracer, base)) stator_type_hide(type, reinterpret_cast<PyTypeObject*>(base));
  }
  tracer.classes.noteWritten();
  result = tracer.made(result);
  if (!told.bases && told.attributes.empty()) return result;
  tracer.frames.commit();
  Args keywords;
  keywords.values.assign(args.values.begin() + 3, args.values.end());
  keywords.names = args.names;
  STATOR_VALUE(done, tell(tracer, result.get(), told, keywords));
  return result;
}

namespace {

// classmethod(function), staticmethod(function): they keep the function.
template <PyTypeObject* type>
Out wrapMethod(Tracer& t, const Args& args) {
  if (args.values.size() != 1 || args.keywordCount() != 0 || graph::isStandIn(args.values[0]) ||
      isTraceIterator(args.values[0])) {
    return t.breakWith(Reason::kCallsOutside, type->tp_name);
  }
  return fromNativeMade(
      t, stealRef(PyObject_CallOneArg(reinterpret_cast<PyObject*>(type), args.values[0])));
}

// types.MethodType(function, object)
Out makeMethod(Tracer& t, const Args& args) {
  bool fits = args.values.size() == 2 && args.keywordCount() == 0 &&
              PyCallable_Check(args.values[0]) && args.values[1] != Py_None;
  if (!fits) return t.breakWith(Reason::kCallsOutside, "types.MethodType()");
  // Bound by C they would be of another type, which is what a trace takes them for.
  if (Py_IS_TYPE(args.values[0], &PyMethodDescr_Type) ||
      Py_IS_TYPE(args.values[0], &PyClassMethodDescr_Type) ||
      Py_IS_TYPE(args.values[0], &PyWrapperDescr_Type))
    return t.breakWith(Reason::kUnsupportedObject, "a method of a method in C");
  return stealRef(PyMethod_New(args.values[0], args.values[1]));
}

}  // namespace

namespace {

// object.__init_subclass__: it takes nothing and does nothing.
Out endOfInitSubclass(Tracer& t, const Args& args) {
  if (args.values.size() != 1)
    return t.breakWith(Reason::kRaises, "__init_subclass__ with arguments that nobody takes");
  return newRef(Py_None);
}

}  // namespace

void registerClasses() {
  registerRow(PyDict_GetItem(stator_type_dict(&PyBaseObject_Type), initSubclass()),
              CallRow{CallKind::kHandler, endOfInitSubclass});
  registerHandler("builtins.__build_class__", buildClass);
  registerHandler("builtins.classmethod", wrapMethod<&PyClassMethod_Type>);
  registerHandler("builtins.staticmethod", wrapMethod<&PyStaticMethod_Type>);
  registerHandler("builtins.property", wrapMethod<&PyProperty_Type>);
  registerHandler("types.MethodType", makeMethod);
}

}  // namespace stator::interpret
