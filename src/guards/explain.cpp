#include "guards/explain.h"

#include "base/text.h"
#include "guards/facts.h"

#include <algorithm>
#include <cstring>
#include <string_view>

namespace stator::guards {

namespace {

using sources::Source;
using sources::SourceKind;

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

// The elements of a set of constants, sorted: their order is another one in every process. Empty: it has others, or none.
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
    return std::string("built-in ") + reinterpret_cast<PyCFunctionObject*>(value)->m_ml->ml_name;
  const std::string type = Py_TYPE(value)->tp_name;
  if (type == "torch.dtype" || type == "torch.layout" || type == "torch.memory_format")
    return repr(value);
  return withArticle(typeName(Py_TYPE(value)));
}

namespace {

std::string differs(const std::string& what, const std::string& was, const std::string& is) {
  return what + ": was " + was + ", is " + is;
}

std::string where(const Guard& guard, PyCodeObject* code) {
  return guard.source != nullptr ? sources::print(*guard.source, code) : std::string();
}

std::string showKeys(PyObject* dict) {
  std::string text = "[";
  const Py_ssize_t length = lengthOf(dict);
  for (Py_ssize_t i = 0; i < length && i < 20; ++i) {
    PyObject* key = keyAt(dict, i);
    if (i != 0) text += ", ";
    text += key != nullptr ? show(key) : "?";
  }
  return text + (length > 20 ? ", ...]" : "]");
}

std::string names(const Guard& guard) {
  std::string text;
  for (const TypeLookup& lookup : guard.names) {
    if (!text.empty()) text += ", ";
    text += utf8(lookup.name.get());
  }
  return text;
}

std::string explainTypeVersion(const Guard& guard) {
  auto* type = reinterpret_cast<PyTypeObject*>(guard.expected.get());
  for (const TypeLookup& lookup : guard.names) {
    PyObject* found = stator_type_lookup(type, lookup.name.get());
    if (found == lookup.found.get()) continue;
    std::string was = show(lookup.found.get()), is = show(found);
    if (was == is) is.insert(0, "another ");
    return differs(qualifiedTypeName(type) + "." + utf8(lookup.name.get()), was, is);
  }
  return qualifiedTypeName(type) + ": the class or one of its bases was changed";
}

std::string explainAbsent(const Guard& guard, PyObject* seen, PyCodeObject* code) {
  const Source& source = *guard.source;
  if (source.kind == SourceKind::kDictItem) {
    return "'" +
           (PyUnicode_Check(source.key.get()) ? utf8(source.key.get()) + "'"
                                              : repr(source.key.get()) + "'") +
           " in " + sources::print(*source.base, code) + ": was missing, is present";
  }
  return differs(sources::print(source, code), "missing", show(seen));
}

std::string explainTensor(const Guard& guard, PyObject* seen, const std::string& at) {
  if (seen == nullptr || !tensor::isTensor(seen)) {
    return differs(at, withArticle(typeName(guard.tensor->type.get())),
                   seen != nullptr ? withArticle(typeName(Py_TYPE(seen))) : "missing");
  }
  if (Py_TYPE(seen) != guard.tensor->type.get()) {
    return differs("type(" + at + ")", qualifiedTypeName(guard.tensor->type.get()),
                   qualifiedTypeName(Py_TYPE(seen)));
  }
  const std::string text = guard.tensor->explain(seen);
  return text.empty() ? text : at + "." + text;
}

// Why the guard does not hold for the value that was seen; empty when it does.
std::string explainGuard(const Guard& guard, PyObject* seen, const sources::Roots& roots) {
  PyCodeObject* const code = roots.code;
  const std::string at = where(guard, code);
  PyObject* expected = guard.expected.get();
  if (seen == nullptr && guard.kind != GuardKind::kAbsent && guard.source != nullptr &&
      guard.kind != GuardKind::kTypeVersion) {
    switch (guard.kind) {
      case GuardKind::kEquals:
      case GuardKind::kIs:
        return differs(at, show(expected), "missing");
      case GuardKind::kType:
        return differs(at, withArticle(typeName(reinterpret_cast<PyTypeObject*>(expected))),
                       "missing");
      case GuardKind::kTensor:
        return explainTensor(guard, seen, at);
      default:
        return differs(at, "present", "missing");
    }
  }
  switch (guard.kind) {
    case GuardKind::kPresent:
      return "";
    case GuardKind::kAbsent:
      return seen != nullptr ? explainAbsent(guard, seen, code) : "";
    case GuardKind::kIs: {
      if (seen == expected) return "";
      std::string was = show(expected), is = show(seen);
      return differs(at, was, was == is ? "another " + is : is);
    }
    case GuardKind::kIsWeak:
      return at + ": is not the object of the capture";
    case GuardKind::kEquals:
      if (sameConstant(seen, expected)) return "";
      if (Py_TYPE(seen) != Py_TYPE(expected) && isConstant(seen)) {
        return differs(at, show(expected) + " (" + typeName(Py_TYPE(expected)) + ")",
                       show(seen) + " (" + typeName(Py_TYPE(seen)) + ")");
      }
      return differs(at, show(expected), show(seen));
    case GuardKind::kType: {
      if (typeOf(seen) == reinterpret_cast<PyTypeObject*>(expected)) return "";
      std::string was = withArticle(typeName(reinterpret_cast<PyTypeObject*>(expected))),
                  is = withArticle(typeName(typeOf(seen)));
      if (was == is) is = "one of another class of that name";
      return differs(at, was, is);
    }
    case GuardKind::kTypeVersion:
      return explainTypeVersion(guard);
    case GuardKind::kLength: {
      const Py_ssize_t length = lengthOf(seen);
      if (length == guard.number) return "";
      return differs("len(" + at + ")", std::to_string(guard.number),
                     length < 0 ? "that of " + show(seen) : std::to_string(length));
    }
    case GuardKind::kDictKeys:
      if (!isDict(seen)) return differs(at, "a dict", show(seen));
      return hasKeys(seen, expected) ? ""
                                     : differs("list(" + at + ")", repr(expected), showKeys(seen));
    case GuardKind::kDictEmpty: {
      if (!isDict(seen)) return differs(at, "an empty dict", show(seen));
      const Py_ssize_t length = lengthOf(seen);
      return length == 0 ? "" : differs("len(" + at + ")", "0", std::to_string(length));
    }
    case GuardKind::kTensor:
      return explainTensor(guard, seen, at);
    case GuardKind::kSameAs:
      return at + " is " + sources::print(*guard.other, code) + ": was True, is False";
    case GuardKind::kNotSameAs:
      return at + " is " + sources::print(*guard.other, code) + ": was False, is True";
    case GuardKind::kGlobalState:
      return guard.state->difference(tensor::GlobalState::now());
    case GuardKind::kAbcToken:
      return "a class was registered with an abstract base class";
  }
  return "";
}

}  // namespace

std::string describe(const Guard& guard, PyCodeObject* code) {
  std::string at = where(guard, code);
  PyObject* expected = guard.expected.get();
  switch (guard.kind) {
    case GuardKind::kPresent:
      return at + " is there";
    case GuardKind::kAbsent:
      return at + " is missing";
    case GuardKind::kIs:
      return at + " is " + show(expected);
    case GuardKind::kIsWeak:
      return at + " is the object of the capture" + (expected != nullptr ? ", held" : "");
    case GuardKind::kEquals:
      return at + " == " + show(expected);
    case GuardKind::kType:
      return "type(" + at + ") is " + qualifiedTypeName(reinterpret_cast<PyTypeObject*>(expected));
    case GuardKind::kTypeVersion: {
      const std::string looked_up = names(guard);
      return qualifiedTypeName(reinterpret_cast<PyTypeObject*>(expected)) + " is unchanged" +
             (looked_up.empty() ? "" : " in " + looked_up);
    }
    case GuardKind::kLength:
      return "len(" + at + ") == " + std::to_string(guard.number);
    case GuardKind::kDictKeys:
      return "list(" + at + ") == " + repr(expected);
    case GuardKind::kDictEmpty:
      return "not " + at;
    case GuardKind::kTensor:
      return at + ": " + guard.tensor->text();
    case GuardKind::kSameAs:
      return at + " is " + sources::print(*guard.other, code);
    case GuardKind::kNotSameAs:
      return at + " is not " + sources::print(*guard.other, code);
    case GuardKind::kGlobalState:
      return "global state (grad mode, autocast, default dtype and device, modes, backend flags)" +
             (guard.state && !guard.state->transforms().empty() ? ", " + guard.state->transforms()
                                                                : "");
    case GuardKind::kAbcToken:
      return "no class was registered with an abstract base class";
  }
  return at;
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
