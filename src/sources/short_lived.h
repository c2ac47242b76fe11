// Objects that a program makes and drops as it runs: classes and functions of a function's body, caches around such
// functions. What has been captured must not keep them alive.
#pragma once

#include "base/ref.h"

#include <cstdint>

namespace stator::sources {

// index of a SourceKind::kPinned whose key is a weak reference to the object
constexpr int64_t kWeakPin = 1;

struct Source;
PyObject* pinnedObject(const Source& source);  // of a kPinned; borrowed, None when it is gone

bool isShortLived(PyObject* object);
// A weak reference that the garbage collector does not list. `callback` (borrowed, may be null) is called with it when
// the object is gone.
Ref<> weakReference(PyObject* object, PyObject* callback);
bool isOwnCallback(PyObject* callback);  // of a reference from there

}  // namespace stator::sources
