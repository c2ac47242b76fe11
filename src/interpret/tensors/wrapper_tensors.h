// Tensors whose class has its own __torch_dispatch__ and can be taken apart.
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

Out wrapperFromOutside(Tracer& tracer, PyObject* raw, const sources::Source* source);
// an attribute of the instance; ok with null: not there
Out wrapperAttr(Tracer& tracer, PyObject* stand_in, PyObject* name);
// whether the trace's fakes may have sizes that are no numbers
bool fakesHaveSymbols(const Tracer& tracer);
// calling the class
Out makeWrapper(Tracer& tracer, PyTypeObject* type, const Args& args);
// a call that gives such a tensor or takes one; `facts` as in tensorCall
Out callForWrapper(Tracer& tracer, graph::Op op, PyObject* target, const Args& args,
                   PyObject* facts = nullptr);
// of what shares memory with it, wrappers and what they are made of
std::unordered_set<uint32_t> tiedStorages(Tracer& tracer, uint32_t storage);
// where a ragged size of the trace's can be read from outside; null: nowhere
const sources::Source* raggedSource(Tracer& tracer, PyObject* size);
// several inputs have that memory, and a backend that takes wrappers apart cannot tell them of a write
bool writesToShared(Tracer& tracer, uint32_t storage);
// whether operations on them are for some class to decide; makes sure that they all are known by fakes that live on
bool prepareWrappers(Tracer& tracer, const std::vector<PyObject*>& arguments);

}  // namespace stator::interpret
