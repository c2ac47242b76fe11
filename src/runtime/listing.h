// What a compiled function has captured, for stator.guards: its places, their entries, and what their guards cost.
#pragma once

#include "base/python.h"
#include "python/frame.h"
#include "sources/source.h"

namespace stator::runtime {

struct Entry;

extern PyMethodDef listing_methods[];

// Whether somebody waits for the costs of entries that are about to serve; then they are taken here.
bool measuresGuards();
void measureGuards(Entry& entry, StatorFrame* frame, const sources::Roots& roots);

}  // namespace stator::runtime
