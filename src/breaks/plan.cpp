#include "breaks/plan.h"

#include "base/check.h"
#include "base/hot.h"
#include "python/objects.h"
#include "python/types.h"
#include "values/dicts.h"

namespace stator::breaks {

namespace {

using Registers = std::vector<Ref<>>;

PyObject* at(const Registers& registers, Register index) {
  return index < 0 ? nullptr : registers[static_cast<size_t>(index)].get();
}

// Elements of a set in the places of those that it has.
void rekey(const Registers& registers, const PlanStep& step, size_t first, PyObject* set) {
  std::vector<PyObject*> keys;
  for (size_t i = first; i < step.operands.size(); ++i)
    keys.push_back(at(registers, step.operands[i]));
  stator_set_rekey(set, keys.data());
}

Ref<> makeTuple(const Registers& registers, const std::vector<Register>& operands) {
  Ref<> tuple = stealRef(PyTuple_New(static_cast<Py_ssize_t>(operands.size())));
  for (size_t i = 0; tuple && i < operands.size(); ++i) {
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i),
                     Py_XNewRef(at(registers, operands[i])));
  }
  return tuple;
}

// By the tp_new of C: the trace ran the program's own __new__ already.
Ref<> makeNew(PyObject* cls) {
  auto* type = reinterpret_cast<PyTypeObject*>(cls);
  Ref<> empty = stealRef(PyTuple_New(0));
  return stealRef(stator_native_base(type)->tp_new(type, empty.get(), nullptr));
}

Ref<> makeFunction(const Registers& registers, const PlanStep& step) {
  Ref<> function = stealRef(PyFunction_NewWithQualName(at(registers, step.operands[0]),
                                                       at(registers, step.operands[1]),
                                                       at(registers, step.operands[2])));
  if (!function) return function;
  if (PyObject* closure = at(registers, step.operands[3]))
    PyFunction_SetClosure(function.get(), closure);
  if (PyObject* defaults = at(registers, step.operands[4]))
    PyFunction_SetDefaults(function.get(), defaults);
  if (PyObject* kw = at(registers, step.operands[5])) PyFunction_SetKwDefaults(function.get(), kw);
  return function;
}

Ref<> makeIterator(PyObject* iterable, int64_t position) {
  Ref<> iterator = stealRef(stator_native_iter(iterable));
  if (!iterator || position == 0) return iterator;
  if (PyObject_HasAttrString(iterator.get(), "__setstate__")) {
    Ref<> done = stealRef(
        PyObject_CallMethod(iterator.get(), "__setstate__", "L", static_cast<long long>(position)));
    return done ? iterator : Ref<>();
  }
  for (int64_t i = 0; i < position; ++i) {
    Ref<> item = stealRef(PyIter_Next(iterator.get()));
    if (!item) break;
  }
  return PyErr_Occurred() ? Ref<>() : iterator;
}

bool replaceDict(PyObject* dict, PyObject* contents) {
  // finalizers of what goes away run when the new contents are in place
  Ref<> keys = stealRef(PyDict_Keys(dict)), old = stealRef(PyDict_Values(dict));
  return keys && old && values::dictClear(dict) && values::dictFill(dict, contents);
}

// Into the instance dict or slot, past descriptors of the class that run user code; a null value deletes.
bool storeAttribute(PyObject* owner, PyObject* name, PyObject* value) {
  PyObject* on_type = _PyType_Lookup(Py_TYPE(owner), name);
  bool hidden = on_type != nullptr && Py_TYPE(on_type)->tp_descr_set != nullptr &&
                Py_TYPE(on_type) != &PyMemberDescr_Type && Py_TYPE(on_type) != &PyGetSetDescr_Type;
  if (!hidden) return PyObject_GenericSetAttr(owner, name, value) == 0;
  Ref<> dict = stealRef(PyObject_GenericGetDict(owner, nullptr));
  return dict && (value != nullptr ? PyDict_SetItem(dict.get(), name, value)
                                   : PyDict_DelItem(dict.get(), name)) == 0;
}

// Into the instance dict alone: a function's own dict may have a `__dict__`, which is not the function's.
bool storeEntry(PyObject* owner, PyObject* name, PyObject* value) {
  PyObject* on_type = PyUnicode_Check(name) ? _PyType_Lookup(Py_TYPE(owner), name) : nullptr;
  if (PyUnicode_Check(name) && (on_type == nullptr || Py_TYPE(on_type)->tp_descr_set == nullptr))
    return PyObject_GenericSetAttr(owner, name, value) == 0;
  Ref<> dict = stealRef(PyObject_GenericGetDict(owner, nullptr));
  return dict && PyDict_SetItem(dict.get(), name, value) == 0;
}

// An object made for the program, empty where something in it may lead back to it.
Ref<> made(const PlanStep& step, const Registers& r) {
  auto operand = [&](size_t i) { return at(r, step.operands[i]); };
  Ref<> value;
  switch (step.op) {
    case PlanOp::kTuple:
      value = makeTuple(r, step.operands);
      break;
    case PlanOp::kTupleOf: {
      Ref<> items = makeTuple(r, step.operands);
      if (!items) return Ref<>();
      Ref<> args = stealRef(PyTuple_Pack(1, items.get()));
      auto* type = reinterpret_cast<PyTypeObject*>(step.object.get());
      value = stealRef(stator_native_base(type)->tp_new(type, args.get(), nullptr));
      break;
    }
    case PlanOp::kScalarOf: {
      Ref<> args = makeTuple(r, step.operands);
      if (!args) return Ref<>();
      auto* type = reinterpret_cast<PyTypeObject*>(step.object.get());
      value = stealRef(stator_native_base(type)->tp_new(type, args.get(), nullptr));
      break;
    }
    case PlanOp::kList:
      value = stealRef(PyList_New(0));
      break;
    case PlanOp::kDict:
      value = stealRef(PyDict_New());
      break;
    case PlanOp::kSet:
      value = stealRef(PySet_New(nullptr));
      break;
    case PlanOp::kFrozenSet: {
      if (step.object) {
        value = stealRef(stator_set_like(&PyFrozenSet_Type, step.object.get()));
        if (value && !step.operands.empty()) rekey(r, step, 0, value.get());
        break;
      }
      Ref<> items = makeTuple(r, step.operands);
      value = items ? stealRef(PyFrozenSet_New(items.get())) : Ref<>();
      break;
    }
    case PlanOp::kSlice:
      value = stealRef(PySlice_New(operand(0), operand(1), operand(2)));
      break;
    case PlanOp::kDeque: {
      Ref<> empty = stealRef(PyTuple_New(0));
      value = stealRef(
          PyObject_CallFunctionObjArgs(step.object.get(), empty.get(), operand(0), nullptr));
      break;
    }
    case PlanOp::kException: {
      Ref<> args = makeTuple(r, step.operands);
      if (!args) return Ref<>();
      auto* type = reinterpret_cast<PyTypeObject*>(step.object.get());
      PyTypeObject* base = stator_native_base(type);
      value = stealRef(base->tp_new(type, args.get(), nullptr));
      if (value && base->tp_init(value.get(), args.get(), nullptr) != 0) return Ref<>();
      break;
    }
    case PlanOp::kNew:
      value = makeNew(step.object ? step.object.get() : operand(0));
      break;
    case PlanOp::kCell:
      value = stealRef(PyCell_New(nullptr));
      break;
    default:
      STATOR_CHECK(false, "a step that makes nothing");
  }
  return value;
}

STATOR_HOT Ref<> valueOf(const PlanStep& step, const sources::Roots& roots, PyObject* graph_outputs,
                         const Registers& r) {
  auto operand = [&](size_t i) { return at(r, step.operands[i]); };
  Ref<> value;
  switch (step.op) {
    case PlanOp::kConstant:
      value = step.object;
      break;
    case PlanOp::kSource:
      value = sources::read(*step.source, roots);
      STATOR_CHECK(value || PyErr_Occurred(), "a guarded source could not be read: " +
                                                  sources::print(*step.source, roots.code));
      break;
    case PlanOp::kStackEntry:
      value = sources::read(*step.source, roots);
      break;
    case PlanOp::kGraphOutput:
      value = newRef(PyList_Check(graph_outputs) ? PyList_GET_ITEM(graph_outputs, step.number)
                                                 : PyTuple_GET_ITEM(graph_outputs, step.number));
      break;
    case PlanOp::kFunction:
      value = makeFunction(r, step);
      break;
    case PlanOp::kMethod:
      value = stealRef(PyMethod_New(operand(0), operand(1)));
      break;
    case PlanOp::kBoundBuiltin: {
      PyObject* descriptor = step.object.get();
      value = stealRef(Py_TYPE(descriptor)
                           ->tp_descr_get(descriptor, operand(0),
                                          reinterpret_cast<PyObject*>(Py_TYPE(operand(0)))));
      break;
    }
    case PlanOp::kCall: {
      Ref<> args = makeTuple(r, step.operands);
      value = args ? stealRef(PyObject_Call(step.object.get(), args.get(), nullptr)) : Ref<>();
      break;
    }
    case PlanOp::kAdvance:
      value = newRef(operand(0));
      for (int64_t i = 0; i < step.number; ++i) {
        Ref<> item = stealRef(PyIter_Next(value.get()));
        if (!item) break;
      }
      if (PyErr_Occurred()) return Ref<>();
      break;
    case PlanOp::kIterator:
      value = makeIterator(operand(0), step.number);
      break;
    case PlanOp::kReversed:
      value = stealRef(stator_native_reversed(operand(0)));
      break;
    case PlanOp::kGenerator:
      value = generatorDoors().make(operand(0));
      break;
    default:
      return made(step, r);
  }
  return value;
}

// Puts into an object what was left out when it was made.
bool fill(const PlanStep& step, const Registers& r) {
  auto operand = [&](size_t i) { return at(r, step.operands[i]); };
  switch (step.op) {
    case PlanOp::kListExtend:
      for (size_t i = 1; i < step.operands.size(); ++i) {
        if (PyList_Append(operand(0), operand(i)) != 0) return false;
      }
      return true;
    case PlanOp::kDictSet:
      return values::dictSet(operand(0), operand(1), operand(2));
    case PlanOp::kDictSetHashed:
      return _PyDict_SetItem_KnownHash(operand(0), operand(1), operand(2), step.number) == 0;
    case PlanOp::kSetAdd:
      return PySet_Add(operand(0), operand(1)) == 0;
    case PlanOp::kSetOfTable: {
      Ref<> set = stealRef(stator_set_like(&PySet_Type, step.object.get()));
      if (!set) return false;
      rekey(r, step, 1, set.get());
      return stator_set_assign(operand(0), set.get()) == 0;
    }
    case PlanOp::kAttributeSet:
      return storeAttribute(operand(0), step.object.get(), operand(1));
    case PlanOp::kAttributeDelete:
      return storeAttribute(operand(0), step.object.get(), nullptr);
    case PlanOp::kEntrySet:
      return storeEntry(operand(0), step.object.get(), operand(1));
    case PlanOp::kCellSet:
      return PyCell_Set(operand(0), operand(1)) == 0;
    case PlanOp::kDefaultFactory:
      return PyObject_SetAttrString(operand(0), "default_factory", operand(1)) == 0;
    default:
      STATOR_CHECK(false, "a step that fills nothing");
  }
}

bool effect(const PlanStep& step, const Registers& r) {
  auto operand = [&](size_t i) { return at(r, step.operands[i]); };
  switch (step.op) {
    case PlanOp::kListReplace:
      // A list that is being sorted (`allocated` is -1) is to know of a write that leaves nothing in it, too.
      if (reinterpret_cast<PyListObject*>(operand(0))->allocated == -1 &&
          PyList_Append(operand(0), Py_None) != 0)
        return false;
      return PyList_SetSlice(operand(0), 0, PyList_GET_SIZE(operand(0)), operand(1)) == 0;
    case PlanOp::kDictReplace:
      return replaceDict(operand(0), operand(1));
    case PlanOp::kSetReplace:
      return stator_set_assign(operand(0), operand(1)) == 0;
    case PlanOp::kDictStore:
      return values::dictSet(operand(0), operand(1), operand(2));
    case PlanOp::kDictDelete:
      return values::dictDelete(operand(0), operand(1));
    case PlanOp::kTypeAttributeSet:
      return PyType_Type.tp_setattro(operand(0), step.object.get(), operand(1)) == 0;
    case PlanOp::kTypeAttributeDelete:
      return PyType_Type.tp_setattro(operand(0), step.object.get(), nullptr) == 0;
    case PlanOp::kLruHit:
      return stator_lru_hit(operand(0), operand(1)) == 0;
    case PlanOp::kLruStore:
      return stator_lru_miss(operand(0)) == 0 &&
             stator_lru_store(operand(0), operand(1), operand(2)) == 0;
    case PlanOp::kGeneratorFill: {
      std::vector<PyObject*> parts;
      for (size_t i = 2; i < step.operands.size(); ++i) parts.push_back(operand(i));
      return generatorDoors().fill(operand(0), step.number, operand(1), parts);
    }
    case PlanOp::kSkip:
      stator_iterator_skip(operand(0), step.number);
      return true;
    case PlanOp::kSeek: {
      Ref<> done = stealRef(PyObject_CallMethod(operand(0), "__setstate__", "L",
                                                static_cast<long long>(step.number)));
      return static_cast<bool>(done);
    }
    case PlanOp::kSeekEntry: {
      Ref<> fresh = makeIterator(operand(1), step.number);
      if (fresh) stator_copy_iterator_position(fresh.get(), operand(0));
      return static_cast<bool>(fresh);
    }
    case PlanOp::kEffectCall: {
      Ref<> args = makeTuple(r, step.operands);
      Ref<> done = args ? stealRef(PyObject_Call(step.object.get(), args.get(), nullptr)) : Ref<>();
      return static_cast<bool>(done);
    }
    default:
      return fill(step, r);
  }
}

bool gives(PlanOp op) { return op < PlanOp::kListExtend || op == PlanOp::kGenerator; }

STATOR_HOT bool runStep(const PlanStep& step, const sources::Roots& roots, PyObject* graph_outputs,
                        Registers& r) {
  if (!gives(step.op)) return effect(step, r);
  Ref<> value = valueOf(step, roots, graph_outputs, r);
  if (!value && step.op != PlanOp::kStackEntry) return false;
  r[static_cast<size_t>(step.result)] = std::move(value);
  return true;
}

}  // namespace

GeneratorDoors& generatorDoors() {
  static GeneratorDoors doors{};
  return doors;
}

STATOR_HOT bool runSteps(const Plan& plan, const sources::Roots& roots, PyObject* graph_outputs,
                         std::vector<Ref<>>& registers) {
  registers.resize(static_cast<size_t>(plan.register_count));
  for (const PlanStep& step : plan.steps) {
    if (!runStep(step, roots, graph_outputs, registers)) return false;
  }
  return true;
}

int Plan::traverse(visitproc visit, void* arg) const {
  for (const PlanStep& step : steps) Py_VISIT(step.object.get());
  return 0;
}

std::string Plan::text() const {
  std::string out = exit == ExitKind::kReturn ? "returns" : "leaves";
  if (exit == ExitKind::kBreak) {
    out += std::string(": ") + reasonName(reason);
    if (!detail.empty()) out += " (" + detail + ")";
  }
  return out;
}

}  // namespace stator::breaks
