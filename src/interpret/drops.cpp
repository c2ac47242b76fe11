#include "interpret/drops.h"

#include "base/ref.h"
#include "interpret/trace_iterator.h"
#include "interpret/tracer.h"
#include "tensor/meta_of.h"

#include <frameobject.h>

namespace stator::interpret {

namespace {

constexpr Py_ssize_t kLookedAt = 64;  // so many elements of a container

// torch keeps tables of tensors by weak reference (of fake tensors, of hooks), and TorchDynamo of modules, from which they go when they die:
// nothing that a program sees. Those of tensors are WeakKeyDictionaries and C functions too, which of other objects may be the program's.
bool isTorchCallback(PyObject* callback, bool tensor) {
  if (PyMethod_Check(callback)) callback = PyMethod_GET_FUNCTION(callback);
  if (PyCFunction_Check(callback)) return tensor;
  if (!PyFunction_Check(callback)) return false;
  PyObject* home = reinterpret_cast<PyFunctionObject*>(callback)->func_module;
  std::string_view name = home != nullptr && PyUnicode_Check(home) ? PyUnicode_AsUTF8(home) : "";
  return name == "torch" || name.substr(0, 6) == "torch." || (tensor && name == "weakref");
}

bool hasCallback(PyObject* value) {
  if (!PyType_SUPPORTS_WEAKREFS(Py_TYPE(value))) return false;
  const bool tensor = tensor::isTensor(value);
  auto* first = *reinterpret_cast<PyWeakReference**>(PyObject_GET_WEAKREFS_LISTPTR(value));
  for (PyWeakReference* reference = first; reference != nullptr; reference = reference->wr_next) {
    if (reference->wr_callback != nullptr && !isTorchCallback(reference->wr_callback, tensor))
      return true;
  }
  return false;
}

// An iterator of Python's own (enumerate, zip, map) that has the generator which it takes from.
int findGenerator(PyObject* value, void* depth) {
  if (PyGen_CheckExact(value)) return 1;
  PyTypeObject* type = Py_TYPE(value);
  const bool iterator = (type->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0 &&
                        type->tp_iternext != nullptr && type->tp_traverse != nullptr;
  auto left = *static_cast<int*>(depth);
  if (left == 0 || !(iterator || (type == &PyTuple_Type && left < 3))) return 0;
  left--;
  return type->tp_traverse(value, findGenerator, &left);
}

bool endIsNoticed(PyObject* value) {
  if (value == nullptr || values::isScalar(value) || graph::isStandIn(value) ||
      isTraceIterator(value))
    return false;
  PyTypeObject* type = Py_TYPE(value);
  if (PyType_Check(value) || PyModule_Check(value) || PyFunction_Check(value)) return false;
  if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0) {
    int depth = 3;
    return PyCoro_CheckExact(value) ||
           (type->tp_iternext != nullptr && findGenerator(value, &depth) != 0);
  }
  static PyObject* name = PyUnicode_InternFromString("__del__");
  return _PyType_Lookup(type, name) != nullptr || hasCallback(value);
}

bool dictHolds(PyObject* dict) {
  PyObject *key = nullptr, *item = nullptr;
  Py_ssize_t position = 0, seen = 0;
  while (PyDict_Next(dict, &position, &key, &item) && seen++ < kLookedAt) {
    if (endIsNoticed(item)) return true;
  }
  return false;
}

// An exception keeps the frames that it left, and their locals, alive.
bool tracebackHolds(PyObject* exception) {
  Ref<> traceback = stealRef(PyException_GetTraceback(exception));
  auto* entry = reinterpret_cast<PyTracebackObject*>(traceback.get());
  // The first entry is the frame that caught it, which lives.
  for (entry = entry != nullptr ? entry->tb_next : nullptr; entry != nullptr;
       entry = entry->tb_next) {
    Ref<> locals = stealRef(PyFrame_GetLocals(entry->tb_frame));
    if (!locals) PyErr_Clear();
    if (locals && PyDict_Check(locals.get()) && dictHolds(locals.get())) return true;
  }
  return false;
}

bool wasWritten(const values::Info* info) {
  return info->origin == values::Origin::kOutside &&
         (info->dirty || info->overlay || (info->as_object && info->as_object->overlay));
}

bool isOnTheWay(const sources::Source* owner, const sources::Source* to) {
  while (to != nullptr && to != owner) to = to->base;
  return to != nullptr;
}

// The owner from which it was read holds it still: a list of layers, an attribute, a global.
bool isHeldElsewhere(Tracer& tracer, PyObject* value) {
  values::Info* info = tracer.values.find(value);
  if (info == nullptr || info->origin != values::Origin::kOutside || info->source == nullptr ||
      info->source->base == nullptr)
    return false;
  const sources::Source* source = info->source;
  for (; source->base != nullptr; source = source->base) {
    switch (source->kind) {
      case SourceKind::kAttr:
      case SourceKind::kSubmodule:
      case SourceKind::kClassDict:
      case SourceKind::kDictItem:
      case SourceKind::kListItem:
      case SourceKind::kTupleItem:
      case SourceKind::kCell:
      case SourceKind::kClosure:
      case SourceKind::kDefault:
      case SourceKind::kObjectDict:
        continue;
      default:
        return false;
    }
  }
  if (source->kind == SourceKind::kLocal) {
    // A local that was assigned to since may have been the last to hold the owner.
    SymbolicFrame& root = *tracer.frames.front();
    size_t slot = static_cast<size_t>(source->index);
    if (!root.untouched[slot] && root.slots[slot].get() != tracer.roots.slots[slot]) return false;
  } else if (source->kind == SourceKind::kStack) {
    return false;
  }
  for (values::Info* other : tracer.values.all()) {
    // Also what hangs from an owner without being named: the dicts of a module.
    if (wasWritten(other) &&
        (other->source == nullptr || isOnTheWay(other->source, info->source) ||
         (other->source->base != nullptr && isOnTheWay(other->source->base, info->source))))
      return false;
  }
  return true;
}

}  // namespace

bool lastReferenceRunsCode(PyObject* value) {
  if (value == nullptr || Py_REFCNT(value) > 1 || values::isScalar(value)) return false;
  if (endIsNoticed(value)) return true;
  PyTypeObject* type = Py_TYPE(value);
  if (type == &PyList_Type || type == &PyTuple_Type) {
    PyObject** items = PySequence_Fast_ITEMS(value);
    for (Py_ssize_t i = 0; i < std::min(PySequence_Fast_GET_SIZE(value), kLookedAt); ++i) {
      if (endIsNoticed(items[i])) return true;
    }
    return false;
  }
  if (type == &PyDict_Type) return dictHolds(value);
  return PyExceptionInstance_Check(value) && tracebackHolds(value);
}

namespace {

// enumerate, zip, map and the like hold the generator that they take from.
bool holdsGenerator(Tracer& tracer, PyObject* value, int depth) {
  const auto* held = asTraceIterator(value)->sources;
  if (held == nullptr || depth > 8) return false;
  for (const Ref<>& source : *held) {
    PyObject* object = source.get();
    if (object == nullptr) continue;
    if (isTraceIterator(object) ? holdsGenerator(tracer, object, depth + 1)
                                : PyGen_CheckExact(object) && !isHeldElsewhere(tracer, object))
      return true;
  }
  return false;
}

}  // namespace

bool dropRunsUserCode(Tracer& tracer, PyObject* value) {
  if (value == nullptr || values::isScalar(value) || graph::isStandIn(value)) return false;
  if (isTraceIterator(value)) return holdsGenerator(tracer, value, 0);
  if (endIsNoticed(value)) return !isHeldElsewhere(tracer, value);
  PyTypeObject* type = Py_TYPE(value);
  if (type == &PyList_Type || type == &PyTuple_Type) {
    PyObject** items = PySequence_Fast_ITEMS(value);
    for (Py_ssize_t i = 0; i < std::min(PySequence_Fast_GET_SIZE(value), kLookedAt); ++i) {
      if (endIsNoticed(items[i])) return true;
    }
    return false;
  }
  if (type == &PyDict_Type) return dictHolds(value);
  return PyExceptionInstance_Check(value) && tracebackHolds(value);
}

bool mayBeGone(Tracer& tracer, PyObject* object) {
  values::Info* info = tracer.values.find(object);
  PyObject* seen = info != nullptr && info->stand_in ? info->stand_in.get() : object;
  for (auto& frame : tracer.frames) {
    for (Ref<>& slot : frame->slots) {
      if (slot.get() == seen) return false;
    }
    for (Ref<>& value : frame->stack) {
      if (value.get() == seen) return false;
    }
  }
  SymbolicFrame& root = *tracer.frames.front();
  for (size_t i = 0; i < root.slots.size(); ++i) {
    PyObject* before = tracer.roots.slots[i];
    if (root.untouched[i]) {
      if (before == object) return false;
      continue;
    }
    if (before == nullptr || values::isScalar(before)) continue;
    values::Info* known = tracer.values.find(before);
    PyObject* now = known != nullptr && known->stand_in ? known->stand_in.get() : before;
    if (root.slots[i].get() != now) return true;
  }
  if (root.stack.size() < tracer.stack_at_entry) return true;
  for (values::Info* other : tracer.values.all()) {
    if (wasWritten(other)) return true;
  }
  return false;
}

}  // namespace stator::interpret
