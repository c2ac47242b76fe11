#include "runtime/settings.h"

#include "base/hot.h"
#include "base/ref.h"
#include "base/text.h"

#include <cstdlib>
#include <string>
#include <string_view>

namespace stator::runtime {

STATOR_HOT ConfigValues& configValues() {
  static ConfigValues values;
  return values;
}

STATOR_HOT Statistics& statistics() {
  static Statistics values;
  return values;
}

bool setConfig(const char* name, PyObject* value) {
  ConfigValues& c = configValues();
  std::string_view text = name;
  auto integer = [&](int64_t& out) {
    out = PyLong_AsLongLong(value);
    return !(out == -1 && PyErr_Occurred());
  };
  if (text == "recompile_limit") return integer(c.recompile_limit);
  if (text == "accumulated_recompile_limit") return integer(c.accumulated_recompile_limit);
  if (text == "automatic_dynamic_shapes") c.automatic_dynamic_shapes = PyObject_IsTrue(value) == 1;
  if (text == "assume_static_by_default") c.assume_static_by_default = PyObject_IsTrue(value) == 1;
  if (text == "strict") c.strict = PyObject_IsTrue(value) == 1;
  if (text == "replay_record_enabled") c.replay_record_enabled = PyObject_IsTrue(value) == 1;
  if (text == "suppress_errors") c.suppress_errors = PyObject_IsTrue(value) == 1;
  if (text == "specialize_modules") c.specialize_modules = PyObject_IsTrue(value) == 1;
  if (text == "skip_fsdp_guards") c.skip_fsdp_guards = PyObject_IsTrue(value) == 1;
  if (text == "skip_nnmodule_hook_guards")
    c.skip_nnmodule_hook_guards = PyObject_IsTrue(value) == 1;
  if (text == "force_parameter_static_shapes")
    c.force_parameter_static_shapes = PyObject_IsTrue(value) == 1;
  if (text == "automatic_dynamic_shapes_mark_as")
    c.changed_is_unbacked = PyUnicode_CompareWithASCIIString(value, "unbacked") == 0;
  if (text == "specialize_int") c.specialize_int = PyObject_IsTrue(value) == 1;
  if (text == "guard_nn_modules") c.guard_nn_modules = PyObject_IsTrue(value) == 1;
  if (text == "trace_numpy") c.trace_numpy = PyObject_IsTrue(value) == 1;
  if (text == "allow_rnn") c.allow_rnn = PyObject_IsTrue(value) == 1;
  if (text == "only_allow_pt2_compliant_ops")
    c.only_compliant_operators = PyObject_IsTrue(value) == 1;
  if (text == "fail_on_recompile_limit_hit")
    c.fail_on_recompile_limit_hit = PyObject_IsTrue(value) == 1;
  if (text == "error_on_recompile") c.error_on_recompile = PyObject_IsTrue(value) == 1;
  if (text == "specialize_float") c.specialize_float = PyObject_IsTrue(value) == 1;
  if (text == "capture_scalar_outputs") c.capture_scalar_outputs = PyObject_IsTrue(value) == 1;
  if (text == "enable_compiler_collectives")
    c.enable_compiler_collectives = PyObject_IsTrue(value) == 1;
  if (text == "on_divergence")
    c.eager_on_divergence = PyUnicode_CompareWithASCIIString(value, "eager") == 0;
  if (text == "guard_collectives") c.guard_collectives = PyObject_IsTrue(value) == 1;
  if (text == "log_captures") c.log_captures = PyObject_IsTrue(value) == 1;
  if (text == "trace_dir") c.trace_dir = value != Py_None;
  if (text == "cache") c.cache = PyObject_IsTrue(value) == 1;
  if (text == "stance") {
    std::string_view stance = utf8(value);
    c.stance = stance == "force_eager"          ? Stance::kForceEager
               : stance == "eager_on_recompile" ? Stance::kEagerOnRecompile
               : stance == "fail_on_recompile"  ? Stance::kFailOnRecompile
               : stance == "eager_then_compile" || stance == "aot_eager_then_compile"
                   ? Stance::kEagerThenCompile
                   : Stance::kDefault;
  }
  if (text == "verbose") c.verbose = PyObject_IsTrue(value) == 1;
  if (text == "trace_limit_instructions") return integer(c.trace_limit_instructions);
  if (text == "trace_limit_nodes") return integer(c.trace_limit_nodes);
  if (text == "trace_limit_seconds") {
    c.trace_limit_seconds = PyFloat_AsDouble(value);
    return !PyErr_Occurred();
  }
  if (text == "break_every") {
    Ref<> spelled = stealRef(PyObject_Str(value));
    if (!spelled) return false;
    std::string setting = utf8(spelled.get());
    c.break_random = setting.rfind("random:", 0) == 0;
    c.break_seed = c.break_random ? std::strtoull(setting.c_str() + 7, nullptr, 10) : 0;
    // At random, one in five legal offsets.
    c.break_every = c.break_random ? 5 : std::strtoull(setting.c_str(), nullptr, 10);
  }
  return true;
}

}  // namespace stator::runtime
