"""A model, compiled: the same results, the same parameters, and later calls run the captured graph."""

import torch

import stator

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 4))
compiled = stator.compile(model, backend="aot_eager")  # without backend= it is inductor, as in torch.compile
x = torch.randn(8, 16)

assert torch.allclose(compiled(x), model(x))  # captures and compiles
before = stator.stats()
compiled(x)  # runs what is there
after = stator.stats()
assert after["captures"] == before["captures"] and after["graph_calls"] == before["graph_calls"] + 1

# The compiled module is still the module.
assert list(compiled.state_dict()) == list(model.state_dict())
assert isinstance(compiled, torch.nn.Sequential)
print(f"{after['graphs']} graph of {after['ops']} operations, captured in {1e3 * after['capture_seconds']:.1f} ms")
print(stator.guards(compiled)(x))  # what later calls check, and what that costs
