// Frames that a program looks at.
#pragma once

#include "python/frame.h"

#ifdef __cplusplus
extern "C" {
#endif

// Somebody has a frame object of it (by sys._getframe, a traceback), so that its locals and its line show behind its
// end too.
int stator_frame_held(StatorFrame* frame);

#ifdef __cplusplus
}
#endif
