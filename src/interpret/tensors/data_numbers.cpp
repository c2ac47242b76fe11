// Sizes and conditions that only the run of a graph tells.
#include "interpret/tensors/data_numbers.h"

#include "base/rebuilt.h"
#include "base/text.h"
#include "interpret/core/known.h"
#include "interpret/core/sym_scalars.h"
#include "interpret/core/symbol_nodes.h"
#include "interpret/core/symbols.h"
#include "interpret/tensors/tensor_call.h"
#include "interpret/tensors/torch_calls.h"
#include "symbolic/sym_int.h"
#include "tensor/number_arguments.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace stator::interpret {

namespace {

// The two sides of `sum == 0`, as arguments of the graph.
AssumedEqual sidesOf(Tracer& t, const symbolic::Expr* sum) {
  const bool two = sum->kind == symbolic::Kind::kSum && sum->number == 0 &&
                   sum->parts.size() == 2 && sum->parts[0].number == 1 &&
                   sum->parts[1].number == -1;
  if (!two) return {symNode(t, symbolic::Dim::of(sum)), stealRef(PyLong_FromLong(0))};
  return {symNode(t, symbolic::Dim::of(sum->parts[0].expr)),
          symNode(t, symbolic::Dim::of(sum->parts[1].expr))};
}

}  // namespace

void readNewSizes(Tracer& t, size_t first, PyObject* result) {
  static PyObject* sym_size = torchObject("torch.ops.aten.sym_size.int");
  PyObject* int_type = reinterpret_cast<PyObject*>(&PyLong_Type);
  std::vector<PyObject*> results;
  collectTensors(result, results);
  for (size_t number = first; number < t.sizes.sources().size(); ++number) {
    const symbolic::Dim size = symbolic::Dim::of(symbolic::symbol(static_cast<int64_t>(number)));
    for (PyObject* tensor : results) {
      const shapes::Dims& sizes = metaOfStandIn(tensor)->sizes;
      const auto at = std::find_if(sizes.begin(), sizes.end(),
                                   [&](symbolic::Dim dim) { return dim.identical(size); });
      if (at == sizes.end()) continue;
      Ref<> dim = stealRef(PyLong_FromLong(static_cast<long>(at - sizes.begin())));
      graph::Node* node =
          t.graphs.current().addCall(graph::Op::kCallFunction, newRef(sym_size),
                                     stealRef(PyTuple_Pack(2, tensor, dim.get())), Ref<>());
      node->scalar_type = newRef(int_type);
      node->size = size;
      node->location = t.location();
      node->scope = t.frames.innermost().scope;
      Ref<> stand_in = graph::makeStandIn(node, nullptr, int_type);
      t.values.addMade(stand_in.get(), t.frames.instruction());
      t.sizes.setNode(size.expr(), std::move(stand_in));
      break;
    }
  }
}

namespace {

bool isFloat(PyObject* value) {
  return symbolic::isSymScalar(value) && symbolic::asSymScalar(value)->of == &PyFloat_Type;
}

bool holdsFloat(PyObject* value) {
  if (!PyTuple_Check(value) && !PyList_Check(value)) return isFloat(value);
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); ++i) {
    if (isFloat(PySequence_Fast_GET_ITEM(value, i))) return true;
  }
  return false;
}

}  // namespace

bool floatsAreData(PyObject* target, const Args& args) {
  Ref<> named = PyUnicode_Check(target) ? newRef(target)
                                        : stealRef(PyObject_GetAttrString(target, "__name__"));
  if (!named || !PyUnicode_Check(named.get())) {
    PyErr_Clear();
    return false;
  }
  std::string_view name = utf8(named.get());
  name = name.substr(0, name.find('.'));  // torch.ops.aten.add.Scalar
  auto* function = PyFunction_Check(target) ? reinterpret_cast<PyFunctionObject*>(target) : nullptr;
  if (function != nullptr &&
      (function->func_module == nullptr || !PyUnicode_Check(function->func_module) ||
       PyUnicode_CompareWithASCIIString(function->func_module, "torch.nn.functional") != 0))
    return false;
  bool any = false;
  for (size_t i = 0; i < args.values.size(); ++i) {
    if (!holdsFloat(args.values[i])) continue;
    std::string_view keyword;
    if (i >= args.positional) keyword = utf8(args.name(i - args.positional));
    if (function != nullptr) {
      auto* code = reinterpret_cast<PyCodeObject*>(function->func_code);
      if (i < args.positional && static_cast<int>(i) >= code->co_argcount) return false;
      Ref<> names = stealRef(PyCode_GetVarnames(code));
      if (i < args.positional)
        keyword = utf8(PyTuple_GET_ITEM(names.get(), static_cast<Py_ssize_t>(i)));
      if (!tensor::namesData(keyword)) return false;
    } else if (!(name == "as_tensor" && i == 0) && !tensor::numberIsData(name, i, keyword)) {
      return false;
    }
    any = true;
  }
  return any;
}

Ref<> withSomeNumbers(PyObject* argument) {
  if (isFloat(argument)) {
    const symbolic::SymScalar* scalar = symbolic::asSymScalar(argument);
    return stealRef(PyFloat_FromDouble(scalar->backed ? scalar->hint : 0.5));
  }
  if (symbolic::isSymScalar(argument)) return newRef(Py_True);
  if (PyTuple_CheckExact(argument) || (PyList_CheckExact(argument) && holdsFloat(argument)))
    return rebuilt(argument, withSomeNumbers);
  return newRef(argument);
}

bool mayAssume(Tracer& t, const symbolic::Expr* condition) {
  return t.options.fullgraph && condition != nullptr && condition->kind == symbolic::Kind::kEq;
}

void assume(Tracer& t, const symbolic::Expr* condition, std::vector<AssumedEqual>& assumed) {
  // Before it is known: then one is expressed by the other.
  assumed.push_back(sidesOf(t, condition->parts[0].expr));
  t.sizes.environment().assume(condition);
}

void check(Tracer& t, const AssumedEqual& assumed) {
  graph::Node* compared = t.graphs.current().addCall(
      graph::Op::kCallFunction, newRef(operatorFunction("eq")),
      stealRef(PyTuple_Pack(2, assumed.left.get(), assumed.right.get())), Ref<>());
  PyObject* bool_type = reinterpret_cast<PyObject*>(&PyBool_Type);
  compared->scalar_type = newRef(bool_type);
  compared->location = t.location();
  compared->scope = t.frames.innermost().scope;
  Ref<> stand_in = graph::makeStandIn(compared, nullptr, bool_type);
  t.values.addMade(stand_in.get(), t.frames.instruction());
  t.sizes.noteScalar();
  checkInGraph(t, symbolic::makeScalar(&PyBool_Type, std::move(stand_in)).get());
}

}  // namespace stator::interpret
