// What the tracer knows about the Python objects on its stack. The objects are real; this table, keyed by address, says
// where each came from and what has been done to it. It owns its keys until the trace ends, since addresses are reused.
// Scalars and strings never enter.
#pragma once

#include "base/ref.h"
#include "sources/source.h"

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

namespace stator::values {

enum class Origin : uint8_t {
  kOutside,  // existed before the trace; reached by `source`
  kMade,     // made in the trace, free to mutate; rebuilt for each call if it escapes
};

struct Info {
  Ref<> object;
  Origin origin = Origin::kOutside;
  const sources::Source* source = nullptr;
  // instruction count at which a made object came to be: where to break if it cannot be rebuilt
  uint64_t born = 0;

  // Outside containers: a working copy whose elements are trace values. Reads see it once it exists; `dirty` means that
  // the plan has to write it back.
  Ref<> shadow;
  bool dirty = false;
  // An outside list that was only appended to: what was appended. Its contents need not be looked at for that.
  Ref<> appended;
  // Attributes written in the trace (outside objects): name -> value; a deleted one maps to `deletedMarker()`. In the
  // order of the first write.
  Ref<> overlay;
  // set of those that were there, were deleted and came back: they go behind the others
  Ref<> set_again;
  // Of a dict (of a subclass) that also has attributes: those, apart from its keys. See ValueTable::attributePart.
  std::unique_ptr<Info> attribute_part;
  // Attributes read so far (name -> trace value), so that a second read costs one look-up and adds no guard.
  Ref<> known;
  // An outside dict that is some object's __dict__.
  PyObject* attributes_of = nullptr;
  // the other way round: the object's __dict__, once the program took it as a dict
  PyObject* attributes = nullptr;
  int64_t taken = 0;  // an iterator from outside: so many items were asked for
  // an immutable container of constants, guarded whole; known for its identity only
  bool constant = false;
  bool length_guarded = false;
  // a tuple of constants, some of them symbolic: `shadow` is what the trace works with
  bool unpacked = false;
  // a dict of hooks whose values are guarded by position, and whose keys are not
  bool keys_open = false;
  // an exception made in the trace that has been raised there: eager's has a traceback
  bool was_raised = false;
  // its default text, which names an address, was taken: the object may not be made again elsewhere
  bool address_shown = false;
  bool identity_used = false;  // `is`, id() or hashing by identity looked at it

  // Tensors from outside: the stand-in handed out for them.
  Ref<> stand_in;
};

class ValueTable {
 public:
  Info* find(PyObject* object) {
    auto it = infos_.find(object);
    return it == infos_.end() ? nullptr : it->second.get();
  }
  Info& addOutside(PyObject* object, const sources::Source* source);
  Info& addMade(PyObject* object, uint64_t born);
  bool isOutside(PyObject* object) {
    Info* info = find(object);
    return info != nullptr && info->origin == Origin::kOutside;
  }
  // In the order in which objects were first seen.
  const std::vector<Info*>& all() const { return order_; }
  size_t size() const { return order_.size(); }

 private:
  std::unordered_map<PyObject*, std::unique_ptr<Info>> infos_;
  std::vector<Info*> order_;
};

PyObject* deletedMarker();  // borrowed, immortal

// Where an object's attributes are kept: a dict's own fields are about its keys.
Info* attributePart(Info* info);

// What an object is, as far as a trace is concerned.
// None, bool, int, float, complex, str, bytes, Ellipsis, NotImplemented (exact types)
bool isScalar(PyObject* object);
bool isNan(PyObject* object);  // a float or complex that does not equal itself
// scalars, and tuples/frozensets/slices/ranges of nothing else; torch dtypes, devices, layouts ...
bool isConstantDeep(PyObject* object);
// torch.dtype, device, layout, memory_format, qscheme, torch.Size (of ints)
bool isTorchConstant(PyObject* object);

}  // namespace stator::values
