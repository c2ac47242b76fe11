// The only door to CPython's public headers. Everything that needs a version's internals goes through python/.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>
