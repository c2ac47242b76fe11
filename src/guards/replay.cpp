#include "guards/replay.h"

#include "base/hot.h"

#include <algorithm>

namespace stator::guards {

namespace {

constexpr size_t kRecords = 32;
constexpr int kStrikes = 8;
constexpr int kRest = 64;
constexpr size_t kColdLines = 256;
constexpr size_t kProbes = 4;
constexpr uint64_t kColdCycles = 600;
constexpr uint16_t kMissesBeforeVolatile = 2;

bool usesDstAsOperand(Code code) { return code == Code::kSame || code == Code::kNotSame; }

#if defined(__x86_64__)
uint64_t cycles() {
  __builtin_ia32_lfence();
  const uint64_t now = __builtin_ia32_rdtsc();
  __builtin_ia32_lfence();
  return now;
}
#else
uint64_t cycles() { return 0; }  // never cold
#endif

// If a few words of the record itself take long to come, other work has pushed the tree's memory out of the caches. Then all of it is
// asked for at once and in the order of addresses, which memory serves best; an address that is gone is asked for in vain.
STATOR_HOT void fetchIfCold(const Record& record) {
  if (record.lines.empty()) return;
  const uint64_t before = cycles();
  for (size_t i = 0; i < kProbes; ++i)
    (void)*static_cast<const volatile uintptr_t*>(&record.lines[i * record.lines.size() / kProbes]);
  if (cycles() - before < kColdCycles) return;
  for (uintptr_t line : record.lines) __builtin_prefetch(reinterpret_cast<const void*>(line), 0, 2);
}

}  // namespace

void Recorder::type(PyObject* object, Proof of) {
  // An object proven to be the same one has its type still, unless __class__ can be assigned.
  if (of == Proof::kSameObject && !stator_class_is_assignable(Py_TYPE(object))) return;
  word(&object->ob_type);
}

void Recorder::anewKey(const Op& code) {
  if (!enter_copied) {
    anew(*enter);
    enter_copied = true;
  }
  anew(code);
}

void Record::sortFacts(const std::vector<uint32_t>& levels) {
  std::vector<uint32_t> order(facts.size());
  for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](uint32_t left, uint32_t right) {
    return levels[left] != levels[right] ? levels[left] < levels[right]
                                         : facts[left].at < facts[right].at;
  });
  std::vector<Fact> sorted;
  std::vector<uint32_t> sorted_ops;
  sorted.reserve(order.size());
  sorted_ops.reserve(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    if (i != 0 && levels[order[i]] != levels[order[i - 1]])
      level_ends.push_back(static_cast<uint32_t>(i));
    sorted.push_back(facts[order[i]]);
    sorted_ops.push_back(ops[order[i]]);
  }
  level_ends.push_back(static_cast<uint32_t>(order.size()));
  facts = std::move(sorted);
  ops = std::move(sorted_ops);
}

void Record::sortLines() {
  constexpr size_t kLine = 64;
  std::vector<uintptr_t> found;
  found.reserve(facts.size() + 6 * tensors.size());
  for (const Fact& fact : facts)
    found.push_back(reinterpret_cast<uintptr_t>(fact.at) & ~(kLine - 1));
  for (size_t i = 0; i < tensors.size(); ++i) {
    found.push_back(reinterpret_cast<uintptr_t>(tensors[i].object) & ~(kLine - 1));
    found.push_back(reinterpret_cast<uintptr_t>(places[i].autograd) & ~(kLine - 1));
    for (size_t part = 0; part < tensor::kImplBytes; part += kLine)
      found.push_back((reinterpret_cast<uintptr_t>(places[i].impl) + part) & ~(kLine - 1));
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  if (found.size() >= kColdLines) lines = std::move(found);
}

STATOR_HOT std::shared_ptr<Record> Tree::find(PyObject* root, PyObject* builtins) {
  for (size_t i = 0; i < records_.size(); ++i) {
    if (records_[i]->root != root || records_[i]->builtins != builtins) continue;
    if (i != 0)
      std::rotate(records_.begin(), records_.begin() + static_cast<std::ptrdiff_t>(i),
                  records_.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    return records_.front();
  }
  return nullptr;
}

STATOR_HOT bool Tree::factsHold(Machine& machine, Record& record) {
  const Fact* fact = record.facts.data();
  fetchIfCold(record);
  for (uint32_t level_end : record.level_ends) {
    const Fact* end = record.facts.data() + level_end;
    // One branch for several, whose loads overlap.
    constexpr std::ptrdiff_t kStride = 8;
    for (; end - fact >= kStride; fact += kStride) {
      uint64_t changed = 0;
      for (std::ptrdiff_t i = 0; i < kStride; ++i) changed |= *fact[i].at ^ fact[i].word;
      if (changed != 0) [[unlikely]]
        break;
    }
    while (fact != end && *fact->at == fact->word) ++fact;
    if (fact != end) break;
  }
  if (fact == record.facts.data() + record.facts.size()) return true;
  Op& op = machine.program.ops[record.ops[static_cast<size_t>(fact - record.facts.data())]];
  if (++op.misses >= kMissesBeforeVolatile) op.flags |= kVolatile;
  return false;
}

STATOR_HOT bool Tree::restHolds(Machine& machine, Record& record) {
  // With lines their memory was fetched already, if it had to be.
  if (!tensor::checkAllFacts(record.tensors.data(), record.tensors.size(), record.lines.empty()))
    return false;
  for (const auto& [index, value] : record.registers) machine.r[index] = value;
  if (record.rest.empty()) return true;
  return run(machine, record.rest.data(), record.rest.data() + record.rest.size()) == nullptr;
}

const Op* Tree::record(Machine& machine) {
  auto record = std::make_shared<Record>();
  record->root = rootOf(machine);
  record->builtins = builtinsOf(machine);
  Recorder recorder(*record, machine.program.registers);
  if (root_ != kNoRegister) recorder.proof[root_] = Proof::kSameAddress;
  Recorder* outer = std::exchange(machine.recorder, &recorder);
  Op* ops = machine.program.ops.data();
  const Op* failed = runRecording(machine, ops + begin, ops + end);
  machine.recorder = outer;
  if (failed != nullptr) return failed;
  std::vector<uint32_t> needed = exported_;
  for (const Op& op : record->rest) {
    if (op.base != kNoRegister) needed.push_back(op.base);
    if (usesDstAsOperand(op.code)) needed.push_back(op.dst);
  }
  std::sort(needed.begin(), needed.end());
  needed.erase(std::unique(needed.begin(), needed.end()), needed.end());
  for (uint32_t index : needed) {
    if (recorder.proof[index] != Proof::kNone)
      record->registers.emplace_back(index, machine.r[index]);
  }
  record->sortFacts(recorder.levels);
  record->sortLines();
  if (records_.size() >= kRecords) records_.pop_back();
  records_.insert(records_.begin(), std::move(record));
  ++machine.program.counts.recorded;
  return nullptr;
}

const Op* Tree::plain(Machine& machine) {
  Op* ops = machine.program.ops.data();
  if (machine.exact) return run(machine, ops + begin, ops + end);
  std::vector<tensor::TensorPair> pairs = std::move(machine.program.pairs);
  pairs.clear();
  machine.tensors = &pairs;
  const Op* failed = run(machine, ops + begin, ops + end);
  machine.tensors = nullptr;
  if (failed == nullptr && !tensor::checkAllFacts(pairs.data(), pairs.size())) failed = ops + begin;
  machine.program.pairs = std::move(pairs);
  return failed;
}

STATOR_HOT const Op* Tree::check(Machine& machine) {
  Op* ops = machine.program.ops.data();
  if (!machine.replay) return plain(machine);
  if (std::shared_ptr<Record> known = find(rootOf(machine), builtinsOf(machine))) {
    if (factsHold(machine, *known)) {
      strikes_ = rest_ = 0;
      ++machine.program.counts.replayed;
      return restHolds(machine, *known) ? nullptr : ops + begin;
    }
    std::erase(records_, known);
  }
  if (rest_ > 0) {
    --rest_;
    return plain(machine);
  }
  if (++strikes_ >= kStrikes) {
    strikes_ = kStrikes / 2;
    rest_ = kRest;
  }
  return record(machine);
}

}  // namespace stator::guards
