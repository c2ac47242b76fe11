#include "values/value_table.h"

#include "base/check.h"
#include "base/numpy_number.h"
#include "base/parts.h"
#include "base/stack_room.h"

#include <cmath>
#include <string_view>

namespace stator::values {

Info& ValueTable::addOutside(PyObject* object, const sources::Source* source) {
  auto info = std::make_unique<Info>();
  info->object = Ref<>::create(object);
  info->source = source;
  Info* raw = info.get();
  auto [it, fresh] = infos_.emplace(object, std::move(info));
  STATOR_CHECK(fresh, "object is in the table already");
  order_.push_back(raw);
  return *raw;
}

Info& ValueTable::addMade(PyObject* object, uint64_t born) {
  auto it = infos_.find(object);
  if (it != infos_.end()) return *it->second;
  auto info = std::make_unique<Info>();
  info->object = Ref<>::create(object);
  info->origin = Origin::kMade;
  info->born = born;
  Info* raw = info.get();
  infos_.emplace(object, std::move(info));
  order_.push_back(raw);
  return *raw;
}

Info* attributePart(Info* info) {
  if (info == nullptr || !PyDict_Check(info->object.get())) return info;
  if (!info->attribute_part) {
    info->attribute_part = std::make_unique<Info>();
    info->attribute_part->object = info->object;
    info->attribute_part->origin = info->origin;
    info->attribute_part->source = info->source;
  }
  return info->attribute_part.get();
}

PyObject* deletedMarker() {
  static PyObject* marker = PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&PyBaseObject_Type));
  return marker;
}

bool isScalar(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  return object == Py_None || type == &PyBool_Type || type == &PyLong_Type ||
         type == &PyFloat_Type || type == &PyUnicode_Type || type == &PyComplex_Type ||
         type == &PyBytes_Type || object == Py_Ellipsis || object == Py_NotImplemented;
}

bool isNan(PyObject* object) {
  if (PyFloat_CheckExact(object)) return std::isnan(PyFloat_AS_DOUBLE(object));
  if (!PyComplex_CheckExact(object)) return false;
  const Py_complex value = PyComplex_AsCComplex(object);
  return std::isnan(value.real) || std::isnan(value.imag);
}

bool isTorchConstant(PyObject* object) {
  // These types live in torch/_C as plain static types; their names are stable and unique.
  std::string_view name = Py_TYPE(object)->tp_name;
  if (name.size() < 6 || name.substr(0, 6) != "torch.") return false;
  return name == "torch.dtype" || name == "torch.device" || name == "torch.layout" ||
         name == "torch.memory_format" || name == "torch.qscheme" || name == "torch.finfo" ||
         name == "torch.iinfo" || name == "torch.Size";
}

bool isConstantDeep(PyObject* object) {
  if (isScalar(object)) return true;
  PyTypeObject* type = Py_TYPE(object);
  needStack();
  if (type == &PyTuple_Type) return everyItem(object, isConstantDeep);
  if (type == &PySlice_Type) return everyBound(object, isConstantDeep);
  if (type == &PyRange_Type) return true;
  if (type == &PyFrozenSet_Type) return everyElement(object, isConstantDeep);
  if (isNumpyNumber(object)) return true;
  if (!isTorchConstant(object)) return false;
  return !PyTuple_Check(object) ||
         everyItem(object, [](PyObject* item) { return PyLong_CheckExact(item); });
}

}  // namespace stator::values
