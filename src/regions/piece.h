// A stretch of a graph's calls as a graph of its own.
#pragma once

#include "regions/cuts.h"

#include <memory>
#include <string>
#include <vector>

namespace stator::regions {

struct Piece {
  size_t begin = 0, end = 0;  // positions among the calls
  // numbers that are computed again, then the calls of the stretch
  std::vector<const graph::Node*> calls;
  // what they need of others, in the order of the first use: inputs of the graph and values of earlier pieces
  std::vector<const graph::Node*> inputs;
  std::vector<const graph::Node*> outputs;  // what others need of them
};

Piece pieceOf(const graph::Graph& graph, const Calls& calls, size_t begin, size_t end);

// Equal exactly for pieces that do the same to other inputs: the same calls with the same constants, facts, flags and
// aliases.
std::string signatureOf(const Piece& piece);
// What of a call repeats in other pieces of the same kind: the same without saying which values it uses.
std::string outlineOf(const graph::Node& node);
// Every symbol in the sizes can be read off the inputs.
bool bindsSymbols(const Piece& piece);

// With the examples of the graph's inputs; other inputs have facts alone.
std::shared_ptr<graph::Graph> graphOf(const std::shared_ptr<graph::Graph>& whole,
                                      const Piece& piece);

}  // namespace stator::regions
