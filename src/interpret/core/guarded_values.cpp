#include "interpret/core/guarded_values.h"

#include "base/boundary.h"
#include "base/numpy_number.h"
#include "base/stack_room.h"
#include "interpret/core/known.h"
#include "python/types.h"

#include <array>
#include <string_view>

namespace stator::interpret {

namespace {

// Gives away one reference to each item for one to an equal item.
Ref<> copied(PyObject* constant);
void copyItems(PyObject* tuple) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i)
    PyTuple_SetItem(tuple, i, copied(PyTuple_GET_ITEM(tuple, i)).release());
}

Ref<> copied(PyObject* constant) {
  needStack();
  PyTypeObject* type = Py_TYPE(constant);
  auto* called = reinterpret_cast<PyObject*>(type);
  if (type == &PyTuple_Type || type == &PyFrozenSet_Type || type == sizeType()) {
    if (PyObject_Size(constant) == 0) return newRef(constant);
    Ref<> list = orThrow(PySequence_List(constant));
    Ref<> items = orThrow(PyList_AsTuple(list.get()));
    copyItems(items.get());
    return type == &PyTuple_Type ? items : orThrow(PyObject_CallOneArg(called, items.get()));
  }
  if (type == &PySlice_Type || type == &PyRange_Type) {
    Ref<> reduced = orThrow(PyObject_CallMethod(constant, "__reduce__", nullptr));
    return orThrow(PyObject_CallObject(called, PyTuple_GET_ITEM(reduced.get(), 1)));
  }
  if (isNumpyNumber(constant)) return orThrow(PyObject_CallMethod(constant, "copy", nullptr));
  return newRef(constant);
}

struct Row {
  std::string_view type;  // written in C: tp_name has the module
  // the method that tells how to make an equal one; null: `parts` tell it from others
  const char* maker;
  std::array<const char*, 7> parts;
};

constexpr std::array<Row, 6> kRows = {{
    {"decimal.Decimal", "decimal.Decimal.__reduce__", {}},
    {"datetime.date", "datetime.date.__reduce__", {}},
    {"datetime.datetime", "datetime.datetime.__reduce__", {}},
    {"datetime.time", "datetime.time.__reduce__", {}},
    {"datetime.timedelta", "datetime.timedelta.__reduce__", {}},
    {"re.Match",
     nullptr,
     {"re.pattern", "re.flags", "string", "regs", "pos", "endpos", "lastindex"}},
}};

size_t rowOf(PyObject* value) {
  PyTypeObject* type = Py_TYPE(value);
  if (stator_is_user_class(type)) return kRows.size();
  size_t i = 0;
  while (i < kRows.size() && kRows[i].type != type->tp_name) ++i;
  return i;
}

// operator.attrgetter("re.pattern", ...)
Ref<> getterOf(const Row& row) {
  Ref<> names = orThrow(PyList_New(0));
  for (const char* part : row.parts) {
    if (part == nullptr) break;
    Ref<> name = orThrow(PyUnicode_FromString(part));
    if (PyList_Append(names.get(), name.get()) != 0) throw PythonError();
  }
  Ref<> arguments = orThrow(PyList_AsTuple(names.get()));
  return orThrow(
      PyObject_CallObject(reinterpret_cast<PyObject*>(attrGetterType()), arguments.get()));
}

}  // namespace

PyObject* partsReader(PyObject* value) {
  static std::array<PyObject*, kRows.size()> readers{};
  const size_t i = rowOf(value);
  if (i == kRows.size()) return nullptr;
  if (readers[i] == nullptr)
    readers[i] =
        kRows[i].maker != nullptr ? torchObject(kRows[i].maker) : getterOf(kRows[i]).release();
  return readers[i];
}

Ref<> makingOf(PyObject* value) {
  if (isNumpyNumber(value)) return orThrow(Py_BuildValue("(O(O))", Py_TYPE(value), value));
  const size_t i = rowOf(value);
  if (i == kRows.size() || kRows[i].maker == nullptr) return Ref<>();
  return orThrow(PyObject_CallOneArg(partsReader(value), value));
}

// dtypes and layouts are singletons.
void guardConstant(Tracer& tracer, PyObject* raw, const sources::Source* source) {
  PyObject* reader = partsReader(raw);
  if (reader == nullptr) {
    const bool singleton =
        values::isTorchConstant(raw) && !PyTuple_Check(raw) && Py_TYPE(raw) != deviceType();
    tracer.world.guard(
        Guard{singleton ? GuardKind::kIs : GuardKind::kEquals, source, nullptr, copied(raw)});
    return;
  }
  auto* type = reinterpret_cast<PyObject*>(Py_TYPE(raw));
  tracer.world.guard(Guard{GuardKind::kType, source, nullptr, newRef(type)});
  const sources::Source* parts = tracer.world.child(sources::SourceKind::kAsked, source, reader);
  tracer.world.guard(
      Guard{GuardKind::kEquals, parts, nullptr, orThrow(PyObject_CallOneArg(reader, raw))});
}

}  // namespace stator::interpret
