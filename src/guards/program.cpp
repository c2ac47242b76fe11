// The public face of guard programs.
#include "guards/program.h"

#include "base/check.h"
#include "guards/explain.h"
#include "guards/facts.h"
#include "guards/replay.h"

namespace stator::guards {

namespace {

// Sources know no torch; this room knows both.
const bool kTensorPartsGiven = [] {
  sources::setTensorParts({tensor::gradOf, tensor::sizeOf});
  return true;
}();

// Registers for one run: of the program if it is not running already (a kGenericAttr may call back), else of its own.
class Registers {
 public:
  explicit Registers(GuardProgram::Impl& program) : program_(program), memory_(std::move(program.spare)) {
    if (!memory_) memory_ = std::make_unique<PyObject*[]>(program.registers + 1);
  }
  ~Registers() { program_.spare = std::move(memory_); }
  PyObject** get() { return memory_.get(); }

 private:
  GuardProgram::Impl& program_;
  std::unique_ptr<PyObject*[]> memory_;
};

}  // namespace

GuardProgram::Impl::~Impl() = default;

GuardProgram::GuardProgram(const sources::SourceSet& sources, const GuardSet& guards, const std::vector<const sources::Source*>& wanted)
    : impl_(std::make_unique<Impl>()) {
  STATOR_CHECK(kTensorPartsGiven);
  impl_->guards = guards.all();
  for (Guard& guard : impl_->guards) {
    // What capture and the backend imported on the way has registered classes of its own: the token counts from here on.
    if (guard.kind == GuardKind::kAbcToken) {
      Ref<> module = stealRef(PyImport_ImportModule("_abc"));
      Ref<> token = module ? stealRef(PyObject_CallMethod(module.get(), "get_cache_token", nullptr)) : Ref<>();
      if (!token) throw PythonError();
      guard.expected = token;
    }
  }
  impl_->wanted = wanted;
  compile(*impl_, sources.size());
  for (Guard& guard : impl_->guards) {
    // Held by a weak reference from here on, if the object allows one.
    if (guard.kind == GuardKind::kIsWeak && PyType_SUPPORTS_WEAKREFS(Py_TYPE(guard.expected.get()))) guard.expected.reset();
  }
}

GuardProgram::~GuardProgram() = default;

bool GuardProgram::check(const sources::Roots& roots) {
  Impl& program = *impl_;
  if (program.contradiction) [[unlikely]] return false;
  Registers registers(program);
  Machine machine{program, roots, registers.get(), {}, program.replay};
  return run(machine, program.ops.data(), program.ops.data() + program.ops.size()) == nullptr;
}

bool GuardProgram::check(const sources::Roots& roots, std::vector<Ref<>>& values) {
  Impl& program = *impl_;
  if (program.contradiction) [[unlikely]] return false;
  Registers registers(program);
  Machine machine{program, roots, registers.get(), {}, program.replay};
  if (run(machine, program.ops.data(), program.ops.data() + program.ops.size()) != nullptr) return false;
  values.clear();
  values.reserve(program.wanted.size());
  for (size_t i = 0; i < program.wanted.size(); ++i) {
    PyObject* value = machine.r[program.wanted_registers[i]];
    // An instance dict that does not exist yet has to, for whoever wants it.
    values.push_back(isInstanceDict(value) ? sources::read(*program.wanted[i], roots) : newRef(value));
  }
  return true;
}

std::string GuardProgram::explain(const sources::Roots& roots) {
  Impl& program = *impl_;
  if (program.contradiction) return "the guards contradict each other";
  Registers registers(program);
  Machine machine{program, roots, registers.get(), {}};
  machine.replay = false;
  machine.exact = true;
  const Op* failed = run(machine, program.ops.data(), program.ops.data() + program.ops.size());
  if (failed == nullptr) return "";
  const Impl::Origin& origin = program.origins[static_cast<size_t>(failed - program.ops.data())];
  return explainFailure(program, *failed, origin, roots);
}

void GuardProgram::allowReplay(bool allowed) { impl_->replay = allowed; }

GuardProgram::Counts GuardProgram::counts() const { return impl_->counts; }

bool GuardProgram::dead() const {
  for (const Ref<>& reference : impl_->weakrefs) {
    if (PyWeakref_GET_OBJECT(reference.get()) == Py_None) return true;
  }
  return false;
}

std::string GuardProgram::text(BorrowedRef<PyCodeObject> code) const {
  std::string text;
  for (const Guard& guard : impl_->guards) text += describe(guard, code) + "\n";
  return text;
}

int GuardProgram::traverse(visitproc visit, void* arg) const {
  for (const Guard& guard : impl_->guards) {
    Py_VISIT(guard.expected.get());
    for (const TypeLookup& lookup : guard.names) Py_VISIT(lookup.found.get());
  }
  for (const TypeVersion& version : impl_->versions) {
    Py_VISIT(version.type.object());
    for (const TypeLookup& lookup : version.names) Py_VISIT(lookup.found.get());
  }
  return 0;
}

}  // namespace stator::guards
