#include "bytecode/code_info.h"

#include "base/ref.h"
#include "base/text.h"
#include "bytecode/opcodes.h"
#include "python/frame.h"
#include "python/instructions.h"

#include <algorithm>
#include <climits>
#include <cstring>
#include <deque>
#include <new>
#include <string_view>

namespace stator::bytecode {
namespace {

void freeCodeInfo(void* info) { delete static_cast<CodeInfo*>(info); }

// One slot in the extra array of every code object; CPython frees what is in it together with the code.
Py_ssize_t extraIndex() {
  static const Py_ssize_t index = stator_code_extra_index(freeCodeInfo);
  return index;
}

bool jumpsBack(int opcode) {
  switch (opcode) {
    case JUMP_BACKWARD:
    case JUMP_BACKWARD_NO_INTERRUPT:
    case POP_JUMP_BACKWARD_IF_FALSE:
    case POP_JUMP_BACKWARD_IF_TRUE:
    case POP_JUMP_BACKWARD_IF_NONE:
    case POP_JUMP_BACKWARD_IF_NOT_NONE:
      return true;
    default:
      return false;
  }
}

bool alwaysJumps(int opcode) {
  return opcode == JUMP_FORWARD || opcode == JUMP_BACKWARD || opcode == JUMP_BACKWARD_NO_INTERRUPT;
}

bool goesOn(int opcode) { return !hasEffect(opcode, kLeaves) || opcode == YIELD_VALUE; }

// Names through which code, or what it calls, gets at the locals of its own frame.
bool namesFrameReader(const char* name) {
  static const char* const kReaders[] = {"locals", "vars",      "dir",          "eval",
                                         "exec",   "_getframe", "currentframe", "stack"};
  return std::any_of(std::begin(kReaders), std::end(kReaders),
                     [&](const char* reader) { return !std::strcmp(name, reader); });
}

}  // namespace

CodeInfo* CodeInfo::of(PyCodeObject* code) {
  void* found = nullptr;
  Py_ssize_t index = extraIndex();
  if (index < 0) {
    PyErr_SetString(PyExc_RuntimeError,
                    "stator: CPython has no free slot for data on code objects");
    return nullptr;
  }
  if (stator_code_get_extra(code, index, &found) < 0) return nullptr;
  if (found) return static_cast<CodeInfo*>(found);
  auto* info = new CodeInfo(code);
  if (PyErr_Occurred() || stator_code_set_extra(code, index, info) < 0) {
    delete info;
    return nullptr;
  }
  return info;
}

namespace {
std::string counted_prefix;
}  // namespace

void countFiles(const char* prefix) { counted_prefix = prefix; }

bool isCounted(PyCodeObject* code) {
  if (counted_prefix.empty()) return false;
  const char* file = utf8OrNull(code->co_filename);
  return file != nullptr && std::string_view(file).starts_with(counted_prefix);
}

CodeInfo::CodeInfo(PyCodeObject* code)
    : counted(isCounted(code)),
      code_(code),
      slot_count_(static_cast<int>(PyTuple_GET_SIZE(stator_code_slot_names(code)))) {
  decode();
  parseExceptionTable();
  markLegal();
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code->co_names); i++) {
    const char* name = utf8OrNull(PyTuple_GET_ITEM(code->co_names, i));
    if (name == nullptr) continue;  // a lone surrogate: no name that matters
    if (namesFrameReader(name)) reads_locals_dynamically_ = true;
    if (!std::strcmp(name, "super")) uses_super_ = true;
  }
}

CodeInfo::~CodeInfo() {
  if (captured && free_captured) free_captured(captured);
}

void CodeInfo::decode() {
  Ref<> bytes = stealRef(stator_code_bytes(code_));
  if (!bytes) return;
  auto* raw = reinterpret_cast<const uint8_t*>(PyBytes_AS_STRING(bytes.get()));
  int size = static_cast<int>(PyBytes_GET_SIZE(bytes.get()));
  index_.assign(size / 2, -1);
  int at = 0;
  while (at < size) {
    Instr instr;
    instr.offset = at;
    unsigned oparg = raw[at + 1];
    while (raw[at] == EXTENDED_ARG && at + 2 < size) {
      at += 2;
      oparg = oparg << 8 | raw[at + 1];
    }
    const Meaning meaning = meaningOf(raw[at], static_cast<int>(oparg));
    instr.opcode = meaning.opcode;
    instr.oparg = meaning.oparg;
    instr.opcode_offset = at;
    at += 2;
    while (at < size && raw[at] == CACHE) at += 2;
    if (hasEffect(instr.opcode, kJumps)) {
      int target = at + (jumpsBack(instr.opcode) ? -2 : 2) * instr.oparg;
      if (target >= 0 && target < size) target += 2 * skippedAtTarget(instr.opcode, raw[target]);
      instr.target = target;
    }
    instr.next_offset = at;
    for (int unit = instr.offset; unit <= instr.opcode_offset; unit += 2)
      index_[unit / 2] = static_cast<int>(instrs_.size());
    instrs_.push_back(instr);
  }
  for (const Instr& instr : instrs_) {
    if (instr.target >= 0 && indexAt(instr.target) >= 0)
      instrs_[indexAt(instr.target)].jump_target = true;
  }
}

// Entries of four numbers (start, length, target, depth and lasti), in code units, each number big-endian in groups of
// six bits: bit 7 marks the first byte of an entry, bit 6 says that the number goes on.
void CodeInfo::parseExceptionTable() {
  PyObject* table = stator_code_exception_table(code_);
  auto* at = reinterpret_cast<const uint8_t*>(PyBytes_AS_STRING(table));
  const uint8_t* end = at + PyBytes_GET_SIZE(table);
  auto number = [&] {
    int value = *at & 63;
    while (*at++ & 64) value = value << 6 | (*at & 63);
    return value;
  };
  while (at < end) {
    Range range;
    range.start = number() * 2;
    range.end = range.start + number() * 2;
    range.handler.target = number() * 2;
    int depth = number();
    range.handler.depth = depth >> 1;
    range.handler.lasti = depth & 1;
    ranges_.push_back(range);
    if (indexAt(range.handler.target) >= 0)
      instrs_[indexAt(range.handler.target)].jump_target = true;
  }
}

std::optional<Handler> CodeInfo::findHandler(int opcode_offset) const {
  auto after =
      std::upper_bound(ranges_.begin(), ranges_.end(), opcode_offset,
                       [](int offset, const Range& range) { return offset < range.start; });
  if (after == ranges_.begin()) return std::nullopt;
  const Range& range = *(after - 1);
  if (opcode_offset >= range.end) return std::nullopt;
  return range.handler;
}

void CodeInfo::markLegal() {
  int resume = stator_code_first_traceable(code_);
  bool in_unit = false;
  for (Instr& instr : instrs_) {
    if (instr.opcode_offset == resume) first_legal_ = instr.next_offset;
    instr.legal_exit = instr.opcode_offset > resume && !in_unit;
    in_unit = instr.opcode == KW_NAMES || instr.opcode == PRECALL;
  }
}

bool CodeInfo::legalExit(int offset) const {
  int index = indexAt(offset);
  return index >= 0 && instrs_[index].offset == offset && instrs_[index].legal_exit;
}

bool CodeInfo::isJumpTarget(int offset) const {
  int index = indexAt(offset);
  return index >= 0 && instrs_[index].offset == offset && instrs_[index].jump_target;
}

// CPython reads its table of lines from the start each time: of a long code it is read once.
void CodeInfo::readLines() {
  Ref<> rows = stealRef(PyObject_CallMethod(reinterpret_cast<PyObject*>(code_), "co_lines", ""));
  while (Ref<> row = rows ? stealRef(PyIter_Next(rows.get())) : Ref<>()) {
    PyObject* line = PyTuple_GET_ITEM(row.get(), 2);
    lines_.emplace_back(static_cast<int>(PyLong_AsLong(PyTuple_GET_ITEM(row.get(), 0))),
                        line == Py_None ? -1 : static_cast<int>(PyLong_AsLong(line)));
  }
  PyErr_Clear();
}

int CodeInfo::line(int opcode_offset) {
  constexpr Py_ssize_t kLongTable = 1024;
  if (lines_.empty() && PyBytes_GET_SIZE(code_->co_linetable) > kLongTable) readLines();
  if (lines_.empty()) return PyCode_Addr2Line(code_, opcode_offset);
  auto behind = std::upper_bound(lines_.begin(), lines_.end(), std::pair(opcode_offset, INT_MAX));
  return behind == lines_.begin() ? -1 : std::prev(behind)->second;
}

// Backward data flow to a fixed point. A slot that a handler needs is needed by every instruction of the range that
// leads there, whatever that instruction stores: it may raise before it does.
void CodeInfo::computeLiveness() {
  const size_t words = (slot_count_ + 63) / 64;
  const size_t count = instrs_.size();
  live_.assign(std::max<size_t>(words * count, 1), 0);
  auto row = [&](size_t index) { return live_.data() + index * words; };

  std::vector<std::vector<int>> before(count);  // predecessors
  std::vector<int> handler(count, -1);
  for (size_t i = 0; i < count; i++) {
    const Instr& instr = instrs_[i];
    if (i + 1 < count && !alwaysJumps(instr.opcode) && goesOn(instr.opcode)) {
      before[i + 1].push_back(static_cast<int>(i));
    }
    if (instr.target >= 0 && indexAt(instr.target) >= 0)
      before[indexAt(instr.target)].push_back(static_cast<int>(i));
    if (auto found = findHandler(instr.opcode_offset); found && indexAt(found->target) >= 0) {
      handler[i] = indexAt(found->target);
      before[handler[i]].push_back(static_cast<int>(i));
    }
  }

  std::deque<int> work;
  std::vector<bool> queued(count, true);
  for (size_t i = count; i-- > 0;) work.push_back(static_cast<int>(i));
  std::vector<uint64_t> now(words);
  while (!work.empty()) {
    int i = work.front();
    work.pop_front();
    queued[i] = false;
    const Instr& instr = instrs_[i];
    std::fill(now.begin(), now.end(), 0);
    auto join = [&](int index) {
      for (size_t w = 0; w < words; w++) now[w] |= row(index)[w];
    };
    size_t next = static_cast<size_t>(i) + 1;
    if (next < count && !alwaysJumps(instr.opcode) && goesOn(instr.opcode)) {
      join(static_cast<int>(next));
    }
    if (instr.target >= 0 && indexAt(instr.target) >= 0) join(indexAt(instr.target));
    auto set = [&](int slot) { now[slot / 64] |= uint64_t{1} << (slot % 64); };
    auto overwritten = [&](int slot) { now[slot / 64] &= ~(uint64_t{1} << (slot % 64)); };
    switch (instr.opcode) {
      case STORE_FAST:
        overwritten(instr.oparg);
        break;
      // Of two slots, the first to be dealt with is in the upper bits.
      case LOAD_FAST_LOAD_FAST:
        set(instr.oparg >> 4);
        set(instr.oparg & 15);
        break;
      case STORE_FAST_LOAD_FAST:
        set(instr.oparg & 15);
        overwritten(instr.oparg >> 4);
        break;
      case STORE_FAST_STORE_FAST:
        overwritten(instr.oparg >> 4);
        overwritten(instr.oparg & 15);
        break;
      case LOAD_FAST:
      case LOAD_FAST_CHECK:
      case LOAD_FAST_AND_CLEAR:
      case DELETE_FAST:  // raises if it is unbound
      case LOAD_CLOSURE:
      case LOAD_DEREF:
      case STORE_DEREF:  // the slot holds the cell
      case DELETE_DEREF:
      case LOAD_CLASSDEREF:
      case LOAD_FROM_DICT_OR_DEREF:
      case MAKE_CELL:
        set(instr.oparg);
        break;
      default:
        break;
    }
    if (handler[i] >= 0) join(handler[i]);
    if (!std::equal(now.begin(), now.end(), row(i))) {
      std::copy(now.begin(), now.end(), row(i));
      for (int earlier : before[i]) {
        if (!queued[earlier]) {
          queued[earlier] = true;
          work.push_back(earlier);
        }
      }
    }
  }
}

// Forward from the start and from each handler; CPython's compiler makes the depth the same on all ways to an
// instruction.
void CodeInfo::computeDepths() {
  depths_.assign(instrs_.size() + 1, -1);
  std::vector<int> work;
  auto reach = [&](int index, int depth) {
    if (index < 0 || index >= static_cast<int>(instrs_.size()) || depths_[index] >= 0) return;
    depths_[index] = depth;
    work.push_back(index);
  };
  reach(0, 0);
  while (!work.empty()) {
    int index = work.back();
    work.pop_back();
    const Instr& instr = instrs_[index];
    const int depth = depths_[index];
    if (auto handler = findHandler(instr.opcode_offset)) {
      reach(indexAt(handler->target), handler->depth + handler->lasti + 1);
    }
    if (instr.target >= 0) {
      reach(indexAt(instr.target), depth + stackEffect(instr.opcode, instr.oparg, true));
    }
    if (!alwaysJumps(instr.opcode) && goesOn(instr.opcode)) {
      // A new generator is resumed with None on its stack.
      int sent = instr.opcode == RETURN_GENERATOR ? 1 : 0;
      reach(index + 1, depth + sent + stackEffect(instr.opcode, instr.oparg, false));
    }
  }
}

int CodeInfo::depth(int offset) {
  if (depths_.empty()) computeDepths();
  int index = indexAt(offset);
  return index < 0 ? -1 : depths_[index];
}

const Instr* CodeInfo::pushedBy(int offset, int stack_slot) {
  for (int index = indexAt(offset) - 1; index >= 0; --index) {
    const Instr& instr = instrs_[static_cast<size_t>(index)];
    const int before = depth(instr.offset);
    if (before < 0) continue;
    // FOR_ITER leaves the iterator where it is.
    const int kept = instr.opcode == FOR_ITER ? 1 : 0;
    const int left = before - stackPops(instr.opcode, instr.oparg, false) + kept;
    const int pushed = stackPushes(instr.opcode, instr.oparg, false) - kept;
    if (left <= stack_slot && stack_slot < left + pushed) return &instr;
  }
  return nullptr;
}

bool CodeInfo::slotLive(int offset, int slot) {
  // super() without arguments reads the frame's first slot and its __class__ cell.
  if (uses_super_ && (slot == 0 || stator_code_slot_is_cell(code_, slot))) return true;
  if (live_.empty()) computeLiveness();
  int index = indexAt(offset);
  if (index < 0 || slot < 0 || slot >= slot_count_) return false;
  const size_t words = (slot_count_ + 63) / 64;
  return live_[index * words + slot / 64] >> (slot % 64) & 1;
}

const Instr* callOf(const Instr* instr) {
  while (instr->opcode == KW_NAMES || instr->opcode == PRECALL) ++instr;
  return instr;
}

uint64_t countedUnits(const Instr& instr) {
  switch (instr.opcode) {
    case RESUME:
    case COPY_FREE_VARS:
    case MAKE_CELL:
    case RETURN_GENERATOR:
      return 0;
    case KW_NAMES:
      return inThisVersion(kPy3_11, kPy3_11) ? 3 : 2;  // PRECALL is gone
    case PRECALL:
      return 2;
    default:
      return 1;
  }
}

}  // namespace stator::bytecode
