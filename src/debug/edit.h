// Edits of a specimen. Each gives a new specimen and leaves the old one as it was.
#pragma once

#include "debug/specimen.h"

#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

namespace stator::debug {

// Whether an argument is a function that the graph calls: the body of a higher-order operator.
bool isFunction(PyObject* argument);

struct Edited {
  Specimen specimen;
  // Calls of the old specimen that are inputs of the new one; their values have to come from a run of the old one.
  std::vector<int> cut;
};

// Keeps the calls for which `keep` is true (by node index; inputs are kept if something reads them). What kept calls
// read of the others becomes an input. Outputs are the old ones that are still made, and every tensor that nothing
// reads. A call with several results and the calls that pick them stay together. Nothing if no tensor would come out.
std::optional<Edited> keepCalls(const Specimen& from, std::vector<bool> keep);

// Only these outputs, and what they need; calls that write in place or draw random numbers stay.
std::optional<Edited> keepOutputs(const Specimen& from, const std::vector<int>& outputs);

// Reads of the first value become reads of the second, which has to be made earlier; what is not needed any more goes.
std::optional<Edited> substitute(const Specimen& from, int gone, int instead);

// The calls of `body`, a function among the arguments of the call at `index`, in the place of that call; the operands
// are what follows the last function there. Nothing if they do not fit, or if the call's value is used otherwise than
// by picking results.
std::optional<Edited> inlined(const Specimen& from, int index, const Specimen& body);

// The scalars among the arguments, in order, with the node that they belong to. Structure (dims, indices) is among
// them.
std::vector<std::pair<int, Ref<>>> constants(const Specimen& from);
// The specimen with the n-th of them replaced.
Specimen withConstant(const Specimen& from, size_t position, PyObject* value);
// Every int constant `was` replaced: sizes that a shape shares with its inputs.
Specimen withInts(const Specimen& from, int64_t was, int64_t is);
Specimen withoutKeyword(const Specimen& from, int index, PyObject* keyword);

// The same graph in which each of `values` is followed by a call of `snapshot` on it, and the snapshots are the
// outputs: what the values were when they were made, whatever is written into them later. What comes after the last one
// is left out.
Specimen withSnapshots(const Specimen& from, const std::vector<int>& values, PyObject* snapshot);

}  // namespace stator::debug
