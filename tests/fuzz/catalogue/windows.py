"""Convolutions and pools in one, two and three dimensions."""

from typing import Any

import numpy as np

from tests.fuzz.catalogue.registry import generates
from tests.fuzz.draw import Draw, Shape
from tests.fuzz.grower import Grower

PADDINGS = [None, None, None, "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"]


def image(g: Grower, channels: int | None = None, dtypes: tuple[str, ...] = ("float32",)) -> str:
    """A tensor of images with one to three dimensions."""

    def suits(shape: Shape) -> bool:
        known = channels is None or (len(shape) > 1 and shape[1] == channels)
        return 3 <= len(shape) <= 5 and known and 0 not in shape

    def made() -> Shape:
        rank = g.draw.choice([1, 2, 2, 2, 2, 3])
        most = {1: 12, 2: 9, 3: 5}[rank]
        sizes = [g.draw.randint(1, most) for _ in range(rank)]
        return (g.draw.choice([1, 1, 2]), channels or g.draw.choice([1, 2, 3, 4, 6, 8]), *sizes)

    return g.tensor(dtypes, suits, made)


def windows(draw: Draw, sizes: Shape, kernel: list[int], dilated: bool) -> dict[str, Any]:
    """Strides, dilations, and pads of either kind."""
    rank, attributes = len(sizes), dict[str, Any]()
    if draw.chance(0.5):
        attributes["strides"] = [draw.randint(1, 3) for _ in range(rank)]
    if dilated and draw.chance(0.3):
        attributes["dilations"] = [draw.randint(1, 2) for _ in range(rank)]
    mode = draw.choice(PADDINGS)
    if mode:
        attributes["auto_pad"] = mode
    elif draw.chance(0.6):
        attributes["pads"] = [draw.randint(0, max(0, k - 1)) for k in kernel * 2]
    return attributes


def whole(g: Grower, outputs: list[str]) -> None:
    """Not empty: a kernel that is larger than its image is refused."""
    g.require(g.values[outputs[0]].size > 0)


@generates("Conv")
def convolution(g: Grower, op: str) -> None:
    """Groups, depthwise, every attribute."""
    x = image(g)
    _, channels, *sizes = g.values[x].shape
    kernel = [g.draw.choice([1, 2, 3, 3, 5]) for _ in sizes]
    groups = g.draw.choice([d for d in (1, 1, 2, 3, channels) if channels % d == 0])
    filters = groups * g.draw.randint(1, 3)
    w = g.like(x, (filters, channels // groups, *kernel), -0.5, 0.5)
    bias = [g.like(x, (filters,))] if g.draw.chance(0.5) else []
    attributes = windows(g.draw, tuple(sizes), kernel, True)
    if g.draw.chance(0.7):
        attributes["kernel_shape"] = kernel
    attributes["group"] = groups
    whole(g, g.emit(op, [x, w, *bias], **attributes))


@generates("ConvTranspose")
def transposed(g: Grower, op: str) -> None:
    """Groups, output padding and output shapes."""
    x = image(g)
    _, channels, *sizes = g.values[x].shape
    kernel = [g.draw.choice([1, 2, 3]) for _ in sizes]
    groups = g.draw.choice([d for d in (1, 1, 2, channels) if channels % d == 0])
    w = g.like(x, (channels, g.draw.randint(1, 3), *kernel), -0.5, 0.5)
    filters = g.values[w].shape[1] * groups
    bias = [g.like(x, (filters,))] if g.draw.chance(0.5) else []
    attributes = windows(g.draw, tuple(sizes), kernel, True)
    if "strides" in attributes and "auto_pad" not in attributes and g.draw.chance(0.4):
        attributes["output_padding"] = [g.draw.randrange(s) for s in attributes["strides"]]
    attributes["group"] = groups
    whole(g, g.emit(op, [x, w, *bias], **attributes))


@generates("MaxPool AveragePool LpPool")
def pool(g: Grower, op: str) -> None:
    """Every attribute of the opset."""
    x = image(
        g, dtypes=("float32", "float64", "uint8", "int8") if op == "MaxPool" else ("float32",)
    )
    sizes = g.values[x].shape[2:]
    kernel = [g.draw.randint(1, min(3, n)) for n in sizes]
    since = {"MaxPool": 10, "AveragePool": 19, "LpPool": 18}[op]
    attributes = windows(g.draw, sizes, kernel, g.opset >= since)
    if g.draw.chance(0.3) and g.opset >= {"LpPool": 18}.get(op, 10):
        attributes["ceil_mode"] = 1
    if op == "AveragePool" and g.draw.chance(0.4):
        attributes["count_include_pad"] = 1
    if op == "LpPool" and g.draw.chance(0.5):
        attributes["p"] = g.draw.choice([1, 3])
    whole(g, g.emit(op, [x], kernel_shape=kernel, **attributes))


@generates("GlobalAveragePool GlobalMaxPool GlobalLpPool")
def global_pool(g: Grower, op: str) -> None:
    """Over all positions."""
    p = g.draw.choice([None, 1, 2]) if op == "GlobalLpPool" else None
    g.emit(op, [image(g)], p=p)


@generates("LRN")
def local_response(g: Grower, op: str) -> None:
    """Windows along the channels."""
    size = g.draw.choice([1, 2, 3, 5])
    names = g.draw.some(["alpha", "beta", "bias"])
    numbers: dict[str, Any] = {name: float(np.float32(g.draw.uniform(0.1, 1))) for name in names}
    g.emit(op, [image(g)], size=size, **numbers)
