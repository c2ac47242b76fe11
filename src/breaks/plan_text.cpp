#include "breaks/plan_text.h"

#include "base/text.h"
#include "python/fields.h"
#include "python/frame.h"

#include <algorithm>
#include <span>

namespace stator::breaks {

namespace {

std::string utf8(PyObject* text) {
  const char* data = text != nullptr && PyUnicode_Check(text) ? utf8OrNull(text) : nullptr;
  if (data == nullptr) PyErr_Clear();
  return data != nullptr ? data : "?";
}

class Describer {
 public:
  Describer(const Plan& plan, const PlanTerms& terms)
      : plan_(plan),
        terms_(terms),
        names_(static_cast<size_t>(plan.register_count)),
        makers_(static_cast<size_t>(plan.register_count)) {}

  PlanText run() {
    countUses();
    PlanText text;
    for (size_t i = 0; i < plan_.draws.size(); ++i)
      text.makes += "<random number " + std::to_string(i) + "> = " + draw(plan_.draws[i]) + "\n";
    for (size_t i = 0; i < plan_.steps.size(); ++i) {
      const std::string line = step(plan_.steps[i]);
      if (!line.empty()) (i < plan_.commit ? text.makes : text.changes) += line + "\n";
    }
    if (plan_.handled >= 0) text.changes += "handled exception = " + name(plan_.handled) + "\n";
    if (plan_.exit == ExitKind::kReturn) text.returned = name(plan_.returned);
    for (const FrameState& state : plan_.frames) text.frames.push_back(frame(state));
    return text;
  }

 private:
  // A value that is used once is written where it is used.
  void countUses() {
    uses_.resize(names_.size());
    auto use = [&](Register index) {
      if (index >= 0) ++uses_[static_cast<size_t>(index)];
    };
    for (const PlanStep& step : plan_.steps) std::ranges::for_each(step.operands, use);
    use(plan_.returned);
    use(plan_.handled);
    for (const FrameState& state : plan_.frames) {
      std::ranges::for_each(state.slots, use);
      std::ranges::for_each(state.stack, use);
      use(state.function);
      use(state.instance);
    }
  }

  std::string name(Register index) const {
    if (index == kKeep) return "as it is";
    return index < 0 ? "NULL" : names_[static_cast<size_t>(index)];
  }

  std::string list(std::span<const Register> operands) const {
    std::string text;
    for (Register index : operands) text += (text.empty() ? "" : ", ") + name(index);
    return text;
  }

  // A callable, or a class, by its name.
  std::string callable(PyObject* object) const {
    if (Py_TYPE(object) == &PyMethodDescr_Type || Py_TYPE(object) == &PyWrapperDescr_Type ||
        Py_TYPE(object) == &PyClassMethodDescr_Type) {
      return std::string(PyDescr_TYPE(object)->tp_name) + "." + utf8(PyDescr_NAME(object));
    }
    if (PyCFunction_Check(object)) return stator_function_method(object)->ml_name;
    if (PyFunction_Check(object))
      return utf8(reinterpret_cast<PyFunctionObject*>(object)->func_qualname);
    return terms_.show(object);
  }

  std::string draw(const Draw& draw) const {
    std::string text = draw.generator != nullptr
                           ? sources::print(*draw.generator, terms_.roots.code) + "."
                           : std::string();
    text += callable(draw.method.get()) + "(";
    if (draw.args) text += terms_.show(draw.args.get());
    if (draw.kwargs && draw.kwargs.get() != Py_None) text += ", " + terms_.show(draw.kwargs.get());
    return text + ")";
  }

  // The value that a step makes; empty: it makes none.
  std::string value(const PlanStep& step) const {
    const std::vector<Register>& of = step.operands;
    const std::string number = std::to_string(step.number);
    switch (step.op) {
      case PlanOp::kConstant:
        return terms_.show(step.object.get());
      case PlanOp::kSource:
      case PlanOp::kStackEntry:
        return sources::print(*step.source, terms_.roots.code);
      case PlanOp::kGraphOutput:
        return terms_.outputs[static_cast<size_t>(step.number)];
      case PlanOp::kTuple:
        return "(" + list(of) + (of.size() == 1 ? ",)" : ")");
      case PlanOp::kList:
        return "[]";
      case PlanOp::kDict:
        return "{}";
      case PlanOp::kSet:
        return "set()";
      case PlanOp::kFrozenSet:
        return step.object ? "frozenset as " + terms_.show(step.object.get()) +
                                 (of.empty() ? "" : " of " + list(of))
                           : "frozenset(" + list(of) + ")";
      case PlanOp::kSlice:
        return "slice(" + list(of) + ")";
      case PlanOp::kDeque:
        return "deque(maxlen=" + list(of) + ")";
      case PlanOp::kTupleOf:
      case PlanOp::kScalarOf:
      case PlanOp::kException:
      case PlanOp::kCall:
        return callable(step.object.get()) + "(" + list(of) + ")";
      case PlanOp::kNew:
        return "new " + (step.object ? terms_.show(step.object.get()) : list(of));
      case PlanOp::kCell:
        return "cell()";
      case PlanOp::kFunction:
        return "function(" + list(of) + ")";
      case PlanOp::kMethod:
        return "method(" + list(of) + ")";
      case PlanOp::kBoundBuiltin:
        return callable(step.object.get()) + " of " + list(of);
      case PlanOp::kAdvance:
        return list(of) + " after " + number + " items";
      case PlanOp::kIterator:
        return "iter(" + list(of) + ")" + (step.number != 0 ? " after " + number + " items" : "");
      case PlanOp::kReversed:
        return "reversed(" + list(of) + ")";
      case PlanOp::kGenerator:
        return "generator of " + list(of);
      default:
        return "";
    }
  }

  std::string generatorState(const PlanStep& step) const {
    const std::span<const Register> of = step.operands;
    if (step.number == GeneratorState::kFresh) return " not begun, with " + list(of.subspan(2));
    if (step.number == GeneratorState::kEnded) return " ended";
    const auto slots = static_cast<size_t>(step.number >> 32);
    std::string text = " at offset " + std::to_string(static_cast<int32_t>(step.number)) +
                       ", slots " + list(of.subspan(2, slots)) + ", stack " +
                       list(of.subspan(2 + slots));
    return of[1] >= 0 ? text + ", handles " + name(of[1]) : text;
  }

  // What a step does to its first operand.
  std::string deed(const PlanStep& step) const {
    const std::vector<Register>& of = step.operands;
    auto at = [&](size_t i) { return name(of[i]); };
    const std::string number = std::to_string(step.number);
    switch (step.op) {
      case PlanOp::kListExtend:
        return of.size() == 1 ? "" : at(0) + " += [" + list(std::span(of).subspan(1)) + "]";
      case PlanOp::kDictSet:
      case PlanOp::kDictStore:
        return at(0) + "[" + at(1) + "] = " + at(2);
      case PlanOp::kDictSetHashed:
        return at(0) + "[" + at(1) + "] = " + at(2) + ", without its __hash__";
      case PlanOp::kSetAdd:
        return at(0) + ".add(" + at(1) + ")";
      case PlanOp::kSetOfTable:
        return at(0) + " = {" + list(std::span(of).subspan(1)) + "}, without their __hash__";
      case PlanOp::kAttributeSet:
      case PlanOp::kEntrySet:
      case PlanOp::kTypeAttributeSet:
        return at(0) + "." + utf8(step.object.get()) + " = " + at(1);
      case PlanOp::kAttributeDelete:
      case PlanOp::kTypeAttributeDelete:
        return "del " + at(0) + "." + utf8(step.object.get());
      case PlanOp::kCellSet:
        return at(0) + ".cell_contents = " + at(1);
      case PlanOp::kDefaultFactory:
        return at(0) + ".default_factory = " + at(1);
      case PlanOp::kListReplace:
        return at(0) + "[:] = " + at(1);
      case PlanOp::kDictReplace:
      case PlanOp::kSetReplace:
        return at(0) + " gets the contents of " + at(1);
      case PlanOp::kDictDelete:
        return "del " + at(0) + "[" + at(1) + "]";
      case PlanOp::kLruHit:
        return at(0) + ".cache is hit by " + at(1);
      case PlanOp::kLruStore:
        return at(0) + ".cache[" + at(1) + "] = " + at(2);
      case PlanOp::kGeneratorFill:
        return at(0) + generatorState(step);
      case PlanOp::kSkip:
        return at(0) + " gives " + number + " items";
      case PlanOp::kSeek:
        return at(0) + " goes to item " + number;
      case PlanOp::kSeekEntry:
        return at(0) + " goes to item " + number + " of " + at(1);
      case PlanOp::kEffectCall:
        return callable(step.object.get()) + "(" + list(of) + ")";
      default:
        return "?";
    }
  }

  // The line of a step; empty: its value is written where it is used.
  std::string step(const PlanStep& step) {
    if (step.result < 0) return deed(step);
    const auto result = static_cast<size_t>(step.result);
    makers_[result] = &step;
    std::string made = value(step);
    const bool plain = step.op == PlanOp::kConstant || step.op == PlanOp::kSource ||
                       step.op == PlanOp::kStackEntry || step.op == PlanOp::kGraphOutput;
    const bool written_once = step.op == PlanOp::kTuple || step.op == PlanOp::kSlice ||
                              step.op == PlanOp::kMethod || step.op == PlanOp::kTupleOf;
    if (plain || (written_once && uses_[result] <= 1)) {
      names_[result] = std::move(made);
      return "";
    }
    names_[result] = "$" + std::to_string(named_++);
    return names_[result] + " = " + made;
  }

  // The code of a function that a register holds, where that can be told.
  Ref<PyCodeObject> codeOf(Register index) const {
    const PlanStep* maker = index >= 0 ? makers_[static_cast<size_t>(index)] : nullptr;
    if (maker == nullptr) return Ref<PyCodeObject>();
    if (maker->op == PlanOp::kFunction) {
      const PlanStep* code = makers_[static_cast<size_t>(maker->operands[0])];
      if (code != nullptr && code->object && PyCode_Check(code->object.get()))
        return Ref<PyCodeObject>::create(reinterpret_cast<PyCodeObject*>(code->object.get()));
      return Ref<PyCodeObject>();
    }
    Ref<> function = maker->object;
    if (maker->op == PlanOp::kSource) {
      for (const sources::Source* at = maker->source; at != nullptr; at = at->base) {
        if (at->kind == sources::SourceKind::kAsked || at->kind == sources::SourceKind::kDrawn)
          return Ref<PyCodeObject>();
      }
      function = sources::read(*maker->source, terms_.roots);
      PyErr_Clear();
    }
    if (!function || !PyFunction_Check(function.get())) return Ref<PyCodeObject>();
    return Ref<PyCodeObject>::create(
        reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function.get())));
  }

  FrameText frame(const FrameState& state) const {
    FrameText text;
    const bool driven = &state == &plan_.frames.front();
    text.code = driven ? Ref<PyCodeObject>::create(terms_.roots.code) : codeOf(state.function);
    text.offset = state.offset;
    text.continuation = state.continuation;
    for (size_t i = 0; i < state.slots.size(); ++i) {
      const Register index = state.slots[i];
      if (index == kKeep || (index == kNull && !driven)) continue;
      const std::string slot = text.code
                                   ? utf8(PyTuple_GET_ITEM(stator_code_slot_names(text.code.get()),
                                                           static_cast<Py_ssize_t>(i)))
                                   : "slot " + std::to_string(i);
      text.written += index == kNull ? "del " + slot + "\n" : slot + " = " + name(index) + "\n";
    }
    if (!state.stack.empty()) text.written += "stack: " + list(state.stack) + "\n";
    if (state.instance >= 0) text.written += "instance: " + name(state.instance) + "\n";
    return text;
  }

  const Plan& plan_;
  const PlanTerms& terms_;
  std::vector<std::string> names_;  // by register
  std::vector<const PlanStep*> makers_;
  std::vector<int> uses_;
  int named_ = 0;
};

}  // namespace

PlanText describe(const Plan& plan, const PlanTerms& terms) { return Describer(plan, terms).run(); }

}  // namespace stator::breaks
