// Modes of __torch_function__, as the trace has them.
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

// The modes that are active before the trace.
void readFunctionModes(Tracer& tracer);
// The device of a mode that stands for one (torch.device, or what set_default_device enters), or null.
Ref<> deviceOfMode(PyObject* mode);

}  // namespace stator::interpret
