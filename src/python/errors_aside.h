// While code runs that is not the program's, the thread is busy with no exception: none becomes the context of another.
#pragma once

#include "base/python.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct StatorErrorsAside {
  _PyErr_StackItem none;
  _PyErr_StackItem* before;
} StatorErrorsAside;
void stator_errors_aside(StatorErrorsAside* aside);
void stator_errors_back(StatorErrorsAside* aside);

#ifdef __cplusplus
}
#endif
