// Elementwise ops: what several rule files need of them.
#pragma once

#include "shapes/call.h"

namespace stator::shapes {

// Broadcast shape and the strides of the result over the given operands; numbers take part in neither.
bool elementwise(std::initializer_list<const Arg*> operands, Dims& sizes, Dims& strides);

enum PointwiseBits : uint32_t {
  kFloatOut = kFirstFreeBit << 0,      // integers become the default dtype
  kBoolOut = kFirstFreeBit << 1,
  kRealOut = kFirstFreeBit << 2,       // of complex: the real dtype
  kNoBool = kFirstFreeBit << 3,        // operands of these kinds raise
  kNoInteger = kFirstFreeBit << 4,     // bool included
  kNoComplex = kFirstFreeBit << 5,
  kOnlyIntegral = kFirstFreeBit << 6,  // bool included
  kNumbers = kFirstFreeBit << 7,       // the second operand may be a Python number
  kNumberFirst = kFirstFreeBit << 8,   // so may the first, if the second is a tensor
  kFree = kFirstFreeBit << 9,
};
bool unary(Call& call);
bool binary(Call& call);

// False: the op raises for operands that promote to `common`.
bool acceptsDtype(uint32_t detail, DType common);
DType resultDtype(uint32_t detail, DType common, const State& state);

}  // namespace stator::shapes
