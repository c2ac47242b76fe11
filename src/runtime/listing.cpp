#include "runtime/listing.h"

#include "base/boundary.h"
#include "base/fields.h"
#include "base/hot.h"
#include "runtime/cache.h"
#include "runtime/compiled_function.h"

#include <sstream>

namespace stator::runtime {

namespace {

PyObject* costs = nullptr;  // the list that gets them, while somebody waits

Ref<> text(const std::string& value) {
  return orThrow(PyUnicode_FromStringAndSize(value.data(), static_cast<Py_ssize_t>(value.size())));
}

Ref<> place(PyCodeObject* code, int offset) {
  return orThrow(Py_BuildValue("(OOii)", code->co_qualname, code->co_filename,
                               PyCode_Addr2Line(code, offset), offset));
}

// [(place, ops, guards, symbols)] of each entry, most recently used first at each place.
PyObject* entriesDoor(PyObject*, PyObject* object) {
  return guarded([&]() -> Ref<> {
    if (!isCompiledFunction(object)) {
      PyErr_Format(PyExc_TypeError, "a compiled function is expected, not %.200s",
                   Py_TYPE(object)->tp_name);
      throw PythonError();
    }
    auto* compiled = reinterpret_cast<CompiledFunction*>(object);
    Ref<> found = orThrow(PyList_New(0));
    if (compiled->native_cache == nullptr) return found;
    for (const auto& [code, entries] : compiled->native_cache->codes) {
      if (entries->root != compiled->root && code != compiled->root) continue;
      for (const auto& [offset, site] : entries->sites) {
        for (const std::shared_ptr<Entry>& entry : site.entries) {
          Ref<> at = place(code, offset);
          Ref<> guards = text(entry->guards->text(code));
          Ref<> symbols = text(entry->guards->symbolText(code));
          Ref<> row = orThrow(Py_BuildValue("(OnOO)", at.get(), static_cast<Py_ssize_t>(entry->ops),
                                            guards.get(), symbols.get()));
          if (PyList_Append(found.get(), row.get()) != 0) throw PythonError();
        }
      }
    }
    return found;
  });
}

// A list that gets (place, [(guard, nanoseconds)], nanoseconds of all together) for each entry that serves from now on; None: no more.
PyObject* measureDoor(PyObject*, PyObject* list) {
  if (list != Py_None && !PyList_Check(list)) {
    PyErr_SetString(PyExc_TypeError, "a list or None is expected");
    return nullptr;
  }
  setField(costs, list == Py_None ? Ref<>() : newRef(list));
  Py_RETURN_NONE;
}

}  // namespace

STATOR_HOT bool measuresGuards() { return costs != nullptr; }

void measureGuards(Entry& entry, StatorFrame* frame, const sources::Roots& roots) {
  Ref<> into = newRef(costs);
  const guards::GuardProgram::Costs measured = entry.guards->measure(*entry.sources, roots);
  Ref<> each = orThrow(PyList_New(0));
  for (const auto& [guard, nanoseconds] : measured.each) {
    Ref<> row = orThrow(Py_BuildValue("(sd)", guard.c_str(), nanoseconds));
    if (PyList_Append(each.get(), row.get()) != 0) throw PythonError();
  }
  Ref<> at = place(roots.code, stator_frame_offset(frame));
  Ref<> row = orThrow(Py_BuildValue("(OOd)", at.get(), each.get(), measured.together));
  if (PyList_Append(into.get(), row.get()) != 0) throw PythonError();
}

PyMethodDef listing_methods[] = {
    {"entries", entriesDoor, METH_O, "entries(compiled): what has been captured for it."},
    {"measure_guards", measureDoor, METH_O,
     "measure_guards(list): takes down what the guards of entries that serve cost."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace stator::runtime
