// A captured graph on its way through the backend: whole, or its regions one by one; each found on the disk, or
// compiled.
#pragma once

#include "graph/fx.h"
#include "regions/find.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace stator::runtime {

// What the module of each graph is given before a backend sees it.
using PrepareModule = std::function<void(PyObject*)>;

class BackendCall {
 public:
  struct Options {
    bool grad_enabled = false;
    bool as_captured = false;         // the graph runs as it is: no regions, nothing on the disk
    bool seen = false;                // somebody reads the module of each graph
    std::string place;                // for errors of its backward; empty: nobody differentiates it
    bool differentiates = false;      // the backend makes one function of autograd's of each graph
    std::vector<size_t> bounds = {};  // where it has to be cut then (regions/apart.h)
  };
  // Finds the regions, if the backend wants some: `settings` is asked for what it wants.
  BackendCall(std::shared_ptr<graph::Graph> graph, PyCodeObject* code, PyObject* settings,
              Options options, PrepareModule prepare);
  // The callable is null and an error is set if the backend fails.
  graph::Compiled compile(PyObject* backend);
  // One line for each region; empty: the graph is whole.
  std::string regionsText() const { return cut_.text(); }
  // Where what is made of each distinct graph is kept; empty for one that is kept nowhere.
  const std::vector<std::string>& diskKeys() const { return disk_keys_; }
  // What looking for the whole graph on the disk took, before compile().
  double searchSeconds() const { return search_seconds_; }

 private:
  // A graph before its backend is called.
  struct Ready {
    std::string disk_key;   // where it is found, or is to be kept
    graph::Compiled found;  // on the disk; the callable is null if it is not there
    Ref<> module;           // None: nobody needs one
  };
  // `calls`: for how many it is counted; all of its own if left out.
  Ready ready(const std::shared_ptr<graph::Graph>& graph, std::optional<size_t> calls = {});
  void announce(size_t calls, PyObject* module);
  graph::Compiled finish(const std::shared_ptr<graph::Graph>& graph, Ready ready,
                         PyObject* backend);

  std::shared_ptr<graph::Graph> graph_;
  PyCodeObject* code_;
  PyObject* settings_;
  Options options_;
  PrepareModule prepare_;
  regions::Cut cut_;
  bool shown_only_ = false, may_fail_ = false;
  Ready whole_;
  double search_seconds_ = 0;
  std::vector<std::string> disk_keys_;
};

}  // namespace stator::runtime
