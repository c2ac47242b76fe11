// Records of several ranks put together (dist/agreement.h).
#include "base/check.h"
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

// Numbers in 7-bit groups, the sign folded into the lowest bit: sizes take a byte or two.
void putNumber(std::string& out, int64_t number) {
  uint64_t folded = (static_cast<uint64_t>(number) << 1) ^ static_cast<uint64_t>(number >> 63);
  while (folded >= 0x80) {
    out += static_cast<char>(folded | 0x80);
    folded >>= 7;
  }
  out += static_cast<char>(folded);
}

void putText(std::string& out, std::string_view text) {
  text = text.substr(0, kLongestText);
  putNumber(out, static_cast<int64_t>(text.size()));
  out += text;
}

// Reads what may be anything: `good` turns false at the first thing that cannot be.
struct Reader {
  std::string_view rest;
  bool good = true;

  int64_t number() {
    uint64_t folded = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (rest.empty()) break;
      const auto byte = static_cast<unsigned char>(rest.front());
      rest.remove_prefix(1);
      folded |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return static_cast<int64_t>((folded >> 1) ^ (~(folded & 1) + 1));
    }
    good = false;
    return 0;
  }
  int64_t within(int64_t most) {
    const int64_t value = number();
    if (value < 0 || value > most) good = false;
    return good ? value : 0;
  }
  std::string text() {
    const auto length = static_cast<size_t>(within(kLongestText));
    if (length > rest.size()) good = false;
    if (!good) return "";
    std::string taken(rest.substr(0, length));
    rest.remove_prefix(length);
    return taken;
  }
};

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
  // Cut before they are compared, as they are when they come back from bytes.
  Group group{record.topic,
              record.outcome,
              record.site.substr(0, kLongestText),
              record.exit.substr(0, kLongestText),
              record.structure,
              record.calls,
              1,
              {{record.rank, record.rank}}};
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

std::string Summary::encode() const {
  std::string out;
  putNumber(out, further_);
  putNumber(out, static_cast<int64_t>(groups_.size()));
  for (const Group& group : groups_) {
    putNumber(out, static_cast<int64_t>(group.topic));
    putNumber(out, static_cast<int64_t>(group.outcome));
    putText(out, group.site);
    putText(out, group.exit);
    putNumber(out, static_cast<int64_t>(group.structure));
    putNumber(out, group.calls);
    putNumber(out, group.count);
    putNumber(out, static_cast<int64_t>(group.ranks.size()));
    for (const auto& [first, last] : group.ranks) {
      putNumber(out, first);
      putNumber(out, last - first);
    }
  }
  for (const auto& [source, bounds] : items_) {
    std::string one;
    putText(one, source);
    putNumber(one, bounds.mixed ? 1 : 0);
    putNumber(one, static_cast<int64_t>(bounds.low.size()));
    for (size_t i = 0; i < bounds.low.size(); ++i) {
      putNumber(one, bounds.low[i]);
      putNumber(one, bounds.high[i]);
    }
    if (out.size() + one.size() > kLongestSummary) break;
    out += one;
  }
  return out;
}

Result<Summary> Summary::decode(std::string_view bytes) {
  if (bytes.size() > kLongestSummary) return NotApplicable{"longer than a summary may be"};
  Reader reader{bytes};
  Summary made;
  made.further_ = reader.within(INT64_MAX);
  const int64_t count = reader.within(kMostGroups);
  for (int64_t i = 0; i < count && reader.good; ++i) {
    Group group;
    group.topic = static_cast<Topic>(reader.within(static_cast<int64_t>(Topic::kGuards)));
    group.outcome = static_cast<Outcome>(reader.within(static_cast<int64_t>(Outcome::kMiss)));
    group.site = reader.text();
    group.exit = reader.text();
    group.structure = static_cast<uint64_t>(reader.number());
    group.calls = reader.number();
    group.count = reader.within(INT64_MAX);
    const int64_t ranges = reader.within(kMostRanges);
    for (int64_t k = 0; k < ranges && reader.good; ++k) {
      const int64_t first = reader.within(INT32_MAX);
      group.ranks.emplace_back(first, first + reader.within(INT32_MAX));
    }
    made.groups_.push_back(std::move(group));
  }
  while (reader.good && !reader.rest.empty()) {
    const std::string source = reader.text();
    Bounds bounds;
    bounds.mixed = reader.within(1) != 0;
    const int64_t values = reader.within(kLongestSummary);
    for (int64_t k = 0; k < values && reader.good; ++k) {
      bounds.low.push_back(reader.number());
      bounds.high.push_back(reader.number());
    }
    made.items_.emplace(source, std::move(bounds));
  }
  if (!reader.good) return NotApplicable{"not the bytes of a summary"};
  return made;
}

std::string mergedBytes(std::string_view one, std::string_view other) {
  Result<Summary> whole = Summary::decode(one), more = Summary::decode(other);
  STATOR_CHECK(static_cast<bool>(whole) && static_cast<bool>(more), "bytes that are no summary");
  whole->merge(*more);
  return whole->encode();
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
