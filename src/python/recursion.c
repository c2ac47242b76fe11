#include "python/recursion.h"

// Since 3.12 calls in C are counted by themselves.
#if PY_MINOR_VERSION == 11
int stator_recursion_left(void) { return PyThreadState_Get()->recursion_remaining; }
#else
int stator_recursion_left(void) { return PyThreadState_Get()->py_recursion_remaining; }
#endif
