// Containers as steps of a plan: what is in them, with the order, the hashes and the identities that it had.
#include "base/check.h"
#include "interpret/core/guarded_values.h"
#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/frames/plan_builder.h"
#include "interpret/objects/keys.h"
#include "python/dict_views.h"
#include "python/objects.h"
#include "python/types.h"
#include "symbolic/sym_int.h"
#include "values/dicts.h"

namespace stator::interpret {

using breaks::kNull;
using breaks::PlanOp;
using breaks::PlanStep;
using breaks::Register;

PyObject* PlanBuilder::viewed(PyObject* container) {
  return isDictView(container) ? stator_dict_of_view(container) : container;
}

bool PlanBuilder::written(PyObject* container) {
  PyObject* object = viewed(container);
  if (auto it = owner_of_.find(object); it != owner_of_.end()) object = it->second;
  values::Info* info = t_.values.find(object);
  return info != nullptr && info->origin == values::Origin::kOutside &&
         (info->dirty || info->overlay);
}

Register PlanBuilder::dictBehind(PyObject* object) {
  if (auto it = owner_of_.find(object); it != owner_of_.end()) object = it->second;
  if (!isProxied(t_, object)) return value(object);
  Register result = add(PlanOp::kSource, nullptr);
  plan_.steps.back().source = t_.sourceOf(object);
  return result;
}

Register PlanBuilder::tuple(PyObject* object) {
  std::vector<Register> items = sequence(object);
  if (auto it = memo_.find(object); it != memo_.end()) return it->second;
  return add(PlanOp::kTuple, object, Ref<>(), std::move(items));
}

std::vector<Register> PlanBuilder::sequence(PyObject* items) {
  std::vector<Register> out;
  // By the C layout, whatever a subclass has for __iter__.
  const bool by_layout = PyTuple_Check(items) || PyList_Check(items);
  Ref<> held = by_layout ? newRef(items) : values::itemsOf(items);
  STATOR_CHECK(held, "the items of a container");
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(held.get()); ++i)
    out.push_back(value(PySequence_Fast_GET_ITEM(held.get(), i)));
  return out;
}

void PlanBuilder::fillDict(Register target, PyObject* dict) {
  PyObject *key = nullptr, *item = nullptr;
  Py_ssize_t position = 0;
  if (t_.own_keys.any() && hasOwnKeys(t_, dict)) return fillUserKeyed(target, dict);
  while (PyDict_Next(dict, &position, &key, &item))
    fill(PlanOp::kDictSet, {target, value(key), value(item)});
  if (values::ordersAgree(dict)) return;
  Ref<> keys = values::dictKeys(dict);
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(keys.get()); ++i) {
    add(PlanOp::kCall, nullptr, newRef(torchObject("collections.OrderedDict.move_to_end")),
        {target, value(PyList_GET_ITEM(keys.get(), i))});
  }
}

void PlanBuilder::fillUserKeyed(Register target, PyObject* dict) {
  std::unordered_map<Py_hash_t, PyObject*> seen;
  PyObject *key = nullptr, *item = nullptr;
  Py_ssize_t position = 0;
  Py_hash_t stored = 0;
  while (stator_dict_next(dict, &position, &key, &item, &stored)) {
    const bool again = sameHashAtExit(t_, key);
    if (again && !seen.emplace(stored, key).second) {
      fail(madeHere(key) ? key : dict);
      return;
    }
    fill(again ? PlanOp::kDictSetHashed : PlanOp::kDictSet, {target, value(key), value(item)});
    if (again) plan_.steps.back().number = stored;
  }
}

void PlanBuilder::fillList(Register target, PyObject* list) {
  std::vector<Register> operands{target};
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i)
    operands.push_back(value(PyList_GET_ITEM(list, i)));
  fill(PlanOp::kListExtend, std::move(operands));
}

// A copy of a set of constants, from which the plan makes sets with the same order; null where elements are not
// constants, or are made anew.
Ref<> PlanBuilder::setOfConstants(PyObject* set) {
  PyObject* item = nullptr;
  Py_hash_t hash = 0;
  Py_ssize_t position = 0;
  while (_PySet_NextEntry(set, &position, &item, &hash)) {
    if (!isStaticKey(item) || symbolic::isSymbol(item) || !sameHashAtExit(t_, item)) return Ref<>();
  }
  return stealRef(stator_set_like(&PySet_Type, set));
}

void PlanBuilder::fillSet(Register target, PyObject* set) {
  if (PySet_GET_SIZE(set) == 0) return;
  if (Ref<> constants = setOfConstants(set)) {
    fill(PlanOp::kSetReplace, {target, constant(constants.get())});
    return;
  }
  if (t_.own_keys.any() && hasOwnKeys(t_, set)) {
    std::vector<Register> operands{target};
    Ref<> table = tableOfOwnKeys(set, operands);
    if (table)
      fill(PlanOp::kSetOfTable, std::move(operands), std::move(table));
    else
      fail(set);
    return;
  }
  PyObject* item = nullptr;
  Py_hash_t hash = 0;
  Py_ssize_t position = 0;
  while (_PySet_NextEntry(set, &position, &item, &hash))
    fill(PlanOp::kSetAdd, {target, value(item)});
}

// A set with the same table and None in the place of every element: with those that the plan makes, none is hashed or
// compared. Null: not all stand under the same hash again.
Ref<> PlanBuilder::tableOfOwnKeys(PyObject* set, std::vector<Register>& elements) {
  PyObject* item = nullptr;
  Py_hash_t hash = 0;
  Py_ssize_t position = 0;
  while (_PySet_NextEntry(set, &position, &item, &hash)) {
    if (!sameHashAtExit(t_, item)) return Ref<>();
    elements.push_back(value(item));
  }
  Ref<> table = stealRef(stator_set_like(&PySet_Type, set));
  if (!table) throw PythonError();
  std::vector<PyObject*> nothing(static_cast<size_t>(PySet_GET_SIZE(set)), Py_None);
  stator_set_rekey(table.get(), nothing.data());
  return table;
}

// The __dict__ of an object that the trace made: what the object's class says it is.
Register PlanBuilder::ownDict(PyObject* owner, PyObject* dict) {
  PyObject* descriptor = _PyType_Lookup(Py_TYPE(owner), names().dunder_dict);
  if (descriptor == nullptr || Py_TYPE(descriptor) != &PyGetSetDescr_Type) return fail(dict);
  Register made = value(owner);
  if (auto it = memo_.find(dict); it != memo_.end()) return it->second;
  Ref<> get = stealRef(PyObject_GetAttr(descriptor, names().dunder_get));
  if (!get) throw PythonError();
  return add(PlanOp::kCall, dict, std::move(get), {made});
}

Register PlanBuilder::dictLike(PyObject* object, PyTypeObject* type) {
  Register result = newOf(object);
  if (PyType_IsSubtype(type, defaultDictType())) {
    Ref<> factory = stealRef(PyObject_GetAttrString(object, "default_factory"));
    fill(PlanOp::kDefaultFactory, {result, value(factory.get())});
  }
  fillDict(result, object);
  if (stator_is_user_class(type) || type == &PyODict_Type) fillAttributes(result, object);
  return result;
}

// One that the program made, or the __dict__ of an object that it made.
Register PlanBuilder::dict(PyObject* object) {
  values::Info* info = t_.values.find(object);
  PyObject* owner = info != nullptr ? info->attributes_of : nullptr;
  Ref<> owned = owner != nullptr ? stealRef(PyObject_GenericGetDict(owner, nullptr)) : Ref<>();
  if (owner != nullptr && !owned) PyErr_Clear();
  if (owned.get() == object) return ownDict(owner, object);
  Register result = add(PlanOp::kDict, object);
  fillDict(result, object);
  return result;
}

Register PlanBuilder::range(PyObject* object) {
  std::vector<Register> operands;
  for (const char* name : {"start", "stop", "step"}) {
    Ref<> part = stealRef(PyObject_GetAttrString(object, name));
    operands.push_back(constant(part.get()));
  }
  return add(PlanOp::kCall, object, newRef(reinterpret_cast<PyObject*>(Py_TYPE(object))), operands);
}

Register PlanBuilder::frozenSet(PyObject* object) {
  Ref<> constants = setOfConstants(object);
  if (!constants && t_.own_keys.any() && hasOwnKeys(t_, object)) {
    std::vector<Register> operands;
    Ref<> table = tableOfOwnKeys(object, operands);
    return table ? add(PlanOp::kFrozenSet, object, table, std::move(operands)) : fail(object);
  }
  return constants ? add(PlanOp::kFrozenSet, object, constants)
                   : add(PlanOp::kFrozenSet, object, Ref<>(), sequence(object));
}

Register PlanBuilder::view(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  bool keys = type == &PyDictKeys_Type || type == &PyODictKeys_Type,
       values = type == &PyDictValues_Type || type == &PyODictValues_Type;
  const char* name = keys ? "keys" : values ? "values" : "items";
  auto* dict = stator_dict_of_view(object);
  std::string path =
      std::string(PyODict_Check(dict) ? "collections.OrderedDict." : "builtins.dict.") + name;
  return add(PlanOp::kCall, object, newRef(torchObject(path.c_str())), {dictBehind(dict)});
}

Register PlanBuilder::deque(PyObject* object) {
  Ref<> maxlen = stealRef(PyObject_GetAttrString(object, "maxlen"));
  Register result =
      add(PlanOp::kDeque, object, newRef(reinterpret_cast<PyObject*>(Py_TYPE(object))),
          {value(maxlen.get())});
  std::vector<Register> items = sequence(object);
  for (Register item : items) {
    PlanStep step{PlanOp::kCall};
    step.result = next_++;
    step.object = newRef(torchObject("collections.deque.append"));
    step.operands = {result, item};
    plan_.steps.push_back(std::move(step));
  }
  return result;
}

// A Decimal, a date, a number of NumPy's: a new one in each call, as eager's operations make it.
std::optional<Register> PlanBuilder::madeOfParts(PyObject* object) {
  const Ref<> making = makingOf(object);
  if (!making) return std::nullopt;
  PyObject* arguments = PyTuple_GET_ITEM(making.get(), 1);
  std::vector<Register> operands;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(arguments); ++i) {
    PyObject* argument = PyTuple_GET_ITEM(arguments, i);
    // A time zone that the trace never met by itself is that of the value.
    const bool known =
        argument != object && (values::isScalar(argument) || t_.values.find(argument) != nullptr);
    operands.push_back(known ? value(argument) : constant(argument));
  }
  return add(PlanOp::kCall, object, newRef(PyTuple_GET_ITEM(making.get(), 0)), operands);
}

std::optional<Register> PlanBuilder::container(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  if (type == &PyTuple_Type)
    return PyTuple_GET_SIZE(object) == 0 ? constant(object) : tuple(object);
  if (type == sizeType())
    return add(PlanOp::kTupleOf, object, newRef(reinterpret_cast<PyObject*>(type)),
               sequence(object));
  if (type == &PyList_Type) {
    Register result = add(PlanOp::kList, object);
    fillList(result, object);
    return result;
  }
  if (type == &PyDict_Type) return dict(object);
  if (type == &PySet_Type) {
    Register result = add(PlanOp::kSet, object);
    fillSet(result, object);
    return result;
  }
  if (type == &PyRange_Type) return range(object);
  if (type == &PyFrozenSet_Type) return frozenSet(object);
  if (type == &PySlice_Type) {
    auto* slice = reinterpret_cast<PySliceObject*>(object);
    return add(PlanOp::kSlice, object, Ref<>(),
               {value(slice->start), value(slice->stop), value(slice->step)});
  }
  if (std::optional<Register> made = madeOfParts(object)) return made;
  if (isDictView(object)) return view(object);
  if (type == dequeType()) return deque(object);
  return std::nullopt;
}

}  // namespace stator::interpret
