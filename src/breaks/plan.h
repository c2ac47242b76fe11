// What a captured part does when its guards hold, apart from the graph itself: a flat program over registers that
// gathers what is needed, rebuilds the objects that the trace made, replays side effects, and says how the frame goes
// on. All that can fail comes before the commit point; after it only stores happen.
#pragma once

#include "base/ref.h"
#include "breaks/continuation.h"
#include "breaks/reasons.h"
#include "python/frame.h"
#include "sources/source.h"

#include <cstdint>
#include <string>
#include <vector>

namespace stator::breaks {

using Register = int32_t;
constexpr Register kKeep = -1;  // a frame slot that stays as it is
constexpr Register kNull = -2;  // an unbound slot, or CPython's NULL on the stack

enum class PlanOp : uint8_t {
  // Values. `object` is a constant, `source` a source, `operands` registers.
  kConstant,
  kSource,
  // source: what lay on the stack at the entry, unread; the one value that may be CPython's NULL
  kStackEntry,
  kGraphOutput,  // number: index
  kTuple,
  kTupleOf,  // object: tuple subclass or torch.Size; operands: items
  kList,     // empty list, filled later: cycles are possible
  kDict,
  kSet,
  kFrozenSet,  // operands: items; or object: a set of constants, whose order it has
  kSlice,
  kDeque,     // operands[0]: maxlen
  kScalarOf,  // object: subclass of str, int ...; operands: the built-in value
  // object: exception class; operands: its args. The C base's __new__ and __init__, nothing of the user's
  kException,
  kNew,   // object: class; the base's plain __new__, nothing of the user's runs
  kCell,  // empty cell
  // operands: code, globals, qualname, closure or kNull, defaults or kNull, kwdefaults or kNull
  kFunction,
  kMethod,        // operands: function, self
  kBoundBuiltin,  // object: method descriptor; operands: self
  // object: a built-in callable that runs no user code; operands: positional arguments
  kCall,
  kAdvance,   // operands[0] (an iterator of C's), after `number` items were taken from it
  kIterator,  // C's iter(operands[0]) advanced to position `number`
  kReversed,  // C's reversed(operands[0])
  // Filling what was made empty; object-level stores that run no user code.
  kListExtend,     // operands: list, items...
  kDictSet,        // operands: dict, key, value
  kDictSetHashed,  // the same; number: the key's hash, which is not computed again
  kSetAdd,         // operands: set, item
  // object: a set with the table to have; operands: set, its elements in their order
  kSetOfTable,
  // object: name; operands: owner, value (the instance dict or slot, past any __setattr__)
  kAttributeSet,
  kAttributeDelete,
  kEntrySet,  // the same for an entry of the instance dict, whatever the class has under the name
  kCellSet,   // operands: cell, value or kNull
  kDefaultFactory,  // operands: defaultdict, factory
  // Side effects on what existed before; after the commit point.
  kListReplace,  // operands: the list, new contents (a list)
  kDictReplace,  // operands: the dict, new contents (a dict)
  kSetReplace,
  kDictStore,         // operands: the dict, key, value
  kDictDelete,        // operands: the dict, key
  kTypeAttributeSet,  // object: name; operands: class, value
  kTypeAttributeDelete,
  kLruHit,    // operands: a functools.lru_cache, key
  kLruStore,  // operands: a functools.lru_cache, key, value: a miss
  // operands[0]: generator function; a generator that has not begun, its arguments not set
  kGenerator,
  // operands: generator, exception it handles or kNull, slots ..., stack ...; number: see GeneratorState
  kGeneratorFill,
  // operands[0]: iterator of a list, tuple or range; number: how many items were taken
  kSkip,
  kSeek,  // operands[0]: iterator of a list; number: its position
  // operands: iterator of a dict or set, what it iterates over; number: how many items it has given
  kSeekEntry,
  // object: built-in callable with an effect (torch._C._set_grad_enabled, ...); operands: arguments
  kEffectCall,
};

struct PlanStep {
  PlanOp op;
  Register result = kNull;
  int64_t number = 0;
  Ref<> object;
  const sources::Source* source = nullptr;
  std::vector<Register> operands;
};

enum class ExitKind : uint8_t { kReturn, kBreak };

// The state in which a frame goes on. The first is the driven frame itself, the others are callees that capture had
// inlined.
struct FrameState {
  Register function = kNull;  // callees only
  std::vector<Register> slots;
  std::vector<Register> stack;
  int offset = 0;
  Continuation continuation = Continuation::kPush;
  Register instance = kNull;
};

// What the graph is given that no source leads to: a random number of Python's, which is drawn before the graph runs,
// or a parameter that the program makes (breaks/draws.h).
struct Draw {
  const sources::Source* generator = nullptr;  // null: `method` is a function that makes something
  Ref<> method;                                // of random.Random
  Ref<> args, kwargs;                          // constants
};

struct Plan {
  std::vector<Draw> draws;
  std::vector<PlanStep> steps;
  int register_count = 0;
  size_t commit = 0;  // steps from here on have effects
  ExitKind exit = ExitKind::kReturn;
  Register returned = kNull;
  // of the driven frame: those whose values at the entry the program has dropped
  std::vector<int> dropped_slots;
  std::vector<FrameState> frames;
  Register handled = kKeep;
  // Why capture ended, for kBreak.
  Reason reason = Reason::kNone;
  std::string detail;
  int line = 0;
  std::string place;  // file:line in function

  std::string text() const;
  int traverse(visitproc visit, void* arg) const;
};

// How far a rebuilt generator is.
struct GeneratorState {
  static constexpr int64_t kFresh = -1, kEnded = -2;
  // the offset of the YIELD_VALUE where it stands, and how many of the operands are slots
  static int64_t pack(int offset, size_t slots) {
    return (static_cast<int64_t>(slots) << 32) | offset;
  }
};
// The runtime's part: it knows frames. Both false or null with a Python error set.
struct GeneratorDoors {
  Ref<> (*make)(PyObject* function);
  bool (*fill)(PyObject* generator, int64_t state, PyObject* handled,
               const std::vector<PyObject*>& values);
};
GeneratorDoors& generatorDoors();

// Runs the value and effect steps. `registers` gets register_count entries. False with a Python error set on failure,
// which can only happen before the commit point has been passed (afterwards an error is a bug: memory exhausted or a
// dict that refuses a store).
bool runSteps(const Plan& plan, const sources::Roots& roots, PyObject* graph_outputs,
              std::vector<Ref<>>& registers);

}  // namespace stator::breaks
