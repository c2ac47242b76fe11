// Runs guard programs: one body for the plain check and for the check that takes down the memory it relied on
// (replay.h).
#include "base/check.h"
#include "base/error_aside.h"
#include "base/hot.h"
#include "base/imports.h"
#include "guards/facts.h"
#include "guards/kinds.h"
#include "guards/program.h"
#include "guards/replay.h"
#include "python/fields.h"
#include "python/types.h"

namespace stator::guards {

namespace {

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
  std::optional<ErrorKept> kept;
  const bool may_raise = source.kind == sources::SourceKind::kGenericAttr ||
                         source.kind == sources::SourceKind::kAsked;
  if (may_raise) kept.emplace();
  PyObject* found = sources::peek(source, base, machine.roots, keep, unknown);
  kept.reset();
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

PyObject* itemOf(PyObject* tuple, size_t index) {
  return tuple != nullptr && index < static_cast<size_t>(PyTuple_GET_SIZE(tuple))
             ? PyTuple_GET_ITEM(tuple, index)
             : nullptr;
}

#define STATOR_OP_METHOD [[gnu::always_inline]] inline

// One run over ops: a method for each (ops.def), which says whether what it asks for holds, and takes down what it
// relied on if asked to.
template <bool kRecording>
class Check {
 public:
  // The view lies outside: what is here is to stay in registers.
  Check(Machine& machine, StatorView& view)
      : machine_(machine), r_(machine.r), recorder_(machine.recorder), view_(view) {}

  STATOR_OP_METHOD const Op* run(Op* begin, Op* end) {
    for (Op* op = begin; op != end; ++op) {
      if constexpr (kRecording) {
        if (op != begin) recorder_->end(op[-1]);
        recorder_->begin(*op, static_cast<uint32_t>(op - machine_.program.ops.data()));
      }
      switch (op->code) {
#define STATOR_OP(code, method)   \
  case Code::code:                \
    if (!method(op)) [[unlikely]] \
      return op;                  \
    break;
#include "guards/ops.def"
#undef STATOR_OP
      }
    }
    return nullptr;
  }

 private:
  // --- facts of the process
  STATOR_OP_METHOD bool globalState(Op* op) {
    return tensor::GlobalState::now().equals(*static_cast<const tensor::GlobalState*>(op->a));
  }
  STATOR_OP_METHOD bool typeVersion(Op* op) {
    TypeVersion& version = machine_.program.versions[op->hint];
    const uint32_t seen = stator_type_version_field(version.type.get())[0];
    if (seen != version.version || seen == 0) [[unlikely]] {
      if (!version.lookUpAgain()) return false;
    }
    if constexpr (kRecording) noteVersion(*recorder_, *op, version.type.get());
    return true;
  }
  STATOR_OP_METHOD bool abcToken(Op* op) { return sameAbcToken(objectOf(op->a)); }

  // --- reading into a register
  STATOR_OP_METHOD bool local(Op* op) {
    PyObject* value = machine_.roots.slots[op->hint];
    if (value == nullptr) [[unlikely]]
      return false;
    r_[op->dst] = value;
    return true;
  }
  STATOR_OP_METHOD bool root(Op* op) {
    PyObject* value = readStep(machine_, sourceOf(*op), nullptr, nullptr);
    if (value == nullptr) return false;
    r_[op->dst] = value;
    // Pinned: owned by the entry. The frame's globals and builtins are compared when a record is looked for.
    if constexpr (kRecording)
      recorder_->proof[op->dst] = sourceOf(*op).kind == sources::SourceKind::kPinned
                                      ? Proof::kSameObject
                                      : Proof::kSameAddress;
    return true;
  }
  // What `read` finds in the base; null where it is not there.
  template <class Read>
  STATOR_OP_METHOD bool stepBy(Op* op, Read&& read) {
    PyObject* base = r_[op->base];
    PyObject* value = read(base);
    if (value == nullptr) [[unlikely]]
      return false;
    r_[op->dst] = value;
    if constexpr (kRecording) noteStep(*recorder_, *op, base, value);
    return true;
  }
  STATOR_OP_METHOD bool step(Op* op) {
    return stepBy(op,
                  [&](PyObject* base) { return readStep(machine_, sourceOf(*op), base, nullptr); });
  }
  STATOR_OP_METHOD bool stepAbsent(Op* op) {
    PyObject* base = op->base != kNoRegister ? r_[op->base] : nullptr;
    bool unknown = false;
    if (readStep(machine_, sourceOf(*op), base, &unknown) != nullptr || unknown) return false;
    if constexpr (kRecording) noteStep(*recorder_, *op, base, nullptr);
    return true;
  }
  STATOR_OP_METHOD bool attribute(Op* op) {
    PyObject* base = r_[op->base];
    PyObject* value = nullptr;
    const int found = stator_object_lookup(base, objectOf(op->a), &value);
    if (found != (op->code == Code::kAttr ? STATOR_FOUND : STATOR_MISSING)) return false;
    if (op->dst != kNoRegister) r_[op->dst] = value;
    if constexpr (kRecording) noteStep(*recorder_, *op, base, value);
    return true;
  }
  static PyObject*& slotIn(PyObject* base, const Op& op) {
    return *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(base) + op.hint);
  }
  STATOR_OP_METHOD bool slot(Op* op) {
    return stepBy(op, [&](PyObject* base) { return slotIn(base, *op); });
  }
  STATOR_OP_METHOD bool slotAbsent(Op* op) {
    PyObject* base = r_[op->base];
    if (slotIn(base, *op) != nullptr) return false;
    if constexpr (kRecording) noteStep(*recorder_, *op, base, nullptr);
    return true;
  }
  STATOR_OP_METHOD bool listItem(Op* op) {
    return stepBy(op, [&](PyObject* base) -> PyObject* {
      const bool there =
          PyList_Check(base) && op->hint < static_cast<size_t>(PyList_GET_SIZE(base));
      return there ? PyList_GET_ITEM(base, op->hint) : nullptr;
    });
  }
  STATOR_OP_METHOD bool tupleItem(Op* op) {
    return stepBy(
        op, [&](PyObject* base) { return PyTuple_Check(base) ? itemOf(base, op->hint) : nullptr; });
  }
  STATOR_OP_METHOD bool cell(Op* op) {
    return stepBy(op, [](PyObject* base) -> PyObject* {
      return PyCell_Check(base) ? PyCell_GET(base) : nullptr;
    });
  }
  template <class Read>
  STATOR_OP_METHOD bool ofFunction(Op* op, Read&& read) {
    return stepBy(op, [&](PyObject* base) -> PyObject* {
      return PyFunction_Check(base) ? read(base) : nullptr;
    });
  }
  STATOR_OP_METHOD bool functionCode(Op* op) {
    return ofFunction(op, [](PyObject* function) { return PyFunction_GET_CODE(function); });
  }
  STATOR_OP_METHOD bool functionDefault(Op* op) {
    return ofFunction(op, [&](PyObject* function) {
      return itemOf(PyFunction_GET_DEFAULTS(function), op->hint);
    });
  }
  STATOR_OP_METHOD bool keywordDefault(Op* op) {
    return ofFunction(op, [&](PyObject* function) {
      return readStep(machine_, sourceOf(*op), function, nullptr);
    });
  }
  STATOR_OP_METHOD bool closure(Op* op) {
    return ofFunction(
        op, [&](PyObject* function) { return itemOf(PyFunction_GET_CLOSURE(function), op->hint); });
  }
  STATOR_OP_METHOD bool functionGlobals(Op* op) {
    return ofFunction(op, [](PyObject* function) { return PyFunction_GET_GLOBALS(function); });
  }
  STATOR_OP_METHOD bool instanceDict(Op* op) {
    return stepBy(op, [](PyObject* base) { return instanceDictOf(base); });
  }
  STATOR_OP_METHOD bool nthKey(Op* op) {
    return stepBy(op, [&](PyObject* base) { return keyAt(base, op->hint); });
  }

  // --- entering a dict
  STATOR_OP_METHOD bool entered(Op* op) {
    used_ = view_.keys != nullptr ? view_.keys->used : 0;
    if constexpr (kRecording) noteEnter(*recorder_, *op, r_[op->base]);
    return true;
  }
  STATOR_OP_METHOD bool enterManaged(Op* op) {
    stator_view_managed(&view_, r_[op->base]);
    return entered(op);
  }
  STATOR_OP_METHOD bool enterObject(Op* op) {
    if (!stator_view_object(&view_, r_[op->base])) view_.keys = nullptr;
    return entered(op);
  }
  STATOR_OP_METHOD bool enterDict(Op* op) {
    PyObject* dict = r_[op->base];
    if (isInstanceDict(dict)) [[unlikely]] {
      stator_view_object(&view_, ownerOfDict(dict));
    } else {
      if (!(op->flags & kKnownDict) && !PyDict_Check(dict)) return false;
      stator_view_dict(&view_, dict);
    }
    return entered(op);
  }
  STATOR_OP_METHOD bool enterType(Op* op) {
    PyObject* type = r_[op->base];
    if (isInstanceDict(type) || !PyType_Check(type)) [[unlikely]]
      return false;
    stator_view_dict(&view_, stator_type_dict(reinterpret_cast<PyTypeObject*>(type)));
    return entered(op);
  }

  // --- one key of it
  template <class Holds>
  STATOR_OP_METHOD bool keyThat(Op* op, Holds&& holds) {
    PyObject* value = keyed(machine_, *op, view_, used_);
    if (value == nullptr) [[unlikely]]
      return false;
    if (op->dst != kNoRegister) r_[op->dst] = value;
    if (!holds(value)) [[unlikely]]
      return false;
    if constexpr (kRecording) noteKey(*recorder_, *op, view_, value);
    return true;
  }
  STATOR_OP_METHOD bool keyLoad(Op* op) {
    return keyThat(op, [](PyObject*) { return true; });
  }
  STATOR_OP_METHOD bool keyIs(Op* op) {
    return keyThat(op, [&](PyObject* value) { return value == op->b; });
  }
  STATOR_OP_METHOD bool keyEquals(Op* op) {
    return keyThat(op, [&](PyObject* value) {
      return value == op->b || sameConstant(value, objectOf(op->b));
    });
  }
  STATOR_OP_METHOD bool keyType(Op* op) {
    return keyThat(op, [&](PyObject* value) { return Py_TYPE(value) == op->b; });
  }
  STATOR_OP_METHOD bool keyEmpty(Op* op) {
    return keyThat(op, [&](PyObject* value) {
      const bool dict = op->b != nullptr ? Py_TYPE(value) == op->b : PyDict_Check(value);
      return dict && PyDict_GET_SIZE(value) == 0;
    });
  }
  STATOR_OP_METHOD bool keyTensor(Op* op) {
    return keyThat(op, [&](PyObject* value) {
      if (!kRecording && machine_.tensors != nullptr) {
        __builtin_prefetch(value);
        machine_.tensors->push_back(tensor::TensorPair{value, &factsOf(*op)});
        return true;
      }
      return tensor::checkFacts(factsOf(*op), value);
    });
  }
  STATOR_OP_METHOD bool keyAbsent(Op* op) {
    // Keys that a type's instances share only grow: not among the first n stays true.
    const bool known = op->flags & kByVersion
                           ? view_.dict != nullptr && op->b == versionOf(view_)
                           : view_.keys == op->b && static_cast<size_t>(used_) == op->hint;
    if (!known && !isAbsent(machine_, *op, view_)) return false;
    if constexpr (kRecording) noteKey(*recorder_, *op, view_, nullptr);
    return true;
  }

  // --- tests of a register
  template <class Holds>
  STATOR_OP_METHOD bool that(Op* op, Holds&& holds) {
    PyObject* value = r_[op->base];
    if (!holds(value)) [[unlikely]]
      return false;
    if constexpr (kRecording) noteTest(*recorder_, *op, value);
    return true;
  }
  template <GuardKind kKind>
  STATOR_OP_METHOD bool holds(Op* op) {
    return that(op, [&](PyObject* value) { return Kind<kKind>::holds(value, *op); });
  }
  STATOR_OP_METHOD bool same(Op* op) {
    return that(op, [&](PyObject* value) { return value == r_[op->dst]; });
  }
  STATOR_OP_METHOD bool notSame(Op* op) {
    return that(op, [&](PyObject* value) { return value != r_[op->dst]; });
  }

  // Goes on behind the tree, or stays at the op in it that fails.
  STATOR_OP_METHOD bool tree(Op*& op) {
    Tree& tree = *machine_.program.trees[op->hint];
    if (const Op* failed = tree.check(machine_)) {
      op = machine_.program.ops.data() + (failed - machine_.program.ops.data());
      return false;
    }
    op = machine_.program.ops.data() + tree.end - 1;
    return true;
  }

  Machine& machine_;
  PyObject** const r_;
  Recorder* const recorder_;
  StatorView& view_;
  Py_ssize_t used_ = 0;
};

template <bool kRecording>
STATOR_HOT const Op* interpret(Machine& machine, Op* begin, Op* end) {
  StatorView view{};
  return Check<kRecording>(machine, view).run(begin, end);
}

}  // namespace

bool TypeVersion::lookUpAgain() {
  if (strict) return false;
  const PyObject* bases = stator_type_mro(type.get());
  const Py_ssize_t count = PyTuple_GET_SIZE(bases);
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
