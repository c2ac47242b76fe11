#pragma once

#include "interpret/core/tables.h"

namespace stator::interpret {

Out sumCall(Tracer& t, const Args& args);

}  // namespace stator::interpret
