"""Streams and events: what runs where, and in which order, is eager's."""

import pytest
import torch
from checking import DEVICE, needs_cuda, same, tensor

import stator
from stator import _core

pytestmark = needs_cuda


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_side_stream(backend):
    def function(x, side):
        y = x * 2
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            z = y @ y + 1
        torch.cuda.current_stream().wait_stream(side)
        z.record_stream(torch.cuda.current_stream())
        return z - y

    same(function, tensor(64, 64), torch.cuda.Stream(), backend=backend, breaks=None)


def test_stream_made_inside():
    def function(x):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            y = x.relu() + 1
        torch.cuda.current_stream().wait_stream(side)
        return y * 2, side.device.type

    same(function, tensor(32), breaks=None)


def test_current_stream_is_read_anew():
    def function(x):
        return x + 1, torch.cuda.current_stream().cuda_stream

    compiled = stator.compile(function, backend="eager")
    x, side = tensor(8), torch.cuda.Stream()
    for stream in (torch.cuda.default_stream(), side, torch.cuda.default_stream()):
        with torch.cuda.stream(stream):
            got = compiled(x)
        assert got[1] == stream.cuda_stream and torch.equal(got[0], x + 1)
    torch.cuda.synchronize()


def test_graph_runs_on_the_stream_of_the_call():
    """A slow kernel on the side stream, then the compiled function there: without the stream's order it reads what is
    not there yet."""
    compiled = {b: stator.compile(lambda x: x.clone() * 2, backend=b) for b in ("eager", "inductor")}
    side = torch.cuda.Stream()
    for function in compiled.values():
        function(torch.zeros(1 << 20, device=DEVICE))
        torch.cuda.synchronize()
        for _ in range(3):
            x = torch.zeros(1 << 20, device=DEVICE)
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                torch.cuda._sleep(20_000_000)
                x.add_(1)
                y = function(x)
            torch.cuda.current_stream().wait_stream(side)
            assert bool((y == 2).all())
    assert _core.stats()["graph_calls"] >= 8


def test_events():
    def function(x, event):
        y = x * 2
        event.record()
        z = y + 1
        event.synchronize()
        return z, event.query()

    same(function, tensor(16), torch.cuda.Event(), breaks=None)


def test_event_made_inside_and_waited_for():
    def function(x, side):
        y = x * 2
        done = torch.cuda.Event()
        done.record()
        side.wait_event(done)
        with torch.cuda.stream(side):
            z = y + 1
            done.record(side)
        torch.cuda.current_stream().wait_event(done)
        return z * 3

    same(function, tensor(16), torch.cuda.Stream(), breaks=None)


def test_timing():
    def function(x):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        y = x @ x
        end.record()
        torch.cuda.synchronize()
        return y, start.elapsed_time(end) >= 0

    same(function, tensor(64, 64), breaks=None)


def test_exception_inside_of_a_stream():
    def function(x, side):
        try:
            with torch.cuda.stream(side):
                y = x + 1
                raise ValueError("left")
        except ValueError:
            return x * 2, torch.cuda.current_stream().cuda_stream

    same(function, tensor(4), torch.cuda.Stream(), breaks=None)


def test_streams_as_values():
    def function(x, a, b):
        return x + 1, a == b, a == a, a.device.index, isinstance(a, torch.cuda.Stream)

    same(function, tensor(4), torch.cuda.Stream(), torch.cuda.Stream(), breaks=None)
