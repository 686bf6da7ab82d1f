"""Models of transformers by the prefix of their classes."""

from collections.abc import Mapping
from typing import Any

from benchmarks.strangers.case import Case, Feed

SMALL: dict[str, Any] = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 128,
    "vocab_size": 100,
    "max_position_embeddings": 128,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
"""The sizes that most text configurations have."""


def hugging_face(
    family: str,
    config: Mapping[str, Any],
    feeds: Mapping[str, Feed],
    suffix: str = "Model",
) -> Case:
    """The model `FAMILYModel` of a `FAMILYConfig`; its outputs are those that are tensors."""
    import torch
    import transformers

    made = getattr(transformers, f"{family}Config")(**config)
    model = getattr(transformers, f"{family}{suffix}")(made)
    if hasattr(model.config, "use_cache"):
        model.config.use_cache = False

    class Tensors(torch.nn.Module):
        """The model with positional inputs, and outputs that are tensors."""

        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *values: Any) -> Any:
            found = self.model(**dict(zip(feeds, values, strict=True)), return_dict=True)
            kept = [v for v in found.values() if isinstance(v, torch.Tensor)]
            return tuple(kept)

    return Case(Tensors().eval(), feeds)
