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
import functools
import importlib
import inspect
import logging
import operator
import os
from unittest import mock

import torch
from torch._guards import TracingContext, tracing
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.weak import WeakTensorKeyDictionary

from stator import _backends, _fx, _node_meta, config, exc
from stator.debug import _models, _text
from stator.debug._program import ScriptError, definitions

log = logging.getLogger("stator.debug")

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
    if place.endswith(".py") and not os.path.exists(place):
        raise ScriptError(f"the backend is {name} of {place}, and there is no such file")
    module = definitions(place) if place.endswith(".py") else importlib.import_module(place)
    try:
        return operator.attrgetter(name)(module)
    except AttributeError:
        raise ScriptError(f"the backend {name} is not in {place}") from None


def name_of(backend):
    """How a script names the backend of a compile call (a stator._backends.Backend)."""
    asked, text = backend.asked, None
    own = _backends._own.get(asked) if isinstance(asked, str) else asked
    module, name = getattr(own, "__module__", ""), getattr(own, "__qualname__", "<")
    if module == "__main__":
        module = _text.program_of(own)
    elif isinstance(asked, str):
        text = asked
    if text is None and module and "<" not in name:
        text = f"{module}:{name}"
    if text is None:
        log.warning(
            "the backend %s is a local function: the script's BACKEND has to be filled in by hand",
            backend.compiler_name,
        )
    return BackendName(text or "__main__:fill_in", backend.mode, backend.options or None)


# ---- AOTAutograd's compilers


@contextlib.contextmanager
def inner_compilers(backend, replace):
    """While this lasts, replace(role, compiler) stands for each compiler that the backend hands to AOTAutograd. Of
    inductor for one that is a step further in: compile_fx_inner, which gets inductor's inputs."""
    from torch._functorch import config as functorch_config

    entries = _inductor_entry(replace) if backend.asked == "inductor" else _aot_entries(replace)
    with contextlib.ExitStack() as stack:
        # A cached result would come without its graphs having been compiled.
        stack.enter_context(functorch_config.patch(enable_autograd_cache=False))
        for place, name, entry in entries:
            stack.enter_context(mock.patch.object(place, name, entry))
        yield


def _aot_entries(replace):
    import torch._functorch.aot_autograd as functorch
    from torch._dynamo.backends import common

    name = "aot_module_simplified"
    original = getattr(common, name)
    signature = inspect.signature(original)

    def entry(*args, **kwargs):
        bound = signature.bind(*args, **kwargs)
        given = bound.arguments
        forward = given["fw_compiler"]
        given["fw_compiler"] = replace("forward", forward)
        given["bw_compiler"] = replace("backward", given.get("bw_compiler") or forward)
        given["inference_compiler"] = replace("inference", given.get("inference_compiler") or forward)
        return original(*bound.args, **bound.kwargs)

    return [(place, name, entry) for place in (common, functorch) if getattr(place, name, None) is original]


def _inductor_entry(replace):
    from torch._inductor import compile_fx as inductor

    inner = inductor.compile_fx_inner

    def inner_compile(gm, example_inputs, **kwargs):
        role = "backward" if kwargs.get("is_backward") else "inference" if kwargs.get("is_inference") else "forward"
        return replace(role, lambda g, e: inner(g, e, **kwargs))(gm, example_inputs)

    return [(inductor, "compile_fx", functools.partial(inductor.compile_fx, inner_compile=inner_compile))]


def grad(stage):
    """Graphs behind AOTAutograd have no gradients."""
    return contextlib.nullcontext() if stage == "dynamo" else torch.no_grad()


class Graph:
    """A graph module as a specimen, and how the two belong together."""

    def __init__(self, module):
        self.specimen, self.tensors = _text.from_module(module)
        self.picked = _text.picked_outputs(module, self.specimen)
        self.shapes = _text.symbolic_shapes(module)

    def values(self, inputs):
        """The specimen's inputs for those of the module."""
        return [*inputs, *self.tensors]

    def difference(self, compiled, inputs, stage="dynamo"):
        """The first one between the specimen and what a compiler made of the module."""

        def of_specimen(*values):
            out = compiled(*values[: len(values) - len(self.tensors)])
            return tuple(out[i] for i in self.picked)

        with grad(stage):
            return _models.compare_two_models(
                self.specimen.to_fx(), of_specimen, self.values(inputs), ignore_non_fp=config.repro_ignore_non_fp
            )


class _Found(BaseException):
    pass


def aot_compiler(backend, role):
    """The compiler that a backend uses for one of AOTAutograd's graphs."""
    if backend.asked == "inductor":
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

    def remember(which, compiler):
        if which == role:
            raise _Found(compiler)
        return compiler

    try:
        with inner_compilers(backend, remember), config.patch(repro_after=None):
            backend(torch.fx.symbolic_trace(lambda x: (x * 2,)), [torch.ones(2, requires_grad=True)])
    except _Found as found:
        return found.args[0]
    raise ScriptError(
        f"the backend {backend.compiler_name} does not go through AOTAutograd: there is no stage {role!r}"
    )


# ---- compiling a specimen


class Prepared:
    """A specimen as the compiler of a stage gets it: an FX module with fakes of its values.

    shapes: by name, which sizes of an input are symbols (_text.symbolic_shape).
    """

    def __init__(self, specimen, inputs, stage, shapes):
        self.stage, self.examples = stage, list(inputs)
        sources = [_fx.InputSource(name, i) for i, name in enumerate(specimen.inputs())]
        if stage == "dynamo":
            self.module = specimen.with_examples(inputs).to_fx()
            self.context = _fx.prepare(self.module)
            sources = self.module._stator_record.sources
        else:
            self.module = _bare(specimen)
            self.context = TracingContext(None)
        symbolic = [shapes.get(name) for name in specimen.inputs()]
        self.mode, fakes, self.context.tensor_to_context = _fakes(self.examples, symbolic, sources)
        self.context.fake_mode = self.mode
        if stage == "dynamo":
            self.module._stator_record.fake_mode = self.mode
            self.examples = [f if isinstance(f, torch.SymInt) else e for f, e in zip(fakes, inputs, strict=True)]
        else:
            self.examples = fakes
        self.values = self._propagate(specimen, fakes)

    def _propagate(self, specimen, fakes):
        """Puts a fake of every value into the nodes' meta, as far as fakes can follow. Gives {name: fake}, by the
        specimen's names."""
        key = "example_value" if self.stage == "dynamo" else "val"
        values = {}
        # FX may have given other names, but the order is the same.
        names, given = iter([*specimen.inputs(), *(call[0] for call in specimen.calls())]), iter(fakes)
        interpreter = torch.fx.Interpreter(self.module)
        with self.mode, grad(self.stage):
            for node in self.module.graph.nodes:
                if node.op == "output":
                    node.meta[key] = torch.fx.node.map_arg(node.args[0], lambda n: n.meta.get(key))
                    break
                name = next(names) if node.op != "get_attr" else None  # that is a function that the graph calls
                with contextlib.suppress(
                    Exception
                ):  # data-dependent, or no rule for fakes: the backend copes or says so
                    value = next(given) if node.op == "placeholder" else interpreter.run_node(node)
                    interpreter.env[node] = value
                    if name is not None:
                        node.meta[key] = values[name] = value
        return values

    def facts(self):
        return {name: _text.facts_of(value) for name, value in self.values.items()}

    def compiled(self, backend):
        """A function of the specimen's inputs. The backend's errors come out as they are."""
        try:
            with config.patch(repro_after=None):
                if self.stage == "dynamo":
                    with _fx.handed_over(self.module, self.context):
                        return backend(self.module, self.examples)
                compiler = aot_compiler(backend, self.stage)
                with tracing(self.context), torch.no_grad():
                    return as_function(compiler(self.module, self.examples))
        except exc.BackendCompilerFailed as error:
            raise inner_error(error) from None


def _fakes(inputs, shapes, sources):
    """(mode, fakes, contexts of the tensors): fakes that have symbols where `shapes` has names. Equal sizes are one
    symbol."""
    from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv

    shape_env = ShapeEnv()
    mode = FakeTensorMode(shape_env=shape_env, allow_non_fake_inputs=True)
    contexts = WeakTensorKeyDictionary()
    fakes = []
    for value, shape, source in zip(inputs, shapes, sources, strict=True):
        if isinstance(value, torch.Tensor):
            context = _node_meta.input_context(value, source, DimDynamic.STATIC)
            if isinstance(shape, tuple) and len(shape) == value.dim():
                sizes = [DimDynamic.DUCK if isinstance(name, str) else DimDynamic.STATIC for name in shape]
                context = dataclasses.replace(context, dynamic_sizes=sizes)
            contexts[value] = context
            fakes.append(mode.from_tensor(value, symbolic_context=context, source=source))
        elif type(value) is int and isinstance(shape, str):
            symbol = shape_env.create_symbol(value, source=source, dynamic_dim=DimDynamic.DUCK)
            fakes.append(shape_env.create_symintnode(symbol, hint=value, source=source))
        else:
            fakes.append(value)
    return mode, fakes, contexts


def _bare(specimen):
    """The FX graph with nothing but its calls."""
    captured = specimen.to_fx()
    module = torch.fx.GraphModule(captured, _text.copied(captured.graph))
    for node in module.graph.nodes:
        node.meta = {}
    return module


def inner_error(error):
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
