// What reading and writing attributes share.
#pragma once

#include "interpret/core/tracer.h"
#include "python/objects.h"

namespace stator::interpret {

inline bool isDataDescriptor(PyObject* descriptor) {
  return Py_TYPE(descriptor)->tp_descr_set != nullptr;
}

// __thisclass__, __self__ or __self_class__ of a super object itself: asked for as an attribute it is looked up behind a class, where there
// may be another super.
inline Ref<> superPart(PyObject* super, const char* name) {
  PyObject* member = PyDict_GetItemString(stator_type_dict(&PySuper_Type), name);
  return stealRef(
      Py_TYPE(member)->tp_descr_get(member, super, reinterpret_cast<PyObject*>(&PySuper_Type)));
}

// The working copy of an object's __dict__, if there is one: it holds the attributes then.
inline PyObject* attributesShadow(Tracer& tracer, values::Info* info) {
  if (info->attributes == nullptr) return nullptr;
  values::Info* dict = tracer.values.find(info->attributes);
  if (dict == nullptr) return nullptr;
  // one that the trace has made, and put in the place of the object's own
  return dict->origin == values::Origin::kMade ? dict->object.get() : dict->shadow.get();
}

// What PyObject_GetAttr adds to an AttributeError that has no `name` and `obj` yet.
void nameAttribute(Tracer& tracer, PyObject* object, PyObject* name);
// The same where the exception leaves the frame of a property, descriptor or __getattr__, which keeps (object, name) as its `instance`.
void noteAttribute(Tracer& tracer, const SymbolicFrame& frame);

// An object from outside and its __dict__ may come up by two ways (`d = vars(self)` before a break): they are told to be one. Asked where an
// object is first looked at (with `writes`: written to), and where a dict is first written to.
Flow linkOwnDict(Tracer& tracer, PyObject* object, bool writes);
Flow linkOwner(Tracer& tracer, PyObject* dict);
bool isDictMethod(PyObject* hook);                                   // a method of dict's, in C
bool sharesOutsideDict(Tracer& t, PyObject* name, PyObject* value);  // as an object's __dict__
bool isItsOwnDict(Tracer& t, PyObject* object);

Out getAttr(Tracer& tracer, PyObject* object, PyObject* name);
// ok with a null Ref instead of AttributeError
Out getAttrOrNull(Tracer& tracer, PyObject* object, PyObject* name);
Out callGetattr(Tracer& tracer, PyObject* object, PyObject* name);
// object.__getattribute__: no __getattribute__ or __getattr__ of the class
Out getAttrGeneric(Tracer& tracer, PyObject* object, PyObject* name);
// along the MRO, guarded; ok with a null Ref: not there
Out typeLookup(Tracer& tracer, PyTypeObject* type, PyObject* name);
// instance dict as it is; borrowed, null: not there
PyObject* rawInstanceAttr(PyObject* object, PyObject* name);
bool hasInstanceDict(PyObject* object);
// the instance dict alone, guarded; ok with a null Ref: not there
Out instanceAttr(Tracer& tracer, PyObject* object, PyObject* name);
Out classAttrValue(Tracer& tracer, PyTypeObject* owner, PyObject* name, PyObject* raw);
Out loadGlobal(Tracer& tracer, SymbolicFrame& frame, PyObject* name);
// method looked up on the type, bound; ok with null: not there
Out special(Tracer& tracer, PyObject* object, const char* name);
// of the raw entry in the class that has it
const sources::Source* classEntry(Tracer& tracer, PyTypeObject* type, PyObject* name);

bool isUserOverride(Tracer& tracer, PyObject* object, const std::string& name);
bool isMadeClass(Tracer& tracer, PyObject* object);

}  // namespace stator::interpret
