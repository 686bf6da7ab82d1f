"""Depthwise convolutions of channels-last images, by FMAs."""

from collections.abc import Iterator, Sequence
from math import prod

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.gpu.blocks import block_store, channel_store, image_kernel
from compiler.kernels.gpu.cuda_kernel import CudaKernel
from compiler.kernels.gpu.epilogue import StoreFunction, store_function
from compiler.kernels.gpu.operands import ELEMENT_BYTES
from compiler.kernels.gpu.source import header
from compiler.kernels.gpu.template import Key, Template
from compiler.kernels.gpu.templates.channels_last_conv.problem import (
    Config,
    Problem,
    configs_of,
    read_channels_last,
)
from compiler.kernels.group import Group
from compiler.schedule import Launch
from compiler.target.target import GpuTarget

START_US, WAVE_US, LINE_US = 1.8, 0.8, 0.12
"""Microseconds of launching and ending, of another wave of blocks, and of the latency of a row of
the image."""

FMAS, LOADS, STORED = 1.3e5, 1.2e4, 9e3
"""FMAs, loads of a vector, and elements that an epilogue stores, per microsecond and SM."""

REGISTERS = 128
"""Registers of a thread, about."""


class ChannelsLastConv(Template[Problem, Config]):
    """A depthwise convolution, along one or two axes, of an image whose channels come last.

    Sums are in float32, in an order that depends on the problem only: the same bits every time.
    """

    name = "channels_last_conv"
    headers = ("channels_last_conv",)
    config_type = Config

    def match(self, group: Group, target: GpuTarget) -> Sequence[Problem]:
        """The only convolution of a group."""
        problem = read_channels_last(group)
        return [problem] if problem else []

    def configs(self, problem: Problem, target: GpuTarget) -> Iterator[Config]:
        """The configs that fit registers."""
        return configs_of(problem)

    def estimate_us(self, problem: Problem, config: Config, target: GpuTarget) -> float:
        """Launching, and the larger of memory traffic and what SMs do."""
        device = target.device
        blocks = ceil_div(_blocks(problem, config), device.sms)
        waves = ceil_div(blocks, device.resident_blocks(config.threads, REGISTERS, 0))
        busy = blocks * config.threads * _thread_us(problem, config)
        size = ELEMENT_BYTES[problem.image.dtype]
        moved = (prod(problem.source) + prod(problem.result)) * size / (1e3 * device.bandwidth)
        latency = waves * (WAVE_US + problem.depth(config.rows) * LINE_US)
        return START_US + max(busy, moved) + latency

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

    def emit(self, group: Group, problem: Problem, config: Config, target: GpuTarget) -> CudaKernel:
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
        return CudaKernel(text, (launch,), (), tuple(packings), problem.flops)


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


def _thread_us(problem: Problem, config: Config) -> float:
    """Microseconds of an SM for one thread: its FMAs, loads and results."""
    taps, results = prod(problem.window.kernel), config.pixels * config.rows
    chunks = ceil_div(problem.window.kernel[1], problem.chunk)
    pixels = problem.depth(config.rows) * chunks * problem.span(config.pixels)
    fmas = (results * taps + pixels) * problem.width
    again = 1 if taps <= 9 else config.rows
    loads = pixels + again * taps
    return fmas / FMAS + loads / LOADS + results * problem.width / STORED


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
