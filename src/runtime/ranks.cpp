#include "runtime/ranks.h"

#include "base/boundary.h"
#include "base/check.h"
#include "base/error_aside.h"
#include "base/imports.h"
#include "base/stack_room.h"
#include "base/text.h"
#include "dist/digest.h"
#include "dist/simulation.h"
#include "runtime/active.h"
#include "runtime/cache.h"
#include "runtime/hook.h"
#include "runtime/settings.h"

#include <cstring>
#include <unordered_set>

namespace stator::runtime {

namespace {

using dist::Agreement;
using dist::Decision;
using dist::Item;
using dist::Record;
using dist::Topic;
using dist::Verdict;
using dist::Wants;
using interpret::Captured;
using interpret::TraceOptions;
using known::DynamicHistory;
using sources::Source;
using sources::SourceKind;

// Calls stator._ranks.<name>(...); throws PythonError.
template <class... Values>
Ref<> callRanks(const char* name, const char* format, Values... values) {
  Ref<> module = stealRef(importModule("stator._ranks"));
  Ref<> function = module ? stealRef(PyObject_GetAttrString(module.get(), name)) : Ref<>();
  Ref<> result =
      function ? stealRef(PyObject_CallFunction(function.get(), format, values...)) : Ref<>();
  if (!result) throw PythonError();
  return result;
}

std::string bytesOf(PyObject* object) {
  char* data = nullptr;
  Py_ssize_t size = 0;
  if (PyBytes_AsStringAndSize(object, &data, &size) != 0) throw PythonError();
  return std::string(data, static_cast<size_t>(size));
}

int64_t ownRank() { return PyLong_AsLongLong(callRanks("rank", "()").get()); }

// What this rank tells the others about a capture, for the log and the trace.
void tellLog(const Record& record) {
  HookDisabledScope disabled;
  Ref<> items = stealRef(PyDict_New());
  for (const dist::Item& item : record.items) {
    Ref<> values = stealRef(PyList_New(0));
    for (int64_t value : item.values) {
      Ref<> number =
          value == dist::kDynamic ? newRef(Py_None) : stealRef(PyLong_FromLongLong(value));
      if (!values || !number || PyList_Append(values.get(), number.get()) != 0) throw PythonError();
    }
    if (!items || PyDict_SetItemString(items.get(), item.source.c_str(), values.get()) != 0)
      throw PythonError();
  }
  callRanks("agreeing", "(ssLKO)", record.site.c_str(), record.exit.c_str(),
            static_cast<long long>(record.calls), static_cast<unsigned long long>(record.structure),
            items.get());
}

// Carries an agreement's messages until there is a decision.
Decision agree(Record record, bool may_be_dynamic) {
  HookDisabledScope disabled;
  record.rank = ownRank();
  const std::string site = record.site;
  Agreement agreement(std::move(record), may_be_dynamic);
  Ref<> exchange = callRanks("Exchange", "(s)", site.c_str());
  while (!agreement.done()) {
    if (agreement.wants() == Wants::kReduce) {
      const std::vector<int64_t>& words = agreement.words();
      Ref<> reply = stealRef(PyObject_CallMethod(
          exchange.get(), "maxima", "(y#)", reinterpret_cast<const char*>(words.data()),
          static_cast<Py_ssize_t>(words.size() * sizeof(int64_t))));
      if (!reply) throw PythonError();
      const std::string bytes = bytesOf(reply.get());
      std::vector<int64_t> maxima(bytes.size() / sizeof(int64_t));
      std::memcpy(maxima.data(), bytes.data(), maxima.size() * sizeof(int64_t));
      agreement.reduced(maxima);
    } else {
      const std::string& bytes = agreement.bytes();
      Ref<> reply = stealRef(PyObject_CallMethod(exchange.get(), "merged", "(y#n)", bytes.data(),
                                                 static_cast<Py_ssize_t>(bytes.size()),
                                                 static_cast<Py_ssize_t>(dist::kLongestSummary)));
      if (!reply) throw PythonError();
      agreement.merged(bytesOf(reply.get()));
    }
  }
  return agreement.decision();
}

// The text of the Python error that is set, which stays set.
std::string errorText() {
  ErrorKept error;
  PyObject* instance = error.instance();
  std::string text = instance != nullptr ? Py_TYPE(instance)->tp_name : "an error";
  Ref<> shown = instance != nullptr ? stealRef(PyObject_Str(instance)) : Ref<>();
  if (const char* words = shown ? utf8OrNull(shown.get()) : nullptr) {
    text += ": ";
    for (const char* at = words; *at != 0; ++at) text += *at == '\n' ? ' ' : *at;
  }
  return text;
}

// A source as a number that is the same in every process: Python's own hash of a string is not.
class SourceDigests {
 public:
  uint64_t of(const Source* source) {
    needStack();
    if (source == nullptr) return 0;
    auto [found, added] = known_.try_emplace(source, 0);
    if (!added) return found->second;
    dist::Digest digest;
    digest.add(static_cast<int64_t>(source->kind))
        .add(source->index)
        .add(static_cast<int64_t>(of(source->base)));
    if (const auto text = utf8View(source->key.get())) digest.add(*text);
    return known_[source] = digest.value();
  }

 private:
  std::unordered_map<const Source*, uint64_t> known_;
};

uint64_t guardsDigest(const guards::GuardSet& guards) {
  SourceDigests sources;
  dist::Digest digest;
  for (const guards::Guard& guard : guards.all()) {
    digest.add(static_cast<int64_t>(guard.kind))
        .add(static_cast<int64_t>(sources.of(guard.source)))
        .add(static_cast<int64_t>(sources.of(guard.other)));
  }
  return digest.value();
}

// The sizes and ints that a capture read and that could be dynamic, with where they are remembered.
struct Reads {
  struct Read {
    const Source* source;
    DynamicHistory::Seen* seen;
    bool tuple;
  };
  std::vector<Item> items;
  std::vector<Read> reads;
};

Reads readsOf(const Captured& captured, DynamicHistory& history, PyCodeObject* code) {
  Reads found;
  std::unordered_set<const Source*> known;
  for (const guards::Guard& guard : captured.guards->all()) {
    using guards::GuardKind;
    const bool is_int = (guard.kind == GuardKind::kEquals && guard.expected &&
                         PyLong_CheckExact(guard.expected.get())) ||
                        (guard.kind == GuardKind::kType &&
                         guard.expected.get() == reinterpret_cast<PyObject*>(&PyLong_Type));
    const bool is_tuple = guard.kind == GuardKind::kEquals && guard.expected &&
                          PyTuple_CheckExact(guard.expected.get());
    if (guard.source == nullptr || !(guard.kind == GuardKind::kTensor || is_int || is_tuple))
      continue;
    DynamicHistory::Seen* seen = history.find(known::sourceKey(*guard.source));
    if (seen == nullptr || !known.insert(guard.source).second) continue;
    Item item;
    item.source = sources::print(*guard.source, code);
    if (guard.kind == GuardKind::kTensor) {
      for (size_t i = 0; i < seen->sizes.size() && i < seen->dynamic.size(); ++i) {
        const bool open =
            seen->dynamic[i] || (i < guard.tensor->sizes.size() && guard.tensor->sizes[i] == -1);
        item.values.push_back(open ? dist::kDynamic : seen->sizes[i]);
      }
    } else if (seen->has_number) {
      if (is_int) item.values.push_back(seen->number_changed ? dist::kDynamic : seen->number);
      if (is_tuple && !seen->number_changed) item.values = seen->sizes;
    }
    if (item.values.empty()) continue;
    found.items.push_back(std::move(item));
    found.reads.push_back({guard.source, seen, is_tuple});
  }
  return found;
}

void makeDynamic(const Reads& reads, const std::vector<dist::Change>& changes, Captured& captured,
                 DynamicHistory& history) {
  for (const dist::Change& change : changes) {
    for (size_t i = 0; i < reads.items.size(); ++i) {
      if (reads.items[i].source != change.source || change.position >= reads.items[i].values.size())
        continue;
      DynamicHistory::Seen& seen = *reads.reads[i].seen;
      if (reads.reads[i].tuple) {
        const int64_t value = seen.sizes[change.position];
        seen.number_changed = true;
        DynamicHistory::Seen& item = history.at(known::sourceKey(
            *captured.sources->child(SourceKind::kTupleItem, reads.reads[i].source, nullptr,
                                     static_cast<int64_t>(change.position))));
        item.has_number = item.number_changed = true;
        item.number = value;
      } else if (seen.has_number) {
        seen.number_changed = true;
      } else {
        seen.dynamic[change.position] = true;
      }
      break;
    }
  }
}

std::string exitText(const breaks::Plan& plan) {
  if (plan.exit == breaks::ExitKind::kReturn) return "returns";
  std::string place = plan.place;
  const size_t line = place.rfind(':');
  if (const size_t slash = place.rfind('/', line); slash != std::string::npos)
    place = place.substr(slash + 1);
  return "breaks at " + place + ": " + breaks::reasonSentence(plan.reason);
}

Record recordOf(const Captured& captured, StatorFrame* frame) {
  Record record;
  record.site = siteName(frame);
  record.exit = exitText(captured.plan);
  record.calls = static_cast<int64_t>(captured.graph->callCount());
  record.outcome = record.calls > 0 ? dist::Outcome::kGraph : dist::Outcome::kNoGraph;
  record.structure = dist::digestOf(captured.graph->structure());
  record.guards = guardsDigest(*captured.guards);
  return record;
}

Record failedRecord(StatorFrame* frame, Topic topic, std::string why) {
  Record record;
  record.site = siteName(frame);
  record.topic = topic;
  record.outcome = dist::Outcome::kFailed;
  record.exit = std::move(why);
  return record;
}

// What to do about ranks that run different programs: true: end the call eagerly. Otherwise throws PythonError.
bool goOnEagerly(Cache& cache, StatorFrame* frame, Topic topic, const Decision& decision) {
  HookDisabledScope disabled;
  const bool eagerly = configValues().eager_on_divergence;
  callRanks("diverged", "(ssii)", siteName(frame).c_str(), decision.message.c_str(),
            static_cast<int>(topic == Topic::kBackend), static_cast<int>(eagerly));
  endCallEagerly(cache);
  return true;
}

// A trace that failed on this rank: the others hear of it, and the error goes on its way.
template <class Failure>
void tellFailure(StatorFrame* frame, const TraceOptions& options, const Failure& why) {
  agree(failedRecord(frame, Topic::kCapture, why()),
        options.dynamic != known::DynamicMode::kStatic);
}

}  // namespace

std::string siteName(StatorFrame* frame) {
  PyCodeObject* code = stator_frame_code(frame);
  std::string file = utf8(code->co_filename);
  if (const size_t slash = file.rfind('/'); slash != std::string::npos)
    file = file.substr(slash + 1);
  return file + ":" + std::to_string(code->co_firstlineno) + " in " + utf8(code->co_qualname) +
         " at " + std::to_string(stator_frame_offset(frame));
}

bool ranksAgree() {
  if (!configValues().enable_compiler_collectives) return false;
  HookDisabledScope disabled;
  return PyObject_IsTrue(callRanks("several", "()").get()) == 1;
}

std::optional<Captured> traceTogether(Cache& cache, StatorFrame* frame, const TraceOptions& options,
                                      const Trace& trace) {
  constexpr int kMostRounds = 8;
  const bool may_be_dynamic =
      options.dynamic != known::DynamicMode::kStatic && options.history != nullptr;
  for (int round = 0;; ++round) {
    std::optional<Captured> captured;
    try {
      captured = trace(options);
    } catch (const PythonError&) {
      const std::string why = errorText();
      ErrorAside first;
      try {
        tellFailure(frame, options, [&] { return std::string(why); });
      } catch (const PythonError&) {
        PyErr_Clear();  // the first error is the one to see
      }
      first.restore();
      throw;
    } catch (const std::exception& error) {
      tellFailure(frame, options, [&] { return std::string(error.what()); });
      throw;
    }
    Record record = recordOf(*captured, frame);
    Reads reads;
    if (may_be_dynamic) reads = readsOf(*captured, *options.history, stator_frame_code(frame));
    record.items = reads.items;
    tellLog(record);
    Decision decision = agree(std::move(record), may_be_dynamic && round < kMostRounds);
    if (decision.verdict == Verdict::kDiverged) {
      goOnEagerly(cache, frame, Topic::kCapture, decision);
      return std::nullopt;
    }
    if (decision.verdict == Verdict::kAgreed) {
      if (!decision.same_guards) callRanks("guards_differ", "(s)", siteName(frame).c_str());
      return captured;
    }
    makeDynamic(reads, decision.changes, *captured, *options.history);
    statistics().restarts++;
  }
}

bool backendsDone(Cache& cache, StatorFrame* frame, bool failed) {
  std::optional<ErrorAside> first;
  Record record;
  record.topic = Topic::kBackend;
  record.outcome = dist::Outcome::kGraph;
  record.site = siteName(frame);
  if (failed) {
    record = failedRecord(frame, Topic::kBackend, errorText());
    first.emplace();
  }
  Decision decision;
  try {
    decision = agree(std::move(record), false);
  } catch (const PythonError&) {
    if (!failed) throw;
    PyErr_Clear();
  }
  if (failed) {
    first->restore();
    return false;
  }
  return decision.verdict == Verdict::kAgreed ||
         !goOnEagerly(cache, frame, Topic::kBackend, decision);
}

bool hitOnAll(Cache& cache, StatorFrame* frame, bool hit) {
  HookDisabledScope disabled;
  if (PyObject_IsTrue(callRanks("several", "()").get()) != 1) return hit;
  Record record;
  record.topic = Topic::kGuards;
  record.outcome = hit ? dist::Outcome::kHit : dist::Outcome::kMiss;
  record.site = siteName(frame);
  Decision decision = agree(std::move(record), false);
  if (decision.verdict == Verdict::kDiverged) goOnEagerly(cache, frame, Topic::kGuards, decision);
  return decision.verdict == Verdict::kAgreed;
}

void endCallEagerly(Cache& cache) {
  HookState& state = hookState();
  cache.divergences[state.root]++;
  if (state.eager_call) return;
  state.eager_call = true;
  state.disabled++;
}

bool callEndsEagerly() { return hookState().eager_call; }

bool gaveUpAgreeing(const Cache& cache) {
  if (cache.divergences.empty()) return false;
  constexpr int64_t kMostDivergences = 8;
  auto found = cache.divergences.find(hookState().root);
  return found != cache.divergences.end() && found->second >= kMostDivergences;
}

namespace {

PyObject* mergeSummaries(PyObject*, PyObject* args) {
  return guarded([&] {
    const char *one = nullptr, *other = nullptr;
    Py_ssize_t one_size = 0, other_size = 0;
    if (!PyArg_ParseTuple(args, "y#y#", &one, &one_size, &other, &other_size)) throw PythonError();
    std::string made = dist::mergedBytes({one, static_cast<size_t>(one_size)},
                                         {other, static_cast<size_t>(other_size)});
    return stealRef(PyBytes_FromStringAndSize(made.data(), static_cast<Py_ssize_t>(made.size())));
  });
}

PyObject* rehearse(PyObject*, PyObject* args) {
  const char* name = nullptr;
  long long ranks = 0, inputs = 0;
  if (!PyArg_ParseTuple(args, "sLL", &name, &ranks, &inputs)) return nullptr;
  try {
    dist::Simulated done = dist::rehearse(name, ranks, inputs);
    const dist::Traffic& traffic = done.traffic;
    const char* const verdicts[] = {"agreed", "dynamic", "miss", "diverged"};
    return Py_BuildValue(
        "{s:s,s:s,s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:d,s:d}", "verdict",
        verdicts[static_cast<size_t>(done.decision.verdict)], "message",
        done.decision.message.c_str(), "captures", static_cast<long long>(done.captures),
        "reductions", static_cast<long long>(traffic.reductions), "merges",
        static_cast<long long>(traffic.merges), "messages",
        static_cast<long long>(traffic.messages), "bytes", static_cast<long long>(traffic.bytes),
        "longest_path", static_cast<long long>(traffic.longest_path), "memory",
        static_cast<long long>(traffic.most_memory), "seconds", traffic.seconds, "slowest_rank",
        traffic.slowest_rank);
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_ValueError, error.what());
    return nullptr;
  }
}

}  // namespace

PyMethodDef ranks_methods[] = {
    {"merge_summaries", mergeSummaries, METH_VARARGS,
     "merge_summaries(one, other): the bytes of two summaries of ranks as one's"},
    {"rehearse_ranks", rehearse, METH_VARARGS,
     "rehearse_ranks(case, ranks, inputs): the agreement of so many simulated ranks, with its "
     "traffic."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace stator::runtime
