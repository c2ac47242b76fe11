// sum(): what C adds by itself, and what operators add.
#include "interpret/library/sums.h"

#include "base/check.h"
#include "interpret/calls/calls.h"
#include "interpret/calls/inlining.h"
#include "interpret/core/arguments.h"
#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/core/sym_scalars.h"
#include "interpret/core/symbols.h"
#include "interpret/core/tables.h"
#include "interpret/core/tracer.h"
#include "interpret/library/math_calls.h"
#include "interpret/objects/iteration.h"
#include "interpret/objects/next.h"
#include "interpret/objects/operators.h"
#include "python/objects.h"
#include "python/opcode_numbers.h"
#include "python/sums.h"
#include "symbolic/sym_int.h"

#include <cmath>
#include <vector>

namespace stator::interpret {

namespace {

bool fitsLong(PyObject* number) {
  if (symbolic::isSymInt(number)) return true;
  int overflow = 0;
  (void)PyLong_AsLongAndOverflow(number, &overflow);
  return overflow == 0;
}

bool isInt(PyObject* value) { return PyLong_CheckExact(value) || symbolic::isSymInt(value); }
bool isFloat(PyObject* value) { return PyFloat_CheckExact(value) || isKnownFloat(value); }

// C adds ints while they fit a long, then floats with ints among them; once an operator has added something else, they
// add all of the rest.
class Sum {
 public:
  Sum(Tracer& tracer, PyObject* start) : tracer_(tracer), total_(newRef(start)) {
    if (isInt(start) && fitsLong(start)) phase_ = Phase::kInts;
    if (isFloat(start)) startFloats();
  }

  Flow add(PyObject* item) {
    if (phase_ == Phase::kInts && (isInt(item) || PyBool_Check(item))) {
      STATOR_FLOW(byOperator(item));
      if (!fitsLong(item) || !isInt(total_.get()) || !fitsLong(total_.get()))
        phase_ = Phase::kOperators;
      return Flow::kOk;
    }
    if (phase_ == Phase::kFloats && isFloat(item)) return addFloat(item);
    if (phase_ == Phase::kFloats && (PyLong_Check(item) || symbolic::isSymInt(item)) &&
        fitsLong(item))
      return addInt(item);
    const bool ints = phase_ == Phase::kInts;
    finishFloats();
    phase_ = Phase::kOperators;
    STATOR_FLOW(byOperator(item));
    if (ints && isFloat(total_.get())) startFloats();
    return Flow::kOk;
  }

  Ref<> result() {
    finishFloats();
    return total_;
  }

 private:
  enum class Phase { kInts, kFloats, kOperators };

  Flow byOperator(PyObject* item) {
    STATOR_VALUE(sum, runEntered(tracer_, binary(tracer_, NB_ADD, total_.get(), item)));
    total_ = std::move(sum);
    return Flow::kOk;
  }

  void startFloats() {
    phase_ = Phase::kFloats;
    parts_ = {total_};
  }

  // What two floats lose changes nothing at the end: numbers that may change stay what they are that long.
  Flow addFloat(PyObject* item) {
    if (!kSumsCompensate) return byOperator(item);
    if (!counts_ && parts_.size() < 2) {
      parts_.push_back(newRef(item));
      return byOperator(item);
    }
    count();
    addNumber(item);
    return Flow::kOk;
  }

  Flow addInt(PyObject* item) {
    // An int of a class of its own is added as the number that it is.
    const bool own = PyLong_Check(item) && !PyLong_CheckExact(item);
    Ref<> plain = own ? stealRef(PyLong_FromLong(PyLong_AsLong(item))) : newRef(item);
    if (!kSumsCompensate) return byOperator(plain.get());
    count();
    if (symbolic::isSymInt(item)) plain = concrete(tracer_, item);
    value_ += static_cast<double>(PyLong_AsLong(plain.get()));
    return Flow::kOk;
  }

  void count() {
    if (counts_) return;
    counts_ = true;
    for (const Ref<>& part : parts_) addNumber(part.get());
  }

  void addNumber(PyObject* number) {
    Ref<> plain = isKnownFloat(number) ? concreteScalar(tracer_, number) : newRef(number);
    const double x = PyFloat_AS_DOUBLE(plain.get());
    if (!started_) {
      started_ = true;
      value_ = x;
      return;
    }
    const double sum = value_ + x;
    lost_ += std::fabs(value_) >= std::fabs(x) ? (value_ - sum) + x : (x - sum) + value_;
    value_ = sum;
  }

  void finishFloats() {
    if (phase_ != Phase::kFloats || !counts_) return;
    if (lost_ != 0 && std::isfinite(lost_)) value_ += lost_;
    total_ = stealRef(PyFloat_FromDouble(value_));
    if (!total_) throw PythonError();
  }

  Tracer& tracer_;
  Ref<> total_;
  Phase phase_ = Phase::kOperators;
  // The first floats, as long as nothing but their sum is needed.
  std::vector<Ref<>> parts_;
  bool counts_ = false, started_ = false;
  double value_ = 0, lost_ = 0;
};

}  // namespace

Out sumCall(Tracer& t, const Args& args) {
  const size_t named = args.keyword("start") != nullptr ? 1 : 0;
  if (args.positional < 1 || args.values.size() > 2 || args.keywordCount() != named)
    return wrongArguments(t, "sum");
  PyObject* start = args.positional > 1 ? args.values[1] : args.keyword("start");
  Ref<> first = start != nullptr ? newRef(start) : stealRef(PyLong_FromLong(0));
  if (PyGen_CheckExact(args.values[0]) && args.values.size() == (start != nullptr ? 2u : 1u)) {
    // Each step of a generator from outside is a break: a function of ours has frames to go on from, and its sums are
    // in graphs.
    Args summed;
    summed.values = {args.values[0], first.get()};
    summed.positional = 2;
    t.world.keep(first);
    return inlineFunction(t, torchObject("stator.polyfills.functions.sum_over"), summed,
                          Continuation::kPush);
  }
  STATOR_VALUE(iterator, iterate(t, args.values[0]));
  if (PyUnicode_Check(first.get()) || PyBytes_Check(first.get()) || PyByteArray_Check(first.get()))
    return t.raiseNew(
        PyExc_TypeError,
        PyUnicode_Check(first.get()) ? "sum() can't sum strings [use ''.join(seq) instead]"
        : PyBytes_Check(first.get()) ? "sum() can't sum bytes [use b''.join(seq) instead]"
                                     : "sum() can't sum bytearray [use b''.join(seq) instead]");
  Sum sum(t, first.get());
  for (;;) {
    STATOR_VALUE(item, next(t, iterator.get()));
    if (!item) return sum.result();
    STATOR_FLOW(sum.add(item.get()));
  }
}

}  // namespace stator::interpret
