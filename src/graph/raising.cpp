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

// Slices and whole numbers are known to fit when the call is captured, elements of tensors and lists are not.
bool readsIndices(PyObject* index) {
  if (index == nullptr || isStandIn(index)) return true;
  if (PyTuple_Check(index)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(index); ++i) {
      if (readsIndices(PyTuple_GET_ITEM(index, i))) return true;
    }
    return false;
  }
  return !PySlice_Check(index) && !PyLong_Check(index) && index != Py_None && index != Py_Ellipsis;
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

bool mayRaiseOnData(Op op, PyObject* target, const shapes::TensorMeta* result, PyObject* second) {
  if (op == Op::kInput || op == Op::kAttribute) return false;
  static constexpr std::string_view kParts[] = {
      "embedding", "index", "gather", "scatter", "take", "one_hot", "nll_loss", "cross_entropy",
      "bincount", "linalg", "cholesky", "inverse", "solve", "lu_", "svd", "eig", "multi", "normal",
      "bernoulli", "repeat_interleave", "histc", "logdet", "pinverse", "ctc_loss", "poisson",
      "assert", "hardtanh",
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
  if (text == "det") return true;
  if (text.find("getitem") != text.npos || text.find("setitem") != text.npos)
    return readsIndices(second);
  if (dividesByUnknown(text, result, second) || subtractsBool(text, second)) return true;
  return std::any_of(std::begin(kParts), std::end(kParts), [&](std::string_view part) {
    return text.find(part) != std::string_view::npos;
  });
}

}  // namespace stator::graph
