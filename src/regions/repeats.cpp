#include "regions/repeats.h"

#include <algorithm>
#include <unordered_map>

namespace stator::regions {

namespace {

constexpr size_t kPeriods = 24;  // tried
constexpr size_t kBack = 4;      // earlier equal items that an item is compared with

// Distances between equal items, the most frequent first.
std::vector<size_t> distances(const std::vector<uint64_t>& items, size_t begin, size_t end,
                              size_t least) {
  std::unordered_map<uint64_t, std::vector<size_t>> seen;
  std::unordered_map<size_t, size_t> votes;
  for (size_t i = begin; i < end; ++i) {
    std::vector<size_t>& earlier = seen[items[i]];
    for (size_t back = 1; back <= std::min(kBack, earlier.size()); ++back) {
      const size_t distance = i - earlier[earlier.size() - back];
      if (distance >= least && distance <= (end - begin) / 2) ++votes[distance];
    }
    earlier.push_back(i);
  }
  std::vector<std::pair<size_t, size_t>> order;  // votes, distance
  for (auto [distance, count] : votes) order.emplace_back(count, distance);
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  });
  std::vector<size_t> found;
  for (size_t i = 0; i < std::min(kPeriods, order.size()); ++i) found.push_back(order[i].second);
  return found;
}

}  // namespace

std::vector<Run> findRuns(const std::vector<uint64_t>& items, size_t begin, size_t end,
                          size_t least_period, size_t least_repeats) {
  std::vector<Run> runs;
  for (size_t period : distances(items, begin, end, std::max<size_t>(1, least_period))) {
    size_t from = begin;
    for (size_t i = begin; i + period <= end; ++i) {
      if (i + period < end && items[i] == items[i + period]) continue;
      const Run run{from, i + period, period};
      if (run.repeats() >= least_repeats) runs.push_back(run);
      from = i + 1;
    }
  }
  std::sort(runs.begin(), runs.end(), [](const Run& a, const Run& b) {
    if (a.saved() != b.saved()) return a.saved() > b.saved();
    return a.period != b.period ? a.period < b.period : a.begin < b.begin;
  });
  return runs;
}

}  // namespace stator::regions
