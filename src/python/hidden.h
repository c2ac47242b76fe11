// What a program should not meet: objects of ours, and its own frames in what our calls leave behind.
#pragma once

#include "base/python.h"

#ifdef __cplusplus
extern "C" {
#endif

// Takes a weak reference out of what gc.get_objects() lists, and no collection looks at it. It stays a tracked object,
// since a collection that finds its target to be garbage moves it to a list of its own before its callback is called.
void stator_hide(PyObject* object);

// Until `show`, calls are made as at the start of a thread. A library may catch an exception and keep it in a cycle
// (imports do); its frames would keep those of the program, and all that is in their locals, until the next collection.
// Takes what `hide` returned.
void* stator_callers_hide(void);
void stator_callers_show(void* callers);

#ifdef __cplusplus
}
#endif

#ifdef __cplusplus
namespace stator {
class CallersHidden {
 public:
  CallersHidden() : callers_(stator_callers_hide()) {}
  ~CallersHidden() { stator_callers_show(callers_); }
  CallersHidden(const CallersHidden&) = delete;
  CallersHidden& operator=(const CallersHidden&) = delete;

 private:
  void* callers_;
};
}  // namespace stator
#endif
