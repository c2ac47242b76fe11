"""The binary. Made by tools/core_stub.py; stubtest compares it with the module (make lint)."""

from typing import Any, final

from typing_extensions import disjoint_base

@final
class Cache:  # Captured entries of one set of compile settings.
    def __new__(cls, *args: Any, **kwargs: Any) -> Any: ...
    def reset(self, *args: Any, **kwargs: Any) -> Any: ...  # Drops all entries.
    @property
    def settings(self) -> Any: ...  # The compile call's settings.

@final
class CompiledFunction:
    def __call__(self, /, *args: Any, **kwargs: Any) -> Any: ...  # Call self as a function.
    def __copy__(self, *args: Any, **kwargs: Any) -> Any: ...
    def __deepcopy__(self, *args: Any, **kwargs: Any) -> Any: ...
    def __get__(
        self, instance: Any, owner: Any = None, /
    ) -> Any: ...  # Return an attribute of instance, which is of type owner.
    @property
    def __name__(self) -> Any: ...
    def __new__(cls, *args: Any, **kwargs: Any) -> Any: ...
    @property
    def __qualname__(self) -> Any: ...
    def __reduce__(self, *args: Any, **kwargs: Any) -> Any: ...
    @property
    def __wrapped__(self) -> Any: ...
    @property
    def _stator_cache(self) -> Any: ...
    def _stator_reset(self, *args: Any, **kwargs: Any) -> Any: ...
    @property
    def _torchdynamo_orig_callable(self) -> Any: ...
    @property
    def _torchdynamo_wrapper_id(self) -> Any: ...
    def aot_compile(
        self, *args: Any, **kwargs: Any
    ) -> Any: ...  # aot_compile((args, kwargs)): captured and compiled for these, without being run; what comes out captures nothing more.
    def get_compiler_config(
        self, *args: Any, **kwargs: Any
    ) -> (
        Any
    ): ...  # The configuration that the backend compiles with: a dict of inductor's settings, None for other backends.

@disjoint_base
class CompiledModuleBase:
    @property
    def __call__(self) -> Any: ...
    def __new__(cls, *args: Any, **kwargs: Any) -> Any: ...
    @property
    def _orig_mod(self) -> Any: ...
    @property
    def _stator_compile(self) -> Any: ...

NULL: Any

@final
class Specimen:  # A graph under examination, see stator.debug.
    def call_count(self, *args: Any, **kwargs: Any) -> Any: ...  # How many calls there are.
    def calls(self, *args: Any, **kwargs: Any) -> Any: ...  # (name, target, kind, facts, line, mutates) of each call.
    @staticmethod
    def from_fx(*args: Any, **kwargs: Any) -> Any: ...  # staticmethod(function) -> method
    def hash(self, *args: Any, **kwargs: Any) -> Any: ...  # Equal for equal programs.
    def inputs(self, *args: Any, **kwargs: Any) -> Any: ...  # Names of the inputs.
    def keep(
        self, *args: Any, **kwargs: Any
    ) -> Any: ...  # keep(names): (specimen with these calls alone, calls that became inputs), or None
    def learn(
        self, *args: Any, **kwargs: Any
    ) -> Any: ...  # learn({name: (kind, facts)}): what a run has shown of the values
    @staticmethod
    def literal(*args: Any, **kwargs: Any) -> Any: ...  # staticmethod(function) -> method
    def outputs(self, *args: Any, **kwargs: Any) -> Any: ...  # Names of the outputs.
    def reduce(
        self, *args: Any, **kwargs: Any
    ) -> Any: ...  # reduce(still_fails, passes, body_of=None): the smallest specimen found
    def runner(self, *args: Any, **kwargs: Any) -> Any: ...  # A callable that runs it.
    def snapshots(
        self, *args: Any, **kwargs: Any
    ) -> Any: ...  # snapshots(names, function): the values when they were made, as outputs
    def text(self, *args: Any, **kwargs: Any) -> Any: ...  # text(spell): (parameters, body) as Python
    def to_fx(
        self, *args: Any, **kwargs: Any
    ) -> Any: ...  # to_fx(name=''): the torch.fx.GraphModule; with a name that of a function that a graph calls
    def with_examples(
        self, *args: Any, **kwargs: Any
    ) -> Any: ...  # with_examples(values): a copy whose inputs have examples
    def with_ints(self, *args: Any, **kwargs: Any) -> Any: ...  # with_ints(was, is): another int in all arguments

def ahead(
    *args: Any, **kwargs: Any
) -> Any: ...  # ahead(compiled, captures, args, kwargs): whether an entry serves this call, which is not made; one is captured if asked.
def as_subclass(*args: Any, **kwargs: Any) -> Any: ...  # Tensor.as_subclass, past any __torch_function__.
def become(*args: Any, **kwargs: Any) -> Any: ...  # Makes a plain tensor an instance of a subclass, in place.
def break_reasons(
    *args: Any, **kwargs: Any
) -> Any: ...  # All reasons for a break: {name: (number, sentence, what to do)}.
def call_directly(
    *args: Any, **kwargs: Any
) -> Any: ...  # call_directly(cls): objects of the class are called through CompiledModuleBase.
def call_unseen(
    *args: Any, **kwargs: Any
) -> Any: ...  # call_unseen(function, *args): calls it while the thread's trace and profile functions are told nothing: what runs at moments of its own is no part of the program.
def calls_begun(*args: Any, **kwargs: Any) -> Any: ...  # How often compiled functions were called so far.
def close_cache(*args: Any, **kwargs: Any) -> Any: ...  # Nothing more is captured for this compiled function.
def code_info(*args: Any, **kwargs: Any) -> Any: ...  # The decoded instructions of a code object, as a list of dicts.
def count_files(
    *args: Any, **kwargs: Any
) -> Any: ...  # Code from files whose path begins so is traced wherever it lies, and its instructions are counted; unless the second argument is false, none of it goes back to CPython's loop.
def count_instructions(
    *args: Any, **kwargs: Any
) -> Any: ...  # Calls the function natively; driver_counters()['counted'] has the instructions of counted code.
def disk_digest(*args: Any, **kwargs: Any) -> Any: ...  # disk_digest(bytes): SHA-256, as hexadecimal digits
def disk_kernel(
    *args: Any, **kwargs: Any
) -> Any: ...  # disk_kernel(bytes, folder): the function of a compiled kernel, or a text that says why not
def disk_machine(*args: Any, **kwargs: Any) -> Any: ...  # The processor's kind and what it can do.
def disk_read(
    *args: Any, **kwargs: Any
) -> Any: ...  # disk_read(folder, key): parts of an artifact; None: there is none; a text: what is wrong
def disk_read_file(
    *args: Any, **kwargs: Any
) -> Any: ...  # disk_read_file(path, key): the same for a file anywhere, whoever it belongs to
def disk_trim(
    *args: Any, **kwargs: Any
) -> Any: ...  # disk_trim(folder, limit): drops what was used least lately until the rest takes at most `limit` bytes
def disk_write(
    *args: Any, **kwargs: Any
) -> Any: ...  # disk_write(folder, key, parts, limit): None, or a text that says why not
def disk_write_file(
    *args: Any, **kwargs: Any
) -> Any: ...  # disk_write_file(path, key, parts): the same for a file anywhere
def driver_counters(*args: Any, **kwargs: Any) -> Any: ...  # What the driver has done in this process, as a dict.
def drop_call_rule(
    *args: Any, **kwargs: Any
) -> Any: ...  # drop_call_rule(id): forgets the rule of the callable with this id.
def drop_guards(
    *args: Any, **kwargs: Any
) -> Any: ...  # What was captured ahead for this compiled function serves whatever it is called with.
def entries(*args: Any, **kwargs: Any) -> Any: ...  # entries(compiled): what has been captured for it.
def error_on_break(*args: Any, **kwargs: Any) -> Any: ...  # Whether a break is an error on this thread.
def fail_at(
    *args: Any, **kwargs: Any
) -> (
    Any
): ...  # Lets the n-th of the counted points of captures fail once; 0: none. How many were passed since the last call.
def force_cache(
    *args: Any, **kwargs: Any
) -> Any: ...  # force_cache(callable or None): which cache serves in place of a compiled function's own
def fx_graph(*args: Any, **kwargs: Any) -> Any: ...  # fx_graph(record): the torch.fx.Graph of a captured graph
def fx_source(
    *args: Any, **kwargs: Any
) -> Any: ...  # fx_source(graph, helpers): (source, globals, lines) of an FX graph, or None
def goes_into_graph(
    *args: Any, **kwargs: Any
) -> Any: ...  # goes_into_graph(callable): whether its calls become graph nodes by themselves.
def graph_build(
    *args: Any, **kwargs: Any
) -> Any: ...  # graph_build(marker, nodes, outputs, locations=[], scopes=[]): a graph from its description
def graph_compile(*args: Any, **kwargs: Any) -> Any: ...  # graph_compile(graph, module, backend): (callable, guards)
def graph_drop_dead(*args: Any, **kwargs: Any) -> Any: ...  # Drops what no output needs.
def graph_leak_flag(*args: Any, **kwargs: Any) -> Any: ...  # Whether a slot of a stand-in fired since the last call.
def graph_runner(*args: Any, **kwargs: Any) -> Any: ...  # A callable that runs the graph.
def graph_stand_in(*args: Any, **kwargs: Any) -> Any: ...  # graph_stand_in(graph, index): a stand-in for a node
def graph_text(*args: Any, **kwargs: Any) -> Any: ...  # graph_text(graph, code=None): the text form
def graph_to_fx(*args: Any, **kwargs: Any) -> Any: ...  # graph_to_fx(graph, code=None): the torch.fx.GraphModule
def graph_truncate(
    *args: Any, **kwargs: Any
) -> Any: ...  # graph_truncate(graph, length): forgets the nodes behind the first `length`
def guards_allow_replay(*args: Any, **kwargs: Any) -> Any: ...  # guards_allow_replay(program, allowed).
def guards_build(*args: Any, **kwargs: Any) -> Any: ...  # Builds a guard program from a list of descriptions.
def guards_check(
    *args: Any, **kwargs: Any
) -> Any: ...  # guards_check(program, locals, globals=None): whether all guards hold.
def guards_counts(
    *args: Any, **kwargs: Any
) -> Any: ...  # (subtrees answered from memory, subtrees recorded, answered without a look at what is told of).
def guards_dead(*args: Any, **kwargs: Any) -> Any: ...  # Whether a weakly held object is gone.
def guards_explain(
    *args: Any, **kwargs: Any
) -> Any: ...  # guards_explain(program, locals, globals=None, code=None): the first that fails.
def guards_text(*args: Any, **kwargs: Any) -> Any: ...  # guards_text(program, code=None): all guards, one a line.
def guards_time(
    *args: Any, **kwargs: Any
) -> Any: ...  # guards_time(program, locals, globals, rounds, sweep_bytes): nanoseconds of each check.
def hand_iterator(
    *args: Any, **kwargs: Any
) -> (
    Any
): ...  # hand_iterator(iterator): what zip and its kin take in its place, so that its __iter__ does not run again.
def hook_installed(*args: Any, **kwargs: Any) -> Any: ...  # Whether stator's evaluator is in place at this moment.
def in_compiled_region(
    *args: Any, **kwargs: Any
) -> Any: ...  # Whether a compiled function is under way on this thread.
def infer_shapes(
    *args: Any, **kwargs: Any
) -> Any: ...  # Facts of a call's outputs (tiers: 0 all, 1 rules, 2 FakeTensor).
def infer_symbolic(
    *args: Any, **kwargs: Any
) -> Any: ...  # The same with sizes as symbols: (decisions, answer, other sizes, answer there) or None.
def iterate_by_index(
    *args: Any, **kwargs: Any
) -> Any: ...  # iterate_by_index(sequence): what iter() makes of an object that has only __getitem__.
def keep_captures(*args: Any, **kwargs: Any) -> Any: ...  # Whether captures are kept as text from now on.
def kept(
    *args: Any, **kwargs: Any
) -> Any: ...  # kept(compiled): ([(place, [key, ...]), ...], {function: text}): where what backends made for it is kept, and what was learned.
def make_suspended_generator(
    *args: Any, **kwargs: Any
) -> Any: ...  # A generator suspended at an offset; takes one tuple as run_pending does.
def measure_guards(
    *args: Any, **kwargs: Any
) -> Any: ...  # measure_guards(list): takes down what the guards of entries that serve cost.
def merge_summaries(
    *args: Any, **kwargs: Any
) -> Any: ...  # merge_summaries(one, other): the bytes of two summaries of ranks as one's
def opcode_effect(*args: Any, **kwargs: Any) -> Any: ...  # (pops, pushes) of (opcode, oparg, jump).
def opcode_meaning(
    *args: Any, **kwargs: Any
) -> Any: ...  # (opcode, oparg) of the table's row for (opcode, oparg) as they stand in code.
def opcode_table(*args: Any, **kwargs: Any) -> Any: ...  # The opcode table: name -> opcode, effects, handler.
def record_captures(
    *args: Any, **kwargs: Any
) -> Any: ...  # record_captures(callback or None): callback(dict) for each capture of all threads, and for what the guards of each new entry cost.
def rehearse_ranks(
    *args: Any, **kwargs: Any
) -> Any: ...  # rehearse_ranks(case, ranks, inputs): the agreement of so many simulated ranks, with its traffic.
def reset_driver_counters(*args: Any, **kwargs: Any) -> Any: ...  # Sets the counters of driver_counters to zero.
def reset_stats(*args: Any, **kwargs: Any) -> Any: ...  # Sets all counters to zero.
def run_concrete(
    fn: Any, args: Any, kwargs: Any = None, *, every: Any = 1, native_after: Any = -1
) -> Any: ...  # Calls fn with every Python frame executed one instruction at a time by the driver; every=n drives each n-th frame only, native_after=k gives each frame to CPython after k instructions.
def run_pending(
    *args: Any, **kwargs: Any
) -> Any: ...  # run_pending(frames[, cache]): runs inlined frames, outermost first: (function, offset, slots, stack[, handled[, continuation[, instance]]]); under a cache they are captured.
def set_call_rule(
    *args: Any, **kwargs: Any
) -> Any: ...  # set_call_rule(callable, rule, extra=None): how traces treat calls of it.
def set_config(*args: Any, **kwargs: Any) -> Any: ...  # Takes a configuration value.
def set_dynamic_sources(
    *args: Any, **kwargs: Any
) -> Any: ...  # set_dynamic_sources(function or None): (source, rank) -> (dynamic dims, unbacked dims).
def set_error_on_break(*args: Any, **kwargs: Any) -> Any: ...  # set_error_on_break(bool)
def set_force_eager(
    *args: Any, **kwargs: Any
) -> Any: ...  # set_force_eager(bool): whether compiled functions run natively; returns what held before
def set_iterator_state(
    *args: Any, **kwargs: Any
) -> Any: ...  # set_iterator_state(iterator, state): __setstate__ of itertools' iterators; a third argument is what accumulate starts with.
def set_thread_state(*args: Any, **kwargs: Any) -> Any: ...  # Puts torch's state of this thread back.
def set_torch_marks(
    *args: Any, **kwargs: Any
) -> Any: ...  # set_torch_marks(allowed, disallowed, adopt, own): torch's own sets of ids.
def shapes_clear(*args: Any, **kwargs: Any) -> Any: ...  # Empties the memo and the counts.
def shapes_counts(*args: Any, **kwargs: Any) -> Any: ...  # Answers by tier.
def shapes_has_rule(*args: Any, **kwargs: Any) -> Any: ...  # Whether the rules know a callable.
def shapes_unresolved(*args: Any, **kwargs: Any) -> Any: ...  # Names in the rule tables that torch lacks.
def skip_code(*args: Any, **kwargs: Any) -> Any: ...  # Frames of this code run natively from now on.
def source_print(*args: Any, **kwargs: Any) -> Any: ...  # source_print(source, code, exact=False).
def source_read(
    *args: Any, **kwargs: Any
) -> Any: ...  # source_read(source, locals, globals=None, code=None); NotImplemented: not there.
def stats(*args: Any, **kwargs: Any) -> Any: ...  # Counters since the last reset.
def stop_watching(
    *args: Any, **kwargs: Any
) -> Any: ...  # Ends the last watch_captures; returns {place of a break: tensor calls that ran outside of graphs because of it}; those outside of compiled functions are under 'beside'.
def symbolic_decide(
    *args: Any, **kwargs: Any
) -> Any: ...  # symbolic_decide(hints, lows, highs, conditions): (what was known of the last one before it was decided, its truth, decisions).
def symbolic_evaluate(
    *args: Any, **kwargs: Any
) -> Any: ...  # symbolic_evaluate(text, values): int or bool; None where it is not defined.
def symbolic_text(*args: Any, **kwargs: Any) -> Any: ...  # The canonical text of an expression over s0, s1 ...
def take_captures(
    *args: Any, **kwargs: Any
) -> Any: ...  # The captures since this was last asked, in order, each a dict of texts; see keep_captures.
def thread_state(*args: Any, **kwargs: Any) -> Any: ...  # torch's state of this thread, for set_thread_state.
def time_shapes(*args: Any, **kwargs: Any) -> Any: ...  # Nanoseconds for one inference of a call.
def watch_captures(
    *args: Any, **kwargs: Any
) -> Any: ...  # watch_captures(callback): callback(dict) for each capture of this thread, and tensor calls outside of graphs are counted.
