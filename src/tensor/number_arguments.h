// Which numbers that an operator takes are data: whatever they are, facts of its results (dtype, sizes, strides,
// aliasing) stay the same.
#pragma once

#include <cstddef>
#include <string_view>

namespace stator::tensor {

// Of one argument of aten::<name>; keyword empty: by position. False where no overload takes a number there, or one
// takes it for something else.
bool numberIsData(std::string_view name, size_t position, std::string_view keyword);
// By the argument's name alone, as functions of torch.nn.functional have them.
bool namesData(std::string_view argument);

}  // namespace stator::tensor
