// Which cache serves this thread, and whether the evaluator hook is on. The hook is per interpreter and costs every
// Python call something, so it is installed when the first scope of any thread opens and removed when the last one
// closes; frames of threads without an active cache go to the evaluator that was there before: CPython's own, or
// TorchDynamo's. Relies on the GIL: the counts are shared by all threads and change only with it held.
#pragma once

namespace stator::runtime {

class Cache;

// The cache that serves this thread's frames; null: they run natively.
Cache* activeCache();

// Whether a scope could put the hook in: it was not taken out for a time.
bool hookIsFree();
// To be asked where a frame of ours goes on: another evaluator, put on top by what the frame has called, may have
// stayed there.
void keepHookOnTop();
// No scope is open: another evaluator has put ours back when it went.
bool hookIsLeftOver();

// While it lives, this thread's frames are served by `cache` (null: natively). Another evaluator (TorchDynamo's, a
// debugger's) that is in place gets the frames of other threads meanwhile, and is on top again afterwards. One that is
// put on top inside of the scope has the frames that are started below it.
class ActiveScope {
 public:
  explicit ActiveScope(Cache* cache);
  ~ActiveScope();
  ActiveScope(const ActiveScope&) = delete;
  ActiveScope& operator=(const ActiveScope&) = delete;
  bool active() const { return holds_hook_; }

 private:
  Cache* outer_;
  int entries_only_;
  bool holds_hook_ = false;
  void* replaced_ = nullptr;
};

// While it lives, frames of the compiled call under way are served from entries that there are, and not captured.
class EntriesOnlyScope {
 public:
  EntriesOnlyScope();
  ~EntriesOnlyScope();
  EntriesOnlyScope(const EntriesOnlyScope&) = delete;
  EntriesOnlyScope& operator=(const EntriesOnlyScope&) = delete;
};

// While it lives, frames of this thread run natively whatever cache is active: for the work of capture and of backends,
// which runs Python code of its own.
class HookDisabledScope {
 public:
  HookDisabledScope();
  ~HookDisabledScope();
  HookDisabledScope(const HookDisabledScope&) = delete;
  HookDisabledScope& operator=(const HookDisabledScope&) = delete;
};
bool hookDisabled();

// While it lives, the evaluator is taken out of the interpreter altogether, so that CPython inlines Python-to-Python
// calls again and deep recursion does not use the C stack. Other threads run natively meanwhile.
class HookRemovedScope {
 public:
  HookRemovedScope();
  ~HookRemovedScope();
  HookRemovedScope(const HookRemovedScope&) = delete;
  HookRemovedScope& operator=(const HookRemovedScope&) = delete;
};

}  // namespace stator::runtime
