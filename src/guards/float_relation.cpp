#include "guards/float_relation.h"

#include "base/ref.h"
#include "base/text.h"

#include <array>
#include <cmath>
#include <optional>
#include <utility>

namespace stator::guards {

namespace {

using Term = FloatTerm::Kind;

bool compare(int operation, double left, double right) {
  switch (operation) {
    case Py_LT:
      return left < right;
    case Py_LE:
      return left <= right;
    case Py_EQ:
      return left == right;
    case Py_NE:
      return left != right;
    case Py_GT:
      return left > right;
    default:
      return left >= right;
  }
}

double combined(Term kind, double left, double right) {
  switch (kind) {
    case Term::kAdd:
      return left + right;
    case Term::kSubtract:
      return left - right;
    case Term::kMultiply:
      return left * right;
    default:
      return left / right;
  }
}

std::string numberText(double number) {
  Ref<> boxed = stealRef(PyFloat_FromDouble(number));
  Ref<> spelled = boxed ? stealRef(PyObject_Repr(boxed.get())) : Ref<>();
  PyErr_Clear();
  return spelled ? std::string(utf8(spelled.get())) : "?";
}

}  // namespace

bool FloatRelation::holds(const double* floats, const int64_t* symbols, size_t count) const {
  std::array<double, kLongest> stack;  // as far as it is filled
  size_t height = 0;
  for (const FloatTerm& term : terms) {
    switch (term.kind) {
      case Term::kSource:
        if (std::isnan(*floats)) return false;
        stack[height++] = *floats++;
        break;
      case Term::kNumber:
        stack[height++] = term.number;
        break;
      case Term::kInt: {
        const std::optional<int64_t> now = symbolic::evaluate(term.expr, symbols, count);
        if (!now || *now > kExactInt || *now < -kExactInt) return false;
        stack[height++] = static_cast<double>(*now);
        break;
      }
      case Term::kNegative:
        stack[height - 1] = -stack[height - 1];
        break;
      default:
        --height;
        stack[height - 1] = combined(term.kind, stack[height - 1], stack[height]);
    }
  }
  return compare(operation, stack[0], stack[1]) == expected;
}

std::string FloatRelation::text(symbolic::NameOf nameOf, const void* context,
                                PyCodeObject* code) const {
  static const char* const signs[] = {"<", "<=", "==", "!=", ">", ">="};
  static const char* const operators[] = {" + ", " - ", " * ", " / "};
  std::vector<std::string> stack;
  for (const FloatTerm& term : terms) {
    switch (term.kind) {
      case Term::kSource:
        stack.push_back(sources::print(*term.source, code));
        break;
      case Term::kNumber:
        stack.push_back(numberText(term.number));
        break;
      case Term::kInt:
        stack.push_back(symbolic::text(term.expr, nameOf, context));
        break;
      case Term::kNegative:
        stack.back() = "-" + stack.back();
        break;
      default: {
        const std::string right = std::move(stack.back());
        stack.pop_back();
        const auto sign = static_cast<size_t>(term.kind) - static_cast<size_t>(Term::kAdd);
        stack.back() = "(" + stack.back() + operators[sign] + right + ")";
      }
    }
  }
  const std::string whole = stack[0] + " " + signs[operation] + " " + stack[1];
  return expected ? whole : "not " + whole;
}

FloatRelation relationOf(const sources::Source* source, int operation, double number,
                         bool expected) {
  return {{{Term::kSource, source}, {Term::kNumber, nullptr, number}}, operation, expected};
}

}  // namespace stator::guards
