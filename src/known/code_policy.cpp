#include "known/code_policy.h"

#include "base/error_aside.h"
#include "base/imports.h"
#include "base/ref.h"
#include "base/text.h"
#include "bytecode/code_info.h"

#include <array>
#include <string>
#include <string_view>

namespace stator::known {

namespace {

std::string prefixOf(const char* module) {
  Ref<> imported = stealRef(importModule(module));
  Ref<> file = imported ? stealRef(PyObject_GetAttrString(imported.get(), "__file__")) : Ref<>();
  if (!file) {
    PyErr_Clear();
    return "";
  }
  std::string path = utf8(file.get());
  return path.substr(0, path.rfind('/') + 1);
}

bool startsWith(std::string_view text, std::string_view prefix) {
  return !prefix.empty() && text.substr(0, prefix.size()) == prefix;
}

struct Names {
  std::string_view name, qualified;
};

// By file and names alone: `inside` is the file's path in its library.
CodePolicy ofTorch(std::string_view inside, const Names& names) {
  // Of a module's own methods nothing is captured when library code calls them (DDP and FSDP do, all the time); in a
  // trace they are inlined. The part of __call__ that sees to hooks is the exception.
  if (inside == "nn/modules/module.py" || inside == "nn/parameter.py")
    return names.name == "inner" ? CodePolicy::kTrace : CodePolicy::kInlineOnly;
  if ((inside == "jit/_script.py" && names.name == "_unwrap_optional") ||
      (inside == "jit/__init__.py" && names.name == "annotate") ||
      (inside == "fx/_symbolic_trace.py" && startsWith(names.qualified, "ProxyableClassMeta.")) ||
      (inside == "overrides.py" &&
       (names.name == "is_tensor_like" || names.name == "__torch_function__" ||
        names.name == "_push_mode" || names.name == "_pop_mode" ||
        startsWith(names.qualified, "_get_current_function_mode")))) {
    return CodePolicy::kInlineOnly;
  }
  // What torch compiles when eager code calls torch.cond and its relatives.
  if (startsWith(inside, "_higher_order_ops/") &&
      (names.name.ends_with("_op_wrapper") || startsWith(names.name, "run_flattened_")))
    return CodePolicy::kTrace;
  for (std::string_view file_of_operators : {"cond.py", "while_loop.py", "map.py", "scan.py"}) {
    if (inside != std::string("_higher_order_ops/").append(file_of_operators)) continue;
    if (names.qualified.find("<locals>") != std::string_view::npos ||
        names.name == "wrap_combine_fn_flat")
      return CodePolicy::kInlineOnly;
  }
  // torch's own error_on_graph_break: what it sets and asks has handlers.
  if (inside == "_dynamo/decorators.py" &&
      (names.name == "error_on_graph_break" ||
       startsWith(names.qualified, "ErrorOnGraphBreakDecoratorContextManager.")))
    return CodePolicy::kInlineOnly;
  // Around `apply` of an autograd function: only an export asks for more than the call (ModIndex, behind masks made by
  // vmap).
  if (inside == "_export/wrappers.py" &&
      startsWith(names.qualified, "allow_in_pre_dispatch_graph."))
    return CodePolicy::kInlineOnly;
  // dist.group.WORLD: two properties that read an attribute.
  if (inside == "distributed/distributed_c10d.py" &&
      (names.name == "WORLD" || names.name == "default_pg"))
    return CodePolicy::kInlineOnly;
  // How large the memory of a parameter is.
  if (inside == "distributed/fsdp/_flat_param.py" &&
      (names.name == "_same_storage_size" || names.name == "_storage_size_allocated"))
    return CodePolicy::kInlineOnly;
  // DistributedDataParallel's own bookkeeping talks to its reducer at every step; the module inside is captured.
  if (startsWith(inside, "nn/parallel/")) return CodePolicy::kSkip;
  // A step is decided by data from line to line: pieces of it cost more than they save. What it calls back is captured.
  if (inside == "optim/lbfgs.py" || inside == "optim/sparse_adam.py") return CodePolicy::kSkip;
  for (std::string_view room : {"nn/", "optim/", "distributions/"}) {
    if (startsWith(inside, room)) return CodePolicy::kTrace;
  }
  // Kinds of tensors that torch's tests are written with, which others' tests are too.
  if (inside == "testing/_internal/two_tensor.py" || inside == "testing/_internal/subclasses.py" ||
      inside == "testing/_internal/custom_tensor.py")
    return CodePolicy::kInlineOnly;
  for (std::string_view file_of_functions :
       {"_functorch/apis.py", "_functorch/vmap.py", "_functorch/functional_call.py",
        "_functorch/_aot_autograd/subclass_parametrization.py",
        "_dynamo/_trace_wrapped_higher_order_op.py", "_higher_order_ops/associative_scan.py",
        "distributed/_functional_collectives.py", "fx/_pytree.py", "_dynamo/external_utils.py"}) {
    if (inside == file_of_functions) return CodePolicy::kInlineOnly;
  }
  for (std::string_view room : {"_dynamo/",     "_inductor/",
                                "_subclasses/", "fx/",
                                "_functorch/",  "_guards.py",
                                "testing/",     "_logging/",
                                "distributed/", "multiprocessing/",
                                "jit/",         "onnx/",
                                "package/",     "export/",
                                "_export/",     "compiler/",
                                "_prims",       "_refs/",
                                "_decomp/",     "_dispatch/",
                                "profiler/",    "serialization.py",
                                "hub.py",       "utils/data/",
                                "_compile.py",  "_higher_order_ops/",
                                "_library/",    "library.py",
                                "_ops.py",      "overrides.py"}) {
    if (startsWith(inside, room)) return CodePolicy::kSkip;
  }
  return CodePolicy::kInlineOnly;
}

CodePolicy ofStandardLibrary(std::string_view inside, const Names& names) {
  // They only put things into the module's lists.
  if (inside == "warnings.py" &&
      (startsWith(names.qualified, "catch_warnings.") || names.name == "simplefilter" ||
       names.name == "filterwarnings" || names.name == "_add_filter"))
    return CodePolicy::kInlineOnly;
  for (std::string_view room :
       {"importlib/",   "threading.py", "logging/",         "warnings.py",   "traceback.py",
        "linecache.py", "unittest/",    "multiprocessing/", "subprocess.py", "asyncio/",
        "concurrent/",  "tokenize.py",  "ast.py",           "pdb.py",        "bdb.py",
        "cmd.py",       "doctest.py",   "pickle.py",        "socket.py",     "selectors.py",
        "tempfile.py",  "shutil.py",    "pathlib.py",       "json/",         "re/",
        "random.py",    "queue.py",     "signal.py",        "weakref.py",    "_weakrefset.py",
        "abc.py",       "site.py",      "runpy.py",         "test/"}) {
    if (startsWith(inside, room)) return CodePolicy::kSkip;
  }
  return CodePolicy::kInlineOnly;
}

CodePolicy ofOthers(std::string_view file, const Names& names) {
  // Triton: kernels are launched by one call (switches.cpp, findLate), what leads to it and cdiv are inlined.
  if (file.ends_with("/triton/__init__.py")) return CodePolicy::kInlineOnly;
  if (file.ends_with("/triton/runtime/jit.py")) {
    const bool leads_there = startsWith(names.qualified, "KernelInterface.__getitem__") ||
                             startsWith(names.qualified, "ConstexprFunction.__call__");
    return leads_there ? CodePolicy::kInlineOnly : CodePolicy::kSkip;
  }
  if (file.ends_with("/triton/language/core.py") && names.name == "_unwrap_if_constexpr")
    return CodePolicy::kInlineOnly;
  for (std::string_view room : {"/triton/runtime/", "/triton/language/", "/triton/compiler/"}) {
    if (file.find(room) != std::string_view::npos) return CodePolicy::kSkip;
  }
  // numpy.iinfo and numpy.finfo
  if (file.ends_with("/numpy/_core/getlimits.py")) return CodePolicy::kInlineOnly;
  for (std::string_view part :
       {"/site-packages/_pytest/", "/site-packages/pluggy/", "/site-packages/numpy/",
        "/site-packages/hypothesis/", "/site-packages/expecttest", "/site-packages/sympy/",
        "/site-packages/rich/", "/site-packages/tqdm/"}) {
    if (file.find(part) != std::string_view::npos) return CodePolicy::kSkip;
  }
  return CodePolicy::kTrace;
}

std::string_view textOf(PyObject* text) {
  const char* found = utf8OrNull(text);
  return found != nullptr ? found : "";
}

CodePolicy decide(PyCodeObject* code) {
  static const std::string stdlib = prefixOf("os");
  static const std::string torch = prefixOf("torch");
  static const std::string stator = prefixOf("stator");
  // A path that is no text (bytes that no encoding knows) has no place in reports: such code runs as it is.
  for (PyObject* text : {code->co_filename, code->co_name, code->co_qualname}) {
    if (utf8OrNull(text) == nullptr) return CodePolicy::kSkip;
  }
  const std::string_view file = textOf(code->co_filename);
  const Names names{textOf(code->co_name), textOf(code->co_qualname)};
  // What dataclasses writes has no file of its own: libraries' (DTensor's dispatch) would be captured, call by call.
  if (file == "<string>" && startsWith(names.qualified, "__create_fn__.<locals>."))
    return CodePolicy::kInlineOnly;
  if (startsWith(file, "<frozen ")) {
    return startsWith(file, "<frozen importlib") || startsWith(file, "<frozen zipimport")
               ? CodePolicy::kSkip
               : CodePolicy::kInlineOnly;
  }
  if (startsWith(file, torch)) return ofTorch(file.substr(torch.size()), names);
  if (startsWith(file, stator))
    return startsWith(file.substr(stator.size()), "polyfills/") ? CodePolicy::kTrace
                                                                : CodePolicy::kSkip;
  if (startsWith(file, stdlib) && file.find("site-packages") == std::string_view::npos)
    return ofStandardLibrary(file.substr(stdlib.size()), names);
  return ofOthers(file, names);
}

// What was decided last for a file and names. The strings are held, so that their addresses stay theirs.
struct Decision {
  Ref<> file, name, qualified;
  CodePolicy policy = CodePolicy::kTrace;
};

}  // namespace

CodePolicy codePolicy(PyCodeObject* code) {
  if (bytecode::isCounted(code)) return CodePolicy::kTrace;
  constexpr size_t kDecisions = 1024;
  static auto& decisions = *new std::array<Decision, kDecisions>();
  const size_t mixed = reinterpret_cast<size_t>(code->co_filename) / 16 * 31 +
                       reinterpret_cast<size_t>(code->co_qualname) / 16;
  Decision& known = decisions[mixed % kDecisions];
  if (known.file.get() != code->co_filename || known.name.get() != code->co_name ||
      known.qualified.get() != code->co_qualname) {
    const CodePolicy policy = decide(code);
    known = Decision{newRef(code->co_filename), newRef(code->co_name), newRef(code->co_qualname),
                     policy};
  }
  return known.policy;
}

bool isPolyfill(PyCodeObject* code) {
  static const std::string room = [] {
    ErrorKept kept;  // asked also on the way out
    // an import here would run frames that ask this
    return prefixOf("stator") + "polyfills/";
  }();
  const char* file = utf8OrNull(code->co_filename);
  return file != nullptr && startsWith(file, room);
}

}  // namespace stator::known
