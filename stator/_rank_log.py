"""Captures on record, by rank: a digest of each in the log, and whole in files that `python -m stator ranks` compares.

A file has one JSON object a line, written at once, so that it is whole up to where a process ended. Graph and guard
texts hold no addresses, ids or set orders: equal programs give equal files in all ranks, whatever their hash seeds.
"""

import itertools
import json
import logging
import os
import threading

from stator import _ranks, config

log = logging.getLogger("stator.captures")
_lock = threading.Lock()
_numbers = itertools.count(1)

# What is compared; times are not.
FIELDS = ("site", "ops", "graph", "guards", "name", "place")


def captured(event):
    """Called for each capture while config.log_captures or config.trace_dir is set."""
    number, rank = next(_numbers), _ranks.rank()
    log.info("rank %d: capture %d: %s: graph %s (%d calls), guards %s%s", rank, number, event["site"], event["graph_digest"], event["ops"],
             event["guards_digest"], f", breaks at {event['place']}: {event['sentence']}" if event["broke"] else "")  # fmt: skip
    if config.trace_dir is not None:
        _write(config.trace_dir, rank, {"number": number, **event})


def _write(folder, rank, event):
    with _lock:
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, f"rank{rank}.jsonl"), "a", encoding="utf-8") as file:
            file.write(json.dumps(event) + "\n")


# ---- python -m stator ranks <folder>


def load(folder):
    """{rank: captures} of all rank<n>.jsonl in a folder; a last line that was cut off is left out."""
    found = {}
    for name in os.listdir(folder):
        if name.startswith("rank") and name.endswith(".jsonl") and name[4:-6].isdecimal():
            captures = found[int(name[4:-6])] = []
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                for line in file:
                    try:
                        captures.append(json.loads(line))
                    except ValueError:
                        break
    return dict(sorted(found.items()))


def first_difference(captures):
    """The first capture that is not the same on all ranks: (its number, the field, {value: ranks}); None: there is
    none."""
    for number in range(max(map(len, captures.values()), default=0)):
        for field in FIELDS:
            values = {}
            for rank, events in captures.items():
                value = events[number][field] if number < len(events) else None
                values.setdefault(value, []).append(rank)
            if len(values) > 1:
                return number, field, values
    return None


def _first_line(texts):
    """The number of the first line that is not the same in all texts, from 1 on."""
    lines = [str(text).splitlines() for text in texts]
    for number in range(max(map(len, lines))):
        if len({text[number] if number < len(text) else None for text in lines}) > 1:
            return number + 1
    return 1


def report(folder):
    """What the ranks of a run captured, as text: how much, and the first place where they differ."""
    captures = load(folder)
    if not captures:
        return f"{folder}: no rank<n>.jsonl (config.trace_dir writes them)", 2
    shown = ", ".join(f"rank {rank}: {len(events)}" for rank, events in list(captures.items())[:16])
    text = [f"captures: {shown}" + (f" and {len(captures) - 16} ranks more" if len(captures) > 16 else "")]
    found = first_difference(captures)
    if found is None:
        return "\n".join([*text, "all ranks captured the same"]), 0
    number, field, values = found
    common = next(iter(captures.values()))[number]["site"] if field != "site" else "different places"
    text.append(
        f"first difference: capture {number + 1} ({common}), in its {dict(name='break reason', place='break').get(field, field)}"
    )
    several = field in ("graph", "guards") and None not in values
    line = _first_line(values) if several else 0
    for value, ranks in values.items():
        shown = "nothing: its file ends before" if value is None else str(value) or "(none)"
        if several:
            parts = shown.splitlines()
            shown = f"line {line}: " + (parts[line - 1] if line <= len(parts) else "(ends before)")
        text.append(f"  {_ranks._numbers(ranks)}: {shown}")
    return "\n".join(text), 1
