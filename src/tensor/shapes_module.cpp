// The doors of shape inference in stator._core, for tests and benchmarks: real tensors in, facts out.
#include "tensor/shapes_module.h"

#include "base/boundary.h"
#include "shapes/arg.h"
#include "shapes/dims.h"
#include "shapes/dtypes.h"
#include "shapes/fallback.h"
#include "shapes/infer.h"
#include "shapes/registry.h"
#include "symbolic/environment.h"
#include "symbolic/sym_int.h"
#include "tensor/meta_of.h"
#include "tensor/torch_function.h"

#include <ATen/ThreadLocalState.h>
#include <algorithm>
#include <chrono>
#include <torch/csrc/autograd/python_variable.h>
#include <unordered_map>

namespace stator::tensor {

namespace {

using shapes::Inferred;
using shapes::Output;
using shapes::TensorMeta;

// Facts of the real tensors of the call under way, with storages numbered. The reader of shapes::Request is a plain
// function pointer, so they stand here for the time of one call.
struct Facts {
  symbolic::Environment* symbols = nullptr;  // the sizes of dense tensors become symbols of it
  std::unordered_map<PyObject*, TensorMeta> metas;
  std::unordered_map<uintptr_t, uint32_t> storages;
};
Facts* current = nullptr;

// Sizes from two on as symbols; strides and storage follow from them. A tensor with gaps keeps its numbers.
void symbolise(TensorMeta& meta, symbolic::Environment& symbols) {
  if (meta.layout != 0 || !shapes::isNonOverlappingDense(meta.sizes, meta.strides) ||
      meta.storage_offset != 0)
    return;
  if (shapes::storageBytes(meta.sizes, meta.strides, shapes::itemSize(meta.dtype)) !=
      meta.storage_bytes)
    return;
  std::vector<size_t> order(meta.sizes.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = order.size() - 1 - i;
  const shapes::Dims strides = meta.strides;
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return strides[a] < strides[b]; });
  symbolic::Dim next = 1;
  for (size_t dim : order) {
    const int64_t size = meta.sizes[dim].value();
    if (next.hint() == strides[dim].value()) meta.strides[dim] = next;
    if (size >= 2)
      meta.sizes[dim] = symbolic::Dim::of(symbols.addSymbol(size, {2, symbolic::kUnbounded}));
    next *= meta.sizes[dim];
  }
  meta.storage_bytes = shapes::storageBytes(meta.sizes, meta.strides, shapes::itemSize(meta.dtype));
}

const TensorMeta* tensorOf(PyObject* object) {
  if (!THPVariable_Check(object)) return nullptr;
  auto [position, is_new] = current->metas.try_emplace(object);
  if (is_new) {
    position->second = metaOf(object);
    if (const uintptr_t storage = storageOf(object)) {
      const auto next = static_cast<uint32_t>(current->storages.size() + 1);
      position->second.storage_id = current->storages.try_emplace(storage, next).first->second;
    }
    if (current->symbols != nullptr) symbolise(position->second, *current->symbols);
  }
  return &position->second;
}

Ref<> tupleOf(const shapes::Dims& dims) {
  Ref<> tuple = orThrow(PyTuple_New(static_cast<Py_ssize_t>(dims.size())));
  for (size_t i = 0; i < dims.size(); ++i) {
    PyTuple_SET_ITEM(tuple.get(), i, orThrow(PyLong_FromLongLong(dims[i].value())).release());
  }
  return tuple;
}

Ref<> factsOf(const TensorMeta& meta) {
  Ref<> sizes = tupleOf(meta.sizes);
  Ref<> strides = tupleOf(meta.strides);
  Ref<> device = shapes::makeDevice(meta.device, meta.device_index);
  return orThrow(Py_BuildValue(
      "{s:O,s:O,s:O,s:O,s:L,s:L,s:i,s:N,s:N,s:N,s:N,s:N,s:N}", "size", sizes.get(), "stride",
      strides.get(), "dtype", shapes::dtypeObject(meta.dtype), "device", device.get(), "offset",
      static_cast<long long>(meta.storage_offset.value()), "storage_bytes",
      static_cast<long long>(meta.storage_bytes.value()), "layout", static_cast<int>(meta.layout),
      "requires_grad", PyBool_FromLong(meta.requires_grad), "is_leaf",
      PyBool_FromLong(meta.is_leaf), "is_conj", PyBool_FromLong(meta.is_conj), "is_neg",
      PyBool_FromLong(meta.is_neg), "is_inference", PyBool_FromLong(meta.is_inference),
      "is_parameter", PyBool_FromLong(meta.is_parameter)));
}

Ref<> outputObject(const Output& output) {
  if (output.kind == Output::Kind::kConstant) {
    return orThrow(Py_BuildValue("{s:O}", "constant", output.constant.get()));
  }
  Ref<> facts = factsOf(output.meta);
  Ref<> relations =
      orThrow(Py_BuildValue("{s:i,s:i,s:i}", "same_object_as", output.same_object_as, "alias_of",
                            output.alias_of, "alias_of_output", output.alias_of_output));
  if (PyDict_Update(facts.get(), relations.get()) != 0) throw PythonError();
  return facts;
}

Ref<> inferredObject(const Inferred& inferred) {
  Ref<> outputs = orThrow(PyList_New(0));
  for (const Output& output : inferred.outputs) {
    if (PyList_Append(outputs.get(), outputObject(output).get()) != 0) throw PythonError();
  }
  Ref<> changed = orThrow(PyList_New(0));
  for (const auto& [number, meta] : inferred.changed_inputs) {
    Ref<> change = orThrow(Py_BuildValue("(iN)", number, factsOf(meta).release()));
    if (PyList_Append(changed.get(), change.get()) != 0) throw PythonError();
  }
  Ref<> written = orThrow(PyList_New(0));
  for (int number : inferred.written_inputs) {
    if (PyList_Append(written.get(), orThrow(PyLong_FromLong(number)).get()) != 0)
      throw PythonError();
  }
  static constexpr const char* kStructures[] = {"single", "tuple", "list", "named", "nested"};
  PyObject* type = inferred.type ? inferred.type.get() : Py_None;
  PyObject* skeleton = inferred.skeleton ? inferred.skeleton.get() : Py_None;
  return orThrow(Py_BuildValue(
      "{s:O,s:s,s:O,s:O,s:N,s:N,s:O,s:O}", "outputs", outputs.get(), "structure",
      kStructures[static_cast<size_t>(inferred.structure)], "type", type, "skeleton", skeleton,
      "mutates", PyBool_FromLong(inferred.mutates), "random", PyBool_FromLong(inferred.random),
      "changed", changed.get(), "written", written.get()));
}

// The call's arguments in vectorcall layout.
struct FlatCall {
  FlatCall(PyObject* args, PyObject* kwargs) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i)
      values.push_back(PyTuple_GET_ITEM(args, i));
    positional = values.size();
    if (kwargs == nullptr || kwargs == Py_None || PyDict_GET_SIZE(kwargs) == 0) return;
    Ref<> keys = orThrow(PyDict_Keys(kwargs));
    names = orThrow(PyList_AsTuple(keys.get()));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names.get()); ++i) {
      values.push_back(PyDict_GetItem(kwargs, PyTuple_GET_ITEM(names.get(), i)));
    }
  }
  std::vector<PyObject*> values;
  size_t positional = 0;
  Ref<> names;
};

struct CurrentFacts {
  explicit CurrentFacts(Facts& facts) : before(current) { current = &facts; }
  ~CurrentFacts() { current = before; }
  Facts* before;
};

// infer_shapes(target, args, kwargs=None, tiers=0) -> (status, tier, dict | why | exception)
PyObject* inferShapes(PyObject*, PyObject* arguments) {
  PyObject* target = nullptr;
  PyObject* args = nullptr;
  PyObject* kwargs = nullptr;
  int tiers = 0;
  if (!PyArg_ParseTuple(arguments, "OO!|Oi", &target, &PyTuple_Type, &args, &kwargs, &tiers))
    return nullptr;
  return guarded([&]() -> Ref<> {
    if (!shapes::initShapes()) throw PythonError();
    Facts facts;
    CurrentFacts scope(facts);
    FlatCall call(args, kwargs);
    const shapes::State state = shapes::State::now();
    shapes::Request request{target, call.values.data(), call.positional, call.names.get(),
                            &state, {tensorOf, nullptr}};
    shapes::Answer answer = shapes::infer(request, static_cast<shapes::Tiers>(tiers));
    static constexpr const char* kStatus[] = {"ok",          "data_dependent", "dynamic_shape",
                                              "unsupported", "raises",         "warns"};
    static constexpr const char* kTiers[] = {"memo", "rule", "fake"};
    Ref<> payload;
    if (answer.status == shapes::Status::kOk) {
      payload = inferredObject(*answer.inferred);
    } else if (answer.error) {
      payload = answer.error;
    } else {
      payload = orThrow(PyUnicode_FromString(answer.why.c_str()));
    }
    return orThrow(Py_BuildValue("(ssO)", kStatus[static_cast<size_t>(answer.status)],
                                 kTiers[static_cast<size_t>(answer.tier)], payload.get()));
  });
}

// Facts with the values that an assignment of the symbols gives them.
bool assign(shapes::Dim& dim, const std::vector<int64_t>& values) {
  if (dim.isStatic()) return true;
  const std::optional<int64_t> value = symbolic::evaluate(dim.expr(), values.data(), values.size());
  if (value) dim = *value;
  return value.has_value();
}

bool assign(TensorMeta& meta, const std::vector<int64_t>& values) {
  bool defined = assign(meta.storage_offset, values) && assign(meta.storage_bytes, values);
  for (shapes::Dim& size : meta.sizes) defined = defined && assign(size, values);
  for (shapes::Dim& stride : meta.strides) defined = defined && assign(stride, values);
  return defined;
}

Ref<> assigned(const Inferred& inferred, const std::vector<int64_t>& values) {
  Inferred copy = inferred;
  for (Output& output : copy.outputs) {
    if (output.kind == Output::Kind::kConstant) {
      if (symbolic::isSymInt(output.constant.get())) {
        shapes::Dim dim = symbolic::dimOf(output.constant.get());
        STATOR_CHECK(assign(dim, values));
        output.constant = symbolic::makeInt(dim);
      } else if (Py_TYPE(output.constant.get()) == shapes::torchTypes().size) {
        shapes::Dims sizes;
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(output.constant.get()); ++i) {
          PyObject* item = PyTuple_GET_ITEM(output.constant.get(), i);
          sizes.push_back(symbolic::isSymInt(item) ? symbolic::dimOf(item)
                                                   : shapes::Dim(PyLong_AsLongLong(item)));
          STATOR_CHECK(assign(sizes.back(), values));
        }
        output.constant = shapes::sizeObject(sizes);
      }
    } else {
      STATOR_CHECK(assign(output.meta, values));
    }
  }
  for (auto& change : copy.changed_inputs) STATOR_CHECK(assign(change.second, values));
  return inferredObject(copy);
}

// infer_symbolic(target, args, kwargs, seed, tiers): the rules' answer where the sizes of tensors are symbols. None: no
// rule answers. Otherwise (decisions, answer for the sizes as they are, other sizes and strides by id of tensor for
// which the decisions hold, or None, the answer there).
PyObject* inferSymbolic(PyObject*, PyObject* arguments) {
  PyObject* target = nullptr;
  PyObject* args = nullptr;
  PyObject* kwargs = nullptr;
  unsigned long long seed = 0;
  int tiers = static_cast<int>(shapes::Tiers::kRulesOnly);
  if (!PyArg_ParseTuple(arguments, "OO!OK|i", &target, &PyTuple_Type, &args, &kwargs, &seed,
                        &tiers))
    return nullptr;
  return guarded([&]() -> Ref<> {
    if (!shapes::initShapes()) throw PythonError();
    symbolic::Environment environment;
    symbolic::Environment::Scope symbols(&environment);
    Facts facts;
    facts.symbols = &environment;
    CurrentFacts scope(facts);
    FlatCall call(args, kwargs);
    const shapes::State state = shapes::State::now();
    shapes::Request request{target, call.values.data(), call.positional, call.names.get(),
                            &state, {tensorOf, nullptr}};
    shapes::Answer answer = shapes::infer(request, static_cast<shapes::Tiers>(tiers));
    if (answer.status != shapes::Status::kOk) return newRef(Py_None);
    Ref<> decisions = orThrow(PyList_New(0));
    for (const symbolic::Decision& decision : environment.decisions()) {
      if (PyList_Append(
              decisions.get(),
              orThrow(PyUnicode_FromString(symbolic::text(decision.condition).c_str())).get()) != 0)
        throw PythonError();
    }
    Ref<> here = assigned(*answer.inferred, environment.hints());
    Ref<> sizes = newRef(Py_None), there = newRef(Py_None);
    std::vector<int64_t> values(environment.symbolCount());
    for (int attempt = 0; attempt < 200 && there.get() == Py_None; ++attempt) {
      for (int64_t& value : values) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        value = 2 + static_cast<int64_t>((seed >> 33) % 6);
      }
      // Symbols that the decisions bound to others follow these.
      for (size_t i = 0; i < values.size(); ++i) {
        const symbolic::Expr* now = environment.simplify(symbolic::symbol(static_cast<int64_t>(i)));
        values[i] = symbolic::evaluate(now, values.data(), values.size()).value_or(0);
      }
      bool holds = true;
      for (int64_t value : values) holds &= value >= 2;
      for (const symbolic::Decision& decision : environment.decisions())
        holds =
            holds &&
            symbolic::evaluate(decision.condition, values.data(), values.size()).value_or(0) != 0;
      if (!holds || values == environment.hints()) continue;
      there = assigned(*answer.inferred, values);
      sizes = orThrow(PyDict_New());
      for (auto& [object, meta] : facts.metas) {
        TensorMeta other = meta;
        STATOR_CHECK(assign(other, values));
        Ref<> pair =
            orThrow(PyTuple_Pack(2, tupleOf(other.sizes).get(), tupleOf(other.strides).get()));
        Ref<> key = orThrow(PyLong_FromVoidPtr(object));
        if (PyDict_SetItem(sizes.get(), key.get(), pair.get()) != 0) throw PythonError();
      }
    }
    return orThrow(PyTuple_Pack(4, decisions.get(), here.get(), sizes.get(), there.get()));
  });
}

// time_shapes(target, args, kwargs, tiers, repeats) -> nanoseconds for each call
PyObject* timeShapes(PyObject*, PyObject* arguments) {
  PyObject* target = nullptr;
  PyObject* args = nullptr;
  PyObject* kwargs = nullptr;
  int tiers = 0;
  int repeats = 0;
  if (!PyArg_ParseTuple(arguments, "OO!Oii", &target, &PyTuple_Type, &args, &kwargs, &tiers,
                        &repeats)) {
    return nullptr;
  }
  return guarded([&]() -> Ref<> {
    if (!shapes::initShapes()) throw PythonError();
    Facts facts;
    CurrentFacts scope(facts);
    FlatCall call(args, kwargs);
    const shapes::State state = shapes::State::now();
    shapes::Request request{target, call.values.data(), call.positional, call.names.get(),
                            &state, {tensorOf, nullptr}};
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < repeats; ++i) {
      const shapes::Answer answer = shapes::infer(request, static_cast<shapes::Tiers>(tiers));
      STATOR_CHECK(answer.status == shapes::Status::kOk, answer.why);
    }
    const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - start;
    return orThrow(PyFloat_FromDouble(taken.count() / repeats));
  });
}

PyObject* shapesCounts(PyObject*, PyObject*) {
  const shapes::Counts counts = shapes::counts();
  return Py_BuildValue("{s:K,s:K,s:K,s:K,s:K}", "memo", counts.by_tier[0], "rule",
                       counts.by_tier[1], "fake", counts.by_tier[2], "failed", counts.failed,
                       "entries", counts.entries);
}

PyObject* shapesClear(PyObject*, PyObject*) {
  shapes::clearMemo();
  Py_RETURN_NONE;
}

PyObject* shapesUnresolved(PyObject*, PyObject*) {
  return guarded([&]() -> Ref<> {
    if (!shapes::initShapes()) throw PythonError();
    Ref<> list = orThrow(PyList_New(0));
    for (const std::string& name : shapes::unresolvedNames()) {
      if (PyList_Append(list.get(), orThrow(PyUnicode_FromString(name.c_str())).get()) != 0)
        throw PythonError();
    }
    return list;
  });
}

PyObject* shapesHasRule(PyObject*, PyObject* target) {
  return guarded([&]() -> Ref<> {
    if (!shapes::initShapes()) throw PythonError();
    return newRef(shapes::hasRule(target) ? Py_True : Py_False);
  });
}

PyObject* asSubclassFromPython(PyObject*, PyObject* args) {
  PyObject *tensor = nullptr, *type = nullptr;
  if (!PyArg_ParseTuple(args, "OO", &tensor, &type)) return nullptr;
  return asSubclass(tensor, type).release();
}

PyObject* becomeFromPython(PyObject*, PyObject* args) {
  PyObject *tensor = nullptr, *type = nullptr;
  if (!PyArg_ParseTuple(args, "OO", &tensor, &type)) return nullptr;
  if (PyObject_SetAttrString(tensor, "__class__", type) != 0) return nullptr;
  return Py_NewRef(tensor);
}

constexpr const char* kThreadState = "stator.thread_state";

PyObject* threadState(PyObject*, PyObject*) {
  return PyCapsule_New(new at::ThreadLocalState, kThreadState, [](PyObject* capsule) {
    delete static_cast<at::ThreadLocalState*>(PyCapsule_GetPointer(capsule, kThreadState));
  });
}

PyObject* setThreadState(PyObject*, PyObject* capsule) {
  void* state = PyCapsule_GetPointer(capsule, kThreadState);
  if (state == nullptr) return nullptr;
  at::ThreadLocalState::setThreadLocalState(*static_cast<at::ThreadLocalState*>(state));
  Py_RETURN_NONE;
}

}  // namespace

PyMethodDef shapes_methods[] = {
    {"as_subclass", asSubclassFromPython, METH_VARARGS,
     "Tensor.as_subclass, past any __torch_function__."},
    {"become", becomeFromPython, METH_VARARGS,
     "Makes a plain tensor an instance of a subclass, in place."},
    {"thread_state", threadState, METH_NOARGS,
     "torch's state of this thread, for set_thread_state."},
    {"set_thread_state", setThreadState, METH_O, "Puts torch's state of this thread back."},
    {"infer_shapes", inferShapes, METH_VARARGS,
     "Facts of a call's outputs (tiers: 0 all, 1 rules, 2 FakeTensor)."},
    {"infer_symbolic", inferSymbolic, METH_VARARGS,
     "The same with sizes as symbols: (decisions, answer, other sizes, answer there) or None."},
    {"time_shapes", timeShapes, METH_VARARGS, "Nanoseconds for one inference of a call."},
    {"shapes_counts", shapesCounts, METH_NOARGS, "Answers by tier."},
    {"shapes_clear", shapesClear, METH_NOARGS, "Empties the memo and the counts."},
    {"shapes_unresolved", shapesUnresolved, METH_NOARGS,
     "Names in the rule tables that torch lacks."},
    {"shapes_has_rule", shapesHasRule, METH_O, "Whether the rules know a callable."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace stator::tensor
