// Doors in stator._core.
#pragma once

#include "base/python.h"

namespace stator::disk {

extern PyMethodDef disk_methods[];

}  // namespace stator::disk
