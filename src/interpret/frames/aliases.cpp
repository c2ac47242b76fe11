// Inputs that become aliases of each other on a later call: what a trace took for two things has to be two.
#include "interpret/core/known.h"
#include "interpret/core/tracer.h"
#include "interpret/frames/plan_builder.h"
#include "interpret/objects/instance_attributes.h"
#include "python/frame.h"
#include "python/objects.h"
#include "python/types.h"
#include "tensor/meta_of.h"

namespace stator::interpret {

namespace {

bool isWritten(const Tracer& t, const values::Info* info) {
  if (info->dirty || info->overlay || (info->attribute_part && info->attribute_part->overlay))
    return true;
  for (const ClassState::Change& change : t.classes.changes()) {
    if (change.object.get() == info->object.get()) return true;
  }
  return false;
}

bool isOfInput(const Source* source) {
  while (source->base != nullptr) source = source->base;
  return source->kind == SourceKind::kLocal || source->kind == SourceKind::kStack;
}

// The dict of `**kwargs` at the start of a call: a new one, whoever calls.
bool isKeywordDict(const Tracer& t, const Source* source) {
  const SymbolicFrame& root = t.frames.empty() ? t.frames.finished() : t.frames.driven();
  const PyCodeObject* code = root.code->code();
  if ((code->co_flags & CO_VARKEYWORDS) == 0 ||
      stator_frame_offset(t.world.frame()) != root.code->firstLegal())
    return false;
  const int varargs = (code->co_flags & CO_VARARGS) != 0 ? 1 : 0;
  return source->index == code->co_argcount + code->co_kwonlyargcount + varargs;
}

// A dict that somebody passed, and that may be the __dict__ of an object the next time: not one of those that every
// module has.
bool isFreeDict(const Tracer& t, values::Info* info) {
  if (!PyDict_CheckExact(info->object.get()) || info->attributes_of != nullptr) return false;
  const Source* source = info->source;
  // Those of the program's globals and classes stay what they are.
  if (!isOfInput(source)) return false;
  switch (source->kind) {
    case SourceKind::kPinned:
    case SourceKind::kGlobals:
    case SourceKind::kFuncGlobals:
    case SourceKind::kProxied:
    case SourceKind::kObjectDict:
      return false;
    case SourceKind::kAttr:
      break;
    case SourceKind::kLocal:
      return !isKeywordDict(t, source);
    default:
      return true;
  }
  // The tables of a module: parameters, hooks and so on.
  if (!PyUnicode_Check(source->key.get()) || PyUnicode_READ_CHAR(source->key.get(), 0) != '_')
    return true;
  Ref<> owner = sources::read(*source->base, t.world.roots());
  if (!owner) PyErr_Clear();
  return !owner || !isModule(owner.get());
}

// Whether two things are one, which the trace has respected, has to stay as it is.
void guardApart(Tracer& t, values::Info* one, const Source* other) {
  Ref<> now = sources::read(*other, t.world.roots());
  if (!now) PyErr_Clear();
  const bool same = now.get() == one->object.get();
  t.world.guard(Guard{same ? GuardKind::kSameAs : GuardKind::kNotSameAs, one->source, other});
}

void addModuleGuards(Tracer& t, values::Info* dict);

// `f(object, dict)`: the dict must not turn out to be the object's own, where the trace wrote to one and looked at the
// other.
void addDictGuards(Tracer& t) {
  std::vector<values::Info*> dicts;
  for (values::Info* info : t.values.all()) {
    if (info->origin == values::Origin::kOutside && info->source && isFreeDict(t, info) &&
        (info->dirty || info->overlay || info->shadow || info->known || info->length_guarded))
      dicts.push_back(info);
  }
  static PyObject* const of_modules = PyUnicode_InternFromString("_parameters");
  for (values::Info* dict : dicts) {
    bool modules = false;
    const bool dict_written = isWritten(t, dict);
    for (values::Info* info : t.values.all()) {
      PyObject* object = info->object.get();
      if (info->origin != values::Origin::kOutside || !info->source || info == dict ||
          PyType_Check(object) || PyModule_Check(object) || !hasInstanceDict(object))
        continue;
      const values::Info* part = values::attributePart(info);
      const values::Info* own = info->attributes ? t.values.find(info->attributes) : nullptr;
      const bool written = (part != nullptr && part->overlay) || (own && isWritten(t, own));
      if (!written && !(dict_written && ((part != nullptr && part->known) || info->attributes)))
        continue;
      if (isModule(object) && PyDict_Contains(dict->object.get(), of_modules) == 0) {
        // One guard for all of them: every module has such an entry in its dict.
        if (!modules)
          t.world.guard(Guard{GuardKind::kAbsent,
                              t.world.child(SourceKind::kDictItem, dict->source, of_modules)});
        modules = true;
        continue;
      }
      t.world.guard(Guard{GuardKind::kNotSameAs, dict->source,
                          t.world.child(SourceKind::kObjectDict, info->source)});
    }
    if (dict_written) addModuleGuards(t, dict);
  }
}

// Parameters and submodules are read without a look at the dict that they are in: `dict`, which the trace wrote to,
// must not be it.
void addModuleGuards(Tracer& t, values::Info* dict) {
  for (values::Info* info : t.values.all()) {
    const Source* source = info->origin == values::Origin::kOutside ? info->source : nullptr;
    if (source == nullptr) continue;
    const char* table = source->kind == SourceKind::kParameter   ? "_parameters"
                        : source->kind == SourceKind::kBuffer    ? "_buffers"
                        : source->kind == SourceKind::kSubmodule ? "_modules"
                                                                 : nullptr;
    if (table == nullptr) continue;
    int there = PyDict_Contains(dict->object.get(), source->key.get());
    if (there < 0) PyErr_Clear();
    if (there == 0) {
      // The name is in the module's dict. One guard for all modules that have it.
      t.world.guard(Guard{GuardKind::kAbsent,
                          t.world.child(SourceKind::kDictItem, dict->source, source->key.get())});
      continue;
    }
    Ref<> name = stealRef(PyUnicode_InternFromString(table));
    guardApart(t, dict, t.world.child(SourceKind::kAttr, source->base, name.get()));
  }
}

template <int n>
PyObject* containerBehind(PyObject*, PyObject* iterator) {
  PyObject* container = stator_iterator_container(iterator, n);
  return Py_NewRef(container != nullptr ? container : Py_None);
}

// What an iterator from outside goes over, as a source.
const Source* behind(Tracer& t, const Source* iterator, int n) {
  static PyMethodDef methods[] = {{"container_0", containerBehind<0>, METH_O, nullptr},
                                  {"container_1", containerBehind<1>, METH_O, nullptr},
                                  {"container_2", containerBehind<2>, METH_O, nullptr},
                                  {"container_3", containerBehind<3>, METH_O, nullptr}};
  static_assert(std::size(methods) == STATOR_MOST_CONTAINERS);
  static PyObject* asks[STATOR_MOST_CONTAINERS] = {};
  if (asks[n] == nullptr) asks[n] = PyCFunction_New(&methods[n], nullptr);
  return t.world.child(SourceKind::kAsked, iterator, newRef(asks[n]).get());
}

// An iterator from outside whose container is written to.
void addIteratorGuards(Tracer& t) {
  const std::vector<values::Info*> all = t.values.all();
  for (const values::Info* info : all) {
    if (info->taken == 0) continue;
    for (int n = 0; n < STATOR_MOST_CONTAINERS; ++n) {
      PyObject* container = stator_iterator_container(info->object.get(), n);
      if (container == nullptr || PyTuple_Check(container)) continue;
      for (values::Info* other : all) {
        if (other->origin != values::Origin::kOutside || !other->source) continue;
        PyObject* object = other->object.get();
        if (isWritten(t, other) && Py_TYPE(object) == Py_TYPE(container))
          guardApart(t, other, behind(t, info->source, n));
        if (other->overlay && PyDict_Check(container) && _PyObject_GetDictPtr(object) != nullptr)
          t.world.guard(Guard{GuardKind::kNotSameAs,
                              t.world.child(SourceKind::kObjectDict, other->source),
                              behind(t, info->source, n)});
      }
    }
  }
}

// Dicts that are looked into as dicts, while what they belong to is written by other ways: attributes of tensors and of
// classes. False: one is the other, and the trace has not seen it.
bool addOwnerGuards(Tracer& t) {
  std::vector<std::pair<const Source*, PyObject*>> dicts;  // with the one that it must not be
  for (values::Info* info : t.values.all()) {
    if (!info->overlay) continue;
    PyObject* object = info->object.get();
    if (PyType_Check(object)) {
      PyObject* dict = stator_type_entries(reinterpret_cast<PyTypeObject*>(object));
      dicts.emplace_back(t.world.sources().pinned(dict), dict);
    } else if (graph::isStandIn(object) && graph::asStandIn(object)->node->source != nullptr &&
               graph::asStandIn(object)->node->example) {
      PyObject** slot = _PyObject_GetDictPtr(graph::asStandIn(object)->node->example.get());
      dicts.emplace_back(
          t.world.child(SourceKind::kObjectDict, graph::asStandIn(object)->node->source),
          slot != nullptr ? *slot : nullptr);
    }
  }
  if (dicts.empty()) return true;
  for (values::Info* info : t.values.all()) {
    const bool proxied = info->source && info->source->kind == SourceKind::kProxied;
    if (info->origin != values::Origin::kOutside || !info->source ||
        !PyDict_CheckExact(info->object.get()) || (!proxied && !isFreeDict(t, info)))
      continue;
    for (const auto& [source, dict] : dicts) {
      if (dict == info->object.get()) return false;
      t.world.guard(Guard{GuardKind::kNotSameAs, info->source, source});
    }
  }
  return true;
}

// Objects may be given one __dict__. False: two that the trace took apart have one now. Guards against it later only
// where they are few: it takes a class that sets __dict__.
bool addSharedDictGuards(Tracer& t) {
  constexpr size_t kMost = 16;
  struct Used {
    const Source* source;
    PyObject* dict;  // null: none yet
    bool written;
  };
  std::vector<Used> objects;
  bool any = false;
  for (values::Info* info : t.values.all()) {
    PyObject* object = info->object.get();
    if (info->origin != values::Origin::kOutside || !info->source || PyType_Check(object) ||
        PyModule_Check(object) || PyFunction_Check(object) || tensor::isTensor(object) ||
        isModule(object) || !hasInstanceDict(object))
      continue;
    const values::Info* part = values::attributePart(info);
    const values::Info* own = info->attributes ? t.values.find(info->attributes) : nullptr;
    const bool written = (part != nullptr && part->overlay) || (own && isWritten(t, own));
    if (!written && !(part != nullptr && part->known)) continue;
    StatorView view;
    if (!stator_view_object(&view, object)) continue;
    objects.push_back({info->source, reinterpret_cast<PyObject*>(view.dict), written});
    any |= written;
  }
  if (!any) return true;
  std::vector<std::pair<const Source*, const Source*>> pairs;
  for (size_t i = 0; i < objects.size(); ++i) {
    for (size_t j = i + 1; j < objects.size(); ++j) {
      if (!objects[i].written && !objects[j].written) continue;
      if (objects[i].dict != nullptr && objects[i].dict == objects[j].dict) return false;
      if (isOfInput(objects[i].source) && isOfInput(objects[j].source))
        pairs.emplace_back(objects[i].source, objects[j].source);
    }
  }
  if (pairs.size() > kMost) return true;
  for (const auto& [one, other] : pairs) {
    t.world.guard(Guard{GuardKind::kNotSameAs, t.world.child(SourceKind::kObjectDict, one),
                        t.world.child(SourceKind::kObjectDict, other)});
  }
  return true;
}

}  // namespace

bool addAliasGuards(Tracer& t) {
  addDictGuards(t);
  addIteratorGuards(t);
  // What was written must not turn out to be something else that was read.
  for (values::Info* written : t.values.all()) {
    if (!isWritten(t, written) || written->origin != values::Origin::kOutside || !written->source)
      continue;
    if (PyType_Check(written->object.get())) continue;
    for (values::Info* other : t.values.all()) {
      if (other == written || other->origin != values::Origin::kOutside || !other->source) continue;
      if (Py_TYPE(other->object.get()) != Py_TYPE(written->object.get())) continue;
      t.world.guard(Guard{GuardKind::kNotSameAs, other->source, written->source});
    }
  }
  for (graph::Node* written : t.graphs.current().inputs()) {
    // Attributes of tensors: what is written must not be the other's.
    values::Info* object = written->meta != nullptr && written->example
                               ? t.values.find(written->example.get())
                               : nullptr;
    values::Info* info =
        object != nullptr && object->stand_in ? t.values.find(object->stand_in.get()) : nullptr;
    if (info == nullptr || !info->overlay) continue;
    for (graph::Node* other : t.graphs.current().inputs()) {
      if (other != written && other->meta != nullptr && other->source != nullptr)
        t.world.guard(Guard{GuardKind::kNotSameAs, other->source, written->source});
    }
  }
  for (auto one = t.identities.compared().begin(); one != t.identities.compared().end(); ++one) {
    for (auto other = std::next(one); other != t.identities.compared().end(); ++other) {
      if (one->second == other->second)
        t.world.guard(Guard{GuardKind::kNotSameAs, one->first, other->first});
    }
  }
  return addSharedDictGuards(t) && addOwnerGuards(t);
}

}  // namespace stator::interpret
