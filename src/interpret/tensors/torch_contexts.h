// Context managers of torch's in graphs.
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

// The contexts that the graph has entered, entered for real as long as the scope lives.
class OpenContextScope {
 public:
  explicit OpenContextScope(const Tracer& tracer);
  ~OpenContextScope();

 private:
  std::vector<std::pair<Ref<>, Ref<>>> entered_;  // what leaves it, and what that is called with
};

}  // namespace stator::interpret
