"""Sliding windows over the spatial axes, which convolutions and pooling share."""

from collections.abc import Sequence
from dataclasses import dataclass

from compiler.net.operators.shapes import listed
from compiler.net.spec import Attribute, Shape, ShapeMismatch, Use, integers, one_of

WINDOW_ATTRIBUTES: dict[str, Attribute] = {
    "auto_pad": one_of("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"),
    "dilations": integers(least=1),
    "kernel_shape": integers(least=1),
    "pads": integers(least=0),
    "strides": integers(least=1),
}
"""The attributes of every operator with a window."""


@dataclass(frozen=True, slots=True)
class Window:
    """A window's parameters on each spatial axis; `reach` is the dilated kernel's extent."""

    kernel: Shape
    strides: Shape
    dilations: Shape
    before: Shape
    after: Shape

    @property
    def reach(self) -> Shape:
        """The elements from the first to the last tap of the window."""
        return tuple((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True))


def per_axis(use: Use, name: str, count: int, default: int) -> Shape:
    """A list attribute of `count` numbers."""
    values: Sequence[int] | None = use[name]
    if values is None:
        return (default,) * count
    if len(values) != count:
        raise ShapeMismatch(
            f"its {name} {listed(values)} are {len(values)} numbers instead of {count}, for the"
            f" input of shape {listed(use.shape())}"
        )
    return tuple(values)


def window_of(use: Use, kernel: Shape) -> Window:
    """The window of an operator; raises ShapeMismatch for attributes of another rank."""
    spatial = len(use.shape()) - 2
    pads = per_axis(use, "pads", 2 * spatial, 0)
    return Window(
        kernel,
        per_axis(use, "strides", spatial, 1),
        per_axis(use, "dilations", spatial, 1),
        pads[:spatial],
        pads[spatial:],
    )


def window_counts(use: Use, window: Window, ceil: bool = False) -> Shape:
    """The number of windows on each axis; raises ShapeMismatch if a window exceeds the image."""
    return tuple(_window_counts(use, window, axis, ceil) for axis in range(len(window.kernel)))


def _window_counts(use: Use, window: Window, axis: int, ceil: bool) -> int:
    shape, mode = use.shape(), use["auto_pad"]
    size, stride, reach = shape[axis + 2], window.strides[axis], window.reach[axis]
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        return -(-size // stride)
    padding = 0 if mode == "VALID" else window.before[axis] + window.after[axis]
    room = size + padding - reach
    if not size and room < 0:
        return 0
    count = -(-room // stride) + 1
    if room < 0 and not (ceil and count > 0):
        raise ShapeMismatch(
            f"its kernel reaches over {reach} elements of axis {axis + 2}, the input of shape"
            f" {listed(shape)} has {size + padding} with its pads"
        )
    if not ceil:
        return room // stride + 1
    before = 0 if mode == "VALID" else window.before[axis]
    return max(0, count - ((count - 1) * stride >= size + before))
