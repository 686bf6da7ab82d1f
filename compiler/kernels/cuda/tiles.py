"""Choosing the tile of a contraction and how many shares its sums are split into."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from math import log

from compiler.errors import KernelError
from compiler.kernels.cuda.problem import STEP_BYTES, Form, Problem
from compiler.kernels.cuda.target import CudaTarget

PROCESSORS = {80: 108, 86: 84, 89: 128, 90: 132, 100: 148, 103: 148, 120: 170}
"""Streaming multiprocessors by compute capability; 132 where not listed."""

SHAPES = (
    (16, 64, 16, 16),
    (16, 128, 16, 32),
    (32, 32, 16, 16),
    (32, 64, 16, 32),
    (64, 32, 32, 16),
    (32, 128, 32, 32),
    (64, 64, 32, 32),
    (64, 64, 32, 16),
    (64, 128, 32, 32),
    (64, 128, 32, 64),
    (128, 64, 32, 32),
    (128, 64, 64, 32),
    (128, 128, 64, 32),
    (128, 128, 32, 64),
)
"""Rows and columns of a block's tile and of each of its four or eight warps'."""

SHARES = (1, 2, 3, 4, 6, 8, 12, 16)
STAGES = (3, 6)
"""Fewest and most stages: enough to hide memory's latency behind the steps."""

CLUSTER, CLUSTER_CAPABILITY = 8, 90
"""Most blocks of a portable cluster, and the first compute capability that has them."""

WIDE_ROWS, WIDE_COLUMNS, WIDE_ALIGNMENT = (64, 128), (32, 64, 96, 128), 1024
"""Rows of wide tiles, the columns that warpgroups multiply at once, bytes of a swizzle."""

WIDE_SHAPES = (*product(WIDE_ROWS, WIDE_COLUMNS), (128, 192), (128, 256), (256, 64), (256, 128))
"""Rows and columns of wide tiles; the last need fewer bytes of the L2 cache for a product."""

WIDE_STAGES = (4, 8)
"""Fewest and most stages of wide tiles."""

WIDE_START_US, WIDE_CLUSTER_US, WIDE_MEMBER_US = 2.6, 1.2, 0.2
"""Beginning and ending a kernel of wide tiles, adding shares in a cluster, each block of it."""

WIDE_RESULTS = 5e3
"""Results a microsecond that one processor stores after warpgroups."""

WIDE_PROCESSOR_BYTES, WIDE_CACHE_BYTES = 0.1e6, 9e6
"""Bytes a microsecond that one processor and all of them copy for warpgroups."""

WIDE_RATES = {"tf32": 1.5e6, "fp16": 3e6, "bf16": 3e6}
"""Multiply-adds a microsecond of the warpgroups of one processor."""

RESERVED = 1024
"""Bytes of shared memory that each block takes beside its own."""

TABLE_DEPTH = 1024
"""Up to this many k, a table of taps is kept in shared memory; see LineCopies."""

WARPS, REGISTERS = 64, 65536
"""Warps and registers of a processor."""

START_US, WAVE_US, SHARE_US = 0.51, 0.61, 0.59
"""Launching, beginning and ending each wave of blocks, adding shares by a second launch."""

CLUSTER_US, MEMBER_US = 0.89, 0.43
"""Adding shares within a cluster, and for each of its blocks."""

STEP_US, WARP_US = 0.086, 0.0047
"""What a step takes at least, and for each warp that waits at its barrier."""

RATES = {"fp32": 0.1e6, "tf32": 0.67e6, "fp16": 1.2e6, "bf16": 1.2e6}
"""Multiply-adds a microsecond of one processor when operands are in shared memory."""

FRAGMENT_BYTES, LINE_ELEMENTS = 0.16e6, 0.33e6
"""Bytes of operands a microsecond that warps of one processor load from shared memory, and elements
that it copies there one by one."""

SCATTERED_CHUNKS = 1.8e3
"""Chunks of 16 bytes a microsecond that one processor copies where a step has several taps."""

CACHE_BYTES, REUSE = 4.2e6, 0.76
"""Bytes a microsecond that all processors copy from the L2 cache, and how much of a window's image
they do, since taps overlap in the first level."""

RESULT_BYTES = 12.3e3
"""Bytes of results a microsecond that one processor stores."""

SHARES_BYTES = 5.7e6
"""Bytes a microsecond that shares of a second launch take."""

SLOWEST = 1.6
"""Tiles with an estimate of this many times the least are not worth measuring: of 288 problems that
were measured on an H200, the fastest tile's was at most 1.38 times it."""


@dataclass(frozen=True)
class Tile:
    """A block's and a warp's rows and columns, shares of k, pipeline stages, lanes of a
    warp.

    A wide tile is multiplied by warpgroups, whose warps take 16 rows and all columns each. An early
    one begins to copy weights before its kernel waits for the launches before; with `release` the
    launches behind it may begin once its steps are done. With `patch` a tile's part of the image is
    copied once for all taps; see patch.cuh.
    """

    rows: int
    columns: int
    warp_rows: int
    warp_columns: int
    shares: int
    stages: int = STAGES[0]
    lanes: int = 32
    wide: bool = False
    early: bool = False
    release: bool = False
    patch: bool = False

    def in_cluster(self, target: CudaTarget) -> bool:
        """Whether the blocks that share k are one cluster, which adds their sums."""
        return 1 < self.shares <= CLUSTER and target.capability >= CLUSTER_CAPABILITY

    def launches(self, target: CudaTarget) -> int:
        """One, and one more where shares are added by a launch of their own."""
        return 1 if self.shares == 1 or self.in_cluster(target) else 2

    @property
    def shape(self) -> tuple[int, ...]:
        """What tiles have in common that differ by their shares, stages and neighbours only."""
        return self.rows, self.columns, self.warp_rows, self.warp_columns, int(self.patch)

    @property
    def overlaps(self) -> bool:
        """Whether the kernel overlaps with those before or behind it more than others do."""
        return self.early or self.release

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.lanes * (self.rows // self.warp_rows) * (self.columns // self.warp_columns)


def stage_bytes(problem: Problem, tile: Tile) -> int:
    """Shared memory of one stage, padded as in operands.cuh."""
    row, column = STEP_BYTES + 16, STEP_BYTES
    if tile.patch:
        right = 0
    elif problem.form is Form.LINES:
        right = problem.step * (tile.columns + 8) * problem.element_bytes
    else:
        right = tile.columns * (row if problem.form is Form.ROWS else column)
    return tile.rows * row + right


def patch_pixels(problem: Problem, tile: Tile) -> int:
    """The pixels that the taps of a tile's columns read, on one line through the image."""
    gather, reach = problem.gather, 0
    for source, window, dilation in zip(
        gather.source, gather.window, gather.dilations, strict=True
    ):
        reach = reach * source + (window - 1) * dilation
    return tile.columns + reach


def patch_bytes(problem: Problem, tile: Tile) -> int:
    """Shared memory of two patches and of a row of zeros; 0 without patches."""
    return 2 * patch_pixels(problem, tile) * STEP_BYTES + 16 if tile.patch else 0


def staged_bytes(problem: Problem, tile: Tile) -> int:
    """Shared memory of all that is in flight."""
    return tile.stages * stage_bytes(problem, tile) + patch_bytes(problem, tile)


def shared_bytes(problem: Problem, tile: Tile, target: CudaTarget) -> int:
    """Dynamic shared memory of a block: stages, whose place results take, and fetches.

    Late ones take the place of stages too.
    """
    if problem.block:
        result = 4 * tile.columns * (tile.rows + 4)
    else:
        result = 4 * tile.rows * (tile.columns + 8)
    aligned = WIDE_ALIGNMENT if tile.wide else 0
    stages, fetches = staged_bytes(problem, tile), fetch_bytes(problem, tile, target)
    if problem.late:
        return max(stages, result + fetches) + aligned
    return max(stages, result) + fetches + aligned


def shared_room(problem: Problem, target: CudaTarget) -> int:
    """Most dynamic shared memory of one block, beside a table of taps."""
    table = problem.form is Form.LINES and problem.gather.taps > 1 and problem.k <= TABLE_DEPTH
    return target.shared_bytes - RESERVED - (8 * problem.k if table else 0)


def fetch_bytes(problem: Problem, tile: Tile, target: CudaTarget) -> int:
    """Shared memory of what the results depend on."""
    places, edges = problem.fetches
    if not problem.together:
        return 0
    parts = tile.shares if tile.in_cluster(target) else 1
    turns = ceil_div(tile.rows * tile.columns // problem.together, tile.threads * parts)
    edge = tile.rows if problem.block else tile.columns
    return places * turns * tile.threads * 16 + edges * edge * 4


def can_be_wide(problem: Problem, tile: Tile, target: CudaTarget) -> bool:
    """Whether warpgroups can multiply a tile: on Hopper, operands as they lie, one launch."""
    multiplied = (target.precision, problem.dtype) == ("tf32", "float32")
    shape = (tile.rows, tile.columns)
    whole = shape in WIDE_SHAPES and (tile.warp_rows, tile.warp_columns) == (16, tile.columns)
    plain = problem.form is Form.ROWS and not problem.block
    image = problem.form is Form.BLOCKS and problem.count == 1 and _shares_work(problem, tile)
    plain |= image and tile.threads % tile.columns == 0
    ours = multiplied or problem.element_bytes == 2
    fits = target.has_warpgroups and ours and whole
    return fits and plain and tile.launches(target) == 1


def can_patch(problem: Problem, tile: Tile, target: CudaTarget) -> bool:
    """Whether a tile's part of the image is a line of pixels: results lie as their images do."""
    gather = problem.gather
    plain = not gather.transposed and gather.strides == (1, 1, 1)
    alike = gather.source == gather.result and tile.stages - 1 <= gather.taps > 1
    whole = problem.form is Form.BLOCKS and gather.channels % problem.step == 0
    exact = _precision(problem, target) == "fp32"
    return plain and alike and whole and not (exact or tile.wide or tile.early)


def _shares_work(problem: Problem, tile: Tile) -> bool:
    """Whether every share of k has a step."""
    steps = ceil_div(problem.k, problem.step)
    return ceil_div(steps, tile.shares) * (tile.shares - 1) < steps


def early_operand(problem: Problem) -> int:
    """Which operand is copied early: 1 for A, 2 for B, 0 for none.

    It is packed: a weight, which no launch writes.
    """
    packed = [number for number, _ in problem.packings]
    return 1 if problem.left in packed else 2 if problem.right in packed else 0


def can_overlap(problem: Problem, tile: Tile, target: CudaTarget) -> bool:
    """Whether a kernel can be early, if it is, or release: its one launch waits itself."""
    waits = target.programmatic and tile.launches(target) == 1
    copies = early_operand(problem) > 0 and not tile.patch
    return waits and (copies or not tile.early)


def in_order(tile: Tile) -> Tile:
    """A tile that is neither early nor releases what follows."""
    return replace(tile, early=False, release=False)


def overlapping(problem: Problem, tile: Tile, target: CudaTarget) -> list[Tile]:
    """The other tiles that differ from one only by how the kernel overlaps with its neighbours."""
    pairs = product((False, True), repeat=2)
    found = [replace(tile, early=early, release=release) for early, release in pairs]
    return [t for t in found if t != tile and fits_order(problem, t, target)]


def fits_order(problem: Problem, tile: Tile, target: CudaTarget) -> bool:
    """Whether a kernel can overlap with its neighbours as a tile says."""
    return not tile.overlaps or can_overlap(problem, tile, target)


def is_measured(problem: Problem, tile: Tile) -> bool:
    """Whether an estimate alone may choose a tile: its kind is one that estimates were fitted to.

    Images and bfloat16 by warpgroups, fewer stages than these can use, and overlap with neighbours
    win in one problem of six: only what was measured of it or of similar ones chooses these.
    """
    kind = problem.form is Form.ROWS and problem.dtype != "bfloat16"
    timed = kind and tile.stages == _useful_stages(problem, tile)
    return not (tile.overlaps or tile.patch) and (timed or not tile.wide)


def check_tile(problem: Problem, tile: Tile, target: CudaTarget) -> None:
    """Raise KernelError for a tile that the problem or the target cannot have."""
    if tile.wide and not can_be_wide(problem, tile, target):
        raise KernelError(
            f"{target} cannot multiply {problem.form.name} of {problem.dtype} by warpgroups in"
            f" {tile}: choose a tile that is not wide"
        )
    if tile.patch and not can_patch(problem, tile, target):
        raise KernelError(
            f"{target} cannot copy {tile} of this image once for all taps: that needs channel"
            " blocks, stride 1, as many results as pixels, tensor cores, no more stages than taps"
        )
    if not fits_order(problem, tile, target):
        raise KernelError(
            f"a kernel for {target} in {tile} cannot overlap with its neighbours: it has no weights"
            " to copy early, or it takes two launches, or it does not wait itself; choose a tile"
            " that is neither early nor releases"
        )


def ceil_div(a: int, b: int) -> int:
    """The quotient, rounded up."""
    return -(-a // b)


def choose_tile(problem: Problem, target: CudaTarget) -> Tile:
    """The tile with the least estimated time of those that are measured; the largest of equals."""
    tiles = (tile for tile in candidates(problem, target) if is_measured(problem, tile))
    return min(tiles, key=lambda tile: estimate(problem, tile, target))


def candidates(problem: Problem, target: CudaTarget) -> Iterator[Tile]:
    """The tiles that fit the device and leave each share at least one step."""
    for shape in SHAPES:
        for shares in SHARES:
            tile = Tile(*shape, shares)
            whole = _shares_work(problem, tile)
            if whole and _has_room(problem, tile, target):
                yield replace(tile, stages=_stages(problem, tile, target))
            patch = replace(tile, patch=True)
            if whole and can_patch(problem, patch, target) and _has_room(problem, patch, target):
                yield replace(patch, stages=_stages(problem, patch, target))
    yield from wide_candidates(problem, target)


def _has_room(problem: Problem, tile: Tile, target: CudaTarget) -> bool:
    """Whether the fewest stages fit shared memory."""
    return shared_bytes(problem, tile, target) <= shared_room(problem, target)


def wide_candidates(problem: Problem, target: CudaTarget) -> Iterator[Tile]:
    """The wide tiles for problems that fill their rows, with all stages that there is room for."""
    for (rows, columns), shares in product(WIDE_SHAPES, SHARES):
        tile = Tile(rows, columns, 16, columns, shares, WIDE_STAGES[0], wide=True)
        room = shared_room(problem, target) - shared_bytes(problem, tile, target)
        further = room // stage_bytes(problem, tile)
        steps = ceil_div(ceil_div(problem.k, problem.step), shares)
        stages = min(_useful_stages(problem, tile), tile.stages + further)
        fills = problem.m >= rows and steps > 1 and room >= 0
        if fills and can_be_wide(problem, tile, target):
            yield replace(tile, stages=stages)


def _useful_stages(problem: Problem, tile: Tile) -> int:
    """The stages that the steps of a wide tile can use."""
    fewest, most = WIDE_STAGES
    return max(fewest, min(most, ceil_div(ceil_div(problem.k, problem.step), tile.shares) + 2))


def _stages(problem: Problem, tile: Tile, target: CudaTarget) -> int:
    """As many stages as steps can use without keeping blocks from running at once."""
    fewest, most = STAGES
    taken = target.shared_bytes - shared_room(problem, target)
    room = target.shared_bytes // resident_blocks(problem, tile, target) - taken
    room -= fetch_bytes(problem, tile, target) + patch_bytes(problem, tile)
    steps = ceil_div(ceil_div(problem.k, problem.step), tile.shares)
    most = min(most, problem.gather.taps + 1) if tile.patch else most
    return max(fewest, min(most, steps + 1, room // stage_bytes(problem, tile)))


def diverse(problem: Problem, target: CudaTarget, count: int) -> list[Tile]:
    """At most `count` tiles to measure, the one that should be fastest first.

    Of each shape come the tile of the least estimate, those that make about one and two waves of
    blocks, and the others: estimates alone miss the best of some problems by far. Those of a kind
    that no estimate is fitted to come last, patches behind others, ranked among themselves. None
    overlaps with its neighbours: what that is worth shows only between other kernels.
    """
    times = {tile: estimate(problem, tile, target) for tile in candidates(problem, target)}
    kinds = {tile: (not is_measured(problem, tile), tile.patch) for tile in times}
    least, shapes = dict[tuple[bool, bool], float](), dict[tuple[int, ...], list[Tile]]()
    for tile in sorted(times, key=lambda tile: (kinds[tile], times[tile])):
        if times[tile] <= SLOWEST * least.setdefault(kinds[tile], times[tile]):
            shapes.setdefault(tile.shape, []).append(tile)
    lists = [_by_waves(problem, tiles, target) for tiles in shapes.values()]
    turns = [tiles[turn] for turn in range(len(SHARES)) for tiles in lists if turn < len(tiles)]
    return turns[:count]


def _by_waves(problem: Problem, tiles: list[Tile], target: CudaTarget) -> list[Tile]:
    """Tiles of one shape: the first, those nearest to one and two waves of blocks, the rest."""

    def off(tile: Tile, waves: int) -> float:
        return abs(log(_blocks(problem, tile) / (waves * _processors(target))))

    near = [min(tiles, key=lambda tile, waves=waves: off(tile, waves)) for waves in (1, 2)]
    return list(dict.fromkeys([tiles[0], *near, *tiles]))


def _blocks(problem: Problem, tile: Tile) -> int:
    tiles = ceil_div(problem.m, tile.rows) * ceil_div(problem.n, tile.columns)
    return tiles * problem.count * tile.shares


def resident_blocks(problem: Problem, tile: Tile, target: CudaTarget) -> int:
    """The blocks that one processor has at once: no more than there are, and than it has room."""
    warps = tile.threads // 32
    registers = max(64, tile.warp_rows * tile.warp_columns // 32 + 64)
    room = min(
        target.shared_bytes
        // (
            shared_bytes(problem, tile, target) + target.shared_bytes - shared_room(problem, target)
        ),
        WARPS // warps,
        REGISTERS // (tile.threads * registers),
    )
    return max(1, min(room, ceil_div(_blocks(problem, tile), _processors(target))))


def _processors(target: CudaTarget) -> int:
    return PROCESSORS.get(target.capability, 132)


def _precision(problem: Problem, target: CudaTarget) -> str:
    return target.precision if problem.element_bytes == 4 else "fp16"


def work_us(problem: Problem, tile: Tile, target: CudaTarget) -> float:
    """Microseconds of one processor for one step: tensor cores, loads or copies, the slowest."""
    products = tile.rows * tile.columns * problem.step / RATES[_precision(problem, target)]
    loaded = tile.threads // 32 * (tile.warp_rows + tile.warp_columns) * STEP_BYTES / FRAGMENT_BYTES
    if problem.form is Form.LINES and not problem.contiguous:
        return max(products, loaded, problem.step * tile.columns / LINE_ELEMENTS)
    gather = problem.gather
    if problem.form is Form.BLOCKS and gather.taps > 1 and gather.channels % problem.step:
        chunks = tile.columns * STEP_BYTES / 16
        return max(products, loaded, chunks / SCATTERED_CHUNKS)
    return max(products, loaded)


def _loop_us(problem: Problem, tile: Tile, target: CudaTarget) -> float:
    """Microseconds of all steps: of the blocks of one processor, or of the L2 cache if slower."""
    blocks, resident = _blocks(problem, tile), resident_blocks(problem, tile, target)
    steps = ceil_div(ceil_div(problem.k, problem.step), tile.shares)
    work = work_us(problem, tile, target)
    step = max(STEP_US + WARP_US * tile.threads / 32 + work, resident * work)
    copied = STEP_BYTES * (tile.rows + _columns_copied(problem, tile))
    waves = ceil_div(blocks, _processors(target) * resident)
    return max(waves * steps * step, blocks * steps * copied / CACHE_BYTES)


def _columns_copied(problem: Problem, tile: Tile) -> float:
    """Columns of the image's tile that one step copies from the L2 cache, in the mean."""
    taps = problem.gather.taps
    if tile.patch:
        return patch_pixels(problem, tile) / taps
    return tile.columns * (REUSE if problem.form is Form.BLOCKS and taps > 1 else 1)


def estimate(problem: Problem, tile: Tile, target: CudaTarget) -> float:
    """Microseconds that a kernel should take."""
    if tile.wide:
        return _wide_us(problem, tile, target)
    resident = resident_blocks(problem, tile, target)
    waves = ceil_div(_blocks(problem, tile), _processors(target) * resident)
    parts, added = 1, 0.0
    if tile.in_cluster(target):
        parts, added = tile.shares, CLUSTER_US + MEMBER_US * tile.shares
    elif tile.shares > 1:
        elements = problem.count * problem.m * problem.n
        added = SHARE_US + 8 * elements * tile.shares / SHARES_BYTES
    results = tile.rows * tile.columns * resident * problem.element_bytes / parts / RESULT_BYTES
    return START_US + waves * (WAVE_US + results) + _loop_us(problem, tile, target) + added


def _wide_us(problem: Problem, tile: Tile, target: CudaTarget) -> float:
    blocks, steps = _blocks(problem, tile), ceil_div(ceil_div(problem.k, problem.step), tile.shares)
    copied = STEP_BYTES * (tile.rows + tile.columns)
    waves = ceil_div(blocks, _processors(target))
    products = tile.rows * tile.columns * problem.step / WIDE_RATES[_precision(problem, target)]
    single = max(copied / WIDE_PROCESSOR_BYTES, products)
    step = max(waves * single, blocks * copied / WIDE_CACHE_BYTES)
    stored = waves * tile.rows * tile.columns / tile.shares / WIDE_RESULTS
    added = WIDE_CLUSTER_US + WIDE_MEMBER_US * tile.shares if tile.shares > 1 else 0.0
    return WIDE_START_US + steps * step + stored + added
