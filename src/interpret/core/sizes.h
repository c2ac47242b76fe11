// Symbolic sizes and numbers of the trace: what each symbol stands for, what is known of it, and which node gives it.
#pragma once

#include "base/ref.h"
#include "known/dynamic.h"
#include "sources/source.h"
#include "symbolic/environment.h"

#include <unordered_map>
#include <utility>
#include <vector>

namespace stator::interpret {

class Sizes {
 public:
  symbolic::Environment& environment() { return environment_; }
  bool any() const { return environment_.symbolCount() > 0 || has_scalars_; }
  bool hasScalars() const { return has_scalars_; }
  void noteScalar() { has_scalars_ = true; }  // a SymScalar was made
  // A caller's SymInts are among the sizes (core/callers_fakes.h): the program may not see what stands for them here.
  bool areCallers() const { return are_callers_; }
  void noteCallers() { are_callers_ = true; }

  // Of each symbol of the environment, in its order.
  void addSymbol(const sources::Source* source, symbolic::Range range) {
    sources_.push_back(source);
    ranges_.push_back(range);
  }
  // Null: known only when the graph runs.
  const sources::Source* sourceOf(size_t symbol) const { return sources_[symbol]; }
  const std::vector<const sources::Source*>& sources() const { return sources_; }
  const std::vector<symbolic::Range>& ranges() const { return ranges_; }  // as they came

  void demand(known::DynamicDemand what) { demands_.push_back(what); }
  const std::vector<known::DynamicDemand>& demands() const { return demands_; }

  // Numbers from outside, once they have come up; null: not yet.
  Ref<> fromOutside(const sources::Source* source) const {
    auto it = outside_.find(source);
    return it == outside_.end() ? Ref<>() : it->second;
  }
  // Where one of them came from; null for any other object.
  const sources::Source* sourceOfNumber(PyObject* number) const {
    for (const auto& [source, known] : outside_) {
      if (known.get() == number) return source;
    }
    return nullptr;
  }
  void setFromOutside(const sources::Source* source, Ref<> number) {
    outside_[source] = std::move(number);
  }
  // The stand-in whose node gives the expression; borrowed, null: none yet.
  PyObject* nodeOf(const symbolic::Expr* expr) const {
    auto it = nodes_.find(expr);
    return it == nodes_.end() ? nullptr : it->second.get();
  }
  void setNode(const symbolic::Expr* expr, Ref<> stand_in) { nodes_[expr] = std::move(stand_in); }

 private:
  symbolic::Environment environment_;
  std::vector<const sources::Source*> sources_;
  std::vector<symbolic::Range> ranges_;
  std::vector<known::DynamicDemand> demands_;
  bool has_scalars_ = false;
  bool are_callers_ = false;
  std::unordered_map<const sources::Source*, Ref<>> outside_;
  std::unordered_map<const symbolic::Expr*, Ref<>> nodes_;
};

}  // namespace stator::interpret
