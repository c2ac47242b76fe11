"""Whole models: a decoder of transformers', forward, train and generate; repro and accuracy tools."""

import copy

import pytest
import torch
from checking import DEVICE, needs_cuda

import stator
from stator import _core

transformers = pytest.importorskip("transformers")


def decoder(layers=2, dtype=torch.float32):
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=256, hidden_size=64, intermediate_size=128, num_hidden_layers=layers, num_attention_heads=4,
        num_key_value_heads=2, head_dim=16, max_position_embeddings=128, use_cache=False, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    return Qwen3ForCausalLM(config).to(DEVICE, dtype).eval()


def ids(length=32, seed=1):
    return torch.randint(5, 256, (2, length), generator=torch.Generator().manual_seed(seed)).to(DEVICE)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_forward(backend, dtype):
    model = decoder(dtype=dtype)
    compiled = stator.compile(model, backend=backend, fullgraph=True)
    close = 1e-4 if dtype is torch.float32 else 5e-2
    with torch.no_grad():
        for seed in range(3):
            x = ids(seed=seed)
            torch.testing.assert_close(compiled(input_ids=x).logits, model(input_ids=x).logits, rtol=close, atol=close)
    assert _core.stats()["graphs"] == 1 and _core.stats()["graph_calls"] == 3


@pytest.mark.parametrize("options", [{"backend": "aot_eager"}, {"backend": "inductor"}, {"mode": "reduce-overhead"}])
def test_train(options):
    if "mode" in options and DEVICE.type != "cuda":
        pytest.skip("is about CUDA itself")
    mine = decoder().train()
    theirs = copy.deepcopy(mine)
    compiled = stator.compile(mine, **options)
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.05) for m in (mine, theirs)]
    for seed in range(3):
        x = ids(seed=seed)
        for call, optimizer in zip((compiled, theirs), optimizers, strict=True):
            call(input_ids=x, labels=x).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    torch.testing.assert_close(list(mine.parameters()), list(theirs.parameters()), rtol=5e-3, atol=5e-3)
    assert _core.stats()["graph_calls"] >= 3


def test_generate():
    model = decoder()
    model.config.use_cache = True
    x = ids(8)
    expected = model.generate(x, max_new_tokens=6, do_sample=False)
    model.forward = stator.compile(model.forward, backend="eager")
    assert torch.equal(model.generate(x, max_new_tokens=6, do_sample=False), expected)
    assert _core.stats()["graph_calls"] >= 6


def test_lengths_that_change():
    model = decoder()
    compiled = stator.compile(model, backend="aot_eager")
    with torch.no_grad():
        for length in (16, 24, 31, 40):
            x = ids(length)
            torch.testing.assert_close(compiled(input_ids=x).logits, model(input_ids=x).logits, rtol=1e-4, atol=1e-4)
    assert _core.stats()["graphs"] <= 2


@needs_cuda
def test_same_graph_as_torchdynamo_for_cuda_graphs():
    """Parameters are static inputs for both front ends."""
    from torch._inductor.cudagraph_trees import get_manager, reset_cudagraph_trees

    found = []
    for compile_with in (torch.compile, stator.compile):
        reset_cudagraph_trees()
        torch._dynamo.reset()
        model = decoder(1)
        compiled = compile_with(model, mode="reduce-overhead")
        with torch.no_grad():
            for _ in range(4):
                compiled(input_ids=ids())
        nodes = [n for some in get_manager(0).roots.values() for n in some]
        found.append([(len(n.static_input_idxs), len(n.non_static_input_idx)) for n in nodes])
    reset_cudagraph_trees()
    assert found[0] == found[1]


@pytest.mark.parametrize(("fault", "level"), [("compile", 1), ("wrong", 4)])
def test_repro_and_minifier(fault, level, tmp_path, monkeypatch):
    """A planted fault on the device is written down, and cut down to one call."""
    monkeypatch.chdir(tmp_path)

    def function(x):
        y = (x + 1).sin() * 2
        for _ in range(6):
            y = y.cos() + x
        return torch.tanh(y).relu() + y

    options = {"fault": fault, "op": "tanh"}
    with stator.config.patch(repro_after="dynamo", repro_level=level):
        with pytest.raises((stator.exc.BackendCompilerFailed, stator.exc.AccuracyError)):
            stator.compile(function, backend="planted_fault", options=options)(torch.randn(4, 4, device=DEVICE))
    (script,) = tmp_path.rglob("checkpoints/*.py")
    assert f"{DEVICE.type}" in script.read_text() or DEVICE.type == "cpu"
    report = stator.debug.minify(str(script))
    assert report.calls_after == 1, report
