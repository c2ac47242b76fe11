#include "dist/agreement.h"

#include "dist/digest.h"
#include "dist/simulation.h"

#include <gtest/gtest.h>
#include <random>

namespace stator::dist {
namespace {

Record record(int64_t rank, std::vector<Item> items = {}) {
  Record made;
  made.rank = rank;
  made.outcome = Outcome::kGraph;
  made.site = "m.py:3 in f at 2";
  made.exit = "returns";
  made.structure = digestOf("add mul");
  made.calls = 2;
  made.items = std::move(items);
  return made;
}

// Runs the state machines of these ranks to their end. `collectives` counts what they needed.
std::vector<Decision> decide(const std::vector<Record>& records, bool may_be_dynamic = true,
                             int* collectives = nullptr) {
  std::vector<Agreement> ranks;
  for (const Record& one : records) ranks.emplace_back(one, may_be_dynamic);
  while (!ranks.front().done()) {
    if (collectives != nullptr) ++*collectives;
    const Wants wants = ranks.front().wants();
    std::vector<int64_t> maxima = ranks.front().words();
    std::string whole;
    for (const Agreement& rank : ranks) {
      EXPECT_EQ(rank.wants(), wants);
      EXPECT_EQ(rank.words().size(), maxima.size());
      for (size_t i = 0; i < maxima.size(); ++i) maxima[i] = std::max(maxima[i], rank.words()[i]);
      if (wants == Wants::kMerge)
        whole = whole.empty() ? rank.bytes() : mergedBytes(rank.bytes(), whole);
    }
    for (Agreement& rank : ranks)
      wants == Wants::kReduce ? rank.reduced(maxima) : rank.merged(whole);
  }
  std::vector<Decision> decisions;
  for (const Agreement& rank : ranks) {
    EXPECT_TRUE(rank.done());
    decisions.push_back(rank.decision());
    EXPECT_EQ(decisions.back().verdict, decisions.front().verdict);
    EXPECT_EQ(decisions.back().changes, decisions.front().changes);
    EXPECT_EQ(decisions.back().message, decisions.front().message);
  }
  return decisions;
}

TEST(Digest, DependsOnTextAlone) {
  EXPECT_EQ(digestOf("graph"), digestOf("graph"));
  EXPECT_NE(digestOf("graph"), digestOf("grapf"));
  EXPECT_NE(digestOf(""), digestOf(std::string_view("\0", 1)));
  EXPECT_NE(Digest().add("ab").add("c").value(), Digest().add("a").add("bc").value());
  // A value that must not change from build to build: ranks may run different ones.
  EXPECT_EQ(hex(digestOf("stator")), hex(digestOf(std::string("sta") + "tor")));
  EXPECT_EQ(hex(digestOf("stator")).size(), 16u);
}

std::string bytesOf(const Record& record) {
  Summary made;
  made.add(record);
  return made.encode();
}

TEST(Summary, ComesBackAsItWas) {
  Record sent = record(7, {{"L['x']", {4, kDynamic, -1}}, {"L['n']", {1000000007}}});
  Result<Summary> read = Summary::decode(bytesOf(sent));
  ASSERT_TRUE(static_cast<bool>(read));
  ASSERT_EQ(read->groups().size(), 1u);
  EXPECT_EQ(read->groups()[0].site, sent.site);
  EXPECT_EQ(read->groups()[0].structure, sent.structure);
  EXPECT_EQ(read->encode(), bytesOf(sent));
  EXPECT_TRUE(read->changes().empty());
  Record other = record(8, {{"L['x']", {4, kDynamic, 3}}, {"L['n']", {2}}});
  Result<Summary> both = Summary::decode(mergedBytes(bytesOf(sent), bytesOf(other)));
  ASSERT_TRUE(static_cast<bool>(both));
  EXPECT_EQ(both->changes(), (std::vector<Change>{{"L['n']", 0}, {"L['x']", 2}}));
  EXPECT_EQ(mergedBytes(bytesOf(other), bytesOf(sent)), both->encode());
}

TEST(Summary, IsBounded) {
  std::string whole;
  for (int rank = 0; rank < 40; ++rank) {
    Record sent = record(3 * rank);
    sent.exit = std::string(100000, static_cast<char>('a' + rank % 20));
    for (int i = 0; i < 5000; ++i)
      sent.items.push_back({"L['x'][" + std::to_string(i + 100 * rank) + "]", {i, i}});
    whole = whole.empty() ? bytesOf(sent) : mergedBytes(whole, bytesOf(sent));
    EXPECT_LE(whole.size(), kLongestSummary);
  }
  Result<Summary> read = Summary::decode(whole);
  ASSERT_TRUE(static_cast<bool>(read));
  EXPECT_EQ(read->groups().size(), Summary::kMostGroups);
  EXPECT_EQ(read->groups()[0].exit.size(), kLongestText);
}

TEST(Summary, RefusesWhatIsNone) {
  EXPECT_FALSE(static_cast<bool>(Summary::decode("")));
  EXPECT_FALSE(static_cast<bool>(Summary::decode(std::string(kLongestSummary + 1, '\0'))));
  std::mt19937_64 random(1);
  const std::string good = bytesOf(record(3, {{"L['x']", {4, 8}}}));
  for (int i = 0; i < 20000; ++i) {
    std::string bytes = good.substr(0, random() % (good.size() + 1));
    for (int k = 0; k < 3 && !bytes.empty(); ++k)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    (void)Summary::decode(bytes);  // whatever it is, it ends, within the bytes
  }
}

TEST(Agreement, EqualRanksNeedOneReduction) {
  int collectives = 0;
  auto decisions = decide({record(0, {{"L['x']", {4, 8}}}), record(1, {{"L['x']", {4, 8}}})}, true,
                          &collectives);
  EXPECT_EQ(decisions[0].verdict, Verdict::kAgreed);
  EXPECT_EQ(collectives, 1);
}

TEST(Agreement, SizesAndIntsThatDifferBecomeDynamic) {
  int collectives = 0;
  auto decisions = decide({record(0, {{"L['x']", {4, 8}}, {"L['n']", {5}}}),
                           record(1, {{"L['x']", {6, 8}}, {"L['n']", {7}}}),
                           record(2, {{"L['x']", {4, 8}}, {"L['n']", {5}}})},
                          true, &collectives);
  EXPECT_EQ(decisions[0].verdict, Verdict::kWiden);
  EXPECT_EQ(decisions[0].changes, (std::vector<Change>{{"L['x']", 0}, {"L['n']", 0}}));
  EXPECT_EQ(collectives, 2);
  // One that is dynamic on one rank already becomes so on all.
  decisions = decide({record(0, {{"L['x']", {kDynamic, 8}}}), record(1, {{"L['x']", {6, 8}}})});
  EXPECT_EQ(decisions[0].changes, (std::vector<Change>{{"L['x']", 0}}));
}

TEST(Agreement, StaticSizesThatMayNotChangeAreNoDivergence) {
  EXPECT_EQ(decide({record(0, {{"L['x']", {4}}}), record(1, {{"L['x']", {6}}})}, false)[0].verdict,
            Verdict::kAgreed);
}

TEST(Agreement, SharedSizesAreFoundAmongDifferentReads) {
  auto decisions = decide({record(0, {{"L['x']", {4}}, {"L['a']", {1}}}),
                           record(1, {{"L['x']", {6}}, {"L['b']", {2}}})});
  EXPECT_EQ(decisions[0].verdict, Verdict::kWiden);
  EXPECT_EQ(decisions[0].changes, (std::vector<Change>{{"L['x']", 0}}));
  // other reads alone do not matter, while the graph is the same
  EXPECT_EQ(decide({record(0, {{"L['a']", {1}}}), record(1, {{"L['b']", {2}}})})[0].verdict,
            Verdict::kAgreed);
}

TEST(Agreement, AnotherGraphBreakOrPlaceIsSaidByRank) {
  std::vector<Record> ranks;
  for (int i = 0; i < 6; ++i) ranks.push_back(record(i));
  ranks[4].structure = digestOf("add");
  ranks[4].calls = 1;
  ranks[4].exit = "breaks at m.py:5 in f";
  Decision decision = decide(ranks)[0];
  EXPECT_EQ(decision.verdict, Verdict::kDiverged);
  EXPECT_NE(decision.message.find("ranks 0-3, 5: captured a graph of 2 calls"), std::string::npos)
      << decision.message;
  EXPECT_NE(decision.message.find("rank 4: captured a graph of 1 call"), std::string::npos)
      << decision.message;
  EXPECT_NE(decision.message.find("m.py:5"), std::string::npos);

  ranks[4] = record(4);
  ranks[4].site = "m.py:90 in g at 2";
  EXPECT_EQ(decide(ranks)[0].verdict, Verdict::kDiverged);
  ranks[4] = record(4);
  ranks[4].outcome = Outcome::kNoGraph;
  ranks[4].calls = 0;
  ranks[4].structure = 0;
  EXPECT_EQ(decide(ranks)[0].verdict, Verdict::kDiverged);
  ranks[4] = record(4);
  ranks[4].outcome = Outcome::kFailed;
  ranks[4].exit = "OutOfMemoryError";
  EXPECT_NE(
      decide(ranks)[0].message.find("rank 4: could not capture m.py:3 in f at 2: OutOfMemoryError"),
      std::string::npos);
}

TEST(Agreement, GuardsHitOnAllOrMissOnAll) {
  std::vector<Record> ranks{record(0), record(1)};
  for (Record& one : ranks) one.topic = Topic::kGuards, one.outcome = Outcome::kHit;
  EXPECT_EQ(decide(ranks)[0].verdict, Verdict::kAgreed);
  ranks[1].outcome = Outcome::kMiss;
  EXPECT_EQ(decide(ranks)[0].verdict, Verdict::kMiss);
  ranks[0].outcome = Outcome::kMiss;
  EXPECT_EQ(decide(ranks)[0].verdict, Verdict::kMiss);
  // One looks up entries while the other has captured: they stand at different points.
  ranks[1] = record(1);
  EXPECT_EQ(decide(ranks)[0].verdict, Verdict::kDiverged);
}

TEST(Agreement, ABackendThatFailsSomewhereIsSaidEverywhere) {
  std::vector<Record> ranks{record(0), record(1), record(2)};
  for (Record& one : ranks) one.topic = Topic::kBackend;
  EXPECT_EQ(decide(ranks)[0].verdict, Verdict::kAgreed);
  ranks[1].outcome = Outcome::kFailed;
  ranks[1].exit = "RuntimeError: no nvcc";
  Decision decision = decide(ranks)[0];
  EXPECT_EQ(decision.verdict, Verdict::kDiverged);
  EXPECT_NE(
      decision.message.find(
          "rank 1: the backend failed on the graph of m.py:3 in f at 2: RuntimeError: no nvcc"),
      std::string::npos)
      << decision.message;
}

TEST(Summary, MergingIsAssociativeAndBounded) {
  std::mt19937_64 random(2);
  std::vector<Record> records;
  for (int i = 0; i < 300; ++i) {
    records.push_back(record(i, {{"L['x']", {static_cast<int64_t>(random() % 5), 8}}}));
    records.back().structure = random() % 20;  // more programs than groups are kept
  }
  Summary in_order, backwards, by_halves;
  Summary halves[2];
  for (const Record& one : records) in_order.add(one);
  for (size_t i = records.size(); i-- > 0;) backwards.add(records[i]);
  for (size_t i = 0; i < records.size(); ++i) halves[random() % 2].add(records[i]);
  by_halves.merge(halves[1]);
  by_halves.merge(halves[0]);
  EXPECT_EQ(in_order.groups().size(), Summary::kMostGroups);
  for (const Summary* other : {&backwards, &by_halves}) {
    ASSERT_EQ(other->groups().size(), in_order.groups().size());
    for (size_t i = 0; i < in_order.groups().size(); ++i) {
      EXPECT_EQ(other->groups()[i].structure, in_order.groups()[i].structure);
      EXPECT_EQ(other->groups()[i].count, in_order.groups()[i].count);
    }
    EXPECT_EQ(other->changes(), in_order.changes());
  }
}

TEST(Simulation, ManyRanksComeToOneDecision) {
  for (int64_t ranks : {2, 3, 64, 257}) {
    Simulated equal = rehearse("equal", ranks, 4);
    EXPECT_EQ(equal.decision.verdict, Verdict::kAgreed);
    EXPECT_EQ(equal.traffic.reductions, 1);
    EXPECT_EQ(equal.traffic.merges, 0);
    Simulated sizes = rehearse("sizes", ranks, 4);
    EXPECT_EQ(sizes.decision.verdict, Verdict::kAgreed);
    EXPECT_EQ(sizes.captures, 2);
    EXPECT_EQ(sizes.traffic.merges, 0);
    EXPECT_EQ(rehearse("branches", ranks, 4).decision.verdict, Verdict::kAgreed);
    Simulated stray = rehearse("stray", ranks, 4);
    EXPECT_EQ(stray.decision.verdict, Verdict::kDiverged);
    EXPECT_NE(stray.decision.message.find("rank " + std::to_string(ranks / 2) + ":"),
              std::string::npos)
        << stray.decision.message;
  }
}

}  // namespace
}  // namespace stator::dist
