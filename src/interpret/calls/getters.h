// operator.itemgetter, attrgetter and methodcaller.
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

Out callGetter(Tracer& tracer, PyObject* getter, const Args& args);

}  // namespace stator::interpret
