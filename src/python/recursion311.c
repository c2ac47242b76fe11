#include "python/recursion.h"

#if PY_VERSION_HEX < 0x030B0000 || PY_VERSION_HEX >= 0x030C0000
#error "recursion311.c is for CPython 3.11"
#endif

int stator_recursion_left(void) { return PyThreadState_Get()->recursion_remaining; }
