#include "tensor/number_arguments.h"

#include <algorithm>
#include <array>
#include <string>
#include <torch/csrc/jit/runtime/operator.h>

namespace stator::tensor {

namespace {

c10::TypePtr numberType(c10::TypePtr type) {
  if (auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
  if (auto list = type->cast<c10::ListType>()) type = list->getElementType();
  return type;
}

const c10::Argument* argumentOf(const c10::FunctionSchema& schema, size_t position,
                                std::string_view keyword) {
  if (keyword.empty()) {
    return position < schema.arguments().size() && !schema.arguments()[position].kwarg_only()
               ? &schema.arguments()[position]
               : nullptr;
  }
  const std::optional<int> index = schema.argumentIndexWithName(keyword);
  return index ? &schema.arguments()[static_cast<size_t>(*index)] : nullptr;
}

// Of plain numbers, as TorchScript has them beside the operators.
bool givesNumbers(const c10::FunctionSchema& schema) {
  return std::any_of(schema.returns().begin(), schema.returns().end(),
                     [](const c10::Argument& result) {
                       return numberType(result.type())->kind() != c10::TypeKind::TensorType;
                     });
}

}  // namespace

bool namesData(std::string_view argument) {
  // A probability of 0 hands an input out again, a scale factor decides sizes: those are not here.
  static constexpr std::array<std::string_view, 28> kNames = {
      "alpha",    "atol",      "beta",    "beta1",           "beta2",          "dampening",
      "delta",    "eps",       "epsilon", "label_smoothing", "lambd",          "lr",
      "lr_decay", "margin",    "max",     "max_norm",        "max_val",        "min",
      "min_val",  "momentum",  "nan",     "neginf",          "negative_slope", "posinf",
      "rtol",     "threshold", "value",   "weight_decay"};
  return std::find(kNames.begin(), kNames.end(), argument) != kNames.end();
}

bool numberIsData(std::string_view name, size_t position, std::string_view keyword) {
  // Bounds of what is counted out, and of random draws, which raise where they do not fit.
  for (std::string_view other : {"arange", "range", "exponential", "exponential_", "rrelu"}) {
    if (name == other) return false;
  }
  const auto symbol = c10::Symbol::fromQualString("aten::" + std::string(name));
  bool any = false;
  for (const auto& op : torch::jit::getAllOperatorsFor(symbol)) {
    const c10::Argument* argument = argumentOf(op->schema(), position, keyword);
    if (argument == nullptr || givesNumbers(op->schema())) continue;
    const c10::TypePtr type = numberType(argument->type());
    if (type->kind() == c10::TypeKind::NumberType) {
      any = true;
    } else if (type->kind() == c10::TypeKind::FloatType) {
      const bool scales_scores =
          argument->name() == "scale" && name.find("dot_product_attention") != std::string::npos;
      if (!scales_scores && !namesData(argument->name())) return false;
      any = true;
    }
  }
  return any;
}

}  // namespace stator::tensor
