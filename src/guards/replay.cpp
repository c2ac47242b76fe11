#include "guards/replay.h"

#include "base/hot.h"

#include <algorithm>

namespace stator::guards {

namespace {

constexpr size_t kRecords = 32;
constexpr int kStrikes = 8;
constexpr int kRest = 64;
constexpr size_t kColdLines = 64;
constexpr size_t kLine = 64;
constexpr size_t kProbes = 4;
constexpr uint64_t kColdCycles = 600;
constexpr uint16_t kMissesBeforeVolatile = 2;
constexpr int kMostSettled = 16;

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

// If a few words of the record itself take long to come, other work has pushed the tree's memory out of the caches.
STATOR_HOT bool isCold(const Record& record) {
  const uint64_t before = cycles();
  for (size_t i = 0; i < kProbes; ++i)
    (void)*static_cast<const volatile uintptr_t*>(&record.lines[i * record.lines.size() / kProbes]);
  return cycles() - before >= kColdCycles;
}

// Then all of it is asked for at once and in the order of addresses, which memory serves best; an address that is gone
// is asked for in vain.
STATOR_HOT void fetchIfCold(Machine& machine, const Record& record) {
  if (record.lines.empty()) return;
  if (!machine.cold.has_value()) machine.cold = isCold(record);
  if (!*machine.cold) return;
  for (uintptr_t line : record.lines) __builtin_prefetch(reinterpret_cast<const void*>(line), 0, 2);
}

template <class T>
void addLines(std::vector<uintptr_t>& into, const std::vector<T>& memory) {
  const auto* end = reinterpret_cast<const char*>(memory.data() + memory.size());
  for (const char* at = reinterpret_cast<const char*>(memory.data()); at < end; at += kLine)
    into.push_back(reinterpret_cast<uintptr_t>(at));
}

}  // namespace

void Recorder::type(PyObject* object, Proof of) {
  // An object proven to be the same one has its type still, unless __class__ can be assigned.
  if (of == Proof::kSameObject && !stator_class_is_assignable(Py_TYPE(object))) return;
  word(&object->ob_type, tellsOf(object, of));
}

// Which dict an object has. Values without a dict become one without a word.
void Recorder::dictSlot(PyObject* object, PyObject** slot, Proof of) {
  const bool managed = stator_has_managed_dict(Py_TYPE(object));
  word(slot, managed && stator_managed_dict(object) != nullptr && tellsOf(object, of));
}

void Recorder::anewKey(const Op& code) {
  if (!enter_copied) {
    anew(*enter);
    enter_copied = true;
  }
  anew(code);
}

void Recorder::finish() {
  std::sort(facts.begin(), facts.end(), [](const Noted& left, const Noted& right) {
    return left.level != right.level ? left.level < right.level : left.fact.at < right.fact.at;
  });
  auto sorted = [&](bool all) {
    Facts into;
    uint32_t last = 0;
    for (const Noted& noted : facts) {
      if (noted.told && !all) continue;
      if (!into.facts.empty() && noted.level != last)
        into.level_ends.push_back(static_cast<uint32_t>(into.facts.size()));
      last = noted.level;
      into.facts.push_back(noted.fact);
      into.ops.push_back(noted.op);
    }
    into.level_ends.push_back(static_cast<uint32_t>(into.facts.size()));
    return into;
  };
  record.all = sorted(true);
  if (record.watch) record.untold = sorted(false);
  record.sortTensors();
  record.sortSteady();
  record.sortLines();
}

// Those of one kind together, which are checked together; among them by address.
void Record::sortTensors() {
  std::sort(seen.begin(), seen.end(), [](const Seen& left, const Seen& right) {
    return left.pair.facts != right.pair.facts ? left.pair.facts < right.pair.facts
                                               : left.pair.object < right.pair.object;
  });
  for (const Seen& tensor : seen) tensors.push_back(tensor.pair);
}

void Record::sortSteady() {
  steady.clear();
  others.clear();
  for (const Seen& tensor : seen) {
    if (!tensor.same_object || !steady.add(tensor.pair.object, *tensor.pair.facts))
      others.push_back(tensor.pair);
  }
  steady.sort();
  ++settled;
}

void Record::sortLines() {
  std::vector<uintptr_t> found;
  const std::vector<Fact>& looked_at = (watch ? untold : all).facts;
  addLines(found, looked_at);
  addLines(found, rest);
  for (const Run& run : registers) addLines(found, run.values);
  for (const Fact& fact : looked_at) found.push_back(reinterpret_cast<uintptr_t>(fact.at));
  steady.lines(found);
  for (const tensor::TensorPair& pair : others) {
    const auto place = tensor::TensorPlace::of(pair.object, *pair.facts);
    found.push_back(reinterpret_cast<uintptr_t>(pair.object));
    found.push_back(reinterpret_cast<uintptr_t>(place.autograd));
    for (size_t part = 0; part < tensor::kImplBytes; part += kLine)
      found.push_back(reinterpret_cast<uintptr_t>(place.impl) + part);
  }
  for (uintptr_t& line : found) line &= ~(kLine - 1);
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  lines.clear();
  if (found.size() >= kColdLines) lines = std::move(found);
}

STATOR_HOT bool Record::tensorsHold(bool cold) {
  // With lines their memory was fetched already, if it had to be.
  const bool fetch = lines.empty();
  const bool settles = settled <= kMostSettled;
  if (settles && steady.asTheyWere(cold)) [[likely]]
    return tensor::checkAllFacts(others.data(), others.size(), fetch);
  if (!tensor::checkAllFacts(tensors.data(), tensors.size(), fetch)) return false;
  if (settles) {
    sortSteady();
    sortLines();
  }
  return true;
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

STATOR_HOT size_t Facts::firstChanged() const {
  const Fact* fact = facts.data();
  for (uint32_t level_end : level_ends) {
    const Fact* end = facts.data() + level_end;
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
  return static_cast<size_t>(fact - facts.data());
}

STATOR_HOT bool Tree::factsHold(Machine& machine, Record& record) {
  fetchIfCold(machine, record);
  const bool quiet = record.watch && record.watch->quiet();
  const Facts& looked_at = quiet ? record.untold : record.all;
  const size_t changed = looked_at.firstChanged();
  if (changed == looked_at.facts.size()) [[likely]] {
    if (quiet) {
      ++machine.program.counts.untold;
    } else if (record.watch) {
      record.watch->resume();
    }
    return true;
  }
  Op& op = machine.program.ops[looked_at.ops[changed]];
  if (++op.misses >= kMissesBeforeVolatile) op.flags |= kVolatile;
  return false;
}

STATOR_HOT bool Tree::restHolds(Machine& machine, Record& record) {
  if (!record.tensorsHold(machine.cold.value_or(false))) return false;
  for (const Record::Run& run : record.registers)
    std::copy(run.values.begin(), run.values.end(), machine.r + run.first);
  if (record.rest.empty()) return true;
  return run(machine, record.rest.data(), record.rest.data() + record.rest.size()) == nullptr;
}

const Op* Tree::record(Machine& machine) {
  auto record = std::make_shared<Record>();
  record->root = rootOf(machine);
  record->builtins = builtinsOf(machine);
  record->watch = Watch::begin();
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
    if (recorder.proof[index] == Proof::kNone) continue;
    std::vector<Record::Run>& runs = record->registers;
    if (runs.empty() || runs.back().first + runs.back().values.size() != index)
      runs.push_back({index, {}});
    runs.back().values.push_back(machine.r[index]);
  }
  recorder.finish();
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
