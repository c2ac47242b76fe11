#include "shapes/declared.h"

#include "base/text.h"

#include <algorithm>
#include <iterator>

namespace stator::shapes {

namespace {

constexpr uint32_t kInts = bitOf(Arg::Kind::kInt) | bitOf(Arg::Kind::kSymInt);

// torch takes NumPy's names for some parameters, and `input` for the first.
bool isNamed(const Parameter& parameter, std::string_view name) {
  if (parameter.name == name) return true;
  static constexpr std::pair<std::string_view, std::string_view> kOther[] = {
      {"self", "input"}, {"self", "x"},   {"self", "a"},           {"self", "x1"},
      {"input", "x"},    {"dim", "axis"}, {"keepdim", "keepdims"}, {"other", "x2"}};
  return std::any_of(std::begin(kOther), std::end(kOther), [&](const auto& pair) {
    return pair.first == parameter.name && pair.second == name;
  });
}

bool takes(uint32_t kinds, const Arg& arg) { return (kinds & bitOf(arg.kind)) != 0; }

bool takes(const Parameter& parameter, const Arg& arg) {
  if (!takes(parameter.kinds, arg)) return false;
  if (!arg.isSequence() || parameter.items == kAnyKind) return true;
  const auto items = arg.elements();
  return std::all_of(items.begin(), items.end(),
                     [&](const Arg& item) { return takes(parameter.items, item); });
}

bool fits(const Overload& overload, const Workspace& workspace) {
  const std::vector<Parameter>& parameters = overload.parameters;
  const std::span<const Arg> positional = workspace.positional();
  uint64_t given = 0;
  for (size_t i = 0; i < positional.size(); ++i) {
    if (i == parameters.size() || parameters[i].keyword_only) return false;
    given |= uint64_t{1} << i;
    const bool last = i + 1 == parameters.size() || parameters[i + 1].keyword_only;
    if (overload.spreads && last && takes(kInts, positional[i])) {
      if (!std::all_of(positional.begin() + static_cast<ptrdiff_t>(i), positional.end(),
                       [](const Arg& arg) { return takes(kInts, arg); }))
        return false;
      break;
    }
    if (!takes(parameters[i], positional[i])) return false;
  }
  const std::span<const Arg> keywords = workspace.keywords();
  for (size_t k = 0; k < keywords.size(); ++k) {
    const std::optional<std::string_view> name = utf8View(workspace.keywordName(k));
    size_t i = 0;
    while (name && i < parameters.size() && !isNamed(parameters[i], *name)) ++i;
    if (!name || i == parameters.size() || (given >> i & 1) != 0) return false;
    if (!takes(parameters[i], keywords[k])) return false;
    given |= uint64_t{1} << i;
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].required && (given >> i & 1) == 0) return false;
  }
  return true;
}

Ref<> attribute(PyObject* object, const char* name) {
  Ref<> value = stealRef(PyObject_GetAttrString(object, name));
  if (!value) PyErr_Clear();
  return value;
}

long number(PyObject* object, const char* name) {
  Ref<> value = attribute(object, name);
  return value && PyLong_CheckExact(value.get()) ? PyLong_AsLong(value.get()) : -1;
}

// None is taken where it is the default, or where the annotation speaks of it; where there is none, nothing is known.
bool takesNone(PyObject* annotation, PyObject* fallback) {
  if (fallback == Py_None) return true;
  if (annotation == nullptr) return fallback == nullptr;
  Ref<> text = stealRef(PyObject_Str(annotation));
  if (!text) PyErr_Clear();
  const std::string_view words = text ? utf8View(text.get()).value_or("None") : "None";
  return words.find("None") != std::string_view::npos ||
         words.find("Optional") != std::string_view::npos;
}

// A function written in Python: which arguments it needs, and where it takes None.
Declaration ofPython(PyObject* function) {
  constexpr long kTakesMore = 0x4 | 0x8;  // *args, **kwargs
  PyObject* code = PyFunction_GetCode(function);
  const long positional = number(code, "co_argcount");
  const long keywords = number(code, "co_kwonlyargcount");
  Ref<> names = attribute(code, "co_varnames");
  if (positional < 0 || keywords < 0 || positional + keywords > 64 || !names ||
      !PyTuple_Check(names.get()) || (number(code, "co_flags") & kTakesMore) != 0)
    return {};
  PyObject* defaults = PyFunction_GetDefaults(function);
  PyObject* keyword_defaults = PyFunction_GetKwDefaults(function);
  PyObject* annotations = PyFunction_GetAnnotations(function);
  const long without = positional - (defaults != nullptr ? PyTuple_GET_SIZE(defaults) : 0);
  Overload overload;
  for (long i = 0; i < positional + keywords; ++i) {
    PyObject* name = PyTuple_GET_ITEM(names.get(), i);
    PyObject* fallback = nullptr;
    if (i < positional) {
      if (i >= without) fallback = PyTuple_GET_ITEM(defaults, i - without);
    } else if (keyword_defaults != nullptr) {
      fallback = PyDict_GetItem(keyword_defaults, name);
    }
    PyObject* annotation = annotations != nullptr && PyDict_Check(annotations)
                               ? PyDict_GetItem(annotations, name)
                               : nullptr;
    Parameter& parameter = overload.parameters.emplace_back();
    parameter.name = utf8(name);
    parameter.required = fallback == nullptr;
    parameter.keyword_only = i >= positional;
    if (!takesNone(annotation, fallback)) parameter.kinds &= ~bitOf(Arg::Kind::kNone);
  }
  return {std::move(overload)};
}

}  // namespace

Declaration declarationOf(PyObject* target) {
  if (PyFunction_Check(target)) return ofPython(target);
  const bool method = Py_IS_TYPE(target, &PyMethodDescr_Type);
  if (!method && !PyCFunction_Check(target)) return {};
  Ref<> name = attribute(target, "__name__");
  return name && PyUnicode_Check(name.get()) ? schemasOf(utf8(name.get()), method) : Declaration();
}

bool accepts(const Declaration& declaration, const Workspace& workspace) {
  return declaration.empty() ||
         std::any_of(declaration.begin(), declaration.end(),
                     [&](const Overload& overload) { return fits(overload, workspace); });
}

}  // namespace stator::shapes
