"""Lazy modules (nn.LazyLinear and its relatives) are initialised for real when a trace first calls them, as eager would
do it.

Where an argument is computed by the graph, there is no tensor yet: a fake with its facts stands in, which is enough to
read shapes from. An initialisation that looks at data, or keeps a fake, is undone, and the call is left to the
interpreter.
"""

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.nn.parameter import UninitializedTensorMixin  # type: ignore[attr-defined]

from stator import _node_meta


def fake(mode, facts):
    size, stride, dtype, device, device_index, requires_grad = facts
    place = _node_meta.place_of(device, device_index)
    return _node_meta.bare_fake(mode, size, stride, _node_meta.DTYPES[dtype], place, bool(requires_grad))


def fake_mode():
    return FakeTensorMode()


class _State:
    """All that an initialisation may change, so that it can be put back."""

    def __init__(self, module):
        self.modules = []
        for part in module.modules():
            copies = {name: type(held)(held) for name, held in part.__dict__.items() if type(held) in (dict, list, set)}
            tensors = [
                tensor
                for held in (part._parameters, part._buffers)
                for tensor in held.values()
                if isinstance(tensor, UninitializedTensorMixin)
            ]
            kinds = [(tensor, type(tensor), tensor.data) for tensor in tensors]
            self.modules.append((part, type(part), dict(part.__dict__), copies, kinds))
        self.random = torch.get_rng_state()
        self.cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None

    def restore(self):
        for part, kind, attributes, copies, tensors in self.modules:
            object.__setattr__(part, "__class__", kind)
            for tensor, tensor_kind, data in tensors:
                tensor.data = data
                tensor.__class__ = tensor_kind
            part.__dict__.clear()
            part.__dict__.update(attributes)
            for name, contents in copies.items():
                held = attributes[name]
                held.clear()
                held.extend(contents) if type(held) is list else held.update(contents)
        torch.set_rng_state(self.random)
        if self.cuda is not None:
            torch.cuda.set_rng_state_all(self.cuda)


def _holds_fakes(module):
    return any(
        isinstance(held, FakeTensor) or isinstance(getattr(held, "data", None), FakeTensor)
        for part in module.modules()
        for values in (part._parameters, part._buffers, part.__dict__)
        for held in values.values()
        if isinstance(held, torch.Tensor)
    )


def initialise(infer, module, args, kwargs, grad_enabled):
    """Runs `_infer_parameters`. False: it cannot be done here, and nothing has changed."""
    before = _State(module)
    try:
        with torch.set_grad_enabled(grad_enabled):
            result = infer(module, module, args, kwargs)
        if result is None and not _holds_fakes(module):
            return True
    except Exception:  # eager raises it again, where the program can see it
        pass
    before.restore()
    return False
