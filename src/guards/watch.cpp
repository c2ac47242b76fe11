#include "guards/watch.h"

#include <algorithm>
#include <utility>

namespace stator::guards {

namespace {

// Who watches a dict: those that are watched at present, all of them alive. Never destroyed: dicts still go when the
// interpreter ends.
using Watchers = std::unordered_map<PyObject*, std::vector<Watch*>>;
Watchers& watchers() {
  static auto* all = new Watchers();
  return *all;
}

}  // namespace

std::unique_ptr<Watch> Watch::begin() {
  static const bool possible = stator_watch_start(onChange) != 0;
  return possible ? std::unique_ptr<Watch>(new Watch()) : nullptr;
}

Watch::~Watch() {
  for (PyObject* dict : dicts_) {
    auto found = watchers().find(dict);
    if (found == watchers().end() || std::erase(found->second, this) == 0) continue;
    if (!found->second.empty()) continue;
    watchers().erase(found);
    stator_unwatch_dict(dict);
  }
}

void Watch::add(PyObject* dict) {
  std::vector<Watch*>& of = watchers()[dict];
  if (std::find(of.begin(), of.end(), this) == of.end()) {
    of.push_back(this);
    dicts_.push_back(dict);
  }
  stator_watch_dict(dict);
}

bool Watch::tellsOf(PyTypeObject* type) {
  auto [found, is_new] = types_.try_emplace(type, false);
  if (is_new) found->second = stator_has_watched_setters(type) != 0;
  return found->second;
}

void Watch::resume() {
  // Each of them was reached just now, so it lives.
  for (PyObject* dict : std::exchange(told_, {})) add(dict);
  assignments_ = stator_assignments;
}

// One change is enough to know: what is not watched any more costs whoever writes it nothing. Nor is anything known of
// it any more that could be wrong once it is gone.
void Watch::onChange(PyObject* dict, int goes) {
  auto found = watchers().find(dict);
  if (found == watchers().end()) return;
  for (Watch* watch : found->second) watch->told_.insert(dict);
  watchers().erase(found);
  if (!goes) stator_unwatch_dict(dict);
}

}  // namespace stator::guards
