#include "shapes/dtypes.h"

#include <iterator>
#include <utility>

namespace stator::shapes {

namespace {

enum class Category : uint8_t { kNone, kBool, kInteger, kFloating, kComplex };

struct Row {
  DType dtype;
  const char* short_name;
  const char* torch_name;
  int8_t bytes;
  Category category;
  bool ordinary;
};

constexpr Row kRows[] = {
    {DType::Byte, "u8", "uint8", 1, Category::kInteger, true},
    {DType::Char, "i8", "int8", 1, Category::kInteger, true},
    {DType::Short, "i16", "int16", 2, Category::kInteger, true},
    {DType::Int, "i32", "int32", 4, Category::kInteger, true},
    {DType::Long, "i64", "int64", 8, Category::kInteger, true},
    {DType::Half, "f16", "float16", 2, Category::kFloating, true},
    {DType::Float, "f32", "float32", 4, Category::kFloating, true},
    {DType::Double, "f64", "float64", 8, Category::kFloating, true},
    {DType::ComplexHalf, "c32", "complex32", 4, Category::kComplex, true},
    {DType::ComplexFloat, "c64", "complex64", 8, Category::kComplex, true},
    {DType::ComplexDouble, "c128", "complex128", 16, Category::kComplex, true},
    {DType::Bool, "b8", "bool", 1, Category::kBool, true},
    {DType::BFloat16, "bf16", "bfloat16", 2, Category::kFloating, true},
    {DType::QInt8, "q8", "qint8", 1, Category::kNone, false},
    {DType::QUInt8, "qu8", "quint8", 1, Category::kNone, false},
    {DType::QInt32, "q32", "qint32", 4, Category::kNone, false},
    {DType::Float8_e5m2, "f8e5m2", "float8_e5m2", 1, Category::kFloating, false},
    {DType::Float8_e4m3fn, "f8e4m3fn", "float8_e4m3fn", 1, Category::kFloating, false},
    {DType::Float8_e5m2fnuz, "f8e5m2fnuz", "float8_e5m2fnuz", 1, Category::kFloating, false},
    {DType::Float8_e4m3fnuz, "f8e4m3fnuz", "float8_e4m3fnuz", 1, Category::kFloating, false},
    {DType::Float8_e8m0fnu, "f8e8m0fnu", "float8_e8m0fnu", 1, Category::kFloating, false},
    {DType::Float4_e2m1fn_x2, "f4e2m1fn_x2", "float4_e2m1fn_x2", 1, Category::kFloating, false},
    {DType::UInt16, "u16", "uint16", 2, Category::kInteger, false},
    {DType::UInt32, "u32", "uint32", 4, Category::kInteger, false},
    {DType::UInt64, "u64", "uint64", 8, Category::kInteger, false},
    {DType::Bits8, "bits8", "bits8", 1, Category::kNone, false},
    {DType::Bits16, "bits16", "bits16", 2, Category::kNone, false},
};
constexpr Row kUnknown = {DType::Undefined, "?", nullptr, 0, Category::kNone, false};

const Row& rowOf(DType dtype) {
  // Built once: the numbers are small and dense.
  struct Index {
    const Row* rows[128];
    Index() {
      for (const Row*& row : rows) row = &kUnknown;
      for (const Row& row : kRows) rows[static_cast<uint8_t>(row.dtype)] = &row;
    }
  };
  static const Index index;
  const auto number = static_cast<uint8_t>(dtype);
  return number < std::size(index.rows) ? *index.rows[number] : kUnknown;
}

int signedRank(DType dtype) {
  switch (dtype) {
    case DType::Char:
      return 1;
    case DType::Short:
      return 2;
    case DType::Int:
      return 3;
    default:
      return 4;  // Long
  }
}

DType promoteIntegers(DType left, DType right) {
  if (left == DType::Byte || right == DType::Byte) {
    const DType other = left == DType::Byte ? right : left;
    // No 8-bit type holds both 255 and -1.
    return other == DType::Char ? DType::Short : other;
  }
  return signedRank(left) >= signedRank(right) ? left : right;
}

DType promoteFloats(DType left, DType right) {
  if (left == right) return left;
  const int64_t left_bytes = itemSize(left);
  const int64_t right_bytes = itemSize(right);
  if (left_bytes == right_bytes) return DType::Float;  // float16 and bfloat16
  return left_bytes > right_bytes ? left : right;
}

}  // namespace

bool isComplex(DType dtype) { return rowOf(dtype).category == Category::kComplex; }
bool isFloating(DType dtype) { return rowOf(dtype).category == Category::kFloating; }
bool isIntegral(DType dtype) {
  const Category category = rowOf(dtype).category;
  return category == Category::kInteger || category == Category::kBool;
}
bool isOrdinary(DType dtype) { return rowOf(dtype).ordinary; }
int64_t itemSize(DType dtype) { return rowOf(dtype).bytes; }
const char* shortName(DType dtype) { return rowOf(dtype).short_name; }
const char* torchName(DType dtype) { return rowOf(dtype).torch_name; }

DType toComplex(DType dtype) {
  switch (dtype) {
    case DType::Half:
      return DType::ComplexHalf;
    case DType::BFloat16:  // there is no complex bfloat16
    case DType::Float:
      return DType::ComplexFloat;
    case DType::Double:
      return DType::ComplexDouble;
    default:
      return dtype;
  }
}

DType toReal(DType dtype) {
  switch (dtype) {
    case DType::ComplexHalf:
      return DType::Half;
    case DType::ComplexFloat:
      return DType::Float;
    case DType::ComplexDouble:
      return DType::Double;
    default:
      return dtype;
  }
}

DType promote(DType left, DType right) {
  if (left == right) return left;
  if (left == DType::Undefined) return right;
  if (right == DType::Undefined) return left;
  Category left_category = rowOf(left).category;
  Category right_category = rowOf(right).category;
  if (left_category < right_category) {
    std::swap(left, right);
    std::swap(left_category, right_category);
  }
  if (left_category != right_category) {
    if (left_category != Category::kComplex || right_category != Category::kFloating) return left;
    return toComplex(promoteFloats(toReal(left), right));
  }
  switch (left_category) {
    case Category::kInteger:
      return promoteIntegers(left, right);
    case Category::kFloating:
      return promoteFloats(left, right);
    default:
      return toComplex(promoteFloats(toReal(left), toReal(right)));
  }
}

}  // namespace stator::shapes
