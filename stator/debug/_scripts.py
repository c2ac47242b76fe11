"""Scripts: a failing graph with all that it needs, as a file that runs alone. Written from a template, read back for
the minifier."""

import ast
import contextlib
import dataclasses
import functools
import logging
import os
import platform
import sys
import tempfile
import time
import traceback
from typing import Any

import torch

from stator.debug import _inputs, _program, _text, _verdict
from stator.debug._inputs import InputsError
from stator.debug._stage import STAGES, BackendName
from stator.debug._text import ScriptError
from stator.debug._verdict import Verdict

log = logging.getLogger("stator.debug")

FORMAT = 2
MARK = "# Written by stator.debug."
_ENVIRONMENT = ("TORCHINDUCTOR_", "TORCH_", "PYTORCH_", "CUDA_VISIBLE", "OMP_NUM", "MKL_NUM", "TRITON_", "CUBLAS_")
_CONFIGS = ("torch._inductor.config", "torch._functorch.config")


# ---- what is written of the process


def configuration_lines():
    """What the program changed in torch's settings, as statements. What cannot be written stands in a comment."""
    lines = []
    for name in _CONFIGS:
        changed = sys.modules[name].codegen_config().splitlines() if name in sys.modules else []
        lines += [f"import {name}"] if changed else []
        lines += [line if _is_statement(line) else f"# put it here by hand: {line}" for line in changed]
    return lines


def _is_statement(line):
    try:
        ast.parse(line)
    except SyntaxError:
        return False
    return "__main__" not in line


def versions():
    import stator

    return {"stator": stator.__version__, "torch": str(torch.__version__), "python": platform.python_version()}


# ---- a case


@dataclasses.dataclass
class Case:
    """A graph, its inputs, and how it failed."""

    specimen: Any
    specs: dict  # name of an input -> its description, see _inputs
    stage: str
    backend: BackendName
    failure: Verdict
    folder: str  # where the values are
    header: dict  # STATE, RANDOM, VERSIONS, ENVIRONMENT, as in the script; configuration (its lines)

    @property
    def ignore_non_fp(self):
        # A rounding difference becomes a whole number's difference in comparisons and casts: not what is looked for,
        # unless it is.
        return (self.header.get("STATE") or {}).get("ignore_non_fp", True)

    def load_inputs(self):
        loader = _inputs.Loader(self.folder)
        return [loader.value(self.specs[name]) for name in self.specimen.inputs()]

    @property
    def shapes(self):
        """{name: which of its sizes are symbols (_text.symbolic_shape)} of the inputs that have some."""
        shapes = {name: _inputs.shape_of(spec) for name, spec in self.specs.items()}
        return {name: shape for name, shape in shapes.items() if shape is not None}

    def seed(self):
        state = self.header.get("RANDOM") or {"seed": 0}
        if "seed" in state:
            torch.manual_seed(state["seed"])
            return
        loader = _inputs.Loader(self.folder)
        for device, digest in state.items():
            data = loader.read(digest, None)
            if device == "cpu":
                torch.set_rng_state(data)
            elif torch.cuda.is_available():
                torch.cuda.set_rng_state(data, device)

    def changed(self, **fields):
        return dataclasses.replace(self, **fields)


# ---- writing


@functools.cache
def _template():
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("stator.debug", "templates"),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["literal"] = _inputs.literal
    return environment.get_template("repro.py.jinja")


_LONGEST_VALUE = 2000  # characters


def _can_be_written(value):
    try:
        return len(_inputs.literal(value)) <= _LONGEST_VALUE
    except InputsError:
        return False


def _program_call(path):
    """What gives a script the definitions of the program's own file."""
    values, defaults = _program.computed_values(path, _can_be_written)
    given = [_inputs.literal(part) for part in ([values, defaults] if defaults else [values] if values else [])]
    return f"stator.debug.definitions({', '.join([repr(path), *given])})"


def render(case, path, command="run"):
    """The text of a script that will lie at `path`, and does `command` if it is not told what to do."""
    text = _text.text_of(case.specimen)
    calls = case.specimen.calls()
    file, _, _ = case.backend.text.rpartition(":")
    program = text.program or (file if file.endswith(".py") else None)
    summary = f"{len(calls)} call{'s' if len(calls) != 1 else ''}, {case.stage}, backend {case.backend.text}"
    is_random = any(_text.is_random(call[1]) or _text.is_higher_order(call[1]) for call in calls)
    constants = {
        "FORMAT": FORMAT,
        "VERSIONS": case.header.get("VERSIONS") or versions(),
        "STAGE": case.stage,
        "BACKEND": case.backend.text,
        "MODE": case.backend.mode,
        "OPTIONS": case.backend.options,
        "FAILURE": dataclasses.asdict(case.failure),
        "STATE": case.header.get("STATE") or {},
        "RANDOM": (case.header.get("RANDOM") if is_random else None) or {"seed": 0},
        "DATA": os.path.relpath(os.path.abspath(case.folder), os.path.dirname(os.path.abspath(path))),
    }
    return _template().render(
        name=os.path.basename(path),
        summary=" ".join(f"{summary}: {case.failure}".split()),
        environment=case.header.get("ENVIRONMENT") or {},
        modules=text.modules,
        functions=text.functions,
        program=None if program is None else _program_call(program),
        command=command,
        constants=constants,
        configuration=case.header.get("configuration") or [],
        inputs=_inputs.write(text.parameters, [case.specs[name] for name in text.parameters]),
        parameters=text.parameters,
        body=text.body,
    )


def write(case, path, command="run"):
    _inputs.write_file(path, render(case, path, command).encode())
    return path


def write_launcher(case, run):
    """minifier/minifier_launcher.py: the script that cuts itself down when it is run."""
    return write(case, os.path.join(run.folder, "minifier", "minifier_launcher.py"), "minify")


def is_ours(path):
    """Whether a file may be overwritten by a new script: it is one itself."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.readline().startswith(MARK)
    except (OSError, UnicodeDecodeError):
        return False


def write_convenient(case, folder=None):
    """repro.py in the working folder, unless that cannot be or something else is there."""
    path = os.path.join(folder or os.getcwd(), "repro.py")
    try:
        if os.path.exists(path) and not is_ours(path):
            log.warning("%s is not a script of stator.debug: left as it is", path)
            return None
        return write(case, path)
    except OSError as error:
        log.warning("no copy in the working folder: %s", error)
        return None


class Run:
    """The folder of one process's scripts: stator_debug/run_<time>_<pid>/."""

    def __init__(self, folder=None):
        rank = f"_rank{os.environ['RANK']}" if "RANK" in os.environ else ""
        name = f"run_{time.strftime('%Y%m%d_%H%M%S')}_{os.getpid()}{rank}"
        self.folder = folder or os.path.join(_default_base(), name)
        self.store = _inputs.Store(os.path.join(self.folder, "storages"))

    def checkpoint_path(self, count, text_of):
        """<nodes>.py, or <nodes>_1.py where another graph of that size is there already."""
        folder = os.path.join(self.folder, "checkpoints")
        for i in range(10_000):
            path = os.path.join(folder, f"{count}{f'_{i}' if i else ''}.py")
            if not os.path.exists(path):
                return path
            with contextlib.suppress(OSError), open(path, encoding="utf-8") as file:
                if file.read() == text_of(path):
                    return path
        raise OSError(f"{folder} is full of scripts")


def _default_base():
    """STATOR_DEBUG_DIR, or stator_debug in the working folder; in the folder of temporary files if that cannot be
    written to."""
    named = os.environ.get("STATOR_DEBUG_DIR")
    base = named or os.path.join(os.getcwd(), "stator_debug")
    place = base if os.path.exists(base) else os.path.dirname(base)
    if named or os.access(place, os.W_OK):
        return base
    other = os.path.join(tempfile.gettempdir(), f"stator_debug_{os.getuid()}")
    log.warning("%s cannot be written to: scripts go to %s (STATOR_DEBUG_DIR names another folder)", place, other)
    return other


@functools.cache
def _run_of(pid, named, folder):
    return Run()


def this_run():
    return _run_of(os.getpid(), os.environ.get("STATOR_DEBUG_DIR"), os.getcwd())


def make_case(specimen, values, stage, backend, failure, store, random=None, shapes=None, ignore_non_fp=True):
    """A case from values as they are now. Saves what they hold. ignore_non_fp: what is wrong shows in floating
    outputs."""
    describer, shapes = _inputs.Describer(store), shapes or {}
    named = zip(specimen.inputs(), values, strict=True)
    specs = {name: _inputs.with_shape(describer.spec(value), shapes.get(name)) for name, value in named}
    header = {
        "STATE": {**_verdict.present_state(), "ignore_non_fp": ignore_non_fp},
        "RANDOM": _inputs.random_state(store) if random is None else random,
        "ENVIRONMENT": {k: v for k, v in os.environ.items() if k.startswith(_ENVIRONMENT) and not k.endswith("_DIR")},
        "VERSIONS": versions(),
        "configuration": configuration_lines(),
    }
    return Case(specimen, specs, stage, backend, failure, store.folder, header)


def write_case(case, run, convenient=True):
    """Writes a checkpoint and the copy in the working folder; gives the checkpoint's path."""
    path = run.checkpoint_path(case.specimen.call_count(), lambda p: render(case, p))
    write(case, path)
    if convenient:
        write_convenient(case)
    return path


# ---- reading

_FIELDS = {"FORMAT": int, "STAGE": str, "BACKEND": str, "FAILURE": dict, "STATE": dict, "RANDOM": dict, "DATA": str}


def load(path):
    """The case in a script. Whatever is wrong with the file is said, with the line where there is one."""
    try:
        with open(path, encoding="utf-8") as file:
            source = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise ScriptError(f"{path} cannot be read: {error}") from None
    scope = {"__name__": "__stator_script__", "__file__": os.path.abspath(path)}
    try:
        exec(compile(source, path, "exec"), scope)
    except SyntaxError as error:
        raise ScriptError(f"{path}, line {error.lineno}: {error.msg}") from None
    except Exception as error:
        line = next((f.lineno for f in reversed(traceback.extract_tb(error.__traceback__)) if f.filename == path), "?")
        raise ScriptError(f"{path}, line {line}: {type(error).__name__}: {error}") from None
    for name, kind in _FIELDS.items():
        if not isinstance(scope.get(name), kind):
            raise ScriptError(
                f"{path}: {name} is missing or no {kind.__name__}: not a script of stator.debug, or edited"
            )
    if scope["FORMAT"] != FORMAT:
        raise ScriptError(
            f"{path} has format {scope['FORMAT']}, this version reads format {FORMAT}: use the version that wrote it"
        )
    if scope["STAGE"] not in STAGES:
        raise ScriptError(f"{path}: STAGE is {scope['STAGE']!r}, and there are {', '.join(STAGES)}")
    written, here = scope.get("VERSIONS") or {}, versions()
    for name in ("torch", "stator"):
        if written.get(name, here[name]) != here[name]:
            log.warning("%s was written with %s %s, this is %s", path, name, written[name], here[name])
    try:
        failure = Verdict(**scope["FAILURE"])
    except TypeError:
        raise ScriptError(f"{path}: FAILURE is not a verdict: {scope['FAILURE']!r}") from None
    specimen = _text.read_forward(source, scope, path)
    header = {name: scope.get(name) or {} for name in ("STATE", "RANDOM", "VERSIONS", "ENVIRONMENT")}
    header["configuration"] = _configuration_of(source)
    folder = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(path)), scope["DATA"]))
    backend = BackendName(scope["BACKEND"], scope.get("MODE"), scope.get("OPTIONS"))
    return Case(specimen, _specs_of(scope, specimen, path), scope["STAGE"], backend, failure, folder, header)


def _specs_of(scope, specimen, path):
    """The descriptions of a script's inputs, by name."""
    if not callable(scope.get("inputs")):
        raise ScriptError(f"{path}: there is no function `inputs` in it")
    names = specimen.inputs()
    try:
        given = list(_inputs.recorded(scope["inputs"]))
    except Exception as error:
        raise ScriptError(f"{path}: inputs() cannot be read: {type(error).__name__}: {error}") from None
    if len(given) != len(names):
        raise ScriptError(f"{path}: inputs() gives {len(given)} values, forward takes {len(names)}")
    return dict(zip(names, given, strict=True))


def _configuration_of(source):
    functions = (s for s in ast.parse(source).body if isinstance(s, ast.FunctionDef) and s.name == "configure")
    return [ast.unparse(line) for function in functions for line in function.body if not isinstance(line, ast.Return)]
