"""TopK and sorts, in which blocks sort tiles of rows and merge them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import ml_dtypes
import numpy

from compiler.kernels.arithmetic import ceil_div, round_up
from compiler.kernels.gpu.epilogue import Parameter
from compiler.kernels.gpu.source import header
from compiler.kernels.gpu.structs import constants, kernel, restricted, struct
from compiler.kernels.group import Group, Node
from compiler.kernels.ops.rows import AxisRows, rows_along
from compiler.kernels.template import KernelSource, Template
from compiler.schedule.kernels import Launch
from compiler.target.devices import DEFAULT_SHARED_BYTES
from compiler.target.target import GpuTarget
from compiler.tensors.dtypes import ELEMENT_BYTES

ITEMS = 8
"""Entries of a thread."""

WARP_ROUNDS = 5
"""Merges after which the entries of a warp are one list."""

POSITION_BYTES = 4

SAMPLES = 16
"""Samples of a sorted tile, and the most tiles of a row that one launch merges."""

MOST_SHARED = DEFAULT_SHARED_BYTES - 1024
"""Bytes of shared memory for the entries and samples of a merge, which has some numbers besides."""


@dataclass(frozen=True)
class Config:
    """Threads of a block, which sorts or writes `ITEMS` times as many entries: its tile."""

    threads: int

    @property
    def tile(self) -> int:
        """The entries of a block."""
        return self.threads * ITEMS


@dataclass(frozen=True)
class Sorting:
    """A launch that sorts the segments of rows of `length` places, and keeps the first of each.

    The first one reads the tensor, later ones read lists. The `segment` is a power of two.
    """

    length: int
    segment: int
    kept: int
    blocks: int

    @property
    def lists(self) -> int:
        """The segments of a row."""
        return ceil_div(self.length, self.segment)

    @property
    def stored(self) -> int:
        """The places of a row of the lists that it writes."""
        return self.lists * self.kept

    @property
    def merges(self) -> float:
        """How often a block merges its entries; by shuffles within a warp it takes a fifth."""
        rounds = (self.segment // ITEMS).bit_length() - 1
        return 1 + 0.2 * min(rounds, WARP_ROUNDS) + max(0, rounds - WARP_ROUNDS)

    def steps(self, tile: int) -> int:
        """Entries that all blocks move: `ITEMS` times in registers, then once a step of a merge."""
        rounds = (self.segment // ITEMS).bit_length() - 1
        steps = sum(2 + i if i < WARP_ROUNDS else 1 for i in range(rounds))
        return self.blocks * tile * (ITEMS + steps)


@dataclass(frozen=True)
class Merging:
    """A launch that merges pairs of lists of `width` places in rows of `length` places.

    Of each list the first `kept` are wanted at most.
    """

    length: int
    width: int
    kept: int
    blocks: int
    merges = 3

    @property
    def stored(self) -> int:
        """The places of a row that it writes, some of which stay empty."""
        return self.length

    def steps(self, tile: int) -> int:
        """Entries moved by all blocks, and the comparisons of bisections."""
        own = 2 * tile + tile // ITEMS * tile.bit_length()
        return self.blocks * (own + 2 * self.width.bit_length())


@dataclass(frozen=True)
class SampledMerge:
    """The last launch of rows of a few sorted tiles, which merges them all at once.

    A block of twice the threads has the entries between two samples, of a tile on average.
    """

    lists: int
    blocks: int

    @property
    def merges(self) -> int:
        """How often a block merges its entries; finding them takes as long as three times."""
        return 3 + (self.lists - 1).bit_length()

    def fits(self, tile: int) -> bool:
        """Whether two tiles hold what may be between samples, each list in whole threads."""
        between = tile + (self.lists - 1) * (tile // SAMPLES - 1)
        return self.lists <= SAMPLES and between + self.lists * (ITEMS - 1) <= 2 * tile

    def steps(self, tile: int) -> int:
        """Entries moved by all blocks, and the comparisons of and with samples."""
        ranked = self.lists**2 * SAMPLES * SAMPLES.bit_length()
        divided = 2 * self.lists * tile // SAMPLES
        return self.blocks * (2 * tile * (self.merges - 2) + ranked + divided)


@dataclass(frozen=True)
class Problem(AxisRows):
    """The first `count` elements of each row."""

    operator: Node[int]
    dtype: str
    count: int
    largest: bool

    @property
    def entry_bytes(self) -> int:
        """The bytes of a key and a position: keys of fewer than 32 bits are widened."""
        return 16 if ELEMENT_BYTES[self.dtype] == 8 else 4 + POSITION_BYTES

    def launches(self, config: Config) -> Sequence["Step"]:
        """The launches with a config.

        If at most half of a tile is wanted, the first of each tile become rows that are sorted
        again; else tiles are merged, a few at once and many in pairs. Each takes O(n log n) steps
        for a row of n.
        """
        if self.length <= config.tile or 2 * self.count <= config.tile:
            return [*self._selections(config)]
        return [*self._merges(config)]

    def _selections(self, config: Config) -> Iterator[Sorting]:
        length = self.length
        while True:
            segment = min(config.tile, max(ITEMS, 1 << (length - 1).bit_length()))
            segments = self.rows * ceil_div(length, segment)
            blocks = ceil_div(segments * segment, config.tile)
            sorting = Sorting(length, segment, self.count, blocks)
            yield sorting
            if sorting.lists == 1:
                return
            length = sorting.stored

    def _merges(self, config: Config) -> Iterator["Step"]:
        tile = config.tile
        length, kept = round_up(self.length, tile), round_up(self.count, tile)
        yield Sorting(self.length, tile, tile, self.rows * length // tile)
        at_once = SampledMerge(length // tile, self.rows * kept // tile)
        entries = 2 * tile * (ITEMS + 1) // ITEMS + at_once.lists * SAMPLES
        if at_once.fits(tile) and entries * self.entry_bytes <= MOST_SHARED:
            yield at_once
            return
        width = tile
        while width < length:
            pairs = ceil_div(length, 2 * width)
            tiles = min(2 * min(width, kept), kept) // tile
            yield Merging(length, width, kept, self.rows * pairs * tiles)
            width *= 2

    def workspaces(self, config: Config) -> tuple[int, ...]:
        """The bytes of the lists that launches write in turns; the last one writes the results."""
        launches = self.launches(config)[:-1]
        stored = [launch.stored for launch in launches if not isinstance(launch, SampledMerge)]
        sizes = [max(own, default=0) for own in (stored[::2], stored[1::2])]
        return tuple(self.rows * size * self.entry_bytes for size in sizes if size)

    def steps(self, config: Config) -> int:
        """Entries moved and compared by all launches."""
        return sum(launch.steps(config.tile) for launch in self.launches(config))


Step = Sorting | Merging | SampledMerge
"""A launch."""


def read_top_k(group: Group) -> Problem | None:
    """The TopK that a group is, along any axis of a row-major tensor; None for any other group."""
    anchor = group.only("TopK")
    if anchor is None or len(group.operators) > 1 or anchor.operand(0) >= group.inputs:
        return None
    info = group.values[anchor.operand(0)]
    if any(tensor.block for tensor in (info, *group.writes)) or not group.writes[0].elements:
        return None
    axis: int = anchor.attributes["axis"]
    outer, length, inner = rows_along(info.shape, axis)
    return Problem(
        outer=outer,
        length=length,
        inner=inner,
        operator=anchor,
        dtype=info.dtype,
        count=group.writes[0].shape[axis],
        largest=bool(anchor.attributes["largest"]),
    )


def _call(launch: Step, first: bool, target: str) -> str:
    """The function that a launch calls."""
    if isinstance(launch, SampledMerge):
        return f"merge_sampled<Problem, {launch.lists}, {SAMPLES}>(entries, {target})"
    if isinstance(launch, Merging):
        sizes = f"{launch.length}, {launch.width}, {launch.kept}"
        return f"merge_lists<Problem, {sizes}>(entries, {target})"
    source = "Elements<Problem>{data}" if first else f"Entries<Problem, {launch.length}>{{entries}}"
    return f"sort_tiles<Problem, {launch.length}, {launch.segment}>({source}, {target})"


def _lists(launch: Sorting | Merging) -> str:
    """The lists that the next launch reads: a launch writes its entries there."""
    if isinstance(launch, Merging):
        return f"Lists<Problem, {launch.length}, {2 * launch.width}, {launch.kept}>{{lists}}"
    return f"Lists<Problem, {launch.stored}, {launch.kept}, {launch.kept}>{{lists}}"


_RESULTS = (("Problem::Bits*", "values"), ("int64_t*", "positions"))
"""The C types and names of an operator's results."""


def _written(group: Group, problem: Problem) -> list[int]:
    """Which of an operator's results a group writes, in its order."""
    return [problem.operator.outputs.index(number) for number in group.outputs]


def result_parameters(group: Group, problem: Problem) -> list[Parameter]:
    """The results that a group writes."""
    written = enumerate(_written(group, problem), group.inputs)
    results = ((*_RESULTS[which], number) for number, which in written)
    return [restricted(kind, name, number) for kind, name, number in results]


def results_text(group: Group, problem: Problem) -> str:
    """Where the last launch writes entries: the results, of which one may be missing."""
    written = _written(group, problem)
    given = [own if which in written else "nullptr" for which, (_, own) in enumerate(_RESULTS)]
    return f"Results<Problem>{{data, {', '.join(given)}}}"


def problem_text(problem: Problem, others: Mapping[str, int]) -> str:
    """The problem as types and constants, with other constants.

    `INFINITE` has the bits of a float's infinity.
    """
    size = ELEMENT_BYTES[problem.dtype]
    floating = "float" in problem.dtype
    kind = "FLOATING" if floating else "SIGNED" if problem.dtype.startswith("int") else "UNSIGNED"
    values = {
        **others,
        "ROWS": problem.rows,
        "INNER": problem.inner,
        "LENGTH": problem.length,
        "COUNT": problem.count,
    }
    lines = [
        f"  using Bits = uint{8 * size}_t;",
        f"  using Key = uint{max(32, 8 * size)}_t;",
        f"  static constexpr Kind KIND = {kind};",
        f"  static constexpr bool LARGEST = {str(problem.largest).lower()};",
        f"  static constexpr uint64_t INFINITE = {_infinite(problem.dtype) if floating else 0}ull;",
        *constants(values),
    ]
    return struct("Problem", lines)


def _infinite(dtype: str) -> int:
    infinity = numpy.array(
        numpy.inf, ml_dtypes.bfloat16 if dtype == "bfloat16" else numpy.dtype(dtype)
    )
    return int(infinity.view(f"uint{8 * infinity.itemsize}"))


LAUNCH_US, MERGE_US, REGISTERS = 2.2, 2.0, 80
"""Microseconds of a launch with its loads and stores, and of one merge of a tile with its two
barriers, mostly accesses of shared memory; registers of a thread."""

ENTRIES = 2.6e3
"""Entries that an SM merges in a microsecond: with merges in shared memory alone the 20 largest of
1,024 rows of 1,024 took 48 us on an H200."""


class SortRows(Template[Problem, Config, GpuTarget]):
    """A group that is a TopK: of any count, along any axis, in at most n log n steps a row.

    Of equal elements the earlier comes first, NaN counts as the largest: the same bits every time.
    """

    name = "top_k"

    def problem(self, group: Group, target: GpuTarget) -> Problem | None:
        """The only TopK of a group."""
        return read_top_k(group)

    def configs(self, problem: Problem, target: GpuTarget) -> Iterable[Config]:
        """Blocks of whole warps; large ones merge less often."""
        yield from (Config(threads) for threads in (256, 128, 64))

    def estimate_ns(self, problem: Problem, config: Config, target: GpuTarget) -> float:
        """Waves of blocks, each with the latency of its merges, and the traffic of all launches."""
        device = target.device
        total = 0.0
        shared = config.tile * problem.entry_bytes
        resident = device.sms * device.resident_blocks(config.threads, REGISTERS, shared)
        for launch in problem.launches(config):
            waves = ceil_div(launch.blocks, resident)
            traffic = 2 * launch.blocks * shared / device.bandwidth / 1000
            tiles = launch.blocks * (2 if isinstance(launch, SampledMerge) else 1)
            moved = tiles * config.tile * launch.merges / (device.sms * ENTRIES)
            total += LAUNCH_US + max(traffic, moved, waves * MERGE_US * launch.merges)
        return 1e3 * total

    def emit(
        self, group: Group, problem: Problem, config: Config, target: GpuTarget
    ) -> KernelSource:
        """The kernel of a group: launches write lists to two workspaces in turns."""
        launches = problem.launches(config)
        workspaces = problem.workspaces(config)
        data = restricted("const Problem::Bits*", "data", problem.operator.operand(0))
        scratch = group.inputs + len(group.outputs)
        own = {"THREADS": config.threads, "ITEMS": ITEMS}
        parts = [header("top_k"), "\n", problem_text(problem, own)]
        made: list[Launch] = []
        for i, launch in enumerate(launches):
            first, last = i == 0, i == len(launches) - 1
            parameters = [data] if first or last else []
            if not first:
                kind = "const EntryOf<Problem>*"
                parameters.append(restricted(kind, "entries", scratch + (i - 1) % 2))
            if last:
                parameters += result_parameters(group, problem)
                to = results_text(group, problem)
            else:
                assert not isinstance(launch, SampledMerge), (
                    "it writes whole rows, so it is the last"
                )
                parameters.append(restricted("EntryOf<Problem>*", "lists", scratch + i % 2))
                to = _lists(launch)
            threads = config.threads * (2 if isinstance(launch, SampledMerge) else 1)
            bare = Launch(f"{group.name}_{i}", (), (launch.blocks, 1, 1), (threads, 1, 1))
            text, complete = kernel(bare, parameters, _call(launch, first, to))
            parts.append(text)
            made.append(complete)
        return KernelSource("".join(parts), tuple(made), workspaces)
