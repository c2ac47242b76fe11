// What is special about a callable: the one place to look up before a call is inlined, run or refused.
#pragma once

#include "base/python.h"
#include "interpret/core/flow.h"

namespace stator::interpret {

class Tracer;

using CallHandler = Out (*)(Tracer& tracer, const Args& args);

enum class CallKind : uint8_t {
  kUnknown,
  kHandler,   // stator has code of its own for it
  kPure,      // a built-in that reads its (plain) arguments and nothing else: run for real
  kGraph,     // a torch function: a node of the graph
  kRefuse,    // runs outside of graphs
  kPolyfill,  // a Python function that does the same is called instead
  // Rules of the user's only.
  kForbid,          // a call of it is an error
  kConstantResult,  // called once, at capture
};

struct CallRow {
  CallKind kind = CallKind::kUnknown;
  CallHandler handler = nullptr;
  PyObject* polyfill = nullptr;  // a str: its name, until it is first called
  // of a polyfill: it cannot be left half way, so a break inside is a break at the call
  bool whole = false;
  bool takes_symbols = false;  // kHandler: symbolic ints among the arguments are moved, or handled
  PyObject* (*load)(const char* name) = nullptr;  // of a polyfill that is a name; null: by its path
};

// By identity: functions, built-in functions, method descriptors, types.
const CallRow* findCall(PyObject* callable);
// "builtins.len", "builtins.list.append", "torch.is_tensor"
void registerHandler(const char* path, CallHandler handler);
void registerPure(const char* path);
// a function of stator.polyfills, by its path there
void registerPolyfill(const char* path, const char* function);
void registerWholePolyfill(const char* path, const char* function);
void registerRow(PyObject* callable, CallRow row);
void allowSymbols(const char* path);  // of a handler that is registered: CallRow::takes_symbols

// By code object, for functions that a library makes anew each time.
using FunctionHandler = Out (*)(Tracer& tracer, PyObject* function, const Args& args);
FunctionHandler findCode(PyCodeObject* code);
void registerCode(PyCodeObject* code, FunctionHandler handler);

}  // namespace stator::interpret
