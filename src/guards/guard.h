// Guards: the facts that a capture relied on. Collected while tracing as (source, kind, expected), compiled at the end
// into one flat program that a later call runs; a failed guard explains itself in the user's terms from the same body.
#pragma once

#include "base/ref.h"
#include "guards/float_relation.h"
#include "sources/source.h"
#include "symbolic/expr.h"
#include "tensor/tensor_guard.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace stator::guards {

enum class GuardKind : uint8_t {
#define STATOR_GUARD_KIND(kind, about, word, dynamo, text) kind,
#include "guards/kinds.def"
#undef STATOR_GUARD_KIND
};

// What a kind of guard is about, which says where it stands in the program.
enum class About : uint8_t { kReading, kValue, kTwoValues, kClass, kProcess };

// A row of kinds.def.
struct KindRow {
  About about;
  const char *word, *dynamo, *text;
};
inline constexpr KindRow kKindRows[] = {
#define STATOR_GUARD_KIND(kind, about, word, dynamo, text) {About::about, word, dynamo, text},
#include "guards/kinds.def"
#undef STATOR_GUARD_KIND
};
constexpr const KindRow& rowOf(GuardKind kind) { return kKindRows[static_cast<size_t>(kind)]; }

// A name that was looked up along a type's MRO, and what was found there; null: nothing.
struct TypeLookup {
  Ref<> name;
  Ref<> found;
};

struct Guard {
  GuardKind kind;
  const sources::Source* source = nullptr;
  const sources::Source* other = nullptr;
  Ref<> expected;
  int64_t number = 0;
  std::shared_ptr<const tensor::TensorGuard> tensor;
  // kGlobalState; the state at `add` when left out
  std::shared_ptr<const tensor::GlobalState> state;
  // kTypeVersion; empty: any change of the type makes the guard fail
  std::vector<TypeLookup> names;
};

// What has to hold between sizes, ints and floats that are no constants: conditions over symbols, of which each is read
// from a source.
struct Relations {
  // null: known only when the graph runs, in no condition
  std::vector<const sources::Source*> symbols;
  std::vector<const symbolic::Expr*> conditions;
  std::vector<FloatRelation> floats;
  bool empty() const { return symbols.empty() && floats.empty(); }
};

// Collects while tracing. Adding the same fact twice costs a hash look-up and changes nothing.
class GuardSet {
 public:
  GuardSet();
  ~GuardSet();
  void add(Guard guard);
  // `name` was looked up in `type` (the type of the value at `source`, or a type itself); `result` null: it was not
  // there. A type has one guard, however many values and names led to it: as long as its version stands, nothing else
  // is looked at.
  void addTypeLookup(const sources::Source* source, PyTypeObject* type, PyObject* name,
                     PyObject* result);
  // Forgets what was added last, for a capture that goes back (names of types stay: they are true, and only make the
  // guard stricter).
  void truncate(size_t size);
  // Whether tensors require grad is no part of their guards.
  void ignoreGrads();
  const std::vector<Guard>& all() const { return guards_; }
  size_t size() const { return guards_.size(); }
  Relations relations;

 private:
  std::vector<Guard> guards_;
  struct Index;
  std::unique_ptr<Index> index_;
};

// The flat program: reads shared prefixes once, each step a few loads and compares.
class GuardProgram {
 public:
  // `wanted`: sources whose values a check hands out, as the guards lead to them anyway (a graph's inputs).
  GuardProgram(const sources::SourceSet& sources, const GuardSet& guards,
               const std::vector<const sources::Source*>& wanted = {});
  ~GuardProgram();
  GuardProgram(const GuardProgram&) = delete;
  // True: every guard holds. Runs no user code, sets no Python error.
  bool check(const sources::Roots& roots);
  // What the symbols stand for, one to a line: sizes and ints that the entry leaves open.
  std::string symbolText(PyCodeObject* code) const;
  // The same; `values` then holds what the wanted sources led to, in their order.
  bool check(const sources::Roots& roots, std::vector<Ref<>>& values);
  // The same without a reference for each: `values` live as long as nobody changes what they were found in, and `made`,
  // which owns what came into being by the asking. Both are empty before.
  bool check(const sources::Roots& roots, std::vector<PyObject*>& values, std::vector<Ref<>>& made);
  // The first guard that fails, in the user's terms (`L['self'].scale: was 2, is 3`); empty if all hold.
  std::string explain(const sources::Roots& roots);
  // What the first guard that fails is about; null: none fails, or it is about no value.
  const sources::Source* failedSource(const sources::Roots& roots);
  // Whether checks may be answered from remembered memory (guards/replay.h); on from the start. For tests and
  // measurements.
  void allowReplay(bool allowed);
  struct Counts {
    uint64_t replayed = 0;  // subtrees answered from memory
    uint64_t recorded = 0;  // subtrees whose memory was taken down
    // of those replayed: nobody had told of a change, so that only the rest was looked at
    uint64_t untold = 0;
  };
  Counts counts() const;
  // A weakly held object is gone: no call will ever pass again.
  bool dead() const;
  // All guards as text, one a line, with their sources.
  std::string text(PyCodeObject* code) const;
  // What each guard costs by itself, and what all of them cost together as they are checked; for a call whose guards
  // hold.
  struct Cost {
    std::string guard;
    double nanoseconds;
  };
  struct Costs {
    std::vector<Cost> each;  // in the order of text()
    double together = 0;
  };
  Costs measure(const sources::SourceSet& sources, const sources::Roots& roots);
  // For the owner's tp_traverse.
  int traverse(visitproc visit, void* arg) const;

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace stator::guards
