// The part of stator._core that plans call to set iterators of itertools to where they stand.
#pragma once

#include "base/python.h"

#ifdef __cplusplus
extern "C" {
#endif

extern PyMethodDef stator_itertools_methods[];

#ifdef __cplusplus
}
#endif
