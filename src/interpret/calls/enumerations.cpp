#include "interpret/calls/enumerations.h"

#include "interpret/calls/calls.h"
#include "interpret/core/known.h"
#include "interpret/objects/attributes.h"
#include "interpret/objects/native_calls.h"
#include "interpret/objects/subclass_checks.h"
#include "python/types.h"

namespace stator::interpret {

Out enumMember(Tracer& tracer, PyTypeObject* type, const Args& args) {
  auto* type_object = reinterpret_cast<PyObject*>(type);
  static PyObject* const missing = PyUnicode_InternFromString("_missing_");
  static PyObject* const members = PyUnicode_InternFromString("_value2member_map_");
  auto leave = [&](const char* why) { return tracer.breakWith(Reason::kCallsOutside, why); };
  if (isProgramsOwn(_PyType_Lookup(Py_TYPE(type_object), names().dunder_call)))
    return leave("an enumeration whose metaclass has a __call__ of its own");
  if (!isProgramsOwn(_PyType_Lookup(type, missing))) return callNative(tracer, type_object, args);
  PyObject* by_value = _PyType_Lookup(type, members);
  PyObject* value = args.values.size() == 1 ? args.values[0] : nullptr;
  if (value == nullptr || by_value == nullptr || !PyDict_CheckExact(by_value) ||
      !values::isScalar(value))
    return leave("an enumeration with a _missing_ of its own");
  if (PyDict_GetItemWithError(by_value, value) != nullptr)
    return callNative(tracer, type_object, args);
  PyErr_Clear();
  STATOR_VALUE(asked, runEntered(tracer, getAttr(tracer, type_object, missing)));
  Out found = callNested(tracer, asked.get(), {value});
  if (found.ok() && PyObject_TypeCheck(found.get(), type)) return found;
  if (found.ok() && found.get() == Py_None) {
    Ref<> name = stealRef(PyType_GetQualName(type));
    return tracer.raiseNew(PyExc_ValueError, "%R is not a valid %U", value, name.get());
  }
  if (!found.ok() && found.flow() != Flow::kRaise) return found;
  if (!found.ok()) tracer.errors.dropRaised();
  return tracer.breakWith(Reason::kRaises, "a value that no member has");
}

}  // namespace stator::interpret
