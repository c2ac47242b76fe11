#include "base/blocks.h"

#ifdef STATOR_COUNT_BLOCKS

#include <cstdint>
#include <dlfcn.h>
#include <vector>

namespace {

// GCC calls the function below at the beginning of each block. An address says which one it is.
constexpr uintptr_t kGrain = 4;
constexpr size_t kMost = size_t{1} << 23;
unsigned char reached[kMost];
uint32_t fresh[kMost];
size_t fresh_count = 0;

__attribute__((no_sanitize_coverage)) uintptr_t findStart() {
  Dl_info info{};
  return dladdr(reinterpret_cast<void*>(&findStart), &info) != 0
             ? reinterpret_cast<uintptr_t>(info.dli_fbase)
             : 0;
}

const uintptr_t start = findStart();

}  // namespace

extern "C" __attribute__((no_sanitize_coverage, visibility("default"))) void
__sanitizer_cov_trace_pc() {
  const size_t index =
      (reinterpret_cast<uintptr_t>(__builtin_return_address(0)) - start) / kGrain % kMost;
  if (reached[index] != 0) return;
  reached[index] = 1;
  if (fresh_count < kMost) fresh[fresh_count++] = static_cast<uint32_t>(index);
}

namespace {

__attribute__((no_sanitize_coverage)) PyObject* coverage(PyObject*, PyObject*) {
  PyObject* list = PyList_New(static_cast<Py_ssize_t>(fresh_count));
  for (size_t i = 0; list != nullptr && i < fresh_count; ++i)
    PyList_SET_ITEM(list, static_cast<Py_ssize_t>(i), PyLong_FromUnsignedLong(fresh[i]));
  if (list != nullptr) fresh_count = 0;
  return list;
}

}  // namespace

namespace stator {
PyMethodDef block_methods[] = {
    {"coverage", coverage, METH_NOARGS,
     "coverage(): numbers of the blocks reached for the first time since it was called last"},
    {}};
}  // namespace stator

#else

namespace stator {
PyMethodDef block_methods[] = {{}};
}  // namespace stator

#endif
