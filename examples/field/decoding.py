"""Builders of decoders with their past as inputs and outputs; imported by `export.py` only."""

from itertools import chain

import torch
from torch import nn
from transformers import (
    DynamicCache,
    LlamaConfig,
    LlamaForCausalLM,
    PretrainedConfig,
    Qwen2Config,
    Qwen2ForCausalLM,
)

from examples.zoo.export import Built, tokens

_VOCABULARY = 32_000
_PAST = 128
"""Tokens before a decoding step."""

_PROMPT = 64
"""Tokens of a prefill."""


class Decoder(nn.Module):
    """A causal model that takes and gives the keys and the values of every layer."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor, *past: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Ids (batch, length) and the past to the last token's scores and the longer past."""
        pairs = [*zip(past[::2], past[1::2], strict=True)]
        cache = DynamicCache(pairs) if pairs else DynamicCache()
        before = past[0].shape[2] if past else 0
        positions = torch.arange(before, before + ids.shape[1], device=ids.device).unsqueeze(0)
        found = self.model(
            input_ids=ids,
            position_ids=positions,
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
        )
        longer = ((layer.keys, layer.values) for layer in found.past_key_values.layers)
        return found.logits, *chain.from_iterable(longer)


def _llama() -> LlamaForCausalLM:
    """TinyLlama's widths, two of its 22 layers."""
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=_VOCABULARY,
            hidden_size=2048,
            intermediate_size=5632,
            num_hidden_layers=2,
            num_attention_heads=32,
            num_key_value_heads=4,
            attn_implementation="eager",
        )
    )


def _qwen() -> Qwen2ForCausalLM:
    """The widths of Qwen 2.5 0.5B, four of its 24 layers."""
    return Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=_VOCABULARY,
            hidden_size=896,
            intermediate_size=4864,
            num_hidden_layers=4,
            num_attention_heads=14,
            num_key_value_heads=2,
            attn_implementation="eager",
        )
    )


def _prefill(model: nn.Module, batch: int) -> Built:
    return Decoder(model), tokens(batch, _PROMPT, vocabulary=_VOCABULARY)


def _step(model: nn.Module, config: PretrainedConfig, batch: int) -> Built:
    heads, queries = config.num_key_value_heads, config.num_attention_heads
    shape = (batch, heads, _PAST, config.hidden_size // queries)
    past = [torch.randn(shape) for _ in range(2 * config.num_hidden_layers)]
    return Decoder(model), (*tokens(batch, 1, vocabulary=_VOCABULARY), *past)


def llama_prefill(batch: int) -> Built:
    """The first pass over a prompt of 64 tokens."""
    return _prefill(_llama(), batch)


def llama_decode(batch: int) -> Built:
    """One token after 128."""
    model = _llama()
    return _step(model, model.config, batch)


def qwen_prefill(batch: int) -> Built:
    """The first pass over a prompt of 64 tokens."""
    return _prefill(_qwen(), batch)


def qwen_decode(batch: int) -> Built:
    """One token after 128."""
    model = _qwen()
    return _step(model, model.config, batch)
