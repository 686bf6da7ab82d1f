"""GroupNormalization and InstanceNormalization of images, which read memory once."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

from compiler.kernels.gpu.blocks import block_index, block_store, pixel_store
from compiler.kernels.gpu.epilogue import Parameter, c_type, store_function, value_function
from compiler.kernels.gpu.operands import Operand
from compiler.kernels.gpu.source import header
from compiler.kernels.gpu.structs import (
    DEVICE,
    Functor,
    constants,
    functor_parameters,
    kernel,
    struct,
    value_part,
)
from compiler.kernels.gpu.templates.group_norm.problem import (
    Config,
    Problem,
    configs_of,
    items,
    read_group_norm,
)
from compiler.kernels.group import Group
from compiler.kernels.template import KernelSource, Key, Template
from compiler.kernels.tir.loops import variable
from compiler.schedule.kernels import Launch
from compiler.target.target import GpuTarget
from compiler.tensors.row_major import unflatten_index

EPSILON = 1e-5
"""ONNX's default."""

OPERATIONS = 10
"""Operations on each element, about."""

FLOAT_BYTES = 4


@dataclass(frozen=True)
class Phase:
    """The work of a launch, and the parts that it uses; `workspace` where it exchanges moments."""

    name: str
    parts: tuple[Functor, ...]
    workspace: tuple[int, ...] = ()


def _load(group: Group, problem: Problem, target: GpuTarget) -> Functor:
    """How vectors are loaded: whole, or element by element where they are computed."""
    image = problem.image
    if image is not None:
        number = (image.read,)
        return Functor("Load", _vector_load(problem, image), (c_type(image.dtype),), number)
    context = problem.context
    place = [variable(name) for name in ("outer", "channel", "pixel")]
    at = [*place[:2], *unflatten_index(place[2], context.shape[2:])]
    value = context.operand(0, at)
    function = value_function(f"{group.name}_element", context, value, place, target)
    element = value_part("Element", function, "int outer, int channel, int pixel")
    moved = "channel + r, pixel" if problem.blocked else "channel, pixel + r"
    lines = [
        "struct Load {",
        "  Element element;",
        f"{_head(problem)} {{",
        "#pragma unroll",
        f"    for (int r = 0; r < {problem.width}; r++) values[r] = element(outer, {moved});",
        "  }",
        "};",
    ]
    text = "\n".join([element.text, *lines, ""])
    return Functor("Load", text, function.types, function.arguments, inner="Element")


def _vector_load(problem: Problem, image: Operand) -> str:
    """Loads of vectors; a row-major image may begin anywhere."""
    kind = c_type(image.dtype)
    width = problem.width
    shape = problem.context.shape
    if problem.blocked:
        index = block_index(shape, width, "outer", f"channel / {width}", "pixel")
        source = f"image + ({index}) * {width}"
        aligned = ""
    else:
        source = f"image + ((int64_t)outer * {shape[1]} + channel) * {problem.pixels} + pixel"
        aligned = f"if ((uint64_t)from % sizeof(Block<{kind}, {width}>) == 0) "
    lines = [
        "struct Load {",
        f"  const {kind}* image;",
        f"{_head(problem)} {{",
        f"    const {kind}* from = {source};",
        f"    Block<{kind}, {width}> loaded;",
        f"    {aligned}loaded = *(const Block<{kind}, {width}>*)from;",
    ]
    if aligned:
        lines += [f"    else for (int r = 0; r < {width}; r++) loaded.at[r] = from[r];"]
    lines += [
        "#pragma unroll",
        f"    for (int r = 0; r < {width}; r++) values[r] = loaded.at[r];",
        "  }",
        "};",
        "",
    ]
    return "\n".join(lines)


def _head(problem: Problem) -> str:
    parameters = f"int outer, int channel, int pixel, float (&values)[{problem.width}]"
    return f"{DEVICE} void operator()({parameters}) const"


def _scale(group: Group, problem: Problem, target: GpuTarget) -> Functor:
    """The factor of a channel."""
    context = problem.context
    channel = variable("channel")
    value = context.operand(1, [channel])
    function = value_function(f"{group.name}_scale", context, value, [channel], target)
    return value_part("Scale", function, "int channel")


def _store(group: Group, problem: Problem, target: GpuTarget) -> Functor:
    """How vectors of results are stored, after the bias is added."""
    block = group.writes[0].block
    if problem.blocked:
        store = store_function(
            group, problem.anchor, target, block if block == problem.width else 0
        )
        text = block_store(store, group, problem.width)
    else:
        store = store_function(group, problem.anchor, target, vectors=problem.width > 1)
        text = pixel_store(store, group, problem.width)
    return Functor("Store", f"{store.text}\n{text}", store.types, store.arguments)


def _constants(problem: Problem, config: Config) -> str:
    values: Mapping[str, float] = {
        "SPANS": problem.context.shape[1] // problem.span,
        "SPAN": problem.span,
        "GROUP": problem.group,
        "PIXELS": problem.pixels,
        "WIDTH": problem.width,
        "LANES": problem.width if problem.mixed else 1,
        "THREADS": config.threads,
        "BLOCKS": config.blocks,
        "BLOCKED": problem.blocked,
        "EPSILON": float(problem.anchor.attributes["epsilon"]),
    }
    return struct("Problem", constants(values))


def _launched(launch: Launch, phase: Phase, config: Config) -> tuple[str, Launch]:
    parameters, made = functor_parameters(phase.parts)
    parameters += [Parameter("float*", "workspace", number) for number in phase.workspace]
    passed = ", ".join([*made, "workspace" if phase.workspace else "nullptr"])
    call = f"normalize_groups<Problem, {phase.name}>({passed})"
    return kernel(launch, parameters, call, cluster=config.blocks if config.cluster else 1)


START_US, CLUSTER_US, LAUNCH_US = 2.2, 1.0, 2.2
"""Microseconds of a launch of single blocks, of a cluster's exchange, and of one more launch."""

ITEM_US, ELEMENTS = 0.28, 2.9e3
"""Microseconds of a vector of each thread, and the elements that an SM has in one: fitted on an
H100, as the others are, with a spread of 16 %."""


class GroupNorm(Template[Problem, Config, GpuTarget]):
    """A group around one float32 normalisation of images whose groups fit registers.

    Sums have an order that depends on the shapes and the config only: the same bits every time.
    """

    name = "group_norm"
    sources = ("group_norm.cuh",)

    def problem(self, group: Group, target: GpuTarget) -> Problem | None:
        """The only normalisation of a group."""
        return read_group_norm(group)

    def configs(self, problem: Problem, target: GpuTarget) -> Iterator[Config]:
        """The configs whose registers hold the groups."""
        return configs_of(problem, target)

    def estimate_ns(self, problem: Problem, config: Config, target: GpuTarget) -> float:
        """Launching, exchanging moments, and the elements at the rate of the SMs that have some."""
        exchange = CLUSTER_US if config.cluster else LAUNCH_US * (config.launches - 1)
        busy = min(target.device.sms, problem.spans * config.blocks)
        work = config.launches * prod(problem.context.shape) / (ELEMENTS * busy)
        return 1e3 * (START_US + exchange + items(problem, config) * ITEM_US + work)

    def key(self, problem: Problem, target: GpuTarget) -> Key:
        """The sizes and how they are stored; prologue and epilogue are left out."""
        image = problem.image
        return {
            "shape": problem.context.shape,
            "groups": problem.groups,
            "blocked": problem.blocked,
            "width": problem.width,
            "dtype": image.dtype if image else "computed",
        }

    def emit(
        self, group: Group, problem: Problem, config: Config, target: GpuTarget
    ) -> KernelSource:
        """The kernel of a group: one launch, or one for the moments and one for the rest."""
        parts = (_load(group, problem, target), _scale(group, problem, target))
        parts += (_store(group, problem, target),)
        two = config.launches == 2
        workspace = (group.inputs + len(group.writes),) if two else ()
        names = ("MOMENTS", "REST") if two else ("WHOLE",)
        phases = [Phase(name, parts, workspace) for name in names]
        text = [header("instructions"), "#define CLUSTERS"] if config.cluster else []
        text += [header("group_norm"), _constants(problem, config), *(part.text for part in parts)]
        moments = 2 * problem.span // problem.group
        shared = FLOAT_BYTES * moments if config.cluster else 0
        grid, block = (problem.spans, 1, config.blocks), (config.threads, 1, 1)
        launches: list[Launch] = []
        for i, phase in enumerate(phases):
            bare = Launch(f"{group.name}_{i}", (), grid, block, shared)
            own, launch = _launched(bare, phase, config)
            text.append(own)
            launches.append(launch)
        scratch = (FLOAT_BYTES * moments * config.blocks * problem.spans,) if two else ()
        flops = OPERATIONS * prod(problem.context.shape)
        return KernelSource("\n".join(text), tuple(launches), scratch, flops=flops)
