// Dtypes as numbers: categories, sizes, names, and what two of them promote to. Relies on torch/headeronly's numbering
// alone.
#pragma once

#include "shapes/tensor_meta.h"

namespace stator::shapes {

bool isComplex(DType dtype);
bool isFloating(DType dtype);  // not complex
bool isIntegral(DType dtype);  // bool included
inline bool isDifferentiable(DType dtype) { return isFloating(dtype) || isComplex(dtype); }
// The dtypes whose promotion the rules know; the others (quantised, sub-byte, float8, unsigned 16 to 64) take the
// fallback.
bool isOrdinary(DType dtype);
// Numbers with a scale that the facts do not have.
inline bool isQuantized(DType dtype) { return dtype >= DType::QInt8 && dtype <= DType::QInt32; }
int64_t itemSize(DType dtype);
const char* shortName(DType dtype);  // f32
const char* torchName(DType dtype);  // float32: the attribute of torch; null if it has none

DType toComplex(DType dtype);            // of a floating dtype
DType toReal(DType dtype);               // of a complex dtype
DType promote(DType left, DType right);  // ordinary dtypes only; Undefined is neutral

}  // namespace stator::shapes
