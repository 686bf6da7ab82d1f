"""The tile of a GEMM: its shape, its shared memory, and the variants that a device allows."""

from dataclasses import dataclass, replace
from itertools import product

from compiler.errors import KernelError
from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.gpu.templates.gemm.problem import STEP_BYTES, Form, Problem
from compiler.target.target import GpuTarget

STAGES = (3, 6)
"""Fewest and most pipeline stages: enough to hide the latency of memory."""

CLUSTER_LIMIT = 8
"""Most thread blocks of a portable thread block cluster."""

WGMMA_ROWS, WGMMA_COLUMNS, WGMMA_ALIGNMENT = (64, 128), (32, 64, 96, 128), 1024
"""Rows of WGMMA tiles, the columns that warpgroups multiply at once, bytes of a swizzle."""

LARGE_SHAPES = ((128, 160), (128, 192), (128, 224), (128, 256), (256, 64), (256, 128))

WGMMA_SHAPES = (*product(WGMMA_ROWS, WGMMA_COLUMNS), *LARGE_SHAPES)
"""Rows and columns of WGMMA tiles; large ones read fewer bytes from the L2 cache."""

WGMMA_STAGES, CO_RESIDENT = (4, 8), 3
"""Fewest and most stages of WGMMA tiles, and stages of those of which several are resident on an
SM: while one runs its epilogue, others multiply."""

RESERVED = 1024
"""Bytes of shared memory that the system reserves for each block."""

TABLE_DEPTH = 1024
"""Largest K with a table of taps in shared memory; see LineCopies."""

CLUSTERS, CLUSTER_SMS = {3: 39, 4: 31, 6: 16}, 132
"""Clusters of so many blocks that run at once where each block takes an SM, and all SMs: clusters
do not fill GPCs. On an H100 and an H200 39 clusters of three take one wave, 40 take two."""

WARPS, REGISTERS = 64, 65536
"""Warps and registers of an SM."""


@dataclass(frozen=True)
class Tile:
    """Rows and columns of a block and of a warp, split-K slices, pipeline stages, lanes of a warp.

    With `wgmma` warpgroups multiply, whose warps take 16 rows and all columns each. With `prefetch`
    the kernel copies weights before it waits for its predecessors (PDL); with `release` its
    successors may begin after its main loop. With `halo` the pixels that all taps of the tile read
    are copied to shared memory once; see halo.cuh.
    """

    rows: int
    columns: int
    warp_rows: int
    warp_columns: int
    split_k: int
    stages: int = STAGES[0]
    lanes: int = 32
    wgmma: bool = False
    prefetch: bool = False
    release: bool = False
    halo: bool = False

    def has_cluster(self, target: GpuTarget) -> bool:
        """Whether the blocks of a tile's split-K slices are a cluster, which adds the slices."""
        return 1 < self.split_k <= CLUSTER_LIMIT and target.has_clusters

    def launches(self, target: GpuTarget) -> int:
        """One, and one more where a second launch adds the split-K slices."""
        return 1 if self.split_k == 1 or self.has_cluster(target) else 2

    @property
    def shape(self) -> tuple[int, ...]:
        """The fields of a tile besides split-K slices, stages and PDL."""
        kind = (int(self.halo), int(self.co_resident))
        return self.rows, self.columns, self.warp_rows, self.warp_columns, *kind

    @property
    def co_resident(self) -> bool:
        """Whether a WGMMA tile has so few stages that several blocks are resident on an SM."""
        return self.wgmma and self.stages == CO_RESIDENT

    @property
    def overlaps(self) -> bool:
        """Whether the kernel prefetches before its predecessors end, or releases its successors."""
        return self.prefetch or self.release

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.lanes * (self.rows // self.warp_rows) * (self.columns // self.warp_columns)


def stage_bytes(problem: Problem, tile: Tile) -> int:
    """Shared memory of one stage, padded as in operands.cuh or wgmma_gemm.cuh."""
    row = STEP_BYTES + 16
    column = STEP_BYTES
    if tile.wgmma:
        return STEP_BYTES * (tile.rows + tile.columns)
    if tile.halo:
        right = 0
    elif problem.form is Form.LINES:
        right = problem.step * (tile.columns + 8) * problem.element_bytes
    else:
        right = tile.columns * (row if problem.form is Form.ROWS else column)
    return tile.rows * row + right


def halo_pixels(problem: Problem, tile: Tile) -> int:
    """The pixels that the taps of a tile's columns read, in row-major order."""
    gather = problem.gather
    reach = 0
    for source, window, dilation in zip(
        gather.source, gather.window, gather.dilations, strict=True
    ):
        reach = reach * source + (window - 1) * dilation
    return tile.columns + reach


def halo_bytes(problem: Problem, tile: Tile) -> int:
    """Shared memory of two halos and of a row of zeros; 0 without halos."""
    return 2 * halo_pixels(problem, tile) * STEP_BYTES + 16 if tile.halo else 0


def staged_bytes(problem: Problem, tile: Tile) -> int:
    """Shared memory of the pipeline: all stages, and halos."""
    return tile.stages * stage_bytes(problem, tile) + halo_bytes(problem, tile)


def shared_bytes(problem: Problem, tile: Tile, target: GpuTarget) -> int:
    """Dynamic shared memory of a block: stages, which results reuse, and epilogue operands.

    Operands that are prefetched late reuse the stages too.
    """
    if problem.block:
        result = 4 * tile.columns * (tile.rows + 4)
    else:
        result = 4 * tile.rows * (tile.columns + 8)
    aligned = WGMMA_ALIGNMENT if tile.wgmma else 0
    stages = staged_bytes(problem, tile)
    prefetched = prefetch_bytes(problem, tile, target)
    if problem.late:
        return max(stages, result + prefetched) + aligned
    return max(stages, result) + prefetched + aligned


def shared_room(problem: Problem, target: GpuTarget) -> int:
    """Most dynamic shared memory of one block, next to a table of taps, or to sizes of a run."""
    table = problem.form is Form.LINES and problem.gather.taps > 1 and problem.k <= TABLE_DEPTH
    sizes = 0 if problem.rows is None else WGMMA_ALIGNMENT
    return target.shared_bytes - RESERVED - (8 * problem.k if table else 0) - sizes


def prefetch_bytes(problem: Problem, tile: Tile, target: GpuTarget) -> int:
    """Shared memory of prefetched epilogue operands."""
    elementwise, broadcast = problem.prefetched
    if not problem.width:
        return 0
    parts = tile.split_k if tile.has_cluster(target) else 1
    vectors = ceil_div(tile.rows * tile.columns // problem.width, tile.threads * parts)
    extent = tile.rows if problem.block else tile.columns
    return elementwise * vectors * tile.threads * 16 + broadcast * extent * 4


def can_use_wgmma(problem: Problem, tile: Tile, target: GpuTarget) -> bool:
    """Whether WGMMA can compute a tile: on Hopper, operands not converted, in one launch."""
    multiplied = (target.precision, problem.dtype) == ("tf32", "float32")
    shape = (tile.rows, tile.columns)
    whole = shape in WGMMA_SHAPES and (tile.warp_rows, tile.warp_columns) == (16, tile.columns)
    plain = problem.form is Form.ROWS and not problem.block
    image = problem.form is Form.BLOCKS and problem.count == 1 and fills_splits(problem, tile)
    plain |= image and tile.threads % tile.columns == 0
    ours = multiplied or problem.element_bytes == 2 or problem.dtype == "int8"
    fits = target.has_wgmma and ours and whole
    return fits and plain and tile.launches(target) == 1


def can_use_halo(problem: Problem, tile: Tile, target: GpuTarget) -> bool:
    """Whether the halo of a tile is contiguous pixels: the result has the layout of the image.

    Images of one pixel have another: the blocks of channels of each are adjacent.
    """
    gather = problem.gather
    plain = not gather.transposed and gather.strides == (1, 1, 1)
    alike = gather.source == gather.result != (1, 1, 1) and tile.stages - 1 <= gather.taps > 1
    whole = problem.form is Form.BLOCKS and gather.channels % problem.step == 0
    exact = mma_precision(problem, target) in ("fp32", "int8")
    return plain and alike and whole and not (exact or tile.wgmma or tile.prefetch)


def fills_splits(problem: Problem, tile: Tile) -> bool:
    """Whether every split-K slice has a k-step."""
    steps = ceil_div(problem.k, problem.step)
    return ceil_div(steps, tile.split_k) * (tile.split_k - 1) < steps


def prefetched_operand(problem: Problem) -> int:
    """The operand that can be prefetched: 1 for A, 2 for B, 0 for none.

    It is packed: a weight, which no kernel writes.
    """
    packed = [number for number, _ in problem.packings]
    return 1 if problem.left in packed else 2 if problem.right in packed else 0


def can_overlap(problem: Problem, tile: Tile, target: GpuTarget) -> bool:
    """Whether a kernel can prefetch or release: its only launch waits for its predecessors."""
    waits = target.has_pdl and tile.launches(target) == 1
    copies = prefetched_operand(problem) > 0 and not tile.halo
    return waits and (copies or not tile.prefetch)


def without_overlap(tile: Tile) -> Tile:
    """A tile that neither prefetches nor releases its successors."""
    return replace(tile, prefetch=False, release=False)


def overlapping(problem: Problem, tile: Tile, target: GpuTarget) -> list[Tile]:
    """The other tiles that differ from one only by prefetch and release."""
    pairs = product((False, True), repeat=2)
    variants = [replace(tile, prefetch=prefetch, release=release) for prefetch, release in pairs]
    return [t for t in variants if t != tile and allows_overlap(problem, t, target)]


def allows_overlap(problem: Problem, tile: Tile, target: GpuTarget) -> bool:
    """Whether a kernel can prefetch and release as a tile says."""
    return not tile.overlaps or can_overlap(problem, tile, target)


def check_tile(problem: Problem, tile: Tile, target: GpuTarget) -> None:
    """Raise KernelError for a tile that the problem or the target cannot have."""
    if tile.wgmma and not can_use_wgmma(problem, tile, target):
        raise KernelError(
            f"{target} cannot multiply {problem.form.name} of {problem.dtype} by WGMMA in"
            f" {tile}: choose a tile without wgmma"
        )
    if tile.halo and not can_use_halo(problem, tile, target):
        raise KernelError(
            f"{target} cannot keep the halo of {tile} in shared memory: that needs channel"
            " blocks, stride 1, as many results as pixels, tensor cores, no more stages than taps"
        )
    if not allows_overlap(problem, tile, target):
        raise KernelError(
            f"a kernel for {target} in {tile} cannot prefetch or release: it has no weights"
            " to prefetch, or it takes two launches, or it has no PDL; choose a tile"
            " without prefetch and release"
        )


def block_count(problem: Problem, tile: Tile) -> int:
    """The blocks of a kernel."""
    tiles = ceil_div(problem.m, tile.rows) * ceil_div(problem.n, tile.columns)
    return tiles * problem.count * tile.split_k


def concurrent_blocks(tile: Tile, target: GpuTarget) -> int:
    """The blocks that run at once where each takes an SM: whole clusters of split-K slices."""
    sms = target.device.sms
    if not tile.has_cluster(target):
        return sms
    clusters = sms // tile.split_k
    fitting = CLUSTERS.get(tile.split_k, clusters) * sms // CLUSTER_SMS
    return min(clusters, fitting) * tile.split_k


def resident_blocks(problem: Problem, tile: Tile, target: GpuTarget) -> int:
    """The thread blocks that are resident on one SM."""
    blocks = ceil_div(block_count(problem, tile), target.device.sms)
    return min(room_for_blocks(problem, tile, target), blocks)


def room_for_blocks(problem: Problem, tile: Tile, target: GpuTarget) -> int:
    """The thread blocks for which one SM has room, at least one."""
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
    return max(1, room)


def mma_precision(problem: Problem, target: GpuTarget) -> str:
    """The precision of a problem's MMAs."""
    return {1: "int8", 2: "fp16"}.get(problem.element_bytes, target.precision)
