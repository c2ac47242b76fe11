// Python's `random` in captured code: numbers are drawn when the captured part runs.
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

bool isRandomGenerator(PyObject* object);  // a random.Random, not of a subclass
Ref<> randomState(PyObject* generator);    // what _random.Random.setstate takes

}  // namespace stator::interpret
