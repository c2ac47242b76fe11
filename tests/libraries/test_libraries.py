"""Libraries that call torch.compile, under stator.install(): the real ones, with tiny models made from configs (nothing
is downloaded).

Each test runs the same without compiling, compares, and sees that graphs were captured. `make test-libraries` installs
the libraries.
"""

from __future__ import annotations

import copy
import importlib.util
import os
import sys
import types

import pytest
import torch
import torch._dynamo.aot_compile

import stator

os.environ.setdefault("HF_HUB_OFFLINE", "1")


def needs(*modules):
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")


@pytest.fixture(autouse=True)
def installed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    stator.reset()
    stator.install()
    torch.manual_seed(0)
    yield
    stator.uninstall()
    stator.reset()


@pytest.fixture
def graphs():
    before = stator.stats()["graph_calls"]
    yield lambda: stator.stats()["graph_calls"] - before
    assert stator.stats()["graph_calls"] > before, "nothing was captured"
    assert stator.stats()["internal_errors"] == 0


def _llama(**changes):
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = dict(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
    )
    return LlamaForCausalLM(
        LlamaConfig(**sizes, max_position_embeddings=64, bos_token_id=1, eos_token_id=2, pad_token_id=0, **changes)
    ).eval()


@needs("transformers")
def test_transformers_generates_with_a_static_cache(graphs):
    model = _llama()
    ids = torch.randint(3, 64, (2, 5))
    how = dict(max_new_tokens=8, min_new_tokens=8, do_sample=False, cache_implementation="static", disable_compile=True)
    expected = model.generate(ids, **how)
    model.forward = torch.compile(model.forward, backend="eager")
    assert torch.equal(model.generate(ids, **how), expected)
    assert torch.equal(model.generate(ids, **how), expected)
    assert graphs() >= 8


@needs("transformers", "accelerate")
def test_transformers_trainer(graphs, tmp_path):
    from transformers import Trainer, TrainingArguments

    rows = [{"input_ids": row, "labels": row} for row in torch.randint(3, 64, (8, 6))]

    def train(model, **more):
        arguments = TrainingArguments(
            output_dir=str(tmp_path), max_steps=3, per_device_train_batch_size=4, report_to=[], use_cpu=True, logging_steps=1, seed=0, disable_tqdm=True,
            save_strategy="no", **more,
        )  # fmt: skip
        trainer = Trainer(model=model, args=arguments, train_dataset=rows)
        trainer.train()
        trainer.save_model(str(tmp_path / "saved"))
        return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]

    model = _llama()
    twin = copy.deepcopy(model)
    expected = train(twin)
    assert train(model, torch_compile=True, torch_compile_backend="aot_eager") == pytest.approx(expected, rel=1e-4)
    for (name, one), (_, other) in zip(model.named_parameters(), twin.named_parameters(), strict=True):
        torch.testing.assert_close(one, other, msg=name, rtol=1e-4, atol=1e-5)


@needs("accelerate")
def test_accelerate_knows_compiled_models(graphs):
    from accelerate import Accelerator
    from accelerate.utils import (
        TorchDynamoPlugin,
        extract_model_from_parallel,
        has_compiled_regions,
        is_compiled_module,
    )

    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
    accelerator = Accelerator(cpu=True, dynamo_plugin=TorchDynamoPlugin(backend="aot_eager"))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    prepared, optimizer = accelerator.prepare(model, optimizer)
    assert is_compiled_module(prepared) and not is_compiled_module(model)
    assert accelerator.unwrap_model(prepared, keep_torch_compile=False) is model
    assert is_compiled_module(accelerator.unwrap_model(prepared, keep_torch_compile=True))
    assert extract_model_from_parallel(prepared, keep_torch_compile=False) is model
    x, twin = torch.randn(3, 4), copy.deepcopy(model)
    loss = prepared(x).sum()
    assert torch.allclose(loss, twin(x).sum())
    accelerator.backward(loss)
    optimizer.step()
    regional = torch.nn.ModuleList([torch.nn.Linear(4, 4), torch.nn.ReLU()])
    assert not has_compiled_regions(regional)
    regional[0] = torch.compile(regional[0], backend="eager")
    assert has_compiled_regions(regional) and not is_compiled_module(regional)


@needs("accelerate")
def test_accelerate_compiles_regions(graphs):
    from accelerate.utils import compile_regions, has_compiled_regions

    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(4, 4)

        def forward(self, x):
            return self.linear(x).relu()

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = torch.nn.ModuleList(Block() for _ in range(3))

        def forward(self, x):
            for block in self.blocks:
                x = block(x)
            return x

    model, x = Model(), torch.randn(2, 4)
    compiled = compile_regions(model, backend="eager")
    assert has_compiled_regions(compiled)
    assert torch.equal(compiled(x), model(x))


@needs("diffusers")
def test_diffusers(graphs):
    from diffusers import DDPMPipeline, DDPMScheduler, UNet2DModel
    from diffusers.utils.torch_utils import is_compiled_module

    unet = UNet2DModel(
        sample_size=8, in_channels=3, out_channels=3, layers_per_block=1, block_out_channels=(8, 8), norm_num_groups=4,
        down_block_types=("DownBlock2D", "DownBlock2D"), up_block_types=("UpBlock2D", "UpBlock2D"),
    ).eval()  # fmt: skip
    x, step = torch.randn(1, 3, 8, 8), torch.tensor([3])
    with torch.no_grad():
        expected = unet(x, step).sample
    compiled = torch.compile(unet, backend="eager")
    assert is_compiled_module(compiled) and not is_compiled_module(unet)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x, step).sample, expected)
    images = []
    for one in (unet, compiled):
        pipeline = DDPMPipeline(unet=one, scheduler=DDPMScheduler(num_train_timesteps=10))
        pipeline.set_progress_bar_config(disable=True)
        generator = torch.Generator().manual_seed(1)
        images.append(torch.as_tensor(pipeline(num_inference_steps=2, generator=generator, output_type="np").images))
    torch.testing.assert_close(images[1], images[0])


@needs("lightning")
def test_lightning(graphs, tmp_path):
    import lightning.pytorch as pl

    class Model(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = torch.nn.Linear(4, 1)
            self.losses = []

        def forward(self, x):
            return self.net(x).tanh()

        def training_step(self, batch, index):
            loss = (self(batch[0]) - batch[1]).square().mean()
            self.losses.append(loss.detach())
            return loss

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    data = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(torch.randn(16, 4), torch.randn(16, 1)), batch_size=8
    )

    def fit(model):
        trainer = pl.Trainer(max_epochs=2, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
                             enable_model_summary=False, default_root_dir=str(tmp_path))  # fmt: skip
        trainer.fit(model, data)

    model = Model()
    twin = copy.deepcopy(model)
    fit(twin)
    fit(torch.compile(model, backend="aot_eager"))
    torch.testing.assert_close(torch.stack(model.losses), torch.stack(twin.losses))
    torch.testing.assert_close(model.net.weight, twin.net.weight)


@needs("lightning")
def test_lightning_fabric(graphs):
    from lightning.fabric import Fabric

    model = torch.nn.Linear(4, 1)
    twin = copy.deepcopy(model)
    fabric = Fabric(accelerator="cpu", devices=1)
    compiled = torch.compile(model, backend="aot_eager")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    wrapped, optimizer = fabric.setup(compiled, optimizer)
    x = torch.randn(3, 4)
    loss = wrapped(x).sum()
    assert torch.allclose(loss, twin(x).sum())
    fabric.backward(loss)
    optimizer.step()
    assert not torch.equal(model.weight, twin.weight)


@needs("peft", "transformers")
def test_peft(graphs):
    from peft import LoraConfig, get_peft_model

    model = get_peft_model(_llama(), LoraConfig(r=4, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"))
    twin = copy.deepcopy(model)
    ids = torch.randint(3, 64, (2, 6))
    compiled = torch.compile(model, backend="aot_eager")
    for _ in range(2):
        loss, expected = compiled(input_ids=ids, labels=ids).loss, twin(input_ids=ids, labels=ids).loss
        torch.testing.assert_close(loss, expected)
        loss.backward()
        expected.backward()
    for (name, one), (_, other) in zip(model.named_parameters(), twin.named_parameters(), strict=True):
        if one.grad is not None or other.grad is not None:
            torch.testing.assert_close(one.grad, other.grad, msg=name, rtol=1e-4, atol=1e-5)
    merged = compiled._orig_mod.merge_and_unload()
    assert not any("lora" in name for name, _ in merged.named_parameters())


# ---- vLLM, which is not on every machine: the way in which its wrapper of compiled models uses torch.compile
# --------------------------------


class Rows(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x, positions):
        return self.linear(x) + positions.unsqueeze(-1)


def _rows(count, marked=False):
    x, positions = torch.randn(count, 4), torch.arange(count, dtype=torch.float32)
    for one in (x, positions) if marked else ():
        torch._dynamo.mark_dynamic(one, 0)
    return x, positions


def test_vllms_way_without_guards(graphs):
    """A custom backend, marks at the first call alone, no guards, and no capture behind the first."""
    seen = []

    def backend(graph_module, example_inputs):
        seen.append(graph_module)
        return graph_module.forward

    model, first = Rows(), True
    options = {"guard_filter_fn": lambda guards: [False for _ in guards]}
    compiled = torch.compile(model.forward, backend=backend, fullgraph=True, dynamic=False, options=options)
    for count in (5, 7, 9):
        given = _rows(count, marked=first)
        stance = torch.compiler.set_stance("default" if first else "fail_on_recompile")
        with stance, torch._dynamo.config.patch(cache_size_limit=2048, accumulated_cache_size_limit=8192):
            torch.testing.assert_close(compiled(*given), model(*given))
        first = False
    assert len(seen) == 1


def test_vllms_way_with_guards_on_sizes(graphs):
    model = Rows()
    options = {"guard_filter_fn": lambda guards: [guard.guard_type == "SHAPE_ENV" for guard in guards]}
    compiled = torch.compile(model, backend="eager", fullgraph=True, dynamic=False, options=options)
    given = _rows(5, marked=True)
    torch.testing.assert_close(compiled(*given), model(*given))
    with torch.compiler.set_stance("fail_on_recompile"):
        given = _rows(8)
        torch.testing.assert_close(compiled(*given), model(*given))


class CodeInPlace(Rows):
    """The captured code takes the place of forward's."""

    code = None

    def hook(self, old, new):
        if old is not type(self).forward.__code__:
            return
        frame = sys._getframe()
        while frame and frame.f_back:
            frame = frame.f_back
            if (frame.f_code.co_name, os.path.basename(frame.f_code.co_filename)) == ("_compile", "convert_frame.py"):
                break
        frame = frame.f_locals["frame"]
        assert frame.f_code is old
        if frame.f_locals["self"] is self:
            self.code = new

    def run(self, compiled, *given):
        original = type(self).forward.__code__
        if self.code is None:
            torch._dynamo.eval_frame.remove_from_cache(original)
            return compiled(*given)
        type(self).forward.__code__ = self.code
        try:
            return self.forward(*given)
        finally:
            type(self).forward.__code__ = original


def test_vllms_way_with_a_bytecode_hook(graphs):
    seen = []

    def backend(graph_module, example_inputs):
        seen.append(graph_module)
        return graph_module.forward

    CodeInPlace.forward = types.FunctionType(Rows.forward.__code__, globals(), "forward")
    model = CodeInPlace()
    options = {"guard_filter_fn": lambda guards: [False for _ in guards]}
    compiled = torch.compile(model.forward, backend=backend, fullgraph=True, dynamic=False, options=options)
    handle = torch._dynamo.convert_frame.register_bytecode_hook(model.hook)
    try:
        for count in (5, 7, 9):
            given = _rows(count, marked=model.code is None)
            torch.testing.assert_close(model.run(compiled, *given), model.linear(given[0]) + given[1].unsqueeze(-1))
    finally:
        handle.remove()
    assert model.code is not None and len(seen) == 1


class Piecewise(torch._dynamo.aot_compile.SerializableCallable):
    """What vLLM's backend returns: the graph travels, and the backend is called again with it at the first call."""

    compiled = 0

    def __init__(self, graph_module):
        self.graph_module, self.run = graph_module, None

    def __call__(self, *args):
        if self.run is None:
            Piecewise.compiled += 1
            self.run = self.graph_module.forward
        return self.run(*args)

    @classmethod
    def serialize_compile_artifacts(cls, made):
        from torch.fx._graph_pickler import GraphPickler, Options

        for node in made.graph_module.graph.nodes:
            for key in ("source_fn_stack", "nn_module_stack"):
                node.meta.pop(key, None)
        return GraphPickler.dumps(made.graph_module, Options(ops_filter=None))

    @classmethod
    def deserialize_compile_artifacts(cls, data):
        from torch._subclasses import FakeTensorMode
        from torch.fx._graph_pickler import GraphPickler
        from torch.fx.experimental.symbolic_shapes import ShapeEnv

        module = GraphPickler.loads(data, FakeTensorMode(shape_env=ShapeEnv()))
        module.recompile()
        return cls(module)


def test_vllms_way_ahead_of_time(graphs, tmp_path):
    model = Rows()
    options = {"guard_filter_fn": lambda guards: [False for _ in guards]}
    compiled = torch.compile(
        model.forward, backend=lambda module, _: Piecewise(module), fullgraph=True, dynamic=False, options=options
    )
    ahead = compiled.aot_compile((_rows(6, marked=True), {}))
    assert Piecewise.compiled == 0
    ahead.save_compiled_function(str(tmp_path / "model"))
    with open(tmp_path / "model", "rb") as file:
        loaded = torch.compiler.load_compiled_function(file, f_globals=Rows.forward.__globals__)
    assert any(source.module == __name__ for source in loaded.source_info().inlined_sources)
    assert all(isinstance(one._artifacts.compiled_fn, Piecewise) for one in (ahead, loaded))
    loaded.disable_guard_check()
    for count in (7, 5):
        given = _rows(count)
        for one in (ahead, loaded):
            torch.testing.assert_close(one(model, *given), model(*given))
