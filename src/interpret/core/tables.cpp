#include "interpret/core/tables.h"

#include "base/imports.h"
#include "base/ref.h"
#include "interpret/core/known.h"
#include "interpret/core/tracer.h"

#include <string>
#include <unordered_map>

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

}  // namespace

const CallRow* findCall(PyObject* callable) {
  auto it = rows().find(callable);
  return it == rows().end() ? nullptr : &it->second;
}

void registerRow(PyObject* callable, CallRow row) {
  if (callable == nullptr) return;
  Py_INCREF(callable);  // for the life of the process: the key must not be reused
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
  Py_INCREF(code);
  codeRows()[code] = handler;
}

void registerHandler(const char* path, CallHandler handler) {
  registerRow(resolve(path), CallRow{CallKind::kHandler, handler});
}
void allowSymbols(const char* path) {
  auto found = rows().find(resolve(path));
  if (found != rows().end()) found->second.takes_symbols = true;
}
void registerPure(const char* path) {
  registerRow(resolve(path), CallRow{CallKind::kPure, nullptr});
}

void registerPolyfill(const char* path, const char* function) {
  PyObject* polyfill = torchObject((std::string("stator.polyfills.") + function).c_str());
  if (polyfill != nullptr)
    registerRow(resolve(path), CallRow{CallKind::kPolyfill, nullptr, polyfill});
}

void registerWholePolyfill(const char* path, const char* function) {
  PyObject* polyfill = torchObject((std::string("stator.polyfills.") + function).c_str());
  if (polyfill != nullptr)
    registerRow(resolve(path), CallRow{CallKind::kPolyfill, nullptr, polyfill, true, false});
}

}  // namespace stator::interpret
