"""The first convolution of a network: an NCHW image or volume of few channels, on tensor cores."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import product
from math import prod

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.gpu.convolutions import ConvolutionProblem, read_convolution_problem
from compiler.kernels.group import Group, Node
from compiler.kernels.ops.windows import Window
from compiler.target.target import GpuTarget
from compiler.tensors.dtypes import ELEMENT_BYTES

CHANNELS = 4
"""Most channels of the image."""

LANES = ((1, 1, 4), (1, 2, 2), (1, 4, 1), (4, 1, 1), (2, 1, 2), (2, 2, 1))
"""How the lanes of a quad can divide the filter: channels, rows, words of a row."""

MOST_STEPS = 128
"""Most k-steps of eight words: the weights of more leave no room in shared memory."""

Triple = tuple[int, int, int]


@dataclass(frozen=True)
class Depth:
    """The axis before rows and columns: extents of image and result, and the window along it."""

    source: int = 1
    result: int = 1
    kernel: int = 1
    stride: int = 1
    dilation: int = 1
    before: int = 0


@dataclass(frozen=True)
class Problem(ConvolutionProblem):
    """One convolution: `source` and `result` are shapes (N, C, rows, columns), or with a depth.

    The planes that the taps along the depth read for a plane of results count as channels.
    Results of `element_bytes` are stored `block` channels at a time, contiguous where `blocked`
    (NCHWc); `precision` is that of the MMAs.
    """

    block: int
    blocked: bool
    element_bytes: int
    precision: str

    @property
    def pair(self) -> int:
        """Elements of a word."""
        return 1 if self.precision == "tf32" else 2

    @property
    def quad_channels(self) -> int:
        """Output channels of a quad of lanes, contiguous for each lane."""
        return 4 * max(4, self.block)

    @cached_property
    def channels(self) -> int:
        """Channels of the result, padded to whole quads of lanes."""
        return ceil_div(self.result[1], self.quad_channels) * self.quad_channels

    @cached_property
    def depth(self) -> Depth:
        """The depth of the image, of the result and of the window."""
        window = self.window
        if len(self.source) == 4:
            return Depth()
        return Depth(
            source=self.source[2],
            result=self.result[2],
            kernel=window.kernel[0],
            stride=window.strides[0],
            dilation=window.dilations[0],
            before=window.before[0],
        )

    @cached_property
    def plane(self) -> Window:
        """The window along rows and columns."""
        return Window(*(getattr(self.window, field.name)[-2:] for field in fields(Window)))

    @property
    def images(self) -> int:
        """Planes of results."""
        return self.result[0] * self.depth.result

    @cached_property
    def extents(self) -> Triple:
        """The window: planes, rows, columns."""
        rows, columns = self.plane.kernel
        return (self.source[1] * self.depth.kernel, rows, columns)

    @cached_property
    def lanes(self) -> Triple:
        """How the lanes of a quad divide the filter: with the fewest quads."""
        return min(LANES, key=lambda lanes: prod(self._counts(lanes)))

    def _counts(self, lanes: Triple) -> Triple:
        a, b, c = map(ceil_div, self.extents, self._spans(lanes))
        return (a, b, c)

    def _spans(self, lanes: Triple) -> Triple:
        return (lanes[0], lanes[1], lanes[2] * self.pair)

    @property
    def spans(self) -> Triple:
        """The extent of a quad along each axis."""
        return self._spans(self.lanes)

    @property
    def counts(self) -> Triple:
        """Quads along each axis of the window."""
        return self._counts(self.lanes)

    @property
    def lasts(self) -> Triple:
        """Where the last quad along each axis begins, to end with the window."""
        a, b, c = (max(0, n - s) for n, s in zip(self.extents, self.spans, strict=True))
        return (a, b, c)

    @cached_property
    def steps(self) -> int:
        """K-steps of two quads."""
        return ceil_div(prod(self.counts), 2)

    def lane_place(self, lane: int) -> Triple:
        """The position that a lane reads: channel, row and column from the quad's first."""
        _, rows, words = self.lanes
        (a, b, c), pair = self.extents, self.pair
        column = min(lane % words * pair, max(0, c - pair))
        return (min(lane // (rows * words), a - 1), min(lane // words % rows, b - 1), column)

    def tap_order(self) -> Iterator[int]:
        """The filter tap of each k in the order in which they are read.

        Padding and taps that were read before map to the zero tap, which follows all others.
        """
        (_, rows, columns), seen = self.extents, set[int]()
        axes = zip(self.counts, self.spans, self.lasts, strict=True)
        starts = [[min(i * span, last) for i in range(count)] for count, span, last in axes]
        none = prod(self.extents)
        for start, lane, element in product(product(*starts), range(4), range(self.pair)):
            c, i, j = map(sum, zip(start, self.lane_place(lane), strict=True))
            tap = (c * rows + i) * columns + j + element
            new = j + element < columns and tap not in seen
            seen |= {tap} if new else set()
            yield tap if new else none
        yield from [none] * (4 * self.pair * (prod(self.counts) % 2))

    @property
    def packing(self) -> str:
        """The packing of weights: the order in which the lanes of each k-step read them."""
        taps = prod(self.extents)
        pairs = self.quad_channels // 16
        extra = self.channels - self.result[1]
        shape = (self.channels // self.quad_channels, 4, pairs, 2, 2, self.steps, 2, 4, self.pair)
        parts = (
            f"reshape:{self.result[1]},{taps}",
            f"pad:{extra},1",
            f"take:1,{','.join(map(str, self.tap_order()))}",
            f"reshape:{','.join(map(str, shape))}",
            "transpose:0,5,2,1,4,7,3,6,8",
        )
        rounded = self.precision == "tf32" and self.weight.dtype == "float32"
        return "|".join([*parts, "round:10"] if rounded else parts)


def read_stem(group: Group, anchor: Node[int], target: GpuTarget) -> Problem | None:
    """The problem of a convolution if tensor cores can compute it and its weights are constant."""
    conv = read_convolution_problem(group, anchor)
    output = group.values[anchor.output]
    if conv is None or output.dtype != "float32":
        return None
    image, weight, shape = conv.image, conv.weight, conv.source
    short = {"float16": "fp16", "bfloat16": "bf16"}
    precision = short.get(image.dtype, target.precision)
    plain = not image.block and image.view.flags.c_contiguous
    few = len(shape) in (4, 5) and shape[1] <= CHANNELS and anchor.attributes["group"] == 1
    straight = weight.view.flags.c_contiguous and not weight.block
    if not (few and plain and straight) or precision == "fp32" or not prod(output.shape):
        return None
    written = group.writes[0]
    able = (written.block, 4, 2, 1)
    block = next(size for size in able if size and output.shape[1] % size == 0)
    problem = Problem(
        **vars(conv),
        block=block,
        blocked=block == written.block,
        element_bytes=ELEMENT_BYTES[written.dtype],
        precision=precision,
    )
    return problem if problem.steps <= MOST_STEPS else None
