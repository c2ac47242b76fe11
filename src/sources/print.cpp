// Sources as text.
#include "base/stack_room.h"
#include "base/text.h"
#include "python/frame.h"
#include "sources/short_lived.h"
#include "sources/source.h"

#include <cctype>
#include <string_view>

namespace stator::sources {

namespace {

std::string characters(PyObject* text) { return std::string(utf8View(text).value_or("?")); }

std::string repr(PyObject* object) {
  Ref<> text = stealRef(PyObject_Repr(object));
  if (!text) {
    PyErr_Clear();
    return std::string("<") + Py_TYPE(object)->tp_name + ">";
  }
  return characters(text.get());
}

std::string textOf(PyObject* object) {
  return PyUnicode_Check(object) ? characters(object) : repr(object);
}

std::string quoted(PyObject* name) { return "[" + repr(name) + "]"; }

bool isIdentifier(PyObject* name) {
  return PyUnicode_Check(name) && PyUnicode_IsIdentifier(name) > 0;
}

bool isNumber(const std::string& text) {
  if (text.empty()) return false;
  for (char c : text) {
    if (!std::isdigit(static_cast<unsigned char>(c))) return false;
  }
  return true;
}

bool isName(const Ref<>& key, const char* name) {
  return key && PyUnicode_CheckExact(key.get()) &&
         PyUnicode_CompareWithASCIIString(key.get(), name) == 0;
}

PyObject* localName(PyCodeObject* code, int64_t slot) {
  if (!code || slot >= PyTuple_GET_SIZE(stator_code_slot_names(code))) return nullptr;
  return PyTuple_GET_ITEM(stator_code_slot_names(code), slot);
}

// The cell of a variable of the frame itself: its contents are what the user calls the variable.
bool isFrameCell(const Source& source, PyCodeObject* code) {
  if (source.kind != SourceKind::kLocal || !code ||
      source.index >= PyTuple_GET_SIZE(stator_code_slot_names(code)))
    return false;
  return stator_code_slot_is_cell(code, static_cast<int>(source.index)) != 0;
}

// Something that belongs to no frame: by its qualified name, as one would import it.
std::string printPinned(PyObject* object) {
  if (PyModule_Check(object)) {
    const char* name = PyModule_GetName(object);
    if (name != nullptr) return name;
    PyErr_Clear();
  }
  if (PyDict_CheckExact(object)) {
    PyObject* name = PyDict_GetItemString(object, "__name__");
    if (name != nullptr && PyUnicode_Check(name)) return textOf(name);
    return "<dict>";
  }
  if (PyType_Check(object) || PyFunction_Check(object)) {
    Ref<> module = stealRef(PyObject_GetAttrString(object, "__module__"));
    Ref<> name = stealRef(PyObject_GetAttrString(object, "__qualname__"));
    PyErr_Clear();
    if (module && name && PyUnicode_Check(module.get()) && PyUnicode_Check(name.get())) {
      std::string where = textOf(module.get());
      return where == "builtins" ? textOf(name.get()) : where + "." + textOf(name.get());
    }
  }
  return std::string("<") + Py_TYPE(object)->tp_name + ">";
}

class Printer {
 public:
  Printer(PyCodeObject* code, bool exact, bool dotted = false)
      : code_(code), exact_(exact), dotted_(dotted) {}

  std::string print(const Source& source) const {
    needStack();
    if (source.base == nullptr) return printRoot(source);
    const std::string n = std::to_string(source.index);
    switch (source.kind) {
      case SourceKind::kAttr:
      case SourceKind::kGenericAttr:
      case SourceKind::kTensorAttr:
        return base(source) + "." + textOf(source.key.get());
      case SourceKind::kParameter:
        return moduleEntry(*source.base, source.key.get(), "_parameters");
      case SourceKind::kBuffer:
        return moduleEntry(*source.base, source.key.get(), "_buffers");
      case SourceKind::kSubmodule:
        return moduleEntry(*source.base, source.key.get(), "_modules");
      case SourceKind::kDictItem:
        return printDictItem(source);
      case SourceKind::kClassDict:
        return exact_ ? base(source) + ".__dict__" + quoted(source.key.get())
                      : base(source) + "." + textOf(source.key.get());
      case SourceKind::kObjectDict:
        return base(source) + ".__dict__";
      case SourceKind::kType:
        return "type(" + base(source) + ")";
      case SourceKind::kDictKey:
      case SourceKind::kSetItem:
        return "list(" + base(source) + ")[" + n + "]";
      case SourceKind::kDictValue:
        return "list(" + base(source) + ".values())[" + n + "]";
      case SourceKind::kListItem:
      case SourceKind::kTupleItem:
      case SourceKind::kDequeItem:
        return base(source) + "[" + n + "]";
      case SourceKind::kCell:
        return isFrameCell(*source.base, code_) ? base(source) : base(source) + ".cell_contents";
      case SourceKind::kClosure:
        return base(source) + ".__closure__[" + n + "]";
      case SourceKind::kDefault:
        return base(source) + ".__defaults__[" + n + "]";
      case SourceKind::kKwDefault:
        return base(source) + ".__kwdefaults__" + quoted(source.key.get());
      case SourceKind::kTensorSize:
        if (source.index < -1)
          return base(source) + ".stride(" + std::to_string(-2 - source.index) + ")";
        return base(source) + ".size(" + n + ")";
      case SourceKind::kTensorNumber:
        return base(source) + ".flatten()[" + n + "].item()";
      case SourceKind::kWeakTarget:
        return base(source) + "()";
      case SourceKind::kAsked: {
        // The reading of an attribute has its name, that of several is written out; otherwise it is a check of what a
        // tensor is made of.
        PyObject* reader = source.key.get();
        Ref<> name = stealRef(PyObject_GetAttrString(reader, "__name__"));
        if (!name) PyErr_Clear();
        if (!name && std::string_view(Py_TYPE(reader)->tp_name) == "operator.attrgetter")
          return repr(reader) + "(" + base(source) + ")";
        return base(source) +
               (name ? "." + textOf(name.get()) : std::string(".__tensor_flatten__()"));
      }
      case SourceKind::kAhead:
        return "list(" + base(source) + ")[" + n + "]";
      case SourceKind::kIteratorPart:
        return base(source) + (source.index == kIteratorFunction ? ".function"
                               : source.index == kIteratorState  ? ".state"
                                                                 : ".parts[" + n + "]");
      case SourceKind::kFloatTensor:
      case SourceKind::kScalarValue:
      case SourceKind::kViewDict:
      case SourceKind::kProxied:
        return base(source);
      case SourceKind::kLruEntry:
        return base(source) + ".cache" + quoted(source.key.get());
      default:
        return base(source) + "." + fieldName(source.kind);
    }
  }

 private:
  std::string base(const Source& source) const { return print(*source.base); }

  std::string printRoot(const Source& source) const {
    switch (source.kind) {
      case SourceKind::kLocal: {
        PyObject* name = localName(code_, source.index);
        return name != nullptr ? "L" + quoted(name) : "L[" + std::to_string(source.index) + "]";
      }
      case SourceKind::kStack:
        return "L['___stack" + std::to_string(source.index) + "']";
      case SourceKind::kGlobals:
        return "G";
      case SourceKind::kBuiltins:
        return "__builtins__";
      case SourceKind::kFunction:
        return code_ ? textOf(code_->co_name) : "<function>";
      case SourceKind::kHandled:
        return "sys.exc_info()[1]";
      case SourceKind::kFunctionMode:
        return "torch.overrides._get_current_function_mode_stack()[" +
               std::to_string(source.index) + "]";
      case SourceKind::kDrawn:
        return "<random number " + std::to_string(source.index) + ">";
      default:
        return printPinned(pinnedObject(source));
    }
  }

  // What nn.Module.__getattr__ would find: users write self.layers[3].weight for three nested dicts.
  std::string moduleEntry(const Source& module, PyObject* name, const char* dict) const {
    if (exact_) return print(module) + "." + dict + quoted(name);
    if (dotted_ || isIdentifier(name)) return print(module) + "." + textOf(name);
    std::string text = textOf(name);
    return print(module) + (isNumber(text) ? "[" + text + "]" : quoted(name));
  }

  std::string printDictItem(const Source& source) const {
    const Source& dict = *source.base;
    if (!exact_ && dict.kind == SourceKind::kAttr && PyUnicode_CheckExact(source.key.get())) {
      for (const char* name : {"_modules", "_parameters", "_buffers"}) {
        if (isName(dict.key, name)) return moduleEntry(*dict.base, source.key.get(), name);
      }
    }
    // The globals of an inlined function's module.
    if (!exact_ && dict.kind == SourceKind::kPinned && isIdentifier(source.key.get())) {
      return print(dict) + "." + textOf(source.key.get());
    }
    return print(dict) + quoted(source.key.get());
  }

  static const char* fieldName(SourceKind kind) {
    switch (kind) {
      case SourceKind::kFuncGlobals:
        return "__globals__";
      case SourceKind::kCode:
        return "__code__";
      case SourceKind::kMethodSelf:
        return "__self__";
      case SourceKind::kMethodFunc:
        return "__func__";
      case SourceKind::kPartialFunc:
        return "func";
      case SourceKind::kPartialArgs:
        return "args";
      case SourceKind::kPartialKeywords:
        return "keywords";
      case SourceKind::kSliceStart:
      case SourceKind::kRangeStart:
        return "start";
      case SourceKind::kSliceStop:
      case SourceKind::kRangeStop:
        return "stop";
      case SourceKind::kSliceStep:
      case SourceKind::kRangeStep:
        return "step";
      case SourceKind::kArrayTensor:
        return "array";
      case SourceKind::kTensorGrad:
        return "grad";
      default:
        return "?";
    }
  }

  PyCodeObject* code_;
  bool exact_;
  bool dotted_;
};

}  // namespace

std::string print(const Source& source, PyCodeObject* code) {
  return Printer(code, false).print(source);
}
std::string printModulePath(const Source& source, PyCodeObject* code) {
  return Printer(code, false, true).print(source);
}
std::string printExact(const Source& source, PyCodeObject* code) {
  return Printer(code, true).print(source);
}

}  // namespace stator::sources
