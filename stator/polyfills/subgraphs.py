"""What the tracer does itself for the operators whose arguments are functions (src/interpret/calls/subgraphs.cpp).
Never run natively."""


def capture(names, functions, operands, samples, pure):
    """The functions as graph modules: (modules..., further operands that all of them take)."""
    raise RuntimeError("only for captured code")


def capture_with_sizes(names, functions, operands, samples, pure):
    """The same; the symbols of the operands' sizes are among the further operands."""
    raise RuntimeError("only for captured code")


def capture_transformed(names, functions, operands, samples, pure, wrapped):
    """The same, of a function that one of torch.func's transforms calls. `wrapped`, of each operand: True, the
    transform differentiates by it; False, it is wrapped otherwise; None, it is handed on as it is."""
    raise RuntimeError("only for captured code")


def look(name, function, operands):
    """Ends the capture if the function does more than compute results from its operands."""
    raise RuntimeError("only for captured code")


def under_transforms():
    """Whether one of torch.func's transforms is under way."""
    raise RuntimeError("only for captured code")


def capture_pair(forward, backward, operands):
    """(forward module, backward module, further operands, positions of saved tensors)."""
    raise RuntimeError("only for captured code")


def refuse(why):
    """Ends the capture at the call under way."""
    raise RuntimeError("only for captured code")


def is_open(value):
    """Whether it is a bool that the graph computes."""
    raise RuntimeError("only for captured code")


def set_meta(module, key, value):
    """An entry of a captured function's `meta`; the value has to be the program's own object."""
    raise RuntimeError("only for captured code")


def call(function, *args, **kwargs):
    """A node of the graph."""
    raise RuntimeError("only for captured code")


def call_like(function, facts, *args):
    """A node of the graph whose results look like those of facts(*args)."""
    raise RuntimeError("only for captured code")
