#include "dist/agreement.h"

#include "base/check.h"
#include "dist/digest.h"

#include <algorithm>
#include <tuple>

namespace stator::dist {

namespace {

constexpr int64_t kVersion = 1;

enum Word : size_t { kTopic, kSite, kExit, kStructure, kSources, kValues, kOutcome, kGuards };

int64_t word(uint64_t digest) { return static_cast<int64_t>(digest); }

}  // namespace

Agreement::Agreement(Record record, bool may_be_dynamic)
    : record_(std::move(record)), may_be_dynamic_(may_be_dynamic) {
  Digest sources, values;
  for (const Item& item : record_.items) {
    sources.add(item.source).add(static_cast<int64_t>(item.values.size()));
    for (int64_t value : item.values) {
      values.add(value);
      if (values_.size() < kMostValues) values_.push_back(value);
    }
  }
  std::vector<int64_t> head(kHeadWords);
  head[kTopic] =
      static_cast<int64_t>(record_.topic) | int64_t{may_be_dynamic_} << 8 | kVersion << 16;
  head[kSite] = word(digestOf(record_.site));
  head[kExit] = word(digestOf(record_.exit));
  head[kStructure] = word(record_.structure);
  head[kSources] = word(sources.value());
  head[kValues] = word(values.value());
  head[kOutcome] = static_cast<int64_t>(record_.outcome);
  head[kGuards] = word(record_.guards);
  offer(std::move(head));
}

// A maximum of words and of their complements gives maximum and minimum in one reduction.
void Agreement::offer(std::vector<int64_t> words) {
  const size_t count = words.size();
  words.resize(2 * count);
  for (size_t i = 0; i < count; ++i) words[count + i] = ~words[i];
  words_ = std::move(words);
  wants_ = Wants::kReduce;
}

void Agreement::decide(Verdict verdict) {
  decision_.verdict = verdict;
  wants_ = Wants::kNothing;
}

void Agreement::askForSummary() {
  Summary own;
  own.add(record_);
  bytes_ = own.encode();
  wants_ = Wants::kMerge;
}

void Agreement::reduced(const std::vector<int64_t>& maxima) {
  STATOR_CHECK(wants_ == Wants::kReduce && maxima.size() == words_.size(),
               "a reduction of another length");
  head_done_ ? valuesReduced(maxima) : headReduced(maxima);
}

void Agreement::headReduced(const std::vector<int64_t>& maxima) {
  head_done_ = true;
  auto same = [&](size_t at) { return maxima[at] == ~maxima[kHeadWords + at]; };
  if (!same(kTopic) || !same(kSite)) return askForSummary();
  if (record_.topic == Topic::kGuards)
    return decide(same(kOutcome) && record_.outcome == Outcome::kHit ? Verdict::kAgreed
                                                                     : Verdict::kMiss);
  decision_.same_guards = same(kGuards);
  same_program_ = same(kExit) && same(kStructure) && same(kOutcome);
  const bool same_values = same(kSources) && same(kValues);
  if (same_program_ && (same_values || !may_be_dynamic_)) return decide(Verdict::kAgreed);
  if (!may_be_dynamic_ || !same(kSources) || same_values || values_.empty()) return askForSummary();
  offer(values_);
}

void Agreement::valuesReduced(const std::vector<int64_t>& maxima) {
  size_t at = 0;
  for (const Item& item : record_.items) {
    for (size_t i = 0; i < item.values.size() && at < values_.size(); ++i, ++at) {
      if (maxima[at] != ~maxima[values_.size() + at]) decision_.changes.push_back({item.source, i});
    }
  }
  if (!decision_.changes.empty()) return decide(Verdict::kWiden);
  // What differs lies behind the values that are compared.
  same_program_ ? decide(Verdict::kAgreed) : askForSummary();
}

void Agreement::merged(std::string_view whole) {
  STATOR_CHECK(wants_ == Wants::kMerge, "a summary that nobody asked for");
  Result<Summary> read = Summary::decode(whole);
  STATOR_CHECK(static_cast<bool>(read), "the summary of all ranks: " + read.failure().why);
  const Summary& summary = *read;
  if (summary.oneSite() && may_be_dynamic_ && record_.topic == Topic::kCapture) {
    decision_.changes = summary.changes();
    if (!decision_.changes.empty()) return decide(Verdict::kWiden);
  }
  if (summary.oneProgram()) return decide(Verdict::kAgreed);
  decision_.message = summary.describe();
  decide(Verdict::kDiverged);
}

}  // namespace stator::dist
