#include "interpret/core/tables.h"

#include "base/check.h"
#include "base/fields.h"
#include "base/imports.h"
#include "base/ref.h"
#include "base/text.h"
#include "interpret/core/known.h"
#include "interpret/core/tracer.h"
#include "python/types.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace stator::interpret {

namespace {

std::unordered_map<PyObject*, CallRow>& rows() {
  static auto* table = new std::unordered_map<PyObject*, CallRow>();
  return *table;
}

// "builtins.list.append" has to give the descriptor in list's own dict, not what getattr would bind.
PyObject* resolve(const char* path) {
  std::string text(path);
  size_t last = text.rfind('.');
  PyObject* owner = torchObject(text.substr(0, last).c_str());
  if (owner == nullptr) return nullptr;
  if (PyType_Check(owner)) {
    Ref<> name = stealRef(PyUnicode_FromString(text.substr(last + 1).c_str()));
    return _PyType_Lookup(reinterpret_cast<PyTypeObject*>(owner), name.get());
  }
  return torchObject(path);
}

// Rows about what is in our own Python files. Those are loaded when a program first needs one of them: a start needs
// none.
struct LaterRow {
  std::string path;
  CallRow row;
};
std::vector<LaterRow>& later() {
  static auto* rows = new std::vector<LaterRow>();
  return *rows;
}

// Whether the module that it is in has been.
bool isLoaded(const std::string& path) {
  return static_cast<bool>(loadedModule(path.substr(0, path.rfind('.')).c_str()));
}

void registerNowOrLater(const char* path, CallRow row) {
  if (std::string_view(path).starts_with("stator.") && !isLoaded(path)) {
    later().push_back({path, row});
  } else {
    registerRow(resolve(path), row);
  }
}

// Whether it comes from a Python file of ours.
bool isOurs(PyObject* callable) {
  PyObject* module = nullptr;
  if (PyFunction_Check(callable)) {
    module = PyFunction_GET_MODULE(callable);
  } else if (PyType_Check(callable) &&
             stator_is_user_class(reinterpret_cast<PyTypeObject*>(callable))) {
    static PyObject* const name = PyUnicode_InternFromString("__module__");
    module = PyDict_GetItem(stator_type_entries(reinterpret_cast<PyTypeObject*>(callable)), name);
  }
  if (module == nullptr || !PyUnicode_Check(module)) return false;
  const char* text = utf8OrNull(module);
  return text != nullptr && std::string_view(text).starts_with("stator.");
}

// Registers what has been loaded since. Whether there was anything.
bool catchUp() {
  auto waits = [](const LaterRow& row) { return !isLoaded(row.path); };
  auto ready = std::stable_partition(later().begin(), later().end(), waits);
  std::vector<LaterRow> now(ready, later().end());
  later().erase(ready, later().end());
  for (const LaterRow& row : now) registerRow(resolve(row.path.c_str()), row.row);
  return !now.empty();
}

}  // namespace

const CallRow* findCall(PyObject* callable) {
  auto it = rows().find(callable);
  if (it == rows().end()) {
    if (later().empty() || !isOurs(callable) || !catchUp()) return nullptr;
    it = rows().find(callable);
    if (it == rows().end()) return nullptr;
  }
  CallRow& row = it->second;
  if (row.kind == CallKind::kPolyfill && PyUnicode_Check(row.polyfill)) {
    // By its name until it is needed. One that cannot be loaded here (without torch.distributed, say) stands for
    // nothing.
    PyObject* found = (row.load != nullptr ? row.load : torchObject)(utf8(row.polyfill));
    if (found == nullptr) {
      rows().erase(it);
      return nullptr;
    }
    row.polyfill = found;
  }
  return &row;
}

void registerRow(PyObject* callable, CallRow row) {
  if (callable == nullptr) return;
  keepForever(callable);
  rows()[callable] = row;
}

namespace {
std::unordered_map<PyCodeObject*, FunctionHandler>& codeRows() {
  static auto* table = new std::unordered_map<PyCodeObject*, FunctionHandler>();
  return *table;
}
}  // namespace

FunctionHandler findCode(PyCodeObject* code) {
  auto it = codeRows().find(code);
  return it == codeRows().end() ? nullptr : it->second;
}

void registerCode(PyCodeObject* code, FunctionHandler handler) {
  keepForever(reinterpret_cast<PyObject*>(code));
  codeRows()[code] = handler;
}

void registerHandler(const char* path, CallHandler handler) {
  registerNowOrLater(path, CallRow{CallKind::kHandler, handler});
}
void allowSymbols(const char* path) {
  for (LaterRow& row : later()) row.row.takes_symbols |= row.path == path;
  if (std::string_view(path).starts_with("stator.") && !isLoaded(path)) return;
  auto found = rows().find(resolve(path));
  if (found != rows().end()) found->second.takes_symbols = true;
}
void registerPure(const char* path) { registerNowOrLater(path, CallRow{CallKind::kPure, nullptr}); }

namespace {
CallRow polyfillRow(const char* function, bool whole) {
  PyObject* name = PyUnicode_FromFormat("stator.polyfills.%s", function);
  if (name == nullptr) throw PythonError();
  return CallRow{CallKind::kPolyfill, nullptr, name, whole, false};
}
}  // namespace

void registerPolyfill(const char* path, const char* function) {
  registerNowOrLater(path, polyfillRow(function, false));
}

void registerWholePolyfill(const char* path, const char* function) {
  registerNowOrLater(path, polyfillRow(function, true));
}

}  // namespace stator::interpret
