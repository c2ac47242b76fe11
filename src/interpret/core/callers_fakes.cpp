#include "interpret/core/callers_fakes.h"

#include "base/check.h"
#include "base/imports.h"
#include "base/text.h"
#include "interpret/core/known.h"
#include "interpret/core/tracer.h"
#include "tensor/fake_modes.h"

namespace stator::interpret {

namespace {

Ref<> tupleOf(const std::vector<int64_t>& numbers) {
  Ref<> tuple = stealRef(PyTuple_New(static_cast<Py_ssize_t>(numbers.size())));
  for (size_t i = 0; tuple && i < numbers.size(); ++i)
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), PyLong_FromLongLong(numbers[i]));
  if (!tuple || PyErr_Occurred()) throw PythonError();
  return tuple;
}

}  // namespace

bool isCallersFake(const Tracer& tracer, PyObject* tensor) {
  return tracer.options.fake_mode != nullptr && tensor::isFakeTensorType(Py_TYPE(tensor));
}

Flow checkFake(Tracer& tracer, PyObject* tensor) {
  if (tracer.options.fake_mode == nullptr) return Flow::kOk;
  Ref<> why = stealRef(PyObject_CallFunctionObjArgs(torchObject("stator._callers_fakes.why_not"),
                                                    tensor, tracer.options.fake_mode, nullptr));
  if (!why) throw PythonError();
  const std::string text = utf8(why.get());
  if (text.empty()) return Flow::kOk;
  return tracer.breakWith(Reason::kSubclass, "under a FakeTensorMode: " + text);
}

void noteFakeSizes(Tracer& tracer, PyObject* tensor, tensor::TensorGuard& guard) {
  if (!isCallersFake(tracer, tensor) || !tensor::hasSymbolicSizes(tensor)) return;
  tracer.sizes.noteCallers();
  const tensor::SizesForNow now = tensor::sizesForNow(tensor);
  guard.sizes = now.sizes;
  guard.strides = now.strides;
}

bool guardFake(Tracer& tracer, PyObject* tensor, const sources::Source* source,
               const tensor::TensorGuard& guard) {
  if (!isCallersFake(tracer, tensor)) return true;
  const bool symbolic = tensor::hasSymbolicSizes(tensor);
  Ref<> sizes = symbolic ? tupleOf(guard.sizes) : newRef(Py_None);
  Ref<> strides = symbolic ? tupleOf(guard.strides) : newRef(Py_None);
  Ref<> check = stealRef(PyObject_CallFunctionObjArgs(torchObject("stator._callers_fakes.Check"),
                                                      tensor, sizes.get(), strides.get(), nullptr));
  if (!check) throw PythonError();
  tracer.world.guard(Guard{GuardKind::kIs,
                           tracer.world.child(SourceKind::kAsked, source, check.get()), nullptr,
                           newRef(Py_True)});
  return !symbolic;
}

PyTypeObject* resultType(const Tracer& tracer) {
  if (tracer.options.fake_mode == nullptr) return tensorType();
  return reinterpret_cast<PyTypeObject*>(torchObject("torch._subclasses.fake_tensor.FakeTensor"));
}

}  // namespace stator::interpret
