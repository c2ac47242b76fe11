// Where a sequence repeats itself without a gap: `abcabcabc` is three times `abc`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace stator::regions {

// items[i] == items[i + period] for all i with begin <= i < end - period.
struct Run {
  size_t begin = 0, end = 0, period = 0;
  size_t repeats() const { return (end - begin) / period; }
  // what need not be looked at again
  size_t saved() const { return (repeats() - 1) * period; }
};

// The runs of items[begin, end) that repeat at least `least_repeats` times, those that save most first. Periods are
// tried that many equal items are apart.
std::vector<Run> findRuns(const std::vector<uint64_t>& items, size_t begin, size_t end,
                          size_t least_period, size_t least_repeats);

}  // namespace stator::regions
