"""Text cases of tests/capture/: reading, running and rewriting them. docs/ADDING.md describes the form.

What is expected is everything from the first section of a capture to the end of the case. It is compared, line by line,
with all that the case's calls captured, in order. capture_text.py writes it.
"""

import ast
import contextlib
import copy
import dataclasses
import gc
import io
import linecache
import pathlib
import re
import traceback
import types
import warnings

import torch
import torch._dynamo  # puts another function into the place of torch.manual_seed: the texts are those behind that
from torch.utils._dtype_abbrs import dtype_abbrs

import capture_text
import stator
from tests.python.observe import no_automatic_collection, reset_ambient
from tests.python.programs import load_all

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "capture"
PROGRAM = ("python", "program", "inputs", "compile", "config", "raises")
CAPTURE = capture_text.SECTIONS
HEADER = re.compile(r"^(\w+):[ \t]*(.*)$")
TENSOR = re.compile(r"^(\w+)\[([\d, ]*)\](\s+grad)?$")
DTYPES = {**{short: dtype for dtype, short in dtype_abbrs.items()}, "bool": torch.bool}


class BadCase(Exception):
    pass


@dataclasses.dataclass
class Case:
    path: pathlib.Path
    line: int  # of "case:", from 1
    name: str
    program: str = ""
    corpus: str = ""  # the name of a program of tests/python/programs, in place of a text
    calls: list = dataclasses.field(default_factory=list)  # the text of each `inputs`
    arguments: str = ""  # of stator.compile
    config: str = ""  # settings of stator.config
    raises: str = ""  # the class of the error by which capture is refused, where eager raises nothing
    expected: list = dataclasses.field(default_factory=list)  # lines, from the first capture section on
    expected_from: int = 0  # first line of `expected`, and the line behind it, from 0
    expected_to: int = 0

    def fail(self, message):
        raise BadCase(f"{self.path.name}:{self.line}: case {self.name!r}: {message}")

    @property
    def file(self):
        """The name of the program's text, for code objects."""
        return f"<{self.path.name}:{self.line}>"


def read(path, text=None):
    """The cases of a file."""
    lines = (path.read_text() if text is None else text).splitlines()
    starts = [i for i, line in enumerate(lines) if line.startswith("case:")]
    for i, line in enumerate(lines[: starts[0] if starts else len(lines)]):
        if line.strip() and not line.startswith("#"):
            raise BadCase(f"{path.name}:{i + 1}: {line!r} stands before the first case")
    return [_read_case(path, lines, begin, end) for begin, end in zip(starts, [*starts[1:], len(lines)])]


def _read_case(path, lines, begin, end):
    case = Case(path, begin + 1, lines[begin].partition(":")[2].strip())
    while end > begin and (not lines[end - 1].strip() or lines[end - 1].startswith("#")):
        end -= 1  # empty lines and comments between two cases belong to neither
    case.expected_from = case.expected_to = end
    section, i = None, begin + 1
    while i < end:
        line = lines[i]
        header = HEADER.match(line)
        if header:
            section, rest = header[1], header[2].strip()
            if section in CAPTURE:
                case.expected, case.expected_from = [part.rstrip() for part in lines[i:end]], i
                break
            if section not in PROGRAM:
                case.fail(f"line {i + 1}: no section is called {section!r}")
            if section == "inputs":
                case.calls.append(rest)
            elif section == "compile":
                case.arguments = rest
            elif section == "config":
                case.config = rest
            elif section == "raises":
                case.raises = rest
            elif section == "program":
                case.corpus = rest
        elif line.strip():
            if section != "python" or not line.startswith("  "):
                case.fail(f"line {i + 1}: {line!r} belongs to no section")
            case.program += line[2:] + "\n"
        else:
            case.program += "\n"
        i += 1
    if not case.name:
        case.fail("has no name")
    if not case.program.strip() and not case.corpus:
        case.fail("has no program")
    if case.corpus and (case.program.strip() or case.calls):
        case.fail("has a program of the corpus, and one of its own")
    for kept in case.expected:
        found = HEADER.match(kept)
        if found and found[1] not in CAPTURE:
            case.fail(f"section {found[1]!r} stands behind the capture")
    return case


def entry_name(case):
    """The function that is compiled: the last one defined at the top of the program."""
    functions = [node.name for node in ast.parse(case.program).body if isinstance(node, ast.FunctionDef)]
    if not functions:
        case.fail("defines no function")
    return functions[-1]


def make_inputs(text, namespace):
    """`x = f32[2, 3]; n = 4` as keyword arguments; tensors have random values, the same for the same text."""
    generator = torch.Generator().manual_seed(0)
    values = {}
    for part in filter(None, (p.strip() for p in text.split(";"))):
        name, equals, value = (p.strip() for p in part.partition("="))
        if not equals or not name.isidentifier():
            raise BadCase(f"{part!r} is no input: write name = value")
        tensor = TENSOR.match(value)
        if tensor and tensor[1] in DTYPES:
            values[name] = _random_tensor(DTYPES[tensor[1]], tensor[2], generator, bool(tensor[3]))
        else:
            values[name] = eval(value, {**namespace, **values})
    return values


def _random_tensor(dtype, sizes, generator, grad):
    shape = [int(s) for s in sizes.split(",") if s.strip()]
    if dtype.is_floating_point or dtype.is_complex:
        made = torch.randn(shape, generator=generator).to(dtype)
    else:
        made = torch.randint(0, 2 if dtype is torch.bool else 10, shape, generator=generator).to(dtype)
    return made.requires_grad_(grad)


@dataclasses.dataclass
class Outcome:
    """All that a call did which the user can see."""

    value: object = None
    error: object = None
    printed: str = ""
    arguments: object = None  # as the call left them
    namespace: object = None


def run(case, compiled):
    """The outcome of each of the case's calls, and what was captured in each."""
    namespace = {"torch": torch, "stator": stator, "__name__": "case"}
    given = {*namespace, "__builtins__"}
    linecache.cache[case.file] = (len(case.program), None, case.program.splitlines(True), case.file)
    exec(compile(case.program, case.file, "exec"), namespace)
    function = namespace[entry_name(case)]
    if compiled:
        function = compile_for(case, function)
        stator._core.take_captures()
    outcomes, captures = [], []
    for number, call in enumerate(case.calls or [""], 1):
        torch.manual_seed(0)
        arguments = make_inputs(call, namespace)
        outcome, printed = Outcome(arguments=arguments), io.StringIO()
        with contextlib.redirect_stdout(printed):
            try:
                outcome.value = function(**arguments)
            except Exception as error:
                outcome.error = (type(error).__qualname__, error.args, program_lines(error))
        outcome.printed = printed.getvalue()
        outcome.namespace = {k: v for k, v in namespace.items() if k not in given}
        outcomes.append(copy_values(outcome))
        captures.append(capture_text.text(stator._core.take_captures(), f"call {number}" if number > 1 else ""))
    return outcomes, "\n".join(filter(None, captures))


def compile_for(case, function):
    return stator.compile(function, **{"backend": "eager", **eval(f"dict({case.arguments})")})


@contextlib.contextmanager
def configured(case):
    settings = stator.config.get_config_copy()
    for name, value in eval(f"dict({case.config})").items():
        setattr(stator.config, name, value)
    try:
        yield
    finally:
        stator.config.load_config(settings)


def captured(case):
    """The text of all that a case captures."""
    torch.utils.hooks.RemovableHandle.next_id = 0  # keys of hook dicts would count up from run to run
    with keeping(), configured(case):
        return run_corpus(case) if case.corpus else run(case, compiled=True)[1]


@contextlib.contextmanager
def keeping():
    stator._core.keep_captures(True)
    try:
        yield
    finally:
        stator._core.keep_captures(False)


_corpus = {}


def corpus_program(name):
    if not _corpus:
        _corpus.update((program.name, program) for program in load_all())
    return _corpus[name]


def run_corpus(case):
    """What a program of the corpus captures: at a first call, on changed inputs, and after each of its own steps."""
    program = corpus_program(case.corpus)
    texts = []

    def call(made, function, when):
        quietly(lambda: function(*made.args, **made.kwargs))
        texts.append(capture_text.text(stator._core.take_captures(), when, program))

    stator.reset()
    quietly(program.make)  # sets back what an earlier run left in globals
    gc.collect(0)
    torch.utils.hooks.RemovableHandle.next_id = 0
    made = program.make()
    steps = made.steps
    first = compile_for(case, made.fn)
    stator._core.take_captures()
    call(made, first, "")
    for number, step in enumerate(steps, 1):
        quietly(lambda step=step: step(made))
        call(made, first, f"after step {number}")
    changed = program.make()
    quietly(lambda: changed.change(changed))
    call(changed, compile_for(case, changed.fn), "changed inputs")
    return "\n".join(filter(None, texts))


def quietly(function):
    """Calls it, whatever comes of it: that is compared elsewhere (test_programs.py)."""
    reset_ambient()
    with (
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
        no_automatic_collection(),
    ):
        with warnings.catch_warnings(), contextlib.suppress(Exception, SystemExit):
            warnings.resetwarnings()  # others set by libraries would be guarded
            warnings.simplefilter("ignore")
            function()
    reset_ambient()


def program_lines(error):
    """Function and line of each of the program's frames in the traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    return [(frame.name, frame.lineno) for frame in frames if frame.filename.startswith("<")]


def copy_values(outcome):
    """Later calls may change what this one returned or left behind."""
    try:
        return copy.deepcopy(outcome)
    except Exception:
        return outcome  # generators and their like


def can_compare_captures():
    """Forced breaks change what is captured, and nothing else."""
    return stator.config.break_every == "0"


def difference(eager, compiled, path="", seen=None):
    """The first place where two values differ, in words, or None."""
    seen = set() if seen is None else seen
    if type(eager) is not type(compiled) and not same_class(type(eager), type(compiled)):
        return f"{path}: {type(compiled).__name__} instead of {type(eager).__name__}"
    if isinstance(eager, torch.Tensor):
        same = eager.dtype == compiled.dtype and eager.shape == compiled.shape and eager.stride() == compiled.stride()
        same = (
            same
            and eager.requires_grad == compiled.requires_grad
            and torch.equal(eager.detach().nan_to_num(), compiled.detach().nan_to_num())
        )
        return None if same else f"{path}: {compiled} instead of {eager}"
    if (id(eager), id(compiled)) in seen:
        return None
    seen.add((id(eager), id(compiled)))
    if isinstance(eager, dict):
        if list(eager) != list(compiled):
            return f"{path}: keys {list(compiled)} instead of {list(eager)}"
        parts = [(f"{path}[{k!r}]", eager[k], compiled[k]) for k in eager]
    elif isinstance(eager, (list, tuple)):
        if len(eager) != len(compiled):
            return f"{path}: length {len(compiled)} instead of {len(eager)}"
        parts = [(f"{path}[{i}]", a, b) for i, (a, b) in enumerate(zip(eager, compiled))]
    elif isinstance(eager, types.ModuleType) or (callable(eager) and not hasattr(eager, "__dict__")):
        return None
    elif hasattr(eager, "__dict__") and not isinstance(eager, type):
        parts = [(f"{path}.__dict__", vars(eager), vars(compiled))]
    elif isinstance(eager, type) or isinstance(eager, BaseException):
        return None
    else:
        same = eager == compiled or eager != eager or type(eager).__eq__ is object.__eq__
        return None if same else f"{path}: {compiled!r} instead of {eager!r}"
    for where, a, b in parts:
        if found := difference(a, b, where, seen):
            return found
    return None


def same_class(one, other):
    """Each run executes the program anew, so its classes are made twice."""
    return one.__module__ == other.__module__ == "case" and one.__qualname__ == other.__qualname__


def check_results(case, eager, compiled):
    if case.raises:
        names = [seen.error and seen.error[0] for seen in compiled]
        assert names == [case.raises] * len(eager), names
        assert not any(seen.error for seen in eager)
        return
    for number, (expected, seen) in enumerate(zip(eager, compiled), 1):
        for field in dataclasses.fields(Outcome):
            found = difference(getattr(expected, field.name), getattr(seen, field.name), field.name)
            assert found is None, f"{case.path.name}:{case.line}: case {case.name!r}, call {number}: {found}"


def rewritten(path, captures):
    """The file's text with the capture sections of its cases replaced; `captures` maps a case's name to its text."""
    lines = path.read_text().splitlines()
    for case in reversed(read(path)):
        if case.name in captures and case.expected:
            lines[case.expected_from : case.expected_to] = captures[case.name].rstrip().splitlines()
    return "\n".join(lines) + "\n"
