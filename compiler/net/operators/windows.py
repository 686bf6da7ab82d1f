"""Sliding windows over the spatial axes, which convolutions and pooling share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from compiler.net.attributes import Attribute, Shape, Shapes, integers, one_of
from compiler.net.node import ShapeMismatch, TypedNode
from compiler.net.operators.shapes import listed


def _every_axis(value: int, numbers: int = 1) -> Callable[[Shapes], list[int]]:
    """The same number for each spatial axis of the first input, or `numbers` times as many."""
    return lambda shapes: [value] * (numbers * max(len(shapes[0] or ()) - 2, 0))


def _extents_of_weight(shapes: Shapes) -> list[int]:
    return list((shapes[1] if len(shapes) > 1 else None) or ())[2:]


WINDOW_ATTRIBUTES: dict[str, Attribute] = {
    "auto_pad": one_of("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"),
    "dilations": integers(_every_axis(1), least=1),
    "kernel_shape": Attribute("ints", required=True, least=1),
    "pads": integers(_every_axis(0, 2), least=0),
    "strides": integers(_every_axis(1), least=1),
}
"""The attributes of a window that an operator slides."""

KERNEL_ATTRIBUTES: dict[str, Attribute] = {
    **WINDOW_ATTRIBUTES,
    "kernel_shape": integers(_extents_of_weight, least=1),
}
"""The attributes of a window whose extents are those of a weight, the second input."""

OUTPUT_PADDING = integers(_every_axis(0), least=0)
"""What a transposed convolution adds to the end of each spatial axis."""


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


def per_axis(node: TypedNode, name: str, count: int) -> Shape:
    """A list attribute of `count` numbers."""
    values: Sequence[int] = node[name]
    if len(values) != count:
        raise ShapeMismatch(
            f"its {name} {listed(values)} are {len(values)} numbers instead of {count}, for the"
            f" input of shape {listed(node.shape())}"
        )
    return tuple(values)


def window_of(node: TypedNode, kernel: Shape) -> Window:
    """The window of an operator; raises ShapeMismatch for attributes of another rank."""
    spatial = len(node.shape()) - 2
    pads = per_axis(node, "pads", 2 * spatial)
    return Window(
        kernel,
        per_axis(node, "strides", spatial),
        per_axis(node, "dilations", spatial),
        pads[:spatial],
        pads[spatial:],
    )


def window_counts(node: TypedNode, window: Window, ceil: bool = False) -> Shape:
    """The number of windows on each axis; raises ShapeMismatch if a window exceeds the image."""
    return tuple(_window_counts(node, window, axis, ceil) for axis in range(len(window.kernel)))


def _window_counts(node: TypedNode, window: Window, axis: int, ceil: bool) -> int:
    shape = node.shape()
    mode = node["auto_pad"]
    size = shape[axis + 2]
    stride = window.strides[axis]
    reach = window.reach[axis]
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
