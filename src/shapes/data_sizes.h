// Whether the capture under way takes sizes and numbers that depend on data for symbols, whatever the settings say:
// where a break is an error (fullgraph=True) there is no other way to go on.
#pragma once

namespace stator::shapes {

// Of this thread, while the scope lives.
class DataSizesAllowed {
 public:
  explicit DataSizesAllowed(bool allowed) : outer_(now_) { now_ = allowed; }
  ~DataSizesAllowed() { now_ = outer_; }
  DataSizesAllowed(const DataSizesAllowed&) = delete;
  DataSizesAllowed& operator=(const DataSizesAllowed&) = delete;

  static bool now() { return now_; }

 private:
  bool outer_;
  static inline thread_local bool now_ = false;
};

}  // namespace stator::shapes
