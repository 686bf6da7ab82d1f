"""Models of transformers by the prefix of their classes."""

from collections.abc import Mapping
from typing import Any

import numpy as np

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

    module = Tensors()
    normalise(module, feeds)
    return Case(module.eval(), feeds)


def normalise(module: Any, feeds: Mapping[str, Feed]) -> None:
    """Draw convolutions that keep the variance, and take a run's statistics for normalisation.

    With transformers' weights the numbers of a deep network vanish: no error shows in zeros, and
    arithmetic of denormal numbers takes many times as long.
    """
    import torch

    parts = [p for p in module.modules() if isinstance(p, torch.nn.BatchNorm2d)]
    for part in parts:
        part.momentum = None  # the mean of all runs, of which there is one
        part.reset_running_stats()
    if parts:
        for part in module.modules():
            if isinstance(part, torch.nn.Conv2d):
                torch.nn.init.kaiming_normal_(part.weight)
        generator = np.random.default_rng(0)
        with torch.no_grad():
            module.train()(*(torch.from_numpy(f.array(generator, 0)) for f in feeds.values()))
