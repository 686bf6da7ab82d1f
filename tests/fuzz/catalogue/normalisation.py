"""Normalisations."""

import numpy as np

from tests.fuzz.catalogue.moves import ranked, some_axis
from tests.fuzz.catalogue.registry import generates
from tests.fuzz.catalogue.windows import image
from tests.fuzz.grower import Grower


def _epsilon(g: Grower) -> float | None:
    return g.draw.choice([None, 0.1, 0.01])


@generates("BatchNormalization")
def batch(g: Grower, op: str) -> None:
    """With statistics that are constants or computed."""
    x = g.tensor(["float32"], lambda s: len(s) >= 2, lambda: g.draw.shape(2, 4))
    channels = g.values[x].shape[1:2]
    parameters = [g.like(x, channels) for _ in range(3)]
    variance = g.tensor(["float32"], lambda s: s == channels, lambda: channels, (0.1, 2), True)
    g.emit(op, [x, *parameters, variance], epsilon=_epsilon(g))


@generates("InstanceNormalization")
def instance(g: Grower, op: str) -> None:
    """Over the positions of each image and channel."""
    x = image(g)
    channels = g.values[x].shape[1:2]
    g.emit(op, [x, g.like(x, channels), g.like(x, channels)], epsilon=g.draw.choice([0.1, 0.01]))


@generates("LayerNormalization RMSNormalization")
def layer(g: Grower, op: str) -> None:
    """From any axis on, with and without a shift."""
    x = ranked(g, 1, 4, ("float32", "float64"))
    shape = g.values[x].shape
    axis = some_axis(g, len(shape))
    inner = shape[axis % len(shape) :]
    shift = [g.like(x, inner)] if op == "LayerNormalization" and g.draw.chance(0.6) else []
    outputs = g.draw.choice([1, 1, 3]) if op == "LayerNormalization" else 1
    inputs, epsilon = [x, g.like(x, inner), *shift], g.draw.choice([0.1, 0.01])
    g.emit(op, inputs, outputs, axis=axis, epsilon=epsilon)


@generates("GroupNormalization")
def group(g: Grower, op: str) -> None:
    """Scales a group before opset 21, a channel since."""
    x = image(g)
    channels = g.values[x].shape[1]
    groups = g.draw.choice([d for d in range(1, channels + 1) if channels % d == 0])
    size = (groups if g.opset < 21 else channels,)
    g.emit(op, [x, g.like(x, size), g.like(x, size)], num_groups=groups, epsilon=0.1)


@generates("MeanVarianceNormalization")
def mean_variance(g: Grower, op: str) -> None:
    """Over chosen axes."""
    x = image(g)
    rank = g.values[x].ndim
    axes = g.draw.some(range(rank), 0.7) or [0]
    if not g.draw.specials:
        g.require(bool((np.var(g.values[x], tuple(axes)) > 0.01).all()))
    g.emit(op, [x], axes=axes)
