#include "runtime/learned.h"

#include "base/boundary.h"
#include "base/imports.h"
#include "base/parts.h"
#include "base/stack_room.h"
#include "base/text.h"
#include "disk/artifact_file.h"
#include "disk/digest.h"
#include "python/frame.h"
#include "runtime/settings.h"

#include <charconv>
#include <optional>

namespace stator::runtime {

namespace {

void addText(disk::Digest& digest, std::string_view text) {
  const uint64_t size = text.size();
  digest.add({reinterpret_cast<const char*>(&size), sizeof size});
  digest.add(text);
}

void addCode(disk::Digest& digest, PyCodeObject* code);

void addConstant(disk::Digest& digest, PyObject* value) {
  needStack();
  if (PyCode_Check(value)) {
    addCode(digest, reinterpret_cast<PyCodeObject*>(value));
    return;
  }
  addText(digest, Py_TYPE(value)->tp_name);
  if (PyTuple_CheckExact(value)) {
    addText(digest, std::to_string(PyTuple_GET_SIZE(value)));
    everyItem(value, [&](PyObject* item) {
      addConstant(digest, item);
      return true;
    });
    return;
  }
  // The order of a set is another in every process; its code is as good a name without.
  if (PyAnySet_Check(value)) return;
  Ref<> shown = orThrow(PyObject_Repr(value));
  if (const auto text = utf8View(shown.get())) addText(digest, *text);
}

void addCode(disk::Digest& digest, PyCodeObject* code) {
  Ref<> bytes = orThrow(stator_code_bytes(code));
  addText(digest,
          {PyBytes_AS_STRING(bytes.get()), static_cast<size_t>(PyBytes_GET_SIZE(bytes.get()))});
  addConstant(digest, code->co_qualname);
  addConstant(digest, code->co_names);
  addConstant(digest, orThrow(PyCode_GetVarnames(code)).get());
  addConstant(digest, orThrow(PyCode_GetFreevars(code)).get());
  addConstant(digest, code->co_consts);
  addText(digest, std::to_string(code->co_flags) + " " + std::to_string(code->co_argcount) + " " +
                      std::to_string(code->co_kwonlyargcount));
}

template <class Number>
bool takeNumber(std::string_view& line, Number& number, int base) {
  auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), number, base);
  if (error != std::errc() || end == line.data() + line.size() || *end != ' ') return false;
  line.remove_prefix(static_cast<size_t>(end - line.data()) + 1);
  return true;
}

// For those who want to know which files this process has to do with (stator/_disk.py).
void noteUsed(const Learned& learned) {
  Ref<> module = orThrow(importModule("stator._disk"));
  Ref<> used = orThrow(PyObject_GetAttrString(module.get(), "used"));
  Ref<> folder = orThrow(PyUnicode_FromString(learned.folder.c_str()));
  if (PyDict_SetItemString(used.get(), learned.key.c_str(), folder.get()) != 0) throw PythonError();
}

Learned::Items readFile(const Learned& learned) {
  if (learned.folder.empty()) return {};
  disk::ReadResult found = disk::readArtifact(learned.folder, learned.key);
  // Whatever is wrong with the file: it is written anew when there is something to keep.
  if (!found.parts || found.parts->empty()) return {};
  noteUsed(learned);
  return Learned::parse(found.parts->front());
}

// Where the backend has things learned kept, and what is known of the code there.
std::shared_ptr<Learned> find(const Cache& cache, PyCodeObject* code) {
  auto made = std::make_shared<Learned>();
  Ref<> place = stealRef(PyObject_CallMethod(cache.backend.get(), "learned_place", nullptr));
  if (!place) PyErr_Clear();  // a callable as it is
  if (!place || !PyTuple_Check(place.get())) return made;
  const char* folder = nullptr;
  const char* job = nullptr;
  PyObject* given = nullptr;
  if (!PyArg_ParseTuple(place.get(), "zsO", &folder, &job, &given)) throw PythonError();
  const std::string content = contentOf(code);
  if (given != Py_None) {
    PyObject* text = PyDict_GetItemString(given, content.c_str());
    if (text != nullptr && PyUnicode_Check(text)) made->items = Learned::parse(utf8(text));
  }
  if (folder == nullptr) return made;
  disk::Digest digest;
  addText(digest, "learned");
  addText(digest, std::to_string(disk::kFormat));
  addText(digest, job);
  addText(digest, content);
  made->folder = folder;
  made->key = disk::hex(digest.finish());
  Learned::merge(made->items, readFile(*made));
  return made;
}

Learned& learnedOf(Cache& cache, PyCodeObject* code) {
  std::shared_ptr<Learned> known = cache.entriesOf(code).learned;
  if (!known) {
    known = find(cache, code);
    cache.entriesOf(code).learned = known;
  }
  return *known;
}

// What is dynamic of a source, if anything is.
std::optional<std::string> dimsOf(const known::DynamicHistory::Seen& seen) {
  if (seen.number_changed) return "n";
  std::string dims;
  bool any = false;
  for (bool dynamic : seen.dynamic) {
    dims += dynamic ? '1' : '0';
    any |= dynamic;
  }
  return any ? std::optional(dims) : std::nullopt;
}

}  // namespace

bool isAutomatic(const Cache& cache) {
  return cache.dynamic < 0 && configValues().automatic_dynamic_shapes;
}

Learned::Items Learned::parse(std::string_view text) {
  Items items;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    int offset = 0;
    uint64_t source = 0;
    if (!takeNumber(line, offset, 10) || !takeNumber(line, source, 16)) continue;
    const size_t space = std::min(line.find(' '), line.size());
    const std::string_view dims = line.substr(0, space);
    constexpr size_t kMostDims = 64;
    if (dims != "n" && (dims.empty() || dims.size() > kMostDims ||
                        dims.find_first_not_of("01") != std::string_view::npos))
      continue;
    items[{offset, source}] = {std::string(dims),
                               std::string(line.substr(std::min(space + 1, line.size())))};
  }
  return items;
}

std::string Learned::text(const Items& items) {
  std::string out;
  for (const auto& [place, item] : items) {
    char source[17];
    auto [end, error] = std::to_chars(source, source + sizeof source, place.second, 16);
    out += std::to_string(place.first) + " " + std::string(source, end) + " " + item.dims + " " +
           item.name + "\n";
  }
  return out;
}

void Learned::merge(Items& into, const Items& from) {
  for (const auto& [place, item] : from) {
    auto [at, is_new] = into.try_emplace(place, item);
    if (is_new || at->second.dims.size() != item.dims.size() || item.dims == "n") continue;
    for (size_t i = 0; i < item.dims.size(); ++i) {
      if (item.dims[i] == '1') at->second.dims[i] = '1';
    }
  }
}

std::string contentOf(PyCodeObject* code) {
  disk::Digest digest;
  addCode(digest, code);
  return disk::hex(digest.finish());
}

void recall(Cache& cache, PyCodeObject* code, int offset) {
  if (!isAutomatic(cache)) return;
  const Learned& learned = learnedOf(cache, code);
  known::DynamicHistory& history = cache.site(code, offset).history;
  auto at = learned.items.lower_bound({offset, 0});
  for (; at != learned.items.end() && at->first.first == offset; ++at) {
    const std::string& dims = at->second.dims;
    known::DynamicHistory::Seen& seen = history.at(at->first.second);
    if (dims == "n") {
      seen.number_changed = true;
      continue;
    }
    seen.sizes.assign(dims.size(), -1);  // of no call yet
    seen.dynamic.clear();
    for (char dim : dims) seen.dynamic.push_back(dim == '1');
  }
}

void remember(Cache& cache, PyCodeObject* code, int offset, const guards::Relations& relations) {
  if (relations.empty() || !isAutomatic(cache)) return;
  known::DynamicHistory& history = cache.site(code, offset).history;
  Learned::Items found;
  auto look = [&](const sources::Source* source) {
    if (source == nullptr) return;
    const uint64_t key = known::sourceKey(*source);
    const known::DynamicHistory::Seen* seen = history.find(key);
    if (seen == nullptr) return;
    if (std::optional<std::string> dims = dimsOf(*seen))
      found[{offset, key}] = {*dims, sources::print(*source, code)};
  };
  for (const sources::Source* symbol : relations.symbols) {
    look(symbol);
    if (symbol != nullptr) look(symbol->base);  // the tensor of a size, the tuple of an item
  }
  for (const guards::FloatRelation& relation : relations.floats)
    for (const guards::FloatTerm& term : relation.terms) look(term.source);
  Learned& learned = learnedOf(cache, code);
  Learned::Items all = learned.items;
  Learned::merge(all, found);
  if (all == learned.items) return;
  if (!learned.folder.empty()) {
    Learned::merge(all, readFile(learned));  // another process may have learned meanwhile
    if (disk::writeArtifact(learned.folder, learned.key, {Learned::text(all)}).empty())
      noteUsed(learned);
  }
  learned.items = std::move(all);
}

}  // namespace stator::runtime
