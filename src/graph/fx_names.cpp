#include "graph/fx_names.h"

#include "base/check.h"
#include "base/imports.h"
#include "base/stack_room.h"
#include "base/text.h"
#include "sources/short_lived.h"

#include <cctype>

namespace stator::graph {

namespace {

using sources::Source;
using sources::SourceKind;

std::string textOf(PyObject* text) { return std::string(utf8View(text).value_or("_")); }

// The key of a subscript; its repr where that runs no user code.
std::string keyText(PyObject* key) {
  bool plain =
      key != nullptr && (PyUnicode_CheckExact(key) || PyLong_CheckExact(key) || PyBool_Check(key) ||
                         PyFloat_CheckExact(key) || PyBytes_CheckExact(key) || key == Py_None);
  Ref<> text = plain ? Ref<>::steal(PyObject_Repr(key)) : Ref<>();
  if (text) return textOf(text.get());
  PyErr_Clear();
  return key != nullptr ? Py_TYPE(key)->tp_name : "_";
}

std::string localName(const Source& source, PyCodeObject* code) {
  if (code != nullptr) {
    Ref<> names = Ref<>::create(stator_code_slot_names(code));
    if (names && PyTuple_Check(names.get()) && source.index < PyTuple_GET_SIZE(names.get())) {
      return textOf(PyTuple_GET_ITEM(names.get(), source.index));
    }
  }
  return std::to_string(source.index);
}

std::string pinnedName(PyObject* object) {
  // A module's dict is known by the module's name.
  if (object != nullptr && PyDict_CheckExact(object)) {
    PyObject* name = PyDict_GetItemString(object, "__name__");
    if (name != nullptr && PyUnicode_Check(name)) return textOf(name);
  }
  Ref<> name = object != nullptr &&
                       (PyType_Check(object) || PyModule_Check(object) || PyFunction_Check(object))
                   ? Ref<>::steal(PyObject_GetAttrString(object, "__name__"))
                   : Ref<>();
  if (name) return textOf(name.get());
  PyErr_Clear();
  return object != nullptr ? Py_TYPE(object)->tp_name : "_";
}

std::string subscript(const std::string& text) { return std::string("[").append(text).append("]"); }
std::string quoted(const std::string& text) { return std::string("['").append(text).append("']"); }

// One step: `base` is the expression of source.base.
std::string expressionFrom(const std::string& base, const Source& source, PyCodeObject* code) {
  std::string number = std::to_string(source.index);
  switch (source.kind) {
    case SourceKind::kLocal:
      return "L" + quoted(localName(source, code));
    case SourceKind::kStack:
      return "L" + quoted("___stack" + number);
    case SourceKind::kGlobals:
      return "G";
    case SourceKind::kBuiltins:
      return "B";
    case SourceKind::kFunction:
      return "F";
    case SourceKind::kHandled:
      return "E";
    case SourceKind::kFunctionMode:
      return "G" + quoted("___torch_function_mode_stack_" + number);
    case SourceKind::kDrawn:
      return "L" + quoted("___random" + number);
    case SourceKind::kPinned:
      return "G" + quoted(pinnedName(sources::pinnedObject(source)));
    case SourceKind::kAttr:
    case SourceKind::kGenericAttr:
    case SourceKind::kTensorAttr:
      return base + "." + textOf(source.key.get());
    case SourceKind::kParameter:
      return base + "._parameters" + quoted(textOf(source.key.get()));
    case SourceKind::kBuffer:
      return base + "._buffers" + quoted(textOf(source.key.get()));
    case SourceKind::kSubmodule:
      return base + "._modules" + quoted(textOf(source.key.get()));
    case SourceKind::kObjectDict:
      return base + ".__dict__";
    case SourceKind::kType:
      return base + ".__class__";
    case SourceKind::kClassDict:
      return base + ".__dict__" + quoted(textOf(source.key.get()));
    case SourceKind::kDictItem:
      return base + subscript(keyText(source.key.get()));
    case SourceKind::kDictKey:
      return base + ".keys()" + subscript(number);
    case SourceKind::kDictValue:
      return base + ".values()" + subscript(number);
    case SourceKind::kListItem:
    case SourceKind::kTupleItem:
    case SourceKind::kSetItem:
    case SourceKind::kDequeItem:
      return base + subscript(number);
    case SourceKind::kIteratorPart:
      return base + ".parts" + subscript(number);
    case SourceKind::kCell:
      // A variable that lies in a cell is known by its name.
      return source.base->kind == SourceKind::kLocal ? base : base + ".cell_contents";
    case SourceKind::kClosure:
      return base + ".__closure__" + subscript(number);
    case SourceKind::kDefault:
      return base + ".__defaults__" + subscript(number);
    case SourceKind::kKwDefault:
      return base + ".__kwdefaults__" + quoted(textOf(source.key.get()));
    case SourceKind::kFuncGlobals:
      return base + ".__globals__";
    case SourceKind::kCode:
      return base + ".__code__";
    case SourceKind::kMethodSelf:
      return base + ".__self__";
    case SourceKind::kMethodFunc:
      return base + ".__func__";
    case SourceKind::kPartialFunc:
      return base + ".func";
    case SourceKind::kPartialArgs:
      return base + ".args";
    case SourceKind::kPartialKeywords:
      return base + ".keywords";
    case SourceKind::kSliceStart:
    case SourceKind::kRangeStart:
      return base + ".start";
    case SourceKind::kSliceStop:
    case SourceKind::kRangeStop:
      return base + ".stop";
    case SourceKind::kSliceStep:
    case SourceKind::kRangeStep:
      return base + ".step";
    case SourceKind::kArrayTensor:
    case SourceKind::kFloatTensor:
      return base;
    case SourceKind::kTensorGrad:
      return base + ".grad";
    case SourceKind::kTensorSize:
      if (source.index < -1)
        return base + ".stride()" + subscript(std::to_string(-2 - source.index));
      return base + ".size()" + subscript(number);
    case SourceKind::kTensorNumber:
      return base + ".item()" + subscript(number);
    case SourceKind::kWeakTarget:
      return base + "()";
    default:
      return base + "._" + number;
  }
}

}  // namespace

std::string sourceExpression(const Source& source, PyCodeObject* code) {
  needStack();
  return expressionFrom(source.base != nullptr ? sourceExpression(*source.base, code) : "", source,
                        code);
}

const std::string& SourceExpressions::of(const Source& source) {
  needStack();
  auto [found, is_new] = known_.try_emplace(&source);
  if (!is_new) return found->second;
  // References to entries stay good while others are added.
  std::string& text = found->second;
  static const std::string nothing;
  text = expressionFrom(source.base != nullptr ? of(*source.base) : nothing, source, code_);
  return text;
}

bool isKeywordName(PyObject* name) {
  static PyObject* const is_keyword = [] {
    PyObject* module = importModule("keyword");
    return module != nullptr ? PyObject_GetAttrString(module, "iskeyword") : nullptr;
  }();
  if (is_keyword == nullptr) throw PythonError();
  if (PyUnicode_IsIdentifier(name) != 1) return false;
  Ref<> answer = Ref<>::steal(PyObject_CallOneArg(is_keyword, name));
  if (!answer) throw PythonError();
  return answer.get() != Py_True;
}

std::string placeholderTarget(const std::string& expression) {
  std::string text;
  for (unsigned char c : expression) {
    bool keep = c < 128 && std::isalnum(c) != 0;
    if (keep) {
      text += static_cast<char>(c);
    } else if (text.empty() || text.back() != '_') {
      text += '_';
    }
  }
  return text;
}

std::string snakeCase(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    bool upper = c >= 'A' && c <= 'Z';
    if (upper && i > 0 && text[i - 1] >= 'a' && text[i - 1] <= 'z') out += '_';
    out += upper ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return out;
}

Names::Reserved Names::keysOf(PyObject* dict) {
  Reserved names;
  PyObject *name = nullptr, *value = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &name, &value);) names.insert(textOf(name));
  return names;
}

std::string Names::unique(const std::string& wanted) {
  std::string candidate;
  candidate.reserve(wanted.size() + 4);
  bool replaced = false;  // a run of illegal characters becomes one underscore
  for (char c : wanted) {
    bool legal =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    if (legal || !replaced) candidate += legal ? c : '_';
    replaced = !legal;
  }
  if (candidate.empty()) candidate = "_unnamed";
  if (std::isdigit(static_cast<unsigned char>(candidate[0])) != 0)
    candidate.insert(candidate.begin(), '_');

  // base_12 is base and 12, if there is something before the underscore.
  std::string base = candidate;
  int64_t number = -1;
  size_t digits = candidate.size();
  while (digits > 0 && std::isdigit(static_cast<unsigned char>(candidate[digits - 1])) != 0)
    --digits;
  if (digits < candidate.size() && candidate.size() - digits < 18 && digits > 1 &&
      candidate[digits - 1] == '_') {
    base = candidate.substr(0, digits - 1);
    number = std::stoll(candidate.substr(digits));
  }
  auto numbered = [&] { return std::string(base).append("_").append(std::to_string(number)); };
  if (number < 0 || used_.contains(candidate)) {
    auto count = counts_.find(base);
    number = count == counts_.end() ? 0 : count->second;
    if (reserved_.contains(candidate)) {
      ++number;
      candidate = numbered();
    }
  }
  while (!used_.insert(candidate).second) {
    ++number;
    candidate = numbered();
  }
  counts_[base] = number;
  return candidate;
}

}  // namespace stator::graph
