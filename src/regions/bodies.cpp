#include "regions/bodies.h"

#include "base/boundary.h"
#include "base/imports.h"
#include "base/stack_room.h"
#include "graph/fx_record.h"
#include "python/types.h"

namespace stator::regions {

using graph::Graph;
using graph::Node;
using graph::Op;

std::shared_ptr<Graph> bodyOf(PyObject* value) {
  if (!stator_is_user_class(Py_TYPE(value))) return nullptr;
  Ref<> name = stealRef(PyObject_GetAttrString(value, "_stator_name"));
  if (!name) {
    PyErr_Clear();
    return nullptr;
  }
  Ref<> home = orThrow(importModule("stator._fx"));
  Ref<> records = orThrow(PyObject_GetAttrString(home.get(), "_function_records"));
  Ref<> record = orThrow(PyObject_CallMethod(records.get(), "get", "(O)", value));
  return record.get() != Py_None ? graph::recordOf(record.get())->graph : nullptr;
}

Deeds deedsOf(const Node& node) {
  needStack();
  Deeds deeds;
  auto look = [&](PyObject* leaf) {
    std::shared_ptr<Graph> body = graph::isStandIn(leaf) ? nullptr : bodyOf(leaf);
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
