#include "runtime/listing.h"

#include "base/boundary.h"
#include "base/fields.h"
#include "base/hot.h"
#include "runtime/cache.h"
#include "runtime/compiled_function.h"
#include "runtime/learned.h"

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

CompiledFunction* compiledFunction(PyObject* object) {
  if (!isCompiledFunction(object)) {
    PyErr_Format(PyExc_TypeError, "a compiled function is expected, not %.200s",
                 Py_TYPE(object)->tp_name);
    throw PythonError();
  }
  return reinterpret_cast<CompiledFunction*>(object);
}

// What was captured for it: visit(code, its entries).
template <class Visit>
void eachCode(const CompiledFunction* compiled, Visit&& visit) {
  if (compiled->native_cache == nullptr) return;
  for (const auto& [code, entries] : compiled->native_cache->codes) {
    if (entries->root == compiled->root || code == compiled->root) visit(code, *entries);
  }
}

void append(const Ref<>& list, const Ref<>& row) {
  if (PyList_Append(list.get(), row.get()) != 0) throw PythonError();
}

// ([(place, [key of a graph's artifact, ...])] of each entry that has graphs, {content of a function: what was learned
// of it})
PyObject* keptFromPython(PyObject*, PyObject* object) {
  return guarded([&]() -> Ref<> {
    Ref<> graphs = orThrow(PyList_New(0)), learned = orThrow(PyDict_New());
    eachCode(compiledFunction(object), [&](PyCodeObject* code, const CodeEntries& entries) {
      for (const auto& [offset, site] : entries.sites) {
        for (const std::shared_ptr<Entry>& entry : site.entries) {
          if (entry->disk_keys.empty()) continue;
          Ref<> keys = orThrow(PyList_New(0));
          for (const std::string& key : entry->disk_keys) append(keys, text(key));
          Ref<> at = place(code, offset);
          append(graphs, orThrow(PyTuple_Pack(2, at.get(), keys.get())));
        }
      }
      if (!entries.learned || entries.learned->items.empty()) return;
      Ref<> items = text(Learned::text(entries.learned->items));
      if (PyDict_SetItemString(learned.get(), contentOf(code).c_str(), items.get()) != 0)
        throw PythonError();
    });
    return orThrow(PyTuple_Pack(2, graphs.get(), learned.get()));
  });
}

// [(place, ops, guards, symbols)] of each entry, most recently used first at each place.
PyObject* entriesFromPython(PyObject*, PyObject* object) {
  return guarded([&]() -> Ref<> {
    Ref<> found = orThrow(PyList_New(0));
    eachCode(compiledFunction(object), [&](PyCodeObject* code, const CodeEntries& entries) {
      for (const auto& [offset, site] : entries.sites) {
        for (const std::shared_ptr<Entry>& entry : site.entries) {
          Ref<> at = place(code, offset);
          Ref<> guards = text(entry->guards->text(code));
          Ref<> symbols = text(entry->guards->symbolText(code));
          Ref<> row = orThrow(Py_BuildValue("(OnOO)", at.get(), static_cast<Py_ssize_t>(entry->ops),
                                            guards.get(), symbols.get()));
          append(found, row);
        }
      }
    });
    return found;
  });
}

// A list that gets (place, [(guard, nanoseconds)], nanoseconds of all together) for each entry that serves from now on;
// None: no more.
PyObject* measureFromPython(PyObject*, PyObject* list) {
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
    {"entries", entriesFromPython, METH_O, "entries(compiled): what has been captured for it."},
    {"kept", keptFromPython, METH_O,
     "kept(compiled): ([(place, [key, ...]), ...], {function: text}): where what backends made for "
     "it is kept, and what was learned."},
    {"measure_guards", measureFromPython, METH_O,
     "measure_guards(list): takes down what the guards of entries that serve cost."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace stator::runtime
