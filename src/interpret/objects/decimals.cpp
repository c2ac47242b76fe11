#include "interpret/objects/decimals.h"

#include "base/check.h"
#include "base/error_aside.h"
#include "interpret/core/known.h"
#include "python/types.h"

#include <algorithm>
#include <cstring>

namespace stator::interpret {

namespace {

bool isDecimalType(const PyTypeObject* type) {
  return type != &PyLong_Type && type != &PyFloat_Type && type != &PyUnicode_Type &&
         std::strcmp(type->tp_name, "decimal.Decimal") == 0;
}

// All of the context but its flags, as a tuple.
Ref<> settingsOf(PyObject* context) {
  static const char* const names[] = {"prec", "rounding", "Emin", "Emax", "capitals", "clamp"};
  Ref<> settings = stealRef(PyList_New(0));
  for (const char* name : names) {
    Ref<> value = stealRef(PyObject_GetAttrString(context, name));
    if (!value || PyList_Append(settings.get(), value.get()) != 0) return Ref<>();
  }
  Ref<> traps = stealRef(PyObject_GetAttrString(context, "traps"));
  Ref<> values = traps ? stealRef(PyMapping_Values(traps.get())) : Ref<>();
  if (!values || PyList_Append(settings.get(), values.get()) != 0) return Ref<>();
  return settings;
}

Ref<> flagsOf(PyObject* context) {
  Ref<> flags = stealRef(PyObject_GetAttrString(context, "flags"));
  return flags ? stealRef(PyMapping_Items(flags.get())) : Ref<>();
}

PyObject* hasSettings(PyObject* expected, PyObject*) {
  Ref<> context = stealRef(PyObject_CallNoArgs(torchObject("decimal.getcontext")));
  Ref<> now = context ? settingsOf(context.get()) : Ref<>();
  return now ? PyObject_RichCompare(now.get(), expected, Py_EQ) : nullptr;
}

// One, or a list or tuple with one, which is compared item by item.
bool holdsDecimal(PyObject* object) {
  if (!PyList_CheckExact(object) && !PyTuple_CheckExact(object)) return isDecimal(object);
  PyObject** items = PySequence_Fast_ITEMS(object);
  return std::any_of(items, items + Py_SIZE(object), isDecimal);
}

}  // namespace

bool isDecimal(PyObject* object) { return isDecimalType(Py_TYPE(object)); }

DecimalFold::DecimalFold(Tracer& tracer, std::initializer_list<PyObject*> operands)
    : tracer_(tracer) {
  for (PyObject* operand : operands) {
    if (!context_ && holdsDecimal(operand)) start();
  }
}

DecimalFold::DecimalFold(Tracer& tracer, PyObject* callable, const Args& args) : tracer_(tracer) {
  if (PyType_Check(callable) && isDecimalType(reinterpret_cast<PyTypeObject*>(callable))) start();
  // `f = number.__eq__`
  Ref<> self;
  if (stator_is_method_wrapper(callable) || PyCFunction_Check(callable))
    self = stealRef(PyObject_GetAttrString(callable, "__self__"));
  if (self && isDecimal(self.get())) start();
  for (PyObject* value : args.values) {
    if (!context_ && isDecimal(value)) start();
  }
}

void DecimalFold::start() {
  context_ = stealRef(PyObject_CallNoArgs(torchObject("decimal.getcontext")));
  before_ = context_ ? flagsOf(context_.get()) : Ref<>();
  if (!before_) throw PythonError();
}

Flow DecimalFold::finish() {
  if (!context_) return Flow::kOk;
  ErrorAside error;
  Ref<> after = flagsOf(context_.get());
  if (!after) throw PythonError();
  const bool same = PyObject_RichCompareBool(before_.get(), after.get(), Py_EQ) == 1;
  if (!same) {
    Ref<> flags = stealRef(PyObject_GetAttrString(context_.get(), "flags"));
    for (Py_ssize_t i = 0; flags && i < PyList_GET_SIZE(before_.get()); ++i) {
      PyObject* item = PyList_GET_ITEM(before_.get(), i);
      PyObject_SetItem(flags.get(), PyTuple_GET_ITEM(item, 0), PyTuple_GET_ITEM(item, 1));
    }
    PyErr_Clear();
    return tracer_.breakWith(Reason::kCallsOutside, "decimals: flags of the context are set");
  }
  static PyMethodDef method = {"has_settings", hasSettings, METH_O, nullptr};
  // Equal settings have one check, and so one guard in a capture.
  static Ref<>* const known = new Ref<>();
  static Ref<>* const check = new Ref<>();
  Ref<> expected = settingsOf(context_.get());
  if (!expected) throw PythonError();
  if (!*known || PyObject_RichCompareBool(known->get(), expected.get(), Py_EQ) != 1) {
    *known = expected;
    *check = stealRef(PyCFunction_New(&method, expected.get()));
    if (!*check) throw PythonError();
  }
  const Source* home = tracer_.world.sources().pinned(torchObject("decimal.Decimal"));
  tracer_.world.guard(Guard{GuardKind::kIs,
                            tracer_.world.child(SourceKind::kAsked, home, check->get()), nullptr,
                            newRef(Py_True)});
  error.restore();
  return Flow::kOk;
}

}  // namespace stator::interpret
