#include "guards/explain.h"

#include "base/text.h"
#include "guards/facts.h"
#include "guards/kinds.h"
#include "python/fields.h"

#include <algorithm>
#include <cstring>
#include <string_view>

namespace stator::guards {

std::string utf8(PyObject* text) {
  const char* data = text != nullptr ? utf8OrNull(text) : nullptr;
  if (data == nullptr) PyErr_Clear();
  return data != nullptr ? data : "?";
}

std::string typeName(PyTypeObject* type) {
  const char* dot = std::strrchr(type->tp_name, '.');
  return dot != nullptr ? dot + 1 : type->tp_name;
}

std::string qualifiedTypeName(PyTypeObject* type) {
  Ref<> module = stealRef(PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), "__module__"));
  Ref<> name = stealRef(PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), "__qualname__"));
  PyErr_Clear();
  if (!module || !name || !PyUnicode_Check(module.get()) || !PyUnicode_Check(name.get()))
    return type->tp_name;
  std::string where = utf8(module.get());
  return where == "builtins" || where == "__main__" ? utf8(name.get())
                                                    : where + "." + utf8(name.get());
}

std::string withArticle(const std::string& name) {
  return (std::strchr("aeiouAEIOU", name[0]) != nullptr ? "an " : "a ") + name;
}

std::string repr(PyObject* object) {
  Ref<> text = stealRef(PyObject_Repr(object));
  if (!text) PyErr_Clear();
  std::string shown = text ? utf8(text.get()) : "?";
  constexpr size_t kLongest = 200;
  if (shown.size() > kLongest) shown = shown.substr(0, kLongest) + "...";
  return shown;
}

namespace {

// The elements of a set of constants, sorted: their order is another one in every process. Empty: it has others, or
// none.
std::string sorted(PyObject* set) {
  std::vector<std::string> items;
  PyObject* item = nullptr;
  Py_hash_t hash = 0;
  for (Py_ssize_t position = 0; _PySet_NextEntry(set, &position, &item, &hash);) {
    if (!isConstant(item)) return "";
    items.push_back(show(item));
  }
  std::sort(items.begin(), items.end());
  std::string text;
  for (const std::string& one : items) text += (text.empty() ? "{" : ", ") + one;
  return items.empty() ? text : text + "}";
}

}  // namespace

std::string show(PyObject* value) {
  if (value == nullptr) return "missing";
  if (PyAnySet_CheckExact(value)) {
    const std::string items = sorted(value);
    if (!items.empty()) return PySet_CheckExact(value) ? items : "frozenset(" + items + ")";
  }
  if (isConstant(value)) return repr(value);
  if (PyTuple_CheckExact(value)) {
    std::string items;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); ++i)
      items += (i > 0 ? ", " : "") + show(PyTuple_GET_ITEM(value, i));
    return "(" + items + ")";
  }
  if (PyType_Check(value)) return qualifiedTypeName(reinterpret_cast<PyTypeObject*>(value));
  if (PyFunction_Check(value))
    return "function " + utf8(reinterpret_cast<PyFunctionObject*>(value)->func_qualname);
  if (PyCode_Check(value))
    return "the code of " + utf8(reinterpret_cast<PyCodeObject*>(value)->co_qualname);
  if (PyModule_Check(value)) {
    const char* name = PyModule_GetName(value);
    if (name == nullptr) PyErr_Clear();
    return std::string("module ") + (name != nullptr ? name : "?");
  }
  if (PyCFunction_Check(value))
    return std::string("built-in ") + stator_function_method(value)->ml_name;
  const std::string type = Py_TYPE(value)->tp_name;
  if (type == "torch.dtype" || type == "torch.layout" || type == "torch.memory_format")
    return repr(value);
  return withArticle(typeName(Py_TYPE(value)));
}

std::string differs(const std::string& what, const std::string& was, const std::string& is) {
  return what + ": was " + was + ", is " + is;
}

namespace {

std::string where(const Guard& guard, PyCodeObject* code) {
  return guard.source != nullptr ? sources::print(*guard.source, code) : std::string();
}

template <class Body>
bool holdsAs(const Guard& guard, PyObject* seen) {
  if constexpr (Body::kOfValue) return Body::kToldByValue && Body::holds(seen, opOf(guard));
  return false;
}

template <class Body>
std::string explainAs(const Guard& guard, const Seen& seen) {
  if constexpr (Body::kOfValue) {
    if (seen.value == nullptr) return Body::lost(guard, seen);
    if (holdsAs<Body>(guard, seen.value)) return "";
  }
  return Body::difference(guard, seen);
}

// Why the guard does not hold for the value that was seen; empty when it does.
std::string explainGuard(const Guard& guard, PyObject* value, const sources::Roots& roots) {
  const std::string at = where(guard, roots.code);
  const Seen seen{value, at, roots.code};
  switch (guard.kind) {
#define STATOR_GUARD_KIND(kind, about, word, dynamo, text) \
  case GuardKind::kind:                                    \
    return explainAs<Kind<GuardKind::kind>>(guard, seen);
#include "guards/kinds.def"
#undef STATOR_GUARD_KIND
  }
  return "";
}

// What the text of a kind leaves open, and what comes behind it.
std::pair<std::string, std::string> wordsOf(const Guard& guard) {
  switch (guard.kind) {
#define STATOR_GUARD_KIND(kind, about, word, dynamo, text) \
  case GuardKind::kind:                                    \
    return {Kind<GuardKind::kind>::was(guard), Kind<GuardKind::kind>::more(guard)};
#include "guards/kinds.def"
#undef STATOR_GUARD_KIND
  }
  return {};
}

}  // namespace

bool holdsFor(const Guard& guard, PyObject* seen) {
  switch (guard.kind) {
#define STATOR_GUARD_KIND(kind, about, word, dynamo, text) \
  case GuardKind::kind:                                    \
    return holdsAs<Kind<GuardKind::kind>>(guard, seen);
#include "guards/kinds.def"
#undef STATOR_GUARD_KIND
  }
  return false;
}

std::string describe(const Guard& guard, PyCodeObject* code) {
  const auto [was, more] = wordsOf(guard);
  std::string text = rowOf(guard.kind).text;
  for (size_t open = text.find('{'); open != std::string::npos;) {
    const size_t close = text.find('}', open);
    const std::string_view name(text.data() + open + 1, close - open - 1);
    const std::string filled = name == "at"    ? where(guard, code)
                               : name == "was" ? was
                                               : sources::print(*guard.other, code);
    text.replace(open, close - open + 1, filled);
    open = text.find('{', open + filled.size());
  }
  return text + more;
}

std::string explainFailure(const GuardProgram::Impl& program, const Op& failed,
                           const GuardProgram::Impl::Origin& origin, const sources::Roots& roots) {
  if (origin.guard != kNoGuard && program.guards[origin.guard].source == nullptr) {
    return explainGuard(program.guards[origin.guard], nullptr, roots);
  }
  if (origin.source == nullptr)
    return origin.guard != kNoGuard ? explainGuard(program.guards[origin.guard], nullptr, roots)
                                    : "unknown";
  const Ref<> seen = sources::read(*origin.source, roots);
  std::string text;
  if (origin.guard != kNoGuard)
    text = explainGuard(program.guards[origin.guard], seen.get(), roots);
  // The op read the value and tested the first of its guards along with it.
  for (size_t i = 0; i < program.guards.size() && text.empty(); ++i) {
    const GuardKind kind = program.guards[i].kind;
    // These cannot be told to hold from the value alone.
    if (kind == GuardKind::kIsWeak || kind == GuardKind::kSameAs || kind == GuardKind::kNotSameAs ||
        kind == GuardKind::kTypeVersion)
      continue;
    if (program.guards[i].source == origin.source)
      text = explainGuard(program.guards[i], seen.get(), roots);
  }
  if (!text.empty()) return text;
  const std::string at = sources::print(*origin.source, roots.code);
  return seen ? at + ": has another layout than at capture" : differs(at, "present", "missing");
}

}  // namespace stator::guards
