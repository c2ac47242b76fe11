// What guards do not hold: see LooseReferences.
#include "base/check.h"
#include "guards/program.h"
#include "sources/short_lived.h"

#include <algorithm>

namespace stator::guards {

namespace {

// By weak reference: the program that ends with its object.
std::unordered_map<PyObject*, GuardProgram::Impl*>& watchers() {
  static auto* table = new std::unordered_map<PyObject*, GuardProgram::Impl*>();
  return *table;
}

PyObject* isGone(PyObject*, PyObject* reference) {
  auto found = watchers().find(reference);
  if (found != watchers().end()) found->second->contradiction = found->second->outlived = true;
  Py_RETURN_NONE;
}

PyObject* callback() {
  static PyMethodDef method = {"is_gone", isGone, METH_O, nullptr};
  static PyObject* const function = PyCFunction_New(&method, nullptr);
  return function;
}

// Also an instance of a class that may go (a descriptor of such a class): it would hold its class.
bool mayGo(PyObject* object) {
  if (sources::isShortLived(object)) return true;
  return object != nullptr && PyType_SUPPORTS_WEAKREFS(Py_TYPE(object)) &&
         sources::isShortLived(reinterpret_cast<PyObject*>(Py_TYPE(object)));
}

// Whether all that it is known by may go: then it must not be held either.
bool isShortLived(const TypeVersion::OwnDescriptor& descriptor) {
  bool any = false;
  for (PyObject* part : descriptor.parts) {
    if (part == nullptr) continue;
    if (!sources::isShortLived(part)) return false;
    any = true;
  }
  return any;
}

}  // namespace

// The parts are what attributes of C's give, and live as long as the descriptor does.
TypeVersion::OwnDescriptor TypeVersion::OwnDescriptor::of(const Ref<>& name, PyObject* descriptor) {
  OwnDescriptor result{name};
  if (descriptor == nullptr) return result;
  PyTypeObject* kind = Py_TYPE(descriptor);
  auto part = [&](const char* attribute) -> PyObject* {
    Ref<> held = stealRef(PyObject_GetAttrString(descriptor, attribute));
    if (!held) PyErr_Clear();
    return held.get() != Py_None ? held.get() : nullptr;
  };
  if (kind == &PyMemberDescr_Type || kind == &PyGetSetDescr_Type) {
    if (PyUnicode_Compare(PyDescr_NAME(descriptor), name.get()) != 0) return result;
    result.parts = {reinterpret_cast<PyObject*>(PyDescr_TYPE(descriptor))};
  } else if (kind == &PyStaticMethod_Type || kind == &PyClassMethod_Type) {
    result.parts = {part("__func__")};
  } else if (kind == &PyProperty_Type) {
    result.parts = {part("fget"), part("fset"), part("fdel")};
  } else {
    return result;
  }
  result.kind = kind;
  return result;
}

LooseReferences::~LooseReferences() {
  for (auto& [object, reference] : watched_) watchers().erase(reference.get());
  for (Ref<>* reference : objects_) reference->release();
  for (Ref<PyTypeObject>* reference : types_) reference->release();
}

void LooseReferences::watch(PyObject* object) {
  Ref<>& reference = watched_[object];
  if (reference) return;
  reference = sources::weakReference(object, callback());
  watchers()[reference.get()] = &program_;
}

template <class T>
void LooseReferences::giveUp(Ref<T>& reference) {
  if (!mayGo(reference.object())) return;
  watch(reference.object());
  given_up_.insert(&reference);
  if constexpr (std::is_same_v<T, PyObject>)
    objects_.push_back(&reference);
  else
    types_.push_back(&reference);
}

void LooseReferences::loosenType(TypeVersion& version) {
  std::erase_if(version.names, [&](const TypeLookup& lookup) {
    auto descriptor = TypeVersion::OwnDescriptor::of(lookup.name, lookup.found.get());
    if (!isShortLived(descriptor)) return false;
    for (PyObject* part : descriptor.parts) {
      if (part != nullptr) watch(part);
    }
    version.own.push_back(std::move(descriptor));
    return true;
  });
  giveUp(version.type);
  for (TypeLookup& lookup : version.names) giveUp(lookup.found);
}

void LooseReferences::loosen(const sources::SourceSet& sources) {
  for (size_t i = 0; i < sources.size(); ++i) {
    const sources::Source& source = sources.at(i);
    if (source.kind == sources::SourceKind::kPinned && source.index == sources::kWeakPin &&
        sources::pinnedObject(source) != Py_None)
      watch(sources::pinnedObject(source));
  }
  for (Guard& guard : program_.guards) {
    switch (guard.kind) {
      case GuardKind::kIs:
      case GuardKind::kEquals:
      case GuardKind::kType:
      case GuardKind::kTypeVersion:
        giveUp(guard.expected);
        break;
      default:
        break;
    }
    std::erase_if(guard.names, [&](const TypeLookup& lookup) {
      return isShortLived(TypeVersion::OwnDescriptor::of(lookup.name, lookup.found.get()));
    });
    for (TypeLookup& lookup : guard.names) giveUp(lookup.found);
  }
  for (TypeVersion& version : program_.versions) loosenType(version);
  for (Guard& guard : program_.guards) {
    // The descriptor itself, as an entry of a class: the guard of the class's version speaks of it too, and does not
    // rely on its address.
    if (guard.kind != GuardKind::kIs || guard.source->kind != sources::SourceKind::kClassDict)
      continue;
    const auto descriptor = TypeVersion::OwnDescriptor::of(guard.source->key, guard.expected.get());
    if (descriptor.kind == nullptr) continue;
    for (const TypeVersion& version : program_.versions) {
      if (std::find(version.own.begin(), version.own.end(), descriptor) == version.own.end())
        continue;
      given_up_.insert(&guard.expected);
      objects_.push_back(&guard.expected);
      break;
    }
  }
  for (Ref<>* reference : objects_) stealRef(reference->get());
  for (Ref<PyTypeObject>* reference : types_) stealRef(reference->object());
}

}  // namespace stator::guards
