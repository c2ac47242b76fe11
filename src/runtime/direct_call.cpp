#include "runtime/direct_call.h"

#include "base/check.h"
#include "base/hot.h"
#include "base/text.h"
#include "bytecode/code_info.h"
#include "known/marks.h"
#include "known/names.h"
#include "python/fields.h"
#include "python/objects.h"
#include "runtime/active.h"
#include "runtime/cache.h"
#include "runtime/driver.h"
#include "runtime/entry.h"
#include "runtime/entry_guess.h"
#include "runtime/failed_graph.h"
#include "runtime/hook.h"
#include "runtime/listing.h"
#include "runtime/settings.h"
#include "runtime/watch.h"
#include "tensor/profiler_region.h"
#include "tensor/tensor_guard.h"

#include <algorithm>
#include <cstring>

namespace stator::runtime {

namespace {

// Nobody has to see the frames, and nothing is to happen first.
STATOR_HOT bool nobodyLooks(const Cache& cache) {
  const HookState& state = hookState();
  const ConfigValues& config = configValues();
  return state.cache == nullptr && state.disabled == 0 && hookIsFree() && stator_thread_plain() &&
         config.break_every == 0 && !config.guard_collectives && cache.divergences.empty() &&
         !watching() && !measuresGuards() && !tensor::isProfiled() && !tensor::callsAreWatched() &&
         !tensor::transformsActive();
}

// CPython's own way to call a function moves references of its own into the frame before it does anything else.
bool takesReferences(PyObject* callable) {
  return PyFunction_Check(callable) &&
         reinterpret_cast<PyFunctionObject*>(callable)->vectorcall == stator_function_vectorcall();
}

}  // namespace

// The frame's slots. Arguments are the caller's, what the function would have made for itself is owned.
struct DirectCall::Arguments {
  PyObject* slots[kMostSlots];
  Ref<> rest, named_rest;
  std::vector<Ref<>> cells;
};

// What is bound to them (bytecode/binding.h).
struct DirectCall::Bound {
  const bytecode::Parameters& parameters;
  PyFunctionObject* function;
  PyObject* self;  // null: none is bound
  PyObject* const* args;
  Py_ssize_t positional;  // of args
  Arguments& into;

  PyObject* given(Py_ssize_t i) const {
    if (self == nullptr) return args[i];
    return i == 0 ? self : args[i - 1];
  }
  PyObject* named(Py_ssize_t i) const { return args[positional + i]; }
  bool has(int slot) const { return into.slots[slot] != nullptr; }
  void set(int slot, PyObject* value) { into.slots[slot] = value; }
  void keep(int slot, Ref<> made) {
    into.slots[slot] = made.get();
    (slot == parameters.rest ? into.rest : into.named_rest) = std::move(made);
  }
  // Names that are interned are the same object if they are equal.
  static bool takesName(PyObject* name) {
    return PyUnicode_CheckExact(name) && PyUnicode_CHECK_INTERNED(name);
  }
  static bool isName(PyObject* parameter, PyObject* name) { return parameter == name; }
  bool setDefaults(int first) {
    PyObject* defaults = function->func_defaults;
    const int count = defaults != nullptr ? static_cast<int>(PyTuple_GET_SIZE(defaults)) : 0;
    const int first_default = parameters.positional - count;
    for (int slot = std::max(first, first_default); slot < parameters.positional; ++slot) {
      if (!has(slot)) set(slot, PyTuple_GET_ITEM(defaults, slot - first_default));
    }
    return true;
  }
  bool setKeywordDefault(int slot) {
    if (function->func_kwdefaults == nullptr) return false;
    set(slot, PyDict_GetItemWithError(function->func_kwdefaults, parameters.name(slot)));
    return has(slot);
  }
};

void DirectCall::describe(PyCodeObject* code) {
  code_ = code;
  parameters_ = bytecode::Parameters(code);
  slots_ = stator_code_slot_count(code);
  free_ = PyCode_GetNumFree(code);
  cells_.clear();
  for (int slot = 0; slot < slots_ - free_; ++slot) {
    if (stator_code_slot_is_cell(code, slot)) cells_.push_back(slot);
  }
}

// Sets site_; false: there is none that could serve.
bool DirectCall::find(PyFunctionObject* function, Cache& cache) {
  auto* code = reinterpret_cast<PyCodeObject*>(function->func_code);
  generation_ = cache.generation;
  marks_version_ = stator_dict_version(function->func_dict);
  site_ = nullptr;
  describe(code);
  constexpr int kMakesGenerator = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR;
  constexpr int kFunction = CO_OPTIMIZED | CO_NEWLOCALS;
  if ((code->co_flags & (kFunction | kMakesGenerator)) != kFunction || slots_ > kMostSlots ||
      known::isDisabled(reinterpret_cast<PyObject*>(function)))
    return false;
  auto entries = cache.codes.find(code);
  if (entries == cache.codes.end()) return false;
  bytecode::CodeInfo* info = bytecode::CodeInfo::of(code);
  if (info == nullptr) {
    PyErr_Clear();
    return false;
  }
  auto site = entries->second->sites.find(info->firstLegal());
  if (info->skip || site == entries->second->sites.end()) return false;
  const auto& all = site->second.entries;
  if (std::any_of(all.begin(), all.end(), [](const auto& entry) { return entry->needs_no_frame; }))
    site_ = &site->second;
  return site_ != nullptr;
}

// As CPython does when it makes the frame and runs the instructions before RESUME. False: they do not fit, which is for
// CPython to say.
STATOR_HOT bool DirectCall::bind(PyFunctionObject* function, PyObject* self, PyObject* const* args,
                                 Py_ssize_t positional, PyObject* kwnames, Arguments& into) const {
  std::memset(into.slots, 0, static_cast<size_t>(slots_) * sizeof(PyObject*));
  Bound bound{parameters_, function, self, args, positional, into};
  const Py_ssize_t given = positional + (self != nullptr ? 1 : 0);
  if (!bytecode::bindArguments(parameters_, given, kwnames, bound)) return false;
  for (int slot : cells_) {
    into.cells.push_back(stealRef(PyCell_New(into.slots[slot])));
    if (!into.cells.back()) return false;
    into.slots[slot] = into.cells.back().get();
  }
  for (int i = 0; i < free_; ++i)
    into.slots[slots_ - free_ + i] = PyTuple_GET_ITEM(function->func_closure, i);
  return true;
}

STATOR_HOT PyObject* DirectCall::run(Site& site, PyFunctionObject* function, Arguments& arguments,
                                     bool& served) {
  sources::Roots roots;
  roots.slots = arguments.slots;
  roots.stack = arguments.slots + slots_;
  roots.globals = function->func_globals;
  roots.builtins = function->func_builtins;
  roots.function = reinterpret_cast<PyObject*>(function);
  roots.handled = stator_handled_exception();
  if (roots.handled == Py_None) roots.handled = nullptr;
  roots.code = code_;
  Spare<GraphInputs> memory;
  GraphInputs& inputs = *memory;
  const size_t index = findServing(site, roots, static_cast<size_t>(slots_), [&](Entry& candidate) {
    return candidate.needs_no_frame && inputs.found(candidate, roots);
  });
  if (index == site.entries.size()) return nullptr;
  // The cache may let it go while it runs.
  std::shared_ptr<Entry> entry = site.entries[noteServing(site, index)];
  Ref<> outputs;
  if (entry->compiled) {
    if (!takesReferences(entry->compiled.get())) inputs.hold();
    outputs = callGraph(*entry, inputs.values);
    if (!outputs) {
      // An interrupt is not to be lost, and has no line of the user's.
      if (!PyErr_ExceptionMatches(PyExc_Exception)) {
        served = true;
        _PyTraceback_Add(utf8(code_->co_name), utf8(code_->co_filename), code_->co_firstlineno);
      } else {
        keepFailure(*entry);
      }
      return nullptr;
    }
    if (!outputsFit(*entry, outputs.get())) {
      served = true;
      return nullptr;
    }
    statistics().graph_calls++;
    statistics().ops_run += static_cast<int64_t>(entry->ops);
  }
  statistics().hits++;
  statistics().direct_calls++;
  driverCounters().counted_captured += entry->counted;
  served = true;
  References objects;
  std::vector<Ref<>>& registers = *objects;
  if (!breaks::runSteps(entry->plan, roots, outputs.get(), registers)) return nullptr;
  return registers[static_cast<size_t>(entry->plan.returned)].release();
}

STATOR_HOT bool DirectCall::serve(PyObject* callable, Cache& cache, PyObject* const* args,
                                  size_t nargsf, PyObject* kwnames, PyObject** result) {
  PyObject* self = nullptr;
  if (PyMethod_Check(callable)) {
    self = PyMethod_GET_SELF(callable);
    callable = PyMethod_GET_FUNCTION(callable);
  }
  if (!PyFunction_Check(callable) || !nobodyLooks(cache)) return false;
  auto* function = reinterpret_cast<PyFunctionObject*>(callable);
  if (function->func_code == known::names().nn_module_call_impl && self != nullptr) {
    function = reinterpret_cast<PyFunctionObject*>(module_.forwardOf(self, function->func_globals));
    if (function == nullptr) return false;
  }
  if (generation_ == cache.generation &&
      reinterpret_cast<PyObject*>(code_) == function->func_code &&
      marks_version_ == stator_dict_version(function->func_dict)) [[likely]] {
    if (site_ == nullptr) return false;
  } else if (!find(function, cache)) {
    return false;
  }
  // Running it may change or drop all of this.
  Ref<> keep = newRef(reinterpret_cast<PyObject*>(function));
  Site& site = *site_;
  Arguments arguments;
  bool served = false;
  try {
    if (bind(function, self, args, PyVectorcall_NARGS(nargsf), kwnames, arguments))
      *result = run(site, function, arguments, served);
  } catch (const std::exception&) {
    // The hook's way comes to the same point, and reports it.
    served = false;
  }
  if (!served) PyErr_Clear();
  return served;
}

}  // namespace stator::runtime
