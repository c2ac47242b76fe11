#include "interpret/core/tracer.h"

#include "base/check.h"
#include "base/error_aside.h"
#include "base/fields.h"
#include "base/text.h"
#include "interpret/core/trace_iterator.h"
#include "python/frame.h"

#include <cstdarg>

namespace stator::interpret {

namespace {

std::unique_ptr<SymbolicFrame> drivenFrame(StatorFrame* frame, World& world) {
  auto root = std::make_unique<SymbolicFrame>();
  PyCodeObject* code = stator_frame_code(frame);
  root->code = bytecode::CodeInfo::of(code);
  if (root->code == nullptr) throw PythonError();
  root->keep_code = newRef(reinterpret_cast<PyObject*>(code));
  root->globals = stator_frame_globals(frame);
  root->builtins = stator_frame_builtins(frame);
  root->globals_source = world.root(SourceKind::kGlobals);
  root->slots.resize(static_cast<size_t>(stator_frame_slot_count(frame)));
  root->untouched.assign(root->slots.size(), true);
  root->index = root->code->indexAt(stator_frame_offset(frame));
  root->generator = stator_frame_is_generator(frame) != 0;
  return root;
}

}  // namespace

Tracer::Tracer(StatorFrame* frame, const TraceOptions& trace_options, Above& rooms_above)
    : options(trace_options),
      above(rooms_above),
      world(frame),
      budget(trace_options),
      texts(trace_options.read_texts) {
  frames.enter(drivenFrame(frame, world));
  world.guard(Guard{GuardKind::kGlobalState});
}

Tracer::~Tracer() {
  // Suspended generators and what they hold may form cycles with the objects of the trace.
  frames.clear();
  classes.restore();
  for (values::Info* info : values.all()) {
    if (isTraceIterator(info->object.get())) {
      TraceIterator* iterator = asTraceIterator(info->object.get());
      delete iterator->frame;
      iterator->frame = nullptr;
      iterator->sources->clear();
      clearField(iterator->function);
    }
  }
}

Flow Tracer::raise(Ref<> exception) {
  values.addMade(exception.get(), frames.instruction()).was_raised = true;
  STATOR_VALUE(context, errors.topmost(*this));
  if (context && context.get() != exception.get()) {
    // As CPython does: a chain that already holds the new exception is cut there.
    Ref<> behind = context;  // at half the speed: the chain may hold a cycle already
    bool step = false;
    for (Ref<> link = context; link;) {
      Ref<> next = stealRef(PyException_GetContext(link.get()));
      if (next.get() == exception.get()) {
        PyException_SetContext(link.get(), nullptr);
        break;
      }
      link = std::move(next);
      if (link.get() == behind.get()) break;
      if (step) behind = stealRef(PyException_GetContext(behind.get()));
      step = !step;
    }
    PyException_SetContext(exception.get(), context.release());
  }
  errors.setRaised(std::move(exception));
  return Flow::kRaise;
}

namespace {

// Native code had a stand-in or a symbol in its hands: no error of the program's.
void checkUntouched(const ErrorAside& error) {
  if (error.type.get() != PyExc_RuntimeError || !error.value) return;
  Ref<> text = stealRef(PyObject_Str(error.value.get()));
  if (!text) PyErr_Clear();
  const std::string_view words = text ? utf8(text.get()) : "";
  STATOR_CHECK(!words.starts_with("stator: native code touched"), std::string(words));
}

}  // namespace

Flow Tracer::raiseCurrentError() {
  ErrorAside error;
  STATOR_CHECK(error.type, "no error is set");
  checkUntouched(error);
  if (PyErr_GivenExceptionMatches(error.type.get(), PyExc_KeyboardInterrupt)) {
    error.restore();
    throw PythonError();
  }
  // Whether there is memory for it then, the program finds out itself.
  if (PyErr_GivenExceptionMatches(error.type.get(), PyExc_MemoryError))
    return breakWith(Reason::kUnsupportedObject, "what there is no memory for");
  Ref<> instance = newRef(error.instance());
  // What this thread is really busy with is not what the trace is busy with, and the frames it really has are not the
  // program's.
  PyException_SetTraceback(instance.get(), Py_None);
  Ref<> context = stealRef(PyException_GetContext(instance.get()));
  if (context && context.get() == stator_topmost_exception())
    PyException_SetContext(instance.get(), nullptr);
  return raise(instance);
}

Flow Tracer::raiseNew(PyObject* type, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  PyErr_FormatV(type, format, arguments);
  va_end(arguments);
  return raiseCurrentError();
}

Out Tracer::fromNative(Ref<> result) {
  if (!result) return raiseCurrentError();
  return result;
}

const Source* Tracer::sourceOf(PyObject* object) {
  if (values::Info* info = values.find(object))
    return info->origin == values::Origin::kOutside ? info->source : nullptr;
  if (PyType_Check(object) || PyModule_Check(object) || PyFunction_Check(object))
    return world.sources().pinned(object);
  return nullptr;
}

Ref<> Tracer::made(Ref<> object) {
  if (object && !values::isScalar(object.get())) values.addMade(object.get(), frames.instruction());
  return object;
}

bool Tracer::isMade(PyObject* object) {
  values::Info* info = values.find(object);
  return info == nullptr || info->origin == values::Origin::kMade;
}

const graph::Location* Tracer::location() {
  if (frames.empty()) return nullptr;
  SymbolicFrame& current = frames.innermost();
  graph::Location here;
  here.caller = current.call_site;
  here.code = Ref<PyCodeObject>::create(current.code->code());
  here.offset = current.code->instrs()[static_cast<size_t>(callIndex(current))].opcode_offset;
  if (!graphs.current().locations.empty()) {
    const graph::Location& last = graphs.current().locations.back();
    if (last.offset == here.offset && last.code.get() == here.code.get() &&
        last.caller == here.caller)
      return &last;
  }
  graphs.current().locations.push_back(std::move(here));
  return &graphs.current().locations.back();
}

}  // namespace stator::interpret
