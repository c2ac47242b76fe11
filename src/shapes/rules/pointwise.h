// Elementwise ops: what several rule files need of them.
#pragma once

#include "shapes/call.h"

namespace stator::shapes {

// Broadcast shape and the strides of the result over the given operands; numbers take part in neither.
bool elementwise(std::initializer_list<const Arg*> operands, Dims& sizes, Dims& strides);

constexpr uint32_t kFloatOut = kFirstFreeBit << 0;  // integers become the default dtype
constexpr uint32_t kBoolOut = kFirstFreeBit << 1;
constexpr uint32_t kRealOut = kFirstFreeBit << 2;    // of complex: the real dtype
constexpr uint32_t kNoBool = kFirstFreeBit << 3;     // operands of these kinds raise
constexpr uint32_t kNoInteger = kFirstFreeBit << 4;  // bool included
constexpr uint32_t kNoComplex = kFirstFreeBit << 5;
constexpr uint32_t kOnlyIntegral = kFirstFreeBit << 6;  // bool included
constexpr uint32_t kNumbers = kFirstFreeBit << 7;       // the second operand may be a Python number
// so may the first, if the second is a tensor
constexpr uint32_t kNumberFirst = kFirstFreeBit << 8;
// Elsewhere torch composes the op of others, which order the dims in their own way: contiguous operands of one shape
// only.
constexpr uint32_t kPlainLayouts = kFirstFreeBit << 9;
constexpr uint32_t kFree = kFirstFreeBit << 10;
// An operand that is promoted may be copied before the dims are put in order. True if the outcome is the same: the copy
// keeps its strides, and no dim of size one, whose stride means nothing, has a say.
bool promotionKeepsOrder(std::initializer_list<const Arg*> operands);
bool havePlainLayouts(const Arg& left, const Arg& right);
bool unary(Call& call);
bool binary(Call& call);

// False: the op raises for operands that promote to `common`.
bool acceptsDtype(uint32_t detail, DType common);
DType resultDtype(uint32_t detail, DType common, const State& state);

}  // namespace stator::shapes
