#include "breaks/draws.h"

#include "base/error_aside.h"
#include "base/imports.h"

#include <string_view>

namespace stator::breaks {

namespace {

// NumPy's generators have other names for it.
bool isPythons(PyObject* generator) {
  return std::string_view(Py_TYPE(generator)->tp_name) == "Random";
}

// Of the C base: random.Random's own methods are Python.
PyObject* baseMethod(const char* name) {
  Ref<> module = stealRef(importModule("_random"));
  Ref<> base = module ? stealRef(PyObject_GetAttrString(module.get(), "Random")) : Ref<>();
  return base ? PyObject_GetAttrString(base.get(), name) : nullptr;  // kept for good
}

PyObject* gaussName() {
  static PyObject* const name = PyUnicode_InternFromString("gauss_next");
  return name;
}

}  // namespace

bool Draws::run(const Plan& plan, const sources::Roots& roots) {
  static PyObject* const get_state = baseMethod("getstate");
  for (const Draw& draw : plan.draws) {
    if (draw.generator == nullptr) {
      const size_t position = values_.size();
      Ref<> made = position < kept_.size() && kept_[position]
                       ? kept_[position]
                       : stealRef(PyObject_Call(draw.method.get(), draw.args.get(), nullptr));
      if (!made) {
        undo();
        return false;
      }
      if (kept_.size() <= position) kept_.resize(position + 1);
      kept_[position] = made;
      values_.push_back(std::move(made));
      continue;
    }
    Ref<> generator = sources::read(*draw.generator, roots);
    if (!generator || get_state == nullptr) {
      if (!PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, "a random generator is gone");
      undo();
      return false;
    }
    bool known = false;
    for (const Before& before : before_) known |= before.generator.get() == generator.get();
    if (!known) {
      const bool pythons = isPythons(generator.get());
      Ref<> state = stealRef(pythons ? PyObject_CallOneArg(get_state, generator.get())
                                     : PyObject_CallMethod(generator.get(), "get_state", nullptr));
      Ref<> gauss = !state    ? Ref<>()
                    : pythons ? stealRef(PyObject_GetAttr(generator.get(), gaussName()))
                              : newRef(Py_None);
      if (gauss) before_.push_back({generator, state, gauss});
    }
    Ref<> all_args = stealRef(PyTuple_New(PyTuple_GET_SIZE(draw.args.get()) + 1));
    Ref<> value;
    if (all_args && !PyErr_Occurred()) {
      PyTuple_SET_ITEM(all_args.get(), 0, generator.release());
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(draw.args.get()); ++i)
        PyTuple_SET_ITEM(all_args.get(), i + 1, Py_NewRef(PyTuple_GET_ITEM(draw.args.get(), i)));
      value = stealRef(PyObject_Call(draw.method.get(), all_args.get(), draw.kwargs.get()));
    }
    if (!value) {
      undo();
      return false;
    }
    values_.push_back(std::move(value));
  }
  return true;
}

void Draws::undo() {
  ErrorKept kept;  // before anything else: an import would lose it
  static PyObject* const set_state = baseMethod("setstate");
  for (const Before& before : before_) {
    if (!isPythons(before.generator.get())) {
      Ref<> done = stealRef(
          PyObject_CallMethod(before.generator.get(), "set_state", "O", before.state.get()));
      if (!done) PyErr_Clear();
      continue;
    }
    Ref<> done = stealRef(PyObject_CallFunctionObjArgs(set_state, before.generator.get(),
                                                       before.state.get(), nullptr));
    if (!done ||
        PyObject_SetAttr(before.generator.get(), gaussName(), before.gauss_next.get()) != 0)
      PyErr_Clear();
  }
  before_.clear();
  values_.clear();
}

}  // namespace stator::breaks
