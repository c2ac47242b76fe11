// Records of several ranks put together (dist/agreement.h).
#include "dist/agreement.h"
#include "dist/digest.h"

#include <algorithm>
#include <tuple>

namespace stator::dist {

namespace {

auto programOf(const Summary::Group& group) {
  return std::tie(group.topic, group.site, group.outcome, group.exit, group.structure);
}

const char* word(Outcome outcome) {
  switch (outcome) {
    case Outcome::kGraph:
    case Outcome::kNoGraph:
      return "captured";
    case Outcome::kFailed:
      return "failed";
    case Outcome::kHit:
      return "found an entry whose guards hold";
    case Outcome::kMiss:
      return "found no entry";
  }
  return "?";
}

std::string calls(int64_t count) {
  return count == 0   ? "no graph"
         : count == 1 ? "a graph of 1 call"
                      : "a graph of " + std::to_string(count) + " calls";
}

std::string act(const Summary::Group& group) {
  if (group.topic == Topic::kGuards) return std::string(word(group.outcome)) + " at " + group.site;
  if (group.topic == Topic::kBackend) {
    return (group.outcome == Outcome::kFailed ? "the backend failed on the graph of "
                                              : "compiled the graph of ") +
           group.site + (group.outcome == Outcome::kFailed ? ": " + group.exit : "");
  }
  if (group.outcome == Outcome::kFailed)
    return "could not capture " + group.site + ": " + group.exit;
  return "captured " + calls(group.calls) + " (" + hex(group.structure) + ") from " + group.site +
         " on, which " + group.exit;
}

std::string text(const std::vector<std::pair<int64_t, int64_t>>& ranges, int64_t count) {
  std::string text;
  int64_t named = 0;
  for (const auto& [first, last] : ranges) {
    if (!text.empty()) text += ", ";
    text += std::to_string(first);
    if (last > first) text += (last == first + 1 ? ", " : "-") + std::to_string(last);
    named += last - first + 1;
  }
  if (named < count) text += " and " + std::to_string(count - named) + " more";
  return (count == 1 ? "rank " : "ranks ") + text;
}

}  // namespace

void Summary::addGroup(const Group& group) {
  auto at =
      std::lower_bound(groups_.begin(), groups_.end(), group,
                       [](const Group& a, const Group& b) { return programOf(a) < programOf(b); });
  if (at == groups_.end() || programOf(*at) != programOf(group)) {
    at = groups_.insert(at, group);
  } else {
    at->count += group.count;
    at->calls = std::max(at->calls, group.calls);
    at->ranks.insert(at->ranks.end(), group.ranks.begin(), group.ranks.end());
    std::sort(at->ranks.begin(), at->ranks.end());
    std::vector<std::pair<int64_t, int64_t>> joined;
    for (const auto& range : at->ranks) {
      if (!joined.empty() && range.first <= joined.back().second + 1) {
        joined.back().second = std::max(joined.back().second, range.second);
      } else {
        joined.push_back(range);
      }
    }
    if (joined.size() > kMostRanges) joined.resize(kMostRanges);
    at->ranks = std::move(joined);
  }
  // The last in order goes, whichever came when: the result does not depend on the order of merging.
  if (groups_.size() > kMostGroups) {
    further_ += groups_.back().count;
    groups_.pop_back();
  }
}

void Summary::addBounds(const std::string& source, const Bounds& bounds) {
  auto [found, added] = items_.try_emplace(source, bounds);
  if (added) return;
  Bounds& known = found->second;
  if (bounds.mixed || known.low.size() != bounds.low.size()) {
    known.mixed = true;
    return;
  }
  for (size_t i = 0; i < known.low.size(); ++i) {
    known.low[i] = std::min(known.low[i], bounds.low[i]);
    known.high[i] = std::max(known.high[i], bounds.high[i]);
  }
}

void Summary::add(const Record& record) {
  Group group{record.topic,     record.outcome, record.site, record.exit,
              record.structure, record.calls,   1,           {{record.rank, record.rank}}};
  addGroup(group);
  for (const Item& item : record.items) addBounds(item.source, {item.values, item.values, false});
}

void Summary::merge(const Summary& other) {
  for (const Group& group : other.groups_) addGroup(group);
  further_ += other.further_;
  for (const auto& [source, bounds] : other.items_) addBounds(source, bounds);
}

bool Summary::oneSite() const {
  return further_ == 0 && std::all_of(groups_.begin(), groups_.end(), [&](const Group& group) {
           return group.topic == groups_.front().topic && group.site == groups_.front().site;
         });
}

std::vector<Change> Summary::changes() const {
  std::vector<Change> found;
  for (const auto& [source, bounds] : items_) {
    for (size_t i = 0; i < bounds.low.size() && !bounds.mixed; ++i) {
      if (bounds.low[i] != bounds.high[i]) found.push_back({source, i});
    }
  }
  return found;
}

std::string Summary::describe() const {
  std::vector<const Group*> order;
  for (const Group& group : groups_) order.push_back(&group);
  std::stable_sort(order.begin(), order.end(), [](const Group* a, const Group* b) {
    return a->count != b->count ? a->count > b->count : a->ranks < b->ranks;
  });
  std::string lines;
  for (const Group* group : order)
    lines += "  " + text(group->ranks, group->count) + ": " + act(*group) + "\n";
  if (further_ > 0) lines += "  " + std::to_string(further_) + " ranks did other things\n";
  return lines;
}

}  // namespace stator::dist
