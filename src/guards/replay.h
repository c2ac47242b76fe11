// The second level of the guard program: a subtree that was found good is remembered as the memory that said so, a list
// of (address, word). As long as every word stands, all facts of the subtree hold: a dict by its version tag, an object
// by its type, its dict and its values, a list by its array. CPython gives every change of a dict a number of its own,
// so a version is proof without the dict's address.
//
// No object is kept alive for that. Each address was reached through words of a lower level, and words are compared
// level by level: where all words below stand unchanged, what the next ones lie in is alive. Within a level the order
// is free, so that words are compared in the order of their addresses and several at a time. Tensors' facts and what
// has no version are checked anew each time.
//
// Where somebody tells of changes (watch.h), words that cannot change untold are looked at only when something was
// told.
#pragma once

#include "guards/program.h"
#include "guards/watch.h"
#include "tensor/steady_tensors.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace stator::guards {

struct Fact {
  const uint64_t* at;
  uint64_t word;
};

// Words in the order of their levels, within a level in that of their addresses.
struct Facts {
  std::vector<Fact> facts;
  std::vector<uint32_t> ops;         // for each fact, the op that relied on it
  std::vector<uint32_t> level_ends;  // where each level of the facts ends
  size_t firstChanged() const;       // its index; the number of them: none
};

struct Record {
  PyObject* root = nullptr;      // an address, never followed before its words are compared
  PyObject* builtins = nullptr;  // likewise, for a tree over the process
  Facts all;
  std::unique_ptr<Watch> watch;  // null: nobody tells of changes
  Facts untold;                  // those of them that have to be looked at all the same
  struct Seen {
    tensor::TensorPair pair;
    bool same_object;
  };
  std::vector<Seen> seen;                   // the tensors, and how far they are known
  std::vector<tensor::TensorPair> tensors;  // those of one kind together
  tensor::SteadyTensors steady;             // most of them
  std::vector<tensor::TensorPair> others;   // the rest
  int settled = 0;                          // how often `steady` was made
  std::vector<Op> rest;                     // ops to run anew
  // Cache lines behind all that, by address; empty if there are few.
  std::vector<uintptr_t> lines;
  void sortTensors();
  void sortSteady();  // the tensors have just passed
  void sortLines();
  bool tensorsHold(bool cold);
  // that `rest` and the program behind the tree read
  struct Run {
    uint32_t first;  // register
    std::vector<PyObject*> values;
  };
  std::vector<Run> registers;
  std::vector<Ref<>> constants;  // immutable values whose address is taken for their contents
};

// How far a register's value is proven by the words recorded so far.
enum class Proof : uint8_t {
  kSameObject,   // the very object of the recording
  kSameAddress,  // alive, at the same address; its contents have to be recorded
  kNone,         // not recorded: whoever needs it runs anew
};

// Takes the words down while the ops run (interpret.cpp).
struct Recorder {
  Record& record;
  std::vector<Proof> proof;  // by register
  uint32_t op = 0;
  struct Noted {
    Fact fact;
    uint32_t op;
    uint32_t level;
    bool told;
  };
  std::vector<Noted> facts;
  std::vector<uint32_t> register_level;  // of the words that are read through the register
  uint32_t level = 0;                    // of the next word
  uint32_t view_level = 0;
  // Of the dict that is entered at present.
  Proof view = Proof::kNone;
  bool versioned = false;
  const Op* enter = nullptr;
  bool enter_copied = false;
  uint32_t list = kNoRegister;  // the list whose array was noted last
  uint32_t list_level = 0;      // of the words in that array

  explicit Recorder(Record& into, size_t registers)
      : record(into), proof(registers, Proof::kNone), register_level(registers, 0) {}
  // `told`: the record's watch tells before it changes.
  template <class T>
  void word(const T* at, bool told = false) {
    static_assert(sizeof(T) == 8);
    facts.push_back(
        Noted{Fact{reinterpret_cast<const uint64_t*>(at), *reinterpret_cast<const uint64_t*>(at)},
              op, level++, told});  // the next word of the same op may be reached through this one
  }
  // A word that tells of the contents of a dict.
  template <class T>
  void dictWord(PyObject* dict, const T* at) {
    if (record.watch) record.watch->add(dict);
    word(at, record.watch != nullptr);
  }
  // Whether an object's class and dict are told of: one that may be another object at the same address was made so
  // without a word.
  bool tellsOf(PyObject* object, Proof of) {
    return record.watch && of == Proof::kSameObject && record.watch->tellsOf(Py_TYPE(object));
  }
  void dictSlot(PyObject* object, PyObject** slot, Proof of);
  void finish();  // all words are noted: sorts them into the record
  void begin(const Op& code, uint32_t index) {
    op = index;
    level = isKey(code.code)           ? view_level
            : code.base != kNoRegister ? register_level[code.base]
                                       : 0;
  }
  void end(const Op& code) {
    if (isEnter(code.code)) view_level = level;
    if (code.dst != kNoRegister && code.code != Code::kSame && code.code != Code::kNotSame)
      register_level[code.dst] = level;
    // What is read of an object behind a test of its type relies on the test.
    if (code.code == Code::kType || code.code == Code::kLength) register_level[code.base] = level;
  }
  void type(PyObject* object, Proof of);
  void anew(const Op& code) { record.rest.push_back(code); }
  void anewKey(const Op& code);
  void tensor(PyObject* object, const tensor::TensorFacts& known, Proof of) {
    record.seen.push_back(Record::Seen{{object, &known}, of == Proof::kSameObject});
  }
};

// Behind an op that has passed (record.cpp).
void noteEnter(Recorder& recorder, const Op& op, PyObject* base);
void noteKey(Recorder& recorder, const Op& op, const StatorView& view, PyObject* value);
void noteTest(Recorder& recorder, const Op& op, PyObject* value);
void noteStep(Recorder& recorder, const Op& op, PyObject* base, PyObject* value);
void noteVersion(Recorder& recorder, const Op& op, PyTypeObject* type);

class Tree {
 public:
  // A root of kNoRegister: a tree over the process, whose roots are the frame's globals and builtins, types and pinned
  // objects.
  Tree(uint32_t root, size_t first) : root_(root), begin(first), end(first) {}
  const Op* check(Machine& machine);  // null, or the op that failed
  std::vector<uint32_t>& exported() { return exported_; }

 private:
  uint32_t root_;

 public:
  size_t begin, end;  // ops

 private:
  PyObject* rootOf(const Machine& machine) const {
    return root_ != kNoRegister ? machine.r[root_] : machine.roots.globals;
  }
  PyObject* builtinsOf(const Machine& machine) const {
    return root_ != kNoRegister ? nullptr : machine.roots.builtins;
  }
  std::shared_ptr<Record> find(PyObject* root, PyObject* builtins);
  bool factsHold(Machine& machine, Record& record);
  bool restHolds(Machine& machine, Record& record);
  const Op* record(Machine& machine);
  const Op* plain(Machine& machine);

  std::vector<uint32_t> exported_;                // registers that ops behind the tree read
  std::vector<std::shared_ptr<Record>> records_;  // most recently used first
  int strikes_ = 0;                               // recordings that served nobody, in a row
  int rest_ = 0;                                  // calls to go without recording
};

}  // namespace stator::guards
