// The symbolic interpreter: runs bytecode over real objects and stand-ins, puts tensor operations into the graph, guards every fact it
// reads from outside, and ends in a return or in an exit that the driver can go on from.
// A Tracer lives for one capture. Nothing it does is visible to the user's program.
#pragma once

#include "base/ref.h"
#include "breaks/plan.h"
#include "breaks/reasons.h"
#include "bytecode/code_info.h"
#include "graph/graph.h"
#include "graph/stand_in.h"
#include "guards/guard.h"
#include "interpret/dynamic.h"
#include "interpret/flow.h"
#include "shapes/infer.h"
#include "symbolic/environment.h"
#include "tensor/torch_function.h"
#include "values/value_table.h"

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace stator::interpret {

// What every file of the tracer speaks of.
using breaks::Reason;
using guards::Guard;
using guards::GuardKind;
using sources::Source;
using sources::SourceKind;

struct CallRow;

// What a caller does with an inlined callee's value; the same numbers as runtime::Continuation.
enum class Then : uint8_t {
  kPush = 0,
  kDiscard = 1,
  kPushInstance = 2,
  kPushTruth = 3,
  kPushNotTruth = 4
};

// A call of one of torch's own layers of a specialised module, under way: what its trace is replaced by is one node.
struct FoldedCall {
  Ref<> module;
  std::vector<Ref<>> values;
  size_t positional = 0;
  Ref<> keywords;         // names, or null
  size_t first_node = 0;  // of the graph, at the call
  uint64_t instruction = 0;
  uint64_t effects = 0;  // Tracer::effects then
  shapes::State state;
};

struct SymbolicFrame {
  bytecode::CodeInfo* code = nullptr;
  Ref<> function;  // the function object (trace value); null for the driven frame
  Ref<> keep_code;
  PyObject* globals = nullptr;  // borrowed: the function keeps it
  PyObject* builtins = nullptr;
  const sources::Source* globals_source = nullptr;
  std::vector<Ref<>> slots;
  std::vector<Ref<>> stack;
  // Slots (and stack) of the driven frame that have not been looked at yet: read from outside on first use.
  std::vector<bool> untouched;
  size_t lazy_stack = 0;  // so many entries from the bottom still hold `unread` markers
  int index = 0;          // instruction
  PyObject* kw_names = nullptr;
  Ref<> contents;  // of a class body: the dict that its names go to
  Then then = Then::kPush;
  Ref<> instance;
  const graph::Location* call_site = nullptr;
  const graph::ModuleScope* scope = nullptr;
  uint64_t entered_at = 0;  // instruction count of the call
  std::unique_ptr<FoldedCall> fold;
  bool folding = false;  // this frame's call, or one around it, is to become one node
  bool nested = false;   // entered from C++ code: cannot become a real frame
  bool generator = false;
  // a descriptor's method: an AttributeError that leaves it makes the caller ask __getattr__
  bool getattr_follows = false;
  PyObject* generator_object = nullptr;

  const bytecode::Instr& instr() const { return code->instrs()[static_cast<size_t>(index)]; }
  PyObject* top(size_t n = 0) const { return stack[stack.size() - 1 - n].get(); }
  void push(Ref<> value) { stack.push_back(std::move(value)); }
  void drop(size_t n = 1) { stack.resize(stack.size() - n); }
  Ref<> pop() {
    Ref<> value = std::move(stack.back());
    stack.pop_back();
    return value;
  }
};

// A context manager of torch's that the graph has entered and not left yet.
struct OpenContext {
  PyObject* object = nullptr;  // borrowed: the value table or the program's frames keep it
  uint64_t entered_at = 0;
  shapes::State outer;
  Ref<> stand_in;  // what the graph's entry returns
  bool sets_cache = false;
  bool cache = false;
};

struct Limits {
  uint64_t instructions = 2'000'000;
  uint64_t nodes = 200'000;
  double seconds = 120;
  // Instructions without a new node: before the first node, and behind it.
  uint64_t quiet = 2'000'000;
  uint64_t quiet_with_nodes = 2'000'000;
};

struct TraceOptions {
  Limits limits;
  bool fullgraph = false;
  DynamicMode dynamic = DynamicMode::kStatic;
  DynamicHistory* history = nullptr;  // of the place; null: none is kept
  bool specialize_modules = false;
  bool own_parameters = false;  // parameters and buffers become attributes of the graph
  // the backend runs the graph operation by operation, so that leaves of autograd may be made in it
  bool runs_as_captured = false;
  bool symbolic_floats = false;         // a float that changed is an input of the graph
  bool capture_scalar_outputs = false;  // item() is a node of the graph
  // a symbol with more conditions than this becomes a number; 0: no limit
  int64_t symbol_guard_limit = 0;
  bool skip_fsdp_guards = true;
  // Forced breaks: before every n-th legal instruction (0: none), or with probability 1/n by a seeded generator.
  uint64_t break_every = 0;
  uint64_t random_seed = 0;
  bool random = false;
  // Break before the instruction with this count (0: none): how a capture that met something it cannot undo starts over.
  uint64_t break_at = 0;
  breaks::Reason break_at_reason = breaks::Reason::kNone;
  std::string break_at_detail;
};

struct Broke {
  breaks::Reason reason = breaks::Reason::kNone;
  std::string detail;
};

// Modules that FSDP manages, as the trace met them.
using ManagedModules = std::vector<std::pair<const sources::Source*, Ref<>>>;
// Whether a source lies inside of one of them.
class FsdpInside {
 public:
  explicit FsdpInside(const ManagedModules& managed);
  bool operator()(const sources::Source* source) const;

 private:
  std::unordered_set<const sources::Source*> managed_;
};
// The guards for a call on the very same modules, whose insides are FSDP's matter: without those on insides, but for tensors and hooks.
std::unique_ptr<guards::GuardSet> guardsOfSameModules(const guards::GuardSet& guards,
                                                      const ManagedModules& managed);

// The result of a finished trace, independent of the Tracer.
struct Captured {
  std::shared_ptr<graph::Graph> graph;
  std::unique_ptr<sources::SourceSet> sources;
  std::unique_ptr<guards::GuardSet> guards;
  breaks::Plan plan;
  uint64_t instructions = 0;
  // the trace changed what it had read (lazy modules): run it again as it is
  bool start_anew = false;
  bool grad_enabled = false;    // at the beginning
  bool has_subclasses = false;  // among the inputs: the graph takes them for plain tensors
  uint64_t watched = 0;         // instructions of watched code
  // Set if the trace has to be run again with a break at that instruction.
  uint64_t restart_at = 0;
  breaks::Reason restart_reason = breaks::Reason::kNone;
  std::string restart_detail;
  bool break_is_error = false;
  // config.skip_fsdp_guards: what is inside of them is not checked when they are the same ones
  ManagedModules managed;
};

class Tracer {
 public:
  Tracer(StatorFrame* frame, const TraceOptions& options);
  ~Tracer();
  // Interprets from the frame's offset on. Throws InternalError if stator is wrong, PythonError if Ctrl-C arrived.
  Captured run();

  // ---- what handlers use -------------------------------------------------------------------------------------------------------------
  SymbolicFrame& frame() { return *frames.back(); }
  Flow breakWith(breaks::Reason reason, std::string detail = "");
  Flow raise(Ref<> exception);  // an exception instance
  Flow raiseCurrentError();     // the Python error that is set, fetched
  Flow raiseNew(PyObject* type, const char* format, ...);
  // A null Ref with a Python error set becomes a raise.
  Out fromNative(Ref<> result);

  // calls/errors.cpp
  // makes the built-in raise its own error; a break as before if it does not
  Out raiseNatively(PyObject* callable, const Args& args);
  // arguments do not fit a Python function
  Flow raiseBinding(PyObject* function, const Args& args);
  Flow raiseAttributeError(PyObject* object, PyObject* name);
  Flow raiseNameError(PyObject* type, const char* format, PyObject* name);  // one %U

  // scalars.cpp
  // what an instance of a subclass of str, int ... holds; ok with null: it is no such instance
  Out exactScalar(PyObject* value);
  // the same, but null also where the subclass gives an operation another meaning
  Out plainScalar(PyObject* value);
  Out addressOf(PyObject* object);                          // id()
  Out addressOfNumber(PyObject* object, PyObject* number);  // the same with a number of its own
  PyObject* addressTarget(PyObject* address);
  // the real number, for which the object has to be the very one; breaks if the trace made it
  Out pinnedAddress(PyObject* address);
  // a tuple or frozenset in a code object: the same one at every call
  void noteCodeConstant(PyObject* constant);
  void noteIdentity(PyObject* object);  // the trace relies on what it is not identical with

  // outside.cpp: values that existed before the trace
  Out fromOutside(BorrowedRef<> object, const sources::Source* source);
  // calls/arrays.cpp; ok with null: no NumPy array that a tensor could stand for
  Out arrayFromOutside(PyObject* raw, const sources::Source* source);
  // one that is drawn when the captured part runs; `seen` has its facts
  Out arrayDrawn(PyObject* seen, const sources::Source* source);

  // symbols.cpp: symbolic ints (symbolic/sym_int.h)
  Ref<> symInt(symbolic::Dim dim);    // as a value of the trace: a SymInt, or a plain int
  Ref<> symNode(symbolic::Dim dim);   // as an argument of the graph: a stand-in, or a plain int
  Ref<> lowered(PyObject* argument);  // a graph argument with stand-ins in place of SymInts
  // the number that it is now, and has to be from here on; symbolic::Undecided where there is none yet
  Ref<> concrete(PyObject* symbol);
  // the same for all SymInts in it, in place; false: there were none
  bool makeConcrete(PyObject* container, int depth = 0);
  // sym_scalars.cpp
  // ok with null: it stays a constant
  Out floatFromOutside(PyObject* raw, const sources::Source* source);
  Ref<> scalarNode(PyObject* scalar);                                  // its stand-in
  Ref<> scalarBinary(int operation, PyObject* left, PyObject* right);  // null: not for these
  Ref<> scalarUnary(int operation, PyObject* operand);
  Ref<> scalarCompare(int operation, PyObject* left, PyObject* right);
  Ref<> concreteScalar(PyObject* scalar);
  // item() and its like with config.capture_scalar_outputs; ok with null: not for this tensor
  Out readIntoGraph(PyObject* target, PyObject* tensor);
  void limitConditions();
  const symbolic::Expr* addUnbacked(Ref<> stand_in, symbolic::Range range);
  Ref<> symBinary(int operation, PyObject* left, PyObject* right);  // null: not for symbols
  // True or False; null: not for symbols
  Ref<> openCompare(int operation, const symbolic::Expr* left, const symbolic::Expr* right);
  Ref<> symCompare(int operation, PyObject* left, PyObject* right);
  const symbolic::Expr* addSymbol(const sources::Source* source, int64_t hint,
                                  symbolic::Range range);
  Out intFromOutside(PyObject* raw, const sources::Source* source);  // ok with null: a constant
  // a tuple of ints that was another one at the last capture
  bool tupleChanged(PyObject* raw, const sources::Source* source);
  static std::string placeOf(const graph::Location* location);  // file:line in function
  // conditions become guards; throws PythonError if a demand is not met
  void finishSymbols(Captured& captured);
  graph::Node* addSymbolInput(size_t symbol);
  void addMissingSymbolInputs();
  void shapeFromOutside(PyObject* raw, const sources::Source* source, tensor::TensorGuard& guard,
                        shapes::TensorMeta& meta);

  void guardConstant(PyObject* raw, const sources::Source* source);
  const sources::Source* sourceOf(PyObject* object);  // null if it has none
  void guardType(PyObject* object, const sources::Source* source);
  Ref<> made(Ref<> object);  // records it as made in the trace
  bool isMade(PyObject* object);
  // the type that the program sees (stand-ins: Tensor, Parameter ...)
  bool isProxied(PyObject* value);  // a dict that the program sees through a mappingproxy
  PyTypeObject* typeOf(PyObject* value);
  // The container to operate on: the shadow of an outside one (made on first use, whole contents guarded), or the object itself.
  Out contents(PyObject* container);
  Out contentsForWrite(PyObject* container);
  Out keyedByPosition(PyObject* dict);  // contents of a dict with keys that are no constants
  bool runsModuleCall();                // the innermost frame is nn.Module._call_impl
  void knowKeys(values::Info* info);    // guards keys that have not mattered so far
  Out viewedDict(PyObject* view);       // the dict (trace value) that a dict view looks into
  Out viewContents(PyObject* view);     // the same kind of view, of that dict's contents
  // Single keys and attributes that are written, without a look at the rest.
  void noteWrite(PyObject* object);
  void writeOverlay(values::Info* info, PyObject* key, PyObject* value);
  void eraseOverlay(values::Info* info, PyObject* key, bool there_before);
  void applyOverlay(values::Info* info, PyObject* shadow);
  // no stand-in, no real tensor, nothing outside unread: native code may have it
  bool isNativeSafe(PyObject* object, int depth = 0);
  // A copy of the value in which outside containers are replaced by their contents, for native calls and graph arguments.
  Out plain(PyObject* value);
  Out readSlot(SymbolicFrame& frame, size_t slot);
  Out cellContents(PyObject* cell);  // ok with a null Ref: empty
  Flow storeCell(PyObject* cell, Ref<> value);

  // attributes.cpp
  Out getAttr(PyObject* object, PyObject* name);
  // ok with a null Ref instead of AttributeError
  Out getAttrOrNull(PyObject* object, PyObject* name);
  Out callGetattr(PyObject* object, PyObject* name);
  // object.__getattribute__: no __getattribute__ or __getattr__ of the class
  Out getAttrGeneric(PyObject* object, PyObject* name);
  Flow setAttr(PyObject* object, PyObject* name, PyObject* value);  // null: delete
  // hooks: the metaclass's __setattr__ is asked first
  Flow setTypeAttr(PyTypeObject* type, PyObject* name, PyObject* value, bool hooks);
  // along the MRO, guarded; ok with a null Ref: not there
  Out typeLookup(PyTypeObject* type, PyObject* name);
  // instance dict as it is; borrowed, null: not there
  static PyObject* rawInstanceAttr(PyObject* object, PyObject* name);
  static bool hasInstanceDict(PyObject* object);
  // the instance dict alone, guarded; ok with a null Ref: not there
  Out instanceAttr(PyObject* object, PyObject* name);
  Flow storeInstanceAttr(PyObject* object, PyObject* name, PyObject* value);
  Out classAttrValue(PyTypeObject* owner, PyObject* name, PyObject* raw);
  Out bindDescriptor(PyObject* descriptor, PyObject* object, PyTypeObject* type,
                     const sources::Source* source);
  Out loadGlobal(SymbolicFrame& frame, PyObject* name);
  // method looked up on the type, bound; ok with null: not there
  Out special(PyObject* object, const char* name);

  // items.cpp
  Out getItem(PyObject* container, PyObject* key);
  Flow setItem(PyObject* container, PyObject* key, PyObject* value);
  Flow delItem(PyObject* container, PyObject* key);
  Out length(PyObject* container);
  Out truth(PyObject* value);  // Py_True / Py_False
  Out contains(PyObject* container, PyObject* item);
  Out iterate(PyObject* iterable);                     // an iterator (trace value)
  Out next(PyObject* iterator);                        // ok with a null Ref: exhausted
  Out nextFromOutside(PyObject* iterator);             // of a list, tuple or range
  Out nextOfItertools(PyObject* iterator);             // calls/itertools.cpp
  Out extendList(PyObject* list, PyObject* iterable);  // list.extend
  Out listOf(PyObject* iterable, Py_ssize_t most = -1);
  // As list() does it, which asks the iterable for its length.
  Out sizedListOf(PyObject* iterable);
  Flow askForLength(PyObject* iterable);
  Flow fillList(PyObject* list, PyObject* iterator, Py_ssize_t most);
  // all items, as a fresh list of trace values
  Out setOperand(PyObject* iterable);
  Out same(PyObject* left, PyObject* right);   // `is`
  Out dictGet(PyObject* dict, PyObject* key);  // ok with null: missing
  bool hashableNatively(PyObject* key);
  void guardDefaultHash(PyTypeObject* type);
  // keys.cpp: dicts and sets with keys that have their own __hash__ or __eq__
  Out hashOf(PyObject* value);  // the class's own __hash__
  // A dict or set, a key or a tuple of them that has or is such a key.
  bool hasOwnKeys(PyObject* value);
  // The key, or what it is made of, is to be hashed and compared by methods of its class, which keyed() asks for.
  Flow noteOwnKeys(PyObject* key);
  // Runs native code that hashes and compares keys. `changed` is what it writes to, or null. Ok with null: it gave nothing, and no error.
  using KeyedOperation = std::function<PyObject*(PyObject* changed)>;
  Out keyed(PyObject* changed, const KeyedOperation& operation);
  Out answerKeys(PyObject* changed, const KeyedOperation& operation);
  Out tupleHash(PyObject* tuple);  // with tensors in it: hashed by their addresses
  bool sameHashAtExit(PyObject* key);
  // A key that is known to be another than all in the dict; hash -1: the native one. False with an error set.
  bool addKey(PyObject* dict, PyObject* key, PyObject* value, Py_hash_t hash);
  // ok: native code may hash and compare it; otherwise raises or breaks
  Flow requireHashable(PyObject* key);

  // operators.cpp
  Out binary(int operation, PyObject* left, PyObject* right);
  Out unary(int operation, PyObject* operand);
  Out compare(int operation, PyObject* left, PyObject* right);

  // calls.cpp
  Out call(PyObject* callable, const Args& args, Then then = Then::kPush);
  // runs to its end before it returns; a break inside breaks here
  Out callNested(PyObject* callable, const Args& args);
  Out callNested(PyObject* callable, std::initializer_list<PyObject*> args);
  Out inlineFunction(PyObject* function, const Args& args, Then then);
  // metaclass_call: a metaclass's own __call__ is asked
  Out instantiate(PyTypeObject* type, const Args& args, Then then, bool metaclass_call = true);
  Out makeClass(PyTypeObject* meta, const Args& args);  // type.__new__(meta, name, bases, contents)
  bool isMadeClass(PyObject* object);
  Out isInstance(PyObject* object, PyObject* classinfo);
  Out isSubclass(PyObject* type, PyObject* classinfo);
  Out runGenerator(PyObject* generator, Ref<> sent);  // ok with null: it returned
  // a pure built-in over native-safe arguments
  Out callNative(PyObject* callable, const Args& args);
  Out callDescriptor(PyObject* descriptor, const Args& args, Then then);
  // an operator.itemgetter, attrgetter or methodcaller
  Out callGetter(PyObject* getter, const Args& args);
  Out callCached(PyObject* cache, const Args& args);  // a functools.lru_cache
  Out callModule(PyObject* module, const Args& args, Then then);
  // calls/switches.cpp: functions that the program has said something about
  Out callByRule(const CallRow& row, PyObject* callable, const Args& args, Then then);
  Out callCompiled(PyObject* compiled, const Args& args, Then then);
  Out constantResult(PyObject* callable, const Args& args);
  Out nativeNew(PyTypeObject* base, const Args& args);
  Out nativeInit(PyTypeObject* owner, const Args& args);
  Out fromNativeMade(Ref<> object);
  Flow setAttrGeneric(PyObject* object, PyObject* name, PyObject* value);  // object.__setattr__
  bool isUserOverride(PyObject* object, const std::string& name);
  Out raiseStop(PyObject* iterator);  // StopIteration, with a generator's return value
  // dict.__setitem__ past any override
  Flow setItemBase(PyObject* dict, PyObject* key, PyObject* value);
  Flow dictUpdate(PyObject* dict, const Args& args);  // dict.update's arguments
  bool noGlobalHooks();                               // registered for all modules; guarded
  const graph::ModuleScope* moduleScope(PyObject* module);
  void startFold(PyObject* module, const Args& args, SymbolicFrame& entered);
  // replaces what was traced of the call by one node, if it had no other effect
  void finishFold(SymbolicFrame& frame);
  void specialise(PyObject* module);  // the trace is about this very module
  static bool isFsdpManaged(PyObject* module);
  void noteFsdpModules(Captured& captured);
  void setRootScope();  // where the driven frame is a module's forward
  // the innermost frame returns `returned`: pops it and gives the caller its value
  Flow leaveFrame();
  Out handledException();  // what this frame's handlers are busy with; ok with null: none
  // the same, or what the frames around a generator are busy with: what a bare `raise` raises
  Out topmostException();
  // Throws into a generator made in the trace; like runGenerator. `close` ends it.
  Out throwIntoGenerator(PyObject* generator, Ref<> exception);
  Out closeGenerator(PyObject* generator);
  Flow runUntil(size_t depth);
  // Runs what was entered to its end and gives its value. A break inside takes the whole trace back to the instruction under way.
  Out settle(Out out);

  // calls/known_scalars.cpp
  // a real tensor of one element, if the trace knows its value; null otherwise
  Ref<> knownTensor(PyObject* stand_in);
  Ref<> knownSlices(PyObject* index);

  // calls/subgraphs.cpp
  graph::Graph& rootGraph() { return outer_graphs.empty() ? *graph : *outer_graphs.front(); }
  bool isReachable(const graph::Node* node) const;  // of the graph under way, or of one around it

  // torch_calls.cpp
  // as the graph keeps it: containers are copied, since the program may change them later
  Out graphArgument(PyObject* value, int depth = 0);
  // remember: what comes out depends on the arguments alone; facts: a callable that tells the facts of the results in the target's place
  Out tensorCall(graph::Op op, PyObject* target, const Args& args, bool remember = true,
                 PyObject* facts = nullptr);
  // torch_function.cpp
  Out dispatchTorchFunction(graph::Op op, PyObject* target, const Args& args, bool& handled);
  void readFunctionModes();  // those that are active when the trace begins
  // an argument has a __torch_function__ that torch would ask
  bool hasOverloaded(const Args& args);
  void noteOverloads(PyTypeObject* type);              // of a tensor that comes up
  Out castTo(PyObject* stand_in, PyTypeObject* type);  // as_subclass: another object, the same node
  // real tensors of its node are of another type than it stands for
  static bool isCast(PyObject* stand_in);
  Out newTensorOf(PyTypeObject* type, const Args& args);
  // wrapper_tensors.cpp: tensors whose class has its own __torch_dispatch__ and can be taken apart
  Out wrapperFromOutside(PyObject* raw, const sources::Source* source);
  // an attribute of the instance; ok with null: not there
  Out wrapperAttr(PyObject* stand_in, PyObject* name);
  Out makeWrapper(PyTypeObject* type, const Args& args);  // calling the class
  // a call that gives such a tensor or takes one; `facts` as in tensorCall
  Out callForWrapper(graph::Op op, PyObject* target, const Args& args, PyObject* facts = nullptr);
  // of what shares memory with it, wrappers and what they are made of
  std::unordered_set<uint32_t> tiedStorages(uint32_t storage) const;
  // several inputs have that memory, and a backend that takes wrappers apart cannot tell them of a write
  bool writesToShared(uint32_t storage);
  bool wasWrittenThrough(uint32_t storage);  // the same for an input that comes up after the write
  // the fake instance; null: a tensor of another class, or none
  static PyObject* wrapperOf(PyObject* stand_in);
  // whether operations on them are for some class to decide; makes sure that they all are known by fakes that live on
  bool prepareWrappers(const std::vector<PyObject*>& arguments);
  Out callMethodWrapper(PyObject* wrapper, const Args& args);
  // attributes.cpp: of the raw entry in the class that has it
  const sources::Source* classEntry(PyTypeObject* type, PyObject* name);
  // tensor_attributes.cpp
  Out tensorAttr(PyObject* stand_in, PyObject* name);
  Out instanceTensorAttr(PyObject* stand_in, PyObject* name);  // ok with null: not there
  Flow setTensorAttr(PyObject* stand_in, PyObject* name, PyObject* value);  // null: delete
  void noteWritten(PyObject* stand_in);  // inputs that share its memory are written to
  Out callTorch(PyObject* callable, const Args& args, bool& handled);
  // calls/writes.cpp: an in-place operation that would raise when it runs; its first tensor is what it writes to.
  bool writeMayFail(PyObject* target, const std::vector<PyObject*>& arguments,
                    const std::vector<PyObject*>& tensors, std::string& why);
  bool hasStandIn(PyObject* value, int depth = 0);
  bool anyStandIn(const Args& args);

  const graph::Location* location();
  // gives the operands of an instruction their values
  Flow readStack(SymbolicFrame& frame, const bytecode::Instr& instr);

  // ---- state -------------------------------------------------------------------------------------------------------------------------
  TraceOptions options;
  symbolic::Environment environment;
  std::vector<const sources::Source*> symbol_sources;  // by symbol
  std::vector<symbolic::Range> symbol_ranges;          // as they came
  std::vector<DynamicDemand> demands;
  bool has_scalars = false;  // a SymScalar was made
  bool hasSymbols() const { return environment.symbolCount() > 0 || has_scalars; }
  std::unordered_map<const sources::Source*, Ref<>> outside_ints;
  std::unordered_map<const symbolic::Expr*, Ref<>> symbol_nodes;
  StatorFrame* real_frame;
  sources::Roots roots;
  std::unique_ptr<sources::SourceSet> sources;
  std::unique_ptr<guards::GuardSet> guards;
  std::shared_ptr<graph::Graph> graph;  // of the function under way
  // around it, the trace's own first (calls/subgraphs.cpp)
  std::vector<std::shared_ptr<graph::Graph>> outer_graphs;
  bool had_subgraphs = false;
  values::ValueTable values;
  // Tuples and frozensets of code objects. Any other one that has no source is a new object in each call.
  std::unordered_set<PyObject*> code_constants;
  std::vector<std::unique_ptr<SymbolicFrame>> frames;
  Ref<> raised;
  // The exception being handled, as the trace sees it; null: none, or as outside if not touched. A generator under way has its own, and
  // those of the frames that resumed it lie in `outer_handled`, the driven frame's at the bottom.
  Ref<> handled;
  bool handled_touched = false;
  std::vector<std::pair<Ref<>, bool>> outer_handled;
  Broke broke;
  uint64_t count = 0;        // instructions so far
  uint64_t limit_check = 0;  // instruction at which the limits are looked at next
  size_t nodes_at_check = 0;
  uint64_t watched_count = 0;  // those of watched code
  uint64_t legal_count = 0;
  Ref<> returned;
  std::unique_ptr<SymbolicFrame> finished;  // the driven frame, once it has returned
  shapes::State state;                      // grad mode and friends, as the trace sees them
  shapes::State initial_state;
  std::vector<OpenContext> open_contexts;
  struct TorchFunctionPart {
    bool relevant = false;  // a type with __torch_function__ or a mode has come up
    bool casts = false;     // some stand-in is of another type than the tensors of its node
    tensor::TorchFunction state = tensor::torchFunctionState();
    std::vector<Ref<>> modes;  // active, outermost first; a torch.device stands for its mode
    bool outer_modes = false;  // some were active before, and are no torch.device
  };
  TorchFunctionPart torch_function;
  struct WrapperPart {
    Ref<> fakes;         // makes fake instances for this trace; null: no such tensor has come up
    bool makes = false;  // the call under way gives such a tensor, whatever its arguments are
    // of nested tensors from outside: what tells their ragged sizes apart
    std::vector<std::pair<const sources::Source*, PyObject*>> ragged;
    // storages of wrappers and of what they are made of
    std::vector<std::pair<uint32_t, uint32_t>> ties;
    struct Inner {
      Ref<> name, fake, stand_in;
    };
    std::unordered_map<const graph::Node*, std::vector<Inner>> inner;  // tensors that were read
  };
  WrapperPart wrappers;
  uint32_t next_storage = 1;
  std::unordered_map<uintptr_t, uint32_t> input_storages;
  // How the inputs in one memory stand to autograd: such as differ, and are written to, what takes graphs apart gets wrong or refuses.
  static constexpr uint8_t kWithGrad = 1, kWithoutGrad = 2, kMixedGrads = 3;
  std::unordered_map<uint32_t, uint8_t> storage_grads;
  std::unordered_set<uint32_t> leaf_writes;  // of these such as were written to under no_grad
  std::vector<Ref<>> keep_alive;
  // object -> itself, its address
  std::unordered_map<PyObject*, std::pair<Ref<>, Ref<>>> addresses;
  std::unordered_map<PyObject*, PyObject*> address_targets;
  // by position and not by address: the order is that of the guards, which is the same in every process
  struct Earlier {
    bool operator()(const sources::Source* a, const sources::Source* b) const {
      return a->id < b->id;
    }
  };
  // objects whose identity was looked at, with their types
  std::map<const sources::Source*, PyTypeObject*, Earlier> identities;
  struct LruUse {
    Ref<> cache, key, value;  // value null: a hit
  };
  std::vector<LruUse> lru_uses;  // in the order of the calls
  struct LateCall {
    PyObject* function;  // borrowed: lives as long as the process
    std::vector<Ref<>> arguments;
  };
  // effects that are left to a function of a library, which runs none of the program's code
  std::vector<LateCall> late_calls;
  // of tensors that get a hook at the exit: what is written to afterwards has another history
  std::unordered_set<uint32_t> hooked_storages;
  std::vector<breaks::Draw> draws;  // in the order of the program
  // `object.__class__ = ...` of objects from outside. They are of the new class for as long as the trace runs: all of it goes by their types.
  struct ClassChange {
    Ref<> object, before, now;
  };
  std::vector<ClassChange> class_changes;  // in the order of the first change of each
  Flow changeClass(PyObject* object, PyObject* type);
  void restoreClasses();
  std::vector<Ref<>> own_key_types;  // classes of keys that have their own __hash__ or __eq__
  // such keys whose hash comes from an address
  std::unordered_set<PyObject*> hashed_by_address;
  std::unordered_map<Py_hash_t, Ref<>> tuple_hashes;
  // States of the process that the trace has set (calls/torch_states.cpp), by row.
  struct ProcessState {
    Ref<> before, now;
  };
  std::map<size_t, ProcessState> process_states;
  // a break is an error (stator.error_on_graph_break), as the trace sees it
  bool error_on_break = false;
  bool initial_error_on_break = false;
  bool classes_written = false;  // some class has an overlay
  bool yielded = false;          // how the last generator frame left: with a value, or for good
  size_t stack_at_entry = 0;
  // the instruction under way has run Python code from C++, or changed something: it cannot simply be left
  bool nested_ran = false;
  int nested_depth = 0;
  // count of the instruction under way in the frames that can become real
  uint64_t instruction_start = 0;
  // Classes whose part in attribute access is guarded: as the object's class, as the class of an entry in a class.
  std::unordered_set<PyTypeObject*> attribute_types;
  std::unordered_set<PyTypeObject*> descriptor_types;
  std::unordered_map<PyObject*, int> module_calls;
  uint64_t effects = 0;       // writes so far to objects that are older than the call being folded
  uint64_t fold_started = 0;  // its instruction
  bool global_hooks_guarded = false;
  bool has_arrays = false;  // a NumPy array has come up
  // Something was decided on whether a tensor requires grad. If nothing was, and grad mode is off, guards need not tell.
  bool grads_matter = false;
  bool drew_random = false;  // some operation so far draws random numbers
  bool start_anew = false;
  uint64_t restart_at = 0;
  breaks::Reason restart_reason = breaks::Reason::kNone;
  std::string restart_detail;

 private:
  Out readHandled();  // of the driven frame, from outside
  // Resumes a suspended generator with a value or an exception.
  Out resumeGenerator(PyObject* generator, Ref<> sent, Ref<> exception);
  Flow unwind(size_t base);
  bool forcedBreak(SymbolicFrame& frame);
  void checkLimits();
  bool overLimit();
  std::chrono::steady_clock::time_point started_;
  uint64_t random_state_ = 0;
};

// tensor_attributes.cpp: a grad_fn of which nothing is known but that it is there
bool isSomeGradFn(PyObject* object);
bool isAddress(PyObject* object);  // an int that addressOf() made

// calls/random_draws.cpp
bool isRandomGenerator(PyObject* object);  // a random.Random, not of a subclass
Ref<> randomState(PyObject* generator);    // what _random.Random.setstate takes

// calls/torch_states.cpp: the call that brings such a state about.
struct StateCall {
  PyObject* function;
  bool takes_value;
};
StateCall stateCall(size_t index, PyObject* value);
class ProcessStateScope {
 public:
  explicit ProcessStateScope(Tracer& tracer);
  ~ProcessStateScope();

 private:
  void apply(bool now);
  Tracer& tracer_;
};

// calls/torch_contexts.cpp: the contexts that the graph has entered, entered for real as long as the scope lives.
class OpenContextScope {
 public:
  explicit OpenContextScope(const Tracer& tracer);
  ~OpenContextScope();

 private:
  std::vector<std::pair<Ref<>, Ref<>>> entered_;  // what leaves it, and what that is called with
};

// The instruction of the frame that makes the call under way, or the present one.
int callIndex(const SymbolicFrame& frame);
uint64_t watchedUnits(const bytecode::Instr& instr);

std::string describe(PyObject* callable);  // its qualified name, for messages

// Stands on the stack of the driven frame for a value that has not been looked at.
PyObject* unreadMarker();

// finish.cpp: turns the state of the trace into a plan. False: something cannot be rebuilt, tracer.restart_at says where to break.
bool buildPlan(Tracer& tracer, bool returns, breaks::Plan& plan);

// calls/tables.cpp: what is special about a callable; resolved once for each process.
bool initCallTables();

}  // namespace stator::interpret
