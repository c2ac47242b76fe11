#include "debug/reduce.h"

#include "base/parts.h"

#include <algorithm>

namespace stator::debug {

bool Reducer::accept(std::optional<Edited> candidate, const std::string& pass) {
  if (!candidate) return false;
  uint64_t hash = hashOf(candidate->specimen);
  if (hash == hashOf(current_) || refused_.contains(hash)) return false;
  if (!still_fails_(current_, *candidate, pass)) {
    refused_.insert(hash);
    return false;
  }
  current_ = std::move(candidate->specimen);
  // Inputs of the new specimen have other values than before: what was refused may fail now.
  if (!candidate->cut.empty()) refused_.clear();
  return true;
}

bool Reducer::keep(const std::vector<int>& calls, const std::string& pass) {
  std::vector<bool> kept(current_.graph->nodes().size(), false);
  for (int index : calls) kept[static_cast<size_t>(index)] = true;
  return accept(keepCalls(current_, kept), pass);
}

// The shortest prefix that fails, by bisection. A failure need not be monotonic in the length; then the prefix found is
// a short one, and the groups do the rest.
void Reducer::truncateEnd() {
  size_t passes = 0;  // prefixes up to this length do not fail
  while (true) {
    std::vector<int> calls = current_.calls();
    if (passes + 1 >= calls.size()) return;
    size_t middle = passes + (calls.size() - passes) / 2;
    std::vector<int> prefix(calls.begin(), calls.begin() + static_cast<std::ptrdiff_t>(middle));
    if (!keep(prefix, "truncate the end")) passes = middle;
  }
}

void Reducer::cutStart() {
  size_t passes = 0;  // suffixes up to this length do not fail
  while (true) {
    std::vector<int> calls = current_.calls();
    if (passes + 1 >= calls.size()) return;
    size_t middle = passes + (calls.size() - passes) / 2;
    std::vector<int> suffix(calls.end() - static_cast<std::ptrdiff_t>(middle), calls.end());
    if (!keep(suffix, "cut the start")) passes = middle;
  }
}

bool Reducer::dropGroups() {
  bool progress = false;
  for (size_t size = std::max<size_t>(current_.calls().size() / 2, 1);; size /= 2) {
    // From the end: a late call that goes makes earlier ones sinks, which can go next.
    size_t end = current_.calls().size();
    while (end > 0 && current_.calls().size() > 1) {
      std::vector<int> calls = current_.calls();
      end = std::min(end, calls.size());
      size_t begin = end > size ? end - size : 0;
      std::vector<int> rest(calls.begin(), calls.begin() + static_cast<std::ptrdiff_t>(begin));
      rest.insert(rest.end(), calls.begin() + static_cast<std::ptrdiff_t>(end), calls.end());
      progress |=
          keep(rest, size == 1 ? "drop single calls" : "drop groups of " + std::to_string(size));
      end = begin;
    }
    if (size == 1) return progress;
  }
}

void Reducer::reduceCalls() {
  truncateEnd();
  cutStart();
  while (dropGroups()) {
  }
}

namespace {

void collectFunctions(PyObject* argument, std::vector<Ref<>>& found) {
  if (argument == nullptr) return;
  if (PyTuple_Check(argument) || PyList_Check(argument)) {
    everyItem(argument, [&](PyObject* item) {
      collectFunctions(item, found);
      return true;
    });
  } else if (isFunction(argument)) {
    found.push_back(newRef(argument));
  }
}

}  // namespace

void Reducer::inlineFunctions() {
  for (bool again = true; again;) {
    again = false;
    for (int index : current_.calls()) {
      std::vector<Ref<>> functions;
      collectFunctions(current_.graph->nodes()[static_cast<size_t>(index)].args.get(), functions);
      for (const Ref<>& function : functions) {
        const Specimen* body = body_of_ ? body_of_(function.get()) : nullptr;
        again = body != nullptr && accept(inlined(current_, index, *body), "inline functions");
        if (again) break;
      }
      if (again) break;
    }
  }
}

void Reducer::reduceValues() {
  // One output is enough, mostly; the last is the likeliest, since the end was cut right behind the fault.
  std::vector<std::string> outputs;
  for (const graph::Node* node : current_.graph->outputs()) outputs.push_back(node->name_hint);
  bool alone = outputs.size() <= 1;
  for (size_t i = outputs.size(); !alone && i-- > 0;)
    alone = accept(keepOutputs(current_, {current_.find(outputs[i])}), "one output");
  for (size_t i = 0; !alone && i < outputs.size(); ++i) {
    std::vector<int> rest;
    for (const graph::Node* node : current_.graph->outputs()) {
      if (node->name_hint != outputs[i]) rest.push_back(node->index);
    }
    accept(keepOutputs(current_, rest), "drop outputs");
  }
  // A value that looks like an earlier one may be replaced by it: a call that only hands on, or an input too many.
  for (bool again = true; again;) {
    again = false;
    auto count = static_cast<int>(current_.graph->nodes().size());
    for (int gone = count - 1; gone > 0 && !again; --gone) {
      const ValueFacts& facts = current_.facts[static_cast<size_t>(gone)];
      bool is_input = current_.graph->nodes()[static_cast<size_t>(gone)].op == graph::Op::kInput;
      if (facts.kind != Kind::kTensor || facts.text.empty()) continue;
      std::vector<int> choices;
      if (!is_input) choices = current_.reads(gone);
      for (int i = 0; is_input && i < gone; ++i) {
        if (current_.graph->nodes()[static_cast<size_t>(i)].op == graph::Op::kInput)
          choices.push_back(i);
      }
      for (int instead : choices) {
        if (current_.facts[static_cast<size_t>(instead)].text != facts.text) continue;
        again =
            accept(substitute(current_, gone, instead), is_input ? "merge inputs" : "bypass calls");
        if (again) break;
      }
    }
  }
}

void Reducer::reduceConstants() {
  for (int index : current_.calls()) {
    const graph::Node& node = current_.graph->nodes()[static_cast<size_t>(index)];
    if (!node.kwargs) continue;
    Ref<> keys = orThrow(PyDict_Keys(node.kwargs.get()));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(keys.get()); ++i) {
      size_t before = current_.graph->nodes().size();
      accept(Edited{withoutKeyword(current_, index, PyList_GET_ITEM(keys.get(), i)), {}},
             "drop keywords");
      if (current_.graph->nodes().size() != before) return;
    }
  }
  Ref<> one = orThrow(PyLong_FromLong(1));
  Ref<> one_float = orThrow(PyFloat_FromDouble(1.0));
  size_t count = constants(current_).size();
  for (size_t i = 0; i < count; ++i) {
    PyObject* value = constants(current_)[i].second.get();
    if (PyFloat_CheckExact(value) && PyFloat_AS_DOUBLE(value) != 1.0 &&
        PyFloat_AS_DOUBLE(value) != 0.0)
      accept(Edited{withConstant(current_, i, one_float.get()), {}}, "simpler constants");
    if (PyLong_CheckExact(value) && PyLong_AsLongLong(value) > 8)
      accept(Edited{withConstant(current_, i, one.get()), {}}, "simpler constants");
    PyErr_Clear();
  }
}

}  // namespace stator::debug
