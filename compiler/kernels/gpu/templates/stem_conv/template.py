"""The first convolution of a network, whose image has few channels in planes, by tensor cores."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from functools import cache, cached_property
from itertools import product, zip_longest
from math import prod

from compiler.kernels.gpu.blocks import block_store, image_kernel
from compiler.kernels.gpu.epilogue import store_function
from compiler.kernels.gpu.hip_target import HipTarget
from compiler.kernels.gpu.operands import Operand, find_operand
from compiler.kernels.gpu.recorded import Contender, first_of, recorded
from compiler.kernels.gpu.scheduled import CudaKernel
from compiler.kernels.gpu.source import header
from compiler.kernels.gpu.target import PRECISIONS, CudaTarget
from compiler.kernels.gpu.templates.gemm.candidates import SLOWEST
from compiler.kernels.gpu.templates.gemm.emit import tiles_beat
from compiler.kernels.gpu.templates.gemm.estimates import CACHE_BYTES
from compiler.kernels.gpu.templates.gemm.tiles import (
    REGISTERS,
    RESERVED,
    WARPS,
    ceil_div,
    processors,
)
from compiler.kernels.group import Group, Operator
from compiler.kernels.ops.lowering import Context
from compiler.kernels.ops.windows import Window, window_of
from compiler.schedule import ELEMENT_BYTES, Launch

CHANNELS = 4
"""Most channels of an image that is read so."""

LANES = ((1, 1, 4), (1, 2, 2), (1, 4, 1), (4, 1, 1), (2, 1, 2), (2, 2, 1))
"""How the words that four lanes read at once can lie: channels, rows, words of a row."""

MOST_STEPS = 128
"""Most steps of eight words: weights of more leave no room in shared memory."""

ROWS, COLUMNS = (1, 2, 3, 4, 6, 8, 12, 16), (8, 16, 24, 32, 48, 64)
"""Rows and columns of a block's pixels."""

PIXELS, WIDTHS, SLICE = (16, 32, 48, 64), (16, 32, 48, 64, 96), 128
"""Pixels and channels of a warp, and most channels of a block."""

TURNS = (1, 2, 3, 4, 6, 8, 12)
"""How many tiles a block computes one after another."""

LEAST_THREADS, MOST_THREADS, MOST_SUMS = 64, 512, 128
"""Threads of a block, and sums that a thread keeps in registers."""

START_US, BLOCK_US, COPY_US = 1.2, 0.5, 0.6
"""Launching and ending a kernel and a block of it, and the latency of copying before products."""

CLOCK, PRODUCT_CYCLES, WAVE_CYCLES = 1755, 1.8, 1.0
"""Cycles a microsecond; those of one processor for 16 x 8 sums, and for 128 bytes that it keeps."""

LINE_CYCLES, WARP_CYCLES = 4, 60
"""Cycles for 32 places of a row of a patch, and for what else a warp does in each tile."""

STORE_BYTES, OVERLAP = 3.2e6, 0.1
"""Bytes of results a microsecond, and how much of what should overlap does not."""

RESIDENT, LEAST_REGISTERS = 32, 88
"""Most blocks of a processor, and what a thread takes at least."""

Triple = tuple[int, int, int]


@dataclass(frozen=True)
class Work:
    """What a block computes at a time, what each of its warps does, and how many times.

    `rows` and `columns` are pixels of the block; `pixels` and `width` those and the channels of
    a warp.
    """

    rows: int
    columns: int
    pixels: int
    width: int
    turns: int


@dataclass(frozen=True)
class Stem:
    """One problem: `source` and `result` are images (N, C, rows, columns).

    Results of `element_bytes` are stored `block` channels at a time, which lie together where
    `blocked`; `precision` is what words are rounded to.
    """

    image: Operand
    weight: Operand
    source: tuple[int, ...]
    result: tuple[int, ...]
    window: Window
    block: int
    blocked: bool
    element_bytes: int
    precision: str

    @property
    def pair(self) -> int:
        """Elements of a word."""
        return 1 if self.precision == "tf32" else 2

    @property
    def bundle(self) -> int:
        """Channels that four lanes have together, of each the same number beside each other."""
        return 4 * max(4, self.block)

    @cached_property
    def channels(self) -> int:
        """Channels of the result, padded to whole bundles."""
        return ceil_div(self.result[1], self.bundle) * self.bundle

    @property
    def extents(self) -> Triple:
        """The window: channels, rows, columns."""
        return (self.source[1], self.window.kernel[0], self.window.kernel[1])

    @cached_property
    def lanes(self) -> Triple:
        """How four lanes divide among them what they read at once: so that it is least often."""
        return min(LANES, key=lambda lanes: prod(self._counts(lanes)))

    def _counts(self, lanes: Triple) -> Triple:
        a, b, c = map(ceil_div, self.extents, self._spans(lanes))
        return (a, b, c)

    def _spans(self, lanes: Triple) -> Triple:
        return (lanes[0], lanes[1], lanes[2] * self.pair)

    @property
    def spans(self) -> Triple:
        """How far a quad reaches along each axis."""
        return self._spans(self.lanes)

    @property
    def counts(self) -> Triple:
        """Quads along each axis of the window."""
        return self._counts(self.lanes)

    @property
    def lasts(self) -> Triple:
        """Where the last quad along each axis begins: so that it ends where the window does."""
        a, b, c = (max(0, n - s) for n, s in zip(self.extents, self.spans, strict=True))
        return (a, b, c)

    @cached_property
    def steps(self) -> int:
        """Steps of two quads."""
        return ceil_div(prod(self.counts), 2)

    def lane_place(self, lane: int) -> Triple:
        """Where a lane of a quad reads: channel, row, column past where the quad begins."""
        _, rows, words = self.lanes
        (a, b, c), pair = self.extents, self.pair
        column = min(lane % words * pair, max(0, c - pair))
        return (min(lane // (rows * words), a - 1), min(lane // words % rows, b - 1), column)

    def taken(self) -> Iterator[int]:
        """The tap of each element in the order in which they are read; behind all taps for zero.

        What is read again, or twice by the step at the end, counts once.
        """
        (_, rows, columns), seen = self.extents, set[int]()
        axes = zip(self.counts, self.spans, self.lasts, strict=True)
        starts = [[min(i * span, last) for i in range(count)] for count, span, last in axes]
        none = prod(self.extents)
        for start, lane, element in product(product(*starts), range(4), range(self.pair)):
            c, i, j = map(sum, zip(start, self.lane_place(lane), strict=True))
            tap = (c * rows + i) * columns + j + element
            new = j + element < columns and tap not in seen
            seen |= {tap} if new else set()
            yield tap if new else none
        yield from [none] * (4 * self.pair * (prod(self.counts) % 2))

    @property
    def packing(self) -> str:
        """How weights are laid out: as the lanes of each bundle and step read them."""
        taps, pairs = prod(self.extents), self.bundle // 16
        extra = self.channels - self.result[1]
        shape = (self.channels // self.bundle, 4, pairs, 2, 2, self.steps, 2, 4, self.pair)
        parts = (
            f"reshape:{self.result[1]},{taps}",
            f"pad:{extra},1",
            f"take:1,{','.join(map(str, self.taken()))}",
            f"reshape:{','.join(map(str, shape))}",
            "transpose:0,5,2,1,4,7,3,6,8",
        )
        rounded = self.precision == "tf32" and self.weight.dtype == "float32"
        return "|".join([*parts, "round:10"] if rounded else parts)

    def slice(self, work: Work) -> int:
        """Channels of a block: as many warps' as divide them evenly."""
        several = range(work.width, max(SLICE, work.width) + 1, work.width)
        return max(n for n in several if self.channels % n == 0)

    def threads(self, work: Work) -> int:
        """Threads of a block."""
        return 32 * (work.rows * work.columns // work.pixels) * (self.slice(work) // work.width)

    def tiles(self, work: Work) -> int:
        """Tiles of pixels in all images."""
        down, along = self.result[2:]
        return self.result[0] * ceil_div(down, work.rows) * ceil_div(along, work.columns)

    def blocks(self, work: Work) -> int:
        """Blocks of one slice of channels."""
        return ceil_div(self.tiles(work), work.turns)

    def patch(self, work: Work) -> tuple[int, int]:
        """Rows and columns of the image that a tile needs."""
        sizes = zip((work.rows, work.columns), self.window.strides, self.window.kernel,
                    self.window.dilations, strict=True)  # fmt: skip
        rows, columns = ((n - 1) * s + (k - 1) * d + 1 for n, s, k, d in sizes)
        return rows, columns

    def shared_bytes(self, work: Work) -> int:
        """Bytes of shared memory of a block: its weights and the patch."""
        rows, columns = self.patch(work)
        words = self.source[1] * rows * pitch(self, rows, columns)[0]
        return 4 * (self.slice(work) * 8 * self.steps + words)


@cache
def _spread(lanes: tuple[Triple, ...], stride: int, dilations: tuple[int, ...], rows: int,
            columns: int) -> tuple[int, int]:  # fmt: skip
    """The words from row to row for which lanes wait least for each other, and how often they do.

    `lanes` are where those of a quad read; eight quads read for pixels beside each other.
    """

    def waves(words: int) -> int:
        down, along = dilations
        places = [(c * rows + i * down) * words + j * along for c, i, j in lanes]
        read = {pixel * stride + place for pixel in range(8) for place in places}
        banks = [place % 32 for place in read]
        return max(map(banks.count, banks))

    best = min(range(columns, columns + 32), key=lambda words: (waves(words), words))
    return best, waves(best)


def pitch(problem: Stem, rows: int, columns: int) -> tuple[int, int]:
    """Words from row to row of a patch, and how many turns its banks take to answer a warp."""
    window, lanes = problem.window, tuple(map(problem.lane_place, range(4)))
    return _spread(lanes, window.strides[1], window.dilations, rows, columns)


def candidates(problem: Stem, target: CudaTarget) -> Iterator[Work]:
    """The works that fit a block's registers and shared memory, and waste no turns."""
    count, room = processors(target), target.shared_bytes - RESERVED
    for rows, columns, pixels, width in product(ROWS, COLUMNS, PIXELS, WIDTHS):
        work = Work(rows, columns, pixels, width, 1)
        if not _divides(problem, work) or problem.shared_bytes(work) > room:
            continue
        blocks = problem.tiles(work) * (problem.channels // problem.slice(work))
        for turns in TURNS:
            if turns == 1 or blocks >= turns * count:
                yield Work(rows, columns, pixels, width, turns)


def _divides(problem: Stem, work: Work) -> bool:
    """Whether warps divide a block's pixels and channels evenly, whole rows or parts of one."""
    segments, own = work.columns // 8, work.pixels // 8
    even = (own % segments == 0 or segments % own == 0) and work.rows * segments % own == 0
    if not even or work.width % problem.bundle or problem.channels % work.width:
        return False
    threads = problem.threads(work)
    within = LEAST_THREADS <= threads <= MOST_THREADS
    wide = work.columns < problem.result[3] + 8 and work.rows <= problem.result[2]
    return within and (wide or work.rows == 1) and work.pixels * work.width <= 32 * MOST_SUMS


def stem_kernel(group: Group, target: CudaTarget, work: Work | None = None) -> CudaKernel | None:
    """The kernel of a group with such a convolution; None when another schedule must take it.

    Sums are in float32, in an order that depends on the problem only: the same bits every time.
    """
    found = stem_problem(group, target)
    if found is None:
        return None
    anchor, problem = found
    if work is None:
        work = tuned_work(problem, target)
        if work is None or not _is_faster(group, problem, work, target):
            return None
    block = problem.block if problem.blocked else 0
    store = store_function(group, anchor, target, block)
    if store is None:
        return None
    name, problem_text = f"{group.name}_0", _constants(problem, work)
    parts = [store.text, problem_text, block_store(store, group, problem.block)]
    bounds = f"{problem.threads(work)}, {_resident(problem, work, target)}"
    operands = (problem.image, problem.weight)
    kernel = image_kernel(name, "convolve_stem", operands, store, bounds)
    packings = [""] * group.inputs
    packings[problem.weight.read] = problem.packing
    grid = (problem.blocks(work), problem.channels // problem.slice(work), 1)
    arguments = (problem.image.read, problem.weight.read, *store.arguments)
    block_shape = (problem.threads(work), 1, 1)
    launch = Launch(name, arguments, grid, block_shape, problem.shared_bytes(work))
    flops = 2 * prod(problem.result) * prod(problem.extents)
    text = "\n".join([header("instructions"), header("stem"), *parts, kernel])
    return CudaKernel(text, (launch,), (), tuple(packings), flops)


def stem_problem(group: Group, target: CudaTarget) -> tuple[Operator, Stem] | None:
    """The only convolution of a group, if it is one of an image of few channels in planes."""
    anchors = [op for op in group.operators if op.type == "Conv"]
    if len(anchors) != 1 or isinstance(target, HipTarget):
        return None
    problem = read_stem(group, anchors[0], target)
    return None if problem is None else (anchors[0], problem)


def read_stem(group: Group, anchor: Operator, target: CudaTarget) -> Stem | None:
    """The problem of a convolution, if tensor cores multiply it and its weights are constant."""
    image, weight = (find_operand(group, value) for value in anchor.inputs[:2])
    output = group.values[anchor.outputs[0]]
    if image is None or weight is None or not weight.constant or output.dtype != "float32":
        return None
    short = {"float16": "fp16", "bfloat16": "bf16"}
    precision = short.get(image.dtype, target.precision)
    shape, plain = image.view.shape, not image.block and image.view.flags.c_contiguous
    few = len(shape) == 4 and shape[1] <= CHANNELS and anchor.attributes.get("group", 1) == 1
    straight = weight.view.flags.c_contiguous and not weight.block
    if not (few and plain and straight) or precision == "fp32" or not prod(output.shape):
        return None
    infos = tuple(None if i is None else group.values[i] for i in anchor.inputs)
    context = Context(anchor, (None,) * len(infos), infos, (output,))
    window = window_of(context, weight.view.shape[2:])
    written = group.writes[0]
    able = (written.block, 4, 2, 1)
    block = next(each for each in able if each and output.shape[1] % each == 0)
    stored = (block, block == written.block, ELEMENT_BYTES[written.dtype])
    problem = Stem(image, weight, shape, output.shape, window, *stored, precision)
    return problem if problem.steps <= MOST_STEPS else None


def choose_work(problem: Stem, target: CudaTarget) -> Work | None:
    """The work with the least estimated time; None where none fits."""
    works = candidates(problem, target)
    return min(works, key=lambda work: work_us(problem, work, target), default=None)


def diverse(problem: Stem, target: CudaTarget, count: int) -> list[tuple[float, Work]]:
    """At most `count` works to measure with their estimates, the one that should be fastest first.

    Shapes of warps take turns; each block's shape comes once, with the turns of the least estimate.
    """
    works = candidates(problem, target)
    timed = sorted((work_us(problem, work, target), astuple(work)) for work in works)
    best = dict[tuple[int, ...], tuple[float, Work]]()
    for time, values in timed:
        if time <= SLOWEST * timed[0][0]:
            best.setdefault(values[:4], (time, Work(*values)))
    warps = dict[tuple[int, int], list[tuple[float, Work]]]()
    for time, work in best.values():
        warps.setdefault((work.pixels, work.width), []).append((time, work))
    rounds = zip_longest(*warps.values())
    return [found for each in rounds for found in each if found is not None][:count]


def work_us(problem: Stem, work: Work, target: CudaTarget) -> float:
    """Microseconds that a kernel should take: the longest of what processors do, what blocks wait
    for, copying weights and patches, and storing the results.
    """
    count, warps = processors(target), problem.threads(work) // 32
    slices, tile = problem.channels // problem.slice(work), _tile_cycles(problem, work)
    blocks = ceil_div(problem.blocks(work) * slices, count)
    busy = blocks * work.turns * tile / CLOCK
    turn = COPY_US + tile * max(1, 4 / warps) / CLOCK
    waves = ceil_div(blocks, _resident(problem, work, target))
    waiting = waves * (BLOCK_US + work.turns * turn)
    sectors = 1 if problem.blocked else max(1, 32 / (work.columns * problem.element_bytes))
    results = prod(problem.result) * problem.element_bytes * sectors / STORE_BYTES
    parts = (busy, waiting, _copied_bytes(problem, work) / CACHE_BYTES, results)
    return START_US + max(parts) + OVERLAP * sum(parts)


def _copied_bytes(problem: Stem, work: Work) -> int:
    """Bytes that all blocks copy: weights once, the patch of each tile."""
    weights = 8 * problem.steps * problem.channels * problem.pair
    patch = problem.source[1] * prod(problem.patch(work))
    copied = weights * problem.blocks(work) * ELEMENT_BYTES[problem.weight.dtype]
    slices = problem.channels // problem.slice(work)
    return copied + slices * problem.tiles(work) * patch * ELEMENT_BYTES[problem.image.dtype]


def _tile_cycles(problem: Stem, work: Work) -> float:
    """Cycles of one processor for a tile: products, or loads and stores, and copying the patch."""
    rows, columns = problem.patch(work)
    waits = pitch(problem, rows, columns)[1]
    products = problem.steps * work.pixels * work.width / 128 * PRODUCT_CYCLES
    loads = problem.steps * (work.pixels / 4 * waits + work.width / 4) * WAVE_CYCLES
    copies = problem.source[1] * rows * ceil_div(columns, 32) * LINE_CYCLES * problem.pair
    stores = work.pixels * work.width / 32 * (1 if problem.blocked else 4)
    return problem.threads(work) // 32 * (max(products, loads + stores) + WARP_CYCLES) + copies


def _resident(problem: Stem, work: Work, target: CudaTarget) -> int:
    """Blocks that a processor should have room for; each of its quarters has as many warps."""
    sums, threads = work.pixels * work.width // 32, problem.threads(work)
    registers = max(LEAST_REGISTERS, sums + sums // 4 + work.pixels // 4 + 40)
    warps = min(WARPS, 4 * (REGISTERS // 128 // registers))
    shared = target.shared_bytes // (problem.shared_bytes(work) + RESERVED)
    return max(1, min(shared, 32 * warps // threads, RESIDENT))


def tuned_work(problem: Stem, target: CudaTarget) -> Work | None:
    """The work that was measured to be fastest, or else should be."""
    entry = recorded(stem_key(problem), target)
    fits = {astuple(w) for w in candidates(problem, target)} if entry else set[tuple[int, ...]]()
    found = first_of(entry, fits)
    return Work(*found) if found else choose_work(problem, target)


def stem_key(problem: Stem) -> str:
    """What decides the speed of a problem's works."""
    window = problem.window
    types = (problem.precision, problem.image.dtype, problem.weight.dtype)
    axes = (window.kernel, window.strides, window.dilations, window.before)
    stored = (problem.block, problem.blocked, problem.element_bytes)
    fields = ("stem", *types, problem.source, problem.result, *stored, *axes)
    return json.dumps(fields, separators=(",", ":"))


def _is_faster(group: Group, problem: Stem, work: Work, target: CudaTarget) -> bool:
    """Whether tiles of a product would take longer, or cannot be used."""
    own = Contender(recorded(stem_key(problem), target), work_us(problem, work, target))
    return not tiles_beat(own, group, target)


def _constants(problem: Stem, work: Work) -> str:
    """The struct of constants that stem.cuh takes."""
    rows, columns = problem.patch(work)
    window, around = problem.window, pitch(problem, rows, columns)[0]
    scalars = {
        "PRECISION": PRECISIONS.index(problem.precision),
        "BATCH": problem.source[0],
        "FILTERS": problem.result[1],
        "BLOCK": problem.block,
        "BUNDLE": problem.bundle,
        "STEPS": problem.steps,
        "ROWS": work.rows,
        "COLUMNS": work.columns,
        "PIXELS": work.pixels,
        "WIDTH": work.width,
        "SLICE": problem.slice(work),
        "TURNS": work.turns,
        "PATCH_ROWS": rows,
        "PATCH_COLUMNS": columns,
        "PITCH": around,
        **_axes("SOURCE", problem.source[1:], 0),
        **_axes("RESULT", problem.result[2:]),
        **_axes("WINDOW", window.kernel),
        **_axes("STRIDES", window.strides),
        **_axes("DILATIONS", window.dilations),
        **_axes("PADS", window.before),
        **_axes("LANES", problem.lanes, 0),
        **_axes("COUNTS", problem.counts, 0),
        **_axes("SPANS", problem.spans, 0),
        **_axes("LASTS", problem.lasts, 0),
    }
    lines = [f"  static constexpr int {key} = {value};" for key, value in scalars.items()]
    return "\n".join(["struct Problem {", *lines, "};", ""])


def _axes(name: str, values: Sequence[int], first: int = 1) -> dict[str, int]:
    """Constants for channels, rows and columns, or from axis `first` on."""
    return {f"{name}{first + i}": value for i, value in enumerate(values)}
