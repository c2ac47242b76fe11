// How ranks come to one decision about a capture, as a state machine that knows no transport:
//
//     Agreement agreement(record, may_be_dynamic);
//     while (!agreement.done()) {
//       if (agreement.wants() == Wants::kReduce) agreement.reduced(<element-wise maximum over all ranks of agreement.words()>);
//       else agreement.merged(<all ranks' agreement.bytes(), put together by mergedBytes along a tree>);
//     }
//     agreement.decision()
//
// One reduction of kHeadWords * 2 words settles the usual case, in which all ranks saw the same. Where only sizes and
// ints differ, a second reduction finds which. Summaries are merged only where more differs: to find sizes that some
// ranks share, or to say who did what. Every exchange, whatever it is about, begins with a reduction of the same
// length: ranks that are at different points of their program find out by it, in place of waiting for each other.
#pragma once

#include "base/result.h"
#include "dist/record.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace stator::dist {

enum class Verdict : uint8_t {
  kAgreed,    // go on with what was captured
  kWiden,     // make `changes` dynamic, capture again, and agree again
  kMiss,      // kGuards: some rank has no entry, so all capture
  kDiverged,  // the ranks run different programs; `message` says who does what
};

// A size or int that is not the same on all ranks.
struct Change {
  std::string source;
  size_t position = 0;
  bool operator==(const Change& other) const {
    return source == other.source && position == other.position;
  }
};

struct Decision {
  Verdict verdict = Verdict::kAgreed;
  std::vector<Change> changes;
  bool same_guards = true;  // otherwise one rank may miss where others hit
  std::string message;
};

// Records of several ranks put together. Merging is associative and commutative, and what comes out stays small however
// many ranks there are: ranks that did the same are one group, and there are at most kMostGroups (what further ones did
// is not kept, only that they exist). As bytes a summary has at most kLongestSummary: long texts are cut, and of the
// sizes the first by name are kept.
constexpr size_t kLongestSummary = size_t{32} * 1024;
constexpr size_t kLongestText = 300;  // of a place, a reason, a source

class Summary {
 public:
  static constexpr size_t kMostGroups = 8;
  struct Group {
    Topic topic = Topic::kCapture;
    Outcome outcome = Outcome::kNoGraph;
    std::string site, exit;
    uint64_t structure = 0;
    int64_t calls = 0;
    int64_t count = 0;
    std::vector<std::pair<int64_t, int64_t>> ranks;  // ranges, sorted; at most kMostRanges
  };
  void add(const Record& record);
  void merge(const Summary& other);
  bool oneProgram() const { return groups_.size() == 1 && further_ == 0; }
  bool oneSite() const;
  const std::vector<Group>& groups() const { return groups_; }
  // Sizes and ints that differ among the ranks that have them.
  std::vector<Change> changes() const;
  std::string describe() const;
  std::string encode() const;
  static Result<Summary> decode(std::string_view bytes);

 private:
  static constexpr size_t kMostRanges = 16;
  struct Bounds {
    std::vector<int64_t> low, high;
    bool mixed = false;  // not of the same length everywhere
  };
  void addGroup(const Group& group);
  void addBounds(const std::string& source, const Bounds& bounds);
  std::vector<Group> groups_;  // sorted
  int64_t further_ = 0;        // ranks in groups that are not kept
  std::map<std::string, Bounds> items_;
};

// Two summaries' bytes as one's, in whichever order.
std::string mergedBytes(std::string_view one, std::string_view other);

enum class Wants : uint8_t { kReduce, kMerge, kNothing };

class Agreement {
 public:
  static constexpr size_t kHeadWords = 8;
  Agreement(Record record, bool may_be_dynamic);
  Wants wants() const { return wants_; }
  bool done() const { return wants_ == Wants::kNothing; }
  const std::vector<int64_t>& words() const { return words_; }
  const std::string& bytes() const { return bytes_; }
  void reduced(const std::vector<int64_t>& maxima);
  void merged(std::string_view whole);
  const Decision& decision() const { return decision_; }

 private:
  void offer(std::vector<int64_t> words);
  void headReduced(const std::vector<int64_t>& maxima);
  void valuesReduced(const std::vector<int64_t>& maxima);
  void decide(Verdict verdict);
  void askForSummary();

  Record record_;
  bool may_be_dynamic_;
  Wants wants_ = Wants::kReduce;
  bool head_done_ = false;
  bool same_program_ = false;
  std::vector<int64_t> words_, values_;
  std::string bytes_;
  Decision decision_;
};

}  // namespace stator::dist
