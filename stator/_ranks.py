"""What carries the agreement of ranks (src/dist/): a process group of its own over torch.distributed, with its own
time-out, and marks in the store, by which a rank that does not come is known by its number.

The group is made at the first exchange, by all ranks together. Exchanges are numbered; a rank that saw number n fail
marks that in the store. Whoever came to it sees it fail, when a connection breaks or when the time is up: the ranks
without a mark are those that did not come, or died in it. So nothing is written to the store as long as all is well.
"""

import datetime
import json
import logging
import threading
import time
import warnings

import torch
from torch._logging import trace_structured

from stator import _core, config, exc
from stator._loaded import loaded

log = logging.getLogger("stator.ranks")
_torch_log = logging.getLogger("torch._dynamo.output_graph")
_lock = threading.RLock()
_link = None
_GRACE = 3.0  # seconds for ranks that are on their way when another one is found to be gone
_chosen = None  # by set_compile_group


def _distributed():
    """torch.distributed, where it is loaded and has a process group."""
    dist = loaded("torch.distributed")
    return dist if dist is not None and dist.is_available() and dist.is_initialized() else None


def several():
    """Whether there are other ranks to agree with."""
    dist = _distributed()
    return dist is not None and dist.get_world_size(_chosen) > 1


def rank():
    """Of this process, in the default group; 0 without one."""
    dist = _distributed()
    return dist.get_rank() if dist is not None else 0


def set_compile_group(group):
    """The ranks that agree on captures: those of this process group; None: all. For programs whose ranks do not all run
    the same model (pipeline stages). To be called by all ranks of the group, before the first capture."""
    global _chosen, _link
    with _lock:
        _chosen, _link = group, None


class _Link:
    """The connection of this process with the ranks that it agrees with."""

    def __init__(self, dist, parent):
        self.dist, self.parent = dist, parent
        self.default = dist.group.WORLD
        self.rank = dist.get_rank()
        self.ranks = dist.get_process_group_ranks(parent if parent is not None else dist.group.WORLD)
        self.timeout = config.compiler_collectives_timeout
        self.number = 0
        self.lost = None  # what was said when an exchange failed: there will not be another one
        self.group = None
        store = dist.distributed_c10d._get_default_store()
        # A connection of its own, so that its time-out is nobody else's.
        clone = getattr(store, "clone", None)
        try:
            store = clone() if clone is not None else store
        except (RuntimeError, NotImplementedError):
            pass
        self.store = dist.PrefixStore("stator/" + "-".join(map(str, _ends(self.ranks))), store)

    def serves(self, parent):
        return self.default is self.dist.group.WORLD and self.parent is parent

    def _make_group(self):
        backend = "gloo" if self.dist.is_gloo_available() else self.dist.get_backend(self.parent)
        limit = datetime.timedelta(seconds=self.timeout)
        self.group = self.dist.new_group(self.ranks, timeout=limit, backend=backend, use_local_synchronization=True,
                                         group_desc="stator_agreement")  # fmt: skip
        self.device = torch.device("cpu") if backend == "gloo" else torch.device("cuda", torch.cuda.current_device())

    def arrive(self):
        self.number += 1
        if self.group is None:
            self._make_group()

    def _key(self, rank):
        return f"{self.number}/failed/{rank}"

    def missing(self):
        """Ranks that did not live to see this exchange fail; None: the store does not answer."""
        absent = self.ranks
        try:
            self.store.set(self._key(self.rank), "1")
            # A connection that broke shows at once; others notice when their time is up, and may have come later than
            # this one.
            end = time.monotonic() + self.timeout + _GRACE
            while True:
                absent = [r for r in absent if not self.store.check([self._key(r)])]
                if not absent or time.monotonic() > end:
                    return absent
                time.sleep(0.02)
        except (RuntimeError, OSError):
            return None


def _ends(ranks):
    return (ranks[0], ranks[-1], len(ranks))


def _numbers(ranks):
    shown = ", ".join(map(str, ranks[:16])) + (f" and {len(ranks) - 16} more" if len(ranks) > 16 else "")
    return ("rank " if len(ranks) == 1 else "ranks ") + shown


def _connected():
    global _link
    dist = _distributed()
    if dist is None:
        raise exc.RankLost("torch.distributed has no process group any more, and ranks were to agree on a capture")
    with _lock:
        if _link is None or not _link.serves(_chosen):
            _link = _Link(dist, _chosen)
        return _link


class Exchange:
    """One agreement: what the core asks for, carried over the group. `site`: what it is about, for messages."""

    def __init__(self, site):
        self.link, self.site, self.begun = _connected(), site, False

    def _carry(self, send):
        link = self.link
        with _lock:
            if link.lost is not None:
                raise exc.RankLost(link.lost)
            try:
                if not self.begun:
                    self.begun = True
                    link.arrive()
                return send(link)
            except (RuntimeError, OSError) as error:
                self._fail(error)

    def _fail(self, error):
        link = self.link
        absent = link.missing()
        if absent is None:
            who = f"the store cannot be reached: its host, usually {_numbers(link.ranks[:1])}, is gone"
        elif absent:
            who = f"{_numbers(absent)} did not come to it, or died in it"
        else:
            who = "all ranks came to it"
        link.lost = (
            f"{self.site}: {_numbers([link.rank])} could not agree with the others on this capture: {who} "
            f"(time-out {link.timeout:g} s, config.compiler_collectives_timeout). A rank that ended, hangs, or runs another program or an entry of "
            f"its own (set_enable_guard_collectives) does this. The transport says: {str(error).splitlines()[0][:200]}"
        )
        raise exc.RankLost(link.lost) from error

    def maxima(self, words):
        def send(link):
            values = torch.frombuffer(bytearray(words), dtype=torch.int64).to(link.device)
            link.dist.all_reduce(values, op=link.dist.ReduceOp.MAX, group=link.group)
            return values.cpu().numpy().tobytes()

        return self._carry(send)

    def merged(self, own, longest):
        """All ranks' summaries as one: up a binomial tree, two becoming one at each step, and down by a broadcast."""

        def pack(summary):
            data = len(summary).to_bytes(8, "little") + summary
            return torch.frombuffer(bytearray(data.ljust(longest + 8, b"\0")), dtype=torch.uint8).to(self.link.device)

        def unpack(message):
            data = message.cpu().numpy().tobytes()
            return data[8 : 8 + int.from_bytes(data[:8], "little")]

        def send(link):
            place, summary, step = link.ranks.index(link.rank), own, 1
            while step < len(link.ranks):
                if place & step:
                    link.dist.send(pack(summary), link.ranks[place - step], group=link.group)
                    break
                if place + step < len(link.ranks):
                    other = pack(b"")
                    link.dist.recv(other, link.ranks[place + step], group=link.group)
                    summary = _core.merge_summaries(summary, unpack(other))
                step *= 2
            whole = pack(summary)
            link.dist.broadcast(whole, link.ranks[0], group=link.group)
            return unpack(whole)

        return self._carry(send)


def agreeing(site, exit, calls, structure, reads):
    """What this rank saw, before it asks the others: in the log and the trace, under TorchDynamo's names.

    reads: sizes and ints by source; None in place of one that is dynamic.
    """
    state = {
        "rank": rank(),
        "site": site,
        "exit": exit,
        "calls": calls,
        "structure": f"{structure:016x}",
        "reads": reads,
    }
    _torch_log.info("compiler_collective %s", state)
    trace_structured(
        "artifact",
        metadata_fn=lambda: {"name": "compiler_collective", "encoding": "json"},
        payload_fn=lambda: json.dumps(state),
        expect_trace_id=False,
    )


def diverged(site, message, in_backend, eagerly):
    what = (
        "the backend failed on some ranks"
        if in_backend
        else "the ranks run different programs here, so that their graphs do not belong together"
    )
    text = f"{site}: {what}:\n{message.rstrip()}"
    if not eagerly:
        raise exc.RanksDiverged(f'{text}\nWith config.on_divergence = "eager" such calls run eagerly on all ranks.')
    log.debug("%s", text)
    warnings.warn(f"{text}\nThis call runs eagerly on all ranks.", stacklevel=2)


def guards_differ(site):
    log.debug(
        "%s: one graph, but the ranks guard different things: a rank may have to capture again alone (set_enable_guard_collectives)",
        site,
    )


def set_enable_guard_collectives(enabled):
    """Whether ranks agree on each look-up of entries: a hit on all of them, or a capture on all. Returns what it was
    before."""
    before = config.guard_collectives
    config.guard_collectives = bool(enabled)
    return before
