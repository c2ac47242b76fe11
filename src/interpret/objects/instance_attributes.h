// Attributes of objects themselves: their __dict__, read and guarded by name, and what it is when it comes up as a
// dict.
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

// The working copy of an object's __dict__, if there is one: it holds the attributes then.
inline PyObject* attributesShadow(Tracer& tracer, values::Info* info) {
  if (info->attributes == nullptr) return nullptr;
  values::Info* dict = tracer.values.find(info->attributes);
  if (dict == nullptr) return nullptr;
  // one that the trace has made, and put in the place of the object's own
  return dict->origin == values::Origin::kMade ? dict->object.get() : dict->shadow.get();
}

// instance dict as it is; borrowed, null: not there
PyObject* rawInstanceAttr(PyObject* object, PyObject* name);
bool hasInstanceDict(PyObject* object);
// the instance dict alone, guarded; ok with a null Ref: not there
Out instanceAttr(Tracer& tracer, PyObject* object, PyObject* name);

// An object from outside and its __dict__ may come up by two ways (`d = vars(self)` before a break): they are told to
// be one. Asked where an object is first looked at (with `writes`: written to), and where a dict is first written to.
Flow linkOwnDict(Tracer& tracer, PyObject* object, bool writes);
Flow linkOwner(Tracer& tracer, PyObject* dict);
bool isItsOwnDict(Tracer& t, PyObject* object);

}  // namespace stator::interpret
