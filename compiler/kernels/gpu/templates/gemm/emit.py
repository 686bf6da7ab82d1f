"""The CUDA text of tiled GEMMs: constants, epilogue and launches."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from compiler.kernels.gpu.entries.sizes import size_text, with_runtime_sizes
from compiler.kernels.gpu.epilogue import Parameter, Part, StoreFunction, c_type, store_function
from compiler.kernels.gpu.source import header
from compiler.kernels.gpu.structs import constants, kernel, struct
from compiler.kernels.gpu.templates.gemm.config import (
    TABLE_DEPTH,
    Tile,
    prefetched_operand,
    resident_blocks,
    shared_bytes,
    shared_room,
    staged_bytes,
)
from compiler.kernels.gpu.templates.gemm.mfma import WAVE
from compiler.kernels.gpu.templates.gemm.problem import Form, Gather, Problem
from compiler.kernels.gpu.templates.gemm.store import (
    block_methods,
    element_methods,
    prefetched_reads,
)
from compiler.kernels.group import Group, Node
from compiler.kernels.template import KernelSource, packings_of
from compiler.schedule.kernels import Launch
from compiler.target.target import PRECISIONS, GpuTarget
from compiler.tensors.arithmetic import ceil_div

MMA_PRECISIONS = (*PRECISIONS, "int8")
"""The precisions of MMAs as headers number them."""

GEMV_WARPS = 16
"""Warps of a block of a GEMV."""

TILE_HEADERS = ("operands", "results", "gemm")

HALO_HEADERS = (*TILE_HEADERS, "halo")
"""Headers of tiles whose halo is in shared memory."""

MFMA_HEADERS = ("mfma", *TILE_HEADERS, "mfma_gemm")
"""Headers of tiles on AMD's matrix cores."""

WGMMA_HEADERS = ("warpgroups", *TILE_HEADERS, "wgmma_gemm")
"""Headers of WGMMA tiles."""

RUNTIME_HEADERS = {"gemm": "runtime_rows", "wgmma_gemm": "runtime_swizzled_rows"}
"""The headers of copies of rows that a run decides, by those of copies of a number of rows."""

ADD_THREADS = 256
"""Threads of a block that adds split-K slices."""


@dataclass(frozen=True)
class Mainloop:
    """The device function that computes a tile, with its headers and operands.

    The `text` precedes the kernel. With `resident`, the launch bounds have as many blocks for each
    SM, so that the compiler does not spill to make room for more.
    """

    headers: tuple[str, ...]
    function: str
    parameters: Sequence[Parameter]
    text: str = ""
    resident: int = 0

    @property
    def passed(self) -> str:
        """The names of the parameters."""
        return ", ".join(own.name for own in self.parameters)

    def bounds(self, threads: int) -> str:
        """The launch bounds of a kernel."""
        return f"{threads}, {self.resident}" if self.resident else str(threads)


def mainloop_of(problem: Problem, tile: Tile) -> Mainloop:
    """The function for a tile's kind, with both operands in memory."""
    headers = TILE_HEADERS
    function = "gemm<Problem>"
    resident = 0
    if tile.wgmma:
        headers = WGMMA_HEADERS
        function = "wgmma_gemm<Problem>"
        resident = 2 * int(tile.co_resident)
    elif tile.halo:
        headers = HALO_HEADERS
    elif tile.lanes == WAVE:
        headers = MFMA_HEADERS
        function = "mfma_gemm<Problem>"
    kind = "float" if problem.element_bytes == 4 else "uint16_t"
    return Mainloop(headers, function, operand_parameters(problem, kind), resident=resident)


def runtime_headers(templates: Sequence[str]) -> list[str]:
    """The headers that follow those of a tile where a run decides the rows."""
    return [RUNTIME_HEADERS[name] for name in templates if name in RUNTIME_HEADERS]


def operand_parameters(problem: Problem, kind: str) -> list[Parameter]:
    """The parameters of both operands."""
    operands = (("a", problem.left), ("b", problem.right))
    return [Parameter(f"const {kind}* __restrict__", name, read) for name, read in operands]


def tiled_kernel(
    group: Group,
    anchor: Node[int],
    problem: Problem,
    tile: Tile,
    target: GpuTarget,
    mainloop: Mainloop | None = None,
) -> KernelSource:
    """The kernel of a problem with one tile shape."""
    block, vector = (problem.block, problem.vector) if tile.launches(target) == 1 else (0, 0)
    store = store_function(group, anchor, target, block, vector > 0)
    block, vector = (block, vector) if Part.ELEMENT in store.parts else (0, 0)
    problem = replace(problem, block=block, vector=vector)
    problem = _with_prefetched(problem, store, group, tile, target)
    return Emitter(group, anchor, problem, store, target).tiles(tile, mainloop)


def _with_prefetched(
    problem: Problem, store: StoreFunction, group: Group, tile: Tile, target: GpuTarget
) -> Problem:
    """The problem with the number of elementwise and broadcast operands that are prefetched.

    They are prefetched late, into the pipeline's stages after the main loop, where there is no room
    for both, or, of vectors, where fewer blocks would fit an SM; not at all where the results then
    have no room.
    """
    if not problem.width:
        return problem
    elementwise, broadcast = prefetched_reads(store, problem, group)
    prefetching = replace(problem, prefetched=(len(elementwise), len(broadcast)))
    resident = [resident_blocks(p, tile, target) for p in (problem, prefetching)]
    room = shared_room(problem, target)
    later = replace(prefetching, late=True)
    fewer = problem.vector > 0 and resident[1] < resident[0]
    if shared_bytes(prefetching, tile, target) <= room and not fewer:
        return prefetching
    return later if shared_bytes(later, tile, target) <= room else problem


@dataclass(frozen=True)
class Emitter:
    """Writes the CUDA text of one problem, whose epilogue is a store function."""

    group: Group
    anchor: Node[int]
    problem: Problem
    store: StoreFunction
    target: GpuTarget

    def gemv(self) -> KernelSource:
        """The kernel of a GEMV."""
        problem = self.problem
        tile = Tile(16, 32, 16, 32, 1)
        grid = (ceil_div(problem.n, 32), 1, problem.count)
        launch = Launch(f"{self.group.name}_0", (), grid, (GEMV_WARPS * 32, 1, 1))
        parameters = operand_parameters(problem, c_type(problem.dtype))
        call = f"gemv<Problem, {GEMV_WARPS}>(a, b, {self._store_object()})"
        text, launch = self._kernel(launch, parameters, call)
        return self._result(self._text(("gemv",), tile, text), (launch,), (), exact=True)

    def tiles(self, tile: Tile, mainloop: Mainloop | None = None) -> KernelSource:
        """The kernel of a tiled GEMM; a cluster or a second launch adds split-K slices."""
        problem = self.problem
        mainloop = mainloop or mainloop_of(problem, tile)
        grid = (
            ceil_div(problem.n, tile.columns),
            ceil_div(problem.m if problem.rows is None else problem.rows, tile.rows),
            problem.count * tile.split_k,
        )
        shared = shared_bytes(problem, tile, self.target)
        first = Launch(f"{self.group.name}_0", (), grid, (tile.threads, 1, 1), shared)
        if tile.launches(self.target) == 1:
            source = self._in_one_launch(tile, mainloop, first)
            return source if problem.rows is None else with_runtime_sizes(source, self.group)
        return self._in_two_launches(tile, mainloop, first)

    def _in_one_launch(self, tile: Tile, mainloop: Mainloop, launch: Launch) -> KernelSource:
        call = f"{mainloop.function}({mainloop.passed}, {self._store_object()})"
        cluster = tile.split_k if tile.has_cluster(self.target) else 1
        bounds = mainloop.bounds(tile.threads)
        own, launch = self._kernel(launch, mainloop.parameters, call, bounds, cluster)
        text = self._text(mainloop.headers, tile, mainloop.text + own)
        return self._result(text, (launch,), ())

    def _in_two_launches(self, tile: Tile, mainloop: Mainloop, launch: Launch) -> KernelSource:
        """The second launch adds the split-K slices, which the first one writes to a workspace."""
        elements = self.problem.count * self.problem.m * self.problem.n
        scratch = len(self.group.reads) + len(self.group.writes)
        parameters = [*mainloop.parameters, Parameter("float* __restrict__", "partials", scratch)]
        call = f"{mainloop.function}({mainloop.passed}, StorePartial<Problem>{{partials}})"
        first, launch = kernel(launch, parameters, call, mainloop.bounds(tile.threads))
        grid = (ceil_div(elements, ADD_THREADS), 1, 1)
        adding = Launch(f"{self.group.name}_1", (), grid, (ADD_THREADS, 1, 1))
        call = f"reduce_split_k<Problem>(partials, {self._store_object()})"
        partials = Parameter("const float*", "partials", scratch)
        second, adding = self._kernel(adding, [partials], call)
        text = self._text(mainloop.headers, tile, mainloop.text + first + second)
        return self._result(text, (launch, adding), (elements * tile.split_k * 4,))

    def _result(
        self,
        text: str,
        launches: tuple[Launch, ...],
        scratch: tuple[int, ...],
        exact: bool = False,
    ) -> KernelSource:
        given = {n: own if exact else self._rounded(own) for n, own in self.problem.packings}
        packings = packings_of(self.group, given)
        flops = 2 * self.problem.multiplications
        return KernelSource(text, launches, scratch, packings, flops)

    def _rounded(self, packing: str) -> str:
        """A packing that also rounds to TF32, to which tensor cores would truncate."""
        return f"{packing}|round:10".lstrip("|") if self._precision == "tf32" else packing

    @property
    def _precision(self) -> str:
        """The precision of the MMAs: two-byte elements are not converted."""
        short = {"float16": "fp16", "bfloat16": "bf16", "int8": "int8", "float8": "int8"}
        return short.get(self.problem.dtype, self.target.precision)

    def _store_object(self) -> str:
        return f"Store{{{', '.join(self.store.names)}}}"

    def _kernel(
        self,
        launch: Launch,
        parameters: Iterable[Parameter],
        call: str,
        bounds: int | str = "",
        cluster: int = 1,
    ) -> tuple[str, Launch]:
        """A kernel of some parameters and those of the store function, and its launch."""
        return kernel(launch, [*parameters, *self.store.parameters], call, bounds, cluster)

    def _text(self, templates: tuple[str, ...], tile: Tile, kernels: str) -> str:
        parts = [
            header("instructions"),
            *map(header, templates),
            *map(header, runtime_headers(templates) if self.problem.rows is not None else ()),
            self.store.text,
            self._constants(tile),
            self._store_struct(),
        ]
        parts += [self._overlap(tile)] if tile.overlaps else []
        return "\n".join([*parts, kernels])

    def _overlap(self, tile: Tile) -> str:
        """The specialisation for a kernel that prefetches weights or releases its successors."""
        head = "  static __device__ __forceinline__ void"
        operand = prefetched_operand(self.problem) if tile.prefetch else 0
        wait = "grid_dependency_wait();" if tile.prefetch else ""
        release = "launch_dependents();" if tile.release else ""
        lines = [f"  static constexpr int PREFETCHED = {operand};", f"{head} wait() {{ {wait} }}"]
        lines += [f"{head} release() {{ {release} }}"]
        return struct("Overlap", lines, specialised=True)

    def _aligned_reads(self) -> tuple[int, ...]:
        """The image, where it is copied from multiples of 16 bytes or by single elements."""
        problem = self.problem
        single = problem.form is Form.LINES and not problem.contiguous
        return (problem.right,) if single or problem.form is Form.BLOCKS else ()

    def _store_struct(self) -> str:
        """The struct that passes results to the store function, as elements or as vectors."""
        body = [] if self.problem.block else element_methods(self.store, self.problem)
        if self.problem.width:
            body += block_methods(self.store, self.problem, self.group)
        return struct("Store", [*self.store.members, *body])

    def _constants(self, tile: Tile) -> str:
        scalars = self._sizes() | self._layout() | self._tile(tile)
        element = {1: "uint8_t", 2: "uint16_t", 4: "float"}[self.problem.element_bytes]
        lines = [f"  using Element = {element};", *constants(scalars)]
        lines += [*_triples(self.problem.gather), *_offsets(self.problem), *self._rows()]
        return struct("Problem", lines)

    def _sizes(self) -> dict[str, int | str]:
        problem = self.problem
        packed = [number for number, _ in problem.packings]
        aligned = {problem.left, problem.right} <= {*packed, *self._aligned_reads()}
        return {
            "M": problem.m if problem.rows is None else "RUNTIME",
            "N": problem.n,
            "K": problem.k,
            "PROBLEMS": problem.count,
            "FORM": int(problem.form),
            "A_ROW": problem.a_row,
            "B_ROW": problem.b_row,
            "A_ROUNDED": int(problem.left in packed),
            "B_ROUNDED": int(problem.right in packed),
            "ALIGNED": int(aligned),
        }

    def _rows(self) -> list[str]:
        """The function that gives the rows that a run decides."""
        if self.problem.rows is None:
            return []
        rows = size_text(self.problem.rows, self.group)
        return [f"  __device__ static __forceinline__ int rows() {{ return {rows}; }}"]

    def _layout(self) -> dict[str, int]:
        problem, gather = self.problem, self.problem.gather
        return {
            "OUT_BLOCK": problem.block,
            "VECTOR": problem.vector,
            "ELEMENTWISE": problem.prefetched[0],
            "BROADCASTS": problem.prefetched[1],
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
        }

    def _tile(self, tile: Tile) -> dict[str, int]:
        return {
            "PRECISION": MMA_PRECISIONS.index(self._precision),
            "BM": tile.rows,
            "BN": tile.columns,
            "BK": self.problem.step,
            "WM": tile.warp_rows,
            "WN": tile.warp_columns,
            "STAGES": tile.stages,
            "STAGED": staged_bytes(self.problem, tile),
            "HALO": int(tile.halo),
            "LANES": tile.lanes,
            "TABLE_DEPTH": TABLE_DEPTH,
            "SPLITS": tile.split_k,
            "CLUSTER": int(tile.has_cluster(self.target)),
        }


def _triples(gather: Gather) -> list[str]:
    triples = {
        "SOURCE": gather.source,
        "RESULT": gather.result,
        "WINDOW": gather.window,
        "STRIDES": gather.strides,
        "PADS": gather.pads,
        "DILATIONS": gather.dilations,
    }
    return [
        f"  __device__ static constexpr int {name}(int axis)"
        f" {{ return axis == 0 ? {a} : axis == 1 ? {b} : {c}; }}"
        for name, (a, b, c) in triples.items()
    ]


def _offsets(problem: Problem) -> list[str]:
    offsets = {"a_offset": problem.a_offset, "b_offset": problem.b_offset}
    return [
        f"  __device__ static __forceinline__ int64_t {name}(int z) {{ return {offset}; }}"
        for name, offset in offsets.items()
    ]
