"""Stages: what is compiled, by what, and how that compiler is reached again when a script runs alone.

    dynamo      the captured graph, by the backend
    forward     the forward graph behind AOTAutograd, by the backend's forward compiler (inductor: compile_fx_inner)
    backward    the backward graph, by its backward compiler
    inference   the forward graph of a program without gradients

For the last three the backend is called with AOTAutograd's entry replaced for that time, which shows the compilers that
it passes on.
"""

import contextlib
import dataclasses
import importlib
import inspect
import operator
import os
import sys

import torch
from torch._guards import TracingContext, tracing
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.weak import WeakTensorKeyDictionary

from stator import _backends, _fx, _node_meta, config, exc
from stator.debug import _models, _text
from stator.debug._program import ScriptError, definitions

STAGES = ("dynamo", "forward", "backward", "inference")


# ---- naming a backend in a script


@dataclasses.dataclass
class BackendName:
    """A backend as a script names it: a registered name, `module:function`, or `file.py:function`."""

    text: str
    mode: str | None = None
    options: dict | None = None

    def resolve(self):
        return _backends.Backend(_find(self.text), self.mode, self.options, None, None)


def _find(text):
    if ":" not in text:
        return text
    place, _, name = text.rpartition(":")
    if place.endswith(".py"):
        if not os.path.exists(place):
            raise ScriptError(f"the backend is {name} of {place}, and there is no such file")
        module = definitions(place)
    else:
        module = importlib.import_module(place)
    try:
        return operator.attrgetter(name)(module)
    except AttributeError:
        raise ScriptError(f"the backend {name} is not in {place}") from None


def name_of(backend):
    """How a script names the backend of a compile call (a stator._backends.Backend); None if it cannot."""
    asked = backend.asked
    if isinstance(asked, str):
        own = _backends._own.get(asked)
        if getattr(own, "__module__", "") != "__main__":
            return BackendName(asked, backend.mode, backend.options or None)
        asked = own
    module, name = getattr(asked, "__module__", None), getattr(asked, "__qualname__", "<")
    if module is None or "<" in name:
        return None
    if module == "__main__":
        file = getattr(sys.modules["__main__"], "__file__", None)
        if file is None:
            return None
        module = os.path.abspath(file)
    return BackendName(f"{module}:{name}", backend.mode, backend.options or None)


# ---- AOTAutograd's compilers


@contextlib.contextmanager
def aot_compilers(replace):
    """While this lasts, replace(role, compiler) stands for each compiler that a backend hands to AOTAutograd."""
    import torch._functorch.aot_autograd as functorch
    from torch._dynamo.backends import common
    from torch._functorch import config as functorch_config

    original = common.aot_module_simplified
    signature = inspect.signature(original)

    def entry(*args, **kwargs):
        bound = signature.bind(*args, **kwargs)
        given = bound.arguments
        forward = given["fw_compiler"]
        given["fw_compiler"] = replace("forward", forward)
        given["bw_compiler"] = replace("backward", given.get("bw_compiler") or forward)
        given["inference_compiler"] = replace("inference", given.get("inference_compiler") or forward)
        # A cached result would come without its graphs having been compiled.
        with functorch_config.patch(enable_autograd_cache=False):
            return original(*bound.args, **bound.kwargs)

    places = [place for place in (common, functorch) if getattr(place, "aot_module_simplified", None) is original]
    for place in places:
        place.aot_module_simplified = entry
    try:
        yield
    finally:
        for place in places:
            place.aot_module_simplified = original


def is_inductor(backend):
    return backend.asked == "inductor"


@contextlib.contextmanager
def inductor_inner(replace):
    """The same for inductor, one step further in: replace(role, compiler) stands for compile_fx_inner, which gets
    inductor's inputs."""
    from torch._functorch import config as functorch_config
    from torch._inductor import compile_fx as inductor

    original = inductor.compile_fx
    inner = inductor.compile_fx_inner

    def role(kwargs):
        return "backward" if kwargs.get("is_backward") else "inference" if kwargs.get("is_inference") else "forward"

    def inner_compile(gm, example_inputs, **kwargs):
        return replace(role(kwargs), lambda g, e: inner(g, e, **kwargs))(gm, example_inputs)

    def entry(model, example_inputs, inner_compile=inner_compile, **kwargs):
        with functorch_config.patch(enable_autograd_cache=False):
            return original(model, example_inputs, inner_compile=inner_compile, **kwargs)

    inductor.compile_fx = entry
    try:
        yield
    finally:
        inductor.compile_fx = original


def grad(stage):
    """Graphs behind AOTAutograd have no gradients."""
    return contextlib.nullcontext() if stage == "dynamo" else torch.no_grad()


class Graph:
    """A graph module as a specimen, and how the two belong together."""

    def __init__(self, module):
        self.specimen, self.attributes = _text.from_module(module)
        self.picked = _text.picked_outputs(module, self.specimen)
        self.shapes = _text.symbolic_shapes(module)

    def values(self, inputs):
        """The specimen's inputs for those of the module."""
        return [*self.attributes, *inputs]

    def difference(self, compiled, inputs, stage="dynamo"):
        """The first one between the specimen and what a compiler made of the module."""

        def of_specimen(*values):
            out = compiled(*values[len(self.attributes) :])
            return tuple(out[i] for i in self.picked)

        only_fwd = stage != "dynamo" or not torch.is_grad_enabled()
        with grad(stage):
            return _models.compare_two_models(
                self.specimen.to_fx(),
                of_specimen,
                self.values(inputs),
                only_fwd,
                ignore_non_fp=config.repro_ignore_non_fp,
            )


class _Found(BaseException):
    pass


def aot_compiler(backend, role):
    """The compiler that a backend uses for one of AOTAutograd's graphs."""
    if is_inductor(backend):
        from torch._inductor import compile_fx as inductor

        if backend.function is None and (backend.mode or backend.options):
            backend._resolve()
        settings = dict(backend.function.config) if backend.function is not None else {}

        def compile_inner(gm, example_inputs):
            from torch._inductor import config as inductor_config

            with inductor_config.patch(settings):
                return inductor.compile_fx_inner(
                    gm, example_inputs, is_backward=role == "backward", is_inference=role == "inference"
                )

        return compile_inner
    found = {}

    def remember(which, compiler):
        found[which] = compiler
        if len(found) == 3:
            raise _Found
        return compiler

    probe = torch.fx.symbolic_trace(_Probe())
    try:
        with aot_compilers(remember), config.patch(repro_after=None):
            backend(probe, [torch.ones(2, requires_grad=True)])
    except _Found:
        return found[role]
    raise ScriptError(
        f"the backend {backend.compiler_name} does not go through AOTAutograd: there is no stage {role!r}"
    )


class _Probe(torch.nn.Module):
    def forward(self, x):
        return (x * 2,)


# ---- compiling a specimen


def _propagate(specimen, module, key, mode):
    """Puts a fake of every value into the nodes' meta, as far as fakes can follow. Gives {name: (kind, facts)}, by the
    specimen's names."""
    facts = {}
    # FX may have given other names, but the order is the same.
    names = iter([*specimen.inputs(), *(call[0] for call in specimen.calls())])
    interpreter = torch.fx.Interpreter(module)
    with mode, torch.no_grad() if key == "val" else contextlib.nullcontext():
        for node in module.graph.nodes:
            if node.op == "output":
                break
            name = next(names) if node.op != "get_attr" else None  # that is a function that the graph calls
            with contextlib.suppress(Exception):  # data-dependent, or no rule for fakes: the backend copes or says so
                value = node.meta.get(key) if node.op == "placeholder" else interpreter.run_node(node)
                interpreter.env[node] = value
                if name is not None:
                    node.meta[key] = value
                    facts[name] = _text.facts_of(value)
    return facts


def _inner(error):
    """The backend's own error."""
    while isinstance(error, exc.BackendCompilerFailed) and error.__cause__ is not None:
        error = error.__cause__
    return error


def as_function(compiled):
    """What a compiler behind AOTAutograd made, as a function of its inputs: some take them in a list, which they
    empty."""
    if getattr(compiled, "_boxed_call", False):
        return lambda *inputs: compiled(list(inputs))
    return compiled


def compile_specimen(specimen, inputs, stage, backend, facts=None, shapes=None):
    """Compiles a specimen as the stage does: a function of its inputs. The backend's errors come out as they are.

    facts: a dict to note what the values are, {name: (kind, facts)}; it is filled even if the backend fails.
    shapes: for each input which of its sizes are symbols (_text.symbolic_shape); None: all sizes are constants.
    """
    facts = {} if facts is None else facts
    try:
        with config.patch(repro_after=None):
            if stage == "dynamo":
                return _compile_captured(specimen, inputs, backend, facts, shapes)
            return _compile_aot(specimen, inputs, stage, backend, facts, shapes)
    except exc.BackendCompilerFailed as error:
        raise _inner(error) from None


def _symbolic_fakes(inputs, shapes, sources):
    """(mode, fakes, contexts of the tensors): fakes that have symbols where `shapes` has names. Equal sizes are one
    symbol."""
    from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatefulSymbolicContext

    shape_env = ShapeEnv()
    mode = FakeTensorMode(shape_env=shape_env, allow_non_fake_inputs=True)
    contexts = WeakTensorKeyDictionary()
    fakes = []
    for value, shape, source in zip(inputs, shapes, sources, strict=True):
        if isinstance(value, torch.Tensor):
            names = shape if isinstance(shape, tuple) and len(shape) == value.dim() else (None,) * value.dim()
            sizes = [DimDynamic.DUCK if isinstance(name, str) else DimDynamic.STATIC for name in names]
            contexts[value] = StatefulSymbolicContext(
                dynamic_sizes=sizes, constraint_sizes=[None] * len(sizes), tensor_source=source
            )
            fakes.append(mode.from_tensor(value, symbolic_context=contexts[value], source=source))
        elif type(value) is int and isinstance(shape, str):
            symbol = shape_env.create_symbol(value, source=source, dynamic_dim=DimDynamic.DUCK)
            fakes.append(shape_env.create_symintnode(symbol, hint=value, source=source))
        else:
            fakes.append(value)
    return mode, fakes, contexts


def _with_fakes(module, key, fakes):
    for node, fake in zip(module.graph.find_nodes(op="placeholder"), fakes, strict=True):
        node.meta[key] = fake
    return module


def _bare(specimen):
    """The FX graph with nothing but its calls."""
    captured = specimen.to_fx()
    module = torch.fx.GraphModule(captured, _text.copied(captured.graph))
    for node in module.graph.nodes:
        node.meta = {}
    return module


def _input_sources(specimen):
    return [_fx.InputSource(name, i) for i, name in enumerate(specimen.inputs())]


def symbolic_facts(specimen, inputs, stage, shapes):
    """{name: (kind, facts)} of a specimen's values, as far as fakes can follow."""
    mode, fakes, _ = _symbolic_fakes(inputs, shapes, _input_sources(specimen))
    key = "example_value" if stage == "dynamo" else "val"
    return _propagate(specimen, _with_fakes(_bare(specimen), key, fakes), key, mode)


def _compile_captured(specimen, inputs, backend, facts, shapes):
    module = specimen.with_examples(inputs).to_fx()
    context = _fx.prepare(module)
    record = module._stator_record
    examples = record.examples
    if shapes is None:
        with tracing(context):
            fakes = [_node_meta.fake_input(record, i, example) for i, example in enumerate(examples)]
    else:
        mode, fakes, context.tensor_to_context = _symbolic_fakes(examples, shapes, record.sources)
        record.fake_mode = context.fake_mode = mode
        examples = [f if isinstance(f, torch.SymInt) else e for f, e in zip(fakes, examples, strict=True)]
    facts |= _propagate(specimen, _with_fakes(module, "example_value", fakes), "example_value", context.fake_mode)
    with _fx.handed_over(module, context):
        return backend(module, examples)


def _compile_aot(specimen, inputs, stage, backend, facts, shapes):
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    if shapes is not None:
        mode, fakes, _ = _symbolic_fakes(inputs, shapes, _input_sources(specimen))
    else:
        mode = FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True)
        fakes = [mode.from_tensor(x, static_shapes=True) if isinstance(x, torch.Tensor) else x for x in inputs]
    module = _with_fakes(_bare(specimen), "val", fakes)
    facts |= _propagate(specimen, module, "val", mode)
    output = module.graph.output_node()
    output.meta["val"] = torch.fx.node.map_arg(output.args[0], lambda n: n.meta.get("val"))
    compiler = aot_compiler(backend, stage)
    with tracing(TracingContext(mode)), torch.no_grad():
        return as_function(compiler(module, fakes))
