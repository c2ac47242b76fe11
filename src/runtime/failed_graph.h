// A compiled graph that raises when it runs. The program may be at fault (an index out of range): then the real
// interpreter runs this part once more, and raises where and as eager does. Or the backend is: then the user gets its
// error, or, where errors are suppressed, hears of it once, and the graph as it was captured takes its place.
#pragma once

#include "runtime/entry.h"

#include <functional>
#include <optional>

namespace stator::runtime {

// `error` is what the entry's graph raised. Nothing of its run has been committed, and the frame is as it was.
// `undo_writes` takes back what a second run writes. Without a value: the program is at fault.
std::optional<Exit> judgeFailure(Cache& cache, const Entry& entry, StatorFrame* frame,
                                 sources::Roots roots, Ref<> error,
                                 const std::function<void()>& undo_writes);

// A graph that has failed in a call without a frame (direct_call.h) is not run again in the call with one, which
// follows at once and finds its error here. Of each thread.
void keepFailure(const Entry& entry);  // takes the error that is set
bool takeFailure(const Entry& entry);  // sets it again; false: there is none of this entry
void dropFailure();                    // the call is over
bool failureWaits();

}  // namespace stator::runtime
