// Dicts and sets whose keys have a __hash__ or __eq__ of their own, written in Python: the trace has to run these
// methods itself, at the moments at which CPython's dict or set would. So the native operation is run on a copy, with
// the slots of the classes concerned answered from a list. The first question that the list does not know ends this
// trial; the trace runs the method, adds what it gave, and tries again. With all answers known the operation is done
// for real. So the calls and their order are CPython's, in tuples and frozensets too.
#include "interpret/objects/keys.h"

#include "base/check.h"
#include "base/stack_room.h"
#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/core/symbols.h"
#include "interpret/core/trace_iterator.h"
#include "interpret/core/tracer.h"
#include "interpret/objects/class_lookups.h"
#include "interpret/objects/contents.h"
#include "interpret/objects/lookups.h"
#include "interpret/objects/operators.h"
#include "interpret/objects/scalars.h"
#include "interpret/objects/special_methods.h"
#include "interpret/objects/truth.h"
#include "python/objects.h"
#include "python/types.h"
#include "symbolic/sym_int.h"
#include "tensor/meta_of.h"
#include "values/dicts.h"

namespace stator::interpret {

namespace {

struct Answer {
  Ref<> self, other;  // other null: the hash of self
  int operation = Py_EQ;
  Py_hash_t value = 0;
  bool raises = false;
};

struct Answers {
  std::vector<Answer> known;
  size_t next = 0;
  bool open = false;     // the trial ended with a question
  bool strayed = false;  // another question than in the trial before
  Answer question;
  Ref<> raised;
  bool all_differ = false;  // no two keys are equal
};

// Of the scope that is open; the interpreter lock is held as long as it is.
Answers* current = nullptr;

// What the operation is told; false with an error set: it has to end here.
bool ask(PyObject* self, PyObject* other, int operation, Py_hash_t& value) {
  Answers& answers = *current;
  if (answers.next < answers.known.size()) {
    const Answer& answer = answers.known[answers.next];
    if (answer.self.get() == self && answer.other.get() == other && answer.operation == operation) {
      answers.next++;
      if (answer.raises) {
        PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(answers.raised.get())),
                        answers.raised.get());
        return false;
      }
      value = answer.value;
      return true;
    }
    answers.strayed = true;
  }
  if (!answers.open) {
    answers.open = true;
    answers.question = {newRef(self), Ref<>::create(other), operation};
  }
  PyErr_SetString(PyExc_RuntimeError, "a question about a key");
  return false;
}

Py_hash_t askHash(PyObject* self) {
  Py_hash_t value = -1;
  return ask(self, nullptr, Py_EQ, value) ? value : -1;
}

PyObject* askEqual(PyObject* self, PyObject* other, int operation) {
  if (current->all_differ) return Py_NewRef(operation == Py_NE ? Py_True : Py_False);
  Py_hash_t value = 0;
  if (!ask(self, other, operation, value)) return nullptr;
  return Py_NewRef(value != 0 ? Py_True : Py_False);
}

bool isPythonMethod(PyTypeObject* type, PyObject* name) {
  PyObject* found = _PyType_Lookup(type, name);
  return found != nullptr && PyFunction_Check(found);
}

PyObject* hashName() {
  static PyObject* const name = PyUnicode_InternFromString("__hash__");
  return name;
}
PyObject* equalName() {
  static PyObject* const name = PyUnicode_InternFromString("__eq__");
  return name;
}

// The classes' slots are ours meanwhile. No Python code may run: it would see them.
class AnswerScope {
 public:
  AnswerScope(const std::vector<Ref<>>& types, Answers& answers) : types_(types) {
    collects_ = PyGC_Disable();
    answers.next = 0;
    answers.open = false;
    current = &answers;
    for (const Ref<>& held : types_) {
      auto* type = reinterpret_cast<PyTypeObject*>(held.get());
      slots_.push_back({type->tp_hash, type->tp_richcompare});
      if (isPythonMethod(type, hashName())) type->tp_hash = askHash;
      type->tp_richcompare = askEqual;
    }
  }
  ~AnswerScope() {
    for (size_t i = 0; i < types_.size(); ++i) {
      auto* type = reinterpret_cast<PyTypeObject*>(types_[i].get());
      type->tp_hash = slots_[i].first;
      type->tp_richcompare = slots_[i].second;
    }
    current = nullptr;
    if (collects_ != 0) PyGC_Enable();
  }
  AnswerScope(const AnswerScope&) = delete;
  AnswerScope& operator=(const AnswerScope&) = delete;

 private:
  const std::vector<Ref<>>& types_;
  std::vector<std::pair<hashfunc, richcmpfunc>> slots_;
  int collects_ = 0;
};

// With the same table; nothing is hashed or compared for it.
Ref<> copyOf(PyObject* container) {
  if (PyDict_CheckExact(container)) return stealRef(PyDict_Copy(container));
  if (PyDict_Check(container)) {
    Ref<> copy = stealRef(PyDict_New());
    return copy && values::dictFill(copy.get(), container) ? copy : Ref<>();
  }
  return stealRef(stator_set_like(&PySet_Type, container));
}

bool isPlainTuple(PyObject* key) {
  return PyTuple_Check(key) && Py_TYPE(key)->tp_hash == PyTuple_Type.tp_hash &&
         Py_TYPE(key)->tp_richcompare == PyTuple_Type.tp_richcompare;
}

bool isOwnKey(PyObject* key) {
  PyTypeObject* type = Py_TYPE(key);
  if (!stator_is_user_class(type) || graph::isStandIn(key) || isTraceIterator(key) ||
      isAddress(key) || tensor::isTensor(key) || PyList_Check(key) || PyDict_Check(key) ||
      PyAnySet_Check(key) || type->tp_hash == PyObject_HashNotImplemented)
    return false;
  if (isPythonMethod(type, hashName())) return true;
  return isPythonMethod(type, equalName()) &&
         (type->tp_hash == PyBaseObject_Type.tp_hash || type->tp_hash == PyUnicode_Type.tp_hash ||
          type->tp_hash == PyLong_Type.tp_hash || type->tp_hash == PyFloat_Type.tp_hash ||
          type->tp_hash == PyBytes_Type.tp_hash || type->tp_hash == PyTuple_Type.tp_hash);
}

// Every key of a dict or set, or item of a tuple; stops and is true where `test` is.
template <typename Test>
bool anyKey(PyObject* container, const Test& test) {
  PyObject *key = nullptr, *value = nullptr;
  Py_ssize_t position = 0;
  Py_hash_t hash = 0;
  if (PyDict_Check(container)) {
    while (PyDict_Next(container, &position, &key, &value)) {
      if (test(key)) return true;
    }
  } else if (PyAnySet_Check(container)) {
    while (_PySet_NextEntry(container, &position, &key, &hash)) {
      if (test(key)) return true;
    }
  } else if (PyTuple_Check(container)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(container); ++i) {
      if (test(PyTuple_GET_ITEM(container, i))) return true;
    }
  }
  return false;
}

}  // namespace

Out hashOf(Tracer& tracer, PyObject* value) {
  STATOR_VALUE(bound, special(tracer, value, "__hash__"));
  if (!bound)
    return tracer.raiseNew(PyExc_TypeError, "unhashable type: '%.200s'", Py_TYPE(value)->tp_name);
  STATOR_VALUE(result, tracer.above.callNested(bound.get(), {}));
  if (symbolic::isSymbol(result.get())) result = concrete(tracer, result.get());
  if (isAddress(result.get())) return result;
  // CPython reduces what does not fit a machine word, and takes -1 for an error.
  if (!PyLong_Check(result.get())) {
    if (graph::isStandIn(result.get()) || !isNativeSafe(tracer, result.get()))
      return tracer.breakWith(Reason::kUnsupportedObject, "a __hash__ that gives no int");
    return tracer.raiseNew(PyExc_TypeError, "__hash__ method should return an integer");
  }
  Py_ssize_t hash = PyLong_AsSsize_t(result.get());
  if (hash == -1 && PyErr_Occurred()) {
    PyErr_Clear();
    hash = PyLong_Type.tp_hash(result.get());
  }
  return stealRef(PyLong_FromSsize_t(hash == -1 ? -2 : hash));
}

bool hasOwnKeys(Tracer& tracer, PyObject* value) {
  needStack();
  if (graph::isStandIn(value) || values::isScalar(value)) return false;
  if (PyDict_Check(value) || PyAnySet_Check(value))
    return anyKey(value, [&](PyObject* key) { return hasOwnKeys(tracer, key); });
  if (isPlainTuple(value))
    return anyKey(value, [&](PyObject* item) { return hasOwnKeys(tracer, item); });
  return !isStaticKey(value) && isOwnKey(value);
}

Flow noteOwnKeys(Tracer& tracer, PyObject* key) {
  needStack();
  if (hashableNatively(tracer, key)) return Flow::kOk;
  if (graph::isStandIn(key)) return Flow::kOk;
  if (isPlainTuple(key) || PyFrozenSet_CheckExact(key)) {
    if (!tracer.isMade(key))
      return tracer.breakWith(
          Reason::kUnsupportedObject,
          "a tuple from outside with keys that have their own __hash__ or __eq__");
    Flow flow = Flow::kOk;
    anyKey(key, [&](PyObject* item) { return (flow = noteOwnKeys(tracer, item)) != Flow::kOk; });
    return flow;
  }
  // The native operation says so itself, after it has hashed what comes before.
  if (Py_TYPE(key)->tp_hash == PyObject_HashNotImplemented) return Flow::kOk;
  if (!isOwnKey(key))
    return tracer.breakWith(Reason::kUnsupportedObject,
                            "a key or element with its own __hash__ or __eq__");
  // What the class has under these names decides how it is hashed.
  STATOR_VALUE(hash, typeLookup(tracer, Py_TYPE(key), hashName()));
  STATOR_VALUE(equal, typeLookup(tracer, Py_TYPE(key), equalName()));
  if (Py_TYPE(key)->tp_hash == PyBaseObject_Type.tp_hash) noteIdentity(tracer, key);
  tracer.own_keys.add(Py_TYPE(key));
  return Flow::kOk;
}

Out withOwnKeys(Tracer& tracer, PyObject* changed, const KeyedOperation& operation) {
  if (tracer.own_keys.any()) return answerKeys(tracer, changed, operation);
  Ref<> result = stealRef(operation(changed));
  if (!result && PyErr_Occurred()) return tracer.raiseCurrentError();
  return result;
}

Out answerKeys(Tracer& tracer, PyObject* changed, const KeyedOperation& operation) {
  Answers answers;
  // An OrderedDict hashes its keys when it is copied: it gets none of these.
  // Nor does a dict whose class iterates in a way of its own, which CPython's copy would ask.
  const bool ordered = changed != nullptr && PyDict_Check(changed) &&
                       (PyODict_Check(changed) || Py_TYPE(changed)->tp_iter != PyDict_Type.tp_iter);
  for (;;) {
    // What the operation lets go of stays alive until Python code may run.
    Ref<> trial = changed != nullptr && !ordered ? copyOf(changed) : Ref<>::create(changed);
    Ref<> result;
    {
      AnswerScope scope(tracer.own_keys.types(), answers);
      result = stealRef(operation(trial.get()));
    }
    if (!answers.open) {
      if (trial.get() != changed) {
        PyErr_Clear();
        AnswerScope scope(tracer.own_keys.types(), answers);
        result = stealRef(operation(changed));
        STATOR_CHECK(!answers.open, "the second run of an operation asks what the first did not");
      }
      if (result || !PyErr_Occurred()) return result;
      if (answers.raised &&
          PyErr_ExceptionMatches(reinterpret_cast<PyObject*>(Py_TYPE(answers.raised.get())))) {
        PyErr_Clear();
        tracer.errors.setRaised(answers.raised);
        return Flow::kRaise;
      }
      return tracer.raiseCurrentError();
    }
    PyErr_Clear();
    result.reset();
    if (ordered)
      return tracer.breakWith(Reason::kUnsupportedObject,
                              "an OrderedDict whose keys have their own __hash__ or __eq__");
    if (answers.strayed || answers.known.size() > 100'000)
      return tracer.breakWith(Reason::kUnsupportedObject,
                              "keys that change while they are compared");
    Answer answer = std::move(answers.question);
    tracer.frames.commit();
    Out told = Ref<>();
    if (!answer.other) {
      told = hashOf(tracer, answer.self.get());
    } else {
      STATOR_VALUE(identical, same(tracer, answer.self.get(), answer.other.get()));
      told = tracer.above.runEntered(
          compare(tracer, answer.operation, answer.self.get(), answer.other.get()));
      if (told.ok()) told = truth(tracer, told.get());
    }
    if (told.flow() == Flow::kRaise) {
      answer.raises = true;
      answers.raised = tracer.errors.takeRaised();
    } else if (!told.ok()) {
      return told.flow();
    } else if (answer.other) {
      answer.value = told.get() == Py_True ? 1 : 0;
    } else {
      // Not the hash of the number: CPython takes what fits a machine word as it is.
      answer.value = PyLong_AsSsize_t(told.get());
      if (isAddress(told.get())) {
        if (answer.value == -1) PyErr_Clear();
        tracer.world.keep(answer.self);
        tracer.own_keys.noteHashedByAddress(answer.self.get());
      }
    }
    answers.known.push_back(std::move(answer));
  }
}

bool addKey(Tracer& tracer, PyObject* dict, PyObject* key, PyObject* value, Py_hash_t hash) {
  if (hash == -1) hash = PyObject_Hash(key);
  if (hash == -1) return false;
  Answers answers;
  answers.all_differ = true;
  AnswerScope scope(tracer.own_keys.types(), answers);
  return _PyDict_SetItem_KnownHash(dict, key, value, hash) == 0;
}

// Whether the hash that the trace knows is the one that the key has when it is made again.
bool sameHashAtExit(Tracer& tracer, PyObject* key) {
  needStack();
  if (graph::isStandIn(key) || isTraceIterator(key) || isAddress(key) ||
      tracer.own_keys.hashedByAddress(key))
    return false;
  if (values::isScalar(key)) return true;
  if (isPlainTuple(key) || PyFrozenSet_CheckExact(key))
    return !anyKey(key, [&](PyObject* item) { return !sameHashAtExit(tracer, item); });
  // A function that the trace made or knows by its code, or a member that it made, may be another object in each call.
  values::Info* info = tracer.values.find(key);
  if (info != nullptr &&
      (PyFunction_Check(key) || (info->origin == values::Origin::kMade && isEnumMember(key))))
    return false;
  if (isStaticKey(key)) return true;
  return Py_TYPE(key)->tp_hash != PyBaseObject_Type.tp_hash;
}

Out tupleHash(Tracer& tracer, PyObject* tuple) {
  STATOR_VALUE(items, plain(tracer, tuple));
  STATOR_FLOW(requireHashable(tracer, items.get()));
  STATOR_VALUE(number, withOwnKeys(tracer, nullptr, [&](PyObject*) -> PyObject* {
                 Py_hash_t hash = PyObject_Hash(items.get());
                 return hash == -1 ? nullptr : PyLong_FromSsize_t(hash);
               }));
  if (sameHashAtExit(tracer, items.get())) return number;
  // A number that nobody knows yet: equal to the hash of what is hashed to the same now, and told at the exit.
  Ref<>& known = tracer.own_keys.tupleHash(PyLong_AsSsize_t(number.get()));
  if (!known) {
    STATOR_VALUE(address, addressOfNumber(tracer, items.get(), number.get()));
    known = std::move(address);
  }
  return known;
}

}  // namespace stator::interpret
