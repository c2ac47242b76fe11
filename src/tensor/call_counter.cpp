#include "tensor/call_counter.h"

#include <ATen/record_function.h>
#include <memory>

namespace stator::tensor {

namespace {

struct Counter {
  at::CallbackHandle handle = 0;
  const int* paused = nullptr;
  int64_t calls = 0;
  int depth = 0;
};
thread_local Counter counter;

std::unique_ptr<at::ObserverContext> entered(const at::RecordFunction&) {
  if (counter.depth++ == 0 && counter.paused != nullptr && *counter.paused == 0) counter.calls++;
  return nullptr;
}

void left(const at::RecordFunction&, at::ObserverContext*) {
  if (counter.depth > 0) counter.depth--;
}

}  // namespace

void startCallCounter(const int* paused) {
  stopCallCounter();
  counter.paused = paused;
  counter.calls = counter.depth = 0;
  counter.handle = at::addThreadLocalCallback(
      at::RecordFunctionCallback(entered, left).scopes({at::RecordScope::FUNCTION}));
}

void stopCallCounter() {
  if (counter.handle != 0) at::removeCallback(counter.handle);
  counter.handle = 0;
}

int64_t takeCallCount() {
  int64_t calls = counter.calls;
  counter.calls = 0;
  return calls;
}

}  // namespace stator::tensor
