// Weak references, and dicts by them.
#include "interpret/core/known.h"
#include "interpret/core/tables.h"
#include "interpret/core/tracer.h"
#include "interpret/library/rows.h"
#include "interpret/objects/drops.h"
#include "interpret/objects/native_calls.h"
#include "sources/short_lived.h"

namespace stator::interpret {

namespace {

// weakref.ref(object) of an object that is there already: the trace neither makes nor drops it. CPython gives out the
// one that there is; the trace's has a callback, so that it is nobody else's, and stands for the program's as long as
// that has none.
Out weakReference(Tracer& t, const Args& args) {
  if (args.values.size() != 1 || args.positional != 1)
    return t.breakWith(Reason::kCallsOutside, "weakref.ref() with a callback");
  values::Info* info = t.values.find(args.values[0]);
  if (info == nullptr || info->origin != values::Origin::kOutside || info->stand_in ||
      info->unpacked || !PyType_SUPPORTS_WEAKREFS(Py_TYPE(args.values[0])) ||
      mayBeGone(t, args.values[0]))
    return t.breakWith(Reason::kCallsOutside, "weakref.ref() of what the trace may drop");
  Ref<> all = stealRef(PyObject_CallOneArg(torchObject("_weakref.getweakrefs"), args.values[0]));
  if (!all) return t.raiseCurrentError();
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(all.get()); ++i) {
    PyObject* there = PyList_GET_ITEM(all.get(), i);
    if (t.isMade(there)) return newRef(there);
    const auto* reference = reinterpret_cast<PyWeakReference*>(there);
    if (PyWeakref_CheckRefExact(there) && reference->wr_callback == nullptr)
      return t.breakWith(Reason::kCallsOutside, "weakref.ref() of what has one already");
  }
  return fromNativeMade(t, stealRef(PyWeakref_NewRef(args.values[0], builtinFunction("id"))));
}

// A WeakKeyDictionary from outside, and a key that the trace has made and that is equal to nothing else: none of its
// entries is that key's but those that the trace has set itself (functools.singledispatchmethod, from CPython 3.13 on).
bool isNewKey(Tracer& t, const Args& args) {
  if (t.sourceOf(args.values[0]) == nullptr || !t.isMade(args.values[1])) return false;
  PyTypeObject* type = Py_TYPE(args.values[1]);
  return reinterpret_cast<PyObject*>(Py_TYPE(args.values[0])) ==
             torchObject("weakref.WeakKeyDictionary") &&
         type->tp_hash == PyBaseObject_Type.tp_hash &&
         type->tp_richcompare == PyBaseObject_Type.tp_richcompare && PyType_SUPPORTS_WEAKREFS(type);
}

PyObject* setsItem() { return torchObject("weakref.WeakKeyDictionary.__setitem__"); }

Out weakDictItem(Tracer& t, const Args& args) {
  if (args.values.size() != 2 || !isNewKey(t, args))
    return t.breakWith(Reason::kCallsOutside, "weakref.WeakKeyDictionary.__getitem__");
  const auto& calls = t.effects.lateCalls();
  for (auto call = calls.rbegin(); call != calls.rend(); ++call) {
    if (call->function == setsItem() && call->arguments[0].get() == args.values[0] &&
        call->arguments[1].get() == args.values[1])
      return call->arguments[2];
  }
  STATOR_VALUE(reference, fromNativeMade(t, sources::weakReference(args.values[1], nullptr)));
  PyErr_SetObject(PyExc_KeyError, reference.get());
  return t.raiseCurrentError();
}

Out setWeakDictItem(Tracer& t, const Args& args) {
  if (args.values.size() != 3 || !isNewKey(t, args))
    return t.breakWith(Reason::kCallsOutside, "weakref.WeakKeyDictionary.__setitem__");
  t.effects.callLate(
      {setsItem(), {newRef(args.values[0]), newRef(args.values[1]), newRef(args.values[2])}});
  return newRef(Py_None);
}

}  // namespace

void registerWeakReferences() {
  registerHandler("weakref.ref", weakReference);
  registerHandler("weakref.WeakKeyDictionary.__getitem__", weakDictItem);
  registerHandler("weakref.WeakKeyDictionary.__setitem__", setWeakDictItem);
}

}  // namespace stator::interpret
