// Dicts and their C subclasses past anything that a Python subclass put over their methods. An OrderedDict has two
// orders: its own, and that of the dict beneath, which C code sees; both are kept when one is copied or rebuilt.
#pragma once

#include "base/ref.h"

namespace stator::values {

// What C's own iterator of the container gives, as a list: a subclass may have anything for `__iter__`.
Ref<> itemsOf(PyObject* container);
Ref<> dictKeys(PyObject* dict);   // a list, in the order in which the dict iterates
Ref<> dictItems(PyObject* dict);  // a list of (key, value), in the same order
bool dictSet(PyObject* dict, PyObject* key, PyObject* value);  // false with an error set
bool dictDelete(PyObject* dict, PyObject* key);
bool dictClear(PyObject* dict);
// `target` gets the entries of `from`, under the hashes that these have there. One that is ordered and empty gets both
// orders.
bool dictFill(PyObject* target, PyObject* from);
// Whether an OrderedDict's own order is that of the dict beneath.
bool ordersAgree(PyObject* dict);

}  // namespace stator::values
