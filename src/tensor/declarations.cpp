// The schemas of operators as shapes/ reads them: which kinds of arguments each parameter takes when Python calls it.
#include "shapes/declared.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <torch/csrc/jit/runtime/operator.h>

namespace stator::shapes {

namespace {

using Kind = Arg::Kind;

constexpr uint32_t kInts = bitOf(Kind::kInt) | bitOf(Kind::kSymInt);
constexpr uint32_t kFloats =
    kInts | bitOf(Kind::kBool) | bitOf(Kind::kFloat) | bitOf(Kind::kSymFloat);
constexpr uint32_t kNumbers = kFloats | bitOf(Kind::kComplex);

// As torch's parser of Python arguments has them.
bool takesNumbersAsTensors(std::string_view name) {
  static constexpr std::string_view kNames[] = {"add",      "div",         "divide",       "mul",
                                                "multiply", "sub",         "subtract",     "to",
                                                "copy_",    "true_divide", "floor_divide", "_conj"};
  if (name.ends_with('_') && name != "copy_") name.remove_suffix(1);
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

// Methods that torch binds by hand: their parameters are not those of the schema.
bool isBoundByHand(std::string_view name) {
  static constexpr std::string_view kNames[] = {"to", "size", "stride", "item", "storage_offset"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

uint32_t kindsOf(const c10::Type& type, bool numbers_as_tensors) {
  switch (type.kind()) {
    case c10::TypeKind::TensorType:
      return bitOf(Kind::kTensor) | (numbers_as_tensors ? kNumbers : 0);
    case c10::TypeKind::NumberType:
    case c10::TypeKind::ComplexType:
      return kNumbers;
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType:
      return kInts;
    case c10::TypeKind::FloatType:
    case c10::TypeKind::SymFloatType:
      return kFloats;
    case c10::TypeKind::BoolType:
      return bitOf(Kind::kBool);
    case c10::TypeKind::StringType:
      return bitOf(Kind::kStr);
    case c10::TypeKind::ScalarTypeType:
      return bitOf(Kind::kDtype);
    case c10::TypeKind::LayoutType:
      return bitOf(Kind::kLayout);
    case c10::TypeKind::MemoryFormatType:
      return bitOf(Kind::kMemoryFormat);
    case c10::TypeKind::DeviceObjType:
      return bitOf(Kind::kDevice) | bitOf(Kind::kStr) | bitOf(Kind::kInt);
    default:
      return kAnyKind;
  }
}

bool isTensors(const c10::TypePtr& type) {
  c10::TypePtr inner = type;
  if (auto optional = inner->cast<c10::OptionalType>()) inner = optional->getElementType();
  if (auto list = inner->cast<c10::ListType>()) inner = list->getElementType();
  return inner->kind() == c10::TypeKind::TensorType;
}

// TorchScript has operators of plain numbers and lists under the same names.
bool isOfTensors(const c10::FunctionSchema& schema) {
  const auto about = [](const c10::Argument& one) { return isTensors(one.type()); };
  return std::any_of(schema.arguments().begin(), schema.arguments().end(), about) ||
         std::any_of(schema.returns().begin(), schema.returns().end(), about);
}

void read(const c10::Argument& argument, bool numbers_as_tensors, Parameter& parameter) {
  parameter.name = argument.name();
  parameter.keyword_only = argument.kwarg_only();
  parameter.required = !argument.default_value().has_value();
  parameter.kinds = 0;
  c10::TypePtr type = argument.real_type();
  const bool none = argument.default_value().has_value() && argument.default_value()->isNone();
  if (none || type->kind() == c10::TypeKind::OptionalType) parameter.kinds |= bitOf(Kind::kNone);
  if (auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
  if (auto list = type->cast<c10::ListType>()) {
    parameter.items = kindsOf(*list->getElementType(), false);
    if (list->getElementType()->kind() == c10::TypeKind::OptionalType) parameter.items = kAnyKind;
    parameter.kinds |= bitOf(Kind::kTuple) | bitOf(Kind::kList);
    if (argument.N().has_value()) parameter.kinds |= parameter.items;
  } else {
    parameter.kinds |= kindsOf(*type, numbers_as_tensors);
  }
}

}  // namespace

Declaration schemasOf(std::string_view name, bool method) {
  Declaration declaration;
  if (isBoundByHand(name)) return declaration;
  const bool numbers_as_tensors = takesNumbersAsTensors(name);
  const auto symbol = c10::Symbol::fromQualString("aten::" + std::string(name));
  for (const auto& op : torch::jit::getAllOperatorsFor(symbol)) {
    const c10::FunctionSchema& schema = op->schema();
    if (!isOfTensors(schema) || schema.arguments().size() > 60) continue;
    Overload overload;
    bool writes_out = false;
    bool makes = false;
    size_t positional = 0;
    for (const c10::Argument& argument : schema.arguments()) {
      Parameter& parameter = overload.parameters.emplace_back();
      const bool self = method && overload.parameters.size() == 1;
      read(argument, numbers_as_tensors && !self, parameter);
      writes_out |= argument.is_out();
      makes |= argument.name() == "pin_memory";
      positional += argument.kwarg_only() ? 0 : 1;
    }
    if (writes_out) continue;
    if (makes) overload.parameters.push_back({"requires_grad", bitOf(Kind::kBool), 0, false, true});
    const size_t first = method ? 1 : 0;
    overload.spreads = positional == first + 1 &&
                       (overload.parameters[first].kinds & bitOf(Kind::kList)) != 0 &&
                       overload.parameters[first].items == kInts;
    declaration.push_back(std::move(overload));
  }
  return declaration;
}

}  // namespace stator::shapes
