"""A sweep over the public surface: every function and method, with arguments drawn at random, eagerly and compiled.

    python -m tests.fuzz.sweep [--seed 0] [--trials 12] [--jobs 2] [-k torch.Tensor] [--backend aot_eager]

A call stands beside a tensor operation, so that it is in a captured part; the compiled function is called twice, the second time from its entry.
Compared are the result, what became of the arguments, the exception with its words, and the random state. Where grammars make programs that people
would write, this asks for each name there is whether its answer is eager's: nobody has to have thought of it.
"""

from __future__ import annotations

import argparse
import collections
import functools
import inspect
import itertools
import math
import operator
import os
import random
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F

from tests.python.observe import Describer
from tests.python.workers import OneWorker, run_tasks

# What ends, waits for or asks somebody, writes files, draws from the clock, or changes the process for all that follow.
_NOT = re.compile(
    r"^(exit|quit|input|open|help|breakpoint|copyright|credits|license|exec|eval|print|compile|__import__|globals|locals|vars|dir|"
    r"set_\w+|load|save|from_file|compile|export|jit_\w+|init_\w+|seed|manual_seed|use_deterministic_algorithms|import_ir_module\w*|"
    r"parse_\w+|merge_type\w*|fork|wait|cudnn_\w+|miopen_\w+|mkldnn_\w+|hsmm|clear_\w+|autocast_\w+|read_vitals|set_vitals|vitals_enabled|"
    r"share_memory_|pin_memory|empty\w*|new_empty\w*|new|resize_\w*|get_\w+|unify_type_list|_\w+|random_?|rand\w*|urandom|cuda|xpu|ipu|hpu|mtia|"
    r"is_\w*enabled\w*|Assert|obj|sym_\w+|cond|while_loop|vmap|classproperty|typename|freeze|thread_safe_generator|backward|quantized_\w+)$"
)
_TENSORS = (
    "torch.arange(4.0) - 1.5", "torch.tensor([0.5, -1.0, 2.0, 0.25])", "torch.arange(6).view(2, 3)", "torch.ones(2, 2)", "torch.tensor(2.5)",
    "torch.tensor([True, False, True, True])", "torch.zeros(0)", "torch.arange(4.0).requires_grad_()", "torch.arange(8.0)[::2]",
    "torch.ones(4, dtype=torch.float64)", "torch.tensor([3, 1, 2, 0])", "torch.ones(3, 4).t()", "torch.tensor([1 + 2j, 0.5j])",
    "torch.ones(2, 4, dtype=torch.float16)", "torch.tensor([float('nan'), 1.0, float('inf'), -0.0])", "torch.ones(1, 1, 4, 4)",
    "torch.tensor(3)", "torch.ones(4).expand(2, 4)", "torch.tensor([255, 1], dtype=torch.uint8)",
)  # fmt: skip
_NUMBERS = ("0", "1", "2", "-1", "3", "0.5", "-2.5", "True", "10**20", "float('nan')", "1j", "float('inf')")
_OTHERS = (
    "None", "'a'", "'ab c'", "''", "b'ab'", "[1, 2]", "[]", "(1, 2)", "()", "{'a': 1}", "{}", "{1, 2}", "frozenset([1])", "range(3)", "slice(1, None)",
    "torch.float64", "torch.int64", "torch.device('cpu')", "[torch.ones(2), torch.zeros(2)]", "(2, 2)", "[0]", "(0, 1)", "iter([1, 2])", "int", "len",
    "lambda *a: len(a)", "'sum'", "'mean'", "[[1, 2], [3, 4]]", "['b', 'a']", "{'b': 2, 'a': 1}", "'%s-%d'", "'{} {}'", "...", "(4,)", "[1.5, 2]",
)  # fmt: skip
_SELVES = {
    str: ("'a'", "'ab cAb'", "''", "'12'", "'a,b,,c'", "'x\\ty\\n'", "'\\u00dfI'"),
    bytes: ("b'ab'", "b''", "b'a b,c'"),
    bytearray: ("bytearray(b'ab')", "bytearray()"),
    list: ("[3, 1, 2]", "[]", "['b', 'a']", "[1, [2]]", "[torch.ones(2)]"),
    tuple: ("(3, 1, 2)", "()", "('a', (1,))"),
    dict: ("{'a': 1, 'b': 2}", "{}", "{1: [2]}", "{'t': torch.ones(2)}"),
    set: ("{1, 2, 3}", "set()", "{'a'}"),
    frozenset: ("frozenset([1, 2])", "frozenset()"),
    int: ("5", "-7", "0", "True", "2**70"),
    float: ("1.5", "-0.0", "float('inf')", "float('nan')", "2.0"),
    complex: ("1 + 2j", "0j"),
    range: ("range(5)", "range(5, 0, -2)", "range(0)"),
    slice: ("slice(1, None)", "slice(None, None, -1)"),
    collections.deque: ("collections.deque([1, 2, 3])", "collections.deque([], maxlen=2)", "collections.deque('ab', 2)"),
    collections.OrderedDict: ("collections.OrderedDict(a=1, b=2)", "collections.OrderedDict()"),
    collections.defaultdict: ("collections.defaultdict(list, a=[1])", "collections.defaultdict(None)", "collections.defaultdict(int)"),
    collections.Counter: ("collections.Counter('aab')", "collections.Counter()"),
    collections.ChainMap: ("collections.ChainMap({'a': 1}, {'b': 2})",),
    torch.Size: ("torch.Size([2, 3])", "torch.Size([])"),
    torch.Tensor: _TENSORS,
}  # fmt: skip
_MODULES = {
    "torch": torch, "F": F, "torch.linalg": torch.linalg, "torch.special": torch.special, "torch.fft": torch.fft, "math": math, "operator": operator,
    "itertools": itertools, "builtins": __builtins__ if not isinstance(__builtins__, dict) else sys.modules["builtins"],
}  # fmt: skip
_CONSUMED = {"count", "cycle", "repeat"}  # never end


def targets() -> Iterator[str]:
    """What is called: `type:method` and `module.function`."""
    for cls in _SELVES:
        names = sorted(name for name in dir(cls) if callable(getattr(cls, name)))
        for name in names:
            dunder = name.startswith("__") and name.endswith("__")
            if dunder and (cls is torch.Tensor or name in ("__class__", "__new__", "__init_subclass__", "__subclasshook__", "__reduce__", "__reduce_ex__", "__del__", "__dir__", "__sizeof__", "__getnewargs__", "__class_getitem__", "__getstate__")):  # fmt: skip
                continue
            if dunder or not _NOT.match(name):
                yield f"{cls.__module__}.{cls.__name__}:{name}"
    for label, module in _MODULES.items():
        for name in sorted(dir(module)):
            value = getattr(module, name)
            if (
                callable(value)
                and not _NOT.match(name)
                and not inspect.isclass(value) | (label == "torch" and name[0].isupper())
            ):
                yield f"{label}.{name}"
            elif (
                label in ("itertools", "builtins")
                and inspect.isclass(value)
                and not _NOT.match(name)
                and not name.endswith("Warning")
            ):
                yield f"{label}.{name}"


def _argument(rng: random.Random, tensors: float) -> str:
    way = rng.random()
    if way < tensors:
        return rng.choice(_TENSORS)
    return rng.choice(_NUMBERS if way < tensors + (1 - tensors) * 0.45 else _OTHERS)


_KEYWORDS = ("dim=0", "dim=-1", "keepdim=True", "key=len", "default=3", "reverse=True", "dtype=torch.float64", "out=torch.empty(0)", "alpha=2",
             "reduction='sum'", "maxsplit=1", "sep=','", "start=1", "strict=True", "initial=1", "descending=True", "inplace=True", "p=0.5", "r=2", "n=1",
             "bogus=1")  # fmt: skip


def call_of(target: str, rng: random.Random) -> tuple[str, list[str]]:
    """The text of a call of a0, a1, ..., and the texts of these."""
    module, _, name = target.rpartition(":")
    arguments: list[str] = []
    if module:
        cls = next(cls for cls in _SELVES if f"{cls.__module__}.{cls.__name__}" == module)
        arguments.append(rng.choice(_SELVES[cls]))
        tensors = 0.35 if cls is torch.Tensor else 0.03
    else:
        tensors = 0.6 if target.startswith(("torch", "F.")) else 0.06
    arguments += [
        _argument(rng, tensors)
        for _ in range(rng.choice((0, 1, 1, 1, 2, 2, 3)) if module else rng.choice((1, 1, 2, 2, 3)))
    ]
    first = 1 if module else 0
    rest = [f"a{i}" for i in range(first, len(arguments))]
    if rng.random() < 0.2:
        rest.append(rng.choice(_KEYWORDS))
    text = f"a0.{name}({', '.join(rest)})" if module else f"{target}({', '.join(rest)})"
    if name in _CONSUMED or target.rpartition(".")[2] in _CONSUMED:
        text = f"next({text}, None)"
    return text, arguments


def function_of(text: str, arguments: list[str]) -> tuple[Callable[..., Any], Callable[[], list[Any]]]:
    namespace = {"torch": torch, "F": F, "math": math, "operator": operator, "itertools": itertools, "collections": collections,
                 "functools": functools, "builtins": sys.modules["builtins"]}  # fmt: skip
    parameters = ", ".join(f"a{i}" for i in range(len(arguments)))
    source = f"def swept(x, {parameters}):\n    y = x + 1\n    r = {text}\n    return y * 2, r\n\ndef made():\n    return [{', '.join(arguments)}]\n"
    exec(compile(source, "<sweep>", "exec"), namespace)
    return namespace["swept"], namespace["made"]


def seen_of(function: Callable[..., Any], made: Callable[[], list[Any]]) -> list[str]:
    """What can be seen of a call, as text."""
    torch.manual_seed(3)
    random.seed(3)
    arguments = made()
    describer = Describer()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            describer.describe("result", function(torch.ones(2), *arguments))
        except Exception as error:
            describer.lines.append(("raised", f"{type(error).__name__}: {str(error).splitlines()[:1]}"))
        for index, argument in enumerate(arguments):
            describer.describe(f"a{index}", argument)
    return [f"{path}: {text}" for path, text in describer.lines] + [f"random {torch.get_rng_state().sum()}"]


class Judge:
    def __init__(self, seed: int, trials: int, backend: str, eager_only: bool = False) -> None:
        self.seed, self.trials, self.backend, self.eager_only = seed, trials, backend, eager_only

    def __call__(self, target: str) -> list[str]:
        import stator

        torch.set_num_threads(1)
        rng = random.Random(f"{target} {self.seed}")
        found = []
        for _ in range(self.trials):
            text, arguments = call_of(target, rng)
            function, made = function_of(text, arguments)
            expected = seen_of(function, made)
            if self.eager_only or expected != seen_of(function, made):
                continue  # it does not agree with itself
            stator.reset()
            compiled = stator.compile(function, backend=self.backend)
            for turn in ("first", "second"):
                if (got := seen_of(compiled, made)) != expected:
                    shown = [
                        f"\n      eager    {e[:200]}\n      compiled {c[:200]}"
                        for e, c in zip(expected, got, strict=False)
                        if e != c
                    ]
                    found.append(
                        f"{text} of {', '.join(arguments)}, {turn} call: {shown[0] if shown else (expected, got)}"
                    )
                    break
        return found


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.sweep", description=__doc__.partition("\n\n")[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--trials", type=int, default=12, help="calls of each")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("-k", dest="words", default="", help="only names that contain one of these words (a,b)")
    parser.add_argument("--backend", default="eager")
    parser.add_argument("--timeout", type=float, default=60.0)
    options = parser.parse_args(argv)
    os.environ.setdefault("STATOR_STRICT", "1")
    words = [word for word in options.words.split(",") if word]
    names = [name for name in targets() if not words or any(word in name for word in words)]
    judge = Judge(options.seed, options.trials, options.backend)
    findings = lost = 0
    for name, found, failure in run_tasks(judge, names, options.jobs, options.timeout, renew_after=200):
        if failure is not None:
            with OneWorker(
                Judge(options.seed, options.trials, options.backend, eager_only=True), options.timeout
            ) as alone:
                if alone.run(name)[2] is None:
                    lost += 1
                    print(f"LOST {name}: {failure.splitlines()[0]}", flush=True)
            continue
        findings += len(found)
        for text in found[:2]:
            print(f"{name}: {text}", flush=True)
    print(f"{len(names)} names, {len(names) * options.trials} calls: {findings} differ, {lost} names crashed or hung")
    return 1 if findings or lost else 0


if __name__ == "__main__":
    sys.exit(main())
