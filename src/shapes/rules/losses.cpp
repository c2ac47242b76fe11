// Losses and distances between tensors. Operands without gaps alone: elsewhere torch composes them of operations that
// order the dims in their own ways.
#include "shapes/call.h"

#include <algorithm>

namespace stator::shapes {

namespace {

bool isPlainFloat(const Arg& arg) {
  return arg.isTensor() && isFloating(arg.tensor->dtype) && isOrdinary(arg.tensor->dtype) &&
         hasPlainStrides(*arg.tensor) && !isZero(arg.tensor->numel());
}

bool isReal(const Arg& arg) {
  return !arg.given() || arg.is(Arg::Kind::kFloat) || arg.is(Arg::Kind::kInt);
}

bool alike(const Arg& left, const Arg& right) {
  return left.tensor->dtype == right.tensor->dtype && left.tensor->sizes == right.tensor->sizes;
}

// Absent, or something that is multiplied with the operands and does not make them larger.
bool scales(const Arg& weight, const TensorMeta& input) {
  if (!weight.given()) return true;
  if (!isPlainFloat(weight) || weight.tensor->dtype != input.dtype) return false;
  Dims sizes = input.sizes;
  return broadcastInto(sizes, weight.tensor->sizes) && sizes == input.sizes;
}

// "none" keeps the sizes, "sum" and the means do not. False: nothing that this row takes.
bool readReduction(const Arg& arg, std::initializer_list<std::string_view> to_number, bool& keeps) {
  keeps = false;
  if (!arg.given()) return std::find(to_number.begin(), to_number.end(), "mean") != to_number.end();
  if (!arg.is(Arg::Kind::kStr)) return false;
  keeps = arg.text() == "none";
  return keeps || std::find(to_number.begin(), to_number.end(), arg.text()) != to_number.end();
}

bool finish(Call& call, const Arg& input, bool keeps) {
  call.fresh(input.tensor->dtype, keeps ? input.tensor->sizes : Dims());
  return true;
}

// binary_cross_entropy(input, target, weight, size_average, reduce, reduction), the same of logits with pos_weight
bool binaryCrossEntropy(Call& call) {
  bool keeps = false;
  if (!isPlainFloat(call[0]) || !isPlainFloat(call[1]) || !alike(call[0], call[1])) return false;
  if (call[3].given() || call[4].given() || !readReduction(call[5], {"mean", "sum"}, keeps))
    return false;
  const TensorMeta& input = *call[0].tensor;
  if (!scales(call[2], input) || (call.paramCount() > 6 && !scales(call[6], input))) return false;
  return finish(call, call[0], keeps);
}

// kl_div(input, target, size_average, reduce, reduction, log_target); "mean" warns
bool divergence(Call& call) {
  bool keeps = false, unused = false;
  if (!isPlainFloat(call[0]) || !isPlainFloat(call[1]) || !alike(call[0], call[1])) return false;
  if (call[2].given() || call[3].given() || !call.flagOr(5, false, unused)) return false;
  return readReduction(call[4], {"batchmean", "sum"}, keeps) && finish(call, call[0], keeps);
}

// huber_loss(input, target, reduction, delta, weight)
bool huber(Call& call) {
  bool keeps = false;
  if (!isPlainFloat(call[0]) || !isPlainFloat(call[1]) || !alike(call[0], call[1])) return false;
  const bool positive = !call[3].given() || (call[3].is(Arg::Kind::kFloat) && call[3].f > 0) ||
                        (call[3].is(Arg::Kind::kInt) && call[3].i > 0);
  if (!positive || call[4].given()) return false;
  return readReduction(call[2], {"mean", "sum"}, keeps) && finish(call, call[0], keeps);
}

// cosine_similarity(x1, x2, dim, eps)
bool cosine(Call& call) {
  int64_t dim = 1;
  if (!isPlainFloat(call[0]) || !isPlainFloat(call[1]) || !alike(call[0], call[1])) return false;
  Dims sizes = call[0].tensor->sizes;
  if (sizes.empty() || !call.integerOr(2, 1, dim) || !wrapDim(dim, sizes.size())) return false;
  if (!isReal(call[3])) return false;
  sizes.erase(sizes.begin() + dim);
  call.fresh(call[0].tensor->dtype, std::move(sizes));
  return true;
}

// pairwise_distance(x1, x2, p, eps, keepdim)
bool pairDistance(Call& call) {
  bool keeps = false;
  if (!isPlainFloat(call[0]) || !isPlainFloat(call[1]) || !alike(call[0], call[1])) return false;
  if (!isReal(call[2]) || !isReal(call[3]) || !call.flagOr(4, false, keeps)) return false;
  Dims sizes = call[0].tensor->sizes;
  if (sizes.empty()) return false;
  if (keeps)
    sizes.back() = 1;
  else
    sizes.pop_back();
  call.fresh(call[0].tensor->dtype, std::move(sizes));
  return true;
}

// cdist(x1, x2, p, compute_mode): of each row of the one to each of the other
bool allDistances(Call& call) {
  if (!isPlainFloat(call[0]) || !isPlainFloat(call[1]) || !isReal(call[2])) return false;
  if (call[2].is(Arg::Kind::kInt) ? call[2].i < 0 : call[2].given() && !(call[2].f >= 0))
    return false;
  const TensorMeta &left = *call[0].tensor, &right = *call[1].tensor;
  if (left.sizes.size() < 2 || right.sizes.size() < 2 || left.dtype != right.dtype) return false;
  if (!same(left.sizes.back(), right.sizes.back())) return false;
  constexpr std::string_view kWays[] = {"use_mm_for_euclid_dist_if_necessary",
                                        "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist"};
  if (call[3].given() &&
      (!call[3].is(Arg::Kind::kStr) ||
       std::find(std::begin(kWays), std::end(kWays), call[3].text()) == std::end(kWays)))
    return false;
  Dims sizes(left.sizes.begin(), left.sizes.end() - 2);
  if (!broadcastInto(sizes, Dims(right.sizes.begin(), right.sizes.end() - 2))) return false;
  sizes.push_back(left.sizes[left.sizes.size() - 2]);
  sizes.push_back(right.sizes[right.sizes.size() - 2]);
  call.fresh(left.dtype, std::move(sizes));
  return true;
}

constexpr OpRow kRows[] = {
    {"F.binary_cross_entropy", "input, target, weight, size_average, reduce, reduction",
     binaryCrossEntropy},
    {"F.binary_cross_entropy_with_logits",
     "input, target, weight, size_average, reduce, reduction, pos_weight", binaryCrossEntropy},
    {"F.kl_div", "input, target, size_average, reduce, reduction, log_target", divergence},
    {"F.huber_loss", "input, target, reduction, delta, weight", huber},
    {"F|torch.cosine_similarity", "x1, x2, dim, eps", cosine},
    {"F|torch.pairwise_distance", "x1, x2, p, eps, keepdim", pairDistance},
    {"torch.cdist", "x1, x2, p, compute_mode", allDistances},
};

}  // namespace

std::span<const OpRow> lossRows() { return kRows; }

}  // namespace stator::shapes
