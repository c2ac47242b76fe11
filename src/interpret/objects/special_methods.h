// Special methods as CPython's slots find them: on the class, whatever kind of object stands there.
#pragma once

#include "interpret/core/tracer.h"

#include <string>

namespace stator::interpret {

// The class has an entry of the program's own in place of a slot in C: a function, None, or any other object.
bool isProgrammed(Tracer& tracer, PyTypeObject* type, const char* name);
// The method, bound; ok with null: the class has none. None in its place is called, as slots do it, and raises.
Out slotMethod(Tracer& tracer, PyObject* object, const char* name);
// The class has None in that place, by which it says that it lacks what a base has.
bool isDenied(Tracer& tracer, PyTypeObject* type, const char* name);
// method looked up on the type, bound; ok with null: not there
Out special(Tracer& tracer, PyObject* object, const char* name);
bool isUserOverride(Tracer& tracer, PyObject* object, const std::string& name);

}  // namespace stator::interpret
