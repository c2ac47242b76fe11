"""vLLM under stator.install(): the real library, its build for CPUs, with a tiny model that is made here (nothing is
downloaded).

Each case runs in a process of its own, since vLLM sets up the process it is in. `make test-vllm` installs what it
needs.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import textwrap
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="not installed: vllm")

HEAD = """
import json, os, sys
import torch
if FRONTEND == "stator":
    import stator
    stator.install()

def told(**facts):
    if FRONTEND == "stator":
        stats = stator.stats()
        facts["captured"] = {name: stats[name] for name in ("graphs", "graph_calls", "breaks", "internal_errors")}
    from vllm.compilation.counter import compilation_counter
    facts["counts"] = {name: count for name, count in vars(compilation_counter).items() if count}
    print("TOLD " + json.dumps(facts), flush=True)
"""

ENGINE = """
from vllm import LLM, SamplingParams

if __name__ == "__main__":
    llm = LLM(model=MODEL, skip_tokenizer_init=True, dtype="float32", max_model_len=64, max_num_seqs=4, seed=0, **MORE)
    prompts = [{"prompt_token_ids": ids} for ids in ([1, 5, 9, 17], [1, 7], [1, 3, 4, 5, 6, 7, 8])]
    how = SamplingParams(max_tokens=6, temperature=0, detokenize=False, ignore_eos=True, logprobs=1)
    outputs = [answer.outputs[0] for answer in llm.generate(prompts, how, use_tqdm=False)]
    told(
        tokens=[list(output.token_ids) for output in outputs],
        scores=[[max(each.logprob for each in row.values()) for row in output.logprobs] for output in outputs],
    )
"""

# vLLM's decorator on a model of two layers, with an operator at which its backend cuts the graph.
PIECES = """
from torch import nn
from vllm.compilation.decorators import support_torch_compile
from vllm.config import CompilationConfig, CompilationMode, CUDAGraphMode, VllmConfig, set_current_vllm_config
from vllm.forward_context import set_forward_context
from vllm.utils.torch_utils import LayerName, direct_register_custom_op

sys.path.insert(0, FOLDER)
import factors  # a file of its own: what is inlined from there

library = torch.library.Library("pieces", "FRAGMENT")
named = []

def attention(q: torch.Tensor, k: torch.Tensor, out: torch.Tensor, name: LayerName) -> None:
    named.append(name.value)
    out.copy_(q * 2 + k)

def attention_fake(q: torch.Tensor, k: torch.Tensor, out: torch.Tensor, name: LayerName) -> None:
    return None

direct_register_custom_op("attention", attention, mutates_args=["out"], fake_impl=attention_fake, target_lib=library)

class Layer(nn.Module):
    def __init__(self, name):
        super().__init__()
        self.q, self.k, self.name = nn.Linear(8, 8), nn.Linear(8, 8), name

    def forward(self, x):
        out = torch.empty_like(x)
        torch.ops.pieces.attention(self.q(x), self.k(x), out, LayerName(self.name))
        return x + out.relu() * factors.factor()

@support_torch_compile
class Model(nn.Module):
    def __init__(self, *, vllm_config, prefix=""):
        super().__init__()
        self.layers = nn.ModuleList(Layer(f"layer {n}") for n in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x.sin()

config = VllmConfig(compilation_config=CompilationConfig(cudagraph_mode=CUDAGraphMode.NONE, splitting_ops=["pieces::attention"]))
compilation = config.compilation_config
# The platform of CPUs has its own mode, and leaves out the passes for GPUs; what is tried here is what GPUs get.
compilation.mode, compilation.backend, compilation.compile_sizes = CompilationMode(MORE["mode"]), MORE["backend"], []
compilation.dynamic_shapes_config.evaluate_guards = MORE.get("evaluate_guards", False)
compilation.dynamic_shapes_config.type = type(compilation.dynamic_shapes_config.type)(MORE.get("sizes", "backed"))
passes = compilation.pass_config
for name in [name for name, value in vars(passes).items() if value is True]:
    setattr(passes, name, False)
torch.manual_seed(0)
with set_current_vllm_config(config):
    model = Model(vllm_config=config)
results = []
with torch.no_grad(), set_forward_context({}, vllm_config=config):
    for count in (16, 5, 16, 9):
        x = torch.randn(count, 8)
        named.clear()
        result = model(x)
        assert named == ["layer 0", "layer 1"], named
        torch.testing.assert_close(result, model.forward(x))
        results.append(result.sum().item())
told(results=results, files=sorted(map(os.path.basename, compilation.traced_files)))
"""


def run(program: str, folder: Any, frontend: str, more: dict[str, Any], **environment: str) -> dict[str, Any]:
    settings = f"FRONTEND, MORE, MODEL, FOLDER = {frontend!r}, {more!r}, {str(folder / 'model')!r}, {str(folder)!r}\n"
    script = folder / "program.py"
    script.write_text(settings + textwrap.dedent(HEAD) + program)
    own = {
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind", "VLLM_CACHE_ROOT": str(folder / "cache"), "TORCHINDUCTOR_COMPILE_THREADS": "1",
        "STATOR_STRICT": "1",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, str(script)], env={**os.environ, **own, **environment}, capture_output=True, text=True
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("TOLD ")]
    assert done.returncode == 0 and len(lines) == 1, done.stdout[-2000:] + done.stderr[-6000:]
    facts: dict[str, Any] = json.loads(lines[0].removeprefix("TOLD "))
    if frontend == "stator":
        assert facts["captured"]["internal_errors"] == 0
    return facts


@pytest.fixture(scope="module")
def engine(tmp_path_factory: Any) -> Any:
    """A folder with a model, and what it says without compiling."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    folder = tmp_path_factory.mktemp("engine")
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=128, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1,
        head_dim=32, max_position_embeddings=128, bos_token_id=1, eos_token_id=2, initializer_range=0.3,
        architectures=["LlamaForCausalLM"],
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder / "model")
    return folder, run(ENGINE, folder, "none", {"enforce_eager": True})


def test_the_engine(engine: Any) -> None:
    """As vLLM sets it up by default: compiled ahead of time, by inductor, without guards."""
    folder, expected = engine
    found = run(ENGINE, folder, "stator", {})
    assert found["tokens"] == expected["tokens"]
    for one, other in zip(found["scores"], expected["scores"], strict=True):
        assert one == pytest.approx(other, abs=1e-3)
    assert found["captured"]["breaks"] == 0 and found["captured"]["graph_calls"] >= 6
    assert found["counts"]["num_aot_compiles"] == 1


@pytest.mark.parametrize("hook", ["0", "1"])
def test_the_engine_without_compiling_ahead(engine: Any, hook: str) -> None:
    """By its wrapper of torch.compile, and by code that takes the place of forward's (a bytecode hook)."""
    folder, expected = engine
    more = {"compilation_config": {"mode": 2, "backend": "eager"}}
    found = run(ENGINE, folder, "stator", more, VLLM_USE_AOT_COMPILE="0", VLLM_USE_BYTECODE_HOOK=hook)
    assert found["tokens"] == expected["tokens"]
    assert found["captured"]["breaks"] == 0 and found["captured"]["graph_calls"] >= 6


PIECES_CASES = {
    "once": {"mode": 2, "backend": "eager"},
    "pieces": {"mode": 3, "backend": "eager"},
    "pieces by inductor": {"mode": 3, "backend": "inductor"},
    "guards on sizes": {"mode": 3, "backend": "eager", "evaluate_guards": True},
    "sizes that are not known": {"mode": 3, "backend": "eager", "sizes": "unbacked"},
    "sizes that are not looked at": {"mode": 3, "backend": "eager", "sizes": "backed_size_oblivious"},
}


@pytest.mark.parametrize("case", PIECES_CASES)
def test_the_decorator_and_the_backend(case: str, tmp_path: Any) -> None:
    (tmp_path / "factors.py").write_text("def factor():\n    return 0.5\n")
    more = PIECES_CASES[case]
    environment = {"VLLM_USE_AOT_COMPILE": "0", "VLLM_USE_BYTECODE_HOOK": "0"} if "evaluate_guards" in more else {}
    found = run(PIECES, tmp_path, "stator", more, **environment)
    assert found["captured"] == {"graphs": 1, "graph_calls": 4, "breaks": 0, "internal_errors": 0}
    if more["mode"] == 3:
        assert (found["counts"]["num_piecewise_graphs_seen"], found["counts"]["num_backend_compilations"]) == (5, 3)


def test_what_is_kept_is_loaded_and_goes_with_the_sources(tmp_path: Any) -> None:
    """The next process loads what was compiled ahead; another text of a function that is inlined is another program."""
    source = tmp_path / "factors.py"
    more = PIECES_CASES["pieces by inductor"]
    source.write_text("def factor():\n    return 0.5\n")
    first, second = (run(PIECES, tmp_path, "stator", more) for _ in range(2))
    assert first["counts"]["num_aot_artifacts_saved"] == 1
    assert second["counts"]["num_aot_artifacts_loaded"] == 1 and "num_aot_compiles" not in second["counts"]
    assert second["results"] == pytest.approx(first["results"])
    source.write_text("def factor():\n    return 2.0\n")
    third = run(PIECES, tmp_path, "stator", more)
    assert third["counts"]["num_aot_compiles"] == 1 and "num_aot_artifacts_loaded" not in third["counts"]
    assert (
        len([*(tmp_path / "cache" / "torch_compile_cache").iterdir()]) == 3
    )  # of each text, and of both ahead of time
    assert third["results"] != pytest.approx(first["results"])
