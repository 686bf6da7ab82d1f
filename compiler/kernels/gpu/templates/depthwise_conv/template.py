"""Depthwise convolutions with large windows: GEMMs with Toeplitz matrices."""

from collections.abc import Iterator, Sequence

from compiler.ir.layouts import block_steps
from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.gpu.blocks import block_store
from compiler.kernels.gpu.epilogue import StoreFunction, c_type, store_function
from compiler.kernels.gpu.source import header
from compiler.kernels.gpu.templates.depthwise_conv.problem import (
    CHANNELS,
    COLUMNS,
    ROWS,
    Config,
    Problem,
    configs_of,
    pieces,
    read_depthwise,
    shared_bytes,
    tile_rows,
)
from compiler.kernels.group import Group
from compiler.kernels.template import KernelSource, Key, Template
from compiler.schedule.kernels import Launch
from compiler.target.target import GpuTarget

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

    def match(self, group: Group, target: GpuTarget) -> Sequence[Problem]:
        """The only convolution of a group."""
        if not target.has_mma:
            return []
        problem = read_depthwise(group)
        known = problem and PRECISIONS.get(problem.image.dtype, ("", ""))[0] == target.precision
        return [problem] if problem and known and next(configs_of(problem, target), None) else []

    def configs(self, problem: Problem, target: GpuTarget) -> Iterator[Config]:
        """The configs that fit the target."""
        return configs_of(problem, target)

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
        window = problem.window
        return {
            "dtype": problem.image.dtype,
            "source": problem.source,
            "result": problem.result,
            "kernel": window.kernel,
            "strides": window.strides,
            "dilations": window.dilations,
            "before": window.before,
        }

    def emit(
        self, group: Group, problem: Problem, config: Config, target: GpuTarget
    ) -> KernelSource:
        """The kernel of a group."""
        block = group.writes[0].block
        store = store_function(group, problem.anchor, target, block if block == CHANNELS else 0)
        name = f"{group.name}_0"
        packings = [""] * group.inputs
        packings[problem.weight.read] = problem.packing
        arguments = (problem.image.read, problem.weight.read, *store.arguments)
        grid, threads = _grid(problem, config), (config.threads, 1, 1)
        launch = Launch(name, arguments, grid, threads, shared_bytes(problem, config))
        parts = [header("instructions"), header("depthwise_conv"), store.text]
        parts += [_constants(problem, config), block_store(store, group, CHANNELS)]
        text = "\n".join([*parts, _kernel(name, problem, store, config)])
        return KernelSource(text, (launch,), (), tuple(packings), problem.flops)


def _grid(problem: Problem, config: Config) -> tuple[int, int, int]:
    batch, channels, rows, columns = problem.result
    high, wide = ROWS * config.strips, COLUMNS * config.tiles
    return batch * channels // CHANNELS, ceil_div(rows, high), ceil_div(columns, wide)


def _constants(problem: Problem, config: Config) -> str:
    window = problem.window
    image, channels = block_steps(problem.source, CHANNELS)
    constants = {
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
    lines = [f"  static constexpr int {key} = {value};" for key, value in constants.items()]
    return "\n".join(["struct Problem {", *lines, "};", ""])


def _kernel(name: str, problem: Problem, store: StoreFunction, config: Config) -> str:
    kind = c_type(problem.image.dtype)
    names = [f"buffer{i}" for i in range(len(store.types))]
    parameters = [f"const {kind}* __restrict__ image", f"const {kind}* __restrict__ weights"]
    parameters += [f"{t}* __restrict__ {n}" for t, n in zip(store.types, names, strict=True)]
    call = f"(const int4*)image, (const int4*)weights, Store{{{', '.join(names)}}}"
    return (
        f'extern "C" __global__ void __launch_bounds__({config.threads}) {name}('
        f"{', '.join(parameters)}) {{\n  convolve_depthwise<Problem>({call});\n}}\n"
    )
