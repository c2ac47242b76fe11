"""Real architectures, whole: one graph without a break, eager's outputs, for a backend that is a plain callable
(nothing that Stator knows)."""

import pytest
import torch

import stator

transformers = pytest.importorskip("transformers")

SMALL = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64)
TEXT = dict(vocab_size=64, max_position_embeddings=64)


def ids(batch, length=12):
    return torch.randint(5, 60, (batch, length), generator=torch.Generator().manual_seed(batch))


def pixels(batch):
    return torch.randn(batch, 3, 32, 32, generator=torch.Generator().manual_seed(batch))


def bert():
    return transformers.BertModel(transformers.BertConfig(**SMALL, **TEXT)), lambda b: {"input_ids": ids(b)}


def deberta():
    config = transformers.DebertaConfig(**SMALL, **TEXT, relative_attention=True, pos_att_type=["c2p", "p2c"])
    return transformers.DebertaModel(config), lambda b: {"input_ids": ids(b)}


def mixtral():
    config = transformers.MixtralConfig(
        **SMALL, **TEXT, num_key_value_heads=2, num_local_experts=4, num_experts_per_tok=2, use_cache=False
    )
    return transformers.MixtralForCausalLM(config), lambda b: {"input_ids": ids(b)}


def mamba():
    config = transformers.MambaConfig(vocab_size=64, hidden_size=32, state_size=4, num_hidden_layers=2, use_cache=False)
    return transformers.MambaModel(config), lambda b: {"input_ids": ids(b)}


def t5():
    config = transformers.T5Config(
        vocab_size=64, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, use_cache=False
    )
    return transformers.T5EncoderModel(config), lambda b: {"input_ids": ids(b)}


def vit():
    config = transformers.ViTConfig(**SMALL, image_size=32, patch_size=8)
    return transformers.ViTModel(config), lambda b: {"pixel_values": pixels(b)}


def leaves(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [leaf for item in value for leaf in leaves(item)] if isinstance(value, (list, tuple)) else []


@pytest.mark.parametrize("build", [bert, deberta, mixtral, mamba, t5, vit], ids=lambda build: build.__name__)
@pytest.mark.parametrize("gradients", [False, True], ids=["no_grad", "grad"])
def test_one_graph_with_eagers_outputs(build, gradients):
    torch.manual_seed(0)
    model, inputs = build()
    model.eval()
    graphs = []

    def backend(gm, example_inputs):
        graphs.append(gm)
        return gm.forward

    with torch.set_grad_enabled(gradients):
        compiled = stator.compile(model, backend=backend, fullgraph=True)
        # The same size, another one, and one that needs no further graph. The scan that mamba makes takes no symbolic
        # sizes yet.
        for batch in (2, 2) if build is mamba else (2, 2, 3, 4):
            want, got = model(**inputs(batch)), compiled(**inputs(batch))
            assert type(want) is type(got)
            for eager, captured in zip(leaves(want), leaves(got), strict=True):
                torch.testing.assert_close(captured, eager, rtol=1e-4, atol=1e-5)
                assert captured.requires_grad == eager.requires_grad
    assert len(graphs) == (1 if build is mamba else 2)
    assert all(len(gm.graph.nodes) > 20 for gm in graphs)
