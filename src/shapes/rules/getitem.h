// Indexing with square brackets.
#pragma once

#include "shapes/call.h"

namespace stator::shapes {

bool getItem(Call& call);
bool setItem(Call& call);

}  // namespace stator::shapes
