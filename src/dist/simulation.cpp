#include "dist/simulation.h"

#include "base/check.h"
#include "dist/digest.h"

#include <algorithm>
#include <chrono>

namespace stator::dist {

namespace {

using Clock = std::chrono::steady_clock;

int64_t rounds(int64_t ranks) {
  int64_t count = 0;
  while ((int64_t{1} << count) < ranks) ++count;
  return count;
}

// One collective, for ranks that all want the same. The transport's own work (taking maxima, copying) is not counted as
// a rank's.
class Exchange {
 public:
  Exchange(std::vector<Agreement>& ranks, Traffic& traffic, std::vector<double>& spent)
      : ranks_(ranks), traffic_(traffic), spent_(spent) {}

  void reduce() {
    std::vector<int64_t> maxima = ranks_.front().words();
    for (const Agreement& rank : ranks_) {
      STATOR_CHECK(rank.wants() == Wants::kReduce && rank.words().size() == maxima.size(),
                   "ranks reduce different things");
      for (size_t i = 0; i < maxima.size(); ++i) maxima[i] = std::max(maxima[i], rank.words()[i]);
    }
    const auto count = static_cast<int64_t>(ranks_.size());
    const int64_t bytes = static_cast<int64_t>(maxima.size()) * 8, deep = rounds(count);
    traffic_.reductions++;
    traffic_.messages += count * deep;
    traffic_.bytes += count * deep * bytes;
    traffic_.longest_path += deep;
    received_ += bytes;
    each([&](Agreement& rank) { rank.reduced(maxima); });
  }

  // Up a binomial tree, two summaries becoming one at each step, and down again.
  void merge() {
    std::vector<std::string> held;
    for (const Agreement& rank : ranks_) {
      STATOR_CHECK(rank.wants() == Wants::kMerge, "ranks want different things");
      held.push_back(rank.bytes());
    }
    int64_t largest = 0;
    for (size_t step = 1; step < held.size(); step *= 2) {
      for (size_t at = 0; at + step < held.size(); at += 2 * step) {
        auto start = Clock::now();
        held[at] = mergedBytes(held[at], held[at + step]);
        spent_[at] += std::chrono::duration<double>(Clock::now() - start).count();
        traffic_.bytes += static_cast<int64_t>(held[at + step].size());
        largest = std::max(largest, static_cast<int64_t>(held[at].size()));
        held[at + step].clear();
      }
    }
    const auto count = static_cast<int64_t>(ranks_.size());
    traffic_.merges++;
    traffic_.messages += 2 * (count - 1);
    traffic_.bytes += (count - 1) * static_cast<int64_t>(held[0].size());
    traffic_.longest_path += 2 * rounds(count);
    received_ += 2 * largest;
    each([&](Agreement& rank) { rank.merged(held[0]); });
  }

  int64_t received() const { return received_; }

 private:
  template <class Act>
  void each(Act&& act) {
    for (size_t i = 0; i < ranks_.size(); ++i) {
      auto start = Clock::now();
      act(ranks_[i]);
      spent_[i] += std::chrono::duration<double>(Clock::now() - start).count();
    }
  }
  std::vector<Agreement>& ranks_;
  Traffic& traffic_;
  std::vector<double>& spent_;
  int64_t received_ = 0;
};

}  // namespace

Simulated simulate(int64_t ranks,
                   const std::function<Record(int64_t, const std::vector<Change>&)>& seen) {
  Simulated result;
  std::vector<Change> dynamic;
  std::vector<double> spent(static_cast<size_t>(ranks));
  for (;;) {
    STATOR_CHECK(++result.captures < 10, "ranks do not come to an end");
    std::vector<Agreement> all;
    all.reserve(static_cast<size_t>(ranks));
    for (int64_t rank = 0; rank < ranks; ++rank) {
      Record record = seen(rank, dynamic);
      auto start = Clock::now();
      all.emplace_back(std::move(record), true);
      spent[static_cast<size_t>(rank)] +=
          std::chrono::duration<double>(Clock::now() - start).count();
    }
    Exchange exchange(all, result.traffic, spent);
    while (!all.front().done())
      all.front().wants() == Wants::kReduce ? exchange.reduce() : exchange.merge();
    result.traffic.most_memory = std::max(result.traffic.most_memory, exchange.received());
    result.decision = all.front().decision();
    for (const Agreement& rank : all) {
      const Decision& decision = rank.decision();
      STATOR_CHECK(rank.done() && decision.verdict == result.decision.verdict &&
                       decision.changes == result.decision.changes &&
                       decision.message == result.decision.message,
                   "ranks decide differently");
    }
    if (result.decision.verdict != Verdict::kWiden) break;
    dynamic.insert(dynamic.end(), result.decision.changes.begin(), result.decision.changes.end());
  }
  for (double seconds : spent) result.traffic.seconds += seconds;
  result.traffic.slowest_rank = *std::max_element(spent.begin(), spent.end());
  return result;
}

Simulated rehearse(const std::string& name, int64_t ranks, int64_t inputs) {
  STATOR_CHECK(name == "equal" || name == "sizes" || name == "stray" || name == "branches",
               "no such case: " + name);
  auto seen = [&](int64_t rank, const std::vector<Change>& dynamic) {
    Record record;
    record.rank = rank;
    record.outcome = Outcome::kGraph;
    record.site = "model.py:10 in Model.forward at 0";
    record.exit = "returns";
    record.calls = 300;
    record.structure = digestOf("the graph");
    auto add = [&](const std::string& source, std::vector<int64_t> sizes) {
      for (const Change& change : dynamic) {
        if (change.source == source) sizes[change.position] = kDynamic;
      }
      record.items.push_back({source, std::move(sizes)});
    };
    for (int64_t i = 0; i < inputs; ++i) {
      add("L['batch'][" + std::to_string(i) + "]",
          {name == "sizes" || name == "branches" ? 8 + rank % 7 : 8, 128 + i});
    }
    if (name == "branches") add("L['options'][" + std::to_string(rank % 3) + "]", {64});
    if (name == "stray" && rank == ranks / 2) {
      record.exit =
          "breaks at model.py:40 in Model.forward: the branch depends on the data of a tensor";
      record.structure = digestOf("another graph");
      record.calls = 120;
    }
    return record;
  };
  return simulate(ranks, seen);
}

}  // namespace stator::dist
