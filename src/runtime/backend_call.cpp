#include "runtime/backend_call.h"

#include "base/check.h"
#include "regions/compile.h"
#include "runtime/settings.h"

namespace stator::runtime {

namespace {

bool says(BorrowedRef<> settings, const char* name) {
  Ref<> answer = stealRef(PyObject_GetAttrString(settings.get(), name));
  if (!answer) PyErr_Clear();
  return answer.get() == Py_True;
}

}  // namespace

BackendCall::BackendCall(std::shared_ptr<graph::Graph> graph, BorrowedRef<PyCodeObject> code,
                         bool grad_enabled, BorrowedRef<> settings, bool whole,
                         PrepareModule prepare)
    : graph_(std::move(graph)),
      code_(code),
      grad_enabled_(grad_enabled),
      settings_(settings),
      prepare_(std::move(prepare)) {
  std::optional<regions::Wish> wish;
  if (!whole) wish = regions::wishOf(settings);
  if (wish) {
    cut_ = regions::findRegions(*graph_, grad_enabled_, *wish);
    shown_only_ = says(settings, "shows_regions");
    may_fail_ = wish->may_fail;
  }
  if (!cut_.pieces.empty() && !shown_only_) return;
  module_ = graph::moduleFor(graph_, code_, settings_);
  if (!module_) throw PythonError();
  prepare_(module_.get());
}

graph::Compiled BackendCall::compile(BorrowedRef<> backend) {
  if (cut_.pieces.empty() || shown_only_) return compileWhole(backend);
  regions::CompiledRegions made =
      regions::compileRegions(graph_, cut_, grad_enabled_, code_, backend, prepare_);
  statistics().backend_compilations += static_cast<int64_t>(made.tried);
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
  return compileWhole(backend);
}

graph::Compiled BackendCall::compileWhole(BorrowedRef<> backend) {
  if (!module_) {
    module_ = graph::moduleFor(graph_, code_, settings_);
    if (!module_) throw PythonError();
    prepare_(module_.get());
  }
  statistics().backend_compilations += module_.get() != Py_None ? 1 : 0;
  return graph::compile(graph_, module_, backend);
}

}  // namespace stator::runtime
