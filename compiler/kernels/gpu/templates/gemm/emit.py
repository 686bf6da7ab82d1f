"""Convolutions and matrix products as CUDA kernels: tiles by tensor cores, or rows by a matrix."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from compiler.kernels.gpu.blocks import block_methods, element_methods, fetched_reads
from compiler.kernels.gpu.epilogue import StoreFunction, c_type, store_function
from compiler.kernels.gpu.recorded import Contender
from compiler.kernels.gpu.scheduled import CudaKernel
from compiler.kernels.gpu.source import header
from compiler.kernels.gpu.templates.gemm.amd_tiles import WAVE, choose_wave_tile
from compiler.kernels.gpu.templates.gemm.problem import (
    FEW_ROWS,
    Form,
    Problem,
    merges,
    read_problem,
)
from compiler.kernels.gpu.templates.gemm.tiles import (
    TABLE_DEPTH,
    Tile,
    ceil_div,
    check_tile,
    early_operand,
    resident_blocks,
    shared_bytes,
    shared_room,
    staged_bytes,
)
from compiler.kernels.gpu.templates.gemm.tuned import contender, tile_for
from compiler.kernels.group import Group, Operator
from compiler.schedule import Launch
from compiler.target.target import PRECISIONS, GpuTarget

CONTRACTIONS = ("Conv", "ConvTranspose", "Gemm", "MatMul")

ROW_WARPS = 16
"""Warps of a block that multiplies a few rows."""

TILE_HEADERS = ("operands", "results", "contraction")

PATCH_HEADERS = (*TILE_HEADERS, "patch")
"""Headers of tiles whose part of the image is copied once for all taps."""

WAVE_HEADERS = ("mfma", *TILE_HEADERS, "waves")
"""Headers of tiles that AMD's matrix cores multiply."""

WIDE_HEADERS = ("warpgroups", *TILE_HEADERS, "wide")
"""Headers of tiles that warpgroups multiply."""

ADD_THREADS = 256
"""Threads of a block that adds shares."""


Stores = dict[tuple[int, bool], StoreFunction | None]
"""Store functions of one group by block, and for vectors; writing one takes longest."""


def contraction_kernel(
    group: Group,
    target: GpuTarget,
    tile: Tile | None = None,
    stores: Stores | None = None,
    problem: Problem | None = None,
) -> CudaKernel | None:
    """The kernel of a group with a contraction; None when the generic schedule must take it.

    Without a problem or a tile those that should be fastest are taken. Calls that write kernels of
    one group may share `stores`. Sums are in float32, in an order that depends on the problem and
    the tile only, shares of k too: the same bits every time.
    """
    anchor, problems = contraction_problems(group, target)
    if anchor is None or not problems:
        return None
    if tile is None and _few_rows(anchor, problems[0]):
        few = store_function(group, anchor, target)
        return few and Emitter(group, anchor, replace(problems[0], vector=0), few, target).rows()
    problem = problem or fastest(problems, target)
    tile = tile or _choose(problem, target)
    check_tile(problem, tile, target)
    return tiled_kernel(group, anchor, problem, tile, target, stores=stores)


def tiled_problems(group: Group, target: GpuTarget) -> list[Problem]:
    """What a group's contraction can be as tiles, merged groups of channels last."""
    anchor, problems = contraction_problems(group, target)
    few = anchor is not None and any(_few_rows(anchor, problem) for problem in problems)
    return [] if few else problems


def fastest(problems: Sequence[Problem], target: GpuTarget) -> Problem:
    """The problem of a group that should be computed fastest, the first of equals."""
    best, *others = problems
    for other in others:
        if contender(other, target).is_faster(contender(best, target)):
            best = other
    return best


def tiles_beat(other: Contender, group: Group, target: GpuTarget) -> bool:
    """Whether tiles should take a group's contraction faster than a kernel of another template."""
    problems = tiled_problems(group, target)
    return bool(problems) and contender(fastest(problems, target), target).is_faster(other)


def contraction_problems(group: Group, target: GpuTarget) -> tuple[Operator | None, list[Problem]]:
    """The only contraction of a group, and the problems that it can be."""
    anchors = [op for op in group.operators if op.type in CONTRACTIONS]
    if len(anchors) != 1:
        return None, []
    (anchor,) = anchors
    found = [read_problem(group, anchor)]
    found += [read_problem(group, anchor, n) for n in merges(group, anchor)]
    able = [p for p in found if p and (p.merged == 1 or _has_tensor_cores(p, target))]
    return anchor, able


def _has_tensor_cores(problem: Problem, target: GpuTarget) -> bool:
    """Whether tensor cores multiply a problem, which zeros then cost little."""
    short = problem.element_bytes == 2 or target.precision != "fp32"
    return short and target.has_mma


def _few_rows(anchor: Operator, problem: Problem) -> bool:
    few = problem.m <= FEW_ROWS and problem.form is Form.LINES
    return few and anchor.type in ("MatMul", "Gemm")


@dataclass(frozen=True)
class Source:
    """Where tiles of A and B come from: the template and what its kernels are given for that.

    `reads` index the task's buffers, `passed` names the parameters; `text` is the template's own.
    With `resident`, the compiler is told how many blocks a processor must have, so that it does not
    spill to make room for more.
    """

    headers: tuple[str, ...]
    function: str
    reads: tuple[int, ...]
    parameters: str
    passed: str = "a, b"
    text: str = ""
    resident: int = 0

    def bounds(self, threads: int) -> str:
        """What the compiler is told of a kernel's blocks."""
        return f"{threads}, {self.resident}" if self.resident else str(threads)


def operands_source(problem: Problem, tile: Tile) -> Source:
    """Both operands as they lie in memory, by the template of a tile's kind."""
    headers, function, resident = TILE_HEADERS, "contract<Problem>", 0
    if tile.wide:
        headers, function = WIDE_HEADERS, "contract_wide<Problem>"
        resident = 2 * int(tile.side_by_side)
    elif tile.patch:
        headers = PATCH_HEADERS
    elif tile.lanes == WAVE:
        headers, function = WAVE_HEADERS, "contract_waves<Problem>"
    kind = "float" if problem.element_bytes == 4 else "uint16_t"
    reads = (problem.left, problem.right)
    return Source(headers, function, reads, operand_parameters(kind), resident=resident)


def operand_parameters(kind: str) -> str:
    """The parameters of both operands."""
    return f"const {kind}* __restrict__ a, const {kind}* __restrict__ b"


def tiled_kernel(
    group: Group,
    anchor: Operator,
    problem: Problem,
    tile: Tile,
    target: GpuTarget,
    source: Source | None = None,
    stores: Stores | None = None,
) -> CudaKernel | None:
    """The kernel of one tile; None when what follows the anchor needs other elements."""
    together = (problem.block, problem.vector) if tile.launches(target) == 1 else (0, 0)
    kind, stores = (together[0], together[1] > 0), {} if stores is None else stores
    if kind not in stores:
        stores[kind] = store_function(group, anchor, target, *kind)
    store = stores[kind]
    if store is None:
        return None
    block, vector = together if store.by_block else (0, 0)
    problem = replace(problem, block=block, vector=vector)
    problem = _with_fetches(problem, store, group, tile, target)
    return Emitter(group, anchor, problem, store, target).tiles(tile, source)


def _choose(problem: Problem, target: GpuTarget) -> Tile:
    if target.has_mfma:
        return choose_wave_tile(problem, target)
    return tile_for(problem, target)


def _with_fetches(
    problem: Problem, store: StoreFunction, group: Group, tile: Tile, target: GpuTarget
) -> Problem:
    """The problem with what its store function reads by place and by row or column.

    It is fetched late where there is no room beside the stages, or, of vectors, where fewer blocks
    would fit a processor; not at all where that leaves no room for the results.
    """
    if not problem.together:
        return problem
    places, edges = fetched_reads(store, problem, group)
    found = replace(problem, fetches=(len(places), len(edges)))
    resident = [resident_blocks(each, tile, target) for each in (problem, found)]
    room, later = shared_room(problem, target), replace(found, late=True)
    fewer = problem.vector > 0 and resident[1] < resident[0]
    if shared_bytes(found, tile, target) <= room and not fewer:
        return found
    return later if shared_bytes(later, tile, target) <= room else problem


@dataclass(frozen=True)
class Emitter:
    """Writes the CUDA text of one problem, whose sums a store function takes."""

    group: Group
    anchor: Operator
    problem: Problem
    store: StoreFunction
    target: GpuTarget

    def rows(self) -> CudaKernel:
        """A few rows by a matrix."""
        problem, name = self.problem, f"{self.group.name}_0"
        tile = Tile(16, 32, 16, 32, 1)
        call = f"multiply_rows<Problem, {ROW_WARPS}>(a, b, {self._store_object()});"
        parameters = operand_parameters(c_type(problem.dtype))
        kernel = self._kernel(name, ROW_WARPS * 32, parameters, call)
        text = self._text(("vector",), tile, kernel)
        grid = (ceil_div(problem.n, 32), 1, problem.count)
        arguments = (problem.left, problem.right, *self.store.arguments)
        launch = Launch(name, arguments, grid, (ROW_WARPS * 32, 1, 1))
        return self._result(text, (launch,), (), exact=True)

    def tiles(self, tile: Tile, source: Source | None = None) -> CudaKernel:
        """Tiles of the result; a cluster adds its shares, or else a second launch."""
        problem, name = self.problem, self.group.name
        source = source or operands_source(problem, tile)
        grid = (
            ceil_div(problem.n, tile.columns),
            ceil_div(problem.m, tile.rows),
            problem.count * tile.shares,
        )
        block, shared = (tile.threads, 1, 1), shared_bytes(problem, tile, self.target)
        cluster, bounds = tile.in_cluster(self.target), source.bounds(tile.threads)
        if tile.launches(self.target) == 1:
            call = f"{source.function}({source.passed}, {self._store_object()});"
            parts = tile.shares if cluster else 1
            kernel = self._kernel(f"{name}_0", bounds, source.parameters, call, parts)
            text = self._text(source.headers, tile, source.text + kernel)
            arguments = (*source.reads, *self.store.arguments)
            launch = Launch(f"{name}_0", arguments, grid, block, shared)
            return self._result(text, (launch,), ())
        elements = problem.count * problem.m * problem.n
        scratch = len(self.group.reads) + len(self.group.writes)
        first = (
            f'extern "C" __global__ void __launch_bounds__({bounds})'
            f" {name}_0({source.parameters}, float* __restrict__ shares) {{\n"
            f"  {source.function}({source.passed}, KeepShare<Problem>{{shares}});\n}}\n"
        )
        add = f"add_shares<Problem>(shares, {self._store_object()});"
        second = self._kernel(f"{name}_1", ADD_THREADS, "const float* shares", add)
        text = self._text(source.headers, tile, source.text + first + second)
        launches = (
            Launch(f"{name}_0", (*source.reads, scratch), grid, block, shared),
            Launch(
                f"{name}_1",
                (scratch, *self.store.arguments),
                (ceil_div(elements, ADD_THREADS), 1, 1),
                (ADD_THREADS, 1, 1),
            ),
        )
        return self._result(text, launches, (elements * tile.shares * 4,))

    def _result(
        self,
        text: str,
        launches: tuple[Launch, ...],
        scratch: tuple[int, ...],
        exact: bool = False,
    ) -> CudaKernel:
        packings = [""] * self.group.inputs
        for number, packing in self.problem.packings:
            packings[number] = packing if exact else self._rounded(packing)
        flops = 2 * self.problem.multiplications
        return CudaKernel(text, launches, scratch, tuple(packings), flops)

    def _rounded(self, packing: str) -> str:
        """A packing that rounds too where tensor cores would cut off what they do not read."""
        return f"{packing}|round:10".lstrip("|") if self._precision == "tf32" else packing

    @property
    def _precision(self) -> str:
        """What the operands are multiplied in: elements of two bytes as they are."""
        short = {"float16": "fp16", "bfloat16": "bf16"}
        return short.get(self.problem.dtype, self.target.precision)

    def _store_object(self) -> str:
        names = ", ".join(f"buffer{i}" for i in range(len(self.store.arguments)))
        return f"Store{{{names}}}"

    def _kernel(
        self, name: str, bounds: int | str, parameters: str, call: str, cluster: int = 1
    ) -> str:
        given = [parameters]
        given += [f"{kind}* __restrict__ buffer{i}" for i, kind in enumerate(self.store.types)]
        together = f" __cluster_dims__(1, 1, {cluster})" if cluster > 1 else ""
        return (
            f'extern "C" __global__ void{together} __launch_bounds__({bounds})'
            f" {name}({', '.join(given)}) {{\n  {call}\n}}\n"
        )

    def _text(self, templates: tuple[str, ...], tile: Tile, kernels: str) -> str:
        parts = [
            header("instructions"),
            *map(header, templates),
            self.store.text,
            self._constants(tile),
            self._store_struct(),
        ]
        parts += [self._overlap(tile)] if tile.overlaps else []
        return "\n".join([*parts, kernels])

    def _overlap(self, tile: Tile) -> str:
        """What makes a kernel copy its weights before it waits, and release those that follow."""
        head = "  static __device__ __forceinline__ void"
        operand = early_operand(self.problem) if tile.early else 0
        begin = "begin_launch();" if tile.early else ""
        release = "release_launches();" if tile.release else ""
        lines = [f"  static constexpr int EARLY = {operand};", f"{head} begin() {{ {begin} }}"]
        lines += [f"{head} release() {{ {release} }}"]
        return "\n".join(["template <>", "struct Overlap<Problem> {", *lines, "};", ""])

    def _aligned_reads(self) -> tuple[int, ...]:
        """The image, where it is copied from multiples of 16 bytes or in single elements."""
        problem = self.problem
        single = problem.form is Form.LINES and not problem.contiguous
        return (problem.right,) if single or problem.form is Form.BLOCKS else ()

    def _store_struct(self) -> str:
        """What hands results to the store function: single ones, or consecutive ones together."""
        fields = [f"  {kind}* __restrict__ buffer{i};" for i, kind in enumerate(self.store.types)]
        body = [] if self.problem.block else element_methods(self.store, self.problem)
        if self.problem.together:
            body += block_methods(self.store, self.problem, self.group)
        return "\n".join(["struct Store {", *fields, *body, "};", ""])

    def _constants(self, tile: Tile) -> str:
        problem, gather = self.problem, self.problem.gather
        packed = [number for number, _ in problem.packings]
        sure = {problem.left, problem.right} <= {*packed, *self._aligned_reads()}
        scalars: dict[str, Any] = {
            "M": problem.m,
            "N": problem.n,
            "K": problem.k,
            "PROBLEMS": problem.count,
            "FORM": int(problem.form),
            "A_ROW": problem.a_row,
            "B_ROW": problem.b_row,
            "A_ROUNDED": int(problem.left in packed),
            "B_ROUNDED": int(problem.right in packed),
            "ALIGNED": int(sure),
            "OUT_BLOCK": problem.block,
            "VECTOR": problem.vector,
            "PLACES": problem.fetches[0],
            "EDGES": problem.fetches[1],
            "LATE": int(problem.late),
            "CHANNELS": gather.channels,
            "ROW": gather.row,
            "TAPS": gather.taps,
            "PIXELS": gather.pixels,
            "IMAGE": gather.image,
            "PLANE": gather.plane,
            "TAP_MAJOR": int(gather.tap_major),
            "CONTIGUOUS": int(problem.contiguous),
            "TRANSPOSED": int(gather.transposed),
            "PRECISION": PRECISIONS.index(self._precision),
            "BM": tile.rows,
            "BN": tile.columns,
            "BK": problem.step,
            "WM": tile.warp_rows,
            "WN": tile.warp_columns,
            "STAGES": tile.stages,
            "STAGED": staged_bytes(problem, tile),
            "PATCH": int(tile.patch),
            "LANES": tile.lanes,
            "TABLE_DEPTH": TABLE_DEPTH,
            "SPLITS": tile.shares,
            "CLUSTER": int(tile.in_cluster(self.target)),
        }
        triples = {
            "SOURCE": gather.source,
            "RESULT": gather.result,
            "WINDOW": gather.window,
            "STRIDES": gather.strides,
            "PADS": gather.pads,
            "DILATIONS": gather.dilations,
        }
        element = "float" if problem.element_bytes == 4 else "uint16_t"
        lines = [f"  using Element = {element};"]
        lines += [f"  static constexpr int {name} = {value};" for name, value in scalars.items()]
        lines += [
            f"  __device__ static constexpr int {name}(int axis)"
            f" {{ return axis == 0 ? {a} : axis == 1 ? {b} : {c}; }}"
            for name, (a, b, c) in triples.items()
        ]
        for name, offset in (("a_offset", problem.a_offset), ("b_offset", problem.b_offset)):
            lines.append(
                f"  __device__ static __forceinline__ int64_t {name}(int z) {{ return {offset}; }}"
            )
        return "\n".join(["struct Problem {", *lines, "};", ""])
