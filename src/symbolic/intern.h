// The process's table of expressions; private to this room.
#pragma once

#include "symbolic/expr.h"

namespace stator::symbolic {

const Expr* intern(Kind kind, int64_t number, std::vector<Part> parts);
// An order by structure alone, so that text and graphs are the same in every process.
bool before(const Expr* left, const Expr* right);

}  // namespace stator::symbolic
