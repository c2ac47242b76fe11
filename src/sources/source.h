// Provenance: how a value is reached from a live frame. A source is read again at every later call (guards, inputs),
// printed for people (`L['self'].layers[3].weight`), and hashed, so that one thing has one source.
// Sources are interned in a SourceSet, which lives as long as the entry whose guards and plan use them.
#pragma once

#include "base/python.h"
#include "base/ref.h"
#include "python/frame.h"

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

namespace stator::sources {

enum class SourceKind : uint8_t {
  // Roots, read from the frame.
  kLocal,         // index: slot of localsplus
  kStack,         // index: position on the value stack, from the bottom
  kGlobals,       // the frame's globals dict
  kBuiltins,      // the frame's builtins dict
  kFunction,      // the frame's function object
  kHandled,       // the exception being handled
  kFunctionMode,  // index: place of a torch function mode on the thread's stack, from the bottom
  kDrawn,         // index: n-th random number that the captured part draws; None until it has
  // key: the object itself, owned (globals of an inlined function's module, a type, ...)
  kPinned,
  // One step from `base`.
  // key: name; entry of the instance's dict (or slot descriptor): never runs user code
  kAttr,
  // key: name; whatever PyObject_GetAttr gives (C getters such as `x.__class__`, tensor.grad)
  kGenericAttr,
  kParameter,    // key: name in module._parameters
  kBuffer,       // key: name in module._buffers
  kSubmodule,    // key: name in module._modules
  kObjectDict,   // base.__dict__
  kType,         // type(base)
  kClassDict,    // key: name; entry in the dict of the type `base`
  kDictItem,     // key: the key (hashable constant)
  kDictKey,      // index: n-th key in iteration order
  kListItem,     // index (list or subclass, by the concrete C layout)
  kTupleItem,    // index (tuple or subclass)
  kSetItem,      // index: n-th element in iteration order
  kDequeItem,    // index
  kCell,         // contents of a cell
  kClosure,      // index: n-th cell of the function `base`
  kDefault,      // index: n-th positional default of the function `base`
  kKwDefault,    // key: name
  kFuncGlobals,  // globals of the function `base`
  kCode,         // code of the function `base`
  kMethodSelf,   // bound method's self
  kMethodFunc,   // bound method's function
  kPartialFunc,
  kPartialArgs,
  kPartialKeywords,
  kSliceStart,
  kSliceStop,
  kSliceStep,
  kRangeStart,
  kRangeStop,
  kRangeStep,
  kTensorGrad,  // tensor.grad
  kTensorSize,  // index: dim, or -1 for the storage offset (a Python int)
  // index: an element, counted as the tensor's indices run (a Python number)
  kTensorNumber,
  kTensorAttr,  // key: name; attribute that a user put on a tensor
  kWeakTarget,  // referent of a weakref
  // the exact str, int, float, bytes or complex that an instance of a subclass holds
  kScalarValue,
  kLruEntry,     // key: cache key; what a functools.lru_cache has stored for it
  kViewDict,     // the dict that a view of keys, values or items looks into
  kDictValue,    // index: n-th value in iteration order
  kProxied,      // what a mappingproxy shows
  kArrayTensor,  // the tensor that has the memory of a NumPy array
  kFloatTensor,  // a tensor of one double, made anew of a float
  kAhead,        // index: the item that an iterator of C's will give after so many others
  // key: a callable that the capture has made, and that captures nothing when it runs; what it says of base. Runs user
  // code.
  kAsked,
  // index: a part of an iterator. Of a generator that is suspended: a slot of its frame, then what lies on its stack;
  // of one of C's: see stator_iterator_part. Below: kIteratorFunction, kIteratorState.
  kIteratorPart,
};

// The function of a generator; where it stands (stator_generator_place), or the state of an iterator of C's.
constexpr int64_t kIteratorFunction = -1, kIteratorState = -2;

struct Source {
  SourceKind kind;
  uint32_t id = 0;  // position in its set; parents come before children
  const Source* base = nullptr;
  int64_t index = 0;
  Ref<> key;
  // of the key, where it is looked up in a dict: a user's __hash__ does not run again
  Py_hash_t hash = -1;
};

// A live frame as sources see it.
struct Roots {
  PyObject** slots = nullptr;
  PyObject** stack = nullptr;
  PyObject* globals = nullptr;
  PyObject* builtins = nullptr;
  PyObject* function = nullptr;
  PyObject* handled = nullptr;
  const Ref<>* drawn = nullptr;  // see SourceKind::kDrawn
  PyCodeObject* code = nullptr;  // for names of locals when printing
  static Roots of(StatorFrame* frame);
};

class SourceSet {
 public:
  const Source* root(SourceKind kind, int64_t index = 0);
  const Source* pinned(PyObject* object);
  const Source* child(SourceKind kind, const Source* base, PyObject* key = nullptr,
                      int64_t index = 0);
  size_t size() const { return sources_.size(); }
  const Source& at(size_t id) const { return sources_[id]; }
  // For the owner's tp_traverse: keys and pinned objects are owned here.
  int traverse(visitproc visit, void* arg) const;

 private:
  struct Place {
    size_t at = 0, hash = 0;        // in the table
    const Source* known = nullptr;  // null: it is free
  };
  Place find(SourceKind kind, const Source* base, PyObject* key, int64_t index) const;
  const Source* intern(SourceKind kind, const Source* base, PyObject* key, int64_t index);
  void grow();

  std::deque<Source> sources_;
  struct Slot {
    size_t hash = 0;
    const Source* source = nullptr;
  };
  std::vector<Slot> table_;  // open addressing, a power of two
};

// One step without a reference of its own: what is returned lives as long as `base` does and nobody changes it, or is
// owned by `keep` (for what does not exist as an object before it is asked for: a size, a tensor's gradient, C
// getters). `unknown` is set when only user code could tell whether it is there (a key of the dict whose __eq__ would
// have to run).
PyObject* peek(const Source& source, PyObject* base, const Roots& roots, Ref<>& keep,
               bool* unknown = nullptr);
// One step: the value at `source`, given its base's value (ignored for roots). A null Ref without a Python error: it is
// not there any more (no such key, index out of range, wrong layout). Never runs user code, except kGenericAttr and
// kAsked.
Ref<> step(const Source& source, PyObject* base, const Roots& roots);
// The whole way.
Ref<> read(const Source& source, const Roots& roots);
// Parts of tensors, read without running a subclass's __torch_function__; null without an error: not there. Given by a
// room that sees torch, at start-up.
struct TensorParts {
  // new reference; None when there is none
  PyObject* (*grad)(PyObject* tensor) = nullptr;
  PyObject* (*size)(PyObject* tensor, int64_t dim) = nullptr;  // new reference
  // new reference; null without an error: not on the CPU, or no plain number
  PyObject* (*number)(PyObject* tensor, int64_t index) = nullptr;
  PyObject* (*function_mode)(int64_t index) = nullptr;  // of this thread, borrowed
  // new reference: on the CPU, of one double
  PyObject* (*of_float)(double number) = nullptr;
};
void setTensorParts(TensorParts parts);
// As a user would write it: L['x'], L['self'].layers[3].weight, G['torch'].add.
std::string print(const Source& source, PyCodeObject* code);
// As TorchDynamo spells it, with the module's dicts shown:
// L['self']._modules['layers']._modules['3']._parameters['weight']. The name of a module as torch knows it:
// L['self'].layers.0.linear.
std::string printModulePath(const Source& source, PyCodeObject* code);
std::string printExact(const Source& source, PyCodeObject* code);

}  // namespace stator::sources
