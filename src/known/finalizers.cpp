#include "known/finalizers.h"

#include "base/ref.h"
#include "base/stack_room.h"
#include "base/text.h"
#include "graph/stand_in.h"
#include "known/torch_names.h"
#include "python/frame.h"
#include "python/types.h"
#include "sources/short_lived.h"
#include "tensor/tensor_guard.h"
#include "values/value_table.h"

#include <frameobject.h>
#include <string_view>

namespace stator::known {

namespace {

// torch keeps tables of tensors by weak reference (of fake tensors, of hooks), and TorchDynamo of modules, from which
// they go when they die: nothing that a program sees. Those of tensors are WeakKeyDictionaries and C functions too,
// which of other objects may be the program's.
bool isTorchCallback(PyObject* callback, bool tensor) {
  if (PyMethod_Check(callback)) callback = PyMethod_GET_FUNCTION(callback);
  if (PyCFunction_Check(callback)) return tensor;
  if (!PyFunction_Check(callback)) return false;
  PyObject* home = reinterpret_cast<PyFunctionObject*>(callback)->func_module;
  std::string_view name = home != nullptr && PyUnicode_Check(home) ? utf8(home) : "";
  return name == "torch" || name.substr(0, 6) == "torch." || (tensor && name == "weakref");
}

// functools.partial of stator._core.call_unseen: what our tables have called (stator/_caches.py).
bool isUnseenCall(PyObject* callback) {
  static PyObject* const partial = torchObject("functools.partial");
  static PyObject* const unseen = torchObject("stator._core.call_unseen");
  static PyObject* const name = PyUnicode_InternFromString("func");
  if (reinterpret_cast<PyObject*>(Py_TYPE(callback)) != partial) return false;
  Ref<> function = stealRef(PyObject_GetAttr(callback, name));
  if (!function) PyErr_Clear();
  return function.get() == unseen;
}

bool hasCallback(PyObject* value) {
  if (!PyType_SUPPORTS_WEAKREFS(Py_TYPE(value))) return false;
  const bool tensor = tensor::isTensor(value);
  auto* first = *reinterpret_cast<PyWeakReference**>(PyObject_GET_WEAKREFS_LISTPTR(value));
  for (PyWeakReference* reference = first; reference != nullptr; reference = reference->wr_next) {
    PyObject* callback = reference->wr_callback;
    if (callback != nullptr && !sources::isOwnCallback(callback) && !isUnseenCall(callback) &&
        !isTorchCallback(callback, tensor))
      return true;
  }
  return false;
}

// An iterator of Python's own (enumerate, zip, map) that has the generator which it takes from.
int findGenerator(PyObject* value, void* depth) {
  if (PyGen_CheckExact(value)) return 1;
  PyTypeObject* type = Py_TYPE(value);
  const bool iterator =
      !stator_is_user_class(type) && type->tp_iternext != nullptr && type->tp_traverse != nullptr;
  auto left = *static_cast<int*>(depth);
  if (left == 0 || !(iterator || (type == &PyTuple_Type && left < 3))) return 0;
  left--;
  return type->tp_traverse(value, findGenerator, &left);
}

}  // namespace

bool endIsNoticed(PyObject* value) {
  if (value == nullptr || values::isScalar(value) || graph::isStandIn(value)) return false;
  PyTypeObject* type = Py_TYPE(value);
  if (PyType_Check(value)) return false;
  if (PyFunction_Check(value)) return hasCallback(value) || hasCallback(PyFunction_GET_CODE(value));
  if (PyModule_Check(value)) return hasCallback(value);
  if (!stator_is_user_class(type)) {
    int depth = 3;
    return PyCoro_CheckExact(value) ||
           (type->tp_iternext != nullptr && findGenerator(value, &depth) != 0);
  }
  static PyObject* name = PyUnicode_InternFromString("__del__");
  return _PyType_Lookup(type, name) != nullptr || hasCallback(value);
}

namespace {

const KeptByTrace kNoTrace;

// What dies with an object: whatever it alone holds.
class Contents {
 public:
  explicit Contents(const KeptByTrace& kept) : kept_(kept) {}

  // Of what the object holds, and of what that holds in turn.
  bool noticed(PyObject* holder) {
    if (left_ == 0) return false;
    left_--;
    if (PyFunction_Check(holder)) {
      // its globals do not end with it
      auto* function = reinterpret_cast<PyFunctionObject*>(holder);
      return holds(function->func_closure) || holds(function->func_defaults) ||
             holds(function->func_dict);
    }
    return isLookedInto(holder) && Py_TYPE(holder)->tp_traverse(holder, visit, this) != 0;
  }

 private:
  static int visit(PyObject* value, void* self) {
    return static_cast<Contents*>(self)->holds(value) ? 1 : 0;
  }
  // A context manager made of a generator has not begun it, or its __exit__ takes it to its end.
  static bool runsItsGenerator(PyTypeObject* type) {
    static auto* const managers =
        reinterpret_cast<PyTypeObject*>(torchObject("contextlib._GeneratorContextManagerBase"));
    return PyType_IsSubtype(type, managers) != 0;
  }
  static bool isLookedInto(PyObject* holder) {
    PyTypeObject* type = Py_TYPE(holder);
    return type->tp_traverse != nullptr && !PyType_Check(holder) && !PyModule_Check(holder) &&
           !PyGen_Check(holder) && !PyFrame_Check(holder) && !tensor::isTensor(holder) &&
           !runsItsGenerator(type);
  }
  bool holds(PyObject* value) {
    if (value == nullptr || values::isScalar(value) || left_ == 0) return false;
    const bool touched = kept_.touched && kept_.touched(value);
    if (Py_REFCNT(value) > 1 && !touched) return false;  // others hold it too
    if (endIsNoticed(value)) return !touched || !kept_.held_elsewhere(value);
    constexpr int kDeepest = 6;
    if (depth_ == kDeepest) return false;
    depth_++;
    const bool found = noticed(value);
    depth_--;
    return found;
  }

  const KeptByTrace& kept_;
  int depth_ = 0;
  int left_ = 256;  // so many objects are looked at
};

// The slots themselves: f_locals would make a dict that stays with the frame and keeps what it holds alive.
bool frameHolds(StatorFrame* frame) {
  PyObject* names = stator_frame_namespace(frame);
  if (names != nullptr && PyDict_Check(names) && Contents(kNoTrace).noticed(names)) return true;
  PyObject** slots = stator_frame_slots(frame);
  for (int i = 0; i < stator_frame_slot_count(frame); ++i) {
    PyObject* value = slots[i];
    if (value != nullptr && PyCell_Check(value)) value = PyCell_GET(value);
    if (value != nullptr && endIsNoticed(value)) return true;
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
    if (frameHolds(stator_frame_of(entry->tb_frame))) return true;
  }
  return false;
}

}  // namespace

bool endOfContentsIsNoticed(PyObject* container, const KeptByTrace& kept) {
  needStack();
  if (!PyExceptionInstance_Check(container)) return Contents(kept).noticed(container);
  auto* exception = reinterpret_cast<PyBaseExceptionObject*>(container);
  return (exception->args != nullptr && Contents(kept).noticed(exception->args)) ||
         (exception->dict != nullptr && Contents(kept).noticed(exception->dict)) ||
         tracebackHolds(container);
}

bool lastReferenceRunsCode(PyObject* value) {
  if (value == nullptr || Py_REFCNT(value) > 1 || values::isScalar(value)) return false;
  return endIsNoticed(value) || endOfContentsIsNoticed(value, kNoTrace);
}

}  // namespace stator::known
