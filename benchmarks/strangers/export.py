"""Writes a case's module as an ONNX file by one of PyTorch's exporters."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.strangers.case import Case

EXPORTERS = ("dynamo", "torchscript")
"""The names of the exporters: of `torch.export`, and the one of traces before it."""


def export(case: Case, exporter: str, path: Path) -> None:
    """Write the model with its axes that vary as symbols."""
    import torch

    generator = np.random.default_rng(0)
    example = tuple(torch.from_numpy(f.array(generator, 0)) for f in case.feeds.values())
    options: dict[str, Any] = {"input_names": list(case.feeds)}
    if exporter == "dynamo":
        shapes = tuple(
            {axis: torch.export.Dim.DYNAMIC for axis in feed.axes} for feed in case.feeds.values()
        )
        takes = case.module.forward.__code__.co_flags & 4
        options |= {"dynamic_shapes": (shapes,) if takes else shapes, "verbose": False}
    else:
        axes = {name: feed.axes for name, feed in case.feeds.items()}
        options |= {"dynamic_axes": axes, "opset_version": 18}
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.onnx.export(case.module, example, str(path), dynamo=exporter == "dynamo", **options)
