// Methods of the built-in containers: what those of lists, deques, dicts and sets share. Those that only move
// references take any element; those that compare or hash want plain ones.
#pragma once

#include "interpret/core/tables.h"
#include "interpret/core/tracer.h"

namespace stator::interpret {

// list.extend
Out extendList(Tracer& tracer, PyObject* list, PyObject* iterable);

// The C type's method of that name, run natively on the contents of args[0].
template <bool writes>
Out onContents(Tracer& t, const Args& args, const char* method, bool plain_arguments = true);
Out clearContents(Tracer& t, const Args& args);
Out copyContents(Tracer& t, const Args& args);

// Whether taking the items may run code of the program, which may look at the container that they are put into, or
// raise half way.
bool iterationRunsCode(PyObject* iterable);

// The items of args[1] one by one, each put into args[0] by `put` before the next is taken.
Out putEach(Tracer& t, const Args& args, CallHandler put);

}  // namespace stator::interpret
