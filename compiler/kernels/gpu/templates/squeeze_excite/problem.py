"""Squeeze-and-excitation: its operators in a group, and how the blocks of a cluster divide them."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd, prod

from compiler.graph.fusion.squeeze_excite import find_squeeze_excites
from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.gpu.operands import Operand, find_operand
from compiler.kernels.group import Group, Node
from compiler.net.operators import facts_of
from compiler.target.target import GpuTarget
from compiler.tensors.dtypes import ELEMENT_BYTES

CLUSTERS = (8, 4, 2, 1)
THREADS = (512, 1024, 256)

SHARED_BYTES = 40 << 10
"""Most bytes of shared memory that a block's sums, means and gates may take."""


@dataclass(frozen=True)
class Problem:
    """x * gate(second(hidden(first(mean(x))))) of an image x of `shape`.

    A vector has `width` elements: channels where the image is `blocked`, else pixels. `squeezed`
    is the value that the second convolution reads, `gate` the one that channels are multiplied by.
    Weights that are `constant` may be read before predecessors end.
    """

    shape: tuple[int, ...]
    image: Operand
    first: Node[int]
    second: Node[int]
    weights: tuple[Operand, Operand]
    squeezed: int
    gate: int
    blocked: bool
    width: int
    constant: bool

    @property
    def pixels(self) -> int:
        """Pixels of an image."""
        return prod(self.shape[2:])

    @property
    def hidden(self) -> int:
        """Results of the first convolution."""
        return self.weights[0].view.shape[0]

    @property
    def lanes(self) -> int:
        """Channels of a vector."""
        return self.width if self.blocked else 1

    @property
    def lines(self) -> int:
        """Channel blocks, or channels of a row-major image."""
        return self.shape[1] // self.lanes

    @property
    def vectors(self) -> int:
        """Vectors of a line."""
        return self.pixels * self.lanes // self.width


@dataclass(frozen=True)
class Config:
    """Threads of a block, and into how many parts a cluster divides channels and pixels."""

    threads: int
    channel_parts: int
    pixel_parts: int

    @property
    def blocks(self) -> int:
        """Blocks of an image."""
        return self.channel_parts * self.pixel_parts


def read_problem(group: Group) -> Problem | None:
    """The problem of a group that is a squeeze-and-excitation and nothing else; else None."""
    (match, *others) = find_squeeze_excites(group) or [None]
    casts = {i for i, op in enumerate(group.operators) if facts_of(op.type).converts}
    if match is None or others or len(group.outputs) > 1:
        return None
    if casts.union(match.operators) != set(range(len(group.operators))):
        return None
    first, second = (group.operators[i] for i in (match.first, match.second))
    image = find_operand(group, match.image)
    weights = tuple(find_operand(group, op.inputs[1]) for op in (first, second))
    before, after = weights
    if (
        image is None
        or before is None
        or after is None
        or image.view.shape != group.writes[0].shape
    ):
        return None
    whole = (x.view.flags.c_contiguous and not x.block for x in weights if x)
    if not all(whole) or not (image.block or image.view.flags.c_contiguous):
        return None
    return Problem(
        shape=image.view.shape,
        image=image,
        first=first,
        second=second,
        weights=(before, after),
        squeezed=match.hidden,
        gate=match.gate,
        blocked=image.block > 0,
        width=image.block or gcd(image.chunk, prod(image.view.shape[2:])),
        constant=all(group.weights[weight.read] for weight in (before, after)),
    )


def configs_of(problem: Problem, target: GpuTarget) -> Iterator[Config]:
    """The configs that leave each block a part and fit shared memory, large clusters first."""
    for blocks in CLUSTERS if target.has_clusters else CLUSTERS[-1:]:
        for channel_parts in (n for n in CLUSTERS if n <= blocks):
            for threads in THREADS:
                config = Config(threads, channel_parts, blocks // channel_parts)
                if _fits(problem, config):
                    yield config


def own_channels(problem: Problem, config: Config) -> int:
    """Channels of a block."""
    return ceil_div(problem.lines, config.channel_parts) * problem.lanes


def stages_of(problem: Problem, config: Config, target: GpuTarget) -> int:
    """The matrices of weights that a block's shared memory has room for at once: 0, 1 or 2."""
    if any(weight.dtype != "float32" for weight in problem.weights):
        return 0
    room = target.shared_bytes - SHARED_BYTES
    fitting = [n for n in (2, 1) if ELEMENT_BYTES["float32"] * staged(problem, config, n) <= room]
    return fitting[0] if fitting else 0


def staged(problem: Problem, config: Config, stages: int) -> int:
    """The floats of shared memory that weights take."""
    own = own_channels(problem, config)
    sizes = sorted((problem.hidden * _pitch(own), own * _pitch(problem.hidden)))
    return sum(sizes[len(sizes) - stages :])


def _pitch(columns: int) -> int:
    """The floats from a row to the next, see squeeze_excite.cuh."""
    return 4 * ceil_div(columns, 4) + 4


def _fits(problem: Problem, config: Config) -> bool:
    whole = _is_whole(problem.lines, config.channel_parts)
    whole = whole and _is_whole(problem.vectors, config.pixel_parts)
    floats = 4 * own_channels(problem, config) + 2 * problem.hidden + 8 * config.threads // 32
    return whole and ELEMENT_BYTES["float32"] * floats <= SHARED_BYTES


def _is_whole(count: int, parts: int) -> bool:
    """Whether no part is empty."""
    return ceil_div(count, parts) * (parts - 1) < count
