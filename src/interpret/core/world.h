// What was there before the trace: the driven frame, the sources by which values are reached from it, and the guards on
// what was read.
#pragma once

#include "base/ref.h"
#include "guards/guard.h"
#include "interpret/core/unsteady.h"
#include "python/frame.h"
#include "sources/source.h"

#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

namespace stator::interpret {

class World {
 public:
  explicit World(StatorFrame* frame)
      : frame_(frame),
        roots_(sources::Roots::of(frame)),
        sources_(std::make_unique<sources::SourceSet>()),
        guards_(std::make_unique<guards::GuardSet>()) {}

  StatorFrame* frame() const { return frame_; }
  const sources::Roots& roots() const { return roots_; }

  const sources::Source* root(sources::SourceKind kind, int64_t index = 0) {
    return sources_->root(kind, index);
  }
  const sources::Source* child(sources::SourceKind kind, const sources::Source* base,
                               PyObject* key = nullptr, int64_t index = 0) {
    return sources_->child(kind, base, key, index);
  }
  // The trace relies on it. Throws Unsteady.
  void guard(guards::Guard fact) {
    if (unsteady_in_ != nullptr) refuseUnsteady(*unsteady_in_, fact);
    guards_->add(std::move(fact));
  }
  // While instructions are traced: whether values that were others at many calls may not be relied on.
  void watchUnsteady(const known::DynamicHistory* history) { unsteady_in_ = history; }
  bool watchesUnsteady() const { return unsteady_in_ != nullptr; }
  guards::GuardSet& guards() { return *guards_; }
  sources::SourceSet& sources() { return *sources_; }

  // Lives as long as the trace; borrowed.
  PyObject* keep(Ref<> object) {
    kept_.push_back(std::move(object));
    return kept_.back().get();
  }
  void keepAll(std::initializer_list<Ref<>> objects) {
    kept_.insert(kept_.end(), objects.begin(), objects.end());
  }

  // At the end, for the entry.
  std::unique_ptr<sources::SourceSet> takeSources() { return std::move(sources_); }
  std::unique_ptr<guards::GuardSet> takeGuards() { return std::move(guards_); }

 private:
  StatorFrame* frame_;
  sources::Roots roots_;
  std::unique_ptr<sources::SourceSet> sources_;
  std::unique_ptr<guards::GuardSet> guards_;
  std::vector<Ref<>> kept_;
  const known::DynamicHistory* unsteady_in_ = nullptr;
};

}  // namespace stator::interpret
