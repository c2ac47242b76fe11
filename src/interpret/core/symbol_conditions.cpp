// What a capture has decided about its symbols: guards, facts of the graph, and demands of the program that were not
// met.
#include "interpret/core/symbol_conditions.h"

#include "base/check.h"
#include "base/text.h"
#include "interpret/core/known.h"
#include "interpret/core/outside_symbols.h"
#include "interpret/core/symbol_nodes.h"
#include "interpret/core/tracer.h"

#include <unordered_set>

namespace stator::interpret {

using symbolic::Dim;
using symbolic::Expr;
using symbolic::Kind;

namespace {

std::string placeOf(const graph::Location* location) {
  if (location == nullptr) return "";
  PyCodeObject* code = location->code.get();
  return std::string(utf8(code->co_filename)) + ":" +
         std::to_string(PyCode_Addr2Line(code, location->offset)) + " in " +
         utf8(code->co_qualname);
}

// torch.fx.experimental._config.symbol_guard_limit_before_specialize: a symbol with more conditions than this becomes a
// number.
void limitConditions(Tracer& tracer) {
  if (tracer.sizes.environment().decisions().empty()) return;
  Ref<> name = stealRef(PyUnicode_FromString("torch.fx.experimental._config"));
  Ref<> module = stealRef(PyImport_GetModule(name.get()));
  Ref<> value =
      module
          ? stealRef(PyObject_GetAttrString(module.get(), "symbol_guard_limit_before_specialize"))
          : Ref<>();
  PyErr_Clear();
  if (!value || !PyLong_CheckExact(value.get())) return;
  const auto limit = static_cast<size_t>(PyLong_AsSize_t(value.get()));
  std::vector<size_t> counts(tracer.sizes.environment().symbolCount());
  for (const symbolic::Decision& decision : tracer.sizes.environment().decisions()) {
    for (int64_t number : symbolic::symbolsIn(decision.condition))
      ++counts[static_cast<size_t>(number)];
  }
  for (size_t i = 0; i < counts.size(); ++i) {
    const Expr* symbol = symbolic::symbol(static_cast<int64_t>(i));
    if (counts[i] > limit && !tracer.sizes.environment().hasUnbacked(symbol))
      tracer.sizes.environment().specialise(symbol);
  }
}

bool hasOneValue(const symbolic::Environment& environment, int64_t number) {
  const Expr* size = environment.simplify(symbolic::symbol(number));
  const symbolic::Range range = environment.rangeOf(size);
  return size->isInt() || range.low >= range.high;
}

// The decision that left the symbol one value, which need not speak of it (`s0 == s1`, then `s1 == 8`): all are taken
// once more, in their order.
const symbolic::Decision* decisionThatFixes(Tracer& tracer, int64_t number) {
  const symbolic::Environment& taken = tracer.sizes.environment();
  symbolic::Environment again;
  for (size_t i = 0; i < taken.symbolCount(); ++i) {
    const symbolic::Range range =
        i < tracer.sizes.ranges().size() ? tracer.sizes.ranges()[i] : symbolic::Range{};
    if (taken.hasUnbacked(symbolic::symbol(static_cast<int64_t>(i))))
      again.addUnbacked(range);
    else
      again.addSymbol(taken.hints()[i], range);
  }
  for (const symbolic::Decision& decision : taken.decisions()) {
    again.assume(decision.condition);
    if (hasOneValue(again, number)) return &decision;
  }
  return nullptr;
}

// Sizes that were marked dynamic are symbols still.
void checkDemands(Tracer& tracer) {
  PyCodeObject* code = tracer.world.roots().code;
  for (const DynamicDemand& demand : tracer.sizes.demands()) {
    if (!hasOneValue(tracer.sizes.environment(), demand.symbol)) continue;
    std::string text =
        sources::print(*demand.source, code) + ".size(" + std::to_string(demand.dim) +
        ") is marked dynamic, but the program makes it static: it was " +
        std::to_string(tracer.sizes.environment().hints()[static_cast<size_t>(demand.symbol)]);
    const symbolic::Decision* culprit = decisionThatFixes(tracer, demand.symbol);
    if (culprit != nullptr && culprit->where != nullptr)
      text += " at " + placeOf(static_cast<const graph::Location*>(culprit->where));
    text +=
        "\n  What to do: write that line for any size, or mark with maybe_mark_dynamic, which a "
        "program may undo.";
    raiseViolation(text);
  }
}

void addConditions(Tracer& tracer) {
  guards::Relations& relations = tracer.world.guards().relations;
  relations.symbols = tracer.sizes.sources();
  tracer.graphs.current().symbols = std::make_unique<graph::Symbols>();
  tracer.graphs.current().symbols->hints = tracer.sizes.environment().hints();
  for (size_t i = 0; i < tracer.sizes.sources().size(); ++i) {
    if (tracer.sizes.environment().hasUnbacked(symbolic::symbol(static_cast<int64_t>(i))))
      tracer.graphs.current().symbols->unbacked.push_back(static_cast<int64_t>(i));
  }
  auto require = [&](const Expr* condition) {
    if (condition->kind == Kind::kBool) return;
    for (int64_t number : symbolic::symbolsIn(condition)) {
      // the graph itself checks it
      if (tracer.sizes.sources()[static_cast<size_t>(number)] == nullptr) return;
    }
    relations.conditions.push_back(condition);
    tracer.graphs.current().symbols->conditions.push_back(symbolic::text(condition));
  };
  for (const symbolic::Decision& decision : tracer.sizes.environment().decisions())
    require(decision.condition);
  for (size_t i = 0; i < tracer.sizes.ranges().size(); ++i) {
    const Expr* symbol = symbolic::symbol(static_cast<int64_t>(i));
    const bool any_size =
        tracer.sizes.ranges()[i].low == 0 && tracer.sizes.environment().hasUnbacked(symbol);
    if (tracer.sizes.ranges()[i].low > -symbolic::kUnbounded && !any_size)
      require(symbolic::lessOrEqual(symbolic::integer(tracer.sizes.ranges()[i].low), symbol));
    if (tracer.sizes.ranges()[i].high < symbolic::kUnbounded)
      require(symbolic::lessOrEqual(symbol, symbolic::integer(tracer.sizes.ranges()[i].high)));
  }
}

// Facts that the capture narrowed down further on are as narrow for all of the graph.
// Inputs keep their own symbols, but for those that became numbers: that two are equal is said by a condition.
void narrowFacts(Tracer& tracer) {
  std::unordered_set<const shapes::TensorMeta*> inputs;
  for (const graph::Node* input : tracer.graphs.current().inputs()) inputs.insert(input->meta);
  for (shapes::TensorMeta& meta : tracer.graphs.current().metas) {
    const bool is_input = inputs.count(&meta) != 0;
    auto simplified = [&](Dim& dim) {
      if (dim.isStatic()) return;
      const Expr* now = tracer.sizes.environment().simplify(dim.expr());
      if (!is_input || now->isInt()) dim = Dim::of(now);
    };
    for (Dim& size : meta.sizes) simplified(size);
    for (Dim& stride : meta.strides) simplified(stride);
    simplified(meta.storage_offset);
    simplified(meta.storage_bytes);
  }
}

}  // namespace

void finishSymbols(Tracer& tracer) {
  limitConditions(tracer);
  checkDemands(tracer);
  addConditions(tracer);
  narrowFacts(tracer);
  if (!tracer.options.runs_as_captured && tracer.graphs.current().callCount() > 0)
    addMissingSymbolInputs(tracer);
}

}  // namespace stator::interpret
