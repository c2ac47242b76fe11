// The public face of guard programs.
#include "guards/program.h"

#include "base/check.h"
#include "base/hot.h"
#include "base/imports.h"
#include "base/text.h"
#include "guards/explain.h"
#include "guards/facts.h"
#include "guards/replay.h"
#include "tensor/torch_function.h"

#include <array>

namespace stator::guards {

namespace {

// Sources know no torch; this room knows both.
const bool kTensorPartsGiven = [] {
  sources::setTensorParts(
      {tensor::gradOf, tensor::sizeOf, tensor::numberOf, tensor::functionMode, tensor::ofFloat});
  return true;
}();

// The first condition that does not hold, by its position; -1: all do. `symbols` gets what each symbol stands for.
STATOR_HOT int failedRelation(const GuardProgram::Impl& program, PyObject* const* registers,
                              std::vector<int64_t>& symbols) {
  const Relations& relations = program.relations;
  symbols.clear();
  symbols.reserve(relations.symbols.size());
  size_t at = program.asked;
  for (size_t i = 0; i < relations.symbols.size(); ++i) {
    if (relations.symbols[i] == nullptr) {
      symbols.push_back(0);
      continue;
    }
    PyObject* value = registers[program.wanted_registers[at++]];
    int overflow = 0;
    symbols.push_back(isInstanceDict(value) || !PyLong_CheckExact(value)
                          ? 0
                          : PyLong_AsLongLongAndOverflow(value, &overflow));
    if (overflow != 0) return 0;
  }
  for (size_t i = 0; i < relations.conditions.size(); ++i) {
    if (symbolic::evaluate(relations.conditions[i], symbols.data(), symbols.size()) != 1)
      return static_cast<int>(i);
  }
  std::array<double, FloatRelation::kLongest> floats;  // as far as it is filled
  for (size_t i = 0; i < relations.floats.size(); ++i) {
    size_t count = 0;
    bool all = true;
    for (const FloatTerm& term : relations.floats[i].terms) {
      if (term.source == nullptr) continue;
      PyObject* value = registers[program.wanted_registers[at++]];
      all = all && !isInstanceDict(value) && PyFloat_CheckExact(value);
      if (all) floats[count++] = PyFloat_AS_DOUBLE(value);
    }
    if (!all || !relations.floats[i].holds(floats.data(), symbols.data(), symbols.size()))
      return static_cast<int>(relations.conditions.size() + i);
  }
  return -1;
}

std::string symbolName(int64_t number, const void* context) {
  const auto& [symbols, code] =
      *static_cast<const std::pair<const Relations*, PyCodeObject*>*>(context);
  return sources::print(*symbols->symbols[static_cast<size_t>(number)], code);
}

std::string relationText(const Relations& relations, const symbolic::Expr* condition,
                         PyCodeObject* code) {
  const std::pair<const Relations*, PyCodeObject*> context(&relations, code);
  return symbolic::text(condition, symbolName, &context);
}

std::string relationText(const Relations& relations, const FloatRelation& relation,
                         PyCodeObject* code) {
  const std::pair<const Relations*, PyCodeObject*> context(&relations, code);
  return relation.text(symbolName, &context, code);
}

// Registers for one run: of the program if it is not running already (a kGenericAttr may call back), else of its own.
class Registers {
 public:
  explicit Registers(GuardProgram::Impl& program)
      : program_(program), memory_(std::move(program.spare)) {
    if (!memory_) memory_ = std::make_unique<PyObject*[]>(program.registers + 1);
  }
  ~Registers() { program_.spare = std::move(memory_); }
  PyObject** get() { return memory_.get(); }

 private:
  GuardProgram::Impl& program_;
  std::unique_ptr<PyObject*[]> memory_;
};

constexpr size_t kLongProgram = 64;
constexpr uint16_t kHeldForLong = 64;

// Whether a guard can be asked by itself, without running user code.
bool canBeAsked(const Guard& guard) {
  if (guard.kind != GuardKind::kEquals && guard.kind != GuardKind::kIs &&
      guard.kind != GuardKind::kType && guard.kind != GuardKind::kLength)
    return false;
  for (const sources::Source* at = guard.source; at != nullptr; at = at->base) {
    if (at->kind == sources::SourceKind::kGenericAttr || at->kind == sources::SourceKind::kAsked)
      return false;
  }
  return guard.source != nullptr;
}

bool suspectFails(GuardProgram::Impl& program, const sources::Roots& roots) {
  const Guard& guard = program.guards[program.suspect];
  const Ref<> seen = sources::read(*guard.source, roots);
  if (PyErr_Occurred()) PyErr_Clear();
  const bool holds = seen && holdsFor(guard, seen.get());
  if (!holds) {
    program.suspect_held = 0;
  } else if (++program.suspect_held > kHeldForLong) {
    program.suspect = kNoGuard;
  }
  return !holds;
}

// The very op that fails, with nothing taken from memory; null: none.
const Op* firstFailure(Machine& machine) {
  machine.replay = false;
  machine.exact = true;
  std::vector<Op>& ops = machine.program.ops;
  return run(machine, ops.data(), ops.data() + ops.size());
}

void noteFailure(GuardProgram::Impl& program, const sources::Roots& roots) {
  if (program.ops.size() < kLongProgram || program.suspect != kNoGuard ||
      ++program.failed_in_a_row < 2)
    return;
  program.failed_in_a_row = 0;
  Registers registers(program);
  Machine machine{program, roots, registers.get(), {}};
  const Op* failed = firstFailure(machine);
  if (failed == nullptr) return;  // it is a condition between sizes, behind all others
  const uint32_t guard = program.origins[static_cast<size_t>(failed - program.ops.data())].guard;
  if (guard == kNoGuard || !canBeAsked(program.guards[guard])) return;
  program.suspect = guard;
  program.suspect_held = 0;
}

}  // namespace

GuardProgram::Impl::Impl() : loose(*this) {}
GuardProgram::Impl::~Impl() = default;

GuardProgram::GuardProgram(const sources::SourceSet& sources, const GuardSet& guards,
                           const std::vector<const sources::Source*>& wanted)
    : impl_(std::make_unique<Impl>()) {
  STATOR_CHECK(kTensorPartsGiven);
  impl_->guards = guards.all();
  for (Guard& guard : impl_->guards) {
    // What capture and the backend imported on the way has registered classes of its own: the token counts from here
    // on.
    if (guard.kind == GuardKind::kAbcToken) {
      Ref<> module = stealRef(importModule("_abc"));
      Ref<> token = module ? stealRef(PyObject_CallMethod(module.get(), "get_cache_token", nullptr))
                           : Ref<>();
      if (!token) throw PythonError();
      guard.expected = token;
    }
  }
  impl_->wanted = wanted;
  impl_->asked = wanted.size();
  impl_->relations = guards.relations;
  for (const sources::Source* symbol : impl_->relations.symbols) {
    if (symbol != nullptr) impl_->wanted.push_back(symbol);
  }
  for (const FloatRelation& relation : impl_->relations.floats)
    for (const FloatTerm& term : relation.terms)
      if (term.source != nullptr) impl_->wanted.push_back(term.source);
  compile(*impl_, sources.size());
  for (Guard& guard : impl_->guards) {
    // Held by a weak reference from here on, if the object allows one.
    if (guard.kind == GuardKind::kIsWeak && PyType_SUPPORTS_WEAKREFS(Py_TYPE(guard.expected.get())))
      guard.expected.reset();
  }
  impl_->loose.loosen(sources);
}

GuardProgram::~GuardProgram() = default;

bool GuardProgram::check(const sources::Roots& roots) {
  Impl& program = *impl_;
  if (program.contradiction) [[unlikely]]
    return false;
  Registers registers(program);
  Machine machine{program, roots, registers.get(), {}, program.replay};
  if (run(machine, program.ops.data(), program.ops.data() + program.ops.size()) != nullptr)
    return false;
  std::vector<int64_t> symbols;
  return program.relations.empty() || failedRelation(program, machine.r, symbols) < 0;
}

bool GuardProgram::check(const sources::Roots& roots, std::vector<Ref<>>& values) {
  std::vector<PyObject*> found;
  std::vector<Ref<>> made;
  if (!check(roots, found, made)) return false;
  values.clear();
  values.reserve(found.size());
  for (PyObject* value : found) values.push_back(newRef(value));
  return true;
}

namespace {

// What the caller wants. It lies together in the registers (compile.cpp), but for what somebody wants twice.
STATOR_HOT void handOut(const Machine& machine, std::vector<PyObject*>& values,
                        std::vector<Ref<>>& made) {
  const GuardProgram::Impl& program = machine.program;
  const size_t count = program.asked;
  values.resize(count);
  PyObject** into = values.data();
  uintptr_t marks = 0;
  if (program.wanted_in_a_row) [[likely]] {
    PyObject* const* from = machine.r + (count != 0 ? program.wanted_registers[0] : 0);
    for (size_t i = 0; i < count; ++i) {
      into[i] = from[i];
      marks |= reinterpret_cast<uintptr_t>(from[i]);
    }
  } else {
    for (size_t i = 0; i < count; ++i) {
      into[i] = machine.r[program.wanted_registers[i]];
      marks |= reinterpret_cast<uintptr_t>(into[i]);
    }
  }
  if (!isInstanceDict(reinterpret_cast<PyObject*>(marks))) [[likely]]
    return;
  for (size_t i = 0; i < count; ++i) {
    if (!isInstanceDict(into[i])) continue;
    // An instance dict that does not exist yet has to, for whoever wants it.
    made.push_back(sources::read(*program.wanted[i], machine.roots));
    into[i] = made.back().get();
  }
}

}  // namespace

STATOR_HOT bool GuardProgram::check(const sources::Roots& roots, std::vector<PyObject*>& values,
                                    std::vector<Ref<>>& made) {
  Impl& program = *impl_;
  if (program.contradiction) [[unlikely]]
    return false;
  if (program.suspect != kNoGuard && suspectFails(program, roots)) return false;
  Registers registers(program);
  Machine machine{program, roots, registers.get(), {}, program.replay};
  if (run(machine, program.ops.data(), program.ops.data() + program.ops.size()) != nullptr) {
    noteFailure(program, roots);
    return false;
  }
  program.failed_in_a_row = 0;
  if (!program.relations.empty()) {
    std::vector<int64_t> symbols;
    if (failedRelation(program, machine.r, symbols) >= 0) return false;
  }
  handOut(machine, values, made);
  for (Ref<>& kept : machine.keep) made.push_back(std::move(kept));
  return true;
}

std::string GuardProgram::explain(const sources::Roots& roots) {
  Impl& program = *impl_;
  if (program.outlived) return "a class or function that the capture was about is gone";
  if (program.contradiction) return "the guards contradict each other";
  Registers registers(program);
  Machine machine{program, roots, registers.get(), {}};
  const Op* failed = firstFailure(machine);
  if (failed == nullptr) {
    std::vector<int64_t> symbols;
    const int relation =
        program.relations.empty() ? -1 : failedRelation(program, machine.r, symbols);
    if (relation < 0) return "";
    if (static_cast<size_t>(relation) >= program.relations.conditions.size()) {
      const size_t at = static_cast<size_t>(relation) - program.relations.conditions.size();
      return relationText(program.relations, program.relations.floats[at], roots.code) +
             " does not hold";
    }
    const symbolic::Expr* condition = program.relations.conditions[static_cast<size_t>(relation)];
    std::string text = relationText(program.relations, condition, roots.code) + " does not hold: ";
    const char* separator = "";
    for (int64_t number : symbolic::symbolsIn(condition)) {
      text += separator +
              sources::print(*program.relations.symbols[static_cast<size_t>(number)], roots.code) +
              " is " + std::to_string(symbols[static_cast<size_t>(number)]);
      separator = ", ";
    }
    return text;
  }
  // Transforms of torch.func around the call change what its tensors are: they are the reason, whatever is found first.
  const tensor::GlobalState now = tensor::GlobalState::now();
  for (const Guard& guard : program.guards) {
    if (guard.kind == GuardKind::kGlobalState && guard.state->transforms() != now.transforms())
      return guard.state->difference(now);
  }
  const Impl::Origin& origin = program.origins[static_cast<size_t>(failed - program.ops.data())];
  return explainFailure(program, *failed, origin, roots);
}

const sources::Source* GuardProgram::failedSource(const sources::Roots& roots) {
  Impl& program = *impl_;
  if (program.outlived || program.contradiction) return nullptr;
  Registers registers(program);
  Machine machine{program, roots, registers.get(), {}};
  const Op* failed = firstFailure(machine);
  if (failed == nullptr) return nullptr;
  const Impl::Origin& origin = program.origins[static_cast<size_t>(failed - program.ops.data())];
  return origin.guard != kNoGuard ? program.guards[origin.guard].source : origin.source;
}

void GuardProgram::allowReplay(bool allowed) { impl_->replay = allowed; }

GuardProgram::Counts GuardProgram::counts() const { return impl_->counts; }

bool GuardProgram::dead() const {
  if (impl_->outlived) return true;
  for (const Ref<>& reference : impl_->weakrefs) {
    if (PyWeakref_GET_OBJECT(reference.get()) == Py_None) return true;
  }
  return false;
}

std::string GuardProgram::text(PyCodeObject* code) const {
  if (impl_->outlived) return "a class or function that the capture was about is gone\n";
  std::string text;
  for (const Guard& guard : impl_->guards) text += describe(guard, code) + "\n";
  for (const symbolic::Expr* condition : impl_->relations.conditions)
    text += relationText(impl_->relations, condition, code) + "\n";
  for (const FloatRelation& relation : impl_->relations.floats)
    text += relationText(impl_->relations, relation, code) + "\n";
  return text;
}

std::string GuardProgram::symbolText(PyCodeObject* code) const {
  std::string text;
  for (const sources::Source* symbol : impl_->relations.symbols) {
    if (symbol != nullptr) text += sources::print(*symbol, code) + "\n";
  }
  for (const FloatRelation& relation : impl_->relations.floats)
    for (const FloatTerm& term : relation.terms)
      if (term.source != nullptr) text += sources::print(*term.source, code) + "\n";
  return text;
}

int GuardProgram::traverse(visitproc visit, void* arg) const {
  auto held = [&](const auto& reference) {
    return impl_->loose.contains(&reference) ? nullptr : reference.object();
  };
  for (const Guard& guard : impl_->guards) {
    Py_VISIT(held(guard.expected));
    for (const TypeLookup& lookup : guard.names) Py_VISIT(held(lookup.found));
  }
  for (const TypeVersion& version : impl_->versions) {
    Py_VISIT(held(version.type));
    for (const TypeLookup& lookup : version.names) Py_VISIT(held(lookup.found));
  }
  return 0;
}

}  // namespace stator::guards
