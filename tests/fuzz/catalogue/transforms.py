"""Fourier transforms, and running multiplications."""

from typing import Any

import numpy as np

from tests.fuzz.catalogue.registry import generates
from tests.fuzz.grower import Grower


@generates("DFT")
def fourier_transform(g: Grower, op: str) -> None:
    """Along the first axis of several signals, of which one side may be given or asked."""
    g.require(g.opset >= 17)
    parts, inverse, onesided = g.draw.randint(1, 2), g.draw.randint(0, 1), g.draw.randint(0, 1)
    if onesided:
        parts = 2 if inverse else 1
    bins = g.draw.randint(2 if inverse and onesided else 1, 12)
    x = g.new(g.draw.array((2, bins, parts), "float32"))
    length = g.constant(np.array(g.draw.randint(1, 14), np.int64)) if g.draw.chance(0.5) else ""
    flags: dict[str, Any] = {"inverse": inverse, "onesided": onesided}
    if g.opset < 20:
        g.emit(op, [x, length], axis=1, **flags)
    else:
        g.emit(op, [x, length, g.constant(np.array(1, np.int64))], **flags)


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
