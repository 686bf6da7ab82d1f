"""Fourier transforms, and running multiplications."""

from typing import Any

import numpy as np

from tests.fuzz.catalogue.registry import generates
from tests.fuzz.grower import Grower


@generates("DFT")
def fourier_transform(g: Grower, op: str) -> None:
    """Along the first axis of several signals."""
    g.require(g.opset >= 17)
    parts, inverse = g.draw.randint(1, 2), g.draw.randint(0, 1)
    x = g.new(g.draw.array((2, g.draw.randint(1, 12), parts), "float32"))
    if g.opset < 20:
        g.emit(op, [x], axis=1, inverse=inverse)
    else:
        g.emit(op, [x, "", g.constant(np.array(1, np.int64))], inverse=inverse)


@generates("STFT")
def short_time_transform(g: Grower, op: str) -> None:
    """Of real and complex signals, without a window."""
    g.require(g.opset >= 17)
    x = g.new(g.draw.array((1, g.draw.randint(8, 20), g.draw.randint(1, 2)), "float32"))
    step, length = (g.constant(np.array(g.draw.randint(2, 6), np.int64)) for _ in range(2))
    g.emit(op, [x, step, "", length], onesided=g.draw.randint(0, 1))


@generates("CumProd")
def scan(g: Grower, op: str) -> None:
    """Along the last axis."""
    g.require(g.opset >= 26)
    x = g.new(g.draw.array((2, g.draw.randint(1, 9)), "float32"))
    flags: dict[str, Any] = dict.fromkeys(g.draw.some(["exclusive", "reverse"]), 1)
    g.emit(op, [x, g.constant(np.array(-1, np.int64))], **flags)


def image(g: Grower) -> str:
    """An image of at least one element."""
    sizes = [g.draw.randint(1, n) for n in (2, 4, 5, 5)]
    return g.tensor(("float32",), lambda s: len(s) == 4 and 0 not in s, lambda: tuple(sizes))


@generates("TensorScatter")
def tensor_scatter(g: Grower, op: str) -> None:
    """A row of each cache."""
    g.require(g.opset >= 24)
    x = image(g)
    batch, channels, rows, width = g.values[x].shape
    update = g.like(x, (batch, channels, 1, width))
    first = g.constant(np.array([rows - 1] * batch))
    g.emit(op, [x, update, first], mode=g.draw.choice(["linear", "circular"]))
