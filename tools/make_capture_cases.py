"""Text cases of programs of the corpus: chooses the programs, and writes what each captures.

    python tools/make_capture_cases.py texts FOLDER [-k words]   what every program captures; to compare before and
    after a change python tools/make_capture_cases.py cases [--count 500]       tests/capture/<room>/<theme>.txt, for
    programs that show something new

`pytest tests/python/test_capture_cases.py --update` refreshes the expectations of the cases that are there.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "python")]

import capture_cases  # noqa: E402
import capture_text  # noqa: E402
from tests.python.differential import prepare_process, selected  # noqa: E402
from tests.python.workers import run_tasks  # noqa: E402

# Themes of the corpus by the sub-room of interpret/ that they are mostly about.
ROOMS = {
    "core": "del_and_weakref found_by_cpython_tests found_by_fuzzing later_aliases lifetimes recompiles",
    "objects": "aliasing_and_identity keys_and_fields object_corners object_model objects_as_keys side_effects stand_ins_as_keys",
    "calls": "calls_and_arguments classes closures_cells comprehensions deep_recursion nn_modules",
    "tensors": """arrays_in_graphs autograd checks_on_data tensor_attributes tensor_factories_random tensor_properties
        tensor_views_inplace tensors_basic torch_function transforms""",
    "library": "containers outside_iterators random_draws standard_library strings_and_formatting",
    "frames": """breaks context_managers control_flow coroutines exception_groups exceptions generator_protocol generators
        generators_over_breaks tracebacks with_statements""",
}
ROOM_OF = {theme: room for room, themes in ROOMS.items() for theme in themes.split()}
LONGEST = 100  # lines of a case
OTHERS = 5  # processes that have to capture the same
# Capture something else in every other process, under pytest, or once torch._dynamo is imported (which turns checks of
# distributions off); others of this kind show by themselves (steady).
UNSTEADY = {
    "stand_ins_as_keys.set_of_tensors",
    "del_and_weakref.del_raises",
    "tensor_factories_random.multinomial_and_sampling",
    "checks_on_data.checks_of_distributions",
}


def text_of(name):
    case = capture_cases.Case(ROOT / "corpus.txt", 1, name, corpus=name)
    return capture_cases.captured(case)


def texts(programs, timeout=120):
    """What each program captures, by name."""
    prepare_process()
    found = {}
    for name, text, failure in run_tasks(text_of, [program.name for program in programs], 1, timeout):
        if failure is not None:
            print(f"{name}: {failure}", file=sys.stderr)
        else:
            found[name] = text
    return {program.name: found[program.name] for program in programs if program.name in found}


def steady(by_name):
    """Without programs that capture something else in another process: addresses, hashes of strings, times, the import
    system's hooks."""
    same = by_name
    for seed in range(OTHERS):
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, __file__, "texts", folder, *(["--backwards"] if seed % 2 else [])]
            subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": str(seed)}, check=True)
            other = {path.stem: path.read_text() for path in pathlib.Path(folder).iterdir()}
        same = {name: text for name, text in same.items() if other.get(name) == text + "\n"}
    odd = re.compile(f"find_spec|{capture_text.ELSEWHERE.pattern}")
    return {name: text for name, text in same.items() if not odd.search(text) and name not in UNSTEADY}


def features(text):
    """What a text shows: its lines without names and numbers, each behind its section."""
    section, seen = "", set()
    for line in text.splitlines():
        header = capture_cases.HEADER.match(line)
        section = header[1] if header else section
        plain = re.sub(r"'[^']*'", "'s'", line)
        plain = re.sub(r"(line \d+, \w+): .*", r"\1", plain)
        plain = re.sub(r"[%$]?\d+(\.\d+)?", "0", plain)
        seen.add(f"{section}|{re.sub(r'(0, )+', '0, ', plain.strip())}")
    return seen


def chosen(by_name, count):
    """Names that together show most: each time the one with most news for its length."""
    left = {name: features(text) for name, text in by_name.items() if text and text.count("\n") < LONGEST}
    known, picked = set(), []
    while left and len(picked) < count:
        worth = {name: len(of - known) / (by_name[name].count("\n") + 15) for name, of in left.items()}
        best = max(sorted(worth), key=worth.get)
        known |= left.pop(best)
        picked.append(best)
    return set(picked)


def write_cases(by_name):
    files = {}
    for name, text in by_name.items():
        theme, _, short = name.partition(".")
        path = capture_cases.FOLDER / ROOM_OF[theme] / f"{theme}.txt"
        files.setdefault(path, []).append(f"case: {short}\nprogram: {name}\n{text}\n")
    for room in ROOMS:
        for old in (capture_cases.FOLDER / room).glob("*.txt"):
            if old.stem in ROOM_OF:
                old.unlink()
    for path, cases in files.items():
        path.parent.mkdir(exist_ok=True)
        intro = f"# What programs of tests/python/programs/{path.stem}.py capture. Chosen by tools/make_capture_cases.py.\n\n"
        path.write_text(intro + "\n".join(cases))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    whole = commands.add_parser("texts")
    whole.add_argument("folder", type=pathlib.Path)
    whole.add_argument(
        "-k", dest="words", default="", help="only programs whose name contains one of these words (a,b,c)"
    )
    whole.add_argument("--backwards", action="store_true", help="the last program first")
    cases = commands.add_parser("cases")
    cases.add_argument("--count", type=int, default=500)
    options = parser.parse_args()
    if options.command == "texts":
        options.folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts(selected(options.words)[:: -1 if options.backwards else 1]).items():
            (options.folder / f"{name}.txt").write_text(text + "\n")
        return
    every = texts(selected(""))
    by_name = steady(every)
    print("other in another process:", *sorted(every.keys() - by_name.keys()))
    names = chosen(by_name, options.count)
    write_cases({name: text for name, text in by_name.items() if name in names})
    print(f"{len(names)} of {len(every)} programs")


if __name__ == "__main__":
    main()
