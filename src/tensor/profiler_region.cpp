#include "tensor/profiler_region.h"

#include "base/hot.h"

#include <ATen/record_function.h>
#include <c10/util/ThreadLocalDebugInfo.h>

namespace stator::tensor {

struct ProfilerRegion::Record {
  at::RecordFunction function{at::RecordScope::USER_SCOPE};
};

// What profilers leave with the thread; at::hasCallbacks() would tell more and takes as long as a few guards.
STATOR_HOT bool isProfiled() {
  return c10::ThreadLocalDebugInfo::get(c10::DebugInfoKind::PROFILER_STATE) != nullptr;
}

ProfilerRegion::ProfilerRegion() = default;
ProfilerRegion::~ProfilerRegion() = default;

void ProfilerRegion::begin(const std::string& name) {
  record_ = std::make_unique<Record>();
  if (record_->function.isActive()) record_->function.before(name);
}

}  // namespace stator::tensor
