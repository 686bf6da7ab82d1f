"""Depthwise convolutions with large windows: GEMMs with Toeplitz matrices."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from compiler.ir.layouts import block_steps
from compiler.kernels.arithmetic import ceil_div, round_up
from compiler.kernels.gpu.blocks import block_store
from compiler.kernels.gpu.convolutions import (
    ConvolutionProblem,
    convolution_source,
    read_convolution_problem,
)
from compiler.kernels.gpu.epilogue import is_fusible, store_function
from compiler.kernels.gpu.structs import constants, struct
from compiler.kernels.group import Group
from compiler.kernels.template import KernelSource, Key, Template
from compiler.schedule.kernels import Launch
from compiler.target.target import GpuTarget

CHANNELS = 8
"""Channels of a block of threads: those of a channel block in 16 bits."""

ROWS, COLUMNS, DEPTH = 16, 8, 16
"""The MMA tile: rows and columns of results, and columns of the image."""

FEWEST_TAPS = 49
"""Taps from which on tensor cores pay although most elements of the Toeplitz matrix are zeros."""

WIDEST = 128
"""Most columns of the image that eight results may need: more do not fit the registers."""

STRIPS = (1, 2)
TILES = (1, 2, 3, 4, 5, 7, 8)

PIECES = 28
"""Most pieces of eight columns whose fragments, twice, fit the registers of a thread."""

FEW_PIECES, MOST_TILES = 16, 8
"""Pieces and tiles where blocks of 16 warps have registers for them."""


@dataclass(frozen=True)
class Problem(ConvolutionProblem):
    """A convolution of each channel of an image alone."""

    @property
    def steps(self) -> int:
        """The k-steps that eight adjacent results need."""
        (_, stride), (_, dilation) = self.window.strides, self.window.dilations
        reach = (COLUMNS - 1) * stride + (self.window.kernel[1] - 1) * dilation + 1
        return ceil_div(reach, DEPTH)

    @property
    def row(self) -> int:
        """Elements of a row of a packed filter: its taps, zeros between them and after them."""
        spread = self.window.kernel[1] * self.window.dilations[1]
        return round_up(max(DEPTH * self.steps + 2, spread), CHANNELS)

    @property
    def packing(self) -> str:
        """The packing of weights: rows with zeros between dilated taps and at the end."""
        (high, wide), (_, dilation) = self.window.kernel, self.window.dilations
        channels = self.source[1]
        spread = f"reshape:{channels},{high},{wide},1|pad:0,0,0,{dilation - 1}"
        spread += f"|reshape:{channels},{high},{wide * dilation}"
        return f"{spread}|pad:0,0,{self.row - wide * dilation}"


@dataclass(frozen=True)
class Config:
    """Strips of 16 rows and tiles of eight columns of a block of threads."""

    strips: int
    tiles: int

    @property
    def threads(self) -> int:
        """Threads of a block: a warp for each channel and strip."""
        return 32 * CHANNELS * self.strips


def pieces(problem: Problem, config: Config) -> int:
    """Pieces of eight columns of the image in a block's tile."""
    return round_up((config.tiles - 1) * problem.window.strides[1] + 2 * problem.steps, 2)


def tile_rows(problem: Problem, config: Config) -> int:
    """Rows of the image in a block's tile."""
    (stride, _), (dilation, _) = problem.window.strides, problem.window.dilations
    reach = (problem.window.kernel[0] - 1) * dilation
    return (ROWS * config.strips - 1) * stride + reach + 1


def shared_bytes(problem: Problem, config: Config) -> int:
    """Bytes of shared memory: image and filters, then the staged results."""
    image = CHANNELS * tile_rows(problem, config) * 8 * (pieces(problem, config) + 1)
    lead = round_up(7 * problem.window.strides[1], 8)
    filters = lead + CHANNELS * problem.window.kernel[0] * problem.row
    results = ROWS * config.strips * COLUMNS * config.tiles * (CHANNELS + 1)
    return max(2 * (image + filters), 4 * results)


def _fits(problem: Problem, config: Config, target: GpuTarget) -> bool:
    most = PIECES if config.strips == 1 else FEW_PIECES
    small = pieces(problem, config) <= most
    return small and shared_bytes(problem, config) <= target.device.block_shared_bytes


PRECISIONS = {"float16": ("fp16", "FP16"), "bfloat16": ("bf16", "BF16")}
"""The target's precision and the header's for the type of an image."""

START_US, PAIR_US, MMA_US = 2.4, 1.3e-3, 9e-3
"""Microseconds of launching, and of an SM for a pair of pixels that it copies, and a warp's MMA; of
eight channels each. Fitted on an H100, with a spread of 12 %, on the scale of `grouped_conv`."""

PASS_US, REGISTERS = 2.6, 128
"""Microseconds of another wave of blocks, and registers of a thread, about."""


class DepthwiseConv(Template[Problem, Config, GpuTarget]):
    """A depthwise convolution with a large window of an image in 16 bits.

    Sums are in float32, in an order that depends on the problem only: the same bits every time.
    """

    name = "depthwise_conv"
    sources = ("depthwise_conv.cuh",)

    def problem(self, group: Group, target: GpuTarget) -> Problem | None:
        """The only convolution of a group, if it is of each channel alone with a large window."""
        anchor = group.only("Conv") if target.has_mma else None
        if anchor is None or not is_fusible(group, anchor):
            return None
        conv = read_convolution_problem(group, anchor)
        if conv is None or conv.image.block != CHANNELS or len(conv.result) != 4:
            return None
        channels, _, *kernel = conv.weight.view.shape
        alone = conv.anchor.attributes["group"] == conv.source[1] == channels
        if not alone or conv.weight.dtype != conv.image.dtype:
            return None
        problem = Problem(**vars(conv))
        large = prod(kernel) >= FEWEST_TAPS and DEPTH * problem.steps <= WIDEST
        known = PRECISIONS.get(conv.image.dtype, ("", ""))[0] == target.precision
        return problem if large and known else None

    def configs(self, problem: Problem, target: GpuTarget) -> Iterator[Config]:
        """The configs that fit a block and waste less than a tile, and a strip."""
        rows, columns = problem.result[2:]
        for strips in STRIPS:
            for tiles in TILES:
                config = Config(strips, tiles)
                whole = (strips - 1) * ROWS < rows and (tiles - 1) * COLUMNS < columns
                if whole and _fits(problem, config, target):
                    yield config

    def estimate_ns(self, problem: Problem, config: Config, target: GpuTarget) -> float:
        """Launching, and the copies and MMAs of the blocks that an SM has."""
        shared = shared_bytes(problem, config)
        resident = target.device.resident_blocks(config.threads, REGISTERS, shared)
        x, y, z = _grid(problem, config)
        blocks = ceil_div(x * y * z, target.device.sms)
        waves = ceil_div(blocks, resident)
        pairs = tile_rows(problem, config) * 4 * pieces(problem, config)
        multiplied = CHANNELS * config.strips * problem.window.kernel[0]
        multiplied *= problem.steps * config.tiles
        work = pairs * PAIR_US + multiplied * MMA_US / 4
        return 1e3 * (START_US + (waves - 1) * PASS_US + blocks * work)

    def key(self, problem: Problem, target: GpuTarget) -> Key:
        """The type, the sizes and the window."""
        return {"dtype": problem.image.dtype, **problem.sizes, **problem.window.key}

    def emit(
        self, group: Group, problem: Problem, config: Config, target: GpuTarget
    ) -> KernelSource:
        block = group.writes[0].block
        store = store_function(group, problem.anchor, target, block if block == CHANNELS else 0)
        grid = _grid(problem, config)
        threads = (config.threads, 1, 1)
        shared = shared_bytes(problem, config)
        return convolution_source(
            group,
            problem,
            store,
            launch=Launch(f"{group.name}_0", (), grid, threads, shared),
            function="convolve_depthwise",
            headers=("instructions", "depthwise_conv"),
            structs=(_constants(problem, config), block_store(store, group, CHANNELS)),
            passed="(const int4*)image, (const int4*)weights",
        )


def _grid(problem: Problem, config: Config) -> tuple[int, int, int]:
    batch, channels, rows, columns = problem.result
    high, wide = ROWS * config.strips, COLUMNS * config.tiles
    return batch * channels // CHANNELS, ceil_div(rows, high), ceil_div(columns, wide)


def _constants(problem: Problem, config: Config) -> str:
    window = problem.window
    image, channels = block_steps(problem.source, CHANNELS)
    values = {
        "BLOCKS": problem.source[1] // CHANNELS,
        "IMAGE_STEP": image,
        "CHANNEL_STEP": channels,
        "STRIPS": config.strips,
        "TILES": config.tiles,
        "STEPS": problem.steps,
        "ROW": problem.row,
        "PRECISION": PRECISIONS[problem.image.dtype][1],
        "WINDOW0": window.kernel[0],
        "DILATION0": window.dilations[0],
        **{f"SOURCE{axis}": problem.source[2 + axis] for axis in (0, 1)},
        **{f"RESULT{axis}": problem.result[2 + axis] for axis in (0, 1)},
        **{f"STRIDE{axis}": window.strides[axis] for axis in (0, 1)},
        **{f"PAD{axis}": window.before[axis] for axis in (0, 1)},
    }
    return struct("Problem", constants(values))
