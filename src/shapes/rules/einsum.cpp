// torch.einsum of two tensors. Sizes are easy; strides are those of the steps that torch takes: operands with the
// output's dims first, a batched product (or a pointwise one where nothing is summed), and its dims in the output's
// order.
#include "shapes/call.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>
#include <utility>

namespace stator::shapes {

namespace {

constexpr int kLetters = 52;
constexpr int kMostDims = 64;  // as torch: letters, and dims that "..." stands for

// One side of the equation for one tensor: a number for each dim.
using Labels = std::vector<int>;

int numberOf(char letter) { return letter >= 'a' ? letter - 'a' + kLetters / 2 : letter - 'A'; }

// False: a letter stands there that is none, or "..." twice. `ellipsis`: where "..." stands, or -1.
bool readLabels(std::string_view text, Labels& labels, int& ellipsis) {
  ellipsis = -1;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ' ') continue;
    if (text[i] == '.') {
      if (ellipsis >= 0 || text.substr(i, 3) != "...") return false;
      ellipsis = static_cast<int>(labels.size());
      i += 2;
      continue;
    }
    if (std::isalpha(static_cast<unsigned char>(text[i])) == 0) return false;
    labels.push_back(numberOf(text[i]));
  }
  return true;
}

// Numbers from kLetters on in the place of "...", the last of them for the last dim.
void addEllipsis(Labels& labels, int at, int count, int most) {
  for (int i = 0; i < count; ++i)
    labels.insert(labels.begin() + at + i, kLetters + most - count + i);
}

struct Equation {
  Labels operands[2];
  Labels output;
};

bool parse(std::string_view text, const Arg* const tensors[2], Equation& equation) {
  const size_t arrow = text.find("->"), comma = text.find(',');
  if (arrow == std::string_view::npos || comma == std::string_view::npos || comma > arrow)
    return false;
  int at[3], hidden[2], most = 0;
  if (!readLabels(text.substr(0, comma), equation.operands[0], at[0]) ||
      !readLabels(text.substr(comma + 1, arrow - comma - 1), equation.operands[1], at[1]) ||
      !readLabels(text.substr(arrow + 2), equation.output, at[2]))
    return false;
  for (int i = 0; i < 2; ++i) {
    hidden[i] = static_cast<int>(tensors[i]->tensor->sizes.size()) -
                static_cast<int>(equation.operands[i].size());
    if (hidden[i] < 0 || (hidden[i] > 0 && at[i] < 0)) return false;
    most = std::max(most, hidden[i]);
  }
  if ((most > 0 && at[2] < 0) || kLetters + most > kMostDims) return false;
  for (int i = 0; i < 2; ++i) addEllipsis(equation.operands[i], at[i], hidden[i], most);
  if (at[2] >= 0) addEllipsis(equation.output, at[2], most, most);
  return true;
}

// Of which dim of the permuted tensors a label is: those of the output first, then those that are summed, by their
// number.
bool order(const Equation& equation, std::array<int, kMostDims>& dim_of, size_t& dims) {
  dim_of.fill(-1);
  dims = 0;
  for (int label : equation.output) {
    if (dim_of[static_cast<size_t>(label)] >= 0) return false;
    dim_of[static_cast<size_t>(label)] = static_cast<int>(dims++);
  }
  std::array<bool, kMostDims> used{};
  for (const Labels& labels : equation.operands) {
    for (int label : labels) used[static_cast<size_t>(label)] = true;
  }
  for (int label : equation.output) {
    if (!used[static_cast<size_t>(label)]) return false;
  }
  for (size_t label = 0; label < kMostDims; ++label) {
    if (used[label] && dim_of[label] < 0) dim_of[label] = static_cast<int>(dims++);
  }
  return true;
}

// The tensor with its dims in that order, of size one where it has none. Strides of those are nobody's, since they are
// broadcast.
bool permuted(const TensorMeta& meta, const Labels& labels,
              const std::array<int, kMostDims>& dim_of, size_t dims, Dims& sizes, Dims& strides) {
  sizes.assign(dims, Dim(1));
  strides.assign(dims, Dim(0));
  std::vector<bool> filled(dims);
  for (size_t i = 0; i < labels.size(); ++i) {
    const auto dim = static_cast<size_t>(dim_of[static_cast<size_t>(labels[i])]);
    if (filled[dim]) return false;  // a diagonal
    filled[dim] = true;
    sizes[dim] = meta.sizes[i];
    strides[dim] = meta.strides[i];
  }
  return true;
}

// What a batched product gives: dims of both, of the left one, summed ones, of the right one, each of the groups in its
// order.
bool product(const Dims& left, const Dims& right, size_t output, Dims& sizes, Dims& strides) {
  std::vector<size_t> groups[4];
  Dim flat[3] = {Dim(1), Dim(1), Dim(1)};
  for (size_t i = 0; i < left.size(); ++i) {
    const bool in_left = !isOne(left[i]), in_right = !isOne(right[i]);
    if (in_left && in_right && !same(left[i], right[i])) return false;
    if (i >= output) {
      if (!in_left || !in_right) return false;  // summed in one of them before
      groups[2].push_back(i);
    } else if (in_left && in_right) {
      groups[0].push_back(i);
      flat[0] = flat[0] * left[i];
    } else if (in_left) {
      groups[1].push_back(i);
      flat[1] = flat[1] * left[i];
    } else {
      groups[3].push_back(i);
      flat[2] = flat[2] * right[i];
    }
  }
  // Where all dims of the right one come before those of the left one, torch takes them the other way round.
  const bool swapped =
      !groups[1].empty() && !groups[3].empty() && groups[3].back() < groups[1].front();
  if (swapped) {
    std::swap(groups[1], groups[3]);
    std::swap(flat[1], flat[2]);
  }
  const Dims& first = swapped ? right : left;
  const Dims& second = swapped ? left : right;
  std::vector<size_t> dims;
  Dims shape;
  for (size_t group = 0; group < 4; ++group) {
    for (size_t i : groups[group]) {
      dims.push_back(i);
      shape.push_back(group == 2 ? Dim(1) : group == 3 ? second[i] : first[i]);
    }
  }
  Dims result(flat, flat + 3), of_shape;
  if (!viewStrides(result, contiguousStrides(result), shape, of_shape)) return false;
  sizes.assign(output, Dim(1));
  strides.assign(output, Dim(1));
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] >= output) continue;
    sizes[dims[i]] = shape[i];
    strides[dims[i]] = of_shape[i];
  }
  return true;
}

// einsum(equation, *operands)
bool einsum(Call& call) {
  const Arg& operands = call[1];
  if (!call[0].is(Arg::Kind::kStr) || !operands.isSequence() || operands.count != 2) return false;
  const Arg* tensors[2] = {&operands.items[0], &operands.items[1]};
  for (const Arg* arg : tensors) {
    if (!arg->isTensor() || !isFloating(arg->tensor->dtype) ||
        arg->tensor->dtype != tensors[0]->tensor->dtype)
      return false;
    for (Dim size : arg->tensor->sizes) {
      if (isZero(size)) return false;
    }
  }
  Equation equation;
  std::array<int, kMostDims> dim_of;
  size_t dims = 0;
  if (!parse(call[0].text(), tensors, equation) || !order(equation, dim_of, dims)) return false;
  Dims sizes[2], strides[2];
  for (size_t i = 0; i < 2; ++i) {
    if (!permuted(*tensors[i]->tensor, equation.operands[i], dim_of, dims, sizes[i], strides[i]))
      return false;
  }
  const size_t output = equation.output.size();
  Dims result, result_strides;
  if (dims > output) {
    if (!product(sizes[0], sizes[1], output, result, result_strides)) return false;
  } else {
    result = sizes[0];
    if (!broadcastInto(result, sizes[1])) return false;
    // What dims of size one have for strides would count.
    for (Dim size : result) {
      if (isOne(size)) return false;
    }
    const Layout layouts[2] = {{&sizes[0], &strides[0]}, {&sizes[1], &strides[1]}};
    result_strides = elementwiseStrides(result, layouts);
  }
  call.fresh(tensors[0]->tensor->dtype, std::move(result), std::move(result_strides));
  return true;
}

constexpr OpRow kRows[] = {{"torch.einsum", "equation, *operands", einsum}};

}  // namespace

std::span<const OpRow> einsumRows() { return kRows; }

}  // namespace stator::shapes
