// The CPython version that this build is for, and what differs from version to version in the order of things on the
// value stack; the only place outside the implementation files that asks.
#pragma once

#include "base/python.h"

#if PY_MAJOR_VERSION != 3 || PY_MINOR_VERSION < 11 || PY_MINOR_VERSION > 13
#error "Stator is for CPython 3.11, 3.12 and 3.13."
#endif
#ifdef Py_GIL_DISABLED
#error "Stator does not know free-threaded builds of CPython."
#endif

namespace stator {

constexpr int kPythonMinor = PY_MINOR_VERSION;

// A call's operands begin with (NULL, callable) or (function, self) up to 3.12, with (callable, NULL) or (function,
// self) since.
constexpr bool kNullBehindCallable = PY_MINOR_VERSION >= 13;
// A backward jump looks at signals when it has jumped up to 3.12, before it does since.
constexpr bool kChecksBeforeJump = PY_MINOR_VERSION >= 13;

// What LOAD_NAME says where there is no namespace; %R is the name.
constexpr const char* kNoLocalsToLoad =
    PY_MINOR_VERSION < 12 ? "no locals when loading %R" : "no locals found";

// What classmethod wraps may be a descriptor itself, which is asked with the class.
constexpr bool kClassMethodsBindDescriptors = PY_MINOR_VERSION < 13;
// list.extend(itself) asks a subclass's own __iter__ up to 3.12, and doubles what it holds since.
constexpr bool kListsDoubleThemselves = PY_MINOR_VERSION >= 13;

// locals() gives one dict for a frame up to 3.12, brought up to date at each call, and a new one since.
constexpr bool kLocalsAreOneDict = PY_MINOR_VERSION < 13;

// What setting an attribute says of an object that has no dict, behind the rest; the exception has name and obj then.
constexpr const char* kNoDictToSetIn =
    PY_MINOR_VERSION < 13 ? "" : " and no __dict__ for setting new attributes";

// What a slice of a list without steps says of something that is not iterable.
constexpr const char* kNotForSlice = PY_MINOR_VERSION < 13
                                         ? "can only assign an iterable"
                                         : "must assign iterable to extended slice";

// What a class pattern says about something that is no class.
constexpr const char* kPatternIsNoClass = PY_MINOR_VERSION < 12
                                              ? "called match pattern must be a type"
                                              : "called match pattern must be a class";

}  // namespace stator
