#include "interpret/objects/texts.h"

#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/core/symbols.h"
#include "interpret/core/trace_iterator.h"
#include "interpret/objects/contents.h"
#include "interpret/objects/special_methods.h"
#include "python/objects.h"
#include "values/dicts.h"

namespace stator::interpret {

namespace {

// The items one by one, for which their own __repr__ may have to be asked.
Out textOfItems(Tracer& t, PyObject* value, PyObject* items) {
  static int depth = 0;
  struct Level {
    Level() { ++depth; }
    ~Level() { --depth; }
  } level;
  if (depth > 50)
    return t.breakWith(Reason::kUnsupportedObject, "formats deeply nested containers");
  auto text = [&](PyObject* item) -> Out {
    if (item == items || item == value)
      return t.breakWith(Reason::kUnsupportedObject, "formats a container that holds itself");
    return t.above.callNested(builtinFunction("repr"), {item});
  };
  Ref<> parts = stealRef(PyList_New(0));
  const bool dict = PyDict_Check(items), list = PyList_Check(items);
  Ref<> all = dict   ? values::dictItems(items)
              : list ? stealRef(PyList_GetSlice(items, 0, PyList_GET_SIZE(items)))
                     : stealRef(PyTuple_GetSlice(items, 0, PyTuple_GET_SIZE(items)));
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(all.get()); ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(all.get(), i);
    Ref<> part;
    if (dict) {
      STATOR_VALUE(key, text(PyTuple_GET_ITEM(item, 0)));
      STATOR_VALUE(shown, text(PyTuple_GET_ITEM(item, 1)));
      if (PyUnicode_Check(key.get()) && PyUnicode_Check(shown.get()))
        part = stealRef(PyUnicode_FromFormat("%U: %U", key.get(), shown.get()));
    } else {
      STATOR_VALUE(one, text(item));
      part = one;
    }
    if (!part || !PyUnicode_Check(part.get()))
      return t.breakWith(Reason::kRaises, "a __repr__ that gives no string");
    PyList_Append(parts.get(), part.get());
  }
  Ref<> comma = stealRef(PyUnicode_FromString(", "));
  Ref<> joined = stealRef(PyUnicode_Join(comma.get(), parts.get()));
  const char* form = dict                           ? "{%U}"
                     : list                         ? "[%U]"
                     : PyTuple_GET_SIZE(items) == 1 ? "(%U,)"
                                                    : "(%U)";
  return t.fromNative(stealRef(PyUnicode_FromFormat(form, joined.get())));
}

// An instance of the very class with the same in it, which no code of the program has made.
Ref<> emptyDict(PyTypeObject* base, PyTypeObject* type, PyObject* arguments) {
  Ref<> none = stealRef(PyTuple_New(0));
  Ref<> made = stealRef(base->tp_new(type, none.get(), nullptr));
  if (made && base->tp_init(made.get(), arguments != nullptr ? arguments : none.get(), nullptr))
    made.reset();
  return made;
}

Out orderedLikeness(Tracer& t, PyObject* value, PyObject* items) {
  if (isProgrammed(t, Py_TYPE(value), "items"))
    return t.breakWith(Reason::kUnsupportedObject, "formats an OrderedDict by its own items()");
  if (Py_TYPE(items) == Py_TYPE(value)) return newRef(items);
  Ref<> made = emptyDict(&PyODict_Type, Py_TYPE(value), nullptr);
  if (!made || !values::dictFill(made.get(), items)) return t.raiseCurrentError();
  return made;
}

Out defaultLikeness(Tracer& t, PyObject* value, PyObject* items) {
  static PyObject* const name = PyUnicode_InternFromString("default_factory");
  Ref<> factory = stealRef(PyObject_GenericGetAttr(value, name));
  if (!factory) return t.raiseCurrentError();
  if (const Source* source = t.sourceOf(value)) {
    STATOR_VALUE(
        read, fromOutside(t, factory.get(), t.world.child(SourceKind::kGenericAttr, source, name)));
  }
  if (!isNativeSafe(t, factory.get()) || PyFunction_Check(factory.get()))
    return t.breakWith(Reason::kUnsupportedObject, "formats a defaultdict with its factory");
  if (Py_TYPE(items) == Py_TYPE(value)) return newRef(items);
  Ref<> arguments = stealRef(PyTuple_Pack(1, factory.get()));
  Ref<> made = emptyDict(defaultDictType(), Py_TYPE(value), arguments.get());
  if (!made || !values::dictFill(made.get(), items)) return t.raiseCurrentError();
  return made;
}

Out setLikeness(Tracer& t, PyObject* value, PyObject* items) {
  if (isProgrammed(t, Py_TYPE(value), "__iter__"))
    return t.breakWith(Reason::kUnsupportedObject, "formats a set by its own __iter__");
  if (Py_TYPE(items) == Py_TYPE(value)) return newRef(items);
  return t.fromNative(stealRef(stator_set_like(Py_TYPE(value), items)));
}

// An instance of the class that only C's own code has made.
Out dequeLikeness(Tracer& t, PyObject* value, PyObject* items) {
  if (Py_TYPE(items) == Py_TYPE(value)) return newRef(items);
  if (Py_TYPE(value)->tp_finalize != nullptr)
    return t.breakWith(Reason::kUnsupportedObject, "formats a deque with a __del__");
  Ref<> maxlen = stealRef(PyObject_GetAttrString(items, "maxlen"));
  Ref<> none = stealRef(PyTuple_New(0));
  Ref<> arguments = maxlen ? stealRef(PyTuple_Pack(2, items, maxlen.get())) : Ref<>();
  Ref<> made = arguments && none
                   ? stealRef(dequeType()->tp_new(Py_TYPE(value), none.get(), nullptr))
                   : Ref<>();
  if (!made || dequeType()->tp_init(made.get(), arguments.get(), nullptr) != 0)
    return t.raiseCurrentError();
  return made;
}

// Shows the items, and not the class.
bool isNameless(reprfunc slot) {
  return slot == PyList_Type.tp_repr || slot == PyTuple_Type.tp_repr || slot == PyDict_Type.tp_repr;
}

// What C's repr may be asked about in the value's stead; ok with null: there is nothing.
Out likeness(Tracer& t, reprfunc slot, PyObject* value, PyObject* items) {
  if (isNameless(slot)) return newRef(items);
  if (slot == PySet_Type.tp_repr) return setLikeness(t, value, items);
  if (slot == PyODict_Type.tp_repr) return orderedLikeness(t, value, items);
  if (slot == defaultDictType()->tp_repr) return defaultLikeness(t, value, items);
  if (slot == dequeType()->tp_repr) return dequeLikeness(t, value, items);
  // Other tuples in C (struct sequences, torch.Size) do not change: the value itself.
  if (PyTuple_Check(value)) return newRef(value);
  return Ref<>();
}

// Nothing in it but plain values, whatever the container is.
bool hasPlainItems(Tracer& t, PyObject* items) {
  if (PyDict_Check(items)) {
    PyObject *key = nullptr, *value = nullptr;
    Py_ssize_t position = 0;
    while (PyDict_Next(items, &position, &key, &value)) {
      if (!isNativeSafe(t, key) || !isNativeSafe(t, value)) return false;
    }
    return true;
  }
  if (PyAnySet_Check(items)) {
    PyObject* item = nullptr;
    Py_hash_t hash = 0;
    Py_ssize_t position = 0;
    while (_PySet_NextEntry(items, &position, &item, &hash)) {
      if (!isNativeSafe(t, item)) return false;
    }
    return true;
  }
  if (!PyList_Check(items) && !PyTuple_Check(items)) {
    Ref<> iterator = stealRef(dequeType()->tp_iter(items));
    while (Ref<> item = stealRef(PyIter_Next(iterator.get()))) {
      if (!isNativeSafe(t, item.get())) return false;
    }
    return true;
  }
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items); ++i) {
    if (!isNativeSafe(t, PySequence_Fast_GET_ITEM(items, i))) return false;
  }
  return true;
}

}  // namespace

bool isTextContainer(PyObject* value) {
  return !graph::isStandIn(value) && !isTraceIterator(value) &&
         (PyList_Check(value) || PyTuple_Check(value) || PyDict_Check(value) ||
          PyAnySet_Check(value) || isDeque(value));
}

Out containerText(Tracer& tracer, PyTypeObject* owner, PyObject* value) {
  STATOR_VALUE(items, contents(tracer, value));
  if (tracer.sizes.any()) makeConcrete(tracer, items.get());
  const reprfunc slot = owner->tp_repr;
  if (hasPlainItems(tracer, items.get())) {
    STATOR_VALUE(shown, likeness(tracer, slot, value, items.get()));
    if (shown) return tracer.fromNative(stealRef(slot(shown.get())));
  } else if (hasStandIn(tracer, items.get())) {
    return tracer.breakWith(Reason::kDataDependentRead, "formats a container of tensors");
  } else if (isNameless(slot)) {
    return textOfItems(tracer, value, items.get());
  }
  return tracer.breakWith(Reason::kUnsupportedObject,
                          std::string("formats a ") + Py_TYPE(value)->tp_name);
}

Out textOf(Tracer& tracer, PyObject* value, bool repr) {
  if (isProxied(tracer, value)) {
    // Its str() is that of what lies behind it.
    PyTypeObject* type = Py_TYPE(value);
    if (isProgrammed(tracer, type, "__repr__") || isProgrammed(tracer, type, "__str__"))
      return tracer.breakWith(Reason::kUnsupportedObject, "formats a mappingproxy");
    STATOR_VALUE(inner, containerText(tracer, type, value));
    return repr ? tracer.fromNative(stealRef(PyUnicode_FromFormat("mappingproxy(%U)", inner.get())))
                : Out(inner);
  }
  if (!repr && Py_TYPE(value)->tp_str != PyBaseObject_Type.tp_str)
    return tracer.breakWith(Reason::kUnsupportedObject,
                            std::string("str() of a ") + Py_TYPE(value)->tp_name);
  return containerText(tracer, Py_TYPE(value), value);
}

Out programmedText(Tracer& tracer, PyObject* value, const char* method, const char* asked,
                   const Args& args) {
  STATOR_VALUE(bound, slotMethod(tracer, value, method));
  tracer.world.keep(bound);
  STATOR_VALUE(text, tracer.above.callNested(bound.get(), args));
  PyTypeObject* type = typeOf(tracer, text.get());
  if (PyType_IsSubtype(type, &PyUnicode_Type)) return text;
  const bool format = std::string_view(asked) == "__format__";
  return tracer.raiseNew(
      PyExc_TypeError,
      format ? "%s must return a str, not %.200s" : "%s returned non-string (type %.200s)", asked,
      type->tp_name);
}

bool losesClass(Tracer& tracer, PyObject* value, PyObject* instead) {
  if (value == instead || !isTextContainer(value)) return false;
  const reprfunc slot = Py_TYPE(value)->tp_repr;
  return isProxied(tracer, value) || slot != Py_TYPE(instead)->tp_repr ||
         (!isNameless(slot) && Py_TYPE(value) != Py_TYPE(instead));
}

Out textOfFunction(Tracer& t, PyObject* function) {
  values::Info* info = t.values.find(function);
  const bool outside = info != nullptr && info->origin == values::Origin::kOutside;
  if (info == nullptr || (outside && (!t.options.fullgraph || info->source == nullptr)))
    return t.breakWith(Reason::kUnsupportedObject, "formats an address");
  if (outside)
    t.world.guard(Guard{GuardKind::kIsWeak, info->source, nullptr, newRef(function)});
  else
    info->address_shown = true;
  return t.fromNative(stealRef(PyObject_Repr(function)));
}

}  // namespace stator::interpret
