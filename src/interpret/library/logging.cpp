// Calls of loggers that are silent at their level: the level is looked up as logging does, each step guarded, and
// nothing else happens.
#include "interpret/calls/calls.h"
#include "interpret/core/tables.h"
#include "interpret/core/tracer.h"
#include "interpret/library/rows.h"
#include "interpret/objects/class_lookups.h"
#include "interpret/objects/instance_attributes.h"
#include "interpret/objects/special_methods.h"
#include "interpret/objects/truth.h"

namespace stator::interpret {

namespace {

Ref<> interned(const char* text) { return stealRef(PyUnicode_InternFromString(text)); }

// logger.isEnabledFor(level), as Logger.getEffectiveLevel finds it: up the parents until one has a level of its own.
Out enabled(Tracer& t, PyObject* logger, PyObject* level) {
  if (!PyLong_CheckExact(level))
    return t.breakWith(Reason::kCallsOutside, "logging at a level that is no int");
  auto attribute = [&](PyObject* object, const char* name) -> Out {
    STATOR_VALUE(value, instanceAttr(t, object, interned(name).get()));
    if (!value) return t.breakWith(Reason::kCallsOutside, "a logger of its own kind");
    return value;
  };
  auto below = [&](PyObject* bound) { return PyObject_RichCompareBool(level, bound, Py_LT) == 1; };
  STATOR_VALUE(disabled, attribute(logger, "disabled"));
  STATOR_VALUE(off, truth(t, disabled.get()));
  if (off.get() == Py_True) return newRef(Py_False);
  STATOR_VALUE(manager, attribute(logger, "manager"));
  STATOR_VALUE(all_off, attribute(manager.get(), "_disable"));
  if (!PyLong_CheckExact(all_off.get()))
    return t.breakWith(Reason::kCallsOutside, "a logger of its own kind");
  if (PyObject_RichCompareBool(all_off.get(), level, Py_GE) == 1) return newRef(Py_False);
  Ref<> current = newRef(logger);
  for (;;) {
    STATOR_VALUE(own, attribute(current.get(), "level"));
    STATOR_VALUE(set, truth(t, own.get()));
    if (set.get() == Py_True) {
      if (!PyLong_CheckExact(own.get()))
        return t.breakWith(Reason::kCallsOutside, "a logger of its own kind");
      return newRef(below(own.get()) ? Py_False : Py_True);
    }
    STATOR_VALUE(parent, attribute(current.get(), "parent"));
    if (parent.get() == Py_None) return newRef(Py_True);
    current = parent;
  }
}

Out logAt(Tracer& t, const Args& args, PyObject* level) {
  if (args.positional < 2) return t.breakWith(Reason::kRaises, "logging without a message");
  if (isUserOverride(t, args.values[0], "isEnabledFor")) {
    Ref<> name = interned("isEnabledFor");
    Out found = typeLookup(t, Py_TYPE(args.values[0]), name.get());
    Ref<> module = found.get() != nullptr
                       ? stealRef(PyObject_GetAttrString(found.get(), "__module__"))
                       : Ref<>();
    if (!module || !PyUnicode_Check(module.get()) ||
        PyUnicode_CompareWithASCIIString(module.get(), "logging") != 0) {
      PyErr_Clear();
      return t.breakWith(Reason::kCallsOutside, "a logger of its own kind");
    }
  }
  STATOR_VALUE(shown, enabled(t, args.values[0], level));
  if (shown.get() == Py_True) return t.breakWith(Reason::kCallsOutside, "a message of a logger");
  return newRef(Py_None);
}

template <int level>
Out logMessage(Tracer& t, const Args& args) {
  static PyObject* number = PyLong_FromLong(level);
  return logAt(t, args, number);
}

Out logGeneral(Tracer& t, const Args& args) {
  if (args.positional < 3) return t.breakWith(Reason::kRaises, "logging without a message");
  return logAt(t, args, args.values[1]);
}

Out isEnabledFor(Tracer& t, const Args& args) {
  if (args.positional != 2) return t.breakWith(Reason::kRaises, "isEnabledFor");
  return enabled(t, args.values[0], args.values[1]);
}

}  // namespace

void registerLogging() {
  const std::pair<const char*, CallHandler> rows[] = {
      {"logging.Logger.debug", logMessage<10>},
      {"logging.Logger.info", logMessage<20>},
      {"logging.Logger.warning", logMessage<30>},
      {"logging.Logger.error", logMessage<40>},
      {"logging.Logger.critical", logMessage<50>},
      {"logging.Logger.log", logGeneral},
      {"logging.Logger.isEnabledFor", isEnabledFor},
      {"stator.polyfills.switches.is_enabled", isEnabledFor},
  };
  for (const auto& [path, handler] : rows) registerHandler(path, handler);
}

}  // namespace stator::interpret
