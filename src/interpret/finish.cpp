// The end of a trace: what escapes is rebuilt, what was changed is replayed, and each frame gets the state in which it goes on.
#include "base/check.h"
#include "bytecode/opcodes.h"
#include "interpret/exceptions.h"
#include "interpret/known_types.h"
#include "interpret/names.h"
#include "interpret/torch_names.h"
#include "interpret/trace_iterator.h"
#include "interpret/tracer.h"
#include "python/objects.h"
#include "symbolic/sym_int.h"
#include "values/dicts.h"

#include <string_view>
#include <unordered_map>

namespace stator::interpret {

using breaks::kKeep;
using breaks::kNull;
using breaks::PlanOp;
using breaks::PlanStep;
using breaks::Reason;
using breaks::Register;
using guards::Guard;
using guards::GuardKind;

namespace {

class PlanBuilder {
 public:
  PlanBuilder(Tracer& tracer, breaks::Plan& plan) : t_(tracer), plan_(plan) {
    for (values::Info* info : t_.values.all()) {
      if (info->shadow && info->origin == values::Origin::kOutside &&
          !PyCell_Check(info->object.get()))
        owner_of_[info->shadow.get()] = info->object.get();
    }
  }

  bool failed() const { return failed_; }

  Register value(PyObject* object) {
    if (object == nullptr) return kNull;
    if (auto it = memo_.find(object); it != memo_.end()) return it->second;
    if (auto it = owner_of_.find(object); it != owner_of_.end()) return value(it->second);
    return build(object);
  }

  void effect(PlanOp op, Ref<> object, std::vector<Register> operands, int64_t number = 0) {
    PlanStep step{op};
    step.number = number;
    step.object = std::move(object);
    step.operands = std::move(operands);
    effects_.push_back(std::move(step));
  }

  // `except SomeError:` lets GeneratorExit pass: its handler starts with the look-up of a class that is no base of it.
  static bool ignoresClosing(const bytecode::CodeInfo& code, int target) {
    size_t at = static_cast<size_t>(code.indexAt(target));
    const auto& instrs = code.instrs();
    if (at + 2 >= instrs.size() || instrs[at].opcode != PUSH_EXC_INFO ||
        instrs[at + 1].opcode != LOAD_GLOBAL || instrs[at + 2].opcode != CHECK_EXC_MATCH) {
      return false;
    }
    PyObject* name = PyTuple_GET_ITEM(code.code()->co_names, instrs[at + 1].oparg >> 1);
    return PyUnicode_CompareWithASCIIString(name, "BaseException") != 0 &&
           PyUnicode_CompareWithASCIIString(name, "GeneratorExit") != 0;
  }

  // A generator that stands inside of `try` or `with` and that nobody holds any more: eager closed it when it was dropped, which ran the
  // rest of it. When that was, the trace does not know.
  void checkDropped() {
    for (values::Info* info : t_.values.all()) {
      if (!isTraceIterator(info->object.get()) || memo_.count(info->object.get()) != 0) continue;
      TraceIterator* it = asTraceIterator(info->object.get());
      if (it->kind != IteratorKind::kGenerator || it->exhausted || it->index == 0 ||
          it->frame == nullptr)
        continue;
      const auto& stands_at = it->frame->code->instrs()[static_cast<size_t>(it->frame->index - 1)];
      auto handler = it->frame->code->findHandler(stands_at.opcode_offset);
      if (handler && !ignoresClosing(*it->frame->code, handler->target)) fail(info->object.get());
    }
  }

  void finish() {
    plan_.commit = plan_.steps.size();
    for (PlanStep& step : effects_) plan_.steps.push_back(std::move(step));
    for (PlanStep& step : seeks_) plan_.steps.push_back(std::move(step));
    plan_.register_count = next_;
  }

  // What the frame's stack held at the entry, unread.
  Register stackEntry(size_t index) {
    Register result = add(PlanOp::kSource, nullptr);
    plan_.steps.back().source =
        t_.sources->root(sources::SourceKind::kStack, static_cast<int64_t>(index));
    return result;
  }

  // A fresh container with the contents of a shadow.
  Register rebuilt(PyObject* container) { return build(container); }

 private:
  Register add(PlanOp op, PyObject* key, Ref<> object = Ref<>(),
               std::vector<Register> operands = {}, int64_t number = 0) {
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
      t_.keep_alive.push_back(newRef(key));
    }
    return result;
  }
  void fill(PlanOp op, std::vector<Register> operands, Ref<> object = Ref<>()) {
    PlanStep step{op};
    step.object = std::move(object);
    step.operands = std::move(operands);
    plan_.steps.push_back(std::move(step));
  }
  static PyObject* viewed(PyObject* container) {
    return isDictView(container) ? reinterpret_cast<PyObject*>(
                                       reinterpret_cast<_PyDictViewObject*>(container)->dv_dict)
                                 : container;
  }
  // Whether the plan writes to an outside dict or set (or the one behind a view).
  bool written(PyObject* container) {
    PyObject* object = viewed(container);
    if (auto it = owner_of_.find(object); it != owner_of_.end()) object = it->second;
    values::Info* info = t_.values.find(object);
    return info != nullptr && info->origin == values::Origin::kOutside &&
           (info->dirty || info->overlay);
  }
  // The position of a list's iterator, set when all lists have their contents.
  void seek(Register iterator, int64_t position) {
    PlanStep step{PlanOp::kSeek};
    step.operands = {iterator};
    step.number = position;
    seeks_.push_back(std::move(step));
  }
  // What C's own methods of dicts take: the dict behind a proxy, anything else as it is.
  Register dictBehind(PyObject* object) {
    if (auto it = owner_of_.find(object); it != owner_of_.end()) object = it->second;
    if (!t_.isProxied(object)) return value(object);
    Register result = add(PlanOp::kSource, nullptr);
    plan_.steps.back().source = t_.sourceOf(object);
    return result;
  }
  // A tuple may hold itself by way of a list: then it has been made on the way to its own items.
  Register tuple(PyObject* object) {
    std::vector<Register> items = sequence(object);
    if (auto it = memo_.find(object); it != memo_.end()) return it->second;
    return add(PlanOp::kTuple, object, Ref<>(), std::move(items));
  }
  bool madeHere(PyObject* object) {
    values::Info* info = t_.values.find(object);
    return info != nullptr && info->origin == values::Origin::kMade;
  }
  Register constant(PyObject* object) { return add(PlanOp::kConstant, object, newRef(object)); }

  Register fail(PyObject* object) {
    failed_ = true;
    values::Info* info = t_.values.find(object);
    if (info != nullptr && info->born != 0 && (t_.restart_at == 0 || info->born < t_.restart_at)) {
      t_.restart_at = info->born;
      t_.restart_reason = Reason::kCannotRebuild;
      t_.restart_detail = std::string("a ") + t_.typeOf(object)->tp_name;
    }
    return kNull;
  }

  std::vector<Register> sequence(PyObject* items) {
    std::vector<Register> out;
    Ref<> list = stealRef(PySequence_List(items));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list.get()); ++i)
      out.push_back(value(PyList_GET_ITEM(list.get(), i)));
    return out;
  }

  void fillDict(Register target, PyObject* dict) {
    PyObject *key = nullptr, *item = nullptr;
    Py_ssize_t position = 0;
    if (t_.user_keyed.count(dict) != 0) return fillUserKeyed(target, dict);
    while (PyDict_Next(dict, &position, &key, &item))
      fill(PlanOp::kDictSet, {target, value(key), value(item)});
    if (values::ordersAgree(dict)) return;
    Ref<> keys = values::dictKeys(dict);
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(keys.get()); ++i) {
      add(PlanOp::kCall, nullptr, newRef(torchObject("collections.OrderedDict.move_to_end")),
          {target, value(PyList_GET_ITEM(keys.get(), i))});
    }
  }

  // Under the hashes that the trace has computed: neither __hash__ nor __eq__ runs again.
  void fillUserKeyed(Register target, PyObject* dict) {
    std::unordered_map<Py_hash_t, PyObject*> seen;
    PyObject *key = nullptr, *item = nullptr;
    Py_ssize_t position = 0;
    Py_hash_t stored = 0;
    while (_PyDict_Next(dict, &position, &key, &item, &stored)) {
      auto own = t_.key_hashes.find(key);
      Py_hash_t hash = own != t_.key_hashes.end() ? own->second : stored;
      if (graph::isStandIn(key) || !seen.emplace(hash, key).second) {
        fail(dict);
        return;
      }
      fill(PlanOp::kDictSetHashed, {target, value(key), value(item)});
      plan_.steps.back().number = hash;
    }
  }

  void fillList(Register target, PyObject* list) {
    std::vector<Register> operands{target};
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i)
      operands.push_back(value(PyList_GET_ITEM(list, i)));
    fill(PlanOp::kListExtend, std::move(operands));
  }

  void fillSet(Register target, PyObject* set) {
    PyObject* item = nullptr;
    Py_hash_t hash = 0;
    Py_ssize_t position = 0;
    while (_PySet_NextEntry(set, &position, &item, &hash))
      fill(PlanOp::kSetAdd, {target, value(item)});
  }

  void fillAttributes(Register target, PyObject* object) {
    PyTypeObject* type = Py_TYPE(object);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
      auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i));
      if ((base->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0) continue;
      PyObject *name = nullptr, *entry = nullptr;
      Py_ssize_t position = 0;
      while (PyDict_Next(base->tp_dict, &position, &name, &entry)) {
        if (Py_TYPE(entry) != &PyMemberDescr_Type) continue;
        Ref<> held = stealRef(
            Py_TYPE(entry)->tp_descr_get(entry, object, reinterpret_cast<PyObject*>(type)));
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

  Register function(PyObject* object) {
    auto* raw = reinterpret_cast<PyFunctionObject*>(object);
    std::vector<Register> operands = {constant(raw->func_code),     constant(raw->func_globals),
                                      constant(raw->func_qualname), value(raw->func_closure),
                                      value(raw->func_defaults),    value(raw->func_kwdefaults)};
    Register result = add(PlanOp::kFunction, object, Ref<>(), std::move(operands));
    auto* code = reinterpret_cast<PyCodeObject*>(raw->func_code);
    auto attribute = [&](const char* name, PyObject* held) {
      fill(PlanOp::kAttributeSet, {result, value(held)},
           stealRef(PyUnicode_InternFromString(name)));
    };
    if (PyUnicode_Compare(raw->func_name, code->co_name) != 0)
      attribute("__name__", raw->func_name);
    if (PyUnicode_Compare(raw->func_qualname, code->co_qualname) != 0)
      attribute("__qualname__", raw->func_qualname);
    // What a new function of this code has: the first constant if that is a string, and the module of its globals.
    PyObject* first =
        PyTuple_GET_SIZE(code->co_consts) > 0 ? PyTuple_GET_ITEM(code->co_consts, 0) : Py_None;
    PyObject* doc = raw->func_doc != nullptr ? raw->func_doc : Py_None;
    if (doc != (PyUnicode_Check(first) ? first : Py_None)) attribute("__doc__", doc);
    PyObject* module = PyDict_GetItem(raw->func_globals, names().name);
    if (raw->func_module != nullptr && raw->func_module != module)
      attribute("__module__", raw->func_module);
    if (raw->func_annotations != nullptr && PyTuple_Check(raw->func_annotations)) {
      // Unevaluated form (name, value, ...): CPython turns it into a dict on first use.
      Ref<> dict = stealRef(PyFunction_GetAnnotations(object)
                                ? newRef(PyFunction_GetAnnotations(object)).release()
                                : nullptr);
      if (dict) attribute("__annotations__", dict.get());
    } else if (raw->func_annotations != nullptr) {
      attribute("__annotations__", raw->func_annotations);
    }
    if (raw->func_dict != nullptr) {
      PyObject *name = nullptr, *item = nullptr;
      Py_ssize_t position = 0;
      while (PyDict_Next(raw->func_dict, &position, &name, &item))
        fill(PlanOp::kAttributeSet, {result, value(item)}, newRef(name));
    }
    return result;
  }

  // First the generator, then, when all is made, what its frame holds: this may hold the generator in turn.
  Register generator(PyObject* object) {
    TraceIterator* it = asTraceIterator(object);
    // One of ours stands for an object of another type.
    if (it->flag || (it->frame == nullptr && !it->exhausted) || it->function == nullptr)
      return fail(object);
    Register function = value(it->function);
    Register made = add(PlanOp::kGenerator, object, Ref<>(), {function});
    PlanStep step{PlanOp::kGeneratorFill};
    step.operands = {made, kNull};
    if (it->exhausted) {
      step.number = breaks::GeneratorState::kEnded;
    } else {
      const SymbolicFrame& frame = *it->frame;
      for (const Ref<>& slot : frame.slots) step.operands.push_back(value(slot.get()));
      step.number = breaks::GeneratorState::kFresh;
      if (it->index != 0) {
        for (const Ref<>& entry : frame.stack) step.operands.push_back(value(entry.get()));
        if (it->handled != nullptr) step.operands[1] = value(it->handled);
        step.number = breaks::GeneratorState::pack(
            frame.code->instrs()[static_cast<size_t>(frame.index - 1)].offset, frame.slots.size());
      }
    }
    seeks_.push_back(std::move(step));
    return made;
  }

  Register iterator(PyObject* object) {
    TraceIterator* it = asTraceIterator(object);
    auto& parts = *it->sources;
    if (it->kind == IteratorKind::kCallable || it->running) return fail(object);
    if (it->kind == IteratorKind::kGenerator) return generator(object);
    if (it->exhausted) {
      Ref<> empty = stealRef(PyTuple_New(0));
      return add(PlanOp::kIterator, object, Ref<>(), {constant(empty.get())});
    }
    std::vector<Register> operands;
    switch (it->kind) {
      case IteratorKind::kSequence: {
        Register sequence = value(parts[0].get());
        // A list may get its items, or others, after the iterator is made; its iterator takes no position behind the list's end.
        if (!PyList_Check(parts[0].get()))
          return add(PlanOp::kIterator, object, Ref<>(), {sequence}, it->index);
        Register made = add(PlanOp::kIterator, object, Ref<>(), {sequence});
        if (it->index != 0) seek(made, it->index);
        return made;
      }
      case IteratorKind::kSnapshot: {
        bool changes = written(parts[1].get());
        Register made = add(PlanOp::kIterator, object, Ref<>(), {value(parts[1].get())},
                            changes ? 0 : it->index);
        if (!changes) return made;
        // What it iterates over is written to after the iterator is made, which would notice.
        if (PyODict_Check(viewed(parts[1].get()))) return fail(object);
        PlanStep step{PlanOp::kSeekEntry};
        step.operands = {made, value(parts[1].get())};
        step.number = it->index;
        seeks_.push_back(std::move(step));
        return made;
      }
      case IteratorKind::kReversed: {
        if (!PyList_CheckExact(parts[0].get())) return fail(object);
        Register list = value(parts[0].get());
        Register made = add(PlanOp::kCall, object,
                            newRef(reinterpret_cast<PyObject*>(&PyReversed_Type)), {list});
        seek(made, it->index);
        return made;
      }
      case IteratorKind::kEnumerate: {
        Ref<> start = stealRef(PyLong_FromLongLong(it->index));
        operands = {value(parts[0].get()), constant(start.get())};
        return add(PlanOp::kCall, object, newRef(reinterpret_cast<PyObject*>(&PyEnum_Type)),
                   operands);
      }
      case IteratorKind::kZip:
        if (it->flag) return fail(object);
        for (auto& part : parts) operands.push_back(value(part.get()));
        return add(PlanOp::kCall, object, newRef(reinterpret_cast<PyObject*>(&PyZip_Type)),
                   operands);
      case IteratorKind::kMap:
        for (auto& part : parts) operands.push_back(value(part.get()));
        return add(PlanOp::kCall, object, newRef(reinterpret_cast<PyObject*>(&PyMap_Type)),
                   operands);
      case IteratorKind::kFilter:
        for (auto& part : parts) operands.push_back(value(part.get()));
        return add(PlanOp::kCall, object, newRef(reinterpret_cast<PyObject*>(&PyFilter_Type)),
                   operands);
      default:
        return itertools(object);
    }
  }

  // `__setstate__` of a C iterator, after it was made.
  Register withState(PyTypeObject* type, Register iterator, Register state) {
    std::string path = std::string(type->tp_name) + ".__setstate__";
    PyObject* method = torchObject(path.c_str());
    STATOR_CHECK(method != nullptr, path);
    add(PlanOp::kCall, nullptr, newRef(method), {iterator, state});
    return iterator;
  }

  Register itertools(PyObject* object) {
    TraceIterator* it = asTraceIterator(object);
    auto& parts = *it->sources;
    PyTypeObject* type = iteratorType(it);
    auto number = [&](int64_t n) {
      Ref<> boxed = stealRef(PyLong_FromLongLong(n));
      return constant(boxed.get());
    };
    auto part = [&](size_t i) { return value(parts[i].get()); };
    auto call = [&](std::vector<Register> operands) {
      return add(PlanOp::kCall, object, newRef(reinterpret_cast<PyObject*>(type)),
                 std::move(operands));
    };
    switch (it->kind) {
      case IteratorKind::kChain: {
        std::vector<Register> state = {part(0)};
        if (parts[1]) state.push_back(part(1));
        Register made = call({});
        return withState(type, made, add(PlanOp::kTuple, nullptr, Ref<>(), state));
      }
      case IteratorKind::kIslice: {
        int64_t next = PyLong_AsLongLong(parts[1].get());
        Register stop = parts[2].get() == Py_None
                            ? constant(Py_None)
                            : number(PyLong_AsLongLong(parts[2].get()) - it->index);
        return call({part(0), number(next - it->index), stop, part(3)});
      }
      case IteratorKind::kCount:
        return call({part(0), part(1)});
      case IteratorKind::kCycle: {
        Register rest =
            it->flag ? add(PlanOp::kIterator, nullptr, Ref<>(), {part(1)}, it->index) : part(0);
        std::vector<Register> state = {part(1), constant(it->flag ? Py_True : Py_False)};
        Register made = call({rest});
        return withState(type, made, add(PlanOp::kTuple, nullptr, Ref<>(), state));
      }
      case IteratorKind::kRepeat:
        return it->index < 0 ? call({part(0)}) : call({part(0), number(it->index)});
      case IteratorKind::kAccumulate: {
        if (parts[3]) return fail(object);
        Register total = parts[2] ? part(2) : kNull;
        Register made = call({part(0), part(1)});
        return total == kNull ? made : withState(type, made, total);
      }
      case IteratorKind::kStarMap:
      case IteratorKind::kTakeWhile:
      case IteratorKind::kFilterFalse:
      case IteratorKind::kCompress:
        return call({part(0), part(1)});
      case IteratorKind::kDropWhile: {
        Register made = call({part(0), part(1)});
        return it->flag ? withState(type, made, constant(Py_True)) : made;
      }
      case IteratorKind::kZipLongest: {
        std::vector<Register> operands;
        for (size_t i = 1; i < parts.size(); ++i) {
          if (!parts[i]) return fail(object);
          operands.push_back(part(i));
        }
        Register fill = part(0);
        Register made = call(operands);
        return withState(type, made, fill);
      }
      case IteratorKind::kPairwise:
        return parts[1] ? fail(object) : call({part(0)});
      case IteratorKind::kMoves: {
        Register made = add(PlanOp::kCall, nullptr, newRef(reinterpret_cast<PyObject*>(type)),
                            sequence(parts[2].get()));
        return add(PlanOp::kAdvance, object, Ref<>(), {made}, it->index);
      }
      default:
        return fail(object);
    }
  }

  // Computed from what the symbols stand for, by Python's own operators: no size limits.
  Register symbolicInt(const symbolic::Expr* expr) {
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
    switch (expr->kind) {
      case Kind::kInt:
        result = number(expr->number);
        break;
      case Kind::kSymbol:
        if (t_.symbol_sources[static_cast<size_t>(expr->number)] == nullptr) {
          result = value(t_.symNode(symbolic::Dim::of(expr)).get());
          break;
        }
        result = add(PlanOp::kSource, nullptr);
        plan_.steps.back().source = t_.symbol_sources[static_cast<size_t>(expr->number)];
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

  Register build(PyObject* object) {
    if (graph::isStandIn(object)) {
      graph::Node* node = graph::asStandIn(object)->node;
      if (node->home != t_.graph.get()) return fail(object);  // of a function that the graph calls
      bool cast = t_.torch_function.casts && Tracer::isCast(object);
      bool input = node->op == graph::Op::kInput;
      Register result = kNull;
      if (input) {
        result = add(PlanOp::kSource, cast ? nullptr : object);
        plan_.steps.back().source = node->source;
        if (!cast) return result;
      } else {
        t_.graph->addOutput(node);
        result = add(PlanOp::kGraphOutput, cast ? nullptr : object, Ref<>(), {},
                     t_.graph->outputIndex(node));
      }
      if (cast) {
        // A leaf (a parameter that the program has made) has to stay the very tensor that the graph gives.
        const shapes::TensorMeta* meta = graph::asStandIn(object)->meta;
        bool leaf = !input && meta->requires_grad && meta->is_leaf;
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
      return symbolicInt(t_.environment.simplify(symbolic::dimOf(object).expr()));
    if (isAddress(object))
      return add(PlanOp::kCall, object, newRef(builtinFunction("id")),
                 {value(t_.addressTarget(object))});
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
    if (t_.isMadeClass(object)) return fail(object);
    if (t_.isMadeClass(reinterpret_cast<PyObject*>(type)))
      return fail(reinterpret_cast<PyObject*>(type));
    if (PyTuple_Check(object)) {
      if (t_.code_constants.count(object) != 0) return constant(object);
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
    if (t_.code_constants.count(object) != 0) return constant(object);
    if (type != &PyFrozenSet_Type && type != &PySlice_Type && values::isConstantDeep(object))
      return constant(object);
    if (type == &PyFrozenSet_Type)
      return add(PlanOp::kFrozenSet, object, Ref<>(), sequence(object));
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
    if (PyCell_Check(object)) {
      Register result = add(PlanOp::kCell, object);
      if (PyObject* held = PyCell_GET(object)) fill(PlanOp::kCellSet, {result, value(held)});
      return result;
    }
    if (PyMethod_Check(object)) {
      PyObject* function = PyMethod_GET_FUNCTION(object);
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
      auto* dict =
          reinterpret_cast<PyObject*>(reinterpret_cast<_PyDictViewObject*>(object)->dv_dict);
      std::string path =
          std::string(PyODict_Check(dict) ? "collections.OrderedDict." : "builtins.dict.") + name;
      return add(PlanOp::kCall, object, newRef(torchObject(path.c_str())), {dictBehind(dict)});
    }
    if (type == &PySuper_Type) {
      Ref<> this_class = stealRef(PyObject_GetAttrString(object, "__thisclass__"));
      Ref<> self = stealRef(PyObject_GetAttrString(object, "__self__"));
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
        type == &PyMethodDescr_Type || type == &PyWrapperDescr_Type ||
        type == &PyGetSetDescr_Type || type == &PyMemberDescr_Type || type == &PyProperty_Type ||
        isOpaqueConstant(object)) {
      return constant(object);
    }
    return instance(object);
  }

  Register exception(PyObject* object) {
    values::Info* info = t_.values.find(object);
    if (info == nullptr || info->was_raised || !isPlainException(object)) return fail(object);
    auto* raw = reinterpret_cast<PyBaseExceptionObject*>(object);
    Register result =
        add(PlanOp::kException, object, newRef(reinterpret_cast<PyObject*>(Py_TYPE(object))),
            sequence(raw->args));
    fillAttributes(result, object);
    auto attribute = [&](const char* name, PyObject* held) {
      fill(PlanOp::kAttributeSet, {result, value(held)},
           stealRef(PyUnicode_InternFromString(name)));
    };
    if (raw->cause != nullptr) attribute("__cause__", raw->cause);
    if (raw->context != nullptr) attribute("__context__", raw->context);
    if (raw->suppress_context) attribute("__suppress_context__", Py_True);
    return result;
  }

  Register instance(PyObject* object) {
    PyTypeObject* type = Py_TYPE(object);
    PyTypeObject* base = type;
    while (base->tp_base != nullptr && (base->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0)
      base = base->tp_base;
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
      return add(PlanOp::kCall, object, newRef(reinterpret_cast<PyObject*>(type)),
                 {value(mapping)});
    }
    if (type == &PyODict_Type || type == defaultDictType()) return dictLike(object, type);
    if (isGraphModule(object)) return fail(object);  // a function that the graph calls
    static PyObject* const sdpa_params = torchObject("stator.polyfills.contexts.SdpaParams");
    if (reinterpret_cast<PyObject*>(type) == sdpa_params) {
      std::vector<Register> operands;
      for (const char* name :
           {"query", "key", "value", "attn_mask", "dropout", "is_causal", "enable_gqa"}) {
        Ref<> text = stealRef(PyUnicode_InternFromString(name));
        PyObject* held = Tracer::rawInstanceAttr(object, text.get());
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
      STATOR_CHECK(false, std::string("no provenance for a ") + type->tp_name);
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
      Register result = add(PlanOp::kTupleOf, object, newRef(reinterpret_cast<PyObject*>(type)),
                            sequence(object));
      fillAttributes(result, object);
      return result;
    }
    if (base == &PyDict_Type || base == &PyODict_Type || base == defaultDictType())
      return dictLike(object, type);
    bool plain_base = base == &PyBaseObject_Type || base == &PyList_Type || base == &PySet_Type ||
                      reinterpret_cast<PyObject*>(base) == torchObject("types.SimpleNamespace");
    if (!plain_base) return fail(object);
    Register result = add(PlanOp::kNew, object, newRef(reinterpret_cast<PyObject*>(type)));
    if (base == &PyList_Type) fillList(result, object);
    if (base == &PySet_Type) fillSet(result, object);
    fillAttributes(result, object);
    return result;
  }

  // operator.itemgetter and its kin: made again from what they were made of.
  Register getter(PyObject* object) {
    Ref<> reduced = stealRef(PyObject_CallMethod(object, "__reduce__", nullptr));
    if (!reduced) PyErr_Clear();
    if (!reduced ||
        PyTuple_GET_ITEM(reduced.get(), 0) != reinterpret_cast<PyObject*>(Py_TYPE(object)))
      return fail(object);
    t_.keep_alive.push_back(reduced);
    return add(PlanOp::kCall, object, newRef(reinterpret_cast<PyObject*>(Py_TYPE(object))),
               sequence(PyTuple_GET_ITEM(reduced.get(), 1)));
  }

  Register dictLike(PyObject* object, PyTypeObject* type) {
    Register result = add(PlanOp::kNew, object, newRef(reinterpret_cast<PyObject*>(type)));
    if (PyType_IsSubtype(type, defaultDictType())) {
      Ref<> factory = stealRef(PyObject_GetAttrString(object, "default_factory"));
      fill(PlanOp::kDefaultFactory, {result, value(factory.get())});
    }
    fillDict(result, object);
    if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0) fillAttributes(result, object);
    return result;
  }

  Tracer& t_;
  breaks::Plan& plan_;
  std::unordered_map<const symbolic::Expr*, Register> symbolic_;
  std::unordered_map<PyObject*, Register> memo_;
  std::unordered_map<PyObject*, PyObject*> owner_of_;
  std::vector<PlanStep> effects_;
  std::vector<PlanStep> seeks_;
  Register next_ = 0;
  bool failed_ = false;
};

void addAliasGuards(Tracer& t) {
  // What was written must not turn out to be something else that was read.
  for (values::Info* written : t.values.all()) {
    if ((!written->dirty && !written->overlay &&
         !(written->as_object && written->as_object->overlay)) ||
        written->origin != values::Origin::kOutside || !written->source)
      continue;
    if (PyType_Check(written->object.get())) continue;
    for (values::Info* other : t.values.all()) {
      if (other == written || other->origin != values::Origin::kOutside || !other->source) continue;
      if (Py_TYPE(other->object.get()) != Py_TYPE(written->object.get())) continue;
      t.guards->add(Guard{GuardKind::kNotSameAs, other->source, written->source});
    }
  }
  for (graph::Node* written : t.graph->inputs()) {
    // Attributes of tensors: what is written must not be the other's.
    values::Info* object =
        written->meta != nullptr && written->example ? t.values.find(written->example) : nullptr;
    values::Info* info =
        object != nullptr && object->stand_in ? t.values.find(object->stand_in) : nullptr;
    if (info == nullptr || !info->overlay) continue;
    for (graph::Node* other : t.graph->inputs()) {
      if (other != written && other->meta != nullptr && other->source != nullptr)
        t.guards->add(Guard{GuardKind::kNotSameAs, other->source, written->source});
    }
  }
  for (auto one = t.identities.begin(); one != t.identities.end(); ++one) {
    for (auto other = std::next(one); other != t.identities.end(); ++other) {
      if (one->second == other->second)
        t.guards->add(Guard{GuardKind::kNotSameAs, one->first, other->first});
    }
  }
}

void addEffects(Tracer& t, PlanBuilder& builder) {
  for (size_t i = 0; i < t.values.all().size(); ++i) {
    values::Info* info = t.values.all()[i];
    PyObject* object = info->object.get();
    bool input = graph::isStandIn(object) &&
                 graph::asStandIn(object)->node->op == graph::Op::kInput && !Tracer::isCast(object);
    if (info->origin != values::Origin::kOutside && !(input && info->overlay)) continue;
    for (values::Info* part : {info, info->as_object.get()}) {
      if (part == nullptr || !part->overlay) continue;
      bool dict = part == info && PyDict_Check(object), type = PyType_Check(object);
      auto erase = [&](PyObject* name) {
        if (dict)
          builder.effect(PlanOp::kDictDelete, Ref<>(),
                         {builder.value(object), builder.value(name)});
        else
          builder.effect(type ? PlanOp::kTypeAttributeDelete : PlanOp::kAttributeDelete,
                         newRef(name), {builder.value(object)});
      };
      PyObject *name = nullptr, *item = nullptr;
      Py_ssize_t position = 0;
      while (PyDict_Next(part->overlay.get(), &position, &name, &item)) {
        if (item == values::deletedMarker() ||
            (part->reborn && PySet_Contains(part->reborn.get(), name) == 1))
          erase(name);
      }
      position = 0;
      while (PyDict_Next(part->overlay.get(), &position, &name, &item)) {
        if (item == values::deletedMarker()) continue;
        if (dict)
          builder.effect(PlanOp::kDictStore, Ref<>(),
                         {builder.value(object), builder.value(name), builder.value(item)});
        else
          builder.effect(type ? PlanOp::kTypeAttributeSet : PlanOp::kAttributeSet, newRef(name),
                         {builder.value(object), builder.value(item)});
      }
    }
    if (!info->dirty) continue;
    if (info->taken > 0) {
      builder.effect(PlanOp::kSkip, Ref<>(), {builder.value(object)}, info->taken);
    } else if (PyCell_Check(object)) {
      builder.effect(PlanOp::kCellSet, Ref<>(),
                     {builder.value(object), builder.value(info->shadow.get())});
    } else if (info->appended) {
      std::vector<Register> operands{builder.value(object)};
      for (Py_ssize_t k = 0; k < PyList_GET_SIZE(info->appended.get()); ++k)
        operands.push_back(builder.value(PyList_GET_ITEM(info->appended.get(), k)));
      builder.effect(PlanOp::kListExtend, Ref<>(), std::move(operands));
    } else if (info->shadow) {
      if (isDeque(object)) {
        Ref<> list = stealRef(PySequence_List(info->shadow.get()));
        Register contents = builder.rebuilt(list.get());
        t.keep_alive.push_back(list);
        builder.effect(PlanOp::kEffectCall, newRef(torchObject("collections.deque.clear")),
                       {builder.value(object)});
        builder.effect(PlanOp::kEffectCall, newRef(torchObject("collections.deque.extend")),
                       {builder.value(object), contents});
        continue;
      }
      Register contents = builder.rebuilt(info->shadow.get());
      PlanOp op = PyList_Check(object)   ? PlanOp::kListReplace
                  : PyDict_Check(object) ? PlanOp::kDictReplace
                                         : PlanOp::kSetReplace;
      builder.effect(op, Ref<>(), {builder.value(object), contents});
    }
  }
  for (const Tracer::LruUse& use : t.lru_uses) {
    if (use.value)
      builder.effect(PlanOp::kLruStore, Ref<>(),
                     {builder.value(use.cache.get()), builder.value(use.key.get()),
                      builder.value(use.value.get())});
    else
      builder.effect(PlanOp::kLruHit, Ref<>(),
                     {builder.value(use.cache.get()), builder.value(use.key.get())});
  }
  for (const auto& [index, state] : t.process_states) {
    if (PyObject_RichCompareBool(state.before.get(), state.now.get(), Py_EQ) == 1) continue;
    StateCall call = stateCall(index, state.now.get());
    std::vector<Register> operands;
    if (call.takes_value) operands.push_back(builder.value(state.now.get()));
    builder.effect(PlanOp::kEffectCall, newRef(call.function), std::move(operands));
  }
  if (t.error_on_break != t.initial_error_on_break) {
    builder.effect(PlanOp::kEffectCall, newRef(torchObject("stator._core.set_error_on_break")),
                   {builder.value(t.error_on_break ? Py_True : Py_False)});
  }
  for (const Tracer::LateCall& call : t.late_calls) {
    std::vector<Register> operands;
    for (const Ref<>& argument : call.arguments) operands.push_back(builder.value(argument.get()));
    builder.effect(PlanOp::kEffectCall, newRef(call.function), std::move(operands));
  }
  if (t.state.grad_enabled != t.initial_state.grad_enabled) {
    builder.effect(PlanOp::kEffectCall, newRef(torchObject("torch._C._set_grad_enabled")),
                   {builder.value(t.state.grad_enabled ? Py_True : Py_False)});
  }
}

// Whether a slot of the driven frame is known to hold what it held when the frame was entered, in every call.
bool slotUnchanged(Tracer& t, const SymbolicFrame& frame, size_t slot) {
  if (frame.untouched[slot]) return true;
  PyObject* value = frame.slots[slot].get();
  if (value == nullptr) return false;
  const sources::Source* source = nullptr;
  if (graph::isStandIn(value))
    source = Tracer::isCast(value) ? nullptr : graph::asStandIn(value)->node->source;
  else if (values::Info* info = t.values.find(value))
    source = info->source;
  return source != nullptr && source->kind == sources::SourceKind::kLocal &&
         source->index == static_cast<int64_t>(slot);
}

void addDropped(Tracer& t, const SymbolicFrame& frame, breaks::Plan& plan) {
  for (size_t i = 0; i < frame.slots.size(); ++i) {
    if (!slotUnchanged(t, frame, i)) plan.dropped_slots.push_back(static_cast<int>(i));
  }
}

void addFrame(Tracer& t, PlanBuilder& builder, SymbolicFrame& frame, bool root,
              breaks::FrameState& out) {
  out.offset = frame.instr().offset;
  bool shows_locals = frame.code->readsLocalsDynamically();
  for (size_t i = 0; i < frame.slots.size(); ++i) {
    PyObject* value = frame.slots[i].get();
    if (root && frame.untouched[i]) {
      out.slots.push_back(kKeep);
      continue;
    }
    if (root && value != nullptr) {
      // Unchanged since the frame was entered.
      const sources::Source* source = nullptr;
      if (graph::isStandIn(value))
        source = Tracer::isCast(value) ? nullptr : graph::asStandIn(value)->node->source;
      else if (values::Info* info = t.values.find(value))
        source = info->source;
      if (source != nullptr && source->kind == sources::SourceKind::kLocal &&
          source->index == static_cast<int64_t>(i)) {
        out.slots.push_back(kKeep);
        continue;
      }
      if (values::isScalar(value) && t.roots.slots[i] == value) {
        out.slots.push_back(builder.value(value));
        continue;
      }
    }
    bool computed = value != nullptr && t.hasStandIn(value);
    if (computed && !shows_locals && !frame.code->slotLive(out.offset, static_cast<int>(i))) {
      // Nobody can read it any more; keeping it would keep an intermediate result alive.
      out.slots.push_back(kNull);
      continue;
    }
    out.slots.push_back(builder.value(value));
  }
  for (size_t i = 0; i < frame.stack.size(); ++i) {
    out.stack.push_back(frame.stack[i].get() == unreadMarker()
                            ? builder.stackEntry(i)
                            : builder.value(frame.stack[i].get()));
  }
}

}  // namespace

bool buildPlan(Tracer& t, bool returns, breaks::Plan& plan) {
  if (!t.open_contexts.empty()) {
    t.restart_at = t.open_contexts.front().entered_at;
    t.restart_reason = Reason::kUnsupportedContext;
    t.restart_detail = "a context that is left outside of the graph";
    return false;
  }
  PlanBuilder builder(t, plan);
  plan.exit = returns ? breaks::ExitKind::kReturn : breaks::ExitKind::kBreak;
  if (returns) {
    plan.returned = builder.value(t.returned.get());
    // The frame may live on in a traceback, and must not keep alive what the program has let go.
    addDropped(t, *t.finished, plan);
  } else {
    for (size_t i = 0; i < t.frames.size(); ++i) {
      SymbolicFrame& frame = *t.frames[i];
      breaks::FrameState state;
      addFrame(t, builder, frame, i == 0, state);
      if (i == 0) addDropped(t, frame, plan);
      if (i > 0) {
        state.function = builder.value(frame.function.get());
        state.continuation = static_cast<uint8_t>(frame.then);
        state.instance = builder.value(frame.instance.get());
      }
      plan.frames.push_back(std::move(state));
    }
  }
  if (t.handled_touched)
    plan.handled = t.handled ? builder.value(t.handled.get()) : builder.value(Py_None);
  addEffects(t, builder);
  addAliasGuards(t);
  builder.checkDropped();
  builder.finish();
  return !builder.failed();
}

}  // namespace stator::interpret
