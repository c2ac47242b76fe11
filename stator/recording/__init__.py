"""stator.report: what a process captured, when, why it broke, what it captured again and what its guards cost, as a
page and as JSON.

A recorder listens to all captures of the process (src/runtime/watch.h) and keeps them as plain data; `page` makes HTML
of it, and `schema.json` says what the data look like.
"""

from __future__ import annotations

import atexit
import datetime
import json
import os
import platform
import sys
import threading
import time
import warnings
from typing import Any

import torch

from stator import _advice, _core, _logs, _ranks, config
from stator.recording import _source

SCHEMA = "stator-report/1"
MOST_CAPTURES = 20_000  # further ones are counted
_lock = threading.Lock()
_recorder: Recorder | None = None  # one at a time


class _Texts:
    """Texts that occur often, by number."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        return self.numbers.setdefault(text, len(self.numbers))


class Recorder:
    """Keeps what happens from its beginning on. Tensor calls outside of graphs are counted on the thread that began
    it."""

    def __init__(self) -> None:
        self.began = time.perf_counter()
        self.date = datetime.datetime.now(datetime.UTC)
        self.thread = threading.get_ident()
        self.texts = _Texts()
        self.functions: dict[tuple[str, int, str], int] = {}
        self.captures: list[dict[str, Any]] = []
        self.left_out = 0
        self.breaks: dict[tuple[int, str, str], dict[str, Any]] = {}
        self.recompiles: list[dict[str, Any]] = []
        self.limits: list[dict[str, Any]] = []
        self.outside: dict[str, int] = {}
        self.of_thread = threading.local()
        self.before = _core.stats()
        self.running = True
        _logs.recorder = self
        _core.record_captures(self.heard)
        _core.watch_captures(_nothing)

    # ---- what is heard, on the thread where it happens

    def heard(self, event: dict[str, Any]) -> None:
        if "guard_costs" in event:
            self._guard_costs(event)
        else:
            self._captured(event)

    def _function(self, event: dict[str, Any]) -> int:
        key = event["file"], event["line"], event["function"]
        return self.functions.setdefault(key, len(self.functions))

    def _captured(self, event: dict[str, Any]) -> None:
        self.of_thread.last = None
        broke = self._break(event) if event["broke"] else None
        if event["ops"] == 0 and not event["guards"]:
            return  # nothing could be captured here: the break says why
        if len(self.captures) >= MOST_CAPTURES:
            self.left_out += 1
            return
        spent = event["capture_seconds"] + event["backend_seconds"]
        lines, nodes = event["lines"] or ([], [])
        capture = {
            "function": self._function(event),
            "line": event["begins"],
            "thread": threading.current_thread().name,
            "start": time.perf_counter() - self.began - spent,
            "capture_seconds": event["capture_seconds"],
            "backend_seconds": event["backend_seconds"],
            "operations": event["ops"],
            "graph": self.texts(event["graph"]),
            "lines": [list(line) for line in lines],
            "nodes": nodes,
            "guards": [[self.texts(guard), None] for guard in event["guards"].splitlines() if guard.strip()],
            "guards_nanoseconds": None,
            "regions": event["regions"].splitlines(),
            "break": broke,
            "recompile": None,
        }
        self.captures.append(capture)
        self.of_thread.last = capture

    def _break(self, event: dict[str, Any]) -> int:
        key = event["reason"], event["place"], event["detail"]
        found = self.breaks.get(key)
        if found is None:
            reason = event["sentence"] + (f" ({event['detail']})" if event["detail"] else "")
            hint = _core.break_reasons().get(event["name"], (0, "", ""))[2]
            found = self.breaks[key] = {
                "number": event["reason"],
                "name": event["name"].removeprefix("k"),
                "reason": reason,
                "advice": _advice.of(event["reason"], reason, hint),
                "place": event["place"],
                "stack": [list(frame) for frame in event["stack"] or []],
                "times": 0,
                "calls_outside": 0,
                "id": len(self.breaks),
            }
        if event["guards"] or found["times"] == 0:  # without guards: the same place again, where the program goes on
            found["times"] += 1
        return found["id"]

    def _guard_costs(self, event: dict[str, Any]) -> None:
        capture = getattr(self.of_thread, "last", None)
        if capture is None:
            return
        costs = [[self.texts(text), nanoseconds] for text, nanoseconds in event["guard_costs"]]
        listed = {text for text, _ in costs}
        # Some are checked together with others: conditions on sizes. They have no time of their own.
        capture["guards"] = costs + [guard for guard in capture["guards"] if guard[0] not in listed]
        capture["guards_nanoseconds"] = event["together"]

    def recompiled(self, place: str, changes: list[dict[str, Any]], seconds: float, entries: int, limit: int) -> None:
        capture = getattr(self.of_thread, "last", None)
        if capture is not None:
            capture["recompile"] = len(self.recompiles)
        self.recompiles.append(
            {"place": place, "changes": changes, "seconds": seconds, "entries": entries, "limit": limit}
        )

    def limit_reached(self, place: str, changes: list[dict[str, Any]], limit: int, advice: str) -> None:
        self.limits.append({"place": place, "changes": changes, "limit": limit, "advice": advice})

    # ---- what comes of it

    def _count(self, go_on: bool) -> None:
        if not self.running or threading.get_ident() != self.thread:
            return
        for place, calls in _core.stop_watching().items():
            self.outside[place] = self.outside.get(place, 0) + calls
        if go_on:
            _core.watch_captures(_nothing)

    def stop(self) -> None:
        global _recorder
        if not self.running:
            return
        self._count(go_on=False)
        self.running = False
        self.seconds = time.perf_counter() - self.began
        _core.record_captures(None)
        _logs.recorder = None
        _recorder = None

    def process(self) -> dict[str, Any]:
        """The data of this process."""
        self._count(go_on=True)
        now = _core.stats()
        counted = {name: value - self.before.get(name, 0) for name, value in now.items()}
        breaks = [dict(found, calls_outside=0) for found in self.breaks.values()]
        first_at: dict[str, dict[str, Any]] = {}
        for found in breaks:
            first_at.setdefault(found["place"], found)["calls_outside"] = self.outside.get(found["place"], 0)
            found["source"] = _source.around(found["stack"], found["place"])
        shown = config.get_config_copy()
        return {
            "rank": _ranks.rank(),
            "pid": os.getpid(),
            "command": list(sys.argv),
            "python": platform.python_version(),
            "torch": str(torch.__version__),
            "stator": sys.modules["stator"].__version__,
            "date": self.date.isoformat(timespec="seconds"),
            "seconds": time.perf_counter() - self.began if self.running else self.seconds,
            "settings": {n: repr(shown[n]) for n in sorted(shown) if shown[n] != config.default(n)},
            "calls": {
                "graphs": counted.get("ops_run", 0),
                "breaks": sum(calls for place, calls in self.outside.items() if place not in ("", "beside")),
                "native": self.outside.get("", 0),
                "beside": self.outside.get("beside", 0),
            },
            "counters": counted,
            "functions": [_source.function(*key) for key in self.functions],
            "captures": self.captures,
            "captures_left_out": self.left_out,
            "breaks": breaks,
            "recompiles": self.recompiles,
            "limits": self.limits,
            "texts": list(self.texts.numbers),
        }

    def data(self) -> dict[str, Any]:
        return {"schema": SCHEMA, "processes": [self.process()]}


def _nothing(event: dict[str, Any]) -> None:
    """The recorder hears the captures of all threads; a watch is only for counting."""


class Report:
    """A report under way: written when it ends. A context manager; outside of a `with` it ends with the process, or at
    stop()."""

    def __init__(self, path: str | os.PathLike[str] | None) -> None:
        # The program may change its folder before the end.
        self.path = None if path is None else os.path.abspath(path)
        self.pid = os.getpid()
        if self.path is not None:
            check_place(self._name() or "")
        self.recorder = _begin()
        self._written = False
        atexit.register(self._at_exit)

    def data(self) -> dict[str, Any]:
        """What was recorded so far, as plain data (stator/recording/schema.json)."""
        return self.recorder.data()

    def write(self, path: str | os.PathLike[str] | None = None) -> str:
        """Writes what was recorded so far: JSON if the name ends so, otherwise a page. Returns the name."""
        name = self._name() if path is None else os.fspath(path)
        if name is None:
            raise ValueError("a report without a path has to be told where to write")
        return write(self.data(), name)

    def stop(self) -> None:
        """Ends the recording, and writes it if a path was given."""
        if not self.recorder.running:
            return
        self.recorder.stop()
        atexit.unregister(self._at_exit)
        if self.path is not None:
            self.write()

    def _name(self) -> str | None:
        """Several ranks write one file each."""
        rank = os.environ.get("RANK")
        if self.path is None or rank is None or int(os.environ.get("WORLD_SIZE", "1")) < 2:
            return self.path
        stem, ending = os.path.splitext(self.path)
        return f"{stem}.rank{rank}{ending}"

    def _at_exit(self) -> None:
        if os.getpid() == self.pid:  # what a process forks has nothing to say
            self.stop()

    def __enter__(self) -> Report:
        return self

    def __exit__(self, *_: Any) -> None:
        self.stop()

    def _repr_html_(self) -> str:
        from stator.recording import page

        return page.frame(self.data())


def _begin() -> Recorder:
    global _recorder
    with _lock:
        if _recorder is not None:
            raise RuntimeError("a report is under way already: stop() that one first")
        _recorder = Recorder()
        return _recorder


def check_place(path: str) -> None:
    """Raises OSError where nothing can be written: better before the program runs than when it has."""
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    there = os.path.exists(path)
    with open(path, "a", encoding="utf-8"):
        pass
    if not there:
        os.remove(path)


def write(data: dict[str, Any], path: str) -> str:
    folder = os.path.dirname(os.path.abspath(path))
    os.makedirs(folder, exist_ok=True)
    if path.endswith(".json"):
        text = json.dumps(data)
    else:
        from stator.recording import page

        text = page.html(data)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def merge(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Several processes' data as one: ranks side by side."""
    for part in parts:
        if part.get("schema") != SCHEMA:
            raise ValueError(f"the data are no {SCHEMA}, but {part.get('schema')!r}")
    processes = [process for part in parts for process in part["processes"]]
    return {"schema": SCHEMA, "processes": sorted(processes, key=lambda process: (process["rank"], process["pid"]))}


def report(path: str | os.PathLike[str] | None = None) -> Report:
    """Records what Stator does from now on, and writes it to `path` when the process ends: one page that needs no
    network, or JSON if the name ends in .json. STATOR_REPORT=path does the same without a change of the program.

        with stator.report("page.html"):
            model(x)

    The returned object has data(), write(path) and stop().
    """
    return Report(path)


def begin_at_start(path: str) -> None:
    """config.report was set."""
    if _recorder is None:
        try:
            Report(path)
        except OSError as error:
            warnings.warn(f"config.report: nothing can be written there, so there is no report ({error})", stacklevel=4)
