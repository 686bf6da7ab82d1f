"""Depthwise convolutions of channels-last images, by FMAs."""

from collections.abc import Iterator
from dataclasses import astuple, dataclass, replace
from itertools import product
from math import ceil, gcd, prod

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.gpu.blocks import block_store, channel_store
from compiler.kernels.gpu.channels_last import ends_channels_last
from compiler.kernels.gpu.convolutions import (
    ConvolutionProblem,
    convolution_source,
    read_convolution_problem,
)
from compiler.kernels.gpu.epilogue import is_fusible, store_function
from compiler.kernels.gpu.operands import ELEMENT_BYTES, Operand
from compiler.kernels.gpu.structs import constants, struct
from compiler.kernels.group import Group
from compiler.kernels.ops.windows import Window
from compiler.kernels.template import KernelSource, Key, Template
from compiler.schedule.kernels import Launch
from compiler.target.target import GpuTarget

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
class Problem(ConvolutionProblem):
    """A convolution of each channel alone; `source` and `result` are shapes (N, C, H, W).

    A thread reads `width` channels at once. The steps are elements from one image, vector of
    channels, row and pixel to the next. Results have channels last too if `last`.
    """

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

    def span(self, pixels: int) -> int:
        """Pixels of a row that a chunk of taps needs."""
        (_, stride), (_, dilation) = self.window.strides, self.window.dilations
        return (pixels - 1) * stride + (self.chunk - 1) * dilation + 1

    def depth(self, rows: int) -> int:
        """Rows of the image that some rows of results need."""
        (stride, _), (dilation, _) = self.window.strides, self.window.dilations
        return (rows - 1) * stride + (self.window.kernel[0] - 1) * dilation + 1


def _is_depthwise(conv: ConvolutionProblem) -> bool:
    """Whether each channel is convolved alone along one or two axes."""
    channels = conv.source[1]
    dtype = conv.image.dtype
    alone = conv.anchor.attributes["group"] == channels == conv.result[1]
    known = conv.weight.dtype in ("float32", dtype) and "int" not in dtype
    return alone and known and 3 <= len(conv.result) <= 4


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


def _along_two_axes(window: Window) -> Window:
    """The window along rows, of which a sequence has one, and columns."""
    if len(window.kernel) == 2:
        return window
    one, none = (1,), (0,)
    return Window(
        kernel=one + window.kernel,
        strides=one + window.strides,
        dilations=one + window.dilations,
        before=none + window.before,
        after=none + window.after,
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


START_US, WAVE_US, TILE_US = 0.84, 0.81, 0.22
"""Microseconds of launching and ending, of a wave of blocks, and for each vector of results of a
thread: its instructions come from memory. All are fitted on an H100, with a spread of 14 %."""

ISSUED, IDLE_WARPS = 6.8e3, 1.95
"""Instructions of warps that a busy SM issues in a microsecond, and the warps with which it issues
half of them."""

EPILOGUE, ADDRESS = 39.5, 3
"""Instructions for each result, those of a GELU, and for each vector of the image."""

FEW_TAPS = 9
"""Taps up to which a thread keeps all weights in registers."""

REGISTERS, SUM_REGISTERS = 24, 2.75
"""About the registers of a thread, besides those for each of its results."""


class ChannelsLastConv(Template[Problem, Config, GpuTarget]):
    """A depthwise convolution, along one or two axes, of an image whose channels come last.

    Sums are in float32, in an order that depends on the problem only: the same bits every time.
    """

    name = "channels_last_conv"
    sources = ("channels_last_conv.cuh",)

    def problem(self, group: Group, target: GpuTarget) -> Problem | None:
        """The problem of a depthwise convolution of an image with channels last; else None."""
        anchor = group.only("Conv")
        if anchor is None:
            return None
        conv = read_convolution_problem(group, anchor)
        if conv is None or not _is_depthwise(conv):
            return None
        last = ends_channels_last(group, anchor)
        width = _width(conv.image)
        if not width or not (last or is_fusible(group, anchor)):
            return None
        plane = replace(
            conv,
            source=_two_axes(conv.source),
            result=_two_axes(conv.result),
            window=_along_two_axes(conv.window),
        )
        return Problem(**vars(plane), width=width, steps=_steps(conv.image, width), last=last)

    def configs(self, problem: Problem, target: GpuTarget) -> Iterator[Config]:
        """The configs that fit registers, the smallest tiles first."""
        high, wide = problem.result[2:]
        # Vectors of a pixel that are adjacent threads': up to a cache line, few of them in vain.
        most = LANE_BYTES // (problem.width * ELEMENT_BYTES[problem.image.dtype])
        able = [n for n in (32, 16, 8, 4, 2, 1) if n <= most]
        lanes = min(able[:3], key=lambda n: ceil_div(problem.vectors, n) * n)
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

    def estimate_ns(self, problem: Problem, config: Config, target: GpuTarget) -> float:
        """Launching, the instructions of the blocks that an SM has, and the larger of these and
        memory traffic."""
        device = target.device
        results = config.rows * config.pixels
        registers = min(255, REGISTERS + ceil(SUM_REGISTERS * results * problem.width))
        blocks = ceil_div(_blocks(problem, config), device.sms)
        resident = min(blocks, device.resident_blocks(config.threads, registers, 0))
        warps = ceil_div(config.threads, 32)
        busy = blocks * warps * _instructions(problem, config) / ISSUED
        busy *= 1 + IDLE_WARPS / (resident * warps)
        size = ELEMENT_BYTES[problem.image.dtype]
        moved = (prod(problem.source) + prod(problem.result)) * size / (1e3 * device.bandwidth)
        fixed = START_US + ceil_div(blocks, resident) * WAVE_US + TILE_US * results
        return 1e3 * (fixed + max(busy, moved))

    def key(self, problem: Problem, target: GpuTarget) -> Key:
        """The types, the sizes and the window."""
        return {
            **problem.types,
            "last": problem.last,
            **problem.sizes,
            "width": problem.width,
            **problem.window.key,
        }

    def emit(
        self, group: Group, problem: Problem, config: Config, target: GpuTarget
    ) -> KernelSource:
        anchor, width = problem.anchor, problem.width
        if problem.last:
            store = store_function(group, anchor, target, channels_last=True)
            stores = channel_store(store, group, width, prod(problem.result[2:]))
        else:
            block = group.writes[0].block
            store = store_function(group, anchor, target, block if block == width else 0)
            stores = block_store(store, group, width)
        grid, threads = (_blocks(problem, config), 1, 1), (config.threads, 1, 1)
        return convolution_source(
            group,
            problem,
            store,
            launch=Launch(f"{group.name}_0", (), grid, threads),
            function="convolve_channels",
            headers=("channels_last_conv",),
            structs=(_constants(problem, config), stores),
        )


def _blocks(problem: Problem, config: Config) -> int:
    """Blocks of threads."""
    high, wide = problem.result[2:]
    columns = ceil_div(wide, config.across * config.pixels)
    lines = ceil_div(high, config.down * config.rows)
    return problem.source[0] * columns * lines * ceil_div(problem.vectors, config.lanes)


def _instructions(problem: Problem, config: Config) -> float:
    """Instructions of a thread: for its results, the vectors that it loads, and its weights."""
    taps = prod(problem.window.kernel)
    width = problem.width
    results = config.pixels * config.rows
    chunks = ceil_div(problem.window.kernel[1], problem.chunk)
    pixels = problem.depth(config.rows) * chunks * problem.span(config.pixels)
    again = 1 if taps <= FEW_TAPS else config.rows
    sums = results * width * (taps + EPILOGUE)
    return sums + pixels * (width + ADDRESS) + again * taps * (width + 2)


def _constants(problem: Problem, config: Config) -> str:
    """The struct of constants of channels_last_conv.cuh."""
    window = problem.window
    names = ("IMAGE_STEP", "VECTOR_STEP", "LINE_STEP", "PIXEL_STEP")
    values = {
        "WIDTH": problem.width,
        "CHANNELS": problem.source[1],
        "CHUNK": problem.chunk,
        "PIXELS": config.pixels,
        "ROWS": config.rows,
        "LANES": config.lanes,
        "ACROSS": config.across,
        "DOWN": config.down,
        **dict(zip(names, problem.steps, strict=True)),
        **{f"SOURCE{axis}": problem.source[2 + axis] for axis in (0, 1)},
        **{f"RESULT{axis}": problem.result[2 + axis] for axis in (0, 1)},
        **{f"WINDOW{axis}": window.kernel[axis] for axis in (0, 1)},
        **{f"STRIDE{axis}": window.strides[axis] for axis in (0, 1)},
        **{f"DILATION{axis}": window.dilations[axis] for axis in (0, 1)},
        **{f"PAD{axis}": window.before[axis] for axis in (0, 1)},
    }
    return struct("Problem", constants(values))
