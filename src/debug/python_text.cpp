#include "debug/python_text.h"

#include "base/text.h"
#include "graph/fx_names.h"

#include <cmath>
#include <unordered_map>

namespace stator::debug {

namespace {

using graph::Node;
using graph::Op;

constexpr size_t kFactsColumn = 60;

std::string text(PyObject* value) {
  if (utf8OrError(value) == nullptr) throw PythonError();
  return std::string(*utf8View(value));
}

class Writer {
 public:
  Writer(const Specimen& specimen, PyObject* spell) : specimen_(specimen), spell_(spell) {}

  PythonText write() {
    PythonText made;
    for (const Node* node : specimen_.graph->inputs()) made.parameters.push_back(node->name_hint);
    std::string last_line;
    for (int index : specimen_.calls()) {
      const ValueFacts& facts = specimen_.facts[static_cast<size_t>(index)];
      if (!facts.line.empty() && facts.line != last_line) {
        made.body += "    # " + facts.line + "\n";
        last_line = facts.line;
      }
      std::string line = "    " + specimen_.name(index) + " = " +
                         call(specimen_.graph->nodes()[static_cast<size_t>(index)]);
      if (!facts.text.empty()) {
        line.resize(std::max(line.size() + 2, kFactsColumn), ' ');
        line += "# " + facts.text;
      }
      made.body += line + "\n";
    }
    if (specimen_.graph->result) {
      made.body += "    return " + value(specimen_.graph->result.get()) + "\n";
      return made;
    }
    made.body += "    return (";
    for (const Node* node : specimen_.graph->outputs()) made.body += node->name_hint + ", ";
    if (specimen_.graph->outputs().size() > 1) made.body.resize(made.body.size() - 2);
    if (specimen_.graph->outputs().size() == 1) made.body.pop_back();
    made.body += ")\n";
    return made;
  }

  std::string value(PyObject* object) {
    if (graph::isStandIn(object)) return specimen_.name(graph::asStandIn(object)->node->index);
    if (PyTuple_CheckExact(object))
      return "(" + items(object) + (PyTuple_GET_SIZE(object) == 1 ? ",)" : ")");
    if (PyList_Check(object)) return "[" + items(object) + "]";
    if (PyDict_CheckExact(object)) {
      std::string made;
      PyObject* key = nullptr;
      PyObject* item = nullptr;
      for (Py_ssize_t at = 0; PyDict_Next(object, &at, &key, &item);)
        made += (made.empty() ? "" : ", ") + value(key) + ": " + value(item);
      return "{" + made + "}";
    }
    if (PySlice_Check(object)) {
      const auto* slice = reinterpret_cast<PySliceObject*>(object);
      return "slice(" + value(slice->start) + ", " + value(slice->stop) + ", " +
             value(slice->step) + ")";
    }
    bool finite = PyFloat_CheckExact(object) && std::isfinite(PyFloat_AS_DOUBLE(object));
    if (finite || object == Py_None || object == Py_Ellipsis || PyBool_Check(object) ||
        PyLong_CheckExact(object) || PyUnicode_CheckExact(object) || PyBytes_CheckExact(object)) {
      if (object == Py_Ellipsis) return "...";
      return text(orThrow(PyObject_Repr(object)).get());
    }
    return spelled(object);
  }

 private:
  std::string call(const Node& node) {
    PyObject* args = node.args.get();
    if (node.op == Op::kCallMethod) {
      std::string made = value(PyTuple_GET_ITEM(args, 0)) + "." + text(node.target.get());
      return made + "(" + arguments(args, 1, node.kwargs.get()) + ")";
    }
    const std::string& how = spelled(node.target.get());
    if (how.find("{}") == std::string::npos)
      return how + "(" + arguments(args, 0, node.kwargs.get()) + ")";
    std::string made;
    Py_ssize_t next = 0;
    for (size_t i = 0; i < how.size(); ++i) {
      if (how.compare(i, 2, "{}") != 0) {
        made += how[i];
        continue;
      }
      ++i;
      STATOR_CHECK(next < PyTuple_GET_SIZE(args));
      made += operand(PyTuple_GET_ITEM(args, next++));
    }
    return made;
  }

  // Negative numbers bind less than the operators around them.
  std::string operand(PyObject* object) {
    std::string made = value(object);
    return made.starts_with('-') ? "(" + made + ")" : made;
  }

  std::string arguments(PyObject* args, Py_ssize_t first, PyObject* kwargs) {
    std::string made;
    for (Py_ssize_t i = first; i < PyTuple_GET_SIZE(args); ++i) {
      if (!made.empty()) made += ", ";
      made += value(PyTuple_GET_ITEM(args, i));
    }
    PyObject* key = nullptr;
    PyObject* item = nullptr;
    for (Py_ssize_t at = 0; kwargs != nullptr && PyDict_Next(kwargs, &at, &key, &item);) {
      if (!made.empty()) made += ", ";
      made += graph::isKeywordName(key) ? text(key) + "=" + value(item)
                                        : "**{" + value(key) + ": " + value(item) + "}";
    }
    return made;
  }

  std::string items(PyObject* sequence) {
    std::string made;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(sequence); ++i) {
      if (i > 0) made += ", ";
      made += value(PySequence_Fast_GET_ITEM(sequence, i));
    }
    return made;
  }

  const std::string& spelled(PyObject* object) {
    auto found = spellings_.find(object);
    if (found != spellings_.end()) return found->second;
    Ref<> answer = orThrow(PyObject_CallOneArg(spell_, object));
    return spellings_.emplace(object, text(answer.get())).first->second;
  }

  const Specimen& specimen_;
  PyObject* spell_;
  std::unordered_map<PyObject*, std::string> spellings_;
};

}  // namespace

PythonText pythonText(const Specimen& specimen, PyObject* spell) {
  return Writer(specimen, spell).write();
}

std::string pythonLiteral(PyObject* value, PyObject* spell) {
  return Writer(Specimen(), spell).value(value);
}

}  // namespace stator::debug
