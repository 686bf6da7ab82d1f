"""Convolutions whose groups have few channels, by FMAs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from itertools import product
from math import prod

from compiler.ir.layouts import block_steps
from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.database import Entry
from compiler.kernels.gpu.blocks import block_store, window_constants
from compiler.kernels.gpu.convolutions import (
    ConvolutionProblem,
    convolution_source,
    read_convolution_problem,
)
from compiler.kernels.gpu.epilogue import is_fusible, store_function
from compiler.kernels.gpu.operands import Operand
from compiler.kernels.gpu.structs import constants, struct
from compiler.kernels.group import Group, Node
from compiler.kernels.template import KernelSource, Key, Shortlists, Template
from compiler.schedule.kernels import Launch
from compiler.target.devices import DEFAULT_SHARED_BYTES
from compiler.target.target import GpuTarget

KEPT = 80
"""Most elements of an image row that a thread keeps in registers."""

MOST_THREADS = 512
"""Most threads of a block, so that each has the registers it needs."""

START_US, ROW_US, SPLIT_US = 1.38, 0.43, 0.04
"""Launching and ending, the latency of a row of the filter, and of adding each split-K slice."""

FMAS, LOADS = 6.7e4, 5.2e4
"""FMAs, and loads of 16 bytes, per microsecond and SM; all fitted on an H200."""


@dataclass(frozen=True)
class Config:
    """Adjacent pixels of a thread; strips of a block (`places`), and split-K threads of each."""

    pixels: int
    places: int
    split_k: int

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.places * self.split_k


@dataclass(frozen=True)
class Problem(ConvolutionProblem):
    """One convolution in groups, each of `channels` inputs and `rows` outputs.

    A thread computes `block` output channels.
    """

    channels: int
    rows: int
    block: int

    @property
    def width(self) -> int:
        """Channels of an input block that each output multiplies."""
        return min(self.channels, self.block)

    @property
    def parts(self) -> int:
        """Blocks of input channels that an output needs."""
        return self.channels // self.width

    @property
    def blocks(self) -> int:
        """Blocks of output channels in one image."""
        return self.result[1] // self.block

    @property
    def packing(self) -> str:
        """The packing of weights: for each input, the outputs of a block next to each other."""
        taps = prod(self.window.kernel)
        split = f"reshape:{self.blocks},{self.block},{self.parts},{self.width},{taps}"
        return f"{split}|transpose:0,2,4,3,1"

    @property
    def items(self) -> int:
        """The items that split-K divides: rows of the filter in each part."""
        return self.parts * prod(self.window.kernel[:-1])

    def places(self, pixels: int) -> int:
        """Strips of some pixels each."""
        batch, _, *lines, columns = self.result
        return batch * self.blocks * prod(lines) * -(-columns // pixels)

    def kept(self, pixels: int) -> int:
        """Elements of an image row that some pixels need."""
        reach = (self.window.kernel[-1] - 1) * self.window.dilations[-1]
        return ((pixels - 1) * self.window.strides[-1] + reach + 1) * self.block


class GroupedConv(Template[Problem, Config, GpuTarget], Shortlists):
    """A convolution with constant weights whose groups have few channels.

    Sums are in float32, in an order that depends on the problem only: the same bits every time.
    """

    name = "grouped_conv"
    sources = ("grouped_conv.cuh",)

    def problem(self, group: Group, target: GpuTarget) -> Problem | None:
        """The only convolution of a group."""
        anchor = group.only("Conv")
        problem = read_grouped(group, anchor) if anchor else None
        return problem if problem and is_fusible(group, problem.anchor) else None

    def configs(self, problem: Problem, target: GpuTarget) -> Iterable[Config]:
        """The configs that fit registers and shared memory, the fewest threads first."""
        return sorted(candidates(problem), key=lambda config: config.threads)

    def estimate_ns(self, problem: Problem, config: Config, target: GpuTarget) -> float:
        rows = problem.items // config.split_k
        blocks = ceil_div(problem.places(config.pixels), config.places)
        threads = max(config.threads, config.threads * blocks / target.device.sms)
        busy = threads * _thread_us(problem, config)
        added = SPLIT_US * config.split_k if config.split_k > 1 else 0.0
        return 1e3 * (START_US + rows * ROW_US + busy + added)

    def key(self, problem: Problem, target: GpuTarget) -> Key:
        """The types, the sizes and the window."""
        return {
            **problem.types,
            "blocked": problem.image.block > 0,
            **problem.sizes,
            "channels": problem.channels,
            "rows": problem.rows,
            "block": problem.block,
            **problem.window.key,
        }

    def shortlist(
        self, problem: Problem, target: GpuTarget, known: Mapping[str, Entry], count: int
    ) -> Sequence[Config]:
        """At most `count` configs to measure, those of the least estimates."""

        def rank(config: Config) -> tuple[float, tuple[int, ...]]:
            return self.estimate_ns(problem, config, target), astuple(config)

        return sorted(candidates(problem), key=rank)[:count]

    def emit(
        self, group: Group, problem: Problem, config: Config, target: GpuTarget
    ) -> KernelSource:
        block = group.writes[0].block
        own = block if block == problem.block else 0
        store = store_function(group, problem.anchor, target, own)
        structs = (conv_constants(problem, config), block_store(store, group, problem.block))
        grid = (ceil_div(problem.places(config.pixels), config.places), 1, 1)
        launch = Launch(f"{group.name}_0", (), grid, (config.threads, 1, 1))
        function = "convolve_groups"
        headers = ("grouped_conv",)
        return convolution_source(
            group, problem, store, launch, function, headers=headers, structs=structs
        )


def candidates(problem: Problem) -> Iterator[Config]:
    """The configs that fit a block's registers and shared memory."""
    for pixels in (1, 2, 4, 7):
        if pixels > 1 and problem.kept(pixels) > KEPT:
            continue
        for places, split_k in product((32, 64, 128), (1, 2, 3, 4, 5, 6, 7, 8, 12)):
            config = Config(pixels, places, split_k)
            kept = 4 * pixels * problem.block * config.threads if split_k > 1 else 0
            fits = config.threads <= MOST_THREADS and kept <= DEFAULT_SHARED_BYTES
            if fits and problem.items % split_k == 0:
                yield config


def _thread_us(problem: Problem, config: Config) -> float:
    """Microseconds of an SM for one thread: its FMAs and loads."""
    rows = problem.items // config.split_k
    taps = problem.window.kernel[-1]
    fmas = rows * taps * problem.width * problem.block * config.pixels
    loads = rows * (problem.kept(config.pixels) / problem.block + taps * problem.width)
    return fmas / FMAS + loads / LOADS


def read_grouped(group: Group, anchor: Node[int]) -> Problem | None:
    """The problem of a convolution with constant weights in groups of few channels; else None."""
    conv = read_convolution_problem(group, anchor)
    if conv is None or conv.weight.dtype not in ("float32", conv.image.dtype):
        return None
    groups = anchor.attributes["group"]
    channels = conv.weight.view.shape[1]
    rows = conv.result[1] // groups
    block = _block(conv.image, channels, rows) if groups > 1 else 0
    if not block or not 3 <= len(conv.source) <= 5:
        return None
    return Problem(**vars(conv), channels=channels, rows=rows, block=block)


def _block(image: Operand, channels: int, rows: int) -> int:
    """Channels of a thread: the image's block if it has any; 0 where none fits.

    Blocks divide groups, or have whole groups with as many outputs as inputs.
    """
    able = [image.chunk] if image.block else [4, 2, 1]
    if image.block not in (0, image.chunk) or not (image.block or image.view.flags.c_contiguous):
        return 0
    total = image.view.shape[1]

    def fits(block: int) -> bool:
        whole = channels % block == 0 and rows % block == 0
        return whole or (block % channels == 0 and channels == rows and total % block == 0)

    return next((block for block in able if fits(block)), 0)


def conv_constants(problem: Problem, config: Config, name: str = "Problem") -> str:
    """The struct of constants of grouped_conv.cuh."""
    image, channels = _source_steps(problem)
    scalars = {
        "BATCH": problem.source[0],
        "BLOCK": problem.block,
        "BLOCKED": int(problem.image.block > 0),
        "BLOCKS": problem.blocks,
        "IMAGE": image,
        "CHANNELS": channels,
        "GROUP_BLOCKS": max(1, problem.rows // problem.block),
        "PARTS": problem.parts,
        "WIDTH": problem.width,
        "PIXELS": config.pixels,
        "PLACES": config.places,
        "SPLITS": config.split_k,
        **window_constants(problem.source, problem.result, problem.window),
    }
    return struct(name, constants(scalars))


def _source_steps(problem: Problem) -> tuple[int, int]:
    """Elements from one image to the next, and from one block of channels."""
    if problem.image.block:
        image, channels = block_steps(problem.source, problem.block)
        return image * problem.block, channels * problem.block
    plane = prod(problem.source[2:])
    return problem.source[1] * plane, problem.block * plane
