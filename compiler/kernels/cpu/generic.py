"""The schedule that fits every group: attach statistics to rows, vectorise.

Root nests get a grid of blocks; inside, the innermost loop is contiguous where the data allow,
and LLVM's loop vectoriser does the rest.
"""

from collections.abc import Sequence
from contextlib import suppress

from tvm import s_tir
from tvm.s_tir.schedule import LoopRV, SBlockRV

from compiler.kernels.group import Group
from compiler.kernels.sizes import RUN_ATTRIBUTE, at_hint, is_long, is_number, variable_of
from compiler.kernels.template import KernelSource
from compiler.kernels.tir.access import BlockFacts, can_fuse, divisor_below, facts, loop_extent
from compiler.kernels.tir.function import generic_function, is_opaque, with_parameters
from compiler.target.target import CpuTarget

BLOCK_WORK = 1 << 15
"""Innermost iterations that one block of a grid should have, about 10 to 100 us."""

UNROLLED_WINDOW = 32
"""Up to this many terms, a window's sum is unrolled inside the innermost loop."""

INNER_WORK = 16
"""Iterations that the vectorised innermost loops should have together."""


FLAT_WORK = 1 << 10
"""Iterations that the fused innermost loop of a map should have."""

LINES = 16
"""The most cache lines that a transposition goes through side by side."""

LEAST_LINES = 7
"""The fewest lines that pay."""


def schedule_cpu(group: Group, target: CpuTarget, attach: bool = True) -> KernelSource:
    """Lower a group and schedule it without knowing what it computes.

    Without `attach` every stage that cannot be inlined is a separate launch, through workspaces.
    """
    function = generic_function(group)
    if is_opaque(group):
        return KernelSource(function=function)
    # TVM wants every variable defined, and some occur in attributes alone, not in a buffer's shape
    symbols = [*map(variable_of, group.symbols)]
    sized = with_parameters(function, [*function.params, *symbols])
    schedule = s_tir.Schedule(sized, debug_mask="none")
    nests = GenericSchedule(schedule, attach)
    nests.apply()
    main = schedule.mod["main"]
    main = with_parameters(main, [*main.params][: len(function.params)])  # a launch defines them
    return KernelSource(function=main, reassociate=nests.reduces, whole_loops=True)


class GenericSchedule:
    """Schedules the blocks of one function, from the results backwards."""

    def __init__(self, schedule: s_tir.Schedule, attach: bool):
        self.schedule = schedule
        self.attach = attach
        self.reduces = False
        self.row_loops: list[tuple[LoopRV, tuple[int, ...]]] = []

    def apply(self) -> None:
        """Give each block a place."""
        blocks = self.root_blocks()
        known = [facts(self.schedule, block) for block in blocks]
        self.reduces = any(f.reduces for f in known)
        hosts = self.hosts(blocks, known)
        for number in reversed(range(len(blocks))):
            if hosts[number] == number:
                guests = [known[i] for i, host in enumerate(hosts) if host == number != i]
                row = self.nest(blocks[number], known[number], guests)
                for guest in reversed(range(number)):
                    if hosts[guest] == number:
                        self.place(blocks[guest], known[guest], row)

    def root_blocks(self) -> list[SBlockRV]:
        """The blocks under the root, in order."""
        return list(self.schedule.get_child_blocks(self.schedule.get_sblock("root")))

    def hosts(self, blocks: list[SBlockRV], known: list[BlockFacts]) -> list[int]:
        """For each block the block in whose rows it is computed; itself where it is a nest."""
        names = [f.name for f in known]
        hosts = list(range(len(blocks)))
        for number in reversed(range(len(blocks))):
            if known[number].output or not self.attach:
                continue
            readers = {
                hosts[names.index(facts(self.schedule, c).name)]
                for c in self.schedule.get_consumers(blocks[number])
            }
            if len(readers) == 1 and self.fits(known[number], known[next(iter(readers))], known):
                hosts[number] = readers.pop()
        return hosts

    def fits(self, guest: BlockFacts, host: BlockFacts, known: list[BlockFacts]) -> bool:
        """Whether computing a block in the host's rows repeats no work."""
        if host.reduces and not host.output:
            return False
        if guest.buffer not in host.used:
            return True
        varying = host.used[guest.buffer]
        outer = [axis for axis in self.outer_axes(host, []) if is_long(host.extents[axis])]
        if guest.reduces:
            return len(host.direct[guest.buffer]) > 0 or not any(map(is_long, guest.extents))
        return all(axis in varying for axis in outer)

    def outer_axes(self, host: BlockFacts, guests: Sequence[BlockFacts]) -> list[int]:
        """The spatial axes of a nest that run over rows: those that all its guests vary with."""
        axes = list(range(host.spatial))
        inner_reduction = host.reduces and host.reduce_inner
        for guest in guests:
            if guest.reduces:
                inner_reduction = inner_reduction or guest.reduce_inner
            if guest.reduces and guest.buffer in host.direct:
                axes = [axis for axis in axes if axis in host.direct[guest.buffer]]
        invariant = len(axes) < sum(map(is_long, host.extents[: host.spatial]))
        if inner_reduction or (invariant and self.keeps_last(host, axes)):
            return axes
        work = 1
        while axes and work < INNER_WORK:
            work *= at_hint(host.extents[axes.pop()])
        return axes

    def keeps_last(self, host: BlockFacts, axes: Sequence[int]) -> bool:
        """Whether a nest's innermost axis of more than one element stays inside the rows."""
        long = [axis for axis in range(host.spatial) if is_long(host.extents[axis])]
        return not long or long[-1] not in axes

    def nest(
        self, block: SBlockRV, known: BlockFacts, guests: Sequence[BlockFacts]
    ) -> LoopRV | None:
        """Give a root block its grid, rows and inner loops; returns the row loop."""
        loops = list(self.schedule.get_loops(block))
        if len(loops) != len(known.extents):
            return None
        spatial, reduced = loops[: known.spatial], loops[known.spatial :]
        outer = self.outer_axes(known, guests)
        inner = [axis for axis in range(known.spatial) if axis not in outer]
        row = None
        work = known.count(inner) * known.count(known.reduced)
        work *= max([1, *(guest.count(guest.reduced) for guest in guests)])
        order = [spatial[axis] for axis in (*outer, *inner)]
        if outer != list(range(len(outer))):
            self.schedule.reorder(*order)
        if not guests and not known.reduces:
            return self.flat(known, order)
        if outer:
            row = self.grid([spatial[axis] for axis in outer], work)
        self.arrange(block, [spatial[axis] for axis in inner], reduced, known)
        return row

    def flat(self, known: BlockFacts, loops: list[LoopRV]) -> None:
        """A nest without reductions: the contiguous innermost axes become one loop."""
        outer = [axis for axis in range(known.spatial) if is_long(known.extents[axis])]
        units = [axis for axis in range(known.spatial) if not is_long(known.extents[axis])]
        if units and outer:
            self.schedule.reorder(*[loops[axis] for axis in (*units, *outer)])
        strided = self.strided_axis(known, outer)
        if strided is not None and self.transposed(known, loops, outer, strided):
            return
        inner = [outer.pop()] if outer else []
        while outer and known.count(inner) < FLAT_WORK:
            if not can_fuse(known, outer[-1], inner[0]):
                break
            inner.insert(0, outer.pop())
        work = known.count(inner)
        sized = not all(is_number(known.extents[axis]) for axis in inner)
        whole = [loops[axis] for axis in inner]
        if len(inner) > 1:
            whole = [self.schedule.fuse(*whole)]
        if outer:
            self.grid([loops[axis] for axis in outer], work)
        elif len(inner) == 1 or sized:
            self.grid(whole, 1)

    def strided_axis(self, known: BlockFacts, axes: Sequence[int]) -> int | None:
        """The axis along which a read is contiguous while the result is so along the last one."""
        for plain, shape, _ in known.accesses:
            long = [axis for axis, extent in zip(plain, shape, strict=True) if is_long(extent)]
            if long and long[-1] in axes[:-1] and axes[-1] in long:
                return long[-1]
        return None

    def transposed(
        self, known: BlockFacts, loops: list[LoopRV], axes: Sequence[int], strided: int
    ) -> bool:
        """A nest that walks along few lines of cache side by side, so that each is read once.

        Returns whether there is such a nest: the lines are those of the read, else of the result.
        """
        last = axes[-1]
        for across, along in ((last, strided), (strided, last)):
            width = known.extents[across]
            lines = divisor_below(width, LINES) if is_number(width) else 1
            if lines >= LEAST_LINES:
                outer = [loops[axis] for axis in axes if axis not in (across, along)]
                whole = [width // lines, lines]
                blocks, inner = self.schedule.split(loops[across], whole)
                self.schedule.reorder(*outer, blocks, loops[along], inner)
                self.grid([*outer, blocks], known.count([along]) * lines)
                return True
        return False

    def grid(self, loops: list[LoopRV], work: int) -> LoopRV:
        """Fuse loops and split them into blocks of enough work; returns the loop inside a block.

        A loop over symbols stays whole: its launch has runs of it as blocks.
        """
        fused = self.schedule.fuse(*loops) if len(loops) > 1 else loops[0]
        extent = loop_extent(self.schedule, fused)
        if not is_number(extent):
            self.schedule.parallel(fused)
            self.schedule.annotate(fused, RUN_ATTRIBUTE, max(1, BLOCK_WORK // max(1, work)))
            return fused
        rows = divisor_below(extent, max(1, BLOCK_WORK // max(1, work)))
        blocks, row = self.schedule.split(fused, [extent // rows, rows])
        if extent > rows:
            self.schedule.parallel(blocks)
        return row

    def place(self, block: SBlockRV, known: BlockFacts, row: LoopRV | None) -> None:
        """Compute a block inside a row of its host."""
        if row is None:
            loops = list(self.schedule.get_loops(block))
            own = loops
        else:
            self.schedule.compute_at(block, row, preserve_unit_loops=True)
            loops = list(self.schedule.get_loops(block))
            own = loops[len(loops) - len(known.extents) :]
        if known.reduces:
            self.arrange(block, own[: known.spatial], own[known.spatial :], known)

    def arrange(
        self, block: SBlockRV, spatial: list[LoopRV], reduced: list[LoopRV], known: BlockFacts
    ) -> None:
        """Order a reduction's loops for its memory, and set its start value before them."""
        if not reduced:
            return
        reduced = self.fused(reduced, known)
        inner = [loop for loop in spatial if is_long(loop_extent(self.schedule, loop))]
        if not known.reduce_inner and self.is_window(known):
            self.start_before(block, reduced[0])
            for loop in reduced:
                self.schedule.unroll(loop)
            return
        if not known.reduce_inner and inner:
            work = 1
            last: list[LoopRV] = []
            while inner and work < INNER_WORK:
                last.insert(0, inner.pop())
                work *= at_hint(loop_extent(self.schedule, last[0]))
            self.schedule.reorder(*reduced, *last)
        self.start_before(block, reduced[0])

    def is_window(self, known: BlockFacts) -> bool:
        """Whether a reduction has few terms, whatever the sizes."""
        numbers = all(is_number(known.extents[axis]) for axis in known.reduced)
        return numbers and known.count(known.reduced) <= UNROLLED_WINDOW

    def fused(self, reduced: list[LoopRV], known: BlockFacts) -> list[LoopRV]:
        """The loops of a reduction; those that walk memory as one become one where it is inner."""
        whole = [reduced[0]]
        for axis, loop in enumerate(reduced[1:], known.spatial + 1):
            if known.reduce_inner and can_fuse(known, axis - 1, axis):
                whole[-1] = self.schedule.fuse(whole[-1], loop)
            else:
                whole.append(loop)
        return whole

    def start_before(self, block: SBlockRV, loop: LoopRV) -> None:
        """Set a reduction's start value before a loop, when the rows' index lets TVM prove it may.

        Otherwise it stays inside, under a test for the first iteration: slower, but as correct.
        """
        with suppress(s_tir.ScheduleError):
            self.schedule.decompose_reduction(block, loop)
