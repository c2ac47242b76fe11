"""A backend that raised: whether it is the graph's, the data's or its own fault, and what runs instead."""

import operator
import warnings

from stator import _core, exc
from stator._loaded import loaded


def _needs_data(error):
    """The backend met what fakes cannot know: neither its fault nor the user's."""
    names = (
        "DataDependentOutputException",
        "DynamicOutputShapeException",
        "GuardOnDataDependentSymNode",
        "PendingUnbackedSymbolNotFound",
    )
    return any(kind.__name__ in names and kind.__module__.startswith("torch.") for kind in type(error).__mro__)


def _put_back(state, graph_module, error):
    """Leaves modes that a backend entered as it ran the graph and that its error kept it from leaving.

    What leaves inference_mode when it dies would set a state of the middle of the trace: such objects go first.
    """
    nodes = getattr(getattr(graph_module, "graph", None), "nodes", ())
    if any(getattr(node.target, "__name__", "").startswith("_enter_") for node in nodes):
        import gc
        import traceback

        seen = set()
        while error is not None and id(error) not in seen:
            seen.add(id(error))
            traceback.clear_frames(error.__traceback__)
            error = error.__cause__ or error.__context__
        gc.collect()
    _core.set_thread_state(state)


def _words_and_place(error):
    """What an error says, where symbols may stand for sizes, and the line that raised it."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    known = place is not None and not place.tb_frame.f_code.co_filename.endswith("_ops.py")
    return str(error).splitlines()[:1], (place.tb_frame.f_code, place.tb_lineno) if known else object()


def _says_the_operation(graph_module, example_inputs, error):
    """Whether one of the program's operations is what the backend refuses: its fake says the same without a backend.

    Rules may take arguments for right that the operation does not (normal_ with a negative deviation).
    """
    if not hasattr(graph_module, "forward"):
        return False
    import torch

    fake = torch._subclasses.FakeTensor
    mode = next((value.fake_mode for value in example_inputs if isinstance(value, fake)), None)
    if mode is None:
        from torch.fx.experimental.symbolic_shapes import ShapeEnv

        # nested tensors have a symbol in any case
        mode = torch._subclasses.FakeTensorMode(static_shapes=True, shape_env=ShapeEnv())
    said = _words_and_place(error)
    state = _core.thread_state()
    try:
        examples = [
            mode.from_tensor(value) if isinstance(value, torch.Tensor) and not isinstance(value, fake) else value
            for value in example_inputs
        ]
        with mode, torch.no_grad():
            torch.func.functionalize(graph_module.forward)(*examples)
    except Exception as again:
        _put_back(state, graph_module, again)
        return type(again) is type(error) and any(map(operator.eq, _words_and_place(again), said))
    return False


def _skips():
    """SkipFrame, Stator's and TorchDynamo's."""
    theirs = loaded("torch._dynamo.exc")
    return (exc.SkipFrame,) if theirs is None else (exc.SkipFrame, theirs.SkipFrame)


def answer(backend, state, graph_module, example_inputs, error):
    """What runs in place of a graph that the backend did not compile; raises where nothing does."""
    _put_back(state, graph_module, error)
    if isinstance(error, _skips()):
        return graph_module.forward
    if not _needs_data(error):
        if _says_the_operation(graph_module, example_inputs, error):
            raise exc.SkipFrame("an operation raises") from error
        raise exc.BackendCompilerFailed(backend, error) from error
    # Known as the graph runs, not before: an operator's backward that reads a tensor's values, say.
    first = (str(error).splitlines() or [""])[0]
    warnings.warn(
        f"the backend cannot compile a graph whose shapes depend on data; it runs as captured ({first})", stacklevel=3
    )
    return graph_module.forward
