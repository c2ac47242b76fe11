#include "runtime/active.h"

#include "base/hot.h"
#include "python/evaluator.h"
#include "runtime/hook.h"

#include <utility>

namespace stator::runtime {
namespace {

int scopes_with_hook = 0;  // of all threads
int removals = 0;

}  // namespace

Cache* activeCache() {
  HookState& state = hookState();
  return state.disabled ? nullptr : state.cache;
}

STATOR_HOT bool hookIsFree() { return removals == 0; }

ActiveScope::ActiveScope(Cache* cache)
    : outer_(hookState().cache), entries_only_(std::exchange(hookState().entries_only, 0)) {
  if (cache && removals == 0) {
    replaced_ = stator_evaluator_install(evaluateFrame);
    scopes_with_hook++;
    holds_hook_ = true;
  }
  hookState().cache = holds_hook_ ? cache : nullptr;
}

ActiveScope::~ActiveScope() {
  HookState& state = hookState();
  if (outer_ == nullptr && state.eager_call) {
    state.eager_call = false;
    state.disabled--;
  }
  state.cache = outer_;
  state.entries_only = entries_only_;
  if (!holds_hook_) return;
  if (--scopes_with_hook == 0)
    stator_evaluator_remove();
  else if (replaced_ != nullptr && stator_evaluator_on_top())
    stator_evaluator_restore(replaced_);  // it was put in inside of another scope
}

STATOR_HOT void keepHookOnTop() {
  if (!stator_evaluator_on_top() && removals == 0) [[unlikely]]
    stator_evaluator_install(evaluateFrame);
}

bool hookIsLeftOver() { return scopes_with_hook == 0; }

EntriesOnlyScope::EntriesOnlyScope() { hookState().entries_only++; }
EntriesOnlyScope::~EntriesOnlyScope() { hookState().entries_only--; }

HookDisabledScope::HookDisabledScope() { hookState().disabled++; }
HookDisabledScope::~HookDisabledScope() { hookState().disabled--; }
bool hookDisabled() { return hookState().disabled > 0; }

HookRemovedScope::HookRemovedScope() {
  if (removals++ == 0) stator_evaluator_remove();
}

HookRemovedScope::~HookRemovedScope() {
  if (--removals == 0 && scopes_with_hook > 0) stator_evaluator_install(evaluateFrame);
}

}  // namespace stator::runtime
