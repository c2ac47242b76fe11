// What every call of a compiled function runs lies together in the library (GCC puts such functions into one section):
// when other work has pushed it out of the caches, a call waits for a few pages instead of one for each function.
#pragma once

#define STATOR_HOT __attribute__((hot))
