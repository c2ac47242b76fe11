"""The programs that are measured: loops of adds, and transformers built from small configs.

Weights are random and nothing is downloaded. Every model has hidden size 256 and is called with
batch 2 and length 64, without a key-value cache; heads and key-value heads are equal in number, so
that Qwen3 with 36 layers has the 547 modules, 399 parameters and 2,973 graph nodes that the design
counts with.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

HIDDEN = 256
BATCH = 2
LENGTH = 64
VOCABULARY = 1000


@dataclass
class Program:
    """Something to compile, and the arguments to call it with."""

    target: Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)

    def run(self, compiled: Callable[..., Any] | None = None) -> Any:
        target = self.target if compiled is None else compiled
        return target(*self.args, **self.kwargs)


def add_loop(count: int) -> Program:
    import torch

    def adds(x):
        for _ in range(count):
            x = torch.add(x, 1)
        return x

    return Program(adds, (torch.zeros(4, 8),))


def _decoder(layers: int) -> dict[str, Any]:
    return dict(
        vocab_size=VOCABULARY,
        hidden_size=HIDDEN,
        intermediate_size=2 * HIDDEN,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=2 * LENGTH,
        use_cache=False,
        bos_token_id=1,
        eos_token_id=2,
    )


def _on_tokens(model) -> Program:
    import torch

    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(5, VOCABULARY, (BATCH, LENGTH), generator=generator)
    return Program(model.eval(), (), {"input_ids": ids})


def bert(layers: int = 12) -> Program:
    from transformers import BertConfig, BertForMaskedLM

    return _on_tokens(
        BertForMaskedLM(
            BertConfig(
                vocab_size=VOCABULARY,
                hidden_size=HIDDEN,
                intermediate_size=2 * HIDDEN,
                num_hidden_layers=layers,
                num_attention_heads=4,
                max_position_embeddings=2 * LENGTH,
            )
        )
    )


def gpt2(layers: int = 12) -> Program:
    from transformers import GPT2Config, GPT2LMHeadModel

    return _on_tokens(
        GPT2LMHeadModel(
            GPT2Config(
                vocab_size=VOCABULARY,
                n_embd=HIDDEN,
                n_layer=layers,
                n_head=4,
                n_positions=2 * LENGTH,
                use_cache=False,
                bos_token_id=1,
                eos_token_id=2,
            )
        )
    )


def llama(layers: int = 32) -> Program:
    from transformers import LlamaConfig, LlamaForCausalLM

    return _on_tokens(LlamaForCausalLM(LlamaConfig(**_decoder(layers))))


def qwen3(layers: int = 36) -> Program:
    from transformers import Qwen3Config, Qwen3ForCausalLM

    return _on_tokens(Qwen3ForCausalLM(Qwen3Config(**_decoder(layers), head_dim=HIDDEN // 4)))


def t5_encoder(layers: int = 6) -> Program:
    from transformers import T5Config, T5EncoderModel

    return _on_tokens(
        T5EncoderModel(
            T5Config(
                vocab_size=VOCABULARY,
                d_model=HIDDEN,
                d_kv=HIDDEN // 4,
                d_ff=2 * HIDDEN,
                num_layers=layers,
                num_heads=4,
                use_cache=False,
            )
        )
    )


def vit(layers: int = 12) -> Program:
    import torch
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        hidden_size=HIDDEN,
        intermediate_size=2 * HIDDEN,
        num_hidden_layers=layers,
        num_attention_heads=4,
        image_size=64,
        patch_size=8,
    )
    images = torch.randn(BATCH, 3, 64, 64, generator=torch.Generator().manual_seed(1))
    return Program(ViTForImageClassification(config).eval(), (), {"pixel_values": images})


PROGRAMS: dict[str, Callable[[], Program]] = {
    "add_1000": lambda: add_loop(1000),
    "add_10000": lambda: add_loop(10000),
    "bert_12": bert,
    "gpt2_12": gpt2,
    "llama_32": llama,
    "qwen3_36": qwen3,
    "t5_encoder_6": t5_encoder,
}

LABELS = {
    "add_1000": "torch.add x 1,000",
    "add_10000": "torch.add x 10,000",
    "bert_12": "BERT, 12 layers",
    "gpt2_12": "GPT-2, 12 layers",
    "llama_32": "Llama, 32 layers",
    "qwen3_36": "Qwen3, 36 layers",
    "t5_encoder_6": "T5 encoder, 6 layers",
}

QUICK = ("add_1000", "bert_12", "qwen3_36")


def build(name: str) -> Program:
    import torch

    torch.manual_seed(0)
    return PROGRAMS[name]()
