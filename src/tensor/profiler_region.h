// A region of torch's profilers around what was captured.
#pragma once

#include <memory>
#include <string>

namespace stator::tensor {

// Whether some profiler listens on this thread.
bool isProfiled();

class ProfilerRegion {
 public:
  ProfilerRegion();
  ~ProfilerRegion();
  ProfilerRegion(const ProfilerRegion&) = delete;
  ProfilerRegion& operator=(const ProfilerRegion&) = delete;
  void begin(const std::string& name);  // ends with the object

 private:
  struct Record;
  std::unique_ptr<Record> record_;
};

}  // namespace stator::tensor
