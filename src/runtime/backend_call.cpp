#include "runtime/backend_call.h"

#include "base/boundary.h"
#include "base/check.h"
#include "regions/compile.h"
#include "runtime/differentiated.h"
#include "runtime/disk_cache.h"
#include "runtime/entry.h"
#include "runtime/settings.h"

#include <chrono>

namespace stator::runtime {

namespace {

bool says(PyObject* settings, const char* name) {
  Ref<> answer = stealRef(PyObject_GetAttrString(settings, name));
  if (!answer) PyErr_Clear();
  return answer.get() == Py_True;
}

// Of a region: how many calls of its graph it is counted for.
void countFor(PyObject* module, size_t calls) {
  Ref<> number = orThrow(PyLong_FromSize_t(calls));
  auto* own = reinterpret_cast<PyObject*>(Py_TYPE(module));
  if (PyObject_SetAttrString(own, "_stator_calls", number.get()) < 0) throw PythonError();
}

}  // namespace

BackendCall::BackendCall(std::shared_ptr<graph::Graph> graph, PyCodeObject* code,
                         PyObject* settings, Options options, PrepareModule prepare)
    : graph_(std::move(graph)),
      code_(code),
      settings_(settings),
      options_(options),
      prepare_(std::move(prepare)) {
  std::optional<regions::Wish> wish;
  if (!options_.bounds.empty()) {
    cut_ = regions::cutAt(*graph_, options_.grad_enabled, options_.bounds);
  } else if (!options_.as_captured) {
    wish = regions::wishOf(settings);
  }
  if (wish) {
    cut_ = regions::findRegions(*graph_, options_.grad_enabled, *wish);
    shown_only_ = says(settings, "shows_regions");
    may_fail_ = wish->may_fail;
  }
  if (cut_.pieces.empty() || shown_only_) whole_ = ready(graph_);
}

graph::Compiled BackendCall::compile(PyObject* backend) {
  if (whole_.module) return finish(graph_, std::move(whole_), backend);
  regions::CompiledRegions made =
      regions::compileRegions(graph_, cut_, options_.grad_enabled,
                              [&](const std::shared_ptr<graph::Graph>& piece, size_t calls) {
                                return finish(piece, ready(piece, calls), backend);
                              });
  if (made.compiled.callable) {
    statistics().regions += static_cast<int64_t>(cut_.distinct);
    statistics().region_calls += static_cast<int64_t>(cut_.pieces.size());
  }
  if (!made.compiled.callable && !made.to_be_whole && may_fail_ &&
      PyErr_ExceptionMatches(PyExc_Exception)) {
    PyErr_Clear();  // if the graph is to blame, the backend says so again
    made.to_be_whole = true;
  }
  if (!made.to_be_whole) return std::move(made.compiled);
  cut_ = {};
  disk_keys_.clear();
  return finish(graph_, ready(graph_), backend);
}

BackendCall::Ready BackendCall::ready(const std::shared_ptr<graph::Graph>& graph,
                                      std::optional<size_t> calls) {
  Ready made;
  const auto start = std::chrono::steady_clock::now();
  if (!options_.as_captured) {
    Kept kept = findKept(*graph, settings_);
    made.disk_key = std::move(kept.key);
    made.found = std::move(kept.compiled);
  }
  disk_keys_.push_back(made.disk_key);
  if (graph == graph_) search_seconds_ = secondsSince(start);
  // What an earlier process made of an equal graph needs no module, unless somebody looks at it.
  const bool found = static_cast<bool>(made.found.callable);
  const bool unseen = found && !options_.seen && !says(settings_, "is_watched");
  made.module = unseen ? newRef(Py_None) : graph::moduleFor(graph, code_, settings_);
  if (!made.module) throw PythonError();
  if (made.module.get() != Py_None) {
    prepare_(made.module.get());
    if (calls) countFor(made.module.get(), *calls);
  }
  if (found) announce(calls.value_or(graph->callCount()), made.module.get());
  return made;
}

// Tells who listens of a graph that no backend has to be called for; without a module nobody looks at it, and it is
// only counted.
void BackendCall::announce(size_t calls, PyObject* module) {
  if (module == Py_None) {
    orThrow(PyObject_CallMethod(settings_, "count", "n", static_cast<Py_ssize_t>(calls)));
  } else {
    orThrow(PyObject_CallMethod(settings_, "announce", "O", module));
  }
}

graph::Compiled BackendCall::finish(const std::shared_ptr<graph::Graph>& graph, Ready ready,
                                    PyObject* backend) {
  graph::Compiled compiled = std::move(ready.found);
  if (compiled.callable) {
    graph->dropExamples();
  } else {
    statistics().backend_compilations += ready.module.get() != Py_None ? 1 : 0;
    compiled = graph::compile(graph, ready.module.get(), backend, ready.disk_key);
  }
  if (!compiled.callable || options_.place.empty() || compiled.number < 0) return compiled;
  compiled.callable = differentiated(graph, std::move(compiled.callable),
                                     {options_.place, newRef(settings_), compiled.number});
  if (graph == graph_ && options_.differentiates)
    compiled.callable = regions::keepingApart(*graph, std::move(compiled.callable));
  return compiled;
}

}  // namespace stator::runtime
