// The dicts of hooks that nn.Module._call_impl looks at before it calls forward: a module's own, and those for all
// modules.
#pragma once

#include <array>

namespace stator::known {

inline constexpr std::array<const char*, 4> kOwnHooks = {"_backward_hooks", "_backward_pre_hooks",
                                                         "_forward_hooks", "_forward_pre_hooks"};
// Globals of torch.nn.modules.module.
inline constexpr std::array<const char*, 4> kGlobalHooks = {
    "_global_backward_pre_hooks", "_global_backward_hooks", "_global_forward_hooks",
    "_global_forward_pre_hooks"};

}  // namespace stator::known
