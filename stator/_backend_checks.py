"""Backends under two settings for those who search for an error: config.debug_backend_override and
config.verify_correctness."""

from stator import _backends, config


def _ranges(text):
    """ ">10", "0,3-5" and so on, as a function of a graph's number."""

    def one(part):
        for sign, compare in ((">=", int.__ge__), ("<=", int.__le__), (">", int.__gt__), ("<", int.__lt__)):
            if part.startswith(sign):
                bound = int(part[len(sign) :])
                return lambda number: compare(number, bound)
        low, _, high = part.partition("-")
        numbers = range(int(low), int(high or low) + 1)
        return lambda number: number in numbers

    wanted = [one(part.strip()) for part in text.split(",")]
    return lambda number: any(fits(number) for fits in wanted)


def override(function, graph_module, arguments):
    """The backend that config.debug_backend_override has for this graph, or the one that it has anyway."""
    number = int(graph_module.meta["backend_id"].rpartition("_")[2])
    for rule in filter(None, map(str.strip, config.debug_backend_override.split(";"))):
        numbers, _, name = rule.partition(":")
        try:
            if not name:
                raise ValueError
            fits = _ranges(numbers)(number)
        except ValueError:
            raise ValueError(f"config.debug_backend_override: {rule!r} is not like '>10:eager'") from None
        if fits:
            arguments.clear()  # mode and options are the other backend's
            return _backends.lookup_backend(name.strip())
    return function


def verifying(backend, graph_module, compiled):
    """config.verify_correctness: the first run is compared with the graph as it was captured."""
    verified = False

    def verify(args):
        import torch

        from stator import debug

        def copies():
            return [
                a.detach().clone().requires_grad_(a.requires_grad) if isinstance(a, torch.Tensor) else a for a in args
            ]

        state = torch.random.get_rng_state()
        wanted = graph_module.forward(*copies())
        torch.random.set_rng_state(state)
        got = compiled(*copies())
        torch.random.set_rng_state(state)
        if not debug.same(list(wanted), list(got), equal_nan=True, tol=1e-4):
            raise RuntimeError(f"incorrect results of backend {backend.compiler_name!r} (config.verify_correctness)")

    def run(*args):
        nonlocal verified
        if not verified:
            verify(args)
            verified = True
        return compiled(*args)

    return run
