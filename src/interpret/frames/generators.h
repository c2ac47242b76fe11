// Generators made in the trace: suspended symbolic frames that are resumed, thrown into and closed.
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

// ok with null: it returned
Out runGenerator(Tracer& tracer, PyObject* generator, Ref<> sent);
// Throws into a generator made in the trace; like runGenerator. `close` ends it.
Out throwIntoGenerator(Tracer& tracer, PyObject* generator, Ref<> exception);
Out closeGenerator(Tracer& tracer, PyObject* generator);
// Resumes a suspended generator with a value or an exception.
Out resumeGenerator(Tracer& tracer, PyObject* generator, Ref<> sent, Ref<> exception);

}  // namespace stator::interpret
