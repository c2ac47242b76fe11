// The last tier, which shapes/ declares and tensor/ implements: run the call once on FakeTensors made from the facts.
#pragma once

#include "shapes/infer.h"

#include <unordered_map>

namespace stator::symbolic {
class Environment;
}

namespace stator::shapes {

struct FallbackAnswer {
  Status status = Status::kUnsupported;
  Inferred inferred;
  // and not of any with the same facts: it has sizes that depend on data
  bool of_these_tensors = false;
  Ref<> error;
  std::string why;
};

// How many elements of a tensor are not 0, as the symbol that an earlier call made for it: indexing twice with one mask
// gives equal sizes.
using NonzeroCounts = std::unordered_map<const TensorMeta*, Dim>;

FallbackAnswer inferWithFake(const Request& request, NonzeroCounts& counts);
// The facts of a fake instance of a class with its own __torch_dispatch__, as an operation's results have them.
TensorMeta wrapperFacts(PyObject* fake);
// Tells the fakes of a trace (stator/_wrappers.py) which symbols the capture has by now.
void tellSymbols(PyObject* fakes, const symbolic::Environment& environment);

// torch.device objects, which only torch's headers can read and make.
bool readDevice(PyObject* object, DeviceType& type, int16_t& index);
Ref<> makeDevice(DeviceType type, int16_t index);

}  // namespace stator::shapes
