// While thousands of objects are made that all live, searching them for cycles finds nothing.
#pragma once

#include "base/python.h"

#include <utility>

namespace stator {

class CollectorPause {
 public:
  CollectorPause() : was_on_(PyGC_Disable() != 0) {}
  ~CollectorPause() { end(); }
  CollectorPause(const CollectorPause&) = delete;
  CollectorPause& operator=(const CollectorPause&) = delete;
  void end() {
    if (std::exchange(was_on_, false)) PyGC_Enable();
  }

 private:
  bool was_on_;
};

}  // namespace stator
