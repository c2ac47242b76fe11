// dict.update and dict.__setitem__ themselves, whatever a subclass put over them.
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

// dict.update's arguments
Flow dictUpdate(Tracer& tracer, PyObject* dict, const Args& args);
// dict.__setitem__ past any override
Flow setItemBase(Tracer& tracer, PyObject* dict, PyObject* key, PyObject* value);

}  // namespace stator::interpret
