// The flat guard program, private to this room: operations over registers, one for each source that is read, in one
// array.
//
// A dict (or an object's attributes) is entered once and then read by key: `kEnter*` finds its keys and values, the
// `kKey*` behind it each know at which index their key stood the last time. If the key still stands there, a read is
// two loads and a compare.
#pragma once

#include "base/ref.h"
#include "guards/guard.h"
#include "python/objects.h"
#include "sources/source.h"
#include "tensor/tensor_guard.h"

#include <array>
#include <memory>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace stator::guards {

enum class Code : uint8_t {
#define STATOR_OP(code, method) code,
#include "guards/ops.def"
#undef STATOR_OP
};

// The op that tests what a guard about a value says.
constexpr Code testOf(GuardKind kind) {
  constexpr int kTests = static_cast<int>(Code::kIs) - static_cast<int>(GuardKind::kIs);
  return static_cast<Code>(static_cast<int>(kind) + kTests);
}
static_assert(testOf(GuardKind::kTensor) == Code::kTensor);

constexpr bool isEnter(Code code) {
  return code >= Code::kEnterManaged && code <= Code::kEnterType;
}
constexpr bool isKey(Code code) { return code >= Code::kKeyLoad && code <= Code::kKeyAbsent; }

constexpr uint32_t kNoRegister = UINT32_MAX;
constexpr uint32_t kNoGuard = UINT32_MAX;
// what it reads changes from call to call: for kEnter* the version proves nothing, others run anew
constexpr uint8_t kVolatile = 1;
constexpr uint8_t kKnownDict = 2;  // kEnterDict: `base` was found to be a dict before
// kEnterManaged, kEnterObject: the exact type of `base` was tested before
constexpr uint8_t kTypeTested = 4;
// kKey*: `a` is the very object that a dict was found to have as its key
constexpr uint8_t kKeyAdopted = 8;
// kKeyAbsent: `b` is the version of the dict that did not have the key, not shared keys
constexpr uint8_t kByVersion = 16;

struct Op {
  Code code;
  uint8_t flags = 0;
  uint16_t misses = 0;  // how often the memory it relied on was found changed
  uint32_t base = kNoRegister;
  uint32_t dst = kNoRegister;
  uint32_t hint = 0;
  uint32_t extra = 0;
  const void* a = nullptr;
  const void* b = nullptr;
};
inline const sources::Source& sourceOf(const Op& op) {
  return *static_cast<const sources::Source*>(op.a);
}
inline const tensor::TensorFacts& factsOf(const Op& op) {
  return *static_cast<const tensor::TensorFacts*>(op.b);
}

// One type: its version, and what to look up again when that has changed.
struct TypeVersion {
  Ref<PyTypeObject> type;
  uint32_t version = 0;
  bool strict = false;  // no names: any change counts
  std::vector<TypeLookup> names;
  std::vector<const void*> mro;  // classes, borrowed: __bases__ may be set
  // A descriptor that holds the class (`__slots__`) or functions of its body, found under the name: not held, but known
  // by what it holds.
  struct OwnDescriptor {
    Ref<> name;
    PyTypeObject* kind = nullptr;
    std::array<PyObject*, 3> parts = {};  // borrowed
    static OwnDescriptor of(const Ref<>& name, PyObject* descriptor);
    bool operator==(const OwnDescriptor& other) const {
      return name.get() == other.name.get() && kind == other.kind && parts == other.parts;
    }
  };
  std::vector<OwnDescriptor> own;
  bool lookUpAgain();  // true: all names still lead to the same; remembers the new version
};

class Tree;

// References to objects that a program makes and drops as it runs (sources/short_lived.h), which it must be free to
// drop: they are given up, and with the first such object that goes the guards can hold no more. The pointers stay, for
// comparisons and explanations.
class LooseReferences {
 public:
  explicit LooseReferences(GuardProgram::Impl& program) : program_(program) {}
  ~LooseReferences();
  LooseReferences(const LooseReferences&) = delete;
  void loosen(const sources::SourceSet& sources);  // all that the program has
  bool contains(const void* reference) const { return given_up_.count(reference) != 0; }

 private:
  void watch(PyObject* object);
  template <class T>
  void giveUp(Ref<T>& reference);
  void loosenType(TypeVersion& version);

  GuardProgram::Impl& program_;
  std::unordered_map<PyObject*, Ref<>> watched_;  // with the weak references
  std::unordered_set<const void*> given_up_;
  std::vector<Ref<>*> objects_;
  std::vector<Ref<PyTypeObject>*> types_;
};

struct GuardProgram::Impl {
  Impl();

  std::vector<Guard> guards;
  std::vector<Op> ops;
  // For explanations, by position of the op: the source it reads or tests, and its guard if it has one.
  struct Origin {
    const sources::Source* source = nullptr;
    uint32_t guard = kNoGuard;
  };
  std::vector<Origin> origins;
  // Where checks failed lately is asked first: of many entries that differ deep down, those that do not fit say so at
  // once. Only long programs look for it, and one that holds for a while is let go.
  uint32_t suspect = kNoGuard;
  uint16_t failed_in_a_row = 0;
  uint16_t suspect_held = 0;
  // what the caller wants, then the symbols of `relations`
  std::vector<const sources::Source*> wanted;
  size_t asked = 0;  // how many of them are the caller's
  Relations relations;
  std::vector<uint32_t> wanted_registers;
  bool wanted_in_a_row = true;  // the registers of those that the caller wants
  std::vector<Py_hash_t> hashes;
  std::vector<TypeVersion> versions;
  std::vector<std::unique_ptr<Tree>> trees;
  std::vector<Ref<>> names;  // keys that no source owns (`_modules` ...)
  std::vector<Ref<>> weakrefs;
  LooseReferences loose;
  tensor::TensorFactsSet facts;
  uint32_t registers = 0;
  bool replay = true;
  GuardProgram::Counts counts;
  bool contradiction = false;             // the guards cannot all hold
  bool outlived = false;                  // likewise: something that they are about is gone
  std::vector<tensor::TensorPair> pairs;  // scratch, likewise
  std::unique_ptr<PyObject*[]> spare;     // registers of the last check, for the next

  ~Impl();
};

// Fills everything but `guards` and `wanted`, which are there already. `sources`: how many there are, for their ids.
void compile(GuardProgram::Impl& program, size_t sources);

struct Recorder;

// What one run works on.
struct Machine {
  GuardProgram::Impl& program;
  const sources::Roots& roots;
  PyObject** r;
  std::vector<Ref<>> keep;  // values that did not exist before they were asked for
  bool replay = true;       // may use what trees remember
  bool exact = false;       // name the very op that fails
  Recorder* recorder = nullptr;
  // Whether other work has pushed out of the caches what trees remember; asked by the first that has much to read.
  std::optional<bool> cold;
  // Inside a tree the tensors are only collected: checked together at its end, the waits for their memory overlap.
  std::vector<tensor::TensorPair>* tensors = nullptr;
};

// Runs [begin, end); null, or the op that failed.
const Op* run(Machine& machine, Op* begin, Op* end);
const Op* runRecording(Machine& machine, Op* begin, Op* end);

}  // namespace stator::guards
