"""Depthwise convolutions of channels-last images, by FMAs."""

from collections.abc import Iterator, Sequence
from math import ceil, prod

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.gpu.blocks import block_store, channel_store, image_kernel
from compiler.kernels.gpu.epilogue import StoreFunction, store_function
from compiler.kernels.gpu.operands import ELEMENT_BYTES
from compiler.kernels.gpu.source import header
from compiler.kernels.gpu.templates.channels_last_conv.problem import (
    Config,
    Problem,
    configs_of,
    read_channels_last,
)
from compiler.kernels.group import Group
from compiler.kernels.template import KernelSource, Key, Template
from compiler.schedule.kernels import Launch
from compiler.target.target import GpuTarget

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

    def match(self, group: Group, target: GpuTarget) -> Sequence[Problem]:
        """The only convolution of a group."""
        problem = read_channels_last(group)
        return [problem] if problem else []

    def configs(self, problem: Problem, target: GpuTarget) -> Iterator[Config]:
        """The configs that fit registers."""
        return configs_of(problem)

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
        window = problem.window
        return {
            "image_dtype": problem.image.dtype,
            "weight_dtype": problem.weight.dtype,
            "last": problem.last,
            "source": problem.source,
            "result": problem.result,
            "width": problem.width,
            "kernel": window.kernel,
            "strides": window.strides,
            "dilations": window.dilations,
            "before": window.before,
        }

    def emit(
        self, group: Group, problem: Problem, config: Config, target: GpuTarget
    ) -> KernelSource:
        """The kernel of a group."""
        name, width = f"{group.name}_0", problem.width
        store = _store_function(group, problem, target)
        kernel = image_kernel(
            name, "convolve_channels", (problem.image, problem.weight), store, config.threads
        )
        if problem.last:
            stores = channel_store(store, group, width, prod(problem.result[2:]))
        else:
            stores = block_store(store, group, width)
        parts = [store.text, _constants(problem, config), stores, kernel]
        packings = [""] * group.inputs
        packings[problem.weight.read] = problem.packing
        arguments = (problem.image.read, problem.weight.read, *store.arguments)
        grid = (_blocks(problem, config), 1, 1)
        launch = Launch(name, arguments, grid, (config.threads, 1, 1))
        text = "\n".join([header("channels_last_conv"), *parts])
        return KernelSource(text, (launch,), (), tuple(packings), problem.flops)


def _store_function(group: Group, problem: Problem, target: GpuTarget) -> StoreFunction:
    if problem.last:
        return store_function(group, problem.anchor, target, channels_last=True)
    block = group.writes[0].block
    return store_function(group, problem.anchor, target, block if block == problem.width else 0)


def _blocks(problem: Problem, config: Config) -> int:
    """Blocks of threads."""
    high, wide = problem.result[2:]
    columns = ceil_div(wide, config.across * config.pixels)
    lines = ceil_div(high, config.down * config.rows)
    return problem.source[0] * columns * lines * ceil_div(problem.vectors, config.lanes)


def _instructions(problem: Problem, config: Config) -> float:
    """Instructions of a thread: for its results, the vectors that it loads, and its weights."""
    taps, width, results = prod(problem.window.kernel), problem.width, config.pixels * config.rows
    chunks = ceil_div(problem.window.kernel[1], problem.chunk)
    pixels = problem.depth(config.rows) * chunks * problem.span(config.pixels)
    again = 1 if taps <= FEW_TAPS else config.rows
    sums = results * width * (taps + EPILOGUE)
    return sums + pixels * (width + ADDRESS) + again * taps * (width + 2)


def _constants(problem: Problem, config: Config) -> str:
    """The struct of constants of channels_last_conv.cuh."""
    window = problem.window
    names = ("IMAGE_STEP", "VECTOR_STEP", "LINE_STEP", "PIXEL_STEP")
    constants = {
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
    lines = [f"  static constexpr int {key} = {value};" for key, value in constants.items()]
    return "\n".join(["struct Problem {", *lines, "};", ""])
