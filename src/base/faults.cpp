#include "base/faults.h"

#include "base/python.h"
#include "base/check.h"

#include <cstdlib>
#include <new>

namespace stator {
namespace {

int64_t wantedByEnvironment() {
  const char* text = std::getenv("STATOR_FAIL_AT");
  return text != nullptr ? std::strtoll(text, nullptr, 10) : 0;
}

int64_t fails_at = wantedByEnvironment();
int64_t passed = 0;

}  // namespace

bool counts_faults = fails_at != 0;

void failAt(int64_t n) {
  fails_at = n;
  passed = 0;
  counts_faults = n != 0;
}

int64_t faultPoints() { return passed; }

void passFaultPoint(bool python) {
  if (++passed != fails_at) return;
  if (!python) throw std::bad_alloc();
  PyErr_NoMemory();
  throw PythonError();
}

}  // namespace stator
