"""The windows of pools and transposed convolutions, by the ONNX text and as onnxruntime has them.

All of it is per spatial axis: `image` elements, `kernel` taps in steps of `dilation`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any


def effective(kernel: Sequence[int], dilations: Sequence[int]) -> list[int]:
    """The elements that each axis of a kernel spans."""
    return [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]


@dataclass(frozen=True, slots=True)
class PoolAxis:
    """One axis of a pool: its windows begin `before` elements ahead of the image.

    A negative `before` or `after` crops the image. A window may reach over more than there is.
    """

    image: int
    kernel: int
    stride: int
    dilation: int
    before: int
    after: int
    ceil: bool = False

    @property
    def span(self) -> int:
        """The elements from a window's first tap to its last."""
        return (self.kernel - 1) * self.dilation + 1

    @property
    def room(self) -> int:
        """How far the last window may move; negative if no window fits."""
        return self.image + self.before + self.after - self.span

    @property
    def count(self) -> int:
        """onnxruntime's number of windows, whose quotient rounds towards zero; it may be < 0."""
        if not self.ceil:
            return int(self.room / self.stride) + 1
        last = -(-self.room // self.stride)
        return last + (last * self.stride < self.image + self.before)  # it starts in the image


def pool_axes(
    image: Sequence[int], attribute: Callable[[str], Any], *, as_onnxruntime: bool = False
) -> list[PoolAxis]:
    """The axes of a pool on images of some size.

    With `auto_pad` SAME_* the pads are those of the dilated kernel, and none where windows skip
    elements. onnxruntime's are those of the kernel without dilations, and negative there.
    """
    kernel = list(attribute("kernel_shape"))
    ones, rank = [1] * len(kernel), len(kernel)
    strides, steps = (list(attribute(n) or ones) for n in ("strides", "dilations"))
    mode = attribute("auto_pad") or "NOTSET"
    pads = list(attribute("pads") or [0] * (2 * rank)) if mode == "NOTSET" else [0] * 2 * rank
    if mode.startswith("SAME"):
        spans = kernel if as_onnxruntime else effective(kernel, steps)
        sizes = zip(image, strides, spans, strict=True)
        totals = [(-(-n // s) - 1) * s + span - n for n, s, span in sizes]
        totals = totals if as_onnxruntime else [max(total, 0) for total in totals]
        # rounded towards zero, which matters for negative pads alone
        firsts = [int((t + (mode == "SAME_LOWER")) / 2) for t in totals]
        pads = [*firsts, *(t - first for t, first in zip(totals, firsts, strict=True))]
    ceil = bool(attribute("ceil_mode"))
    axes = zip(image, kernel, strides, steps, pads[:rank], pads[rank:], strict=True)
    return [
        PoolAxis(n, k, s, d, before=before, after=after, ceil=ceil)
        for n, k, s, d, before, after in axes
    ]


def unpooled(
    x: Sequence[int], kernel: Sequence[int], strides: Sequence[int], pads: Sequence[int]
) -> tuple[int, ...]:
    """The shape [N, C, ...] from which a pool with these windows makes `x`."""
    rank = len(kernel)
    sizes = zip(x[2:], strides, kernel, pads[:rank], pads[rank:], strict=True)
    return (*x[:2], *((n - 1) * s + k - b - a for n, s, k, b, a in sizes))
