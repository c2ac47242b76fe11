"""What each entry of torch._dynamo.config means here: followed, or answered.

An entry is *followed* where stator.config has one of its name: a change in torch's holds here too. Otherwise it is in
one of the tables below. A change of one in NOT_HERE is answered by a warning; the others do what they say without being
followed, or nothing in TorchDynamo either. tests/python/test_names.py sees to it that none is forgotten, and
docs/NAMES.md is made of these tables.
"""

from __future__ import annotations

# Read by parts of torch that Stator uses itself (FakeTensor, AOTAutograd, backends, logging), so that they hold here
# too.
READ_BY_TORCH = {
    "cudagraph_backend_keep_input_mutation": "read by the backend cudagraphs",
    "cudagraph_backend_support_input_mutation": "read by the backend cudagraphs",
    "debug_dir_root": "read by inductor for its own folder; Stator's is beside it",
    "debug_inductor_config_override": "read by inductor",
    "fake_tensor_cache_crosscheck_enabled": "read by FakeTensor",
    "fake_tensor_cache_enabled": "read by FakeTensor",
    "fake_tensor_disable_inference_mode": "read by FakeTensor",
    "log_file_name": "read by torch's logging",
    "skip_fsdp_hooks": "read by FSDP, before torch 2.13",
    "prefer_deferred_runtime_asserts_over_guards": "read by torch.export",
    "use_lazy_graph_module": "read by torch.fx",
}

# Nothing in TorchDynamo 2.13 reads them, or it says itself that they do nothing.
DOES_NOTHING = (
    "TYPE_CHECKING", "base_dir", "minimum_call_count", "dead_code_elimination", "skip_code_recursive_on_recompile_limit_hit",
    "skip_code_recursive_on_cache_limit_hit", "dynamic_shapes", "traceable_tensor_subclasses", "skipfiles_inline_module_allowlist",
    "optimize_ddp_lazy_compile", "error_on_nested_jit_trace", "report_guard_failures", "enable_cpp_guard_manager",
    "enable_cpp_framelocals_guard_eval", "capture_autograd_function", "capture_func_transforms", "inline_inbuilt_nn_modules",
    "_save_config_ignore", "raise_on_unsafe_aot_autograd",
)  # fmt: skip

# What the entry asks for is how it always is here; the other value is answered. name -> (the value that it always has
# here, why)
ALWAYS = {
    "allow_unspec_int_on_nn_module": (True, "an int of a module of the program's that changes becomes dynamic"),
    "assume_dunder_attributes_remain_unchanged": (False, "code, closure and defaults of functions are guarded"),
    "capture_sparse_compute": (True, "sparse tensors are captured where torch's rules know them"),
    "constant_fold_autograd_profiler_enabled": (True, "it is a constant of a capture, and guarded"),
    "dont_skip_tracing": (False, "use stator.dont_skip_tracing(function) for the functions in question"),
    "enable_aot_compile": (True, ""),
    "enable_cpp_symbolic_shape_guards": (True, "all guards are checked in C++"),
    "enable_faithful_generator_behavior": (True, "generators run step by step"),
    "enable_trace_contextlib": (True, "context managers made from generators are captured"),
    "enable_trace_load_build_class": (True, "classes made inside are captured"),
    "enable_trace_unittest": (False, "unittest runs in Python"),
    "force_nn_module_property_static_shapes": (True, "sizes of buffers are constants unless they are marked"),
    "graph_break_on_nn_param_ctor": (False, "parameters made inside are parts of graphs"),
    "guard_nn_modules_using_dict_tags": (True, "what is remembered of dicts is their versions"),
    "inline_torch_dispatch_torch_compile": (True, ""),
    "install_free_tensors_for_export": (True, ""),
    "issue_3_13_0_warning": (True, ""),
    "nested_graph_breaks": (True, "capture goes on in the innermost frame behind a break"),
    "raise_on_ctx_manager_usage": (True, "compile() is no context manager"),
    "replay_side_effects": (True, "what a program changes is changed; leaving that out would be another program"),
    "rewrite_assert_with_torch_assert": (True, "checks on data are in graphs where they can be"),
    "skip_no_tensor_aliasing_guards_on_parameters": (False, "aliases are guarded where they matter"),
    "skip_tensor_guards_with_matching_dict_tags": (False, "every tensor's facts are checked"),
    "use_recursive_dict_tags_for_guards": (True, "whole trees of modules are compared by remembered memory"),
    "use_lamba_guard_for_object_aliasing": (True, ""),
    "wrap_top_frame": (True, "hooks of the compiled module are captured with it"),
    "skip_torchrec": (True, ""),
    "trace_autograd_ops": (False, "call torch.autograd.grad outside, or in a function that is differentiated as a whole"),
    "error_on_nested_fx_trace": (True, "symbolic_trace of a compiled function: trace the function itself"),
    "record_runtime_overhead": (True, "look-up and graphs are regions of the profiler"),
    "log_compilation_metrics": (True, "stator.stats() and torch's counters have them"),
    "enable_dynamo_decompositions": (True, ""),
    "run_gc_after_compile": (False, "captures leave no garbage behind that a collection would have to find"),
}  # fmt: skip

# A change is answered by a warning with this text. name -> (why, what to do)
NOT_HERE = {
    "_autograd_backward_strict_mode_banned_ops": ("there is no strict mode of backward", ""),
    "_autograd_backward_strict_mode_conditional_banned_ops": ("there is no strict mode of backward", ""),
    "_custom_ops_profile": ("it belongs to TorchDynamo's tests", ""),
    "_shapes_spec": ("torch.compile sets it", "pass shapes_spec= to compile"),
    "_unsafe_skip_fsdp_module_guards": ("guards of FSDP's modules are config.skip_fsdp_guards", "set that one"),
    "allow_empty_graphs": ("a capture without tensor calls makes no graph", ""),
    "allow_ignore_mark_dynamic": ("a mark that cannot be met is an error", "use stator.maybe_mark_dynamic"),
    "allowed_functions_module_string_ignorelist": (
        "what is in graphs is decided by function",
        "use stator.disallow_in_graph",
    ),
    "automatic_dynamic_exclusion_guard": ("entries are tried newest first", ""),
    "automatic_dynamic_remote_pgo": ("there is no profile in a remote cache", ""),
    "caching_precompile": ("captures are kept by other means", ""),
    "capture_profiler_record_function": ("regions of the profiler are contexts of the program and not nodes", ""),
    "compiled_autograd": ("backward graphs are the backend's", "call torch._dynamo.compiled_autograd's own context"),
    "compiled_autograd_kwargs_override": ("backward graphs are the backend's", ""),
    "cprofile": ("captures run in C++, where cProfile sees nothing", "use stator.stats(), or perf"),
    "debug_disable_compile_counter": ("it belongs to TorchDynamo's tests", ""),
    "debug_dynamo_config_override": ("settings hold for all graphs", "use stator.config.patch around the calls"),
    "debug_force_graph_break_on_leaf_return": ("it belongs to TorchDynamo's tests", "use config.break_every"),
    "debug_force_nested_calls": ("it belongs to TorchDynamo's tests", "use config.break_every"),
    "do_not_emit_runtime_asserts": ("torch._check is in graphs where the capture cannot decide it", ""),
    "dynamo_profiler": ("captures run in C++", "use stator.stats()"),
    "enable_invoke_subgraph_regional_compile": ("regions are captured along with the rest", ""),
    "enable_p2p_compilation": ("point-to-point operations run outside of graphs", ""),
    "error_on_dynamo_callback_in_fullgraph_compiled_code": ("a compiled graph runs with capture off", ""),
    "force_compile_during_fx_trace": ("FX tracing sees the function itself", ""),
    "force_unspec_int_unbacked_size_like_on_torchrec_kjt": (
        "torchrec is not treated apart",
        "use stator.mark_unbacked",
    ),
    "generate_pycode": (
        "an entry is a plan and not generated bytecode",
        "print stator.guards(f) or stator.explain(f)(...)",
    ),
    "graph_deduplication_lint": ("graphs are not deduplicated that way", ""),
    "inject_BUILD_SET_unimplemented_TESTING_ONLY": ("it belongs to TorchDynamo's tests", ""),
    "inline_invoke_subgraph": ("regions are captured along with the rest", ""),
    "inline_single_use_invoke_subgraph": ("regions are captured along with the rest", ""),
    "install_free_tensors": ("tensors from outside are inputs of graphs", "use config.specialize_modules"),
    "invalidate_compile_context_weakrefs": ("entries hold no weak references to contexts", ""),
    "leaf_function_check_escaped_gradients": ("leaf functions are nonstrict_trace here", ""),
    "leaf_function_validate_outputs": ("leaf functions are nonstrict_trace here", ""),
    "log_graph_in_out_metadata": ("it belongs to TorchDynamo's export", ""),
    "max_saved_pointers_for_recursive_dict_tags_check": ("remembered memory has no such limit", ""),
    "nontraceable_tensor_subclasses": (
        "tensor subclasses are captured by what their classes define",
        "use stator.disable",
    ),
    "numpy_default_complex": ("arrays have NumPy's own dtypes", "convert with astype"),
    "numpy_default_float": ("arrays have NumPy's own dtypes", "convert with astype"),
    "numpy_default_int": ("arrays have NumPy's own dtypes", "convert with astype"),
    "prepare_freezing": ("backends find parameters by get_attr", "use config.specialize_modules"),
    "pt2_compile_id_prefix": ("compile ids have no prefix", ""),
    "record_compile_time_instruction_count": ("instructions are not counted", "use perf"),
    "repro_forward_only": ("repros run backward where the program did", ""),
    "repro_tolerance": ("results are judged by a run in double precision", "use config.same_two_models_use_fp64"),
    "side_effect_replay_policy": ("what a program changes is replayed without a word", "print stator.explain(f)(...)"),
    "skip_fwd_side_effects_in_bwd_under_checkpoint": (
        "checkpoints are captured with their effects, or left to Python",
        "",
    ),
    "skip_guards_on_constant_func_defaults": ("defaults are guarded", "use options={'guard_filter_fn': ...}"),
    "strict_precompile": ("captures are kept by other means", ""),
    "track_nodes_for_deduplication": ("graphs are not deduplicated that way", ""),
    "use_graph_deduplication": ("graphs are not deduplicated that way", ""),
    "use_numpy_random_stream": ("numpy.random is NumPy's own", ""),
}


# The same for torch.compiler.config.
COMPILER_NOT_HERE = {
    "dynamic_values": ("sizes and ints are known by where they come from", "use dynamic_sources"),
    "pgo_extra_read_key": ("what was learned of sizes is kept for one job", "use job_id"),
    "pgo_extra_write_key": ("what was learned of sizes is kept for one job", "use job_id"),
}

# Environment variables of torch's that stand for settings which are not followed.
VARIABLES = {
    "PT2_COMPILE_ID_PREFIX": "pt2_compile_id_prefix",
    "TORCHDYNAMO_ENABLE_P2P_COMPILATION": "enable_p2p_compilation",
    "TORCHDYNAMO_PREPARE_FREEZING": "prepare_freezing",
    "TORCHDYNAMO_REPRO_FORWARD_ONLY": "repro_forward_only",
    "TORCH_CACHING_PRECOMPILE": "caching_precompile",
    "TORCH_COMPILE_CPROFILE": "cprofile",
    "TORCH_COMPILE_DYNAMIC_VALUES": "dynamic_values",
    "TORCH_COMPILE_DYNAMO_PROFILER": "dynamo_profiler",
    "TORCH_COMPILE_OVERRIDE_DYNAMO_CONFIGS": "debug_dynamo_config_override",
    "TORCH_COMPILE_STICKY_PGO_READ": "pgo_extra_read_key",
    "TORCH_COMPILE_STICKY_PGO_WRITE": "pgo_extra_write_key",
    "TORCH_DYNAMO_AUTOMATIC_DYNAMIC_REMOTE_PGO": "automatic_dynamic_remote_pgo",
    "TORCH_DYNAMO_DO_NOT_EMIT_RUNTIME_ASSERTS": "do_not_emit_runtime_asserts",
    "TORCH_DYNAMO_RUN_GC_AFTER_COMPILE": "run_gc_after_compile",
    "TORCH_STRICT_PRECOMPILE": "strict_precompile",
    "UNSAFE_SKIP_FSDP_MODULE_GUARDS": "_unsafe_skip_fsdp_module_guards",
}


def verdict(name: str, followed: bool) -> tuple[str, str]:
    """(works, differs or not here; text) of an entry."""
    if followed:
        return "works", "followed"
    if name in READ_BY_TORCH:
        return "works", READ_BY_TORCH[name]
    if name in DOES_NOTHING:
        return "works", "does nothing, there neither"
    if name in ALWAYS:
        value, why = ALWAYS[name]
        return "differs", f"always {value!r}" + (f": {why}" if why else "")
    why, instead = NOT_HERE[name]
    return "not here", why + (f"; {instead}" if instead else "")


def answer(name: str, value: object) -> tuple[str, str] | None:
    """Why a value that was set has no effect, and what to do; None: it has, or there is none to have."""
    if name in ALWAYS:
        always, why = ALWAYS[name]
        if value == always:
            return None
        return f"it is always {always!r} here" + (f" ({why})" if why else ""), ""
    return NOT_HERE.get(name) or COMPILER_NOT_HERE.get(name)
