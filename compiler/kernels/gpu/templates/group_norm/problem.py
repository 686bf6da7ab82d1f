"""Normalisations of groups of channels, and how thread blocks divide them."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd, lcm, prod

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.gpu.epilogue import is_fusible
from compiler.kernels.gpu.operands import CHUNK_BYTES, ELEMENT_BYTES, Operand, find_operand
from compiler.kernels.group import Group, Node
from compiler.kernels.sizes import tensor_extents
from compiler.kernels.tir.fusion import FusionContext
from compiler.target.target import GpuTarget

GROUPED = ("GroupNormalization", "InstanceNormalization")

WARP = 32
MOST_THREADS = 1024

MOST_KEPT = 32
"""Elements that fit the registers of a thread."""

CLUSTERS = (2, 4, 8)
"""Sizes of thread block clusters that every device with clusters has."""

DIVISIONS = (2, 4, 8, 16, 32, 64, 128, 256)
"""Blocks of a span in two launches."""


@dataclass(frozen=True)
class Problem:
    """A normalisation of `groups` groups of an image's channels.

    A vector has `width` elements: channels where the kernel is `blocked`, else pixels. `image` is
    the read that vectors are loaded from; None where elements are computed or stored otherwise.
    """

    anchor: Node[int]
    context: FusionContext
    groups: int
    blocked: bool
    width: int
    image: Operand | None

    @property
    def pixels(self) -> int:
        """Pixels of an image."""
        return prod(self.context.shape[2:])

    @property
    def group(self) -> int:
        """Channels of a group."""
        return self.context.shape[1] // self.groups

    @property
    def span(self) -> int:
        """Adjacent channels that are normalised together: whole groups and whole blocks."""
        return lcm(self.group, self.width) if self.blocked else self.group

    @property
    def spans(self) -> int:
        """Spans of all images."""
        return self.context.shape[0] * self.context.shape[1] // self.span

    @property
    def mixed(self) -> bool:
        """Whether a span has several groups, so that each warp has one channel block."""
        return self.span > self.group

    @property
    def lines(self) -> int:
        """Channel blocks of a span."""
        return self.span // self.width

    @property
    def vectors(self) -> int:
        """Vectors that the blocks of a span divide; those of one channel block if it is mixed."""
        return self.pixels if self.mixed else self.span * self.pixels // self.width


@dataclass(frozen=True)
class Config:
    """Threads of a block, and blocks of a span: a cluster, or those of two launches."""

    threads: int
    blocks: int = 1
    cluster: bool = False

    @property
    def launches(self) -> int:
        """Launches of the kernel."""
        return 1 if self.cluster or self.blocks == 1 else 2


def read_group_norm(group: Group) -> Problem | None:
    """The problem of a group around one float32 normalisation of images; else None."""
    anchor = group.only(*GROUPED)
    if anchor is None or not is_fusible(group, anchor):
        return None
    context = FusionContext(group, anchor)
    shape = context.shape
    rest = context.operands[1:]
    by_channel = all(own is not None and tensor_extents(own) == (shape[1],) for own in rest)
    wide = {group.values[i].dtype for i in (*anchor.inputs, *anchor.outputs) if i is not None}
    if wide != {"float32"} or not by_channel or len(shape) < 3 or not prod(shape):
        return None
    grouped = anchor.type == "GroupNormalization"
    groups = anchor.attributes["num_groups"] if grouped else shape[1]
    image = find_operand(group, anchor.inputs[0])
    block = group.writes[0].block or (image.block if image else 0)
    width = block or _pixel_vector(image, prod(shape[2:]))
    if image and (image.block != block or not image.view.flags.c_contiguous):
        image = None
    problem = Problem(
        anchor=anchor,
        context=context,
        groups=groups,
        blocked=block > 0,
        width=width,
        image=image,
    )
    return problem if not problem.mixed or problem.lines <= MOST_THREADS // WARP else None


def _pixel_vector(image: Operand | None, pixels: int) -> int:
    """Pixels of a vector of a row-major image."""
    chunk = CHUNK_BYTES // (ELEMENT_BYTES[image.dtype] if image else 4)
    return gcd(chunk, pixels)


def configs_of(problem: Problem, target: GpuTarget) -> Iterator[Config]:
    """The configs whose registers hold a span, the fewest blocks first; one thread has no less
    than a vector unless a warp suffices."""
    sizes = [(1, False)]
    sizes += [(blocks, True) for blocks in CLUSTERS if target.has_clusters]
    sizes += [(blocks, False) for blocks in DIVISIONS]
    for blocks, cluster in sizes:
        for threads in _threads(problem):
            config = Config(threads, blocks, cluster)
            fits = items(problem, config) * problem.width <= MOST_KEPT
            if fits and (_is_busy(problem, config) or config == Config(_threads(problem)[0])):
                yield config


def items(problem: Problem, config: Config) -> int:
    """Vectors of a thread."""
    return ceil_div(share(problem, config), _step(problem, config))


def share(problem: Problem, config: Config) -> int:
    """Vectors of a block; in a mixed span those of each channel block."""
    return ceil_div(problem.vectors, config.blocks)


def _step(problem: Problem, config: Config) -> int:
    return config.threads // problem.lines if problem.mixed else config.threads


def _is_busy(problem: Problem, config: Config) -> bool:
    """Whether more than half of the threads have a vector, and the last block has one."""
    own = share(problem, config)
    return 2 * own > _step(problem, config) and own * (config.blocks - 1) < problem.vectors


def _threads(problem: Problem) -> list[int]:
    if not problem.mixed:
        return [32, 64, 128, 256, 512, 1024]
    counts = (WARP * problem.lines * warps for warps in (1, 2, 3, 4, 6, 8, 12, 16))
    return [threads for threads in counts if threads <= MOST_THREADS]
