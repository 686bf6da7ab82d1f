"""Depthwise convolutions of channels-last images, and the tiles that compute them."""

from collections.abc import Iterator
from dataclasses import astuple, dataclass
from itertools import product
from math import gcd, prod

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.gpu.channels_last import ends_channels_last
from compiler.kernels.gpu.epilogue import is_fusible
from compiler.kernels.gpu.operands import ELEMENT_BYTES, Operand, find_operand
from compiler.kernels.group import Group, Node
from compiler.kernels.ops.lowering import Context
from compiler.kernels.ops.windows import Window, window_of

CHUNK = 7
"""Most taps of a row whose weights a thread has in registers."""

SUMS, KEPT = 64, 112
"""Most sums of a thread, and most elements of a row of the image besides weights in registers."""

LANE_BYTES = 128
"""Bytes of adjacent channels of a pixel that a block reads at most: a cache line."""

THREADS = (64, 128, 256)
"""Most threads of a block."""

MOST_ACROSS = 16
"""Most tiles of a block along a row: those of several rows share more of the halo."""


@dataclass(frozen=True)
class Config:
    """A thread's tile of `rows` x `pixels` results; `lanes` vectors of channels of `across` x
    `down` tiles are a block."""

    pixels: int
    rows: int
    lanes: int
    across: int
    down: int

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.lanes * self.across * self.down


@dataclass(frozen=True)
class Problem:
    """A convolution of each channel alone; `source` and `result` are shapes (N, C, H, W).

    A thread reads `width` channels at once. The steps are elements from one image, vector of
    channels, row and pixel to the next. Results have channels last too if `last`.
    """

    anchor: Node
    image: Operand
    weight: Operand
    source: tuple[int, ...]
    result: tuple[int, ...]
    window: Window
    width: int
    steps: tuple[int, int, int, int]
    last: bool

    @property
    def vectors(self) -> int:
        """Vectors of channels of a pixel."""
        return self.source[1] // self.width

    @property
    def chunk(self) -> int:
        """Taps of a chunk of the filter's rows: chunks are about equally long."""
        taps = self.window.kernel[1]
        return ceil_div(taps, ceil_div(taps, CHUNK))

    @property
    def packing(self) -> str:
        """The packing of weights: channels last, as in the image."""
        return f"reshape:{self.source[1]},{prod(self.window.kernel)}|transpose:1,0"

    @property
    def flops(self) -> int:
        """Floating-point operations: two a multiply-add."""
        return 2 * prod(self.result) * prod(self.window.kernel)

    def span(self, pixels: int) -> int:
        """Pixels of a row that a chunk of taps needs."""
        (_, stride), (_, dilation) = self.window.strides, self.window.dilations
        return (pixels - 1) * stride + (self.chunk - 1) * dilation + 1

    def depth(self, rows: int) -> int:
        """Rows of the image that some rows of results need."""
        (stride, _), (dilation, _) = self.window.strides, self.window.dilations
        return (rows - 1) * stride + (self.window.kernel[0] - 1) * dilation + 1


def read_channels_last(group: Group) -> Problem | None:
    """The problem of a depthwise convolution of an image with channels last; else None."""
    anchor = group.only("Conv")
    if anchor is None:
        return None
    image, weight = (find_operand(group, value) for value in anchor.inputs[:2])
    output = group.values[anchor.outputs[0]].shape
    if image is None or weight is None or not _is_depthwise(anchor, image, weight, output):
        return None
    last = ends_channels_last(group, anchor)
    width = _width(image)
    if not width or not (last or is_fusible(group, anchor)):
        return None
    return Problem(
        anchor=anchor,
        image=image,
        weight=weight,
        source=_two_axes(image.view.shape),
        result=_two_axes(output),
        window=_window(group, anchor, weight.view.shape[2:]),
        width=width,
        steps=_steps(image, width),
        last=last,
    )


def _is_depthwise(anchor: Node, image: Operand, weight: Operand, output: tuple[int, ...]) -> bool:
    """Whether each channel is convolved alone along one or two axes, by constant weights."""
    channels = image.view.shape[1]
    alone = anchor.attributes["group"] == channels == output[1]
    known = weight.constant and weight.dtype in ("float32", image.dtype)
    return alone and known and 3 <= len(output) <= 4 and "int" not in image.dtype


def _two_axes(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape (N, C, H, W); that of a sequence has one row."""
    return shape if len(shape) == 4 else (*shape[:2], 1, *shape[2:])


def _width(image: Operand) -> int:
    """Channels of a vector: of at most 16 bytes, aligned in each pixel; 0 if none are adjacent."""
    if image.block:
        return 0
    outer, channel, *spatial = image.view.strides
    extents = image.view.shape
    if channel != 1 or extents[1] == 1:
        return 0
    moved = [step for step, n in zip((outer, *spatial), (extents[0], *extents[2:]), strict=True)
             if n > 1]  # fmt: skip
    return gcd(image.chunk, extents[1], *moved)


def _steps(image: Operand, width: int) -> tuple[int, int, int, int]:
    outer, channel, *spatial = image.view.strides
    line, pixel = spatial if len(spatial) == 2 else (0, *spatial)
    return outer, channel * width, line, pixel


def _window(group: Group, anchor: Node, kernel: tuple[int, ...]) -> Window:
    """The window along two axes."""
    infos = tuple(None if i is None else group.values[i] for i in anchor.inputs)
    context = Context(anchor, (None,) * len(infos), infos, (group.values[anchor.outputs[0]],))
    window = window_of(context, kernel)
    if len(kernel) == 2:
        return window
    one, none = (1,), (0,)
    return Window(
        kernel=one + window.kernel,
        strides=one + window.strides,
        dilations=one + window.dilations,
        before=none + window.before,
        after=none + window.after,
    )


def configs_of(problem: Problem) -> Iterator[Config]:
    """The configs that fit registers, the smallest tiles first."""
    high, wide = problem.result[2:]
    lanes = _lanes(problem)
    for pixels, rows in product((1, 2, 4, 7), (1, 2, 4)):
        columns, lines = ceil_div(wide, pixels), ceil_div(high, rows)
        if pixels > 1 and (pixels > wide or not _fits(problem, pixels, rows)):
            continue
        if rows > 1 and (rows > high or not _fits(problem, pixels, rows)):
            continue
        yield from sorted(
            {
                Config(pixels, rows, lanes, across, min(lines, threads // (lanes * across)))
                for threads in THREADS
                for across in _splits(columns, threads // lanes)
            },
            key=astuple,
        )


def _splits(columns: int, most: int) -> Iterator[int]:
    """Numbers of columns, up to a few, that divide all of them about equally."""
    for parts in range(1, columns + 1):
        across = ceil_div(columns, parts)
        if across <= min(most, MOST_ACROSS):
            yield across
        if across * 2 <= min(most, MOST_ACROSS):
            return


def _fits(problem: Problem, pixels: int, rows: int) -> bool:
    """Whether sums, a row of the image and the weights of a chunk fit the registers."""
    sums = pixels * rows * problem.width
    row = problem.span(pixels) * problem.width * ELEMENT_BYTES[problem.image.dtype] // 4
    return sums <= SUMS and row + problem.chunk * problem.width <= KEPT


def _lanes(problem: Problem) -> int:
    """Vectors of a pixel that are adjacent threads': up to a cache line, few of them in vain."""
    most = LANE_BYTES // (problem.width * ELEMENT_BYTES[problem.image.dtype])
    able = [n for n in (32, 16, 8, 4, 2, 1) if n <= most]
    return min(able[:3], key=lambda n: ceil_div(problem.vectors, n) * n)
