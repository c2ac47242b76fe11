#include "graph/fx_source.h"

#include "base/boundary.h"
#include "base/stack_room.h"
#include "base/text.h"
#include "graph/fx_names.h"

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace stator::graph {

namespace {

// The graph has something that only torch.fx's generator knows.
struct Unusual : std::exception {};

// Names of the members of torch.fx.Node.
struct Members {
  PyObject *op, *name, *target, *args, *kwargs, *users, *type, *inputs, *next, *meta, *is_wrapped;
  static const Members& get() {
    static const Members members = {
        PyUnicode_InternFromString("op"),        PyUnicode_InternFromString("name"),
        PyUnicode_InternFromString("target"),    PyUnicode_InternFromString("_args"),
        PyUnicode_InternFromString("_kwargs"),   PyUnicode_InternFromString("users"),
        PyUnicode_InternFromString("type"),      PyUnicode_InternFromString("_input_nodes"),
        PyUnicode_InternFromString("_next"),     PyUnicode_InternFromString("meta"),
        PyUnicode_InternFromString("is_wrapped")};
    return members;
  }
};

std::string textOf(PyObject* text) {
  const auto characters = utf8View(text);
  if (!characters) throw Unusual();
  return std::string(*characters);
}

struct FxNode {
  Ref<> node;
  std::string op;
  std::string local;         // its name in the source, once given
  std::vector<size_t> dead;  // positions of the values whose last use this is
};

// How a call of a target is written.
struct Spelling {
  enum class Kind : uint8_t { kInfix, kInPlace, kCall } kind;
  std::string text;  // a template with {} for the arguments, or what is called
};

class Writer {
 public:
  Writer(PyObject* graph, PyObject* helpers) : members_(Members::get()), helpers_(helpers) {
    Ref<> start = orThrow(PyObject_CallMethod(helpers, "source_start", "O", graph));
    if (start.get() == Py_None) throw Unusual();
    // (Node, names that a value may not have, globals that every graph has)
    node_type_ = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(start.get(), 0));
    reserved_ = Names::keysOf(PyTuple_GET_ITEM(start.get(), 1));
    names_ = std::make_unique<Names>(reserved_);
    globals_ = newRef(PyTuple_GET_ITEM(start.get(), 2));
    PyObject* key = nullptr;
    PyObject* value = nullptr;
    for (Py_ssize_t at = 0; PyDict_Next(globals_.get(), &at, &key, &value);)
      names_->take(textOf(key));
    collect(graph);
    findLastUses();
  }

  Ref<> write() {
    for (size_t i = 0; i < nodes_.size(); ++i) {
      std::string text = emit(nodes_[i]) + ending(i);
      // One line for each newline; what follows the last one belongs to the next node.
      size_t from = 0;
      for (size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', from)) {
        line(text.substr(from, end - from), i);
        from = end + 1;
      }
      if (from != text.size()) throw Unusual();
    }
    line("", nodes_.size() - 1);
    std::string source = "\n\n\ndef forward(self";
    for (const std::string& parameter : parameters_) source.append(", ").append(parameter);
    source.append("):\n").append(body_);
    Ref<> text = orThrow(
        PyUnicode_DecodeUTF8(source.data(), static_cast<Py_ssize_t>(source.size()), nullptr));
    return orThrow(PyTuple_Pack(3, text.get(), globals_.get(), lines_.get()));
  }

 private:
  // Past Node's Python-level attribute functions.
  static Ref<> read(PyObject* node, PyObject* name) {
    return orThrow(PyObject_GenericGetAttr(node, name));
  }

  void collect(PyObject* graph) {
    Ref<> root = orThrow(PyObject_GetAttrString(graph, "_root"));
    for (Ref<> node = read(root.get(), members_.next); node.get() != root.get();
         node = read(node.get(), members_.next)) {
      position_[node.get()] = nodes_.size();
      nodes_.push_back({node, textOf(read(node.get(), members_.op).get()), "", {}});
    }
    if (nodes_.empty() || nodes_.back().op != "output") throw Unusual();
  }

  void findLastUses() {
    std::vector<bool> seen(nodes_.size(), false);
    for (size_t i = nodes_.size(); i-- > 0;) {
      Ref<> inputs = read(nodes_[i].node.get(), members_.inputs);
      PyObject* used = nullptr;
      PyObject* none = nullptr;
      for (Py_ssize_t at = 0; PyDict_Next(inputs.get(), &at, &used, &none);) {
        auto found = position_.find(used);
        if (found == position_.end()) throw Unusual();
        if (seen[found->second]) continue;
        seen[found->second] = true;
        nodes_[i].dead.push_back(found->second);
      }
    }
  }

  const std::string& local(FxNode& node) {
    if (node.local.empty())
      node.local = names_->unique(textOf(read(node.node.get(), members_.name).get()));
    return node.local;
  }

  std::string annotation(const FxNode& node) {
    Ref<> type = read(node.node.get(), members_.type);
    if (type.get() == Py_None) return "";
    auto& known = types_[type.get()];
    if (known.empty()) {
      Ref<> text = orThrow(PyObject_CallMethod(helpers_, "source_type", "O", type.get()));
      known.append(" : ").append(textOf(text.get()));
    }
    return known;
  }

  std::string value(PyObject* object) {
    needStack();
    if (PyObject_TypeCheck(object, node_type_)) {
      auto found = position_.find(object);
      if (found == position_.end()) throw Unusual();
      return local(nodes_[found->second]);
    }
    if (PyTuple_CheckExact(object))
      return std::string("(") + items(object) + (PyTuple_GET_SIZE(object) == 1 ? ",)" : ")");
    if (PyList_Check(object)) return std::string("[") + items(object) + "]";
    if (PySlice_Check(object)) {
      const auto* slice = reinterpret_cast<PySliceObject*>(object);
      return "slice(" + value(slice->start) + ", " + value(slice->stop) + ", " +
             value(slice->step) + ")";
    }
    std::string_view type = Py_TYPE(object)->tp_name;
    bool plain = object == Py_None || object == Py_Ellipsis || PyBool_Check(object) ||
                 PyLong_CheckExact(object) || PyFloat_CheckExact(object) ||
                 PyComplex_CheckExact(object) || PyUnicode_CheckExact(object) ||
                 PyBytes_CheckExact(object) || type == "torch.dtype" || type == "torch.device" ||
                 type == "torch.layout" || type == "torch.memory_format";
    if (!plain) throw Unusual();
    return textOf(orThrow(PyObject_Repr(object)).get());
  }

  std::string items(PyObject* sequence) {
    std::string text;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(sequence); ++i) {
      if (i > 0) text += ", ";
      text += value(PySequence_Fast_GET_ITEM(sequence, i));
    }
    return text;
  }

  std::string arguments(PyObject* args, Py_ssize_t first, PyObject* kwargs) {
    std::string text;
    for (Py_ssize_t i = first; i < PyTuple_GET_SIZE(args); ++i) {
      if (!text.empty()) text += ", ";
      text += value(PyTuple_GET_ITEM(args, i));
    }
    PyObject* key = nullptr;
    PyObject* item = nullptr;
    for (Py_ssize_t at = 0; PyDict_Next(kwargs, &at, &key, &item);) {
      if (!text.empty()) text += ", ";
      text += isKeywordName(key) ? textOf(key) + " = " + value(item)
                                 : "**{" + value(key) + ": " + value(item) + "}";
    }
    return text;
  }

  std::string filled(const std::string& form, PyObject* args) {
    needStack();
    std::string text;
    Py_ssize_t next = 0;
    for (size_t i = 0; i < form.size(); ++i) {
      if (form[i] != '{') {
        text += form[i];
        continue;
      }
      ++i;  // past the closing brace
      if (next >= PyTuple_GET_SIZE(args)) throw Unusual();
      text += value(PyTuple_GET_ITEM(args, next++));
    }
    return text;
  }

  const Spelling& spelling(PyObject* target) {
    auto found = spellings_.find(target);
    if (found != spellings_.end()) return found->second;
    // (kind, text, whether the target becomes a global of that name)
    Ref<> answer = orThrow(PyObject_CallMethod(helpers_, "source_target", "O", target));
    if (answer.get() == Py_None) throw Unusual();
    Spelling made = {static_cast<Spelling::Kind>(PyLong_AsLong(PyTuple_GET_ITEM(answer.get(), 0))),
                     textOf(PyTuple_GET_ITEM(answer.get(), 1))};
    if (PyTuple_GET_ITEM(answer.get(), 2) == Py_True) {
      made.text = names_->unique(made.text);
      if (PyDict_SetItemString(globals_.get(), made.text.c_str(), target) < 0) throw PythonError();
    }
    return spellings_.emplace(target, std::move(made)).first->second;
  }

  std::string emit(FxNode& node) {
    Ref<> target = read(node.node.get(), members_.target);
    Ref<> args = read(node.node.get(), members_.args);
    Ref<> kwargs = read(node.node.get(), members_.kwargs);
    std::string type = annotation(node);
    if (node.op == "placeholder") {
      std::string raw = textOf(target.get());
      if (PyTuple_GET_SIZE(args.get()) > 0 || raw.find('*') != std::string::npos ||
          (parameters_.empty() && raw == "self")) {
        throw Unusual();
      }
      parameters_.push_back(raw + type);
      return raw == local(node) ? "" : local(node) + " = " + raw + "\n";
    }
    if (node.op == "call_method") {
      if (PyUnicode_IsIdentifier(target.get()) != 1 || PyTuple_GET_SIZE(args.get()) == 0)
        throw Unusual();
      std::string text = local(node) + type + " = ";
      text += value(PyTuple_GET_ITEM(args.get(), 0)) + "." + textOf(target.get());
      return text + "(" + arguments(args.get(), 1, kwargs.get()) + ")";
    }
    if (node.op == "call_function") return call(node, target.get(), args.get(), kwargs.get(), type);
    if (node.op == "output" && type.empty())
      return "return " + value(PyTuple_GET_ITEM(args.get(), 0));
    throw Unusual();
  }

  std::string call(FxNode& node, PyObject* target, PyObject* args, PyObject* kwargs,
                   const std::string& type) {
    Ref<> meta = read(node.node.get(), members_.meta);
    if (PyDict_Check(meta.get()) &&
        PyDict_GetItemWithError(meta.get(), members_.is_wrapped) != nullptr)
      throw Unusual();
    const Spelling& how = spelling(target);
    if (how.kind == Spelling::Kind::kInPlace) {
      std::string text = filled(how.text, args) + ";  ";
      return text + local(node) + type + " = " + value(PyTuple_GET_ITEM(args, 0));
    }
    std::string text = local(node) + type + " = ";
    if (how.kind == Spelling::Kind::kInfix) return text + filled(how.text, args);
    return text + how.text + "(" + arguments(args, 0, kwargs) + ")";
  }

  // What ends a node's line: values that are not needed any more are let go.
  std::string ending(size_t i) {
    FxNode& node = nodes_[i];
    if (node.op == "placeholder") return "";
    if (node.op == "output") return "\n";
    std::string text;
    for (size_t dead : node.dead) text += local(nodes_[dead]) + " = ";
    if (PyDict_GET_SIZE(read(node.node.get(), members_.users).get()) == 0)
      text += local(node) + " = ";
    return text.empty() ? "\n" : std::string(";  ").append(text).append("None\n");
  }

  void line(const std::string& text, size_t node) {
    if (!body_.empty()) body_ += '\n';
    body_.append("    ").append(text);
    if (!lines_) lines_ = orThrow(PyDict_New());
    Ref<> number = orThrow(PyLong_FromLongLong(++line_count_));
    Ref<> index = orThrow(PyLong_FromSize_t(node));
    if (PyDict_SetItem(lines_.get(), number.get(), index.get()) < 0) throw PythonError();
  }

  const Members& members_;
  PyObject* helpers_;
  PyTypeObject* node_type_ = nullptr;
  Names::Reserved reserved_;
  std::unique_ptr<Names> names_;
  Ref<> globals_;
  std::vector<FxNode> nodes_;
  std::unordered_map<PyObject*, size_t> position_;
  std::unordered_map<PyObject*, Spelling> spellings_;
  std::unordered_map<PyObject*, std::string> types_;
  std::vector<std::string> parameters_;
  std::string body_;
  Ref<> lines_;
  long long line_count_ = 0;
};

}  // namespace

Ref<> fxSource(PyObject* graph, PyObject* helpers) {
  try {
    return Writer(graph, helpers).write();
  } catch (const Unusual&) {
    return newRef(Py_None);
  } catch (const PythonError&) {
    return nullptr;
  }
}

}  // namespace stator::graph
