// decimal.Decimal: numbers without state, but what is computed of them depends on the thread's context, and leaves
// flags there.
#pragma once

#include "interpret/core/tracer.h"

#include <initializer_list>

namespace stator::interpret {

bool isDecimal(PyObject* object);

// Around native code that computes with decimals: `finish` breaks where it has set flags of the context, and guards the
// context otherwise.
class DecimalFold {
 public:
  DecimalFold(Tracer& tracer, std::initializer_list<PyObject*> operands);
  DecimalFold(Tracer& tracer, PyObject* callable, const Args& args);
  Flow finish();

 private:
  void start();
  Tracer& tracer_;
  Ref<> context_, before_;
};

}  // namespace stator::interpret
