// How a step of the trace ends. `Out` is a value or the reason why there is none; the reason's details lie in the
// Tracer's parts.
#pragma once

#include "base/ref.h"

#include <cstdint>
#include <utility>
#include <vector>

namespace stator::interpret {

enum class Flow : uint8_t {
  kOk,
  kRaise,    // the program raises: ErrorState::raised() is the exception
  kBreak,    // capture ends before this instruction: Ending::broke() says why
  kEntered,  // a callee's frame was pushed; its continuation takes up the value when it returns
};

class [[nodiscard]] Out {
 public:
  Out(Ref<> value) : value_(std::move(value)) {}
  Out(Flow flow) : flow_(flow) {}
  Flow flow() const { return flow_; }
  bool ok() const { return flow_ == Flow::kOk; }
  PyObject* get() const { return value_.get(); }
  Ref<> take() { return std::move(value_); }

 private:
  Flow flow_ = Flow::kOk;
  Ref<> value_;
};

// Call arguments in vectorcall's layout. Borrowed: the caller keeps the values alive.
struct Args {
  std::vector<PyObject*> values;
  size_t positional = 0;
  PyObject* names = nullptr;  // tuple of str for the values behind the positional ones, or null

  size_t keywordCount() const { return values.size() - positional; }
  PyObject* name(size_t i) const { return PyTuple_GET_ITEM(names, static_cast<Py_ssize_t>(i)); }
  PyObject* keyword(const char* wanted) const {
    for (size_t i = 0; i < keywordCount(); ++i) {
      if (PyUnicode_CompareWithASCIIString(name(i), wanted) == 0) return values[positional + i];
    }
    return nullptr;
  }
  Args withFirst(PyObject* first) const {
    Args out;
    out.values.reserve(values.size() + 1);
    out.values.push_back(first);
    out.values.insert(out.values.end(), values.begin(), values.end());
    out.positional = positional + 1;
    out.names = names;
    return out;
  }
  Args withoutFirst() const {
    Args out;
    out.values.assign(values.begin() + 1, values.end());
    out.positional = positional - 1;
    out.names = names;
    return out;
  }
};

}  // namespace stator::interpret

// Evaluates an Out; hands anything but a value to the caller's caller, otherwise binds the value (a Ref<>) to `name`.
#define STATOR_VALUE(name, expression)                \
  ::stator::interpret::Out name##_out = (expression); \
  if (!name##_out.ok()) return name##_out.flow();     \
  ::stator::Ref<> name = name##_out.take()

#define STATOR_FLOW(expression)                                                                \
  if (::stator::interpret::Flow flow_ = (expression); flow_ != ::stator::interpret::Flow::kOk) \
  return flow_
