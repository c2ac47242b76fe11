#include "runtime/guard_filter.h"

#include "base/check.h"
#include "base/imports.h"
#include "known/known_types.h"
#include "runtime/settings.h"

#include <string_view>

namespace stator::runtime {
namespace {

using guards::Guard;
using guards::GuardKind;
using sources::Source;
using sources::SourceKind;

// The module that a source lies inside of, the innermost; null: none.
Ref<> moduleAround(const Source* source, const sources::Roots& roots) {
  for (source = source != nullptr ? source->base : nullptr; source != nullptr;
       source = source->base) {
    Ref<> value = sources::read(*source, roots);
    if (value && known::isModule(value.get())) return value;
  }
  PyErr_Clear();
  return Ref<>();
}

bool isGlobal(const Source* source) {
  if (source == nullptr) return false;
  while (source->base != nullptr) source = source->base;
  return source->kind == SourceKind::kGlobals || source->kind == SourceKind::kBuiltins ||
         source->kind == SourceKind::kPinned;
}

// (name, kind, has a value, value, is global, module around)
Ref<> entryOf(const Guard& guard, const sources::Roots& roots) {
  Ref<> value = guard.source != nullptr ? sources::read(*guard.source, roots) : Ref<>();
  PyErr_Clear();
  Ref<> module = moduleAround(guard.source, roots);
  const std::string name =
      guard.source != nullptr ? sources::print(*guard.source, roots.code) : std::string();
  // By TorchDynamo's names, which filters ask for.
  Ref<> made = stealRef(Py_BuildValue("(ssOOOO)", name.c_str(), guards::rowOf(guard.kind).dynamo,
                                      value ? Py_True : Py_False, value ? value.get() : Py_None,
                                      isGlobal(guard.source) ? Py_True : Py_False,
                                      module ? module.get() : Py_None));
  if (!made) throw PythonError();
  return made;
}

// The user's answer for each of them.
Ref<> ask(const Cache& cache, PyObject* entries) {
  Ref<> module = stealRef(importModule("stator._guard_filter"));
  Ref<> answer = module ? stealRef(PyObject_CallMethod(module.get(), "keep", "(OO)",
                                                       cache.settings.get(), entries))
                        : Ref<>();
  if (!answer) throw PythonError();
  return answer;
}

}  // namespace

void filterGuards(const Cache& cache, StatorFrame* frame, interpret::Captured& captured) {
  const bool all_modules = configValues().guard_nn_modules;
  if (!cache.asks_about_guards && all_modules) return;
  const sources::Roots roots = sources::Roots::of(frame);
  const std::vector<Guard>& all = captured.guards->all();
  std::vector<bool> keep(all.size() + 1, true);
  if (!all_modules) {
    for (size_t i = 0; i < all.size(); ++i)
      keep[i] = all[i].kind == GuardKind::kTensor || !moduleAround(all[i].source, roots);
  }
  if (cache.asks_about_guards) {
    Ref<> entries = stealRef(PyList_New(0));
    for (const Guard& guard : all) PyList_Append(entries.get(), entryOf(guard, roots).get());
    // What holds between sizes is one guard, the last.
    Ref<> shapes =
        stealRef(Py_BuildValue("(ssOOOO)", "", "SHAPE_ENV", Py_False, Py_None, Py_False, Py_None));
    if (!shapes || PyList_Append(entries.get(), shapes.get()) < 0) throw PythonError();
    Ref<> answer = ask(cache, entries.get());
    for (size_t i = 0; i < keep.size(); ++i)
      keep[i] = keep[i] && PyList_GET_ITEM(answer.get(), static_cast<Py_ssize_t>(i)) == Py_True;
  }
  auto kept = std::make_unique<guards::GuardSet>();
  kept->relations = captured.guards->relations;
  if (!keep[all.size()]) {
    kept->relations.conditions.clear();
    kept->relations.floats.clear();
  }
  for (size_t i = 0; i < all.size(); ++i) {
    if (keep[i]) kept->add(all[i]);
  }
  captured.guards = std::move(kept);
  captured.managed.clear();
}

}  // namespace stator::runtime
