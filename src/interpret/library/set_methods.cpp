// Methods of sets and frozensets.
#include "interpret/calls/calls.h"
#include "interpret/core/arguments.h"
#include "interpret/core/known.h"
#include "interpret/core/symbols.h"
#include "interpret/core/tables.h"
#include "interpret/core/tracer.h"
#include "interpret/library/containers.h"
#include "interpret/library/rows.h"
#include "interpret/objects/iteration.h"
#include "interpret/objects/lookups.h"
#include "symbolic/sym_int.h"

namespace stator::interpret {

namespace {

// An element is about the number that a size is.
template <bool writes>
Out withElement(Tracer& t, const Args& args, const char* method) {
  NEED(2, method);
  Args plain = args;
  if (symbolic::isSymbol(args.values[1]))
    plain.values[1] = t.world.keep(concrete(t, args.values[1]));
  // What is looked for may be a set, which stands for the frozenset of its elements.
  if (method != std::string_view("add") && PySet_Check(plain.values[1]))
    return t.breakWith(Reason::kUnsupportedObject, "a set as an element that is looked for");
  STATOR_FLOW(requireHashable(t, plain.values[1]));
  return onContents<writes>(t, plain, method, false);
}
Out setAdd(Tracer& t, const Args& args) { return withElement<true>(t, args, "add"); }
Out setDiscard(Tracer& t, const Args& args) { return withElement<true>(t, args, "discard"); }
Out setRemove(Tracer& t, const Args& args) { return withElement<true>(t, args, "remove"); }
Out setPop(Tracer& t, const Args& args) { return onContents<true>(t, args, "pop"); }

// Of a set C takes the elements, whatever a subclass has for __iter__.
bool isSet(PyObject* value) { return !graph::isStandIn(value) && PyAnySet_Check(value); }

// union, intersection, ... with any iterables of hashable things.
template <bool writes>
Out setOperation(Tracer& t, const Args& args, const char* method) {
  if (args.positional == 0 || args.keywordCount() != 0) return wrongArguments(t, method);
  Args lists;
  std::vector<Ref<>> keep;
  lists.values.push_back(args.values[0]);
  for (size_t i = 1; i < args.positional; ++i) {
    STATOR_VALUE(operand, setOperand(t, args.values[i]));
    lists.values.push_back(operand.get());
    keep.push_back(std::move(operand));
  }
  lists.positional = lists.values.size();
  return onContents<writes>(t, lists, method, false);
}
#define SET_OPERATION(name, writes, method) \
  Out name(Tracer& t, const Args& args) { return setOperation<writes>(t, args, method); }
SET_OPERATION(setUnion, false, "union")
SET_OPERATION(setIntersection, false, "intersection")
SET_OPERATION(setDifference, false, "difference")
SET_OPERATION(setSymmetric, false, "symmetric_difference")
SET_OPERATION(setIsSubset, false, "issubset")
// These two take an item, look, and stop at the first that decides. isdisjoint asks a set's subclass for its own
// iterator.
template <bool of_subclass>
Out setOneByOne(Tracer& t, const Args& args, const char* method, const char* traced) {
  if (args.positional == 2 && args.keywordCount() == 0 && iterationRunsCode(args.values[1]) &&
      (of_subclass || !isSet(args.values[1])))
    return callNested(t, torchObject(traced), args);
  return setOperation<false>(t, args, method);
}
Out setIsSuperset(Tracer& t, const Args& args) {
  return setOneByOne<false>(t, args, "issuperset", "stator.polyfills.functions.set_issuperset");
}
Out setIsDisjoint(Tracer& t, const Args& args) {
  return setOneByOne<true>(t, args, "isdisjoint", "stator.polyfills.functions.set_isdisjoint");
}
Out setUpdate(Tracer& t, const Args& args) {
  if (args.positional == 2 && args.keywordCount() == 0 && iterationRunsCode(args.values[1]) &&
      !isSet(args.values[1]))
    return putEach(t, args, setAdd);
  return setOperation<true>(t, args, "update");
}
SET_OPERATION(setIntersectionUpdate, true, "intersection_update")
SET_OPERATION(setDifferenceUpdate, true, "difference_update")
SET_OPERATION(setSymmetricUpdate, true, "symmetric_difference_update")

}  // namespace

void registerSetMethods() {
  const std::pair<const char*, CallHandler> rows[] = {
      {"builtins.set.add", setAdd},
      {"builtins.set.discard", setDiscard},
      {"builtins.set.remove", setRemove},
      {"builtins.set.pop", setPop},
      {"builtins.set.clear", clearContents},
      {"builtins.set.copy", copyContents},
      {"builtins.set.union", setUnion},
      {"builtins.set.intersection", setIntersection},
      {"builtins.set.difference", setDifference},
      {"builtins.set.symmetric_difference", setSymmetric},
      {"builtins.set.issubset", setIsSubset},
      {"builtins.set.issuperset", setIsSuperset},
      {"builtins.set.isdisjoint", setIsDisjoint},
      {"builtins.set.update", setUpdate},
      {"builtins.set.intersection_update", setIntersectionUpdate},
      {"builtins.set.difference_update", setDifferenceUpdate},
      {"builtins.set.symmetric_difference_update", setSymmetricUpdate},
      {"builtins.frozenset.isdisjoint", setIsDisjoint},
      {"builtins.frozenset.symmetric_difference", setSymmetric},
      {"builtins.frozenset.copy", copyContents},
      {"builtins.frozenset.union", setUnion},
      {"builtins.frozenset.intersection", setIntersection},
      {"builtins.frozenset.difference", setDifference},
      {"builtins.frozenset.issubset", setIsSubset},
      {"builtins.frozenset.issuperset", setIsSuperset},
  };
  for (const auto& [path, handler] : rows) registerHandler(path, handler);
}

}  // namespace stator::interpret
