// A source is described as ("local", 0), ("attr", base, "name"), ("list_item", base, 3) ...; a guard as (kind, source,
// expected) or, for "same" and "not_same", (kind, source, other source). A frame is a list of locals, in which
// NotImplemented stands for an unbound one.
#include "guards/guards_module.h"

#include "base/boundary.h"
#include "guards/guard.h"
#include "sources/source.h"

#include <chrono>
#include <cstring>
#include <iterator>

namespace stator::guards {

namespace {

using sources::Source;
using sources::SourceKind;

struct Program {
  sources::SourceSet sources;
  GuardSet guards;
  std::unique_ptr<GuardProgram> program;
};

constexpr const char* kCapsule = "stator.guards";

constexpr const char* kSourceNames[] = {"local",         "stack",
                                        "globals",       "builtins",
                                        "function",      "handled",
                                        "function_mode", "drawn",
                                        "pinned",        "attr",
                                        "generic_attr",  "parameter",
                                        "buffer",        "submodule",
                                        "object_dict",   "type",
                                        "class_dict",    "dict_item",
                                        "dict_key",      "list_item",
                                        "tuple_item",    "set_item",
                                        "deque_item",    "cell",
                                        "closure",       "default",
                                        "kw_default",    "func_globals",
                                        "code",          "method_self",
                                        "method_func",   "partial_func",
                                        "partial_args",  "partial_keywords",
                                        "slice_start",   "slice_stop",
                                        "slice_step",    "range_start",
                                        "range_stop",    "range_step",
                                        "tensor_grad",   "tensor_size",
                                        "tensor_number", "tensor_attr",
                                        "weak_target",   "scalar_value",
                                        "lru_entry",     "view_dict",
                                        "dict_value",    "proxied",
                                        "array_tensor",  "float_tensor",
                                        "ahead",         "asked"};
static_assert(std::size(kSourceNames) == static_cast<size_t>(SourceKind::kAsked) + 1);

constexpr const char* kGuardNames[] = {
#define STATOR_GUARD_KIND(kind, about, word, dynamo, text) word,
#include "guards/kinds.def"
#undef STATOR_GUARD_KIND
};

template <size_t n>
int indexOf(const char* const (&names)[n], PyObject* name) {
  for (size_t i = 0; i < n; ++i) {
    if (PyUnicode_Check(name) && PyUnicode_CompareWithASCIIString(name, names[i]) == 0)
      return static_cast<int>(i);
  }
  PyErr_Format(PyExc_ValueError, "unknown kind %R", name);
  throw PythonError();
}

bool hasIndex(SourceKind kind) {
  switch (kind) {
    case SourceKind::kLocal:
    case SourceKind::kStack:
    case SourceKind::kFunctionMode:
    case SourceKind::kDrawn:
    case SourceKind::kDictKey:
    case SourceKind::kDictValue:
    case SourceKind::kListItem:
    case SourceKind::kTupleItem:
    case SourceKind::kSetItem:
    case SourceKind::kDequeItem:
    case SourceKind::kClosure:
    case SourceKind::kDefault:
    case SourceKind::kTensorSize:
    case SourceKind::kTensorNumber:
    case SourceKind::kAhead:
    case SourceKind::kIteratorPart:
      return true;
    default:
      return false;
  }
}

PyObject* part(PyObject* tuple, Py_ssize_t index) {
  if (PyTuple_Check(tuple) && index < PyTuple_GET_SIZE(tuple))
    return PyTuple_GET_ITEM(tuple, index);
  PyErr_SetString(PyExc_ValueError, "too short a description");
  throw PythonError();
}

int64_t number(PyObject* object) {
  const long long value = PyLong_AsLongLong(object);
  if (value == -1 && PyErr_Occurred()) throw PythonError();
  return value;
}

const Source* makeSource(sources::SourceSet& set, PyObject* text) {
  const auto kind = static_cast<SourceKind>(indexOf(kSourceNames, part(text, 0)));
  if (kind == SourceKind::kPinned) return set.pinned(part(text, 1));
  if (kind < SourceKind::kPinned) return set.root(kind, hasIndex(kind) ? number(part(text, 1)) : 0);
  const Source* base = makeSource(set, part(text, 1));
  if (hasIndex(kind)) return set.child(kind, base, nullptr, number(part(text, 2)));
  return set.child(kind, base, PyTuple_GET_SIZE(text) > 2 ? PyTuple_GET_ITEM(text, 2) : nullptr);
}

void addGuard(Program& program, PyObject* text) {
  const auto kind = static_cast<GuardKind>(indexOf(kGuardNames, part(text, 0)));
  PyObject* source_text = part(text, 1);
  const Source* source =
      source_text != Py_None ? makeSource(program.sources, source_text) : nullptr;
  PyObject* operand = PyTuple_GET_SIZE(text) > 2 ? PyTuple_GET_ITEM(text, 2) : nullptr;
  Guard guard{kind, source};
  switch (kind) {
    case GuardKind::kTensor:
      guard.tensor = tensor::TensorGuard::of(part(text, 2));
      break;
    case GuardKind::kSameAs:
    case GuardKind::kNotSameAs:
      guard.other = makeSource(program.sources, part(text, 2));
      break;
    case GuardKind::kLength:
      guard.number = number(part(text, 2));
      break;
    case GuardKind::kTypeVersion:
      if (PyTuple_GET_SIZE(text) > 3) {
        // (kind, source, type, names)
        Ref<> names = stealRef(PySequence_Tuple(PyTuple_GET_ITEM(text, 3)));
        if (!names) throw PythonError();
        auto* type = reinterpret_cast<PyTypeObject*>(operand);
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names.get()); ++i) {
          PyObject* name = PyTuple_GET_ITEM(names.get(), i);
          program.guards.addTypeLookup(source, type, name, _PyType_Lookup(type, name));
        }
        return;
      }
      [[fallthrough]];
    default:
      guard.expected = Ref<>::create(operand);
  }
  program.guards.add(std::move(guard));
}

Program& programOf(PyObject* capsule) {
  auto* program = static_cast<Program*>(PyCapsule_GetPointer(capsule, kCapsule));
  if (program == nullptr) throw PythonError();
  return *program;
}

// The locals as a frame has them.
class Frame {
 public:
  Frame(PyObject* locals, PyObject* globals, PyObject* code) {
    if (!PyList_Check(locals)) {
      PyErr_SetString(PyExc_TypeError, "locals must be a list");
      throw PythonError();
    }
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(locals); ++i) {
      PyObject* value = PyList_GET_ITEM(locals, i);
      slots_.push_back(value != Py_NotImplemented ? value : nullptr);
    }
    roots.slots = roots.stack = slots_.data();
    roots.globals = globals;
    roots.builtins = PyEval_GetBuiltins();
    roots.code =
        code != nullptr && PyCode_Check(code) ? reinterpret_cast<PyCodeObject*>(code) : nullptr;
  }
  sources::Roots roots;

 private:
  std::vector<PyObject*> slots_;
};

struct Arguments {
  PyObject* first = nullptr;
  PyObject* locals = nullptr;
  PyObject* globals = Py_None;
  PyObject* code = Py_None;
  Arguments(PyObject* args, const char* format, int* rounds = nullptr,
            Py_ssize_t* sweep = nullptr) {
    const int ok = rounds != nullptr
                       ? PyArg_ParseTuple(args, format, &first, &locals, &globals, rounds, sweep)
                       : PyArg_ParseTuple(args, format, &first, &locals, &globals, &code);
    if (!ok) throw PythonError();
  }
};

PyObject* build(PyObject*, PyObject* list) {
  return guarded([&]() -> PyObject* {
    auto program = std::make_unique<Program>();
    Ref<> specs = stealRef(PySequence_Tuple(list));
    if (!specs) throw PythonError();
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(specs.get()); ++i)
      addGuard(*program, PyTuple_GET_ITEM(specs.get(), i));
    program->program = std::make_unique<GuardProgram>(program->sources, program->guards);
    // The program lives on its own: weak guards would not be weak while the set holds their objects.
    program->guards.truncate(0);
    return PyCapsule_New(program.release(), kCapsule, [](PyObject* capsule) {
      delete static_cast<Program*>(PyCapsule_GetPointer(capsule, kCapsule));
    });
  });
}

PyObject* check(PyObject*, PyObject* args) {
  return guarded([&] {
    Arguments given(args, "OO|OO");
    Program& program = programOf(given.first);
    Frame frame(given.locals, given.globals, given.code);
    return PyBool_FromLong(program.program->check(frame.roots));
  });
}

PyObject* explain(PyObject*, PyObject* args) {
  return guarded([&] {
    Arguments given(args, "OO|OO");
    Program& program = programOf(given.first);
    Frame frame(given.locals, given.globals, given.code);
    return PyUnicode_FromString(program.program->explain(frame.roots).c_str());
  });
}

PyObject* text(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *capsule = nullptr, *code = nullptr;
    if (!PyArg_ParseTuple(args, "O|O", &capsule, &code)) throw PythonError();
    Program& program = programOf(capsule);
    const bool given = code != nullptr && PyCode_Check(code);
    return PyUnicode_FromString(
        program.program->text(given ? reinterpret_cast<PyCodeObject*>(code) : nullptr).c_str());
  });
}

PyObject* dead(PyObject*, PyObject* capsule) {
  return guarded([&] { return PyBool_FromLong(programOf(capsule).program->dead()); });
}

PyObject* counts(PyObject*, PyObject* capsule) {
  return guarded([&] {
    const GuardProgram::Counts counts = programOf(capsule).program->counts();
    return Py_BuildValue("KKK", static_cast<unsigned long long>(counts.replayed),
                         static_cast<unsigned long long>(counts.recorded),
                         static_cast<unsigned long long>(counts.untold));
  });
}

PyObject* allowReplay(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject* capsule = nullptr;
    int allowed = 0;
    if (!PyArg_ParseTuple(args, "Op", &capsule, &allowed)) throw PythonError();
    programOf(capsule).program->allowReplay(allowed != 0);
    return Py_NewRef(Py_None);
  });
}

PyObject* print(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *description = nullptr, *code = nullptr;
    int exact = 0;
    if (!PyArg_ParseTuple(args, "OO|p", &description, &code, &exact)) throw PythonError();
    sources::SourceSet set;
    const Source* source = makeSource(set, description);
    auto* of = PyCode_Check(code) ? reinterpret_cast<PyCodeObject*>(code) : nullptr;
    return PyUnicode_FromString(
        (exact ? sources::printExact(*source, of) : sources::print(*source, of)).c_str());
  });
}

PyObject* read(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    Arguments given(args, "OO|OO");
    sources::SourceSet set;
    const Source* source = makeSource(set, given.first);
    Frame frame(given.locals, given.globals, given.code);
    Ref<> value = sources::read(*source, frame.roots);
    return value ? value.release() : Py_NewRef(Py_NotImplemented);
  });
}

// Nanoseconds of each of `rounds` checks; with `sweep` bytes of other memory touched before each, else back to back.
PyObject* timed(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    int rounds = 0;
    Py_ssize_t sweep = 0;
    Arguments given(args, "OOOin", &rounds, &sweep);
    Program& program = programOf(given.first);
    Frame frame(given.locals, given.globals, Py_None);
    std::vector<char> memory(static_cast<size_t>(sweep));
    Ref<> times = stealRef(PyList_New(0));
    using Clock = std::chrono::steady_clock;
    const int batch = sweep != 0 ? 1 : 16;
    for (int i = 0; i < rounds; ++i) {
      for (size_t at = 0; at < memory.size(); at += 64) ++memory[at];
      const auto start = Clock::now();
      bool passed = true;
      for (int j = 0; j < batch; ++j) passed &= program.program->check(frame.roots);
      const auto stop = Clock::now();
      if (!passed) {
        PyErr_SetString(PyExc_RuntimeError, "the guards do not hold");
        throw PythonError();
      }
      const double ns = static_cast<double>(
          std::chrono::duration_cast<std::chrono::nanoseconds>(stop - start).count());
      Ref<> value = stealRef(PyFloat_FromDouble(ns / batch));
      PyList_Append(times.get(), value.get());
    }
    return times.release();
  });
}

}  // namespace

PyMethodDef guards_methods[] = {
    {"guards_build", build, METH_O, "Builds a guard program from a list of descriptions."},
    {"guards_check", check, METH_VARARGS,
     "guards_check(program, locals, globals=None): whether all guards hold."},
    {"guards_explain", explain, METH_VARARGS,
     "guards_explain(program, locals, globals=None, code=None): the first that fails."},
    {"guards_text", text, METH_VARARGS, "guards_text(program, code=None): all guards, one a line."},
    {"guards_dead", dead, METH_O, "Whether a weakly held object is gone."},
    {"guards_time", timed, METH_VARARGS,
     "guards_time(program, locals, globals, rounds, sweep_bytes): nanoseconds of each check."},
    {"guards_counts", counts, METH_O,
     "(subtrees answered from memory, subtrees recorded, answered without a look at what is told "
     "of)."},
    {"guards_allow_replay", allowReplay, METH_VARARGS, "guards_allow_replay(program, allowed)."},
    {"source_print", print, METH_VARARGS, "source_print(source, code, exact=False)."},
    {"source_read", read, METH_VARARGS,
     "source_read(source, locals, globals=None, code=None); NotImplemented: not there."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace stator::guards
