// The FakeTensor tier of shape inference: hands the call to stator/_fake.py with FakeTensors in place of the caller's
// tensors, and reads its answer. Needs no torch headers.
#include "base/boundary.h"
#include "base/imports.h"
#include "base/parts.h"
#include "base/rebuilt.h"
#include "base/stack_room.h"
#include "base/text.h"
#include "python/hidden.h"
#include "shapes/arg.h"
#include "shapes/data_sizes.h"
#include "shapes/dtypes.h"
#include "shapes/fallback.h"
#include "symbolic/environment.h"
#include "symbolic/sym_int.h"

#include <algorithm>
#include <bit>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <unordered_map>

namespace stator::shapes {

namespace {

PyObject* glue(const char* name) {
  Ref<> module = stealRef(importModule("stator._fake"));
  PyObject* function = module ? PyObject_GetAttrString(module.get(), name) : nullptr;
  if (function == nullptr) throw PythonError();
  return function;  // kept for good
}

// A number for torch: with `symbols` (stator/_symbols.py) a SymInt for an expression, without it the value that it has
// to keep.
Ref<> numberOf(Dim dim, PyObject* symbols) {
  if (dim.isStatic() || symbols == nullptr) return orThrow(PyLong_FromLongLong(dim.value()));
  return orThrow(PyObject_CallMethod(symbols, "value", "s", dim.text().c_str()));
}

Ref<> tupleOf(const Dims& dims, PyObject* symbols) {
  Ref<> tuple = orThrow(PyTuple_New(static_cast<Py_ssize_t>(dims.size())));
  for (size_t i = 0; i < dims.size(); ++i) {
    PyTuple_SET_ITEM(tuple.get(), i, numberOf(dims[i], symbols).release());
  }
  return tuple;
}

// The call's distinct tensor objects, numbered by first occurrence, and the fakes that replace them.
class Substitution {
 public:
  explicit Substitution(const Request& request) : reader_(request.reader) {}

  // False: the arguments hold what must not be handed on.
  bool collect(PyObject* object, int depth = 0) {
    needStack();
    if (depth > 8) return false;
    if (const TensorMeta* meta =
            reader_.tensor_of == nullptr ? nullptr : reader_.tensor_of(object)) {
      if (numbers_.try_emplace(object, static_cast<int>(metas_.size())).second) {
        metas_.push_back(meta);
        wrappers_.push_back(reader_.wrapper_of == nullptr ? nullptr : reader_.wrapper_of(object));
        symbolic_ |= meta->isSymbolic();
        first_occurrence_.push_back(occurrences_);
      }
      ++occurrences_;
      return true;
    }
    if (reader_.wrapper_of != nullptr && reader_.wrapper_of(object) != nullptr) return true;
    if (symbolic::isSymScalar(object)) return false;
    if (symbolic::isSymInt(object)) {
      symbolic_ = true;
      return true;
    }
    if (reader_.is_opaque != nullptr && reader_.is_opaque(object)) return false;
    const bool looked_into = PyTuple_Check(object) || isPlainContainer(object);
    return !looked_into ||
           everyPart(object, [&](PyObject* part) { return collect(part, depth + 1); });
  }

  Ref<> facts() const {
    Ref<> list = orThrow(PyList_New(static_cast<Py_ssize_t>(metas_.size())));
    for (size_t i = 0; i < metas_.size(); ++i) {
      PyList_SET_ITEM(
          list.get(), i,
          wrappers_[i] != nullptr ? Py_NewRef(wrappers_[i]) : factsOf(*metas_[i], i).release());
    }
    return list;
  }

  // (number, text) of those tensors whose count of elements that are not 0 has a name.
  Ref<> known(const NonzeroCounts& counts) const {
    Ref<> list = orThrow(PyList_New(0));
    for (size_t i = 0; i < metas_.size() && !counts.empty(); ++i) {
      const auto found = counts.find(metas_[i]);
      if (found == counts.end()) continue;
      Ref<> row =
          orThrow(Py_BuildValue("(ns)", static_cast<Py_ssize_t>(i), found->second.text().c_str()));
      if (PyList_Append(list.get(), row.get()) != 0) throw PythonError();
    }
    return list;
  }

  bool supported(std::string& why) const {
    // A number counts like any tensor without dimensions where it meets one that has some.
    const bool shaped = std::any_of(metas_.begin(), metas_.end(),
                                    [](const TensorMeta* meta) { return !meta->sizes.empty(); });
    for (size_t i = 0; i < metas_.size(); ++i) {
      const TensorMeta* meta = metas_[i];
      if (wrappers_[i] != nullptr) continue;
      if (meta->layout != 0) why = "a sparse or opaque layout";
      if (isQuantized(meta->dtype)) why = "a quantised tensor";
      if (meta->is_wrapped_number && !shaped) why = "a tensor that is a wrapped number";
      if (dtypeObject(meta->dtype) == nullptr) why = "a dtype without a name";
    }
    return why.empty();
  }

  bool isSymbolic() const { return symbolic_; }
  bool hasSingleElement() const {
    return metas_.size() == 1 &&
           std::all_of(metas_[0]->sizes.begin(), metas_[0]->sizes.end(),
                       [](const Dim& size) { return size.isStatic() && size.value() == 1; });
  }
  void setSymbols(Ref<> symbols) { symbols_ = std::move(symbols); }
  void setFakes(Ref<> fakes) { fakes_ = std::move(fakes); }
  PyObject* fakes() const { return fakes_.get(); }
  int firstOccurrence(int number) const { return number < 0 ? -1 : first_occurrence_[number]; }
  const TensorMeta& meta(int number) const { return *metas_[number]; }

  Ref<> replace(PyObject* object) const {
    needStack();
    if (const auto found = numbers_.find(object); found != numbers_.end()) {
      return newRef(PyList_GET_ITEM(fakes_.get(), found->second));
    }
    if (PyObject* known = reader_.wrapper_of == nullptr ? nullptr : reader_.wrapper_of(object))
      return newRef(known);
    if (isPlainContainer(object))
      return orThrow(rebuilt(object, [&](PyObject* item) { return replace(item); }).release());
    if (PyTuple_Check(object) && PyObject_HasAttrString(object, "_make")) {  // named tuples
      Ref<> items = orThrow(PySequence_List(object));
      items = replace(items.get());
      return orThrow(PyObject_CallMethod(reinterpret_cast<PyObject*>(Py_TYPE(object)), "_make", "O",
                                         items.get()));
    }
    if (PyTuple_Check(object) && symbolic_) {  // a torch.Size takes no symbols of torch's
      Ref<> items = orThrow(PySequence_List(object));
      items = replace(items.get());
      return orThrow(PyList_AsTuple(items.get()));
    }
    if (symbolic::isSymInt(object)) return numberOf(symbolic::dimOf(object), symbols_.get());
    return newRef(object);
  }

 private:
  Ref<> factsOf(const TensorMeta& meta, size_t index) const {
    // A storage without a number is its own; negative numbers cannot meet the caller's.
    const int64_t storage =
        meta.storage_id == 0 ? -1 - static_cast<int64_t>(index) : meta.storage_id;
    Ref<> sizes = tupleOf(meta.sizes, symbols_.get());
    Ref<> strides = tupleOf(meta.strides, symbols_.get());
    Ref<> device = makeDevice(meta.device, meta.device_index);
    return orThrow(Py_BuildValue(
        "(OOOONNNNNNNNL)", sizes.get(), strides.get(), dtypeObject(meta.dtype), device.get(),
        PyBool_FromLong(meta.requires_grad), PyBool_FromLong(meta.is_leaf),
        PyBool_FromLong(meta.is_conj), PyBool_FromLong(meta.is_neg),
        PyBool_FromLong(meta.is_inference), PyBool_FromLong(meta.is_parameter),
        numberOf(meta.storage_offset, symbols_.get()).release(),
        numberOf(meta.storage_bytes, symbols_.get()).release(), static_cast<long long>(storage)));
  }

  Reader reader_;
  std::unordered_map<PyObject*, int> numbers_;
  std::vector<const TensorMeta*> metas_;
  std::vector<PyObject*> wrappers_;  // null: the facts say all
  std::vector<int> first_occurrence_;
  int occurrences_ = 0;
  bool symbolic_ = false;
  Ref<> symbols_;
  Ref<> fakes_;
};

Ref<> stateTuple(const State& state) {
  Ref<> device = newRef(Py_None);
  if (state.default_device != DeviceType::CPU) {
    device = makeDevice(state.default_device, state.default_device_index);
  }
  return orThrow(Py_BuildValue(
      "(NNOONNOO)", PyBool_FromLong(state.grad_enabled), PyBool_FromLong(state.inference),
      dtypeObject(state.default_dtype), device.get(), PyBool_FromLong(state.autocast_cpu),
      PyBool_FromLong(state.autocast_cuda), dtypeObject(state.autocast_cpu_dtype),
      dtypeObject(state.autocast_cuda_dtype)));
}

// A number, or the text of an expression.
Dim dimOf(PyObject* value) {
  if (!PyUnicode_Check(value)) return PyLong_AsLongLong(value);
  const symbolic::Expr* expr = symbolic::parse(utf8(value));
  STATOR_CHECK(expr != nullptr && !expr->isTruth(), "a size that came back from a symbolic run");
  return Dim::of(symbolic::Environment::current()->simplify(expr));
}

Dims dimsOf(PyObject* tuple) {
  Dims dims;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
    dims.push_back(dimOf(PyTuple_GET_ITEM(tuple, i)));
  }
  if (PyErr_Occurred()) throw PythonError();
  return dims;
}

TensorMeta readFacts(PyObject* facts) {
  const auto item = [&](Py_ssize_t index) { return PyTuple_GET_ITEM(facts, index); };
  TensorMeta meta;
  meta.sizes = dimsOf(item(0));
  meta.strides = dimsOf(item(1));
  meta.dtype = dtypeOf(item(2));
  STATOR_CHECK(readDevice(item(3), meta.device, meta.device_index));
  meta.requires_grad = item(4) == Py_True;
  meta.is_leaf = item(5) == Py_True;
  meta.is_conj = item(6) == Py_True;
  meta.is_neg = item(7) == Py_True;
  meta.is_inference = item(8) == Py_True;
  meta.is_parameter = item(9) == Py_True;
  meta.storage_offset = dimOf(item(10));
  meta.storage_bytes = dimOf(item(11));
  if (PyErr_Occurred()) throw PythonError();
  return meta;
}

// Rows: (constant,) or (facts, same_object_as, alias_of, alias_of_output, wrapper or None), numbers counting distinct
// tensors.
Output readOutput(PyObject* row, const Substitution& substitution) {
  Output output;
  if (PyTuple_GET_SIZE(row) == 2) {
    // the text of a symbolic int
    output.kind = Output::Kind::kConstant;
    output.constant = symbolic::makeInt(dimOf(PyTuple_GET_ITEM(row, 0)));
    return output;
  }
  if (PyTuple_GET_SIZE(row) == 1) {
    output.kind = Output::Kind::kConstant;
    output.constant = newRef(PyTuple_GET_ITEM(row, 0));
    return output;
  }
  output.meta = readFacts(PyTuple_GET_ITEM(row, 0));
  output.same_object_as =
      substitution.firstOccurrence(static_cast<int>(PyLong_AsLong(PyTuple_GET_ITEM(row, 1))));
  output.alias_of =
      substitution.firstOccurrence(static_cast<int>(PyLong_AsLong(PyTuple_GET_ITEM(row, 2))));
  output.alias_of_output = static_cast<int>(PyLong_AsLong(PyTuple_GET_ITEM(row, 3)));
  if (PyTuple_GET_ITEM(row, 4) != Py_None) output.wrapper = newRef(PyTuple_GET_ITEM(row, 4));
  return output;
}

// (OK, structure, detail, rows, changed, mutates, random, written) or (status, why, error).
FallbackAnswer readAnswer(PyObject* answer, const Substitution& substitution) {
  FallbackAnswer read;
  const auto item = [&](Py_ssize_t index) { return PyTuple_GET_ITEM(answer, index); };
  read.status = static_cast<Status>(PyLong_AsLong(item(0)));
  if (read.status != Status::kOk) {
    const char* why = utf8OrError(item(1));
    if (why == nullptr) throw PythonError();
    read.why = why;
    if (item(2) != Py_None) read.error = newRef(item(2));
    return read;
  }
  Inferred& inferred = read.inferred;
  inferred.structure = static_cast<Structure>(PyLong_AsLong(item(1)));
  if (inferred.structure == Structure::kNamed) inferred.type = newRef(item(2));
  if (inferred.structure == Structure::kNested) inferred.skeleton = newRef(item(2));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(item(3)); ++i) {
    inferred.outputs.push_back(readOutput(PyList_GET_ITEM(item(3), i), substitution));
  }
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(item(4)); ++i) {
    PyObject* change = PyList_GET_ITEM(item(4), i);
    const auto number = static_cast<int>(PyLong_AsLong(PyTuple_GET_ITEM(change, 0)));
    inferred.changed_inputs.emplace_back(substitution.firstOccurrence(number),
                                         readFacts(PyTuple_GET_ITEM(change, 1)));
  }
  const long effect = PyLong_AsLong(item(5));
  inferred.mutates = effect != 0;
  inferred.for_effect = effect == 2;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(item(7)); ++i) {
    const auto number = static_cast<int>(PyLong_AsLong(PyTuple_GET_ITEM(item(7), i)));
    inferred.written_inputs.push_back(substitution.firstOccurrence(number));
  }
  inferred.random = item(6) == Py_True;
  return read;
}

struct Arguments {
  Ref<> args, kwargs;
};

Arguments replaced(const Request& request, const Substitution& substitution) {
  Arguments made;
  made.args = orThrow(PyTuple_New(static_cast<Py_ssize_t>(request.positional)));
  for (size_t i = 0; i < request.positional; ++i) {
    PyTuple_SET_ITEM(made.args.get(), i, substitution.replace(request.args[i]).release());
  }
  made.kwargs = orThrow(PyDict_New());
  const size_t keywords = request.kwnames == nullptr ? 0 : PyTuple_GET_SIZE(request.kwnames);
  for (size_t i = 0; i < keywords; ++i) {
    Ref<> value = substitution.replace(request.args[request.positional + i]);
    if (PyDict_SetItem(made.kwargs.get(), PyTuple_GET_ITEM(request.kwnames, i), value.get()) != 0) {
      throw PythonError();
    }
  }
  return made;
}

// What a run with SymInts gave: (answer, conditions, new sizes, counts), or null if it cannot be done so.
struct SymbolicRun {
  Ref<> result;
  bool knows_counts = false;
  PyObject* conditions() const { return PyTuple_GET_ITEM(result.get(), 1); }
  PyObject* newSizes() const { return PyTuple_GET_ITEM(result.get(), 2); }
  PyObject* counted() const { return PyTuple_GET_ITEM(result.get(), 3); }
  // It has decided that a symbol is one number.
  bool fixesSymbols() const {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(conditions()); ++i) {
      const symbolic::Expr* condition = parsed(i);
      if (condition->kind == symbolic::Kind::kEq && std::popcount(condition->symbols) == 1)
        return true;
    }
    return false;
  }
  const symbolic::Expr* parsed(Py_ssize_t i) const {
    const symbolic::Expr* condition = symbolic::parse(utf8(PyList_GET_ITEM(conditions(), i)));
    STATOR_CHECK(condition != nullptr && condition->isTruth(), "a condition of a symbolic run");
    return condition;
  }
};

// In a ShapeEnv of its own. `by_python`: operators that consist of others are taken apart by torch's Python, which
// computes with symbols where its C++ asks for numbers; for some it is the other way round.
SymbolicRun runWithSymbols(const Request& request, Substitution& substitution,
                           const NonzeroCounts& counts, symbolic::Environment& environment,
                           bool by_python) {
  static PyObject* symbols = glue("symbols");
  static PyObject* make = glue("make_symbolic");
  static PyObject* call = glue("call_symbolic");
  Ref<> hints = orThrow(PyList_New(0));
  for (int64_t hint : environment.hints()) {
    if (PyList_Append(hints.get(), orThrow(PyLong_FromLongLong(hint)).get()) != 0)
      throw PythonError();
  }
  Ref<> unbacked = orThrow(PyList_New(0));
  for (size_t i = 0; i < environment.symbolCount(); ++i) {
    const symbolic::Expr* symbol = symbolic::symbol(static_cast<int64_t>(i));
    if (!environment.hasUnbacked(symbol)) continue;
    const symbolic::Range range = environment.rangeOf(symbol);
    Ref<> row = orThrow(Py_BuildValue("(nLL)", static_cast<Py_ssize_t>(i),
                                      static_cast<long long>(range.low),
                                      static_cast<long long>(range.high)));
    if (PyList_Append(unbacked.get(), row.get()) != 0) throw PythonError();
  }
  PyObject* data_sizes = DataSizesAllowed::now() ? Py_True : Py_False;
  Ref<> made = orThrow(
      PyObject_CallFunctionObjArgs(symbols, hints.get(), unbacked.get(), data_sizes, nullptr));
  substitution.setSymbols(made);
  Ref<> known = substitution.known(counts);
  Ref<> fakes = orThrow(PyObject_CallFunctionObjArgs(make, substitution.facts().get(), made.get(),
                                                     known.get(), nullptr));
  SymbolicRun run{Ref<>(), PyList_GET_SIZE(known.get()) > 0};
  if (fakes.get() != Py_None) {
    substitution.setFakes(fakes);
    Arguments arguments = replaced(request, substitution);
    Ref<> state = stateTuple(*request.state);
    run.result = orThrow(PyObject_CallFunctionObjArgs(
        call, request.target, arguments.args.get(), arguments.kwargs.get(), fakes.get(),
        state.get(), made.get(), by_python ? Py_True : Py_False, nullptr));
    if (run.result.get() == Py_None) run.result.reset();
  }
  substitution.setSymbols(Ref<>());
  return run;
}

// Sizes that only the run of the graph will tell. Whoever asked finds them in the environment.
void addNewSizes(symbolic::Environment& environment, PyObject* ranges) {
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(ranges); ++i) {
    long long low = 0, high = 0;
    if (!PyArg_ParseTuple(PyList_GET_ITEM(ranges, i), "LL", &low, &high)) throw PythonError();
    environment.addUnbacked({low, high});
  }
}

// What the run decides is decided for the capture. False: it cannot be done so, and the sizes have to become numbers.
bool inferWithSymbols(const Request& request, Substitution& substitution, NonzeroCounts& counts,
                      FallbackAnswer& answer) {
  symbolic::Environment* environment = symbolic::Environment::current();
  if (environment == nullptr) return false;
  SymbolicRun run = runWithSymbols(request, substitution, counts, *environment, false);
  if (!run.result || run.fixesSymbols()) {
    SymbolicRun other = runWithSymbols(request, substitution, counts, *environment, true);
    if (other.result && (!run.result || !other.fixesSymbols())) run = std::move(other);
  }
  if (!run.result) return false;
  addNewSizes(*environment, run.newSizes());
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(run.conditions()); ++i) {
    STATOR_CHECK(environment->decide(run.parsed(i)), "a condition of a symbolic run");
  }
  answer = readAnswer(PyTuple_GET_ITEM(run.result.get(), 0), substitution);
  answer.of_these_tensors =
      PyList_GET_SIZE(run.newSizes()) > 0 || PyList_GET_SIZE(run.counted()) > 0 || run.knows_counts;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(run.counted()); ++i) {
    PyObject* row = PyList_GET_ITEM(run.counted(), i);
    const long number = PyLong_AsLong(PyTuple_GET_ITEM(row, 0));
    counts[&substitution.meta(static_cast<int>(number))] = dimOf(PyTuple_GET_ITEM(row, 1));
  }
  return true;
}

}  // namespace

namespace {

// The run with fake instances. Those with symbolic sizes have one ShapeEnv for the trace, which is told of new symbols,
// and whose decisions are the capture's.
FallbackAnswer inferWrapped(const Request& request, Substitution& substitution) {
  static PyObject* make = glue("make");
  static PyObject* call = glue("call");
  static PyObject* make_symbolic = glue("make_wrapped");
  static PyObject* call_symbolic = glue("call_wrapped");
  FallbackAnswer refused;
  refused.why = "wrapper subclasses beside a whole number with a history";
  Ref<> env = orThrow(PyObject_GetAttrString(request.fakes, "env"));
  const bool numbers = env.get() == Py_None;
  symbolic::Environment* environment = symbolic::Environment::current();
  if (!numbers) {
    tellSymbols(request.fakes, *environment);
    substitution.setSymbols(env);
  }
  Ref<> facts = substitution.facts();
  Ref<> fakes = orThrow(
      numbers ? PyObject_CallOneArg(make, facts.get())
              : PyObject_CallFunctionObjArgs(make_symbolic, facts.get(), env.get(), nullptr));
  if (fakes.get() == Py_None) return refused;
  substitution.setFakes(fakes);
  Arguments arguments = replaced(request, substitution);
  Ref<> state = stateTuple(*request.state);
  Ref<> answer = orThrow(PyObject_CallFunctionObjArgs(
      numbers ? call : call_symbolic, request.target, arguments.args.get(), arguments.kwargs.get(),
      substitution.fakes(), state.get(), numbers ? nullptr : env.get(), nullptr));
  if (numbers) return readAnswer(answer.get(), substitution);
  PyObject* conditions = PyTuple_GET_ITEM(answer.get(), 1);
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(conditions); ++i) {
    const symbolic::Expr* condition = symbolic::parse(utf8(PyList_GET_ITEM(conditions, i)));
    STATOR_CHECK(condition != nullptr && condition->isTruth() && environment->decide(condition),
                 "a condition of a symbolic run");
  }
  PyObject* new_sizes = PyTuple_GET_ITEM(answer.get(), 2);
  addNewSizes(*environment, new_sizes);
  FallbackAnswer read = readAnswer(PyTuple_GET_ITEM(answer.get(), 0), substitution);
  read.of_these_tensors = PyList_GET_SIZE(new_sizes) > 0;
  substitution.setSymbols(Ref<>());
  return read;
}

}  // namespace

namespace {

// The fakes belong to none of the transforms of torch.func that are under way.
class TransformsAside {
 public:
  TransformsAside() {
    if (!c10::impl::tls_local_dispatch_key_set().included_.has(
            c10::DispatchKey::FuncTorchDynamicLayerFrontMode)) [[likely]]
      return;
    module_ = orThrow(importModule("stator._transforms"));
    layers_ = orThrow(PyObject_CallMethod(module_.get(), "put_aside", nullptr));
  }
  ~TransformsAside() {
    if (!layers_) return;
    PyObject *type = nullptr, *error = nullptr, *traceback = nullptr;
    PyErr_Fetch(&type, &error, &traceback);
    Ref<> done = stealRef(PyObject_CallMethod(module_.get(), "bring_back", "O", layers_.get()));
    if (!done) PyErr_WriteUnraisable(layers_.get());
    PyErr_Restore(type, error, traceback);
  }
  TransformsAside(const TransformsAside&) = delete;
  TransformsAside& operator=(const TransformsAside&) = delete;

 private:
  Ref<> module_, layers_;
};

}  // namespace

namespace {

// The function whose tags tell what a call does with data: the call's own, or for an index what torch does with it, and
// for where() of a condition alone. An index without dimensions is read as a number, a mask is counted.
PyObject* readerOfData(const Request& request) {
  static PyObject* getitem = glue("GETITEM");
  static PyObject* item = glue("ITEM");
  static PyObject* nonzero = glue("NONZERO");
  static PyObject* where = glue("WHERE");
  if (request.target == where && request.positional == 1 && request.kwnames == nullptr)
    return nonzero;
  if (request.target != getitem || request.positional != 2 || request.reader.tensor_of == nullptr)
    return request.target;
  PyObject* index = request.args[1];
  const bool several = PyTuple_CheckExact(index);
  const Py_ssize_t count = several ? PyTuple_GET_SIZE(index) : 1;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* part = several ? PyTuple_GET_ITEM(index, i) : index;
    const TensorMeta* meta = request.reader.tensor_of(part);
    if (meta == nullptr) continue;
    if (meta->dtype == DType::Bool || meta->dtype == DType::Byte) return nonzero;
    if (meta->sizes.empty() && isIntegral(meta->dtype)) return item;
  }
  return request.target;
}

// What torch's tags say of a function whatever its arguments: that it reads data (item), or that data decide the size
// of what it gives (nonzero). No run has to find that out, and a process's first run costs the import of all that
// FakeTensors need. False: a run tells.
bool toldByTags(const Request& request, const Substitution& substitution, FallbackAnswer& answer) {
  static PyObject* by_tags = glue("by_tags");
  if (DataSizesAllowed::now()) return false;  // it may be a symbol then
  PyObject* reader = readerOfData(request);
  Ref<> row = orThrow(PyObject_CallOneArg(by_tags, reader));
  if (row.get() == Py_None) return false;
  // Of a tensor with more elements `item` raises, which the program may handle.
  const bool reads_single = PyTuple_GET_ITEM(row.get(), 2) == Py_True;
  if (reads_single && reader == request.target && !substitution.hasSingleElement()) return false;
  answer.status = static_cast<Status>(PyLong_AsLong(PyTuple_GET_ITEM(row.get(), 0)));
  answer.why = utf8(PyTuple_GET_ITEM(row.get(), 1));
  return true;
}

}  // namespace

TensorMeta wrapperFacts(PyObject* fake) {
  static PyObject* facts = glue("wrapper_facts");
  return readFacts(orThrow(PyObject_CallOneArg(facts, fake)).get());
}

void tellSymbols(PyObject* fakes, const symbolic::Environment& environment) {
  Ref<> known = orThrow(PyList_New(0));
  for (size_t i = 0; i < environment.symbolCount(); ++i) {
    const symbolic::Expr* symbol = symbolic::symbol(static_cast<int64_t>(i));
    const symbolic::Range range = environment.rangeOf(symbol);
    Ref<> row = orThrow(environment.hasUnbacked(symbol)
                            ? Py_BuildValue("(LL)", static_cast<long long>(range.low),
                                            static_cast<long long>(range.high))
                            : PyLong_FromLongLong(environment.hints()[i]));
    if (PyList_Append(known.get(), row.get()) != 0) throw PythonError();
  }
  orThrow(PyObject_CallMethod(fakes, "extend", "O", known.get()));
}

FallbackAnswer inferWithFake(const Request& request, NonzeroCounts& counts) {
  CallersHidden hidden;
  // What functorch has excluded from dispatch for a part of its work stays excluded where that raises.
  c10::impl::ForceDispatchKeyGuard dispatch;
  TransformsAside no_transforms;
  static PyObject* make = glue("make");
  static PyObject* call = glue("call");
  FallbackAnswer refused;
  Substitution substitution(request);
  const size_t keywords = request.kwnames == nullptr ? 0 : PyTuple_GET_SIZE(request.kwnames);
  for (size_t i = 0; i < request.positional + keywords; ++i) {
    if (!substitution.collect(request.args[i])) {
      refused.why = "an argument is opaque";
      return refused;
    }
  }
  if (!substitution.supported(refused.why)) return refused;
  if (request.wrapped) return inferWrapped(request, substitution);
  if (toldByTags(request, substitution, refused)) return refused;
  if (substitution.isSymbolic()) {
    FallbackAnswer answer;
    if (inferWithSymbols(request, substitution, counts, answer)) return answer;
  }
  substitution.setFakes(orThrow(PyObject_CallOneArg(make, substitution.facts().get())));
  Arguments arguments = replaced(request, substitution);
  Ref<> state = stateTuple(*request.state);
  Ref<> answer = orThrow(PyObject_CallFunctionObjArgs(call, request.target, arguments.args.get(),
                                                      arguments.kwargs.get(), substitution.fakes(),
                                                      state.get(), nullptr));
  FallbackAnswer read = readAnswer(answer.get(), substitution);
  const bool on_data = read.status == Status::kDynamicShape ||
                       (read.status == Status::kDataDependent && DataSizesAllowed::now());
  if (on_data && !substitution.isSymbolic()) {
    // With symbols the size can be one that nobody knows yet, where it is allowed.
    FallbackAnswer with_symbols;
    if (inferWithSymbols(request, substitution, counts, with_symbols)) return with_symbols;
  }
  return read;
}

}  // namespace stator::shapes
