// How much deeper the thread may recurse.
#pragma once

#include "base/python.h"

#ifdef __cplusplus
extern "C" {
#endif

// Calls that are left until CPython raises RecursionError.
int stator_recursion_left(void);

#ifdef __cplusplus
}
#endif
