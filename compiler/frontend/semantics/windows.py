"""The windows of pools and transposed convolutions, by the ONNX text and as onnxruntime has them.

All of it is per spatial axis: `image` elements, `kernel` taps in steps of `dilation`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from compiler.frontend.node import ModelNode
from compiler.tensors.arithmetic import truncated


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows of a node: a number of each spatial axis, and two pads."""

    kernel: list[int]
    strides: list[int]
    dilations: list[int]
    pads: list[int]

    @classmethod
    def of(cls, node: ModelNode, kernel: Sequence[int]) -> "Windows":
        """The windows by a node's attributes, but not by `auto_pad`."""
        ones = [1] * len(kernel)
        attributes = node.attributes
        strides, dilations = (list(attributes.get(n) or ones) for n in ("strides", "dilations"))
        pads = list(attributes.get("pads") or [0] * (2 * len(kernel)))
        return cls(list(kernel), strides, dilations, pads)

    @property
    def spans(self) -> list[int]:
        """The elements from the first tap to the last."""
        return [(k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True)]

    def padded(
        self, mode: str | None, image: Sequence[int], *, as_onnxruntime: bool = False
    ) -> "Windows":
        """The windows with the pads of a mode of `auto_pad`.

        Those of SAME_* are the dilated kernel's, and none where windows skip elements.
        onnxruntime's are those of the kernel without dilations, and negative there.
        """
        if mode in (None, "", "NOTSET"):
            return self
        if mode == "VALID":
            return replace(self, pads=[0] * len(self.pads))
        sizes = zip(image, self.strides, self.kernel if as_onnxruntime else self.spans, strict=True)
        totals = [(-(-n // s) - 1) * s + span - n for n, s, span in sizes]
        totals = totals if as_onnxruntime else [max(total, 0) for total in totals]
        return replace(self, pads=divided_pads(totals, more_before=mode == "SAME_LOWER"))

    def misfit(self, image: Sequence[int]) -> str:
        """The error of a list without one number, or two pads, an axis of an image; or empty."""
        rank = len(image)
        lists = self.kernel, self.strides, self.dilations, self.pads
        counts = {"kernel": rank, "strides": rank, "dilations": rank, "pads": 2 * rank}
        for (name, wanted), numbers in zip(counts.items(), lists, strict=True):
            if len(numbers) != wanted:
                return f"its {name} are {numbers}, not {wanted} numbers"
        return ""

    def counts(self, image: Sequence[int]) -> list[int]:
        """The places of the windows in an image; 0 where none fits."""
        rank = len(image)
        full = [n + self.pads[i] + self.pads[rank + i] for i, n in enumerate(image)]
        axes = zip(full, self.spans, self.strides, strict=True)
        return [max(0, (n - span) // stride + 1) for n, span, stride in axes]

    def unpooled(self, x: Sequence[int]) -> tuple[int, ...]:
        """The shape [N, C, ...] from which a pool with these windows makes `x`."""
        rank = len(self.kernel)
        before, after = self.pads[:rank], self.pads[rank:]
        sizes = zip(x[2:], self.strides, self.kernel, before, after, strict=True)
        return (*x[:2], *((n - 1) * s + k - b - a for n, s, k, b, a in sizes))


def divided_pads(totals: Sequence[int], more_before: bool) -> list[int]:
    """The pads before each axis and after it, of which one side may have one more."""
    # rounded towards zero, which matters for negative pads alone
    before = [truncated(total + more_before, 2) for total in totals]
    return [*before, *(total - first for total, first in zip(totals, before, strict=True))]


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
            return truncated(self.room, self.stride) + 1
        last = -(-self.room // self.stride)
        return last + (last * self.stride < self.image + self.before)  # it starts in the image


def pool_axes(node: ModelNode, *, as_onnxruntime: bool = False) -> list[PoolAxis]:
    """The axes of a pool."""
    image = node.shape()[2:]
    rank = len(node["kernel_shape"])
    windows = Windows.of(node, node["kernel_shape"])
    windows = windows.padded(node["auto_pad"], image, as_onnxruntime=as_onnxruntime)
    ceil = bool(node["ceil_mode"])
    lists = windows.kernel, windows.strides, windows.dilations
    axes = zip(image, *lists, windows.pads[:rank], windows.pads[rank:], strict=True)
    return [
        PoolAxis(n, k, s, d, before=before, after=after, ceil=ceil)
        for n, k, s, d, before, after in axes
    ]
