"""stator.explain and stator.dry_run: what a call captures, where and why it breaks, what is guarded, and how long it
took."""

import collections
import dataclasses
import functools
import inspect
import traceback
import types

import torch

from stator import _advice, _compile, _core
from stator._loaded import loaded


@dataclasses.dataclass
class Break:
    """One place where a graph ended before the function did."""

    number: int  # of the reason: docs/BREAKS.md
    name: str
    reason: str  # a sentence, with what it was about
    place: str  # file:line in function
    hint: str = ""
    times: int = 1  # how often capture ended here
    tensor_calls_outside: int = 0  # ran outside of graphs because of it
    stack: list = dataclasses.field(
        default_factory=list
    )  # (file, line, function) of the program's calls, outermost first

    @property
    def user_stack(self):
        """As TorchDynamo has it: traceback.FrameSummary of the user's lines, outermost first."""
        return [traceback.FrameSummary(*frame) for frame in self.stack]

    def lines(self):
        """The calls that led here, outermost first, each with its line of source."""
        return [f"{frame.filename}:{frame.lineno} in {frame.name}: {frame.line}" for frame in self.user_stack]

    def __str__(self):
        text = f"{self.place}: {self.reason} [break reason {self.number}]"
        text += "".join(f"\n      {line}" for line in self.lines())
        if self.tensor_calls_outside:
            text += f"\n      {self.tensor_calls_outside} tensor calls ran outside of graphs because of it"
        if self.hint:
            text += f"\n      What to do: {self.hint}."
        return text


@dataclasses.dataclass
class Capture:
    """One captured part of the program."""

    function: str
    place: str
    ops: int
    graph: str
    guards: list
    capture_seconds: float
    backend_seconds: float
    regions: list = dataclasses.field(default_factory=list)  # of the graph, compiled once each: lines of text


@dataclasses.dataclass
class Explanation:
    """What stator.explain(f)(*args) found. print() shows it."""

    graphs: list = dataclasses.field(default_factory=list)  # GraphModules
    ops_per_graph: list = dataclasses.field(default_factory=list)  # targets
    breaks: list = dataclasses.field(default_factory=list)
    captures: list = dataclasses.field(default_factory=list)
    out_guards: list = dataclasses.field(default_factory=list)  # lines of text
    tensor_calls_outside: int = 0
    result: object = None  # what the call returned
    stopped: str = ""  # of a dry run: what needed data, where the call ended before its return

    @property
    def graph_count(self):
        return len(self.graphs)

    @property
    def graph_break_count(self):
        return max(0, len(self.graphs) - 1)

    @property
    def break_reasons(self):
        return self.breaks

    @property
    def op_count(self):
        return sum(map(len, self.ops_per_graph))

    @property
    def capture_seconds(self):
        return sum(c.capture_seconds for c in self.captures)

    @property
    def backend_seconds(self):
        return sum(c.backend_seconds for c in self.captures)

    @property
    def compile_times(self):
        return f"capture {1e3 * self.capture_seconds:.2f} ms, backend {1e3 * self.backend_seconds:.2f} ms"

    def __str__(self):
        lines = [
            f"Graph Count: {self.graph_count}",
            f"Graph Break Count: {self.graph_break_count}",
            f"Op Count: {self.op_count}",
            f"Tensor Calls Outside Graphs: {self.tensor_calls_outside}",
            f"Times: {self.compile_times}",
            "Break Reasons:",
        ]
        lines += [f"  {i + 1}. {found}" for i, found in enumerate(self.breaks)] or ["  none"]
        if self.stopped:
            lines.append(f"The dry run ended early: {self.stopped}")
        for i, graph in enumerate(self.ops_per_graph):
            lines.append(f"Ops of graph {i + 1}: " + ", ".join(map(_target_name, graph)))
        for i, part in enumerate(self.captures):
            if part.regions:
                lines.append(f"Regions of part {i + 1} (docs/REGIONS.md):")
                lines += [f"  {region}" for region in part.regions]
            lines.append(f"Guards of part {i + 1} ({part.function}, {part.place}):")
            lines += [f"  {guard}" for guard in part.guards]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self):
        from stator import _html

        return _html.explanation(self)


def _target_name(target):
    return target if isinstance(target, str) else getattr(target, "__name__", str(target))


class _Collector:
    def __init__(self):
        self.found = Explanation()
        self.breaks = collections.OrderedDict()

    def captured(self, event):
        place = f"{event['file']}:{event['line']} in {event['function']}"
        guards = [line for line in event["guards"].splitlines() if line.strip()]
        if event["ops"] or guards:
            part = Capture(event["function"], place, event["ops"], event["graph"], guards, event["capture_seconds"],
                           event["backend_seconds"], event["regions"].splitlines())  # fmt: skip
            self.found.captures.append(part)
            self.found.out_guards += guards
        if event["broke"]:
            key = event["reason"], event["place"]
            if key in self.breaks:
                self.breaks[key].times += 1
                return
            reason = event["sentence"] + (f" ({event['detail']})" if event["detail"] else "")
            hint = _advice.of(event["reason"], reason, _core.break_reasons().get(event["name"], (0, "", ""))[2])
            self.breaks[key] = Break(event["reason"], event["name"], reason, event["place"], hint, stack=event["stack"])

    def compile(self, graph_module, example_inputs):
        self.found.graphs.append(graph_module)
        self.found.ops_per_graph.append(
            [
                node.target
                for node in graph_module.graph.nodes
                if node.op in ("call_function", "call_method", "call_module")
            ]
        )
        return graph_module.forward

    compile.shows_regions = True  # type: ignore[attr-defined]

    def finish(self, outside):
        for found in self.breaks.values():
            found.tensor_calls_outside = outside.get(found.place, 0)
        self.found.breaks = list(self.breaks.values())
        self.found.tensor_calls_outside = sum(calls for place, calls in outside.items() if place != "beside")
        return self.found


def _explained(f, args, kwargs, stops=lambda error: False):
    collector = _Collector()
    compiled = _compile.compile(f, backend=collector.compile, isolate_recompiles=True)
    result, stopped = None, ""
    _core.watch_captures(collector.captured)
    try:
        result = compiled(*args, **kwargs)
    except Exception as error:
        if not stops(error):
            raise
        stopped = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
    finally:
        outside = _core.stop_watching()
    found = collector.finish(outside)
    found.result, found.stopped = result, stopped
    return found


def explain(f, *extra_args, **extra_kwargs):
    """explain(f)(*args, **kwargs) calls f once, captured afresh and run without a backend, and returns an
    Explanation."""
    if not callable(f):
        raise TypeError(f"explain takes a callable, not {type(f).__name__} ({f!r:.100})")

    @functools.wraps(f if inspect.isroutine(f) else type(f))
    def explained(*args, **kwargs):
        return _explained(f, args, kwargs)

    if extra_args or extra_kwargs:
        return explained(*extra_args, **extra_kwargs)
    return explained


def needs_data(error):
    """Whether an error says that a tensor of the device meta was asked for what it has not."""
    return isinstance(error, (RuntimeError, NotImplementedError)) and "meta" in str(error).lower()


def _on_meta(tensor):
    """The tensor's shape, without data. A fake tensor has none either, but belongs to its mode: of it the facts are
    taken."""
    fakes = loaded("torch._subclasses.fake_tensor")
    if fakes is None or not isinstance(tensor, fakes.FakeTensor):
        return tensor.detach().to("meta")

    def number(size):
        return size.node.hint if isinstance(size, torch.SymInt) else size

    sizes, strides = ([number(size) for size in sizes] for sizes in (tensor.shape, tensor.stride()))
    return torch.empty_strided(sizes, strides, dtype=tensor.dtype, device="meta")


def _without_data(value, memo):
    """A copy in which all tensors, parameters and buffers are of the device meta; what they share is shared."""
    import copy

    if isinstance(value, torch.nn.Module):
        for tensor in (*value.parameters(), *value.buffers()):
            if id(tensor) not in memo:
                made = _on_meta(tensor)
                is_parameter = isinstance(tensor, torch.nn.Parameter)
                memo[id(tensor)] = torch.nn.Parameter(made, tensor.requires_grad) if is_parameter else made
        return copy.deepcopy(value, memo)
    if isinstance(value, torch.Tensor):
        if id(value) not in memo:
            memo[id(value)] = _on_meta(value).requires_grad_(value.requires_grad)
        return memo[id(value)]
    return value


def dry_run(f):
    """dry_run(f)(*args, **kwargs) is explain without computing anything: tensors among the arguments, and f's
    parameters and buffers if it is a module (or a method of one), are copied to the device meta, where they have shapes
    and no data; no backend is called. They may be of that device from the start, or fake.

    Where f needs a tensor's data the run ends; `stopped` of the Explanation says so, and what was found until then is
    there.
    """
    from torch.utils import _python_dispatch, _pytree

    def run(*args, **kwargs):
        # A mode around the call would make fakes of all that is made here.
        with _python_dispatch._disable_current_modes():
            return run_plainly(args, kwargs)

    def run_plainly(args, kwargs):
        memo = {}
        owner = getattr(f, "__self__", None)
        program = _without_data(f, memo)
        if isinstance(owner, torch.nn.Module):
            program = types.MethodType(f.__func__, _without_data(owner, memo))
        args, kwargs = _pytree.tree_map(lambda value: _without_data(value, memo), (args, kwargs))
        with torch.device("meta"):
            return _explained(program, args, kwargs, needs_data)

    return run
