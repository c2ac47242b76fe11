// The facts of an op's outputs from the facts of its inputs, asked once for each distinct call. Three tiers answer, in
// this order, each counted: the memo, the C++ rules, one FakeTensor run (shapes/fallback.h; its answer goes into the
// memo). Relies on the GIL. Nothing here touches a real tensor: the caller says through `Reader` which objects stand
// for tensors.
#pragma once

#include "base/python.h"
#include "base/ref.h"
#include "shapes/tensor_meta.h"

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace stator::shapes {

// What a call depends on besides its arguments. Compared and hashed whole, so unused fields stay at their defaults.
struct State {
  bool grad_enabled = true;
  bool inference = false;
  DType default_dtype = DType::Float;
  DeviceType default_device = DeviceType::CPU;
  int16_t default_device_index = -1;
  bool autocast_cpu = false;
  bool autocast_cuda = false;
  DType autocast_cpu_dtype = DType::BFloat16;
  DType autocast_cuda_dtype = DType::Half;
  bool deterministic = false;
  // anything else that changes results (sdp and backend flags, active modes), as one number chosen by the caller
  uint64_t other = 0;

  bool operator==(const State&) const = default;
  static State now();  // of this thread, as torch sees it (implemented in tensor/)
};

struct Output {
  enum class Kind : uint8_t { kTensor, kConstant };
  Kind kind = Kind::kTensor;
  // storage_id is 0 here: the caller copies the facts and gives the copy the id of what it aliases, or a new one.
  TensorMeta meta;
  // Tensor arguments are numbered in the order in which they occur: positional arguments first, containers from left to
  // right, then keyword arguments. An object that occurs twice counts twice; answers name its first occurrence.
  // the argument itself is returned: in-place ops, contiguous() of what is contiguous, to() without effect
  int same_object_as = -1;
  int alias_of = -1;         // shares the storage of that argument (also set with same_object_as)
  int alias_of_output = -1;  // shares the storage of an earlier output, and of no argument
  Ref<> constant;            // kConstant: the Python value (int, bool, None, torch.Size, dtype ...)
  // an instance of a class with its own __torch_dispatch__: a fake one, which has all that is known of it
  Ref<> wrapper;
};

enum class Structure : uint8_t {
  kSingle,  // outputs[0] is the result
  kTuple,
  kList,
  kNamed,   // `type`: a structseq or named tuple class of the outputs (torch.return_types.max)
  kNested,  // `skeleton`: the result with each output replaced by its index (a Python int)
};

struct Inferred {
  std::vector<Output> outputs;
  Structure structure = Structure::kSingle;
  Ref<> type;
  Ref<> skeleton;
  bool mutates = false;  // writes to an argument: the node may not be dropped or moved
  // Called for its effect (it returns nothing): the arguments that it says it writes to need not be all. A second call
  // may do more.
  bool for_effect = false;
  bool random = false;  // draws from a generator: the same
  // Which arguments it writes to. May be empty although `mutates` is set: an op called for its effect alone.
  std::vector<int> written_inputs;
  // Arguments whose facts are other than before (t_(), requires_grad_(), an in-place op that makes its target require
  // grad). When requires_grad changed here, it changed for every view of the same storage: the caller knows them by
  // storage_id.
  std::vector<std::pair<int, TensorMeta>> changed_inputs;
};

enum class Status : uint8_t {
  kOk,
  kDataDependent,  // needs the data of a tensor (item, bool, nonzero's truth)
  kDynamicShape,   // the output's size depends on data (nonzero, unique, masked_select)
  // no tier can say: sparse arguments, objects that may not be handed to native code, ops without a meta kernel
  kUnsupported,
  kRaises,  // the op raises for these arguments; `error` is the exception
  kWarns,   // the op is a Python function and warns of these arguments
};

enum class Tier : uint8_t { kMemo, kRule, kFake };

struct Answer {
  Status status = Status::kOk;
  Tier tier = Tier::kMemo;
  const Inferred* inferred = nullptr;  // for kOk; valid until the next call of infer
  Ref<> error;
  std::string why;
};

// How the caller's objects are read. Null function pointers mean "never".
struct Reader {
  const TensorMeta* (*tensor_of)(PyObject*) = nullptr;  // facts, or null if the object is no tensor
  // a stand-in of another kind: no native code may get it
  bool (*is_opaque)(PyObject*) = nullptr;
  // the fake instance (Output::wrapper, borrowed) that a tensor is known by, or null: its facts say all
  PyObject* (*wrapper_of)(PyObject*) = nullptr;
};

struct Request {
  // The callable as Python holds it (torch.add, torch.Tensor.add, operator.add, F.linear, the getset descriptor of
  // Tensor.T), or a str: the name of a method or attribute of torch.Tensor, args[0] being the tensor.
  PyObject* target = nullptr;
  // vectorcall layout: positional arguments, then the values of kwnames
  PyObject* const* args = nullptr;
  size_t positional = 0;
  PyObject* kwnames = nullptr;  // tuple of str, or null
  const State* state = nullptr;
  Reader reader;
  bool remember = true;  // what comes out depends on the arguments and the state alone
  // Some argument has a class that decides for itself: one run with the fake instances answers, which live as long as
  // the trace and follow what operations do to them. So each such question is asked once.
  bool wrapped = false;
  // for `wrapped`: what makes the trace's fake instances (stator/_wrappers.py), which knows its symbols
  PyObject* fakes = nullptr;
};

// the latter two are for tests: neither reads nor fills the memo
enum class Tiers : uint8_t { kAll, kRulesOnly, kFakeOnly };

Answer infer(const Request& request, Tiers tiers = Tiers::kAll);

// True if the C++ rules know this callable (which does not mean that they know every call of it).
bool hasRule(PyObject* target);

struct Counts {
  std::array<uint64_t, 3> by_tier{};  // answers, indexed by Tier
  uint64_t failed = 0;                // answers other than kOk
  uint64_t entries = 0;               // in the memo now
};
Counts counts();
void clearMemo();

// Resolves the tables against torch's modules; once, before the first infer. False with a Python error set if torch
// cannot be imported.
bool initShapes();

}  // namespace stator::shapes
