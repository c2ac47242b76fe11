#include "symbolic/intern.h"

#include <algorithm>
#include <deque>
#include <unordered_map>

namespace stator::symbolic {

namespace {

// Walks over expressions recurse, and see a shared part each time it occurs: what is heavier or deeper is not built.
constexpr uint32_t kMostWeight = 50000, kMostDepth = 500;

struct Extent {
  uint32_t weight;  // expressions in it, each as often as it occurs
  uint32_t depth;
};

struct Table {
  std::deque<Expr> exprs;
  std::deque<Extent> extents;  // by id
  std::unordered_multimap<uint64_t, const Expr*> by_hash;
};

// Never destroyed: graphs and guards point into it.
Table& table() {
  static auto* instance = new Table();
  return *instance;
}

uint64_t mix(uint64_t hash, uint64_t word) {
  const unsigned __int128 wide =
      static_cast<unsigned __int128>(hash ^ word ^ 0x9e3779b97f4a7c15u) * 0xd6e8feb86659fd93u;
  return static_cast<uint64_t>(wide) ^ static_cast<uint64_t>(wide >> 64);
}

int order(const Expr* left, const Expr* right) {
  if (left == right) return 0;
  if (left->kind != right->kind) return left->kind < right->kind ? -1 : 1;
  if (left->parts.size() != right->parts.size())
    return left->parts.size() < right->parts.size() ? -1 : 1;
  for (size_t i = 0; i < left->parts.size(); ++i) {
    if (int parts = order(left->parts[i].expr, right->parts[i].expr); parts != 0) return parts;
    if (left->parts[i].number != right->parts[i].number)
      return left->parts[i].number < right->parts[i].number ? -1 : 1;
  }
  return left->number < right->number ? -1 : 1;
}

}  // namespace

const Expr* exprAt(uint32_t id) { return &table().exprs[id]; }

const Expr* intern(Kind kind, int64_t number, std::vector<Part> parts) {
  uint64_t hash = mix(static_cast<uint64_t>(kind), static_cast<uint64_t>(number));
  for (const Part& part : parts)
    hash = mix(mix(hash, static_cast<uint64_t>(part.number)), part.expr->id);
  Table& all = table();
  auto [from, to] = all.by_hash.equal_range(hash);
  for (auto at = from; at != to; ++at) {
    const Expr* known = at->second;
    if (known->kind == kind && known->number == number && known->parts == parts) return known;
  }
  uint64_t symbols = 0;
  if (kind == Kind::kSymbol) symbols = 1ull << (number < 63 ? number : 63);
  Extent extent = {1, 0};
  for (const Part& part : parts) {
    symbols |= part.expr->symbols;
    const Extent& inner = all.extents[part.expr->id];
    extent.weight += inner.weight;
    extent.depth = std::max(extent.depth, inner.depth + 1);
    if (extent.weight > kMostWeight || extent.depth > kMostDepth) throw Overflow();
  }
  const auto id = static_cast<uint32_t>(all.exprs.size());
  const Expr& made = all.exprs.emplace_back(Expr{kind, id, symbols, number, std::move(parts)});
  all.extents.push_back(extent);
  all.by_hash.emplace(hash, &made);
  return &made;
}

bool before(const Expr* left, const Expr* right) { return order(left, right) < 0; }

const Expr* integer(int64_t value) { return intern(Kind::kInt, value, {}); }
const Expr* symbol(int64_t number) { return intern(Kind::kSymbol, number, {}); }
const Expr* truth(bool value) { return intern(Kind::kBool, value ? 1 : 0, {}); }

}  // namespace stator::symbolic
