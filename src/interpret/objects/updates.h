// What dict's own methods do, whatever a subclass put over them.
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

// Whether C takes its entries as they are: CPython goes past keys() only where the class iterates as a dict does.
bool iteratesAsDict(Tracer& tracer, PyObject* value);
// dict.update's arguments. `mapping`: pairs are no argument (of `**`).
Flow dictUpdate(Tracer& tracer, PyObject* dict, const Args& args, bool mapping = false);
// dict.__setitem__ past any override
Flow setItemBase(Tracer& tracer, PyObject* dict, PyObject* key, PyObject* value);
// dict.__delitem__ past any override
Flow delItemBase(Tracer& tracer, PyObject* dict, PyObject* key);
// KeyError of a key as CPython raises it: a tuple is its one argument.
Flow missingKey(Tracer& tracer, PyObject* key);
// What dict.__getitem__ does about a key that is not there: __missing__, a defaultdict's factory, KeyError.
Out missingItem(Tracer& tracer, PyObject* dict, PyObject* key);

}  // namespace stator::interpret
