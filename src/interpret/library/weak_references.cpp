// Weak references, and dicts by them.
#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/core/tables.h"
#include "interpret/core/tracer.h"
#include "interpret/library/rows.h"
#include "interpret/objects/attributes.h"
#include "interpret/objects/drops.h"
#include "interpret/objects/lookups.h"
#include "interpret/objects/native_calls.h"
#include "python/objects.h"
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

// A WeakKeyDictionary from outside, and a key that is equal to nothing else (functools.singledispatchmethod keeps its
// methods so, from CPython 3.13 on).
bool isPlainEntry(Tracer& t, const Args& args) {
  PyTypeObject* type = Py_TYPE(args.values[1]);
  if (t.sourceOf(args.values[0]) == nullptr ||
      reinterpret_cast<PyObject*>(Py_TYPE(args.values[0])) !=
          torchObject("weakref.WeakKeyDictionary") ||
      type->tp_hash != PyBaseObject_Type.tp_hash ||
      type->tp_richcompare != PyBaseObject_Type.tp_richcompare || !PyType_SUPPORTS_WEAKREFS(type))
    return false;
  if (t.isMade(args.values[1])) return true;
  values::Info* info = t.values.find(args.values[1]);
  return info != nullptr && info->source != nullptr && !info->stand_in && !info->unpacked &&
         !mayBeGone(t, args.values[1]);
}

PyObject* setsItem() { return torchObject("weakref.WeakKeyDictionary.__setitem__"); }

// What there is for a key from outside; none of the entries is of one that the trace has made.
Out entryOf(Tracer& t, PyObject* dict, PyObject* key) {
  if (t.isMade(key)) return Ref<>();
  static PyObject* const data = PyUnicode_InternFromString("data");
  guardDefaultHash(t, Py_TYPE(key));
  t.world.guard(Guard{GuardKind::kIsWeak, t.sourceOf(key), nullptr, newRef(key)});
  STATOR_VALUE(entries, getAttrOrNull(t, dict, data));
  values::Info* info = entries ? t.values.find(entries.get()) : nullptr;
  if (info == nullptr || info->source == nullptr || info->shadow || info->overlay ||
      !PyDict_CheckExact(entries.get()))
    return t.breakWith(Reason::kCallsOutside, "a WeakKeyDictionary that was changed by hand");
  Ref<> reference = sources::weakReference(key, nullptr);
  if (!info->known) info->known = stealRef(PyDict_New());
  if (PyObject* seen = PyDict_GetItemWithError(info->known.get(), reference.get()))
    return seen == values::deletedMarker() ? Ref<>() : newRef(seen);
  const Source* source = t.world.child(SourceKind::kDictItem, info->source, reference.get());
  PyObject* raw = nullptr;
  const int found = stator_dict_get(entries.get(), reference.get(), source->hash, &raw);
  if (found == STATOR_UNKNOWN)
    return t.breakWith(Reason::kCallsOutside, "a WeakKeyDictionary with keys that compare");
  if (found == STATOR_MISSING) {
    t.world.guard(Guard{GuardKind::kAbsent, source});
    PyDict_SetItem(info->known.get(), reference.get(), values::deletedMarker());
    return Ref<>();
  }
  Ref<> known = info->known;
  STATOR_VALUE(value, fromOutside(t, raw, source));
  PyDict_SetItem(known.get(), reference.get(), value.get());
  return value;
}

Out weakDictItem(Tracer& t, const Args& args) {
  if (args.values.size() != 2 || !isPlainEntry(t, args))
    return t.breakWith(Reason::kCallsOutside, "weakref.WeakKeyDictionary.__getitem__");
  const auto& calls = t.effects.lateCalls();
  for (auto call = calls.rbegin(); call != calls.rend(); ++call) {
    if (call->function == setsItem() && call->arguments[0].get() == args.values[0] &&
        call->arguments[1].get() == args.values[1])
      return call->arguments[2];
  }
  STATOR_VALUE(found, entryOf(t, args.values[0], args.values[1]));
  if (found) return found;
  STATOR_VALUE(reference, fromNativeMade(t, sources::weakReference(args.values[1], nullptr)));
  PyErr_SetObject(PyExc_KeyError, reference.get());
  return t.raiseCurrentError();
}

Out setWeakDictItem(Tracer& t, const Args& args) {
  if (args.values.size() != 3 || !isPlainEntry(t, args))
    return t.breakWith(Reason::kCallsOutside, "weakref.WeakKeyDictionary.__setitem__");
  t.effects.callLate(
      {setsItem(), {newRef(args.values[0]), newRef(args.values[1]), newRef(args.values[2])}, true});
  return newRef(Py_None);
}

}  // namespace

void registerWeakReferences() {
  registerHandler("weakref.ref", weakReference);
  registerHandler("weakref.WeakKeyDictionary.__getitem__", weakDictItem);
  registerHandler("weakref.WeakKeyDictionary.__setitem__", setWeakDictItem);
}

}  // namespace stator::interpret
