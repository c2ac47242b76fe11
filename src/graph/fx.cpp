// Nodes are made by torch._C._NodeBase directly: its init, `_update_args_kwargs` (which keeps users and inputs) and
// `_prepend` (which links and gives the sort key). That is what torch.fx.Graph.create_node comes down to, without its
// checks and look-ups; the tables that it keeps beside the list (names, look-up by target, length) are filled here in
// the same form.
#include "graph/fx.h"

#include "base/boundary.h"
#include "base/collector_pause.h"
#include "base/imports.h"
#include "base/stack_room.h"
#include "base/text.h"
#include "graph/fx_names.h"
#include "graph/fx_record.h"
#include "graph/graph_runner.h"
#include "graph/lazy_meta.h"
#include "python/types.h"

namespace stator::graph {

namespace {

Ref<> attribute(PyObject* object, const char* name) {
  return orThrow(PyObject_GetAttrString(object, name));
}

std::string text(PyObject* object) {
  const char* data = utf8OrError(object);
  if (data == nullptr) throw PythonError();
  return data;
}

// What is needed of torch.fx, looked up once for the process.
struct Fx {
  Ref<> node_type, graph_type, update, prepend, no_kwargs, helpers;
  Names::Reserved reserved;
  initproc node_init = nullptr;
  Ref<> placeholder, call_function, call_method, call_module, get_attr, output, meta, getitem,
      module_type;

  static const Fx& get() {
    static const Fx* fx = new Fx();
    return *fx;
  }

 private:
  Fx() {
    Ref<> node_module = orThrow(importModule("torch.fx.node"));
    Ref<> fx_graph = orThrow(importModule("torch.fx.graph"));
    Ref<> collections = orThrow(importModule("torch.fx.immutable_collections"));
    helpers = orThrow(importModule("stator._fx"));
    node_type = attribute(node_module.get(), "Node");
    Ref<> base = attribute(node_module.get(), "_NodeBase");
    node_init = reinterpret_cast<PyTypeObject*>(base.get())->tp_init;
    update = attribute(base.get(), "_update_args_kwargs");
    prepend = attribute(base.get(), "_prepend");
    graph_type = attribute(helpers.get(), "CapturedGraph");
    reserved = Names::keysOf(attribute(fx_graph.get(), "_illegal_names").get());
    no_kwargs = orThrow(PyObject_CallNoArgs(attribute(collections.get(), "immutable_dict").get()));
    placeholder = orThrow(PyUnicode_InternFromString("placeholder"));
    call_function = orThrow(PyUnicode_InternFromString("call_function"));
    call_method = orThrow(PyUnicode_InternFromString("call_method"));
    call_module = orThrow(PyUnicode_InternFromString("call_module"));
    get_attr = orThrow(PyUnicode_InternFromString("get_attr"));
    output = orThrow(PyUnicode_InternFromString("output"));
    Ref<> module_home = orThrow(importModule("torch.fx.graph_module"));
    module_type = attribute(module_home.get(), "GraphModule");
    meta = orThrow(PyUnicode_InternFromString("meta"));
  }
};

class Builder {
 public:
  // `code`: names the locals in the names of attributes, for graphs that have some.
  explicit Builder(PyObject* record, PyCodeObject* code = nullptr)
      : fx_(Fx::get()),
        ir_(*recordOf(record)->graph),
        code_(code),
        names_(fx_.reserved),
        record_(newRef(record)) {
    graph_ = orThrow(PyObject_CallNoArgs(fx_.graph_type.get()));
    root_ = attribute(graph_.get(), "_root");
    Ref<> space = attribute(graph_.get(), "_graph_namespace");
    name_of_ = attribute(space.get(), "_obj_to_name");
    used_names_ = attribute(space.get(), "_used_names");
    counts_ = attribute(space.get(), "_base_count");
    table_ = attribute(attribute(graph_.get(), "_find_nodes_lookup_table").get(), "table");
    made_.resize(ir_.nodes().size());
  }

  // The torch.fx.Graph.
  Ref<> build() {
    CollectorPause pause;
    // Inputs first, wherever the trace found them: a function's parameters come before its body.
    for (const Node* node : ir_.inputs()) addInput(*node);
    for (const Node& node : ir_.nodes()) {
      if (node.op == Op::kAttribute) {
        addAttribute(node);
      } else if (node.op != Op::kInput) {
        addCall(node);
      }
    }
    addOutput();
    finish();
    return graph_;
  }
  // Of the GraphModule, by name: parameters, buffers, modules and functions that the graph calls; None if there are
  // none.
  PyObject* attributes() const { return attributes_ ? attributes_.get() : Py_None; }

 private:
  void addInput(const Node& node) {
    const FxRecord& record = *recordOf(record_.get());
    const size_t position = inputs_++;
    const std::string& expression = record.expressions[position];
    std::string target = node.name_hint.empty() ? placeholderTarget(expression) : node.name_hint;
    std::string base = target;
    for (int i = 0; !targets_.insert(target).second; ++i)
      target = std::string(base).append("_").append(std::to_string(i));
    Ref<> target_name = orThrow(PyUnicode_FromString(target.c_str()));
    Ref<> none = orThrow(PyTuple_New(0));
    // Placeholders are annotated with the type of what was passed.
    PyObject* type = record.types[position].get();
    add(&node, fx_.placeholder.get(), target_name.get(), snakeCase(target), none.get(),
        fx_.no_kwargs.get(), type != nullptr ? type : Py_None);
  }

  // The name under which the module has what was reached that way; one object has one name.
  Ref<> attributeName(const Node& node, PyObject* object) {
    auto& known = attribute_names_[object];
    if (known) return known;
    std::string name =
        node.source != nullptr ? sources::printModulePath(*node.source, code_) : "module";
    for (char& c : name) {
      if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
    }
    if (name.empty() || std::isalpha(static_cast<unsigned char>(name[0])) == 0) name = "sub" + name;
    std::string base = name;
    for (int i = 0; !attribute_targets_.insert(name).second; ++i)
      name = base + "_" + std::to_string(i);
    known = orThrow(PyUnicode_FromString(name.c_str()));
    if (!attributes_) attributes_ = orThrow(PyDict_New());
    if (PyDict_SetItem(attributes_.get(), known.get(), object) < 0) throw PythonError();
    return known;
  }

  void addAttribute(const Node& node) {
    Ref<> name = attributeName(node, node.example.get());
    Ref<> none = orThrow(PyTuple_New(0));
    add(&node, fx_.get_attr.get(), name.get(), snakeCase(text(name.get())), none.get(),
        fx_.no_kwargs.get());
  }

  void addCall(const Node& node) {
    calling_ = &node;
    PyObject* op = node.op == Op::kCallFunction ? fx_.call_function.get() : fx_.call_method.get();
    Ref<> args = convert(node.args.get());
    Ref<> kwargs = node.kwargs && PyDict_GET_SIZE(node.kwargs.get()) > 0
                       ? convert(node.kwargs.get())
                       : fx_.no_kwargs;
    if (isDrawBetween(node, args.get(), kwargs.get()))
      return addDrawBetween(node, args.get(), kwargs.get());
    if (hasOddKeyword(kwargs.get())) return addKeywordCall(node, args.get(), kwargs.get());
    if (node.op == Op::kCallModule) {
      Ref<> name = attributeName(node, node.target.get());
      add(&node, fx_.call_module.get(), name.get(), snakeCase(text(name.get())), args.get(),
          kwargs.get());
      return;
    }
    add(&node, op, node.target.get(), candidate(node), args.get(), kwargs.get());
  }

  // Tensor.random_(from, to), whose overload has a name that no text of a graph could say: AOTAutograd would write it
  // down.
  static bool isDrawBetween(const Node& node, PyObject* args, PyObject* kwargs) {
    return node.op == Op::kCallMethod && text(node.target.get()) == "random_" &&
           (PyTuple_GET_SIZE(args) > 2 || PyDict_GetItemString(kwargs, "from") != nullptr);
  }

  void addDrawBetween(const Node& node, PyObject* args, PyObject* kwargs) {
    Ref<> all = orThrow(PySequence_List(args)), named = orThrow(PyDict_Copy(kwargs));
    for (const char* name : {"from", "to"}) {
      PyObject* given = PyDict_GetItemString(named.get(), name);
      if (given == nullptr) continue;
      if (PyList_Append(all.get(), given) != 0 || PyDict_DelItemString(named.get(), name) != 0)
        throw PythonError();
    }
    Ref<> function = attribute(fx_.helpers.get(), "random_between");
    all = orThrow(PyList_AsTuple(all.get()));
    add(&node, fx_.call_function.get(), function.get(), candidate(node), all.get(), named.get());
  }

  // Names that a call has by ** alone: no text of a call could say them.
  bool hasOddKeyword(PyObject* kwargs) {
    PyObject *name = nullptr, *value = nullptr;
    for (Py_ssize_t at = 0; PyDict_Next(kwargs, &at, &name, &value);) {
      if (!isKeywordName(name)) return true;
    }
    return false;
  }

  // The keyword arguments come last, and the function that is called knows their names.
  void addKeywordCall(const Node& node, PyObject* args, PyObject* kwargs) {
    Ref<> names = orThrow(PySequence_Tuple(kwargs));
    Ref<> values = orThrow(PyDict_Values(kwargs));
    values = orThrow(PySequence_Tuple(values.get()));
    Ref<> all = orThrow(PySequence_Concat(args, values.get()));
    PyObject* target = node.target.get();
    if (node.op == Op::kCallModule) {
      Ref<> name = attributeName(node, target), none = orThrow(PyTuple_New(0));
      Ref<> module = add(nullptr, fx_.get_attr.get(), name.get(), snakeCase(text(name.get())),
                         none.get(), fx_.no_kwargs.get());
      Ref<> first = orThrow(PyTuple_Pack(1, module.get()));
      all = orThrow(PySequence_Concat(first.get(), all.get()));
      target = Py_None;
    }
    Ref<> make = attribute(fx_.helpers.get(), "keyword_call");
    PyObject* arguments[] = {target, names.get()};
    Ref<> function = orThrow(PyObject_Vectorcall(make.get(), arguments, 2, nullptr));
    add(&node, fx_.call_function.get(), function.get(), candidate(node), all.get(),
        fx_.no_kwargs.get());
  }

  void addOutput() {
    if (ir_.result) {
      Ref<> args = orThrow(PyTuple_Pack(1, convert(ir_.result.get()).get()));
      add(nullptr, fx_.output.get(), fx_.output.get(), "output", args.get(), fx_.no_kwargs.get());
      return;
    }
    Ref<> values = orThrow(PyTuple_New(static_cast<Py_ssize_t>(ir_.outputs().size())));
    Py_ssize_t at = 0;
    for (const Node* node : ir_.outputs())
      PyTuple_SET_ITEM(values.get(), at++, Ref<>(made_[node->index]).release());
    Ref<> args = orThrow(PyTuple_Pack(1, values.get()));
    add(nullptr, fx_.output.get(), fx_.output.get(), "output", args.get(), fx_.no_kwargs.get());
  }

  // One FX node, linked in at the end, with its entries in the graph's tables.
  Ref<> add(const Node* node, PyObject* op, PyObject* target, const std::string& wanted,
            PyObject* args, PyObject* kwargs, PyObject* annotation = Py_None) {
    std::string chosen = names_.unique(wanted);
    if (node != nullptr && node->op != Op::kInput && !node->name_hint.empty() &&
        node->name_hint != chosen) {
      // Named after the user's variable. As with TorchDynamo, which renames the node then, the first name stays taken.
      if (PySet_Add(used_names_.get(), orThrow(PyUnicode_FromString(chosen.c_str())).get()) < 0)
        throw PythonError();
      chosen = names_.unique(node->name_hint);
    }
    Ref<> name = orThrow(PyUnicode_FromString(chosen.c_str()));
    auto* type = reinterpret_cast<PyTypeObject*>(fx_.node_type.get());
    Ref<> made = orThrow(type->tp_alloc(type, 0));
    Ref<> init = orThrow(PyTuple_Pack(5, graph_.get(), name.get(), op, target, annotation));
    if (fx_.node_init(made.get(), init.get(), nullptr) < 0) throw PythonError();
    PyObject* update[] = {made.get(), args, kwargs};
    orThrow(PyObject_Vectorcall(fx_.update.get(), update, 3, nullptr));
    PyObject* link[] = {root_.get(), made.get()};
    orThrow(PyObject_Vectorcall(fx_.prepend.get(), link, 2, nullptr));
    if (node != nullptr) {
      Ref<> meta = orThrow(makeLazyMeta(record_.get(), node->index).release());
      // Past Node.__setattr__, which is Python and serves renames.
      if (PyObject_GenericSetAttr(made.get(), fx_.meta.get(), meta.get()) < 0) throw PythonError();
      recordOf(record_.get())->names[node->index] = name;
      made_[node->index] = made;
    }
    PyObject* group = lookup(op, op == fx_.call_function.get() ? target : Py_None);
    bool failed = PyDict_SetItem(group, made.get(), Py_None) < 0 ||
                  PyDict_SetItem(name_of_.get(), made.get(), name.get()) < 0 ||
                  PySet_Add(used_names_.get(), name.get()) < 0;
    if (failed) throw PythonError();
    ++length_;
    return made;
  }

  // The nodes with this op and target, as the graph's look-up table has them. Borrowed.
  PyObject* lookup(PyObject* op, PyObject* target) {
    auto& known = groups_[target == Py_None ? op : target];
    if (!known) {
      Ref<> key = orThrow(PyTuple_Pack(2, op, target));
      known = orThrow(PyObject_GetItem(table_.get(), key.get()));
    }
    return known.get();
  }

  const std::string& candidate(const Node& node) {
    auto& known = candidates_[node.target.get()];
    if (!known.empty()) return known;
    if (node.op == Op::kCallMethod) {
      std::string name = text(node.target.get());
      bool magic = name.size() > 4 && name.starts_with("__") && name.ends_with("__");
      known = snakeCase(magic ? name.substr(2, name.size() - 4) : name);
    } else {
      Ref<> name = Ref<>::steal(PyObject_GetAttrString(node.target.get(), "__name__"));
      if (!name) PyErr_Clear();
      known = snakeCase(name && PyUnicode_Check(name.get()) ? text(name.get())
                                                            : Py_TYPE(node.target.get())->tp_name);
    }
    if (known.empty()) known = "_unnamed";
    return known;
  }

  // The argument with FX nodes in the places of stand-ins; the same object if it holds none.
  Ref<> convert(PyObject* value) {
    needStack();
    if (isStandIn(value)) {
      int index = asStandIn(value)->node->index;
      STATOR_CHECK(index >= 0 && made_[index], "a value is used before it is made");
      return made_[index];
    }
    if (PyTuple_Check(value) || PyList_Check(value)) return convertItems(value);
    if (PyDict_Check(value)) {
      Ref<> dict = orThrow(PyDict_New());
      PyObject* key = nullptr;
      PyObject* item = nullptr;
      for (Py_ssize_t at = 0; PyDict_Next(value, &at, &key, &item);) {
        if (PyDict_SetItem(dict.get(), key, convert(item).get()) < 0) throw PythonError();
      }
      return dict;
    }
    if (PySlice_Check(value)) {
      const auto* slice = reinterpret_cast<PySliceObject*>(value);
      return orThrow(PySlice_New(convert(slice->start).get(), convert(slice->stop).get(),
                                 convert(slice->step).get()));
    }
    if (stator_is_user_class(Py_TYPE(value)) &&
        PyObject_TypeCheck(value, reinterpret_cast<PyTypeObject*>(fx_.module_type.get())))
      return functionNode(value);
    if (isNumpyNumber(value)) return orThrow(PyObject_CallMethod(value, "item", nullptr));
    return newRef(value);
  }

  // A function that the graph calls: an attribute of the module, read where it is needed.
  Ref<> functionNode(PyObject* module) {
    Ref<>& made = functions_[module];
    if (made) return made;
    if (!attributes_) attributes_ = orThrow(PyDict_New());
    const std::string base = text(attribute(module, "_stator_name").get());
    std::string name = base;
    for (int i = 0; !attribute_targets_.insert(name).second; ++i)
      name = base + "_" + std::to_string(i);
    Ref<> target = orThrow(PyUnicode_FromString(name.c_str()));
    if (PyDict_SetItem(attributes_.get(), target.get(), module) < 0) throw PythonError();
    Ref<> none = orThrow(PyTuple_New(0));
    made = add(nullptr, fx_.get_attr.get(), target.get(), name, none.get(), fx_.no_kwargs.get());
    if (calling_ != nullptr && calling_->location != nullptr) {
      Ref<> meta = attribute(made.get(), "meta");
      Ref<> trace = makeMeta(record_.get(), calling_->index, MetaKey::kStackTrace);
      if (!trace || PyDict_SetItemString(meta.get(), "stack_trace", trace.get()) < 0)
        throw PythonError();
    }
    if (calling_ != nullptr && calling_->op == Op::kCallFunction) {
      Ref<> called = orThrow(PyUnicode_FromString(candidate(*calling_).c_str()));
      orThrow(PyObject_CallMethod(fx_.helpers.get(), "note_call", "OOO", module, called.get(),
                                  calling_->target.get()));
    }
    return made;
  }

  // A number of NumPy's, for which the module's source has no name.
  static bool isNumpyNumber(PyObject* value) {
    return std::string_view(Py_TYPE(value)->tp_name).starts_with("numpy.") &&
           PyIndex_Check(value) + PyNumber_Check(value) > 0 &&
           PyObject_HasAttrString(value, "item") && !PyObject_HasAttrString(value, "__len__");
  }

  Ref<> convertItems(PyObject* value) {
    Py_ssize_t size = PySequence_Fast_GET_SIZE(value);
    bool is_tuple = PyTuple_Check(value);
    Ref<> items = orThrow(is_tuple ? PyTuple_New(size) : PyList_New(size));
    for (Py_ssize_t i = 0; i < size; ++i) {
      PyObject* item = convert(PySequence_Fast_GET_ITEM(value, i)).release();
      if (is_tuple) {
        PyTuple_SET_ITEM(items.get(), i, item);
      } else {
        PyList_SET_ITEM(items.get(), i, item);
      }
    }
    if (!is_tuple || PyTuple_CheckExact(value)) return items;
    auto* type = reinterpret_cast<PyObject*>(Py_TYPE(value));
    if (!PyObject_HasAttrString(type, "_fields")) return items;
    return orThrow(PyObject_CallObject(type, items.get()));
  }

  void finish() {
    for (const auto& [base, count] : names_.counts()) {
      Ref<> number = orThrow(PyLong_FromLongLong(count));
      if (PyDict_SetItemString(counts_.get(), base.c_str(), number.get()) < 0) throw PythonError();
    }
    Ref<> length = orThrow(PyLong_FromLongLong(length_));
    if (PyObject_SetAttrString(graph_.get(), "_len", length.get()) < 0) throw PythonError();
  }

  const Node* calling_ = nullptr;  // the call whose arguments are converted
  const Fx& fx_;
  const Graph& ir_;
  PyCodeObject* code_;
  Names names_;
  Ref<> record_;
  Ref<> graph_, root_, name_of_, used_names_, counts_, table_;
  std::vector<Ref<>> made_;  // FX node of each IR node
  size_t inputs_ = 0;        // added so far
  std::unordered_map<PyObject*, Ref<>> groups_;
  std::unordered_map<PyObject*, std::string> candidates_;
  std::unordered_set<std::string> targets_;
  Ref<> attributes_;  // of the GraphModule: name -> parameter, buffer or module
  std::unordered_map<PyObject*, Ref<>> attribute_names_;
  std::unordered_set<std::string> attribute_targets_;
  std::unordered_map<PyObject*, Ref<>> functions_;
  long long length_ = 0;
};

// Whether the module has to have attributes: parameters and modules of its own, functions that the graph calls.
bool hasAttributes(const Graph& graph) {
  auto* module_type = reinterpret_cast<PyTypeObject*>(Fx::get().module_type.get());
  bool found = false;
  for (const Node& node : graph.nodes()) {
    if (node.op == Op::kAttribute || node.op == Op::kCallModule) return true;
    if (node.op == Op::kInput) continue;
    for (PyObject* argument : {node.args.get(), node.kwargs.get()}) {
      forEachLeaf(argument, [&](PyObject* leaf) {
        found |= stator_is_user_class(Py_TYPE(leaf)) && PyObject_TypeCheck(leaf, module_type);
      });
    }
    if (found) return true;
  }
  return false;
}

std::vector<int> positions(PyObject* list) {
  std::vector<int> made;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) {
    made.push_back(static_cast<int>(PyLong_AsLong(PyList_GET_ITEM(list, i))));
  }
  return made;
}

}  // namespace

Ref<> toGraphModule(const std::shared_ptr<Graph>& graph, PyCodeObject* code) {
  try {
    const Fx& fx = Fx::get();
    Ref<> record = orThrow(makeRecord(graph, code).release());
    const bool is_function = !graph->name.empty();
    Ref<> made, attributes = newRef(Py_None);
    if (is_function || hasAttributes(*graph)) {
      Builder builder(record.get(), code);
      made = builder.build();
      attributes = newRef(builder.attributes());
    }
    Ref<> last = is_function ? orThrow(PyUnicode_FromString(graph->name.c_str()))
                             : orThrow(makeRunner(graph).release());
    Ref<> make = attribute(fx.helpers.get(), is_function ? "make_function" : "make_module");
    PyObject* arguments[] = {made ? made.get() : Py_None, attributes.get(), record.get(),
                             last.get()};
    return orThrow(PyObject_Vectorcall(make.get(), arguments, 4, nullptr));
  } catch (const PythonError&) {
    return nullptr;
  }
}

Ref<> moduleFor(const std::shared_ptr<Graph>& graph, PyCodeObject* code, PyObject* backend) {
  Ref<> unseen = Ref<>::steal(PyObject_GetAttrString(backend, "runs_unseen"));
  if (unseen.get() == Py_True) return newRef(Py_None);
  PyErr_Clear();  // a callable as it is
  return toGraphModule(graph, code);
}

Ref<> makeFxGraph(PyObject* record) { return Builder(record).build(); }

Compiled readCompiled(PyObject* answer) {
  Compiled compiled;
  PyObject* guards = PyTuple_GET_ITEM(answer, 1);
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(guards); ++i) {
    PyObject* guard = PyList_GET_ITEM(guards, i);
    auto kind = static_cast<BackendGuard::Kind>(PyLong_AsLong(PyTuple_GET_ITEM(guard, 0)));
    compiled.guards.push_back(
        {kind, positions(PyTuple_GET_ITEM(guard, 1)), positions(PyTuple_GET_ITEM(guard, 2))});
  }
  PyObject* conditions = PyTuple_GET_ITEM(answer, 2);
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(conditions); ++i)
    compiled.conditions.push_back(text(PyList_GET_ITEM(conditions, i)));
  compiled.number = PyLong_AsLong(PyTuple_GET_ITEM(answer, 3));
  compiled.callable = newRef(PyTuple_GET_ITEM(answer, 0));
  return compiled;
}

Compiled compile(const std::shared_ptr<Graph>& graph, PyObject* graph_module, PyObject* backend,
                 const std::string& disk_key) {
  Compiled compiled;
  if (graph_module == Py_None) {
    compiled.callable = makeRunner(graph);
    graph->dropExamples();
    return compiled;
  }
  try {
    Ref<> helper = attribute(Fx::get().helpers.get(), "compile_graph");
    Ref<> key = orThrow(PyUnicode_FromString(disk_key.c_str()));
    PyObject* arguments[] = {graph_module, backend, key.get()};
    compiled =
        readCompiled(orThrow(PyObject_Vectorcall(helper.get(), arguments, 3, nullptr)).get());
  } catch (const PythonError&) {
    compiled.callable.reset();  // the error is set: the caller asks for it
  }
  graph->dropExamples();
  return compiled;
}

}  // namespace stator::graph
