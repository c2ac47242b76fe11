"""PyTorch's own tests, each compiled: every one that passes as it is has to pass so.

    python tools/torch_tests.py SOURCES [test_nn nn/test_pooling ...] [--only PATTERN] [--break-every 1|7|random:1]
    [--backend aot_eager] [--install] [--sample N] [--again] [--budget SECONDS] [--brief]

SOURCES is a tree of PyTorch's sources; files are named below its folder test. They may be older than the installed
torch: what they import and torch no longer has is replaced by decorators that leave tests out, and tests that fail as
they are are not asked. Each file runs in processes of its own, forked from one that has torch imported: as it is, and
with every test, setUp and tearDown compiled. A test that ends its process, or does not come to an end, costs that test
alone: the next process goes on behind it. Of tests that are made from one function (for each operator and dtype)
--sample takes so many, the same ones each time; 0 takes all.

What came of a file as it is, is kept in build/torch_tests; so is what came of it compiled, with a mark of the binary,
so that a run that was stopped goes on where it was (--again: does not). --install also puts stator in torch.compile's
place. Prints for each file: tests, how many differ, how many ended their process, how many graphs were captured, then
what differs without a known cause (tools/torch_causes.txt), and what takes more than ten times as long. Exits with 1
if anything differs.
"""

from __future__ import annotations

import argparse
import faulthandler
import fnmatch
import hashlib
import importlib.util
import json
import os
import random
import re
import resource
import signal
import sys
import tempfile
import time
import types
import unittest
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parent))
from outcomes import Causes, Record, fails

ROOT = Path(__file__).resolve().parents[1]
KEPT = Path(os.environ.get("STATOR_TEST_RESULTS", ROOT / "build" / "torch_tests"))
MEMORY = 12 << 30  # bytes of addresses that a process of tests may take
LIMIT = 60  # seconds for a test as it is; compiled it gets the same and twenty times what it took
PROCESSES = 60  # so many may end before their time in one file
TOGETHER = 4  # tests of one function between two resets: what one captured, the next may be served


class Gone:
    """Stands for what the installed torch no longer has: a decorator that leaves tests out, false, empty."""

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        if len(arguments) == 1 and isinstance(arguments[0], types.FunctionType | type):
            return unittest.skip("the installed torch lacks what it needs")(arguments[0])
        return self

    def __getattr__(self, name: str) -> Gone:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __iter__(self) -> Any:
        return iter(())

    def __bool__(self) -> bool:
        return False

    def __mro_entries__(self, bases: Any) -> Any:
        return ()


def replace_missing(error: ImportError) -> bool:
    """Puts something in the place of what is missing of torch; false if it is something else."""
    if found := re.match(r"cannot import name '(\w+)' from '(torch[\w.]*)'", str(error)):
        setattr(sys.modules[found[2]], found[1], Gone())
        return True
    if found := re.match(r"No module named '(torch\.[\w.]+)'", str(error)):
        module = types.ModuleType(found[1])
        module.__getattr__ = lambda name: Gone()  # type: ignore[method-assign]
        module.__path__ = []
        sys.modules[found[1]] = module
        return True
    return False


def load(path: Path) -> types.ModuleType:
    """The module of a file of tests, as if it were run from its folder."""
    sys.path[:0] = [str(path.parent), str(path.parents[1])]
    while True:
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module
        try:
            spec.loader.exec_module(module)
            return module
        except ImportError as error:
            if not replace_missing(error):
                raise


def flat(suite: Any) -> list[unittest.TestCase]:
    if isinstance(suite, unittest.TestCase):
        return [suite]
    return [test for part in suite for test in flat(part)]


def family(test: unittest.TestCase) -> str:
    """The function that a test was made from, for an operator, a dtype or other parameters."""
    method = getattr(test, test._testMethodName, None)
    return f"{type(test).__name__}.{getattr(method, '__qualname__', test._testMethodName)}"


def sampled(tests: list[unittest.TestCase], size: int) -> list[unittest.TestCase]:
    if not size:
        return tests
    families: dict[str, list[str]] = {}
    for test in tests:
        families.setdefault(family(test), []).append(test.id())
    chosen = set()
    for name, members in families.items():
        chosen.update(random.Random(name).sample(members, min(size, len(members))))
    return [test for test in tests if test.id() in chosen]


class Job:
    """One file, in one way."""

    def __init__(self, options: argparse.Namespace, file: str, compiled: bool) -> None:
        self.path = Path(options.sources, "test", f"{file}.py").resolve()
        self.compiled = compiled
        self.backend, self.breaks, self.install = options.backend, options.breaks, options.install
        self.sample, self.only, self.limit = options.sample, options.only, options.limit
        self.asked: dict[str, Any] | None = None  # of tests as they are; others are not run compiled

    def wanted(self, tests: list[unittest.TestCase], done: dict[str, Any]) -> list[unittest.TestCase]:
        tests = [test for test in tests if not self.only or fnmatch.fnmatchcase(test.id(), f"*{self.only}*")]
        tests = [test for test in sampled(tests, self.sample) if test.id() not in done]
        if self.asked is not None:
            tests = [
                test
                for test in tests
                if self.asked.get(test.id(), {}).get("outcome") in ("passed", "failed as expected")
            ]
        return tests

    def limit_of(self, test: str) -> float:
        before = (self.asked or {}).get(test, {}).get("seconds", 0)
        return self.limit + 20 * before


class Told(Record):
    """A record that tells of each test when it starts and when it is over, by lines of a file."""

    def __init__(self, log: int, stats: Any) -> None:
        super().__init__()
        self.log, self.stats = log, stats

    def tell(self, **what: Any) -> None:
        os.write(self.log, (json.dumps(what) + "\n").encode())

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self.outcomes.clear()
        self.why.clear()
        self.before, self.start = self.stats(), time.monotonic()
        self.tell(start=test.id())

    def stopTest(self, test: unittest.TestCase) -> None:
        super().stopTest(test)
        seconds, after = round(time.monotonic() - self.start, 3), self.stats()
        found = list(self.outcomes.values())
        outcome = next((one for one in found if fails(one)), found[0] if found else "no result")
        answer: dict[str, Any] = {"outcome": outcome, "seconds": seconds}
        answer.update({name: after[name] - self.before.get(name, 0) for name in after})
        if self.why:
            answer["why"] = next(iter(self.why.values()))
        self.tell(end=test.id(), **answer)


def compile_all(job: Job) -> Any:
    """From here on every test is compiled. Returns what tells the counts so far."""
    os.environ["STATOR_STRICT"], os.environ["STATOR_CACHE"] = "1", "0"
    os.environ["STATOR_BREAK_EVERY"] = job.breaks or "0"
    import stator

    if job.install:
        stator.install()
    last = ["", 0]

    def run(self: unittest.TestCase, method: Any, first: bool) -> object:
        if first:
            last[:] = [family(self), last[1] + 1 if last[0] == family(self) else 0]
            if last[1] % TOGETHER == 0:
                stator.reset()
        return stator.compile(method, backend=job.backend)()

    unittest.TestCase._callSetUp = lambda self: run(self, self.setUp, True)  # type: ignore[method-assign,attr-defined]
    unittest.TestCase._callTestMethod = lambda self, method: run(self, method, False)  # type: ignore[method-assign,attr-defined]
    unittest.TestCase._callTearDown = lambda self: run(self, self.tearDown, False)  # type: ignore[method-assign,attr-defined]

    def counts() -> dict[str, int]:
        stats = stator.stats()
        return {name: stats[name] for name in ("graphs", "ops", "internal_errors")}

    return counts


def _child(job: Job, done: dict[str, Any], folder: str) -> None:
    """In a forked process: runs the tests that are not done yet, and tells of each."""
    os.setpgid(0, 0)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    log = os.open(Path(folder, "log"), os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    out = os.open(Path(folder, "output"), os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    null = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((null, 0), (out, 1), (out, 2)):
        os.dup2(source, target)
    sys.argv = [str(job.path)]
    faulthandler.enable(open(Path(folder, "fault"), "w"))  # noqa: SIM115
    os.chdir(job.path.parent)
    try:
        module = load(job.path)
        tests = flat(unittest.defaultTestLoader.loadTestsFromModule(module))
        stats = compile_all(job) if job.compiled else dict
        random.seed(1)
        record = Told(log, stats)
        unittest.TestSuite(job.wanted(tests, done)).run(record)
        record.tell(over=True)
    except BaseException as error:
        os.write(log, (json.dumps({"failure": f"{type(error).__name__}: {error}"[:300]}) + "\n").encode())
    os._exit(0)


def lines_of(path: Path) -> list[dict[str, Any]]:
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def watch(job: Job, process: int, log: Path) -> str:
    """Until the process is over. How it ended, or that a test did not."""
    size, since, limit = -1, time.monotonic(), 120.0 + job.limit
    late = ""
    while True:
        gone, status = os.waitpid(process, os.WNOHANG)
        if gone:
            code = os.waitstatus_to_exitcode(status)
            return late or (signal.Signals(-code).name if code < 0 else f"exit {code}")
        now = log.stat().st_size if log.exists() else 0
        if now != size:
            size, since = now, time.monotonic()
            lines = lines_of(log)
            if lines and "start" in lines[-1]:
                limit = job.limit_of(lines[-1]["start"])
        elif time.monotonic() - since > limit + 10:
            os.kill(process, signal.SIGKILL)
        elif time.monotonic() - since > limit and not late:
            late = f"no end after {limit:.0f} s"
            os.kill(process, signal.SIGABRT)  # faulthandler writes where it is
        time.sleep(0.02)


def run_process(job: Job, done: dict[str, Any]) -> str:
    """Runs one process and adds what it told to `done`. The empty string if it came to the end of the file."""
    with tempfile.TemporaryDirectory(prefix="torch_tests_", ignore_cleanup_errors=True) as folder:
        process = os.fork()
        if process == 0:
            _child(job, done, folder)
        log = Path(folder, "log")
        how = watch(job, process, log)
        try:  # what the tests have started goes with them
            os.killpg(process, signal.SIGKILL)
        except ProcessLookupError:
            pass
        lines = lines_of(log)
        for line in lines:
            if "end" in line:
                done[line.pop("end")] = line
        if lines and "over" in lines[-1]:
            return ""
        if lines and "failure" in lines[-1]:
            return lines[-1]["failure"]
        if not lines or "start" not in lines[-1]:
            return f"the process ended between tests: {how}"
        fault = Path(folder, "fault")
        done[lines[-1]["start"]] = {"outcome": f"died: {how}", "why": fault.read_text()[:3000], "seconds": 0}
        return "again"


def run_file(job: Job, done: dict[str, Any], save: Any) -> str:
    """Runs all of a file's tests that are not done. Why that could not be, or the empty string."""
    for _ in range(PROCESSES):
        before = len(done)
        how = run_process(job, done)
        save()
        if how != "again" and not (how.startswith("the process ended") and len(done) > before):
            return how
    return f"{PROCESSES} processes ended"


def mark_of_binary() -> str:
    package = importlib.util.find_spec("stator")
    assert package is not None and package.submodule_search_locations
    (binary,) = Path(package.submodule_search_locations[0]).glob("_core*.so")
    return hashlib.sha1(binary.read_bytes()).hexdigest()[:12]


class Kept:
    """What came of one file: as it is, and compiled, for each way of compiling."""

    def __init__(self, options: argparse.Namespace, file: str) -> None:
        self.path = KEPT / f"{file.replace('/', '.')}.json"
        self.all: dict[str, Any] = json.loads(self.path.read_text()) if self.path.exists() else {}
        self.plain = self.all.setdefault("plain", {})
        way = " ".join([options.backend, options.breaks, "install" * options.install]).strip()
        ways = self.all.setdefault("ways", {})
        mark = mark_of_binary()
        if options.again or ways.get(way, {}).get("mark") != mark:
            ways[way] = {"mark": mark, "tests": {}}
        self.compiled = ways[way]["tests"]

    def save(self) -> None:
        KEPT.mkdir(parents=True, exist_ok=True)
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps(self.all))
        new.replace(self.path)


def differences(kept: Kept) -> dict[str, str]:
    found = {}
    for name, now in kept.compiled.items():
        before = kept.plain[name]
        if now["outcome"] != before["outcome"]:
            found[name] = f"{before['outcome']}, compiled {now['outcome']}"
        elif now.get("internal_errors"):
            found[name] = f"{now['internal_errors']} internal errors"
    return found


def drop_moody(options: argparse.Namespace, file: str, kept: Kept) -> None:
    """A second run as it is of what differs tells tests that come out one way or the other by themselves."""
    names = [name for name in differences(kept) if "again" not in kept.plain[name]]
    if not names:
        return
    job = Job(options, file, False)
    job.asked = {name: kept.plain[name] for name in names}
    again: dict[str, Any] = {}
    run_file(job, again, lambda: None)
    for name in names:
        kept.plain[name]["again"] = outcome = again.get(name, {}).get("outcome", "no result")
        if outcome != kept.plain[name]["outcome"]:
            kept.plain[name]["outcome"] = "moody"
            kept.compiled.pop(name)
    kept.save()


def last_line(why: str) -> str:
    """What was said, without torch's words on how to run one test again."""
    lines = [line for line in why.partition("\nTo execute this test")[0].splitlines() if line.strip()]
    return lines[-1][:240] if lines else ""


def report(file: str, kept: Kept, causes: Causes, brief: bool, trouble: str) -> int:
    """Prints a file's lines. Returns how many tests differ without a known cause."""
    tests, differ = kept.compiled, differences(kept)
    unknown = {name: what for name, what in differ.items() if causes.of(f"{file}.{name.partition('.')[2]}") is None}
    died = sum("died" in what for what in differ.values())
    graphs = sum(test.get("graphs", 0) for test in tests.values())
    seconds = [sum(test.get("seconds", 0) for test in kept.plain.values()), sum(t["seconds"] for t in tests.values())]
    print(
        f"{file}: {len(tests)} tests of {len(kept.plain)}, {len(unknown)} differ ({len(differ) - len(unknown)} more for "
        f"a known cause), {died} died, {graphs} graphs, {seconds[0]:.0f} s, compiled {seconds[1]:.0f} s {trouble}",
        flush=True,
    )
    if brief:
        return len(unknown)
    for name, what in unknown.items():
        print(f"    {name.partition('.')[2]}: {what}: {last_line(tests[name].get('why', ''))}")
    for name, test in tests.items():
        before = kept.plain[name]["seconds"]
        if test["seconds"] > 3 and test["seconds"] > 10 * before and name not in differ:
            print(f"    slow: {name.partition('.')[2]}: {before} s, compiled {test['seconds']} s")
    sys.stdout.flush()
    return len(unknown)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources")
    parser.add_argument("files", nargs="+")
    parser.add_argument("--only", default="", help="tests whose names contain this pattern")
    parser.add_argument("--break-every", default="", dest="breaks")
    parser.add_argument("--backend", default="eager")
    parser.add_argument("--install", action="store_true")
    parser.add_argument("--sample", type=int, default=6)
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds for one test")
    parser.add_argument("--again", action="store_true", help="forget what is kept of these files, compiled this way")
    parser.add_argument("--budget", type=float, default=0, help="stop after so many seconds; the next run goes on")
    parser.add_argument("--brief", action="store_true", help="one line for each file")
    options = parser.parse_args()
    sys.path[:] = [path for path in sys.path if path != str(ROOT / "tools")]
    if not sys.flags.safe_path:  # else PYTHONPATH begins with the package of a pair of versions
        sys.path.insert(0, str(ROOT))
    import torch
    import torch.testing._internal.common_device_type  # what nearly every file imports

    torch.set_num_threads(1)
    causes = Causes(ROOT / "tools" / "torch_causes.txt")
    start, differing = time.monotonic(), 0
    for file in options.files:
        if options.budget and time.monotonic() - start > options.budget:
            print("stopped: the time is over")
            break
        kept = Kept(options, file)
        trouble = run_file(Job(options, file, False), kept.plain, kept.save)
        if not kept.plain:
            print(f"{file}: does not run here: {trouble}", flush=True)
            continue
        job = Job(options, file, True)
        job.asked = kept.plain
        trouble = run_file(job, kept.compiled, kept.save)
        drop_moody(options, file, kept)
        differing += report(file, kept, causes, options.brief, trouble)
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
