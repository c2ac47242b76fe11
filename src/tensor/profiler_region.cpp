#include "tensor/profiler_region.h"

#include <ATen/record_function.h>

namespace stator::tensor {

struct ProfilerRegion::Record {
  at::RecordFunction function{at::RecordScope::USER_SCOPE};
};

bool isProfiled() { return at::hasCallbacks(); }

ProfilerRegion::ProfilerRegion() = default;
ProfilerRegion::~ProfilerRegion() = default;

void ProfilerRegion::begin(const std::string& name) {
  record_ = std::make_unique<Record>();
  if (record_->function.isActive()) record_->function.before(name);
}

}  // namespace stator::tensor
