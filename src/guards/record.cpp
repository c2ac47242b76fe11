// What a check that passed relied on, as words of memory (replay.h): one function for each kind of op.
#include "guards/facts.h"
#include "guards/program.h"
#include "guards/replay.h"
#include "python/fields.h"

namespace stator::guards {

namespace {

using sources::SourceKind;

StatorDict* asDict(PyObject* object) { return reinterpret_cast<StatorDict*>(object); }

PyObject** dictSlot(PyObject* object) {
  return stator_has_managed_dict(Py_TYPE(object)) ? stator_managed_dict_slot(object)
                                                  : stator_fixed_dict_slot(object);
}

// What the entered dict proves of the values in it.
void noteDict(Recorder& recorder, const Op& op, PyObject* dict) {
  recorder.versioned = (op.flags & kVolatile) == 0 &&
                       stator_dict_versioned(reinterpret_cast<const PyDictObject*>(dict));
  if (recorder.versioned) {
    recorder.dictWord(dict, &asDict(dict)->version);
    recorder.view = Proof::kSameObject;
    return;
  }
  // Keyed: the same table (its size and kind are one word), and then each key and value where it stood.
  recorder.word(&asDict(dict)->keys);
  recorder.word(&asDict(dict)->values);
  recorder.word(reinterpret_cast<const uint64_t*>(asDict(dict)->keys) + 1);
  recorder.view = Proof::kSameAddress;
}

void noteLength(Recorder& recorder, const Op& op, PyObject* value, Proof proof) {
  if (PyList_Check(value)) {
    recorder.type(value, proof);
    recorder.word(stator_size_field(value));
  } else if (PyDict_Check(value)) {
    recorder.type(value, proof);
    recorder.dictWord(value, &asDict(value)->used);
  } else if (PyTuple_Check(value)) {
    if (proof == Proof::kSameObject) return;
    recorder.type(value, proof);
    recorder.word(stator_size_field(value));
  } else if (proof != Proof::kSameObject || !isConstant(value)) {
    recorder.anew(op);
  }
}

// Numbers and texts, of which nobody asks who else has them. Ranges, tuples and the like are the program's objects.
bool mayBeHeld(PyObject* value) {
  return !PyObject_IS_GC(value) && stator_is_plain_key(value) != 0;
}

bool isName(const Op& op, const char* name) {
  return PyUnicode_CompareWithASCIIString(sourceOf(op).key.get(), name) == 0;
}

// What a getter in C gives for the same object is the same for good, for these.
bool givesTheSame(const Op& op, PyObject* base) {
  if (sourceOf(op).kind != SourceKind::kGenericAttr) return false;
  if (PyCode_Check(base)) return true;
  if (Py_TYPE(base) == &PyProperty_Type)
    return isName(op, "fget") || isName(op, "fset") || isName(op, "fdel");
  return (Py_TYPE(base) == &PyStaticMethod_Type || Py_TYPE(base) == &PyClassMethod_Type) &&
         isName(op, "__func__");
}

}  // namespace

void noteEnter(Recorder& recorder, const Op& op, PyObject* base) {
  recorder.enter = &op;
  recorder.enter_copied = false;
  recorder.versioned = false;
  const Proof proof = recorder.proof[op.base];
  recorder.view = proof;
  if (proof == Proof::kNone) return;
  if (op.code == Code::kEnterType) {
    // A type keeps its dict for life.
    if (proof != Proof::kSameObject) recorder.type(base, proof);
    noteDict(recorder, op, stator_type_dict(reinterpret_cast<PyTypeObject*>(base)));
    return;
  }
  if (op.code == Code::kEnterDict) {
    if (!(op.flags & kKnownDict)) recorder.type(base, proof);
    noteDict(recorder, op, base);
    return;
  }
  if (!(op.flags & kTypeTested)) recorder.type(base, proof);
  PyObject** slot = dictSlot(base);
  if (slot == nullptr) {
    recorder.view = Proof::kNone;
    return;
  }
  recorder.dictSlot(base, slot, proof);
  const bool managed = stator_has_managed_dict(Py_TYPE(base));
  if (PyObject* dict = managed ? stator_managed_dict(base) : *slot; dict != nullptr) {
    noteDict(recorder, op, dict);
    return;
  }
  const uint64_t* values = managed ? stator_inline_values_word(base) : nullptr;
  if (values != nullptr) recorder.word(values);
  recorder.view = Proof::kSameAddress;
}

void noteKey(Recorder& recorder, const Op& op, const StatorView& view, PyObject* value) {
  if (op.dst != kNoRegister) recorder.proof[op.dst] = recorder.view;
  if (recorder.view == Proof::kNone || (op.flags & kVolatile)) {
    if (op.dst != kNoRegister) recorder.proof[op.dst] = Proof::kNone;
    recorder.anewKey(op);
    return;
  }
  if (op.code == Code::kKeyAbsent) {
    if (recorder.versioned) return;
    if (view.dict == nullptr && view.keys != nullptr && op.b == view.keys) {
      recorder.word(&view.keys->used);  // shared keys, of which the first so many are known
    } else {
      recorder.anewKey(op);
    }
    return;
  }
  if (!recorder.versioned) {
    if (view.dict != nullptr) recorder.word(&view.entries[size_t{op.hint} * view.key_stride]);
    recorder.word(&view.values[size_t{op.hint} * view.value_stride]);
  }
  const Proof proof = recorder.view;
  switch (op.code) {
    case Code::kKeyIs:
      // the program owns it
      if (op.dst != kNoRegister) recorder.proof[op.dst] = Proof::kSameObject;
      break;
    case Code::kKeyEquals:
      if (proof != Proof::kSameObject && !mayBeHeld(value) && !PyTuple_CheckExact(value)) {
        recorder.anewKey(op);
        break;
      }
      // An object's attribute: tuples there are settings of modules.
      if (proof != Proof::kSameObject) recorder.record.constants.push_back(newRef(value));
      if (op.dst != kNoRegister) recorder.proof[op.dst] = Proof::kSameObject;
      break;
    case Code::kKeyType:
      recorder.type(value, proof);
      break;
    case Code::kKeyEmpty:
      recorder.type(value, proof);
      recorder.dictWord(value, &asDict(value)->used);
      break;
    case Code::kKeyTensor:
      recorder.tensor(value, factsOf(op), proof);
      break;
    default:
      break;
  }
}

void noteTest(Recorder& recorder, const Op& op, PyObject* value) {
  const Proof proof = recorder.proof[op.base];
  const bool both = op.code == Code::kSame || op.code == Code::kNotSame;
  if (proof == Proof::kNone || (op.flags & kVolatile) ||
      (both && recorder.proof[op.dst] == Proof::kNone)) {
    recorder.anew(op);
    return;
  }
  switch (op.code) {
    case Code::kIs:
      recorder.proof[op.base] = Proof::kSameObject;
      break;
    case Code::kEquals:
      if (proof != Proof::kSameObject && !mayBeHeld(value)) {
        recorder.anew(op);
        break;
      }
      if (proof != Proof::kSameObject) recorder.record.constants.push_back(newRef(value));
      recorder.proof[op.base] = Proof::kSameObject;
      break;
    case Code::kIsWeak:
      if (proof != Proof::kSameObject) recorder.anew(op);
      break;
    case Code::kType:
      recorder.type(value, proof);
      break;
    case Code::kLength:
      noteLength(recorder, op, value, proof);
      break;
    case Code::kDictEmpty:
      noteLength(recorder, op, value, proof);
      break;
    case Code::kDictKeys:
      // An OrderedDict changes its order without a new version.
      if (PyODict_Check(value) ||
          !stator_dict_versioned(reinterpret_cast<const PyDictObject*>(value))) {
        recorder.anew(op);
      } else {
        recorder.type(value, proof);
        recorder.dictWord(value, &asDict(value)->version);
      }
      break;
    case Code::kTensor:
      recorder.tensor(value, factsOf(op), proof);
      break;
    case Code::kSame:
    case Code::kNotSame:
      break;  // addresses, which are all the same
    default:
      recorder.anew(op);
  }
}

void noteStep(Recorder& recorder, const Op& op, PyObject* base, PyObject* value) {
  const Proof proof = op.base != kNoRegister ? recorder.proof[op.base] : Proof::kNone;
  Proof result = Proof::kSameAddress;
  if (proof == Proof::kNone || (op.flags & kVolatile)) {
    recorder.anew(op);
    result = Proof::kNone;
  } else {
    auto* function = reinterpret_cast<PyFunctionObject*>(base);
    switch (op.code) {
      case Code::kSlot:
      case Code::kSlotAbsent:
        recorder.word(reinterpret_cast<PyObject**>(reinterpret_cast<char*>(base) + op.hint));
        break;
      case Code::kListItem:
        if (recorder.list != op.base) {
          recorder.type(base, proof);
          recorder.word(stator_size_field(base));
          recorder.word(stator_list_items_field(base));
          recorder.list = op.base;
          recorder.list_level = recorder.level;
        }
        recorder.level = recorder.list_level;
        recorder.word(&PyList_GET_ITEM(base, op.hint));
        break;
      case Code::kTupleItem:
        if (proof == Proof::kSameObject) {
          result = Proof::kSameObject;
          break;
        }
        recorder.type(base, proof);
        recorder.word(stator_size_field(base));
        recorder.word(&PyTuple_GET_ITEM(base, op.hint));
        break;
      case Code::kCell:
        recorder.type(base, proof);
        recorder.word(&reinterpret_cast<PyCellObject*>(base)->ob_ref);
        break;
      case Code::kFunctionCode:
        recorder.type(base, proof);
        recorder.word(&function->func_code);
        break;
      case Code::kDefault:
        recorder.type(base, proof);
        recorder.word(&function->func_defaults);
        recorder.word(stator_size_field(function->func_defaults));
        recorder.word(&PyTuple_GET_ITEM(function->func_defaults, op.hint));
        break;
      case Code::kKwDefault:
        recorder.type(base, proof);
        recorder.word(&function->func_kwdefaults);
        recorder.dictWord(function->func_kwdefaults, &asDict(function->func_kwdefaults)->version);
        result = Proof::kSameObject;
        break;
      case Code::kClosure:
        // A function keeps its cells and globals for life.
        if (proof == Proof::kSameObject) {
          result = Proof::kSameObject;
          break;
        }
        recorder.type(base, proof);
        recorder.word(&function->func_closure);
        recorder.word(&PyTuple_GET_ITEM(function->func_closure, op.hint));
        break;
      case Code::kFuncGlobals:
        if (proof == Proof::kSameObject) {
          result = Proof::kSameObject;
          break;
        }
        recorder.type(base, proof);
        recorder.word(&function->func_globals);
        break;
      case Code::kInstanceDict:
        if (PyObject** slot = dictSlot(base); slot != nullptr && *slot == value) {
          recorder.type(base, proof);
          recorder.dictSlot(base, slot, proof);
          break;
        }
        recorder.anew(op);
        result = Proof::kNone;
        break;
      case Code::kStep:
        if (proof == Proof::kSameObject && givesTheSame(op, base)) {
          // it may have been made for the asking; functions and classes are not
          if (!PyFunction_Check(value) && !PyType_Check(value))
            recorder.record.constants.push_back(newRef(value));
          result = Proof::kSameObject;
          break;
        }
        if (PyFunction_Check(base) && sourceOf(op).kind == SourceKind::kGenericAttr &&
            isName(op, "__code__")) {
          recorder.type(base, proof);
          recorder.word(&function->func_code);
          break;
        }
        [[fallthrough]];
      default:
        recorder.anew(op);
        result = Proof::kNone;
    }
  }
  if (op.dst != kNoRegister) recorder.proof[op.dst] = result;
}

void noteVersion(Recorder& recorder, const Op& op, PyTypeObject* type) {
  const uint32_t* version = stator_type_version_field(type);
  if (*version == 0 || (op.flags & kVolatile)) {
    recorder.anew(op);
  } else {
    recorder.word(reinterpret_cast<const uint64_t*>(version));
  }
}

}  // namespace stator::guards
