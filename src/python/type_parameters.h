// How CPython 3.12 and later make `def f[T, **P, *Ts]`: the numbers in pycore_intrinsics.h.
#pragma once

namespace stator {

// Arguments of CALL_INTRINSIC_1, which take a name.
enum { kIntrinsicTypeVar = 7, kIntrinsicParamSpec = 8, kIntrinsicTypeVarTuple = 9 };
// Argument of CALL_INTRINSIC_2, which takes a function and its type parameters.
enum { kIntrinsicSetTypeParams = 4 };

}  // namespace stator
