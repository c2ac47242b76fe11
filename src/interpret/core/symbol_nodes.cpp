// Symbolic ints in the graph: inputs for the symbols, calls for what is computed from them.
#include "interpret/core/symbol_nodes.h"

#include "base/check.h"
#include "base/rebuilt.h"
#include "base/stack_room.h"
#include "interpret/core/known.h"
#include "interpret/core/sym_scalars.h"
#include "interpret/core/symbols.h"
#include "python/objects.h"
#include "symbolic/sym_int.h"

#include <unordered_set>

namespace stator::interpret {

using symbolic::Dim;
using symbolic::Expr;
using symbolic::Kind;
using symbolic::Part;

namespace {

graph::Node* addSymbolInput(Tracer& tracer, size_t symbol) {
  graph::Node* node = tracer.graphs.root().addInput(
      tracer.sizes.sources()[symbol],
      stealRef(PyLong_FromLongLong(tracer.sizes.environment().hints()[symbol])), nullptr);
  node->scalar_type = newRef(reinterpret_cast<PyObject*>(&PyLong_Type));
  node->name_hint = "s" + std::to_string(symbol);
  node->size = Dim::of(symbolic::symbol(static_cast<int64_t>(symbol)));
  return node;
}

// The symbols of sizes and strides, in their order, some more than once.
std::vector<int64_t> symbolsOf(const shapes::TensorMeta& meta) {
  std::vector<int64_t> symbols;
  for (const shapes::Dims* dims : {&meta.sizes, &meta.strides}) {
    for (const Dim& size : *dims) {
      if (size.isStatic()) continue;
      for (int64_t number : symbolic::symbolsIn(size.expr())) symbols.push_back(number);
    }
  }
  return symbols;
}

// Whether a number from outside is behind it, and no other symbol has taken its place.
bool isInput(Tracer& tracer, int64_t number) {
  const Expr* symbol = symbolic::symbol(number);
  return tracer.sizes.sources()[static_cast<size_t>(number)] != nullptr &&
         (forExport() || tracer.sizes.environment().simplify(symbol) == symbol);
}

}  // namespace

std::vector<Ref<>> symbolNodes(Tracer& tracer,
                               const std::vector<const shapes::TensorMeta*>& metas) {
  std::vector<Ref<>> nodes;
  std::unordered_set<int64_t> seen;
  for (const shapes::TensorMeta* meta : metas) {
    if (meta == nullptr) continue;
    for (int64_t number : symbolsOf(*meta)) {
      if (!isInput(tracer, number) || !seen.insert(number).second) continue;
      Ref<> node = symNode(tracer, Dim::of(symbolic::symbol(number)));
      // One that has become a number is none.
      if (graph::isStandIn(node.get())) nodes.push_back(std::move(node));
    }
  }
  return nodes;
}

// Backends find each symbol of their tensors among the inputs too, as TorchDynamo gives them: inductor's cache can say
// what it relies on of those alone.
void addMissingSymbolInputs(Tracer& tracer) {
  std::unordered_set<int64_t> there;
  std::vector<int64_t> wanted;
  for (const graph::Node* input : tracer.graphs.current().inputs()) {
    if (input->scalar_type && !input->size.isStatic() && input->size.expr()->kind == Kind::kSymbol)
      there.insert(input->size.expr()->number);
    if (input->meta == nullptr) continue;
    for (int64_t number : symbolsOf(*input->meta)) wanted.push_back(number);
  }
  if (forExport()) {
    for (size_t i = 0; i < tracer.sizes.sources().size(); ++i)
      wanted.push_back(static_cast<int64_t>(i));
  }
  for (int64_t number : wanted) {
    if (isInput(tracer, number) && there.insert(number).second)
      addSymbolInput(tracer, static_cast<size_t>(number));
  }
}

namespace {

Ref<> number(int64_t value) { return stealRef(PyLong_FromLongLong(value)); }

// An int that the graph computes: function(left, right).
Ref<> callNode(Tracer& tracer, PyObject* function, const Ref<>& left, const Ref<>& right,
               const Expr* value) {
  PyObject* int_type = reinterpret_cast<PyObject*>(&PyLong_Type);
  if (!graph::isStandIn(left.get()) && !graph::isStandIn(right.get())) {
    return stealRef(PyObject_CallFunctionObjArgs(function, left.get(), right.get(), nullptr));
  }
  graph::Node* node =
      tracer.graphs.current().addCall(graph::Op::kCallFunction, newRef(function),
                                      stealRef(PyTuple_Pack(2, left.get(), right.get())), Ref<>());
  node->scalar_type = newRef(int_type);
  node->size = Dim::of(value);
  if (!tracer.frames.empty()) {  // a plan may ask for it when all is done
    node->location = tracer.location();
    node->scope = tracer.frames.innermost().scope;
  }
  Ref<> made = graph::makeStandIn(node, nullptr, int_type);
  tracer.values.addMade(made.get(), tracer.frames.instruction());
  return made;
}

Ref<> inputNode(Tracer& tracer, const Expr* expr) {
  const auto index = static_cast<size_t>(expr->number);
  // Of a view's place in memory, say: no node has it.
  if (tracer.sizes.sources()[index] == nullptr) throw symbolic::Undecided(nullptr);
  Ref<> result = graph::makeStandIn(addSymbolInput(tracer, index), nullptr,
                                    reinterpret_cast<PyObject*>(&PyLong_Type));
  tracer.values.addMade(result.get(), 0);
  return result;
}

Ref<> sumNode(Tracer& tracer, const Expr* expr) {
  Ref<> result;
  const Expr* so_far = symbolic::integer(0);
  for (const Part& term : expr->parts) {
    const bool minus = term.number < 0 && result;
    Ref<> value = symNode(tracer, Dim::of(term.expr));
    const int64_t factor = minus ? -term.number : term.number;
    const Expr* scaled = symbolic::multiply(symbolic::integer(factor), term.expr);
    if (factor != 1)
      value = callNode(tracer, operatorFunction("mul"), value, number(factor), scaled);
    so_far = minus ? symbolic::subtract(so_far, scaled) : symbolic::add(so_far, scaled);
    result = !result
                 ? value
                 : callNode(tracer, operatorFunction(minus ? "sub" : "add"), result, value, so_far);
  }
  if (expr->number != 0)
    result = callNode(tracer, operatorFunction(expr->number < 0 ? "sub" : "add"), result,
                      number(std::abs(expr->number)), expr);
  return result;
}

Ref<> productNode(Tracer& tracer, const Expr* expr) {
  Ref<> result;
  const Expr* so_far = symbolic::integer(1);
  for (const Part& factor : expr->parts) {
    for (int64_t i = 0; i < factor.number; ++i) {
      so_far = symbolic::multiply(so_far, factor.expr);
      result = !result ? symNode(tracer, Dim::of(factor.expr))
                       : callNode(tracer, operatorFunction("mul"), result,
                                  symNode(tracer, Dim::of(factor.expr)), so_far);
    }
  }
  return result;
}

Ref<> extremeNode(Tracer& tracer, const Expr* expr) {
  Ref<> result;
  const Expr* so_far = nullptr;
  const bool least = expr->kind == Kind::kMin;
  for (const Part& item : expr->parts) {
    so_far = so_far == nullptr ? item.expr
             : least           ? symbolic::least(so_far, item.expr)
                               : symbolic::greatest(so_far, item.expr);
    result = !result ? symNode(tracer, Dim::of(item.expr))
                     : callNode(tracer, torchObject(least ? "torch.sym_min" : "torch.sym_max"),
                                result, symNode(tracer, Dim::of(item.expr)), so_far);
  }
  return result;
}

// None that the graph has already. Null with an error set: a call of Python failed.
Ref<> newNode(Tracer& tracer, const Expr* expr) {
  switch (expr->kind) {
    case Kind::kSymbol:
      return inputNode(tracer, expr);
    case Kind::kSum:
      return sumNode(tracer, expr);
    case Kind::kProduct:
      return productNode(tracer, expr);
    case Kind::kFloorDiv:
    case Kind::kMod:
      return callNode(tracer, operatorFunction(expr->kind == Kind::kMod ? "mod" : "floordiv"),
                      symNode(tracer, Dim::of(expr->parts[0].expr)),
                      symNode(tracer, Dim::of(expr->parts[1].expr)), expr);
    default:
      return extremeNode(tracer, expr);
  }
}

bool isComputed(Kind kind) {
  return kind == Kind::kSymbol || kind == Kind::kSum || kind == Kind::kProduct ||
         kind == Kind::kFloorDiv || kind == Kind::kMod || kind == Kind::kMin || kind == Kind::kMax;
}

}  // namespace

Ref<> symNode(Tracer& tracer, Dim dim) {
  if (!dim.isStatic()) dim = Dim::of(tracer.sizes.environment().simplify(dim.expr()));
  if (dim.isStatic()) return symbolic::makeInt(dim);
  const Expr* expr = dim.expr();
  if (PyObject* known = tracer.sizes.nodeOf(expr)) {
    if (!tracer.graphs.hadSubgraphs() || tracer.graphs.reachable(graph::asStandIn(known)->node))
      return newRef(known);
    // Computed inside of a function that the graph calls: once more here, if it can be.
    if (expr->kind == Kind::kSymbol) throw symbolic::Undecided(nullptr);
  }
  if (!isComputed(expr->kind)) return number(dim.value());
  Ref<> result = newNode(tracer, expr);
  if (!result) throw PythonError();
  tracer.sizes.setNode(expr, result);
  return result;
}

Ref<> lowered(Tracer& tracer, PyObject* argument) {
  if (symbolic::isSymInt(argument)) return symNode(tracer, symbolic::dimOf(argument));
  if (symbolic::isSymScalar(argument)) return scalarNode(tracer, argument);
  needStack();
  auto part = [&](PyObject* item) { return lowered(tracer, item); };
  // torch.Size takes no nodes: any tuple becomes a plain one.
  if (PyTuple_Check(argument) || PyList_Check(argument)) return rebuiltItems(argument, part);
  if (PySlice_Check(argument)) return rebuilt(argument, part);
  if (!PyDict_CheckExact(argument)) return newRef(argument);
  // Keys keep the hashes that they stand under: to ask for them may run code of the program.
  Ref<> dict = stealRef(PyDict_New());
  PyObject *key = nullptr, *item = nullptr;
  Py_ssize_t position = 0;
  Py_hash_t hash = 0;
  while (stator_dict_next(argument, &position, &key, &item, &hash))
    _PyDict_SetItem_KnownHash(dict.get(), key, part(item).get(), hash);
  return dict;
}

}  // namespace stator::interpret
