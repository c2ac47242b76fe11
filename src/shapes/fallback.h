// The last tier, which shapes/ declares and tensor/ implements: run the call once on FakeTensors made from the facts.
#pragma once

#include "shapes/infer.h"

namespace stator::shapes {

struct FallbackAnswer {
  Status status = Status::kUnsupported;
  Inferred inferred;
  Ref<> error;
  std::string why;
};

FallbackAnswer inferWithFake(const Request& request);
// The facts of a fake instance of a class with its own __torch_dispatch__, as an operation's results have them.
TensorMeta wrapperFacts(PyObject* fake);

// torch.device objects, which only torch's headers can read and make.
bool readDevice(PyObject* object, DeviceType& type, int16_t& index);
Ref<> makeDevice(DeviceType type, int16_t index);

}  // namespace stator::shapes
