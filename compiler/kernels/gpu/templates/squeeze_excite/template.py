"""Squeeze-and-excitation of images: pooling, two convolutions and scaling in one kernel."""

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any

from tvm.ir import PrimType, Var

from compiler.ir.layouts import block_steps
from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.gpu.epilogue import Parameter, StoreFunction, c_type, value_function
from compiler.kernels.gpu.source import header
from compiler.kernels.gpu.structs import (
    DEVICE,
    constants,
    function_parameters,
    kernel,
    struct,
    value_struct,
)
from compiler.kernels.gpu.templates.squeeze_excite.problem import (
    Config,
    Problem,
    configs_of,
    own_channels,
    read_problem,
    staged,
    stages_of,
)
from compiler.kernels.group import Group, Node
from compiler.kernels.template import KernelSource, Key, Template
from compiler.kernels.tir.fusion import FusionContext
from compiler.kernels.tir.loops import variable
from compiler.schedule.kernels import Launch
from compiler.target.target import GpuTarget
from compiler.tensors.dtypes import ELEMENT_BYTES


def _after(
    name: str, group: Group, conv: Node[int], value: int, target: GpuTarget
) -> StoreFunction:
    """A value that follows from one sum of a convolution on one pixel."""
    context = FusionContext(group, conv)
    outer, row = place = [variable(part) for part in ("outer", "row")]
    total: Any = Var("sum", PrimType("float32"))
    bias = context.bias([row])
    at = [outer, row, *(0 for _ in context.shape[2:])]
    element = context.element(value, at, total if bias is None else total + bias)
    return value_function(name, context, element, [*place, total], target)


def _image(group: Group, problem: Problem) -> str:
    """A struct that loads vectors of the image and stores those of the result."""
    read = c_type(problem.image.dtype)
    result = group.writes[0]
    write = c_type(result.dtype)
    width = problem.width
    alike = result.block == (width if problem.blocked else 0)
    if problem.blocked:
        vector = _element(problem.shape, width, f"line * {width}", "vector")
        lanes = (f"(line * {width} + r)", "vector")
    else:
        vector = _element(problem.shape, 0, "line", f"vector * {width}")
        lanes = ("line", f"vector * {width} + r")
    block = f"Block<{read}, {width}>"
    lines = [
        f"  const {read}* image;",
        f"  {write}* result;",
        f"{DEVICE} {block} load(int outer, int line, int vector) const {{",
        f"    const {read}* from = image + {vector};",
        f"    {block} loaded;",
        f"    if ({_aligned('from', read, problem)}) loaded = *(const {block}*)from;",
        f"    else for (int r = 0; r < {width}; r++) loaded.at[r] = from[r];",
        "    return loaded;",
        "  }",
        f"{DEVICE} void store(int outer, int line, int vector, const float (&values)[{width}])"
        " const {",
    ]
    if alike:
        lines += [
            f"    {write}* to = result + {vector};",
            f"    Block<{write}, {width}> stored;",
            "#pragma unroll",
            f"    for (int r = 0; r < {width}; r++) stored.at[r] = {write}(values[r]);",
            f"    if ({_aligned('to', write, problem)}) *(Block<{write}, {width}>*)to = stored;",
            f"    else for (int r = 0; r < {width}; r++) to[r] = stored.at[r];",
        ]
    else:
        place = _element(problem.shape, result.block, *lanes)
        lines += [
            "#pragma unroll",
            f"    for (int r = 0; r < {width}; r++) result[{place}] = {write}(values[r]);",
        ]
    return struct("Image", [*lines, "  }"])


def _aligned(pointer: str, kind: str, problem: Problem) -> str:
    """Whether a pointer is a vector's: blocked images are aligned, others begin anywhere."""
    if problem.blocked:
        return "true"
    return f"(uint64_t){pointer} % sizeof(Block<{kind}, {problem.width}>) == 0"


def _element(shape: Sequence[int], block: int, channel: str, pixel: str) -> str:
    """The index of an element in an image, as a C expression of C expressions."""
    if not block:
        return f"((int64_t)outer * {shape[1]} + {channel}) * {prod(shape[2:])} + {pixel}"
    image, channels = block_steps(shape, block)
    vector = f"{channel} / {block} * (int64_t){channels} + (int64_t)outer * {image} + {pixel}"
    return f"({vector}) * {block} + {channel} % {block}"


def _constants(problem: Problem, config: Config, stages: int) -> str:
    values: Mapping[str, int] = {
        "CHANNELS": problem.shape[1],
        "PIXELS": problem.pixels,
        "WIDTH": problem.width,
        "HIDDEN": problem.hidden,
        "THREADS": config.threads,
        "CHANNEL_PARTS": config.channel_parts,
        "PIXEL_PARTS": config.pixel_parts,
        "STAGES": stages,
        "BLOCKED": problem.blocked,
        "PREFETCH": problem.constant,
    }
    wait = "  static __device__ __forceinline__ void wait() { grid_dependency_wait(); }"
    return struct("Problem", ["  using Image = ::Image;", *constants(values), wait])


def _launched(
    launch: Launch, group: Group, problem: Problem, functions: Mapping[str, StoreFunction]
) -> tuple[str, Launch]:
    image, (first, second) = problem.image, problem.weights
    parameters = [
        Parameter(f"const {c_type(image.dtype)}*", "image", image.read),
        Parameter(f"{c_type(group.writes[0].dtype)}*", "result", group.inputs),
        first.parameter("first"),
        second.parameter("second"),
    ]
    passed = ["Image{image, result}", "first", "second"]
    for name, function in functions.items():
        own = function_parameters(function, name.lower())
        parameters += own
        passed.append(f"{name}{{{', '.join(one.name for one in own)}}}")
    call = f"squeeze_excite<Problem>({', '.join(passed)})"
    return kernel(launch, parameters, call, cluster=launch.grid[2])


START_US, EXCHANGE_US = 3.9, 1.25
"""Microseconds of launching and reducing, and of an exchange within a cluster: fitted, as the rates
are, to 21 kernels on an H100, with a spread of 7 %."""

IMAGE_BYTES, WEIGHT_BYTES = 57e3, 41e3
"""Bytes of the image and of weights per microsecond and SM."""

VECTOR_BYTES, VECTOR_US = 16, 0.18
"""Bytes that a thread copies at once, and the microseconds until the next ones."""


class SqueezeExcite(Template[Problem, Config, GpuTarget]):
    """A group that `fuse-squeeze-excite` makes: an image has a cluster of blocks.

    Sums have an order that depends on the shapes and the config only: the same bits every time.
    """

    name = "squeeze_excite"
    sources = ("squeeze_excite.cuh",)

    def problem(self, group: Group, target: GpuTarget) -> Problem | None:
        """The squeeze-and-excitation that the group is."""
        return read_problem(group) if target.fuses_squeeze_excite else None

    def configs(self, problem: Problem, target: GpuTarget) -> Iterator[Config]:
        return configs_of(problem, target)

    def estimate_ns(self, problem: Problem, config: Config, target: GpuTarget) -> float:
        """Launching, exchanging sums, and few SMs that read the image and the weights."""
        waves = ceil_div(problem.shape[0] * config.blocks, target.device.sms)
        exchanges = (config.channel_parts > 1) + (config.pixel_parts > 1)
        image = prod(problem.shape[1:]) * ELEMENT_BYTES[problem.image.dtype]
        copied = image / config.blocks
        vectors = copied / (VECTOR_BYTES * config.threads)
        weights = 2 * problem.hidden * own_channels(problem, config) * ELEMENT_BYTES["float32"]
        work = copied / IMAGE_BYTES + vectors * VECTOR_US + weights / WEIGHT_BYTES
        return 1e3 * (START_US + exchanges * EXCHANGE_US + waves * work)

    def key(self, problem: Problem, target: GpuTarget) -> Key:
        """The sizes and how the image is stored."""
        return {
            "shape": problem.shape,
            "hidden": problem.hidden,
            "dtype": problem.image.dtype,
            "blocked": problem.blocked,
        }

    def emit(
        self, group: Group, problem: Problem, config: Config, target: GpuTarget
    ) -> KernelSource:
        inside = {
            "Hidden": (problem.first, problem.squeezed),
            "Gate": (problem.second, problem.gate),
        }
        functions = {
            name: _after(f"{group.name}_{name.lower()}", group, conv, value, target)
            for name, (conv, value) in inside.items()
        }
        text = [header("instructions"), *(function.text for function in functions.values())]
        stages = stages_of(problem, config, target)
        text += [_image(group, problem), header("squeeze_excite")]
        text += [_constants(problem, config, stages)]
        text += [
            value_struct(name, f, "int outer, int row, float sum") for name, f in functions.items()
        ]
        floats = own_channels(problem, config) + problem.hidden + staged(problem, config, stages)
        grid, block = (problem.shape[0], 1, config.blocks), (config.threads, 1, 1)
        bare = Launch(f"{group.name}_0", (), grid, block, ELEMENT_BYTES["float32"] * floats)
        own, launch = _launched(bare, group, problem, functions)
        text.append(own)
        flops = 2 * prod(problem.shape) + 4 * problem.shape[0] * problem.shape[1] * problem.hidden
        return KernelSource("\n".join(text), (launch,), flops=flops)
