// Runs guard programs: one body for the plain check and for the check that takes down the memory it relied on (replay.h).
#include "base/check.h"
#include "base/hot.h"
#include "base/imports.h"
#include "guards/facts.h"
#include "guards/program.h"
#include "guards/replay.h"

namespace stator::guards {

namespace {

PyObject* objectOf(const void* pointer) {
  return static_cast<PyObject*>(const_cast<void*>(pointer));
}
PyTypeObject* typeOfPointer(const void* pointer) {
  return static_cast<PyTypeObject*>(const_cast<void*>(pointer));
}

// The key did not stand where it stood the last time. `absent` is set when it is certain that it is nowhere.
[[gnu::noinline]] PyObject* findKey(Machine& machine, Op& op, const StatorView& view,
                                    bool& absent) {
  const Py_ssize_t index =
      stator_view_find(&view, objectOf(op.a), machine.program.hashes[op.extra]);
  absent = index == -1;
  if (index < 0) return nullptr;
  op.hint = static_cast<uint32_t>(index);
  // An equal string that is not interned (torch's own modules have some): the next time it is found by its address.
  PyObject* key = view.entries[static_cast<size_t>(index) * view.key_stride];
  if (key != op.a && !(op.flags & kKeyAdopted) && PyUnicode_CheckExact(key)) {
    machine.program.names.push_back(newRef(key));
    op.a = key;
    op.flags |= kKeyAdopted;
  }
  return stator_view_value(&view, index);
}

inline PyObject* keyed(Machine& machine, Op& op, const StatorView& view, Py_ssize_t used) {
  const size_t index = op.hint;
  if (index < static_cast<size_t>(used) && view.entries[index * view.key_stride] == op.a)
      [[likely]] {
    return view.values[index * view.value_stride];
  }
  bool absent = false;
  return findKey(machine, op, view, absent);
}

// Of no other dict, and of no other contents of this one.
inline const void* versionOf(const StatorView& view) {
  return reinterpret_cast<const void*>(
      static_cast<uintptr_t>(reinterpret_cast<const StatorDict*>(view.dict)->version));
}

// Whether no such key is there, for certain; remembers shared keys that do not know it.
[[gnu::noinline]] bool isAbsent(Machine& machine, Op& op, const StatorView& view) {
  if (view.keys == nullptr) return true;
  StatorView keys = view;
  const bool shared = view.keys->kind == 2;
  if (shared) {
    keys.values = keys.entries;  // asks for the key alone
    keys.value_stride = keys.key_stride;
  }
  const Py_ssize_t index =
      stator_view_find(&keys, objectOf(op.a), machine.program.hashes[op.extra]);
  if (index == -1 && shared) {
    op.b = view.keys;
    op.hint = static_cast<uint32_t>(view.keys->used);
    op.flags &= static_cast<uint8_t>(~kByVersion);
  } else if (index == -1 && view.dict != nullptr && stator_dict_versioned(view.dict)) {
    op.b = versionOf(view);
    op.flags |= kByVersion;
  }
  return index == -1 || (shared && index >= 0 && stator_view_value(&view, index) == nullptr);
}

STATOR_HOT PyObject* readStep(Machine& machine, const sources::Source& source, PyObject* base,
                              bool* unknown) {
  if (source.base != nullptr && base != nullptr && isInstanceDict(base)) {
    // An instance dict that does not exist yet holds nothing but strings; sources with such keys are compiled to kKey*.
    return source.kind == sources::SourceKind::kDictKey ? keyAt(base, source.index) : nullptr;
  }
  Ref<> keep;
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
  const bool may_raise = source.kind == sources::SourceKind::kGenericAttr ||
                         source.kind == sources::SourceKind::kAsked;
  if (may_raise) PyErr_Fetch(&type, &value, &trace);
  PyObject* found = sources::peek(source, base, machine.roots, keep, unknown);
  if (may_raise) PyErr_Restore(type, value, trace);
  if (keep) machine.keep.push_back(std::move(keep));
  return found;
}

bool sameAbcToken(PyObject* expected) {
  static PyObject* function = [] {
    Ref<> module = stealRef(importModule("_abc"));
    return module ? PyObject_GetAttrString(module.get(), "get_cache_token") : nullptr;
  }();
  Ref<> token = stealRef(function != nullptr ? PyObject_CallNoArgs(function) : nullptr);
  if (!token) PyErr_Clear();
  return token && sameConstant(token.get(), expected);
}

PyObject* tupleItem(PyObject* tuple, size_t index) {
  return tuple != nullptr && index < static_cast<size_t>(PyTuple_GET_SIZE(tuple))
             ? PyTuple_GET_ITEM(tuple, index)
             : nullptr;
}

template <bool kRecording>
STATOR_HOT const Op* interpret(Machine& machine, Op* begin, Op* end) {
  PyObject** r = machine.r;
  Recorder* recorder = machine.recorder;
  StatorView view{};
  Py_ssize_t used = 0;

#define STATOR_ENTERED()                             \
  used = view.keys != nullptr ? view.keys->used : 0; \
  if constexpr (kRecording) noteEnter(*recorder, *op, r[op->base])
#define STATOR_KEY()                                 \
  PyObject* value = keyed(machine, *op, view, used); \
  if (value == nullptr) [[unlikely]]                 \
    return op;                                       \
  if (op->dst != kNoRegister) r[op->dst] = value
#define STATOR_KEY_PASSED() \
  if constexpr (kRecording) noteKey(*recorder, *op, view, value)
#define STATOR_STEP(condition, expression)                   \
  PyObject* base = r[op->base];                              \
  if (!(condition)) [[unlikely]]                             \
    return op;                                               \
  PyObject* value = reinterpret_cast<PyObject*>(expression); \
  if (value == nullptr) [[unlikely]]                         \
    return op;                                               \
  r[op->dst] = value;                                        \
  if constexpr (kRecording) noteStep(*recorder, *op, base, value)
#define STATOR_TEST(condition)   \
  PyObject* value = r[op->base]; \
  if (!(condition)) [[unlikely]] \
    return op;                   \
  if constexpr (kRecording) noteTest(*recorder, *op, value)

  for (Op* op = begin; op != end; ++op) {
    if constexpr (kRecording) {
      if (op != begin) recorder->end(op[-1]);
      recorder->begin(*op, static_cast<uint32_t>(op - machine.program.ops.data()));
    }
    switch (op->code) {
      case Code::kGlobalState:
        if (!tensor::GlobalState::now().equals(*static_cast<const tensor::GlobalState*>(op->a)))
          return op;
        break;
      case Code::kTypeVersion: {
        TypeVersion& version = machine.program.versions[op->hint];
        const uint32_t seen = version.type->tp_version_tag;
        if (seen == version.version && seen != 0) [[likely]] {
          if constexpr (kRecording) noteVersion(*recorder, *op, version.type.get());
          break;
        }
        if (!version.lookUpAgain()) return op;
        if constexpr (kRecording) noteVersion(*recorder, *op, version.type.get());
        break;
      }
      case Code::kAbcToken:
        if (!sameAbcToken(objectOf(op->a))) return op;
        break;
      case Code::kLocal: {
        PyObject* value = machine.roots.slots[op->hint];
        if (value == nullptr) [[unlikely]]
          return op;
        r[op->dst] = value;
        break;
      }
      case Code::kRoot: {
        PyObject* value = readStep(machine, sourceOf(*op), nullptr, nullptr);
        if (value == nullptr) return op;
        r[op->dst] = value;
        // Pinned: owned by the entry. The frame's globals and builtins are compared when a record is looked for.
        if constexpr (kRecording)
          recorder->proof[op->dst] = sourceOf(*op).kind == sources::SourceKind::kPinned
                                         ? Proof::kSameObject
                                         : Proof::kSameAddress;
        break;
      }
      case Code::kStep: {
        PyObject* base = r[op->base];
        PyObject* value = readStep(machine, sourceOf(*op), base, nullptr);
        if (value == nullptr) return op;
        r[op->dst] = value;
        if constexpr (kRecording) noteStep(*recorder, *op, base, value);
        break;
      }
      case Code::kStepAbsent: {
        PyObject* base = op->base != kNoRegister ? r[op->base] : nullptr;
        bool unknown = false;
        if (readStep(machine, sourceOf(*op), base, &unknown) != nullptr || unknown) return op;
        if constexpr (kRecording) noteStep(*recorder, *op, base, nullptr);
        break;
      }
      case Code::kAttr:
      case Code::kAttrAbsent: {
        PyObject* base = r[op->base];
        PyObject* value = nullptr;
        const int found = stator_object_lookup(base, objectOf(op->a), &value);
        if (found != (op->code == Code::kAttr ? STATOR_FOUND : STATOR_MISSING)) return op;
        if (op->dst != kNoRegister) r[op->dst] = value;
        if constexpr (kRecording) noteStep(*recorder, *op, base, value);
        break;
      }
      case Code::kSlot: {
        STATOR_STEP(true, *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(base) + op->hint));
        break;
      }
      case Code::kSlotAbsent: {
        PyObject* base = r[op->base];
        if (*reinterpret_cast<PyObject**>(reinterpret_cast<char*>(base) + op->hint) != nullptr)
          return op;
        if constexpr (kRecording) noteStep(*recorder, *op, base, nullptr);
        break;
      }
      case Code::kListItem: {
        STATOR_STEP(PyList_Check(base) && op->hint < static_cast<size_t>(PyList_GET_SIZE(base)),
                    PyList_GET_ITEM(base, op->hint));
        break;
      }
      case Code::kTupleItem: {
        STATOR_STEP(PyTuple_Check(base) && op->hint < static_cast<size_t>(PyTuple_GET_SIZE(base)),
                    PyTuple_GET_ITEM(base, op->hint));
        break;
      }
      case Code::kCell: {
        STATOR_STEP(PyCell_Check(base), PyCell_GET(base));
        break;
      }
      case Code::kFunctionCode: {
        STATOR_STEP(PyFunction_Check(base), PyFunction_GET_CODE(base));
        break;
      }
      case Code::kDefault: {
        STATOR_STEP(PyFunction_Check(base), tupleItem(PyFunction_GET_DEFAULTS(base), op->hint));
        break;
      }
      case Code::kKwDefault: {
        STATOR_STEP(PyFunction_Check(base), readStep(machine, sourceOf(*op), base, nullptr));
        break;
      }
      case Code::kClosure: {
        STATOR_STEP(PyFunction_Check(base), tupleItem(PyFunction_GET_CLOSURE(base), op->hint));
        break;
      }
      case Code::kFuncGlobals: {
        STATOR_STEP(PyFunction_Check(base), PyFunction_GET_GLOBALS(base));
        break;
      }
      case Code::kInstanceDict: {
        STATOR_STEP(true, instanceDictOf(base));
        break;
      }
      case Code::kKeyAt: {
        STATOR_STEP(true, keyAt(base, op->hint));
        break;
      }
      case Code::kEnterManaged:
        stator_view_managed(&view, r[op->base]);
        STATOR_ENTERED();
        break;
      case Code::kEnterObject:
        if (!stator_view_object(&view, r[op->base])) view.keys = nullptr;
        STATOR_ENTERED();
        break;
      case Code::kEnterDict: {
        PyObject* dict = r[op->base];
        if (isInstanceDict(dict)) [[unlikely]] {
          stator_view_object(&view, ownerOfDict(dict));
        } else {
          if (!(op->flags & kKnownDict) && !PyDict_Check(dict)) return op;
          stator_view_dict(&view, dict);
        }
        STATOR_ENTERED();
        break;
      }
      case Code::kEnterType: {
        PyObject* type = r[op->base];
        if (isInstanceDict(type) || !PyType_Check(type)) [[unlikely]]
          return op;
        stator_view_dict(&view, stator_type_dict(reinterpret_cast<PyTypeObject*>(type)));
        STATOR_ENTERED();
        break;
      }
      case Code::kKeyLoad: {
        STATOR_KEY();
        STATOR_KEY_PASSED();
        break;
      }
      case Code::kKeyIs: {
        STATOR_KEY();
        if (value != op->b) [[unlikely]]
          return op;
        STATOR_KEY_PASSED();
        break;
      }
      case Code::kKeyEquals: {
        STATOR_KEY();
        if (value != op->b && !sameConstant(value, objectOf(op->b))) [[unlikely]]
          return op;
        STATOR_KEY_PASSED();
        break;
      }
      case Code::kKeyType: {
        STATOR_KEY();
        if (Py_TYPE(value) != op->b) [[unlikely]]
          return op;
        STATOR_KEY_PASSED();
        break;
      }
      case Code::kKeyEmpty: {
        STATOR_KEY();
        if (op->b != nullptr ? Py_TYPE(value) != op->b : !PyDict_Check(value)) [[unlikely]]
          return op;
        if (reinterpret_cast<PyDictObject*>(value)->ma_used != 0) [[unlikely]]
          return op;
        STATOR_KEY_PASSED();
        break;
      }
      case Code::kKeyTensor: {
        STATOR_KEY();
        if (!kRecording && machine.tensors != nullptr) {
          __builtin_prefetch(value);
          machine.tensors->push_back(tensor::TensorPair{value, &factsOf(*op)});
          break;
        }
        if (!tensor::checkFacts(factsOf(*op), value)) [[unlikely]]
          return op;
        STATOR_KEY_PASSED();
        break;
      }
      case Code::kKeyAbsent: {
        // Keys that a type's instances share only grow: not among the first n stays true.
        PyObject* value = nullptr;
        const bool known = op->flags & kByVersion
                               ? view.dict != nullptr && op->b == versionOf(view)
                               : view.keys == op->b && static_cast<size_t>(used) == op->hint;
        if (!known) {
          if (!isAbsent(machine, *op, view)) return op;
        }
        STATOR_KEY_PASSED();
        break;
      }
      case Code::kIs: {
        STATOR_TEST(value == op->b);
        break;
      }
      case Code::kIsWeak: {
        // A dead reference refers to None.
        STATOR_TEST(value == PyWeakref_GET_OBJECT(objectOf(op->b)) && value != Py_None);
        break;
      }
      case Code::kEquals: {
        STATOR_TEST(value == op->b ||
                    (!isInstanceDict(value) && sameConstant(value, objectOf(op->b))));
        break;
      }
      case Code::kType: {
        STATOR_TEST(typeOf(value) == typeOfPointer(op->b));
        break;
      }
      case Code::kLength: {
        STATOR_TEST(lengthOf(value) == static_cast<Py_ssize_t>(reinterpret_cast<intptr_t>(op->a)));
        break;
      }
      case Code::kDictKeys: {
        STATOR_TEST(hasKeys(value, objectOf(op->b)));
        break;
      }
      case Code::kDictEmpty: {
        STATOR_TEST(isDict(value) && lengthOf(value) == 0);
        break;
      }
      case Code::kTensor: {
        STATOR_TEST(!isInstanceDict(value) && tensor::checkFacts(factsOf(*op), value));
        break;
      }
      case Code::kSame: {
        STATOR_TEST(value == r[op->dst]);
        break;
      }
      case Code::kNotSame: {
        STATOR_TEST(value != r[op->dst]);
        break;
      }
      case Code::kTree: {
        Tree& tree = *machine.program.trees[op->hint];
        if (const Op* failed = tree.check(machine)) return failed;
        op = machine.program.ops.data() + tree.end - 1;
        break;
      }
    }
  }
  return nullptr;
#undef STATOR_ENTERED
#undef STATOR_KEY
#undef STATOR_KEY_PASSED
#undef STATOR_STEP
#undef STATOR_TEST
}

}  // namespace

bool TypeVersion::lookUpAgain() {
  if (strict) return false;
  const PyObject* bases = type->tp_mro;
  const Py_ssize_t count = bases != nullptr ? PyTuple_GET_SIZE(bases) : 0;
  if (mro.empty()) {
    for (Py_ssize_t i = 0; i < count; ++i) mro.push_back(PyTuple_GET_ITEM(bases, i));
  }
  if (static_cast<Py_ssize_t>(mro.size()) != count) return false;
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (mro[static_cast<size_t>(i)] != PyTuple_GET_ITEM(bases, i)) return false;
  }
  for (const TypeLookup& lookup : names) {
    if (stator_type_lookup(type.get(), lookup.name.get()) != lookup.found.get()) return false;
  }
  for (const OwnDescriptor& mine : own) {
    const auto seen = OwnDescriptor::of(mine.name, stator_type_lookup(type.get(), mine.name.get()));
    if (seen.kind != mine.kind || seen.parts != mine.parts) return false;
  }
  // 0 when the type cannot have a version any more: then every check looks all names up.
  version = stator_type_version(type.get());
  return true;
}

STATOR_HOT const Op* run(Machine& machine, Op* begin, Op* end) {
  return interpret<false>(machine, begin, end);
}
const Op* runRecording(Machine& machine, Op* begin, Op* end) {
  return interpret<true>(machine, begin, end);
}

}  // namespace stator::guards
