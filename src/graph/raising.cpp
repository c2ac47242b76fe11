#include "graph/raising.h"

#include "base/text.h"
#include "shapes/dtypes.h"

#include <algorithm>
#include <string_view>

namespace stator::graph {

namespace {

// Integers raise where the divisor is 0; it is looked at unless it is a number that is not.
bool dividesByUnknown(std::string_view name, const shapes::TensorMeta* result, PyObject* divisor) {
  static constexpr std::string_view kParts[] = {"div", "mod", "remainder"};
  if (result == nullptr || !shapes::isIntegral(result->dtype)) return false;
  if (std::none_of(std::begin(kParts), std::end(kParts), [&](std::string_view part) {
        return name.find(part) != std::string_view::npos;
      }))
    return false;
  return divisor == nullptr || !PyLong_Check(divisor) || PyObject_IsTrue(divisor) == 0;
}

// Refused, though fakes do not say so.
bool subtractsBool(std::string_view name, PyObject* subtrahend) {
  return subtrahend != nullptr && PyBool_Check(subtrahend) &&
         name.find("sub") != std::string_view::npos;
}

}  // namespace

bool mayRaiseOnData(const Node& node) {
  PyObject* args = node.args.get();
  const bool two = args != nullptr && PyTuple_Check(args) && PyTuple_GET_SIZE(args) > 1;
  return mayRaiseOnData(node.op, node.target.get(), node.meta,
                        two ? PyTuple_GET_ITEM(args, 1) : nullptr);
}

bool mayRaiseOnData(Op op, PyObject* target, const shapes::TensorMeta* result, PyObject* divisor) {
  if (op == Op::kInput || op == Op::kAttribute) return false;
  static constexpr std::string_view kParts[] = {
      "embedding", "index", "gather", "scatter", "take", "one_hot", "nll_loss", "cross_entropy",
      "bincount", "linalg", "cholesky", "inverse", "solve", "lu_", "svd", "eig", "multi", "normal",
      "bernoulli", "repeat_interleave", "histc", "getitem", "setitem", "logdet", "det", "pinverse",
      "ctc_loss", "poisson", "assert", "hardtanh",
      // numbers that neither rules nor fakes look at
      "uniform_", "cauchy_", "exponential_", "geometric_", "random_"};
  Ref<> name =
      op == Op::kCallMethod ? newRef(target) : stealRef(PyObject_GetAttrString(target, "__name__"));
  if (!name || !PyUnicode_Check(name.get())) {
    PyErr_Clear();
    return true;
  }
  const std::string_view text = utf8(name.get());
  if (text == "forward") return true;  // of a layer
  if (dividesByUnknown(text, result, divisor) || subtractsBool(text, divisor)) return true;
  return std::any_of(std::begin(kParts), std::end(kParts), [&](std::string_view part) {
    return text.find(part) != std::string_view::npos;
  });
}

}  // namespace stator::graph
