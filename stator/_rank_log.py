"""Captures on record, by rank: a digest of each in the log, and whole in files that `python -m stator ranks` compares.

A file has one JSON object a line, written at once, so that it is whole up to where a process ended. Graph and guard texts hold no addresses,
ids or set orders: equal programs give equal files in all ranks, whatever their hash seeds.
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
