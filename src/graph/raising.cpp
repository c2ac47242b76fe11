#include "graph/raising.h"

#include <algorithm>
#include <string_view>

namespace stator::graph {

bool mayRaiseOnData(Op op, PyObject* target) {
  if (op == Op::kInput || op == Op::kAttribute) return false;
  static constexpr std::string_view kParts[] = {
      "embedding", "index",    "gather",        "scatter",   "take",
      "one_hot",   "nll_loss", "cross_entropy", "bincount",  "linalg",
      "cholesky",  "inverse",  "solve",         "lu_",       "svd",
      "eig",       "multi",    "normal",        "bernoulli", "repeat_interleave",
      "histc",     "getitem",  "setitem",       "logdet",    "det",
      "pinverse",  "ctc_loss", "poisson",       "assert",    "hardtanh"};
  Ref<> name =
      op == Op::kCallMethod ? newRef(target) : stealRef(PyObject_GetAttrString(target, "__name__"));
  if (!name || !PyUnicode_Check(name.get())) {
    PyErr_Clear();
    return true;
  }
  const std::string_view text = PyUnicode_AsUTF8(name.get());
  if (text == "forward") return true;  // of a layer
  return std::any_of(std::begin(kParts), std::end(kParts), [&](std::string_view part) {
    return text.find(part) != std::string_view::npos;
  });
}

}  // namespace stator::graph
