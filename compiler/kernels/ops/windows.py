"""The sliding windows that convolution and pooling share, and their padding."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm import te, tirx

from compiler.kernels.group import Node
from compiler.kernels.ops.common import Scalar
from compiler.kernels.ops.lowering import Context
from compiler.kernels.sizes import is_number, may_exceed, tensor_extents


def constant_padded(
    data: te.Tensor,
    indices: Sequence[Any],
    before: Sequence[int],
    shape: Sequence[int],
    full: Sequence[int],
    fill: Any,
) -> Any:
    """The element of a padded tensor: the fill outside the source."""
    at = [i - b for i, b in zip(indices, before, strict=True)]
    tests: list[Any] = []
    for index, offset, extent, size in zip(at, before, shape, full, strict=True):
        tests += [index >= 0] if may_exceed(offset, 0) else []
        tests += [index < extent] if may_exceed(size - offset, extent) else []
    if not tests:
        return data(*at)
    return tirx.if_then_else(tirx.all(*tests), data(*at), fill)


@dataclass(frozen=True)
class Window:
    """A sliding window over the spatial axes of an operator."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]

    @property
    def key(self) -> dict[str, tuple[int, ...]]:
        """The fields that decide how fast a convolution is."""
        return {
            "kernel": self.kernel,
            "strides": self.strides,
            "dilations": self.dilations,
            "before": self.before,
        }

    def at(self, place: Sequence[Any], offset: Sequence[Any]) -> list[Any]:
        """The position in the padded source of a window's element."""
        steps = zip(place, self.strides, offset, self.dilations, strict=True)
        return [p * s + o * d for p, s, o, d in steps]


def window_of(context: Context, kernel: Sequence[int]) -> Window:
    """The window of a convolution or pooling that is lowered."""
    return operator_window(context, context.shape(0), context.output.shape, kernel)


def operator_window(
    operator: Node[object], source: Sequence[int], result: Sequence[int], kernel: Sequence[int]
) -> Window:
    """The window of a convolution or pooling by its shapes, `ceil_mode` resolved.

    The padding after reaches as far as the last window, which may be beyond the model's. Where
    sizes decide how far that is, it is the most.
    """
    strides, dilations, pads = (operator.attributes[n] for n in ("strides", "dilations", "pads"))
    spatial, places = source[2:], result[2:]
    rank = len(spatial)
    before = pads[:rank]
    reach = [
        (p - 1) * s + (k - 1) * d + 1
        for p, s, k, d in zip(places, strides, kernel, dilations, strict=True)
    ]
    most = [pad + s - 1 for pad, s in zip(pads[rank:], strides, strict=True)]
    after = [
        max(0, r - n - b) if is_number(r - n - b) else limit
        for r, n, b, limit in zip(reach, spatial, before, most, strict=True)
    ]
    return Window(tuple(kernel), tuple(strides), tuple(dilations), tuple(before), tuple(after))


def padded(tensor: te.Tensor, window: Window, fill: Scalar) -> te.Tensor:
    """The source with its window's padding on the spatial axes."""
    shape = [*tensor_extents(tensor)]
    lead = len(shape) - len(window.kernel)
    before = [0] * lead + list(window.before)
    after = [0] * lead + list(window.after)
    if not any(may_exceed(n, 0) for n in (*before, *after)):
        return tensor
    full = [b + n + a for b, n, a in zip(before, shape, after, strict=True)]
    return te.compute(
        tuple(full),
        lambda *i: constant_padded(tensor, i, before, shape, full, fill=fill),
        name="padded",
        attrs={"keep": 1},
    )
