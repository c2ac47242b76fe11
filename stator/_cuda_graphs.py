"""CUDA graphs that inductor records hand out the same memory at each step: what a step returned is overwritten by the
next one. torch counts calls of compiled functions as steps (where the program does not count itself,
`cudagraph_mark_step_begin`), and so it has to be told of ours."""

from stator import _core
from stator._loaded import loaded

_last = -1


def are_used(backend):
    """Whether graphs of this backend may be recorded as CUDA graphs: by its mode and options, or by inductor's own
    settings."""
    if backend.asked == "cudagraphs":
        return True
    chosen = getattr(backend.function, "config", None)
    if isinstance(chosen, dict) and "triton.cudagraphs" in chosen:
        return bool(chosen["triton.cudagraphs"])
    inductor = loaded("torch._inductor.config")
    return inductor is not None and bool(inductor.triton.cudagraphs)


def by_steps(compiled):
    """The compiled graph; its first call in each call of a compiled function begins a step."""
    from torch._dynamo.mutation_guard import GenerationTracker

    def run(*args):
        global _last
        begun = _core.calls_begun()
        if begun != _last:
            _last = begun
            GenerationTracker.generation += 1
        return compiled(*args)

    return run
