#include "python/errors_aside.h"

void stator_errors_aside(StatorErrorsAside* aside) {
  PyThreadState* thread = PyThreadState_Get();
  aside->none.exc_value = NULL;
  aside->none.previous_item = NULL;
  aside->before = thread->exc_info;
  thread->exc_info = &aside->none;
}

void stator_errors_back(StatorErrorsAside* aside) {
  PyThreadState_Get()->exc_info = aside->before;
  Py_CLEAR(aside->none.exc_value);
}
