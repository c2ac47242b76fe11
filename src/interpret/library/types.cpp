// Methods of the types that classes and descriptors are made of.
#include "python/types.h"

#include "interpret/calls/calls.h"
#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/core/tables.h"
#include "interpret/core/tracer.h"
#include "interpret/library/rows.h"
#include "interpret/objects/attributes.h"
#include "interpret/objects/class_lookups.h"
#include "python/fields.h"

namespace stator::interpret {

namespace {

// Those that the trace makes are no subclasses of anything yet.
bool hasMadeClasses(Tracer& t) {
  for (values::Info* info : t.values.all()) {
    if (info->origin == values::Origin::kMade && PyType_Check(info->object.get())) return true;
  }
  return false;
}

PyObject* hasSubclasses(PyObject*, PyObject* type) {
  Ref<> list = stealRef(PyObject_CallMethod(type, "__subclasses__", nullptr));
  return list ? PyBool_FromLong(PyObject_IsTrue(list.get())) : nullptr;
}

// Of a class that has had none so far, and so no dict either.
Out noSubclasses(Tracer& t, PyTypeObject* type) {
  static PyMethodDef method = {"has_subclasses", hasSubclasses, METH_O, nullptr};
  static PyObject* const ask = PyCFunction_New(&method, nullptr);
  const Source* source = t.world.sources().pinned(reinterpret_cast<PyObject*>(type));
  t.world.guard(Guard{GuardKind::kIs, t.world.child(SourceKind::kAsked, source, ask), nullptr,
                      newRef(Py_False)});
  return t.made(stealRef(PyList_New(0)));
}

// cls.__subclasses__(). A class keeps its subclasses in a dict of its own, by their addresses: as long as its keys are
// these, so are the classes, which the capture holds.
Out subclasses(Tracer& t, const Args& args) {
  if (args.values.size() != 1 || !PyType_Check(args.values[0]))
    return t.breakWith(Reason::kCallsOutside, "type.__subclasses__");
  auto* type = reinterpret_cast<PyTypeObject*>(args.values[0]);
  Ref<> known = newRef(stator_type_subclasses(type));
  const bool own_table = stator_is_user_class(type) != 0;
  if (!known && own_table && !hasMadeClasses(t)) return noSubclasses(t, type);
  if (hasMadeClasses(t) || !own_table || !known || !PyDict_CheckExact(known.get()))
    return t.breakWith(Reason::kCallsOutside, "type.__subclasses__");
  Ref<> keys = stealRef(PyDict_Keys(known.get()));
  Ref<> expected = keys ? stealRef(PyList_AsTuple(keys.get())) : Ref<>();
  Ref<> list = stealRef(PyObject_CallMethod(args.values[0], "__subclasses__", nullptr));
  if (!list || !expected) return t.raiseCurrentError();
  t.world.guard(
      Guard{GuardKind::kDictKeys, t.world.sources().pinned(known.get()), nullptr, expected});
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list.get()); ++i) {
    PyObject* one = PyList_GET_ITEM(list.get(), i);
    STATOR_VALUE(held, fromOutside(t, one, t.world.sources().pinned(one)));
  }
  return t.made(list);
}

// descriptor.__get__(object) of an attribute that is written in C: what object.name gives, if that is where it is
// found.
Out getOfDescriptor(Tracer& t, const Args& args) {
  if (args.positional < 2 || args.keywordCount() != 0 || args.values[1] == Py_None)
    return t.breakWith(Reason::kCallsOutside, "__get__ of an attribute in C");
  PyObject* descriptor = args.values[0];
  PyObject* object = args.values[1];
  PyObject* name = PyDescr_NAME(descriptor);
  STATOR_VALUE(found, typeLookup(t, typeOf(t, object), name));
  if (found.get() != descriptor)
    return t.breakWith(Reason::kCallsOutside, "__get__ of an attribute that the class hides");
  if (const Source* source = t.sourceOf(descriptor))
    t.world.guard(Guard{GuardKind::kIs, source, nullptr, newRef(descriptor)});
  return runEntered(t, getAttr(t, object, name));
}

}  // namespace

void registerTypes() {
  registerHandler("builtins.type.__subclasses__", subclasses);
  registerHandler("types.GetSetDescriptorType.__get__", getOfDescriptor);
  registerHandler("types.MemberDescriptorType.__get__", getOfDescriptor);
}

}  // namespace stator::interpret
