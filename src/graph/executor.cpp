// Compilation turns each call node into a step: where its arguments come from (an input, a slot, a constant, a
// container built anew) and which slots are free afterwards. A run is one loop over the steps. Slots are reused, so a
// long graph needs no more of them than it has values alive at once.
#include "graph/executor.h"

#include "base/check.h"
#include "base/error_aside.h"
#include "base/imports.h"
#include "base/parts.h"
#include "base/stack_room.h"
#include "base/text.h"

#include <algorithm>
#include <deque>
#include <unordered_map>
#include <vector>

namespace stator::graph {

namespace {

enum class From : uint8_t { kInput, kSlot, kConstant, kBuilt };

struct Argument {
  From from;
  uint32_t index;
};

// A container with values of the run inside, or a mutable one: made anew for each call.
struct Container {
  enum class Kind : uint8_t {
    kTuple,
    kList,
    kDict,
    kSlice,
    kNamedTuple,
    kTupleSubclass,
    kDictSubclass
  } kind;
  uint32_t type = 0;            // constant: the subclass
  std::vector<Argument> items;  // for dicts: key, value, key, value ...
};

struct Step {
  bool is_method = false;
  Ref<> target;
  Ref<> runs;                       // what is called: the target, or what it is where nobody traces
  Ref<> keywords;                   // tuple of names, or null
  std::vector<Argument> arguments;  // positional, then those of the keywords
  size_t positional = 0;
  uint32_t result = 0;         // slot
  std::vector<uint32_t> dead;  // slots whose last use this is
  const Location* location = nullptr;
  uint32_t serial = 0;
  uint64_t instruction = 0;
  bool mutates = false;
  bool sets_mode = false;
  Ref<> leave;  // enters a context, which this leaves
};

// torch's operator for checkpoints is for those that trace: by itself it draws other random numbers when it computes
// again.
Ref<> whatRuns(PyObject* target) {
  if (std::string_view(Py_TYPE(target)->tp_name) != "TagActivationCheckpoint")
    return newRef(target);
  const Ref<> home = Ref<>::steal(importModule("stator._checkpoints"));
  Ref<> found = home ? stealRef(PyObject_GetAttrString(home.get(), "run")) : Ref<>();
  if (!found) throw PythonError();
  return found;
}

bool holdsStandIn(PyObject* value) {
  bool found = false;
  forEachStandIn(value, [&](StandIn*) { found = true; });
  return found;
}

bool isMutable(PyObject* value) {
  needStack();
  if (PyList_Check(value) || PyDict_Check(value)) return true;
  return PyTuple_Check(value) && !everyItem(value, [](PyObject* item) { return !isMutable(item); });
}

}  // namespace

struct Executor::Impl {
  std::vector<Ref<>> constants;
  std::vector<Container> containers;
  std::vector<Step> steps;
  std::vector<Argument> outputs;
  std::deque<Location> locations;
  size_t inputs = 0;
  size_t slots = 0;
  size_t widest = 0;  // most arguments of a step

  Ref<> build(const Container& container, PyObject* const* in, PyObject** slot) const;
  // The value itself, borrowed, unless it is built: then owned by `built`.
  PyObject* fetch(Argument argument, PyObject* const* in, PyObject** slot, Ref<>& built) const {
    switch (argument.from) {
      case From::kInput:
        return in[argument.index];
      case From::kSlot:
        return slot[argument.index];
      case From::kConstant:
        return constants[argument.index].get();
      case From::kBuilt:
        built = build(containers[argument.index], in, slot);
        return built.get();
    }
    return nullptr;
  }
};

namespace {

// Calls `visit(storage)` for the storages of the tensors among a node's arguments.
template <class Visit>
void forEachStorage(const Node& node, Visit&& visit) {
  auto use = [&](StandIn* used) {
    if (used->meta != nullptr && used->meta->storage_id != 0) visit(used->meta->storage_id);
  };
  forEachUsed(node, use);
}

// If a graph that has written to something fails, the program goes on in the middle of it, and can get at values that
// the graph itself has no more use for (runtime/run_entry.cpp). Most of them can be computed again then. Not so random
// numbers, what was computed of memory that was written to later, and anything where other modes than the grad mode are
// switched: those are kept until the graph ends.
std::vector<const Node*> lostForGood(const Graph& graph) {
  bool has_effects = false, other_modes = false;
  std::unordered_map<uint32_t, int> last_write;  // by storage
  for (const Node& node : graph.nodes()) {
    has_effects |= node.written || (node.mutates && !node.repeatable && !node.sets_mode);
    other_modes |= node.sets_mode && node.leave;
    if (node.mutates && !node.sets_mode)
      forEachStorage(node, [&](uint32_t storage) { last_write[storage] = node.index; });
  }
  std::vector<const Node*> lost;
  if (!has_effects) return lost;
  for (const Node& node : graph.nodes()) {
    if (node.op == Op::kInput || node.op == Op::kAttribute) continue;
    bool keep = other_modes || node.mutates;
    auto written_later = [&](uint32_t storage) {
      auto write = last_write.find(storage);
      keep |= write != last_write.end() && write->second > node.index;
    };
    forEachStorage(node, written_later);
    if (node.meta != nullptr && node.meta->storage_id != 0) written_later(node.meta->storage_id);
    if (keep) lost.push_back(&node);
  }
  return lost;
}

class Compiler {
 public:
  Compiler(const Graph& graph, Executor::Impl* out) : graph_(graph), out_(out) {}

  void compile() {
    for (const Node* node : graph_.inputs())
      place_[node] = {From::kInput, static_cast<uint32_t>(out_->inputs++)};
    findLastUses();
    for (const Node& node : graph_.nodes()) {
      if (node.op == Op::kAttribute) {
        place_[&node] = constant(node.example.get());
      } else if (node.op != Op::kInput) {
        addStep(node);
      }
    }
    for (const Node* node : graph_.outputs()) out_->outputs.push_back(place_.at(node));
  }

 private:
  void findLastUses() {
    for (const Node& node : graph_.nodes()) {
      last_use_[&node] = node.index;
      auto use = [&](StandIn* used) { last_use_[used->node] = node.index; };
      forEachUsed(node, use);
    }
    const int end = static_cast<int>(graph_.nodes().size());
    for (const Node* node : graph_.outputs()) last_use_[node] = end;
    for (const Node* node : lostForGood(graph_)) last_use_[node] = end;
  }

  void addStep(const Node& node) {
    Step step;
    step.is_method = node.op == Op::kCallMethod;
    step.target = node.target;
    step.runs = whatRuns(node.target.get());
    step.location = copy(node.location);
    step.serial = node.serial;
    step.instruction = node.instruction;
    step.mutates = node.mutates;
    step.sets_mode = node.sets_mode;
    step.leave = node.leave;
    current_ = &node;
    dead_.clear();
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(node.args.get()); ++i) {
      step.arguments.push_back(argument(PyTuple_GET_ITEM(node.args.get(), i)));
    }
    step.positional = step.arguments.size();
    STATOR_CHECK(!step.is_method || step.positional > 0);
    if (node.kwargs && PyDict_GET_SIZE(node.kwargs.get()) > 0) {
      step.keywords = Ref<>::steal(PyDict_Keys(node.kwargs.get()));
      if (step.keywords) step.keywords = Ref<>::steal(PyList_AsTuple(step.keywords.get()));
      if (!step.keywords) throw PythonError();
      PyObject* key = nullptr;
      PyObject* value = nullptr;
      for (Py_ssize_t at = 0; PyDict_Next(node.kwargs.get(), &at, &key, &value);)
        step.arguments.push_back(argument(value));
    }
    out_->widest = std::max(out_->widest, step.arguments.size());
    // The result gets its slot before the arguments' are given back: a step reads them while it writes.
    step.result = takeSlot();
    place_[&node] = {From::kSlot, step.result};
    if (last_use_[&node] == node.index) dead_.push_back(step.result);
    step.dead = dead_;
    free_.insert(free_.end(), dead_.begin(), dead_.end());
    out_->steps.push_back(std::move(step));
  }

  uint32_t takeSlot() {
    if (free_.empty()) return static_cast<uint32_t>(out_->slots++);
    uint32_t slot = free_.back();
    free_.pop_back();
    return slot;
  }

  Argument constant(PyObject* value) {
    out_->constants.push_back(newRef(value));
    return {From::kConstant, static_cast<uint32_t>(out_->constants.size() - 1)};
  }

  Argument argument(PyObject* value) {
    needStack();
    if (isStandIn(value)) {
      const Node* node = asStandIn(value)->node;
      auto found = place_.find(node);
      STATOR_CHECK(found != place_.end(), "a value is used before it is made");
      auto& last = last_use_[node];
      if (found->second.from == From::kSlot && last == current_->index) {
        dead_.push_back(found->second.index);
        last = -1;  // named once, however often the step uses it
      }
      return found->second;
    }
    if (!holdsStandIn(value) && !isMutable(value)) return constant(value);
    Container made;
    if (PyTuple_Check(value)) {
      made.kind = Container::Kind::kTuple;
      if (!PyTuple_CheckExact(value)) {
        auto* type = reinterpret_cast<PyObject*>(Py_TYPE(value));
        bool named = PyObject_HasAttrString(type, "_fields") != 0;
        made.kind = named ? Container::Kind::kNamedTuple : Container::Kind::kTupleSubclass;
        made.type = constant(type).index;
      }
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); ++i)
        made.items.push_back(argument(PyTuple_GET_ITEM(value, i)));
    } else if (PyList_Check(value)) {
      made.kind = Container::Kind::kList;
      for (Py_ssize_t i = 0; i < PyList_GET_SIZE(value); ++i)
        made.items.push_back(argument(PyList_GET_ITEM(value, i)));
    } else if (PyDict_Check(value)) {
      made.kind = Container::Kind::kDict;
      if (!PyDict_CheckExact(value)) {
        made.kind = Container::Kind::kDictSubclass;
        made.type = constant(reinterpret_cast<PyObject*>(Py_TYPE(value))).index;
      }
      PyObject* key = nullptr;
      PyObject* item = nullptr;
      for (Py_ssize_t at = 0; PyDict_Next(value, &at, &key, &item);) {
        made.items.push_back(constant(key));
        made.items.push_back(argument(item));
      }
    } else {
      STATOR_CHECK(PySlice_Check(value));
      made.kind = Container::Kind::kSlice;
      const auto* slice = reinterpret_cast<PySliceObject*>(value);
      for (PyObject* part : {slice->start, slice->stop, slice->step})
        made.items.push_back(argument(part));
    }
    out_->containers.push_back(std::move(made));
    return {From::kBuilt, static_cast<uint32_t>(out_->containers.size() - 1)};
  }

  const Location* copy(const Location* location) {
    if (location == nullptr) return nullptr;
    auto found = copied_.find(location);
    if (found != copied_.end()) return found->second;
    const Location* caller = copy(location->caller);
    const Location* made =
        &out_->locations.emplace_back(Location{caller, location->code, location->offset});
    copied_[location] = made;
    return made;
  }

  const Graph& graph_;
  Executor::Impl* out_;
  const Node* current_ = nullptr;
  std::vector<uint32_t> dead_;
  std::vector<uint32_t> free_;
  std::unordered_map<const Node*, Argument> place_;
  std::unordered_map<const Node*, int> last_use_;
  std::unordered_map<const Location*, const Location*> copied_;
};

// Memory of one run: argument window and slots. Small runs need no allocation.
class RunMemory {
 public:
  explicit RunMemory(size_t size) {
    if (size > std::size(inline_)) {
      heap_ = std::make_unique<PyObject*[]>(size);
    } else {
      std::fill_n(inline_, size, nullptr);
    }
  }
  PyObject** data() { return heap_ ? heap_.get() : inline_; }

 private:
  PyObject* inline_[64];
  std::unique_ptr<PyObject*[]> heap_;
};

}  // namespace

Ref<> Executor::Impl::build(const Container& container, PyObject* const* in,
                            PyObject** slot) const {
  using Kind = Container::Kind;
  const auto& items = container.items;
  switch (container.kind) {
    case Kind::kTuple:
    case Kind::kNamedTuple:
    case Kind::kTupleSubclass: {
      Ref<> tuple = Ref<>::steal(PyTuple_New(static_cast<Py_ssize_t>(items.size())));
      for (size_t i = 0; tuple && i < items.size(); ++i) {
        Ref<> built;
        PyObject* item = fetch(items[i], in, slot, built);
        if (item == nullptr) return nullptr;
        PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i),
                         built ? built.release() : newRef(item).release());
      }
      if (!tuple || container.kind == Kind::kTuple) return tuple;
      PyObject* type = constants[container.type].get();
      if (container.kind == Kind::kNamedTuple)
        return Ref<>::steal(PyObject_CallObject(type, tuple.get()));
      return Ref<>::steal(PyObject_CallOneArg(type, tuple.get()));
    }
    case Kind::kList: {
      Ref<> list = Ref<>::steal(PyList_New(static_cast<Py_ssize_t>(items.size())));
      for (size_t i = 0; list && i < items.size(); ++i) {
        Ref<> built;
        PyObject* item = fetch(items[i], in, slot, built);
        if (item == nullptr) return nullptr;
        PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i),
                        built ? built.release() : newRef(item).release());
      }
      return list;
    }
    case Kind::kDict:
    case Kind::kDictSubclass: {
      Ref<> dict = Ref<>::steal(container.kind == Kind::kDict
                                    ? PyDict_New()
                                    : PyObject_CallNoArgs(constants[container.type].get()));
      for (size_t i = 0; dict && i < items.size(); i += 2) {
        Ref<> built;
        PyObject* key = constants[items[i].index].get();
        PyObject* item = fetch(items[i + 1], in, slot, built);
        if (item == nullptr || PyObject_SetItem(dict.get(), key, item) < 0) return nullptr;
      }
      return dict;
    }
    case Kind::kSlice: {
      Ref<> built[3];
      PyObject* parts[3];
      for (size_t i = 0; i < 3; ++i) {
        parts[i] = fetch(items[i], in, slot, built[i]);
        if (parts[i] == nullptr) return nullptr;
      }
      return Ref<>::steal(PySlice_New(parts[0], parts[1], parts[2]));
    }
  }
  return nullptr;
}

Executor::Executor(const Graph& graph) : impl_(std::make_unique<Impl>()) {
  Compiler(graph, impl_.get()).compile();
}

Executor::~Executor() = default;

size_t Executor::inputCount() const { return impl_->inputs; }
size_t Executor::outputCount() const { return impl_->outputs.size(); }

namespace {

// Called before the slots are cleared: the values that are there belong to the steps that wrote them last.
void describeFailure(const std::vector<Step>& steps, const Step& raising, PyObject** slot,
                     FailedRun& failed) {
  failed.location = raising.location;
  failed.instruction = raising.instruction;
  std::unordered_map<uint32_t, uint32_t> writer;
  for (const Step& step : steps) {
    if (&step == &raising) break;
    failed.targets[step.serial] = step.target;
    writer[step.result] = step.serial;
    if (step.mutates) failed.effect_serial = step.serial;
    if (step.mutates && !step.sets_mode) failed.effect_instruction = step.instruction;
  }
  for (const auto& [index, serial] : writer) {
    if (slot[index] != nullptr) failed.values[serial] = newRef(slot[index]);
  }
}

// The contexts that the graph had entered and not yet left when it failed, innermost first. The values of those that
// leaving needs are alive.
void leaveContexts(const std::vector<Step>& steps, const Step& raising, PyObject** slot) {
  std::vector<const Step*> open;
  for (const Step& step : steps) {
    if (&step == &raising) break;
    if (step.leave) {
      open.push_back(&step);
      continue;
    }
    auto left = std::find_if(open.rbegin(), open.rend(), [&](const Step* entered) {
      return entered->leave.get() == step.target.get();
    });
    if (left != open.rend()) open.erase(std::next(left).base());
  }
  if (open.empty()) return;
  ErrorKept kept;
  for (size_t i = open.size(); i-- > 0;) {
    PyObject* token = slot[open[i]->result];
    Ref<> left =
        stealRef(PyObject_CallOneArg(open[i]->leave.get(), token != nullptr ? token : Py_None));
    if (!left) PyErr_Clear();
  }
}

}  // namespace

Ref<> Executor::run(PyObject* const* in, size_t count, FailedRun* failed) const {
  const Impl& program = *impl_;
  if (count != program.inputs) {
    PyErr_Format(PyExc_TypeError, "the graph takes %zu inputs, %zu were given", program.inputs,
                 count);
    return nullptr;
  }
  // One place is kept free before the arguments: a callee may use it (PY_VECTORCALL_ARGUMENTS_OFFSET).
  RunMemory memory(1 + program.widest + program.slots);
  PyObject** window = memory.data() + 1;
  PyObject** slot = window + program.widest;
  std::vector<Ref<>> built;
  bool good = true;
  for (const Step& step : program.steps) {
    for (size_t i = 0; i < step.arguments.size(); ++i) {
      Ref<> made;
      window[i] = program.fetch(step.arguments[i], in, slot, made);
      good = window[i] != nullptr;
      if (!good) break;
      if (made) built.push_back(std::move(made));
    }
    PyObject* result = nullptr;
    if (good) {
      size_t flags = step.positional | PY_VECTORCALL_ARGUMENTS_OFFSET;
      result = step.is_method
                   ? PyObject_VectorcallMethod(step.runs.get(), window, flags, step.keywords.get())
                   : PyObject_Vectorcall(step.runs.get(), window, flags, step.keywords.get());
    }
    built.clear();
    if (result == nullptr) {
      leaveContexts(program.steps, step, slot);
      if (failed != nullptr) {
        failed->executor = this;
        describeFailure(program.steps, step, slot, *failed);
      }
      good = false;
      break;
    }
    slot[step.result] = result;
    for (uint32_t dead : step.dead) Ref<>::steal(std::exchange(slot[dead], nullptr)).reset();
  }
  Ref<> outputs;
  if (good) outputs = Ref<>::steal(PyTuple_New(static_cast<Py_ssize_t>(program.outputs.size())));
  for (size_t i = 0; outputs && i < program.outputs.size(); ++i) {
    Ref<> none;
    PyObject* value = program.fetch(program.outputs[i], in, slot, none);
    PyTuple_SET_ITEM(outputs.get(), static_cast<Py_ssize_t>(i), newRef(value).release());
  }
  for (size_t i = 0; i < program.slots; ++i) Ref<>::steal(slot[i]).reset();
  return outputs;
}

int Executor::traverse(visitproc visit, void* arg) const {
  for (const Ref<>& constant : impl_->constants) Py_VISIT(constant.get());
  for (const Step& step : impl_->steps) {
    Py_VISIT(step.target.get());
    Py_VISIT(step.runs.get());
  }
  return 0;
}

void addUserFrames(const Location* location, bool with_outermost) {
  for (; location != nullptr; location = location->caller) {
    if (location->caller == nullptr && !with_outermost) return;
    PyCodeObject* code = location->code.get();
    const char* file = utf8OrNull(code->co_filename);
    const char* name = utf8OrNull(code->co_name);
    // Both keep the error that is set: it is the program's, and must stay.
    if (file != nullptr && name != nullptr)
      _PyTraceback_Add(name, file, PyCode_Addr2Line(code, location->offset));
  }
}

}  // namespace stator::graph
