#include "symbolic/symbolic_module.h"

#include "base/check.h"
#include "base/ref.h"
#include "base/text.h"
#include "symbolic/environment.h"

namespace stator::symbolic {

namespace {

const Expr* read(const char* source) {
  try {
    if (const Expr* expr = parse(source)) return expr;
    PyErr_Format(PyExc_ValueError, "not an expression over s0, s1 ...: %s", source);
  } catch (const Overflow&) {
    PyErr_SetString(PyExc_OverflowError, "a coefficient leaves 64 bits");
  }
  return nullptr;
}

bool readInts(PyObject* list, std::vector<int64_t>& out) {
  Ref<> items = stealRef(PySequence_Fast(list, "a sequence of ints"));
  if (!items) return false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i)
    out.push_back(PyLong_AsLongLong(PySequence_Fast_GET_ITEM(items.get(), i)));
  return PyErr_Occurred() == nullptr;
}

PyObject* value(const Expr* expr, const std::optional<int64_t>& number) {
  if (!number) return Py_NewRef(Py_None);
  return expr->isTruth() ? PyBool_FromLong(*number != 0) : PyLong_FromLongLong(*number);
}

PyObject* canonical(PyObject*, PyObject* source) {
  const char* utf8 = utf8OrError(source);
  const Expr* expr = utf8 != nullptr ? read(utf8) : nullptr;
  return expr != nullptr ? PyUnicode_FromString(text(expr).c_str()) : nullptr;
}

PyObject* evaluated(PyObject*, PyObject* args) {
  const char* source = nullptr;
  PyObject* list = nullptr;
  std::vector<int64_t> symbols;
  if (!PyArg_ParseTuple(args, "sO", &source, &list) || !readInts(list, symbols)) return nullptr;
  const Expr* expr = read(source);
  return expr != nullptr ? value(expr, evaluate(expr, symbols.data(), symbols.size())) : nullptr;
}

// Takes the given conditions as decided by the hints, then asks for the last one: (known before, decided, decisions as
// text).
PyObject* decided(PyObject*, PyObject* args) {
  PyObject *hint_list = nullptr, *low_list = nullptr, *high_list = nullptr, *sources = nullptr;
  std::vector<int64_t> hints, lows, highs;
  if (!PyArg_ParseTuple(args, "OOOO", &hint_list, &low_list, &high_list, &sources)) return nullptr;
  if (!readInts(hint_list, hints) || !readInts(low_list, lows) || !readInts(high_list, highs))
    return nullptr;
  Environment environment;
  for (size_t i = 0; i < hints.size(); ++i) environment.addSymbol(hints[i], {lows[i], highs[i]});
  Ref<> known = newRef(Py_None), answer = newRef(Py_None);
  for (Py_ssize_t i = 0; i < PyList_Size(sources); ++i) {
    const char* utf8 = utf8OrError(PyList_GET_ITEM(sources, i));
    const Expr* condition = utf8 != nullptr ? read(utf8) : nullptr;
    if (condition == nullptr) return nullptr;
    if (!condition->isTruth()) {
      PyErr_SetString(PyExc_ValueError, "not a condition");
      return nullptr;
    }
    try {
      const std::optional<bool> before = environment.known(environment.simplify(condition));
      known = newRef(!before ? Py_None : *before ? Py_True : Py_False);
      answer = newRef(environment.decide(condition) ? Py_True : Py_False);
    } catch (const Overflow&) {
      PyErr_SetString(PyExc_OverflowError, "a coefficient leaves 64 bits");
      return nullptr;
    } catch (const InternalError& error) {
      PyErr_SetString(PyExc_ArithmeticError, error.what());
      return nullptr;
    }
  }
  Ref<> texts = stealRef(PyList_New(0));
  for (const Decision& decision : environment.decisions()) {
    PyList_Append(texts.get(),
                  stealRef(PyUnicode_FromString(text(decision.condition).c_str())).get());
  }
  return PyTuple_Pack(3, known.get(), answer.get(), texts.get());
}

}  // namespace

PyMethodDef symbolic_methods[] = {
    {"symbolic_text", canonical, METH_O, "The canonical text of an expression over s0, s1 ..."},
    {"symbolic_evaluate", evaluated, METH_VARARGS,
     "symbolic_evaluate(text, values): int or bool; None where it is not defined."},
    {"symbolic_decide", decided, METH_VARARGS,
     "symbolic_decide(hints, lows, highs, conditions): (what was known of the last one before it "
     "was decided, its truth, decisions)."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace stator::symbolic
