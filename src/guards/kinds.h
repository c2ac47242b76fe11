// The body of each kind of guard (kinds.def): the test that a check runs, and the words for what was expected and for
// how a value differs.
#pragma once

#include "guards/explain.h"
#include "guards/facts.h"
#include "guards/program.h"

#include <string>

namespace stator::guards {

inline PyObject* objectOf(const void* pointer) {
  return static_cast<PyObject*>(const_cast<void*>(pointer));
}
inline PyTypeObject* expectedType(const Guard& guard) {
  return reinterpret_cast<PyTypeObject*>(guard.expected.get());
}
// What a check compares with, as its op has it.
inline Op opOf(const Guard& guard) {
  Op op{testOf(guard.kind)};
  op.a = reinterpret_cast<const void*>(static_cast<intptr_t>(guard.number));
  op.b = guard.expected.get();
  return op;
}

// What a source led to when a check had failed. The value is null where it leads to nothing.
struct Seen {
  PyObject* value;
  const std::string& at;  // the source, for people
  PyCodeObject* code;
};

// What kinds say unless they say something else.
struct AnyKind {
  static constexpr bool kOfValue = false;
  static std::string was(const Guard&) { return ""; }
  static std::string more(const Guard&) { return ""; }  // behind the text
};
struct OfValue : AnyKind {
  static constexpr bool kOfValue = true;
  static constexpr bool kToldByValue = true;  // the value and `expected` tell whether it holds
  static std::string lost(const Guard&, const Seen& seen) {
    return differs(seen.at, "present", "missing");
  }
};

// bool holds(value, op): whether a value is as expected; of kinds about a value. It runs no user code and sets no
// error. string difference(guard, seen): why it does not hold.
template <GuardKind>
struct Kind;

template <>
struct Kind<GuardKind::kPresent> : OfValue {
  static bool holds(PyObject*, const Op&) { return true; }
  static std::string difference(const Guard&, const Seen&) { return ""; }
};

template <>
struct Kind<GuardKind::kAbsent> : AnyKind {
  static std::string difference(const Guard& guard, const Seen& seen) {
    if (seen.value == nullptr) return "";
    const sources::Source& source = *guard.source;
    if (source.kind != sources::SourceKind::kDictItem)
      return differs(seen.at, "missing", show(seen.value));
    PyObject* key = source.key.get();
    return "'" + (PyUnicode_Check(key) ? utf8(key) : repr(key)) + "' in " +
           sources::print(*source.base, seen.code) + ": was missing, is present";
  }
};

template <>
struct Kind<GuardKind::kIs> : OfValue {
  static bool holds(PyObject* value, const Op& op) { return value == op.b; }
  static std::string was(const Guard& guard) { return show(guard.expected.get()); }
  static std::string lost(const Guard& guard, const Seen& seen) {
    return differs(seen.at, was(guard), "missing");
  }
  static std::string difference(const Guard& guard, const Seen& seen) {
    const std::string is = show(seen.value);
    return differs(seen.at, was(guard), was(guard) == is ? "another " + is : is);
  }
};

template <>
struct Kind<GuardKind::kIsWeak> : OfValue {
  static constexpr bool kToldByValue = false;
  // A dead reference refers to None.
  static bool holds(PyObject* value, const Op& op) {
    return value == PyWeakref_GET_OBJECT(objectOf(op.b)) && value != Py_None;
  }
  static std::string more(const Guard& guard) { return guard.expected ? ", held" : ""; }
  static std::string difference(const Guard&, const Seen& seen) {
    return seen.at + ": is not the object of the capture";
  }
};

template <>
struct Kind<GuardKind::kEquals> : OfValue {
  static bool holds(PyObject* value, const Op& op) {
    return value == op.b || (!isInstanceDict(value) && sameConstant(value, objectOf(op.b)));
  }
  static std::string was(const Guard& guard) { return show(guard.expected.get()); }
  static std::string lost(const Guard& guard, const Seen& seen) {
    return differs(seen.at, was(guard), "missing");
  }
  static std::string difference(const Guard& guard, const Seen& seen) {
    PyTypeObject *before = Py_TYPE(guard.expected.get()), *now = Py_TYPE(seen.value);
    const std::string is = show(seen.value);
    if (before == now || !isConstant(seen.value)) return differs(seen.at, was(guard), is);
    return differs(seen.at, was(guard) + " (" + typeName(before) + ")",
                   is + " (" + typeName(now) + ")");
  }
};

template <>
struct Kind<GuardKind::kType> : OfValue {
  static bool holds(PyObject* value, const Op& op) { return typeOf(value) == op.b; }
  static std::string was(const Guard& guard) { return qualifiedTypeName(expectedType(guard)); }
  static std::string instance(PyTypeObject* type) { return withArticle(typeName(type)); }
  static std::string lost(const Guard& guard, const Seen& seen) {
    return differs(seen.at, instance(expectedType(guard)), "missing");
  }
  static std::string difference(const Guard& guard, const Seen& seen) {
    const std::string before = instance(expectedType(guard)), now = instance(typeOf(seen.value));
    return differs(seen.at, before, before == now ? "one of another class of that name" : now);
  }
};

template <>
struct Kind<GuardKind::kLength> : OfValue {
  static bool holds(PyObject* value, const Op& op) {
    return lengthOf(value) == static_cast<Py_ssize_t>(reinterpret_cast<intptr_t>(op.a));
  }
  static std::string was(const Guard& guard) { return std::to_string(guard.number); }
  static std::string difference(const Guard& guard, const Seen& seen) {
    const Py_ssize_t length = lengthOf(seen.value);
    return differs("len(" + seen.at + ")", was(guard),
                   length < 0 ? "that of " + show(seen.value) : std::to_string(length));
  }
};

template <>
struct Kind<GuardKind::kDictKeys> : OfValue {
  static bool holds(PyObject* value, const Op& op) { return hasKeys(value, objectOf(op.b)); }
  static std::string was(const Guard& guard) { return repr(guard.expected.get()); }
  static std::string difference(const Guard& guard, const Seen& seen) {
    if (!isDict(seen.value)) return differs(seen.at, "a dict", show(seen.value));
    return differs("list(" + seen.at + ")", was(guard), shown(seen.value));
  }
  static std::string shown(PyObject* dict) {
    std::string text = "[";
    const Py_ssize_t length = lengthOf(dict);
    for (Py_ssize_t i = 0; i < length && i < 20; ++i) {
      PyObject* key = keyAt(dict, i);
      if (i != 0) text += ", ";
      text += key != nullptr ? show(key) : "?";
    }
    return text + (length > 20 ? ", ...]" : "]");
  }
};

template <>
struct Kind<GuardKind::kDictEmpty> : OfValue {
  static bool holds(PyObject* value, const Op&) { return isDict(value) && lengthOf(value) == 0; }
  static std::string difference(const Guard&, const Seen& seen) {
    if (!isDict(seen.value)) return differs(seen.at, "an empty dict", show(seen.value));
    return differs("len(" + seen.at + ")", "0", std::to_string(lengthOf(seen.value)));
  }
};

template <>
struct Kind<GuardKind::kTensor> : OfValue {
  static constexpr bool kToldByValue = false;
  static bool holds(PyObject* value, const Op& op) {
    return !isInstanceDict(value) && tensor::checkFacts(factsOf(op), value);
  }
  static std::string was(const Guard& guard) { return guard.tensor->text(); }
  static std::string lost(const Guard& guard, const Seen& seen) {
    return differs(seen.at, withArticle(typeName(guard.tensor->type.get())), "missing");
  }
  static std::string difference(const Guard& guard, const Seen& seen) {
    PyTypeObject *before = guard.tensor->type.get(), *now = Py_TYPE(seen.value);
    if (!tensor::isTensor(seen.value))
      return differs(seen.at, withArticle(typeName(before)), withArticle(typeName(now)));
    if (before != now)
      return differs("type(" + seen.at + ")", qualifiedTypeName(before), qualifiedTypeName(now));
    const std::string text = guard.tensor->explain(seen.value);
    return text.empty() ? text : seen.at + "." + text;
  }
};

template <>
struct Kind<GuardKind::kSameAs> : OfValue {
  static constexpr bool kToldByValue = false;
  static bool holds(PyObject*, const Op&) { return false; }
  static std::string difference(const Guard& guard, const Seen& seen) {
    return seen.at + " is " + sources::print(*guard.other, seen.code) + ": was True, is False";
  }
};

template <>
struct Kind<GuardKind::kNotSameAs> : OfValue {
  static constexpr bool kToldByValue = false;
  static bool holds(PyObject*, const Op&) { return false; }
  static std::string difference(const Guard& guard, const Seen& seen) {
    return seen.at + " is " + sources::print(*guard.other, seen.code) + ": was False, is True";
  }
};

template <>
struct Kind<GuardKind::kTypeVersion> : AnyKind {
  static std::string was(const Guard& guard) { return qualifiedTypeName(expectedType(guard)); }
  static std::string more(const Guard& guard) {
    std::string text;
    for (const TypeLookup& lookup : guard.names)
      text += (text.empty() ? " in " : ", ") + utf8(lookup.name.get());
    return text;
  }
  static std::string difference(const Guard& guard, const Seen&) {
    for (const TypeLookup& lookup : guard.names) {
      PyObject* found = stator_type_lookup(expectedType(guard), lookup.name.get());
      if (found == lookup.found.get()) continue;
      const std::string before = show(lookup.found.get()), now = show(found);
      return differs(was(guard) + "." + utf8(lookup.name.get()), before,
                     before == now ? "another " + now : now);
    }
    return was(guard) + ": the class or one of its bases was changed";
  }
};

template <>
struct Kind<GuardKind::kGlobalState> : AnyKind {
  static std::string more(const Guard& guard) {
    const std::string transforms = guard.state ? guard.state->transforms() : "";
    return transforms.empty() ? "" : ", " + transforms;
  }
  static std::string difference(const Guard& guard, const Seen&) {
    return guard.state->difference(tensor::GlobalState::now());
  }
};

template <>
struct Kind<GuardKind::kAbcToken> : AnyKind {
  static std::string difference(const Guard&, const Seen&) {
    return "a class was registered with an abstract base class";
  }
};

}  // namespace stator::guards
