#include "regions/bodies.h"

#include "base/stack_room.h"
#include "graph/fx_record.h"

namespace stator::regions {

using graph::Graph;
using graph::Node;
using graph::Op;

Deeds deedsOf(const Node& node) {
  needStack();
  Deeds deeds;
  auto look = [&](PyObject* leaf) {
    std::shared_ptr<Graph> body = graph::isStandIn(leaf) ? nullptr : graph::bodyOf(leaf);
    if (body == nullptr) return;
    deeds.has_body = true;
    for (const Node& inner : std::as_const(*body).nodes()) {
      if (inner.op == Op::kInput || inner.op == Op::kAttribute) continue;
      const Deeds deeper = deedsOf(inner);
      deeds.calls += 1 + deeper.calls;
      deeds.draws |= inner.random || deeper.draws;
      const bool plain = inner.random || inner.check || inner.sets_mode;
      deeds.writes |= deeper.has_body ? deeper.writes : inner.mutates && !plain;
    }
  };
  graph::forEachLeaf(node.args.get(), look);
  graph::forEachLeaf(node.kwargs.get(), look);
  return deeds;
}

}  // namespace stator::regions
