// Views: what several rule files need of them.
#pragma once

#include "shapes/call.h"

namespace stator::shapes {

// Puts the number in for a -1; false if the shape does not hold `count` elements.
bool inferShape(Dims& shape, Dim count);
bool addView(Call& call, const Arg& base, Dims shape);     // false: needs a copy
bool addReshape(Call& call, const Arg& base, Dims shape);  // view, or contiguous copy; infers -1
void addNarrow(Call& call, const Arg& base, size_t dim, Dim start, Dim length);
// A slice object over a dim of this size, clamped as Python does; false unless its parts are ints or None and the step
// is positive.
bool sliceDim(const Arg& slice, Dim size, Dim& start, Dim& length, Dim& step);

}  // namespace stator::shapes
