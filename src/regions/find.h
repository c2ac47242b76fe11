// Which stretches of a graph's calls are regions.
#pragma once

#include "regions/piece.h"

#include <vector>

namespace stator::regions {

// What the user, or the backend's nature, asks for.
struct Wish {
  // Modules of these classes, each call a region; empty: whatever repeats
  std::vector<Ref<>> classes;
  size_t least_repeats = 2, least_calls = 1;
  bool may_fail = false;     // the graph is compiled whole if the backend fails with a region
  bool marked_only = false;  // only what is in functions that the user has marked
  // The backend draws the seeds of all random numbers of a graph at once: cut, it draws others, but on a CPU, one after
  // the other
  bool draws_seeds = false;
};

struct Cut {
  std::vector<Piece> pieces;    // in program order, all calls
  std::vector<size_t> regions;  // of each piece: which
  size_t distinct = 0;
  size_t usesOf(size_t region) const;
  // One line for each region: how often it is used, of how many calls it is and where it is first.
  std::string text() const;
};

// No pieces: nothing repeats, or the graph may not be cut there.
Cut findRegions(graph::Graph& graph, bool grad_enabled, const Wish& wish);
// The pieces between these positions among the calls, in order. No pieces: the graph may not be cut there.
Cut cutAt(graph::Graph& graph, bool grad_enabled, const std::vector<size_t>& bounds);

}  // namespace stator::regions
