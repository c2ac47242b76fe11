// The symbolic interpreter: runs bytecode over real objects and stand-ins, puts tensor operations into the graph,
// guards every fact it reads from outside, and ends in a return or in an exit that the driver can go on from.
// A Tracer lives for one capture and is made of parts; each part says what it owns. What the rooms of interpret/ do
// with them are functions that take the Tracer. Nothing it does is visible to the user's program.
#pragma once

#include "graph/stand_in.h"
#include "interpret/core/above.h"
#include "interpret/core/budget.h"
#include "interpret/core/class_state.h"
#include "interpret/core/effects.h"
#include "interpret/core/ending.h"
#include "interpret/core/error_state.h"
#include "interpret/core/frame_stack.h"
#include "interpret/core/function_modes.h"
#include "interpret/core/graphs.h"
#include "interpret/core/identities.h"
#include "interpret/core/module_calls.h"
#include "interpret/core/own_keys.h"
#include "interpret/core/pending_texts.h"
#include "interpret/core/sizes.h"
#include "interpret/core/storages.h"
#include "interpret/core/torch_state.h"
#include "interpret/core/trace_options.h"
#include "interpret/core/world.h"
#include "interpret/core/wrappers.h"
#include "values/value_table.h"

#include <string>

namespace stator::interpret {

// What every file of the tracer speaks of.
using breaks::Reason;
using guards::Guard;
using guards::GuardKind;
using sources::Source;
using sources::SourceKind;

class Tracer {
 public:
  // `above` outlives it, and may be asked once it is made.
  Tracer(StatorFrame* frame, const TraceOptions& options, Above& above);
  ~Tracer();

  // ---- how a step ends
  // -----------------------------------------------------------------------------------------------------------------
  Flow breakWith(Reason reason, std::string detail = "") {
    return ending.breakWith(reason, std::move(detail));
  }
  Flow raise(Ref<> exception);  // an exception instance
  Flow raiseCurrentError();     // the Python error that is set, fetched
  Flow raiseNew(PyObject* type, const char* format, ...);
  // A null Ref with a Python error set becomes a raise.
  Out fromNative(Ref<> result);

  // ---- what every room asks
  // ------------------------------------------------------------------------------------------------------------
  const Source* sourceOf(PyObject* object);  // null if it has none
  Ref<> made(Ref<> object);                  // records it as made in the trace
  bool isMade(PyObject* object);
  const graph::Location* location();  // of the instruction under way

  // ---- parts
  // ---------------------------------------------------------------------------------------------------------------------------
  const TraceOptions options;
  Above& above;
  World world;
  values::ValueTable values;
  Budget budget;
  Ending ending;
  ErrorState errors;
  FrameStack frames;
  Graphs graphs;
  Sizes sizes;
  Identities identities;
  OwnKeys own_keys;
  PendingTexts texts;
  ClassState classes;
  ModuleCalls modules;
  Effects effects;
  Storages storages;
  TorchState torch;
  FunctionModes torch_function;
  Wrappers wrappers;
};

}  // namespace stator::interpret
