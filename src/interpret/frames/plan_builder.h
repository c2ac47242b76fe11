// What escapes from a trace, as steps that make it again: one register for each object, however often it is referred
// to.
#pragma once

#include "breaks/plan.h"
#include "interpret/core/tracer.h"

#include <optional>
#include <unordered_map>

namespace stator::interpret {

struct TraceIterator;

// aliases.cpp: guards for what was written and must not turn out to be something else that was read. False: it is, and
// the trace has not seen it.
bool addAliasGuards(Tracer& tracer);

class PlanBuilder {
 public:
  PlanBuilder(Tracer& tracer, breaks::Plan& plan);
  bool failed() const { return failed_; }
  breaks::Register value(PyObject* object);
  // Some step so far gives it.
  bool makes(PyObject* object) const { return memo_.count(object) != 0; }
  void effect(breaks::PlanOp op, Ref<> object, std::vector<breaks::Register> operands,
              int64_t number = 0);
  // An iterator from outside goes to where the trace has taken it (objects/outside_iterators.h).
  void moveOutside(const values::Info& info);
  // A generator that stands inside of `try` or `with` and that nobody holds any more: eager closed it when it was
  // dropped, which ran the rest of it. When that was, the trace does not know.
  void checkDropped();
  void finish();
  // Puts the generator in the register into the state of a real one.
  void setRandomState(breaks::Register target, PyObject* generator, bool is_effect);
  // What the frame's stack held at the entry, unread.
  breaks::Register stackEntry(size_t index);
  // A fresh container with the contents of a shadow.
  breaks::Register rebuilt(PyObject* container) { return build(container); }

 private:
  breaks::Register add(breaks::PlanOp op, PyObject* key, Ref<> object = Ref<>(),
                       std::vector<breaks::Register> operands = {}, int64_t number = 0);
  void fill(breaks::PlanOp op, std::vector<breaks::Register> operands, Ref<> object = Ref<>());
  static PyObject* viewed(PyObject* container);
  // Whether the plan writes to an outside dict or set (or the one behind a view).
  bool written(PyObject* container);
  // The position of a list's iterator, set when all lists have their contents.
  void seek(breaks::Register iterator, int64_t position);
  // What C's own methods of dicts take: the dict behind a proxy, anything else as it is.
  breaks::Register dictBehind(PyObject* object);
  // A tuple may hold itself by way of a list: then it has been made on the way to its own items.
  breaks::Register tuple(PyObject* object);
  bool madeHere(PyObject* object);
  bool isNewTypeParameter(PyObject* object);
  breaks::Register constant(PyObject* object) {
    return add(breaks::PlanOp::kConstant, object, newRef(object));
  }
  breaks::Register fail(PyObject* object);
  breaks::Register unmadeText(PyObject* text);
  std::vector<breaks::Register> sequence(PyObject* items);
  void fillDict(breaks::Register target, PyObject* dict);
  // Under the hashes that the trace has computed: neither __hash__ nor __eq__ runs again.
  void fillUserKeyed(breaks::Register target, PyObject* dict);
  void fillList(breaks::Register target, PyObject* list);
  void fillSet(breaks::Register target, PyObject* set);
  Ref<> tableOfOwnKeys(PyObject* set, std::vector<breaks::Register>& elements);
  Ref<> setOfConstants(PyObject* set);
  void fillAttributes(breaks::Register target, PyObject* object);
  breaks::Register function(PyObject* object);
  // First the generator, then, when all is made, what its frame holds: this may hold the generator in turn.
  breaks::Register generator(PyObject* object);
  breaks::PlanStep generatorState(breaks::Register generator, const TraceIterator* it);
  breaks::Register iterator(PyObject* object);
  breaks::Register spentIterator(PyObject* object);  // of the same type, at its end
  // What is handed to zip and its kin, which ask it for its iterator: the program's own `__iter__` has run.
  breaks::Register handed(PyObject* iterator);
  // `__setstate__` of a C iterator, after it was made.
  breaks::Register withState(breaks::Register iterator, breaks::Register state);
  breaks::Register itertools(PyObject* object);
  // Computed from what the symbols stand for, by Python's own operators: no size limits.
  breaks::Register symbolicInt(const symbolic::Expr* expr);
  breaks::Register build(PyObject* object);
  breaks::Register outside(PyObject* object, const values::Info& info);
  breaks::Register scalar(PyObject* object);
  // What a graph computes or is given.
  breaks::Register standIn(PyObject* object);
  breaks::Register symbolicScalar(PyObject* object);
  breaks::Register address(PyObject* object);
  // Exact types of containers; without a value: it is none.
  std::optional<breaks::Register> container(PyObject* object);
  breaks::Register dict(PyObject* object);
  breaks::Register ownDict(PyObject* owner, PyObject* dict);
  breaks::Register range(PyObject* object);
  std::optional<breaks::Register> madeOfParts(PyObject* object);
  breaks::Register frozenSet(PyObject* object);
  breaks::Register view(PyObject* object);
  breaks::Register deque(PyObject* object);
  // Functions, methods, weak references and what else calls what it holds; without a value: it is none.
  std::optional<breaks::Register> callable(PyObject* object);
  breaks::Register method(PyObject* object);
  breaks::Register partial(PyObject* object);
  breaks::Register newOf(PyObject* object);
  breaks::Register exception(PyObject* object);
  breaks::Register instance(PyObject* object);
  std::optional<breaks::Register> nativeInstance(PyObject* object);
  breaks::Register array(PyObject* object);
  breaks::Register attentionParameters(PyObject* object);
  // operator.itemgetter and its kin: made again from what they were made of.
  breaks::Register getter(PyObject* object);
  breaks::Register dictLike(PyObject* object, PyTypeObject* type);

  Tracer& t_;
  breaks::Plan& plan_;
  std::unordered_map<const symbolic::Expr*, breaks::Register> symbolic_;
  std::unordered_map<PyObject*, breaks::Register> memo_;
  std::unordered_map<PyObject*, PyObject*> owner_of_;
  std::vector<breaks::PlanStep> effects_;
  std::vector<breaks::PlanStep> seeks_;
  breaks::Register next_ = 0;
  bool failed_ = false;
};

}  // namespace stator::interpret
