#include "interpret/frames/above.h"

#include "interpret/calls/calls.h"
#include "interpret/calls/inlining.h"
#include "interpret/core/tracer.h"
#include "interpret/frames/generators.h"
#include "interpret/frames/loop.h"
#include "interpret/library/containers.h"
#include "interpret/library/itertools.h"
#include "interpret/tensors/arrays.h"
#include "interpret/tensors/tensor_attributes.h"
#include "interpret/tensors/tensor_call.h"
#include "interpret/tensors/torch_function.h"
#include "interpret/tensors/wrapper_tensors.h"

namespace stator::interpret {

Out FramesAbove::call(PyObject* callable, const Args& args, Continuation then) {
  return interpret::call(*tracer_, callable, args, then);
}
Out FramesAbove::callNested(PyObject* callable, const Args& args) {
  return interpret::callNested(*tracer_, callable, args);
}
Out FramesAbove::inlineFunction(PyObject* function, const Args& args, Continuation then) {
  return interpret::inlineFunction(*tracer_, function, args, then);
}
Out FramesAbove::runEntered(Out out) { return interpret::runEntered(*tracer_, std::move(out)); }
Flow FramesAbove::runUntil(size_t depth) { return interpret::runUntil(*tracer_, depth); }
Out FramesAbove::runGenerator(PyObject* generator, Ref<> sent) {
  return interpret::runGenerator(*tracer_, generator, std::move(sent));
}
Out FramesAbove::throwIntoGenerator(PyObject* generator, Ref<> exception) {
  return interpret::throwIntoGenerator(*tracer_, generator, std::move(exception));
}
Out FramesAbove::closeGenerator(PyObject* generator) {
  return interpret::closeGenerator(*tracer_, generator);
}
Out FramesAbove::nextOfItertools(PyObject* iterator) {
  return interpret::nextOfItertools(*tracer_, iterator);
}
Out FramesAbove::extendList(PyObject* list, PyObject* iterable) {
  return interpret::extendList(*tracer_, list, iterable);
}
Out FramesAbove::tensorCall(graph::Op op, PyObject* target, const Args& args, bool remember,
                            PyObject* facts) {
  return interpret::tensorCall(*tracer_, op, target, args, remember, facts);
}
Out FramesAbove::tensorAttr(PyObject* stand_in, PyObject* name) {
  return interpret::tensorAttr(*tracer_, stand_in, name);
}
Flow FramesAbove::setTensorAttr(PyObject* stand_in, PyObject* name, PyObject* value) {
  return interpret::setTensorAttr(*tracer_, stand_in, name, value);
}
Out FramesAbove::dispatchTorchFunction(graph::Op op, PyObject* target, const Args& args,
                                       bool& handled) {
  return interpret::dispatchTorchFunction(*tracer_, op, target, args, handled);
}
Out FramesAbove::arrayFromOutside(PyObject* raw, const sources::Source* source) {
  return interpret::arrayFromOutside(*tracer_, raw, source);
}
Out FramesAbove::wrapperFromOutside(PyObject* raw, const sources::Source* source) {
  return interpret::wrapperFromOutside(*tracer_, raw, source);
}

}  // namespace stator::interpret
