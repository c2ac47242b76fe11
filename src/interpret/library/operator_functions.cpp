// The functions of the module operator: the tracer's own operators.
#include "interpret/calls/calls.h"
#include "interpret/core/arguments.h"
#include "interpret/core/known.h"
#include "interpret/core/tables.h"
#include "interpret/core/tracer.h"
#include "interpret/library/rows.h"
#include "interpret/objects/items.h"
#include "interpret/objects/membership.h"
#include "interpret/objects/operators.h"
#include "interpret/objects/truth.h"
#include "python/objects.h"

namespace stator::interpret {

namespace {

template <int operation>
Out binaryFunction(Tracer& t, const Args& args) {
  NEED(2, "operator");
  return binary(t, operation, args.values[0], args.values[1]);
}
template <int operation>
Out compareFunction(Tracer& t, const Args& args) {
  NEED(2, "operator");
  return compare(t, operation, args.values[0], args.values[1]);
}
template <int operation>
Out unaryFunction(Tracer& t, const Args& args) {
  NEED(1, "operator");
  return unary(t, operation, args.values[0]);
}
Out notFunction(Tracer& t, const Args& args) {
  NEED(1, "not_");
  STATOR_VALUE(value, truth(t, args.values[0]));
  return boolean(value.get() != Py_True);
}
Out isFunction(Tracer& t, const Args& args) {
  NEED(2, "is_");
  return same(t, args.values[0], args.values[1]);
}
Out isNotFunction(Tracer& t, const Args& args) {
  NEED(2, "is_not");
  STATOR_VALUE(value, same(t, args.values[0], args.values[1]));
  return boolean(value.get() != Py_True);
}
Out getItemFunction(Tracer& t, const Args& args) {
  NEED(2, "getitem");
  return getItem(t, args.values[0], args.values[1]);
}
Out setItemFunction(Tracer& t, const Args& args) {
  NEED(3, "setitem");
  Out done = runEntered(t, setItem(t, args.values[0], args.values[1], args.values[2]));
  if (!done.ok()) return done;
  return newRef(Py_None);
}
Out containsFunction(Tracer& t, const Args& args) {
  NEED(2, "contains");
  return contains(t, args.values[0], args.values[1]);
}
}  // namespace

void registerOperatorFunctions() {
  const std::pair<const char*, CallHandler> rows[] = {
      {"operator.add", binaryFunction<0>},
      {"operator.and_", binaryFunction<1>},
      {"operator.floordiv", binaryFunction<2>},
      {"operator.lshift", binaryFunction<3>},
      {"operator.matmul", binaryFunction<4>},
      {"operator.mul", binaryFunction<5>},
      {"operator.mod", binaryFunction<6>},
      {"operator.or_", binaryFunction<7>},
      {"operator.pow", binaryFunction<8>},
      {"operator.rshift", binaryFunction<9>},
      {"operator.sub", binaryFunction<10>},
      {"operator.truediv", binaryFunction<11>},
      {"operator.xor", binaryFunction<12>},
      {"operator.iadd", binaryFunction<13>},
      {"operator.iand", binaryFunction<14>},
      {"operator.ifloordiv", binaryFunction<15>},
      {"operator.ilshift", binaryFunction<16>},
      {"operator.imatmul", binaryFunction<17>},
      {"operator.imul", binaryFunction<18>},
      {"operator.imod", binaryFunction<19>},
      {"operator.ior", binaryFunction<20>},
      {"operator.ipow", binaryFunction<21>},
      {"operator.irshift", binaryFunction<22>},
      {"operator.isub", binaryFunction<23>},
      {"operator.itruediv", binaryFunction<24>},
      {"operator.ixor", binaryFunction<25>},
      {"operator.lt", compareFunction<Py_LT>},
      {"operator.le", compareFunction<Py_LE>},
      {"operator.eq", compareFunction<Py_EQ>},
      {"operator.ne", compareFunction<Py_NE>},
      {"operator.gt", compareFunction<Py_GT>},
      {"operator.ge", compareFunction<Py_GE>},
      {"operator.pos", unaryFunction<0>},
      {"operator.neg", unaryFunction<1>},
      {"operator.invert", unaryFunction<2>},
      {"operator.inv", unaryFunction<2>},
      {"operator.not_", notFunction},
      {"operator.is_", isFunction},
      {"operator.is_not", isNotFunction},
      {"operator.getitem", getItemFunction},
      {"operator.setitem", setItemFunction},
      {"operator.contains", containsFunction},
  };
  for (const auto& [path, handler] : rows) registerHandler(path, handler);
}

}  // namespace stator::interpret
