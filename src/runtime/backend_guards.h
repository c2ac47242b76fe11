// What a backend relied on when it compiled a graph, as guards of the entry.
#pragma once

#include "graph/fx.h"
#include "guards/guard.h"
#include "runtime/cache.h"

#include <string>
#include <vector>

namespace stator::runtime {

// Conditions on the graph's symbols and floats. `examples`: the inputs' values. False: one is on a number that has no
// value before the call.
bool addConditions(const std::vector<std::string>& conditions, const Entry& entry,
                   const std::vector<Ref<>>& examples, guards::GuardSet& guards);
// Inputs that have to be one tensor become guards; those that must not overlap count as written to.
void addBackendGuards(const std::vector<graph::BackendGuard>& asked, const Entry& entry,
                      guards::GuardSet& guards, std::vector<bool>& written);

}  // namespace stator::runtime
