// Objects of the trace as steps of a plan: containers, instances, functions of sizes, and what belongs to each type.
#include "interpret/frames/plan_builder.h"

#include "base/check.h"
#include "base/faults.h"
#include "base/stack_room.h"
#include "bytecode/opcodes.h"
#include "interpret/calls/classes.h"
#include "interpret/core/apparent_types.h"
#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/core/symbols.h"
#include "interpret/core/trace_iterator.h"
#include "interpret/core/tracer.h"
#include "interpret/objects/attributes.h"
#include "interpret/objects/exceptions.h"
#include "interpret/objects/keys.h"
#include "interpret/objects/scalars.h"
#include "interpret/tensors/arrays.h"
#include "interpret/tensors/random_draws.h"
#include "interpret/tensors/torch_function.h"
#include "python/dict_views.h"
#include "python/objects.h"
#include "python/types.h"
#include "sources/short_lived.h"
#include "symbolic/sym_int.h"
#include "values/dicts.h"

namespace stator::interpret {

using breaks::kNull;
using breaks::PlanOp;
using breaks::PlanStep;
using breaks::Register;

PlanBuilder::PlanBuilder(Tracer& tracer, breaks::Plan& plan) : t_(tracer), plan_(plan) {
  for (values::Info* info : t_.values.all()) {
    // The items of a kind of tuple are a plain tuple, which `t[:]` and `t * 1` give and which is not t.
    if (info->shadow && info->origin == values::Origin::kOutside &&
        !PyCell_Check(info->object.get()) &&
        (!PyTuple_Check(info->object.get()) ||
         Py_TYPE(info->object.get()) == Py_TYPE(info->shadow.get())))
      owner_of_[info->shadow.get()] = info->object.get();
  }
}

Register PlanBuilder::value(PyObject* object) {
  if (object == nullptr) return kNull;
  if (auto it = memo_.find(object); it != memo_.end()) return it->second;
  if (auto it = owner_of_.find(object); it != owner_of_.end()) return value(it->second);
  return build(object);
}

void PlanBuilder::effect(PlanOp op, Ref<> object, std::vector<Register> operands, int64_t number) {
  PlanStep step{op};
  step.number = number;
  step.object = std::move(object);
  step.operands = std::move(operands);
  effects_.push_back(std::move(step));
}

void PlanBuilder::finish() {
  plan_.commit = plan_.steps.size();
  for (PlanStep& step : effects_) plan_.steps.push_back(std::move(step));
  for (PlanStep& step : seeks_) plan_.steps.push_back(std::move(step));
  plan_.register_count = next_;
}

Register PlanBuilder::stackEntry(size_t index) {
  Register result = add(PlanOp::kSource, nullptr);
  plan_.steps.back().source =
      t_.world.root(sources::SourceKind::kStack, static_cast<int64_t>(index));
  return result;
}

Register PlanBuilder::add(PlanOp op, PyObject* key, Ref<> object, std::vector<Register> operands,
                          int64_t number) {
  faultPoint();
  PlanStep step{op};
  step.result = next_++;
  step.object = std::move(object);
  step.operands = std::move(operands);
  step.number = number;
  Register result = step.result;
  plan_.steps.push_back(std::move(step));
  if (key != nullptr) {
    memo_[key] = result;
    // the memo's keys must stay unique until the plan is done
    t_.world.keep(newRef(key));
  }
  return result;
}

void PlanBuilder::fill(PlanOp op, std::vector<Register> operands, Ref<> object) {
  PlanStep step{op};
  step.object = std::move(object);
  step.operands = std::move(operands);
  plan_.steps.push_back(std::move(step));
}

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

bool PlanBuilder::madeHere(PyObject* object) {
  values::Info* info = t_.values.find(object);
  return info != nullptr && info->origin == values::Origin::kMade;
}

Register PlanBuilder::fail(PyObject* object) {
  failed_ = true;
  values::Info* info = t_.values.find(object);
  if (info != nullptr)
    t_.ending.restartAtEarliest(info->born, Reason::kCannotRebuild,
                                std::string("a ") + typeOf(t_, object)->tp_name);
  return kNull;
}

std::vector<Register> PlanBuilder::sequence(PyObject* items) {
  std::vector<Register> out;
  // By the C layout, whatever a subclass has for __iter__.
  const bool by_layout = PyTuple_Check(items) || PyList_Check(items);
  Ref<> held = by_layout ? newRef(items) : stealRef(PySequence_List(items));
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

// A copy of a set of constants, from which the plan makes sets with the same order; null where elements are not constants, or are made anew.
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

// A set with the same table and None in the place of every element: with those that the plan makes, none is hashed or compared. Null: not
// all stand under the same hash again.
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

void PlanBuilder::fillAttributes(Register target, PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  PyObject* mro = stator_type_mro(type);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(mro); ++i) {
    auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(mro, i));
    if (!stator_is_user_class(base)) continue;
    PyObject *name = nullptr, *entry = nullptr;
    Py_ssize_t position = 0;
    while (PyDict_Next(stator_type_entries(base), &position, &name, &entry)) {
      if (Py_TYPE(entry) != &PyMemberDescr_Type) continue;
      Ref<> held =
          stealRef(Py_TYPE(entry)->tp_descr_get(entry, object, reinterpret_cast<PyObject*>(type)));
      if (!held) {
        PyErr_Clear();
        continue;
      }
      fill(PlanOp::kAttributeSet, {target, value(held.get())}, newRef(name));
    }
  }
  Ref<> dict = stealRef(PyObject_GenericGetDict(object, nullptr));
  if (!dict) {
    PyErr_Clear();
    return;
  }
  PyObject *name = nullptr, *item = nullptr;
  Py_ssize_t position = 0;
  while (PyDict_Next(dict.get(), &position, &name, &item)) {
    if (!PyUnicode_Check(name)) {
      fail(object);  // a key of its __dict__ that is no attribute's name
      return;
    }
    fill(PlanOp::kAttributeSet, {target, value(item)}, newRef(name));
  }
}

namespace {
// A size as a value that an exported graph gives out. An input is no output, since a plan reads it where the graph's caller has it.
Ref<> givenOut(Tracer& t, const symbolic::Expr* expr) {
  Ref<> node = symNode(t, symbolic::Dim::of(expr));
  if (!graph::isStandIn(node.get()) || graph::asStandIn(node.get())->node->op != graph::Op::kInput)
    return node;
  graph::Node* given =
      t.graphs.current().addCall(graph::Op::kCallFunction, newRef(torchObject("torch.sym_int")),
                                 stealRef(PyTuple_Pack(1, node.get())), Ref<>());
  PyObject* int_type = reinterpret_cast<PyObject*>(&PyLong_Type);
  given->scalar_type = newRef(int_type);
  given->size = symbolic::Dim::of(expr);
  Ref<> made = graph::makeStandIn(given, nullptr, int_type);
  t.values.addMade(made, 0);
  return made;
}
}  // namespace

Register PlanBuilder::symbolicInt(const symbolic::Expr* expr) {
  needStack();
  using symbolic::Kind;
  auto known = symbolic_.find(expr);
  if (known != symbolic_.end()) return known->second;
  auto number = [&](int64_t value) {
    Ref<> boxed = stealRef(PyLong_FromLongLong(value));
    return constant(boxed.get());
  };
  auto call = [&](PyObject* function, Register left, Register right) {
    return add(PlanOp::kCall, nullptr, newRef(function), {left, right});
  };
  Register result = kNull;
  if (forExport() && !expr->isInt()) return symbolic_[expr] = value(givenOut(t_, expr).get());
  switch (expr->kind) {
    case Kind::kInt:
      result = number(expr->number);
      break;
    case Kind::kSymbol:
      if (t_.sizes.sources()[static_cast<size_t>(expr->number)] == nullptr) {
        result = value(symNode(t_, symbolic::Dim::of(expr)).get());
        break;
      }
      result = add(PlanOp::kSource, nullptr);
      plan_.steps.back().source = t_.sizes.sources()[static_cast<size_t>(expr->number)];
      break;
    case Kind::kSum:
      for (const symbolic::Part& part : expr->parts) {
        Register term = symbolicInt(part.expr);
        if (part.number != 1) term = call(operatorFunction("mul"), term, number(part.number));
        result = result == kNull ? term : call(operatorFunction("add"), result, term);
      }
      if (expr->number != 0) result = call(operatorFunction("add"), result, number(expr->number));
      break;
    case Kind::kProduct:
      for (const symbolic::Part& part : expr->parts) {
        Register factor = symbolicInt(part.expr);
        if (part.number != 1) factor = call(operatorFunction("pow"), factor, number(part.number));
        result = result == kNull ? factor : call(operatorFunction("mul"), result, factor);
      }
      break;
    case Kind::kFloorDiv:
      result = call(operatorFunction("floordiv"), symbolicInt(expr->parts[0].expr),
                    symbolicInt(expr->parts[1].expr));
      break;
    case Kind::kMod:
      result = call(operatorFunction("mod"), symbolicInt(expr->parts[0].expr),
                    symbolicInt(expr->parts[1].expr));
      break;
    case Kind::kPow:
      result = call(operatorFunction("pow"), symbolicInt(expr->parts[0].expr),
                    symbolicInt(expr->parts[1].expr));
      break;
    case Kind::kMin:
    case Kind::kMax: {
      std::vector<Register> operands;
      for (const symbolic::Part& part : expr->parts) operands.push_back(symbolicInt(part.expr));
      result = add(PlanOp::kCall, nullptr,
                   newRef(builtinFunction(expr->kind == Kind::kMin ? "min" : "max")), operands);
      break;
    }
    default:
      STATOR_CHECK(false, "a truth value as an int");
  }
  symbolic_[expr] = result;
  return result;
}

Register PlanBuilder::build(PyObject* object) {
  needStack();
  if (graph::isStandIn(object)) {
    graph::Node* node = graph::asStandIn(object)->node;
    // of a function that the graph calls
    if (node->home != &t_.graphs.current()) return fail(object);
    // A ragged size: backends that take nested tensors apart cannot give it out.
    if (node->wrapper && graph::asStandIn(object)->meta == nullptr && !t_.options.runs_as_captured)
      return fail(object);
    bool cast = t_.torch_function.anyCasts() && isCast(object);
    bool input = node->op == graph::Op::kInput;
    Register result = kNull;
    if (input) {
      result = add(PlanOp::kSource, cast ? nullptr : object);
      plan_.steps.back().source = node->source;
      if (!cast) return result;
    } else {
      t_.graphs.current().addOutput(node);
      result = add(PlanOp::kGraphOutput, cast ? nullptr : object, Ref<>(), {},
                   t_.graphs.current().outputIndex(node));
    }
    if (cast) {
      // A leaf (a parameter that the program has made) has to stay the very tensor that the graph gives.
      const shapes::TensorMeta* meta = graph::asStandIn(object)->meta;
      bool leaf = !input && meta->requires_grad && meta->is_leaf;
      t_.torch.noteGradsMatter();
      result = add(PlanOp::kCall, object,
                   newRef(torchObject(leaf ? "stator._core.become" : "stator._core.as_subclass")),
                   {result, constant(graph::asStandIn(object)->apparent_type)});
    }
    values::Info* info = t_.values.find(object);
    if (info != nullptr && info->overlay) {
      PyObject *name = nullptr, *item = nullptr;
      Py_ssize_t position = 0;
      while (PyDict_Next(info->overlay.get(), &position, &name, &item))
        fill(PlanOp::kAttributeSet, {result, value(item)}, newRef(name));
    }
    return result;
  }
  if (values::isScalar(object)) return constant(object);
  if (symbolic::isSymScalar(object)) {
    symbolic::SymScalar* scalar = symbolic::asSymScalar(object);
    if (scalar->stand_in != nullptr) return value(scalar->stand_in);
    Register result = add(PlanOp::kSource, object);
    plan_.steps.back().source = static_cast<const sources::Source*>(scalar->source);
    return result;
  }
  if (symbolic::isSymInt(object))
    return symbolicInt(t_.sizes.environment().simplify(symbolic::dimOf(object).expr()));
  if (isAddress(object)) {
    PyObject* of = addressTarget(t_, object);
    const bool is_id = t_.identities.addressOf(of) == object;
    const char* function = is_id ? "id" : "hash";  // of a tuple with tensors
    return add(PlanOp::kCall, object, newRef(builtinFunction(function)), {value(of)});
  }
  if (values::Info* info = t_.values.find(object);
      info != nullptr && info->origin == values::Origin::kOutside) {
    Register result = add(PlanOp::kSource, object);
    plan_.steps.back().source = info->source;
    if (info->source->kind != sources::SourceKind::kProxied) return result;
    return memo_[object] = add(PlanOp::kCall, nullptr,
                               newRef(reinterpret_cast<PyObject*>(mappingProxyType())), {result});
  }
  if (isTraceIterator(object)) return iterator(object);
  if (values::Info* info = t_.values.find(object); info != nullptr && info->address_shown)
    return fail(object);
  PyTypeObject* type = Py_TYPE(object);
  if (isMadeClass(t_, object)) return fail(object);
  if (isMadeClass(t_, reinterpret_cast<PyObject*>(type)))
    return fail(reinterpret_cast<PyObject*>(type));
  if (PyTuple_Check(object)) {
    if (t_.identities.isCodeConstant(object)) return constant(object);
    if (type == &PyTuple_Type)
      return PyTuple_GET_SIZE(object) == 0 ? constant(object) : tuple(object);
    if (type == sizeType())
      return add(PlanOp::kTupleOf, object, newRef(reinterpret_cast<PyObject*>(type)),
                 sequence(object));
  }
  if (type == &PyList_Type) {
    Register result = add(PlanOp::kList, object);
    fillList(result, object);
    return result;
  }
  if (type == &PyDict_Type) {
    values::Info* info = t_.values.find(object);
    PyObject* owner = info != nullptr ? info->attributes_of : nullptr;
    Ref<> owned = owner != nullptr ? stealRef(PyObject_GenericGetDict(owner, nullptr)) : Ref<>();
    if (owner != nullptr && !owned) PyErr_Clear();
    if (owned.get() == object) return ownDict(owner, object);
    Register result = add(PlanOp::kDict, object);
    fillDict(result, object);
    return result;
  }
  if (type == &PySet_Type) {
    Register result = add(PlanOp::kSet, object);
    fillSet(result, object);
    return result;
  }
  if (type == &PyRange_Type) {
    std::vector<Register> operands;
    for (const char* name : {"start", "stop", "step"}) {
      Ref<> part = stealRef(PyObject_GetAttrString(object, name));
      operands.push_back(constant(part.get()));
    }
    return add(PlanOp::kCall, object, newRef(reinterpret_cast<PyObject*>(type)), operands);
  }
  if (t_.identities.isCodeConstant(object)) return constant(object);
  if (type != &PyFrozenSet_Type && type != &PySlice_Type && values::isConstantDeep(object))
    return constant(object);
  if (type == &PyFrozenSet_Type) {
    Ref<> constants = setOfConstants(object);
    if (!constants && t_.own_keys.any() && hasOwnKeys(t_, object)) {
      std::vector<Register> operands;
      Ref<> table = tableOfOwnKeys(object, operands);
      return table ? add(PlanOp::kFrozenSet, object, table, std::move(operands)) : fail(object);
    }
    return constants ? add(PlanOp::kFrozenSet, object, constants)
                     : add(PlanOp::kFrozenSet, object, Ref<>(), sequence(object));
  }
  if (type == &PySlice_Type) {
    auto* slice = reinterpret_cast<PySliceObject*>(object);
    return add(PlanOp::kSlice, object, Ref<>(),
               {value(slice->start), value(slice->stop), value(slice->step)});
  }
  if (PyFunction_Check(object)) {
    // A function that the trace did not make and that has no source is reached through a class or module that is guarded.
    values::Info* info = t_.values.find(object);
    return info != nullptr ? function(object) : constant(object);
  }
  if (PyWeakref_CheckRefExact(object))
    return add(PlanOp::kCall, object, newRef(reinterpret_cast<PyObject*>(type)),
               {value(PyWeakref_GET_OBJECT(object))});
  if (PyCell_Check(object)) {
    Register result = add(PlanOp::kCell, object);
    if (PyObject* held = PyCell_GET(object)) fill(PlanOp::kCellSet, {result, value(held)});
    return result;
  }
  if (PyMethod_Check(object)) {
    PyObject* function = PyMethod_GET_FUNCTION(object);
    if (isTraceArray(PyMethod_GET_SELF(object)) && PyFunction_Check(function)) {
      // The array's own method of that name.
      PyObject* name = reinterpret_cast<PyFunctionObject*>(function)->func_name;
      return add(PlanOp::kCall, object, newRef(builtinFunction("getattr")),
                 {value(PyMethod_GET_SELF(object)), constant(name)});
    }
    if (Py_TYPE(function) == &PyMethodDescr_Type || Py_TYPE(function) == &PyWrapperDescr_Type) {
      PyObject* self = PyMethod_GET_SELF(object);
      return add(PlanOp::kBoundBuiltin, object, newRef(function), {dictBehind(self)});
    }
    return add(PlanOp::kMethod, object, Ref<>(),
               {value(function), value(PyMethod_GET_SELF(object))});
  }
  if (isDictView(object)) {
    bool keys = type == &PyDictKeys_Type || type == &PyODictKeys_Type,
         values = type == &PyDictValues_Type || type == &PyODictValues_Type;
    const char* name = keys ? "keys" : values ? "values" : "items";
    auto* dict = stator_dict_of_view(object);
    std::string path =
        std::string(PyODict_Check(dict) ? "collections.OrderedDict." : "builtins.dict.") + name;
    return add(PlanOp::kCall, object, newRef(torchObject(path.c_str())), {dictBehind(dict)});
  }
  if (type == &PySuper_Type) {
    Ref<> this_class = superPart(object, "__thisclass__");
    Ref<> self = superPart(object, "__self__");
    return add(PlanOp::kCall, object, newRef(reinterpret_cast<PyObject*>(&PySuper_Type)),
               {value(this_class.get()), value(self.get())});
  }
  if (type == dequeType()) {
    Ref<> maxlen = stealRef(PyObject_GetAttrString(object, "maxlen"));
    Register result = add(PlanOp::kDeque, object, newRef(reinterpret_cast<PyObject*>(type)),
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
  if (type == partialType()) {
    Ref<> function = stealRef(PyObject_GetAttrString(object, "func"));
    Ref<> args = stealRef(PyObject_GetAttrString(object, "args"));
    Ref<> keywords = stealRef(PyObject_GetAttrString(object, "keywords"));
    std::vector<Register> operands = {value(function.get())};
    for (Register item : sequence(args.get())) operands.push_back(item);
    Register result =
        add(PlanOp::kCall, object, newRef(reinterpret_cast<PyObject*>(type)), operands);
    if (PyDict_Size(keywords.get()) == 0) return result;
    std::vector<Register> state = {operands[0],
                                   add(PlanOp::kTuple, nullptr, Ref<>(), sequence(args.get())),
                                   value(keywords.get()), constant(Py_None)};
    add(PlanOp::kCall, nullptr, newRef(torchObject("functools.partial.__setstate__")),
        {result, add(PlanOp::kTuple, nullptr, Ref<>(), state)});
    return result;
  }
  if (isTraceTraceback(object)) return fail(object);
  if (PyExceptionInstance_Check(object)) return exception(object);
  if (PyType_Check(object) || PyCFunction_Check(object) || PyModule_Check(object) ||
      PyCode_Check(object) || (isEnumMember(object) && !madeHere(object)) ||
      type == &PyMethodDescr_Type || type == &PyWrapperDescr_Type || type == &PyGetSetDescr_Type ||
      type == &PyMemberDescr_Type || type == &PyProperty_Type || isOpaqueConstant(object)) {
    return constant(object);
  }
  return instance(object);
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

Register PlanBuilder::exception(PyObject* object) {
  values::Info* info = t_.values.find(object);
  auto* raw = reinterpret_cast<PyBaseExceptionObject*>(object);
  if (info == nullptr || info->was_raised || !isPlainException(object)) {
    // What it holds may fail too, and was there before: the trace starts over once and not for each.
    if (raw->args != nullptr) sequence(raw->args);
    return fail(object);
  }
  Register result = add(PlanOp::kException, object,
                        newRef(reinterpret_cast<PyObject*>(Py_TYPE(object))), sequence(raw->args));
  fillAttributes(result, object);
  auto attribute = [&](const char* name, PyObject* held) {
    fill(PlanOp::kAttributeSet, {result, value(held)}, stealRef(PyUnicode_InternFromString(name)));
  };
  if (raw->cause != nullptr) attribute("__cause__", raw->cause);
  if (raw->context != nullptr) attribute("__context__", raw->context);
  if (raw->suppress_context) attribute("__suppress_context__", Py_True);
  return result;
}

void PlanBuilder::setRandomState(Register target, PyObject* generator, bool is_effect) {
  static PyObject* const set_state = torchObject("_random.Random.setstate");
  static PyObject* const gauss_next = PyUnicode_InternFromString("gauss_next");
  Ref<> state = randomState(generator);
  Ref<> gauss = state ? stealRef(PyObject_GetAttr(generator, gauss_next)) : Ref<>();
  if (!gauss) throw PythonError();
  std::vector<Register> operands = {target, constant(state.get())};
  std::vector<Register> attribute = {target, constant(gauss.get())};
  t_.world.keep(state);
  t_.world.keep(gauss);
  if (is_effect) {
    effect(PlanOp::kEffectCall, newRef(set_state), std::move(operands));
    effect(PlanOp::kAttributeSet, newRef(gauss_next), std::move(attribute));
  } else {
    add(PlanOp::kCall, nullptr, newRef(set_state), std::move(operands));
    fill(PlanOp::kAttributeSet, std::move(attribute), newRef(gauss_next));
  }
}

// A plan does not keep classes of a function's body alive: it reads them where the guards do.
Register PlanBuilder::newOf(PyObject* object) {
  auto* type = reinterpret_cast<PyObject*>(Py_TYPE(object));
  if (sources::isShortLived(type) && t_.sourceOf(type) != nullptr)
    return add(PlanOp::kNew, object, Ref<>(), {value(type)});
  return add(PlanOp::kNew, object, newRef(type));
}

Register PlanBuilder::instance(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  if (isTraceArray(object)) {
    PyObject* tensor = arrayTensor(object);
    const sources::Source* source = graph::asStandIn(tensor)->node->source;
    if (source != nullptr && source->kind == sources::SourceKind::kArrayTensor &&
        graph::asStandIn(tensor)->node->op == graph::Op::kInput) {
      Register result = add(PlanOp::kSource, object);
      plan_.steps.back().source = source->base;
      return result;
    }
    const bool scalar = isArrayScalar(object);
    Register result = add(PlanOp::kCall, scalar ? nullptr : object,
                          newRef(torchObject("torch._C.TensorBase.numpy")), {value(tensor)});
    if (!scalar) return result;
    Ref<> nothing = stealRef(PyTuple_New(0));
    return add(PlanOp::kCall, object, newRef(operatorFunction("getitem")),
               {result, constant(nothing.get())});
  }
  if (isRandomGenerator(object)) {
    Register result = add(PlanOp::kCall, object, newRef(torchObject("_random.Random.__new__")),
                          {constant(reinterpret_cast<PyObject*>(type))});
    setRandomState(result, object, false);
    fillAttributes(result, object);
    return result;
  }
  PyTypeObject* base = type;
  while (base->tp_base != nullptr && stator_is_user_class(base)) base = base->tp_base;
  if (isStructSequence(object)) {
    Register items = add(PlanOp::kTuple, nullptr, Ref<>(), sequence(object));
    return add(PlanOp::kCall, object, newRef(reinterpret_cast<PyObject*>(type)), {items});
  }
  if (type->tp_name == std::string_view("types.GenericAlias") ||
      type->tp_name == std::string_view("types.UnionType")) {
    return constant(object);
  }
  if (type == mappingProxyType()) {
    PyObject* mapping = reinterpret_cast<PyObject**>(object)[2];
    return add(PlanOp::kCall, object, newRef(reinterpret_cast<PyObject*>(type)), {value(mapping)});
  }
  if (type == &PyODict_Type || type == defaultDictType()) return dictLike(object, type);
  if (isGraphModule(object)) return fail(object);  // a function that the graph calls
  if (type->tp_name == std::string_view("SdpaParams") &&
      reinterpret_cast<PyObject*>(type) == torchObject("stator.polyfills.contexts.SdpaParams")) {
    std::vector<Register> operands;
    for (const char* name :
         {"query", "key", "value", "attn_mask", "dropout", "is_causal", "enable_gqa"}) {
      Ref<> text = stealRef(PyUnicode_InternFromString(name));
      PyObject* held = rawInstanceAttr(object, text.get());
      if (held == nullptr) return fail(object);
      operands.push_back(value(held));
    }
    return add(PlanOp::kCall, object, newRef(torchObject("torch._C._SDPAParams")), operands);
  }
  if (type == sizeType())
    return add(PlanOp::kTupleOf, object, newRef(reinterpret_cast<PyObject*>(type)),
               sequence(object));
  if (type == itemGetterType() || type == attrGetterType() || type == methodCallerType())
    return getter(object);
  if (t_.values.find(object) == nullptr && !(base == &PyTuple_Type && isNamedTuple(object))) {
    // Neither made by the program nor read from outside: a native result of a kind that nobody taught us to rebuild.
    return fail(object);
  }
  if (type == &PyByteArray_Type) {
    Ref<> bytes = stealRef(PyBytes_FromObject(object));
    return add(PlanOp::kCall, object, newRef(reinterpret_cast<PyObject*>(type)),
               {constant(bytes.get())});
  }
  if (Ref<> scalar = stealRef(stator_exact_scalar(object))) {
    Register result = add(PlanOp::kScalarOf, object, newRef(reinterpret_cast<PyObject*>(type)),
                          {constant(scalar.get())});
    fillAttributes(result, object);
    return result;
  }
  if (base == &PyTuple_Type) {
    Register result =
        add(PlanOp::kTupleOf, object, newRef(reinterpret_cast<PyObject*>(type)), sequence(object));
    fillAttributes(result, object);
    return result;
  }
  if (base == &PyDict_Type || base == &PyODict_Type || base == defaultDictType())
    return dictLike(object, type);
  bool plain_base = base == &PyBaseObject_Type || base == &PyList_Type || base == &PySet_Type ||
                    reinterpret_cast<PyObject*>(base) == torchObject("types.SimpleNamespace");
  if (!plain_base) return fail(object);
  Register result = newOf(object);
  if (base == &PyList_Type) fillList(result, object);
  if (base == &PySet_Type) fillSet(result, object);
  fillAttributes(result, object);
  return result;
}

Register PlanBuilder::getter(PyObject* object) {
  Ref<> reduced = stealRef(PyObject_CallMethod(object, "__reduce__", nullptr));
  if (!reduced) PyErr_Clear();
  if (!reduced ||
      PyTuple_GET_ITEM(reduced.get(), 0) != reinterpret_cast<PyObject*>(Py_TYPE(object)))
    return fail(object);
  t_.world.keep(reduced);
  return add(PlanOp::kCall, object, newRef(reinterpret_cast<PyObject*>(Py_TYPE(object))),
             sequence(PyTuple_GET_ITEM(reduced.get(), 1)));
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

}  // namespace stator::interpret
