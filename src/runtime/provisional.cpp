// Stands in for the hook and the cache type until they are here: every call runs natively, and any object serves as a cache.
#include "runtime/active.h"
#include "runtime/compiled_function.h"

namespace stator::runtime {

Cache* activeCache() { return nullptr; }
ActiveScope::ActiveScope(Cache*) : outer_(nullptr) {}
ActiveScope::~ActiveScope() { (void)outer_; }
Cache* cacheOf(BorrowedRef<>) { return nullptr; }

}  // namespace stator::runtime
