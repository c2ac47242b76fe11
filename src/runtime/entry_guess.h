// Which entry of a place is going to serve a call, where several take turns: the one that served the last call with
// such arguments. Entries differ by what their guards ask, and mostly that is an argument's type, value, size or
// identity; one look at the arguments then finds among twenty entries as fast as among two. A guess decides nothing:
// the entry's guards are checked as always, and where they fail all others are asked one after the other.
#pragma once

#include "runtime/cache.h"
#include "sources/source.h"

namespace stator::runtime {

// The position to begin with; 0 if there is no guess. `slots`: how many the roots have.
size_t guessEntry(Site& site, const sources::Roots& roots, size_t slots);
// The entry at `index` serves the call for which was guessed. Returns where it stands now.
size_t noteServing(Site& site, size_t index);

// The position of the first entry that serves: the guess is asked, then the others in their order. None: how many there
// are.
template <class Serves>
size_t findServing(Site& site, const sources::Roots& roots, size_t slots, Serves&& serves) {
  const size_t guess = guessEntry(site, roots, slots);
  for (size_t turn = 0; turn < site.entries.size(); ++turn) {
    const size_t i = turn == 0 ? guess : turn <= guess ? turn - 1 : turn;
    if (serves(*site.entries[i])) return i;
  }
  return site.entries.size();
}

}  // namespace stator::runtime
