"""Convolutions and matrix products as CUDA kernels: tiles by tensor cores, or rows by a matrix."""

from dataclasses import dataclass
from typing import Any

from compiler.kernels.cuda.problem import STEP, Problem, read_problem
from compiler.kernels.cuda.scheduled import CudaKernel
from compiler.kernels.cuda.source import header
from compiler.kernels.cuda.store import StoreFunction, store_function
from compiler.kernels.cuda.target import CudaTarget
from compiler.kernels.cuda.tiles import THREADS, Tile, ceil_div, choose_tile
from compiler.kernels.group import Group, Operator
from compiler.schedule import Launch

CONTRACTIONS = ("Conv", "ConvTranspose", "Gemm", "MatMul")

FEW_ROWS = 4
"""Up to this many rows a product is bound by reading its matrix."""

ROW_WARPS = 16
"""Warps of a block that multiplies a few rows."""

ADD_THREADS = 256
"""Threads of a block that adds shares."""


def contraction_kernel(
    group: Group, target: CudaTarget, tile: Tile | None = None
) -> CudaKernel | None:
    """The kernel of a group with a contraction; None when the generic schedule must take it.

    Without a tile the one that should be fastest is taken.
    """
    anchors = [op for op in group.operators if op.type in CONTRACTIONS]
    if len(anchors) != 1:
        return None
    problem = read_problem(group, anchors[0])
    if problem is None:
        return None
    store = store_function(group, anchors[0], target)
    if store is None:
        return None
    emitter = _Emitter(group, anchors[0], problem, store, target)
    if tile is None and problem.m <= FEW_ROWS and anchors[0].type in ("MatMul", "Gemm"):
        return emitter.rows()
    return emitter.tiles(tile or choose_tile(problem, target))


@dataclass(frozen=True)
class _Emitter:
    """Writes the CUDA text of one problem."""

    group: Group
    anchor: Operator
    problem: Problem
    store: StoreFunction
    target: CudaTarget

    def rows(self) -> CudaKernel:
        """A few rows by a matrix."""
        problem, name = self.problem, f"{self.group.name}_0"
        tile = Tile(16, 32, 16, 32, 1)
        call = f"multiply_rows<Problem, {ROW_WARPS}>(a, b, {self._store_object()});"
        text = self._text("vector", tile, self._kernel(name, ROW_WARPS * 32, "", call))
        grid = (ceil_div(problem.n, 32), 1, problem.count)
        launch = Launch(name, self._arguments(), grid, (ROW_WARPS * 32, 1, 1))
        return self._result(text, (launch,), ())

    def tiles(self, tile: Tile) -> CudaKernel:
        """Tiles of the result; a cluster adds its shares, or else a second launch."""
        problem, name = self.problem, self.group.name
        grid = (
            ceil_div(problem.n, tile.columns),
            ceil_div(problem.m, tile.rows),
            problem.count * tile.shares,
        )
        block, shared = (THREADS, 1, 1), tile.shared_bytes
        cluster = tile.in_cluster(self.target)
        if tile.shares == 1 or cluster:
            call = f"contract<Problem>(a, b, {self._store_object()});"
            kernel = self._kernel(f"{name}_0", THREADS, "", call, tile.shares if cluster else 1)
            text = self._text("contraction", tile, kernel)
            launch = Launch(f"{name}_0", self._arguments(), grid, block, shared)
            return self._result(text, (launch,), ())
        elements = problem.count * problem.m * problem.n
        scratch = len(self.group.reads) + len(self.group.writes)
        first = (
            f'extern "C" __global__ void __launch_bounds__({THREADS}) {name}_0(const float* a,'
            " const float* b, float* shares) {\n"
            "  contract<Problem>(a, b, KeepShare<Problem>{shares});\n}\n"
        )
        add = f"add_shares<Problem>(shares, {self._store_object()});"
        second = self._kernel(f"{name}_1", ADD_THREADS, "const float* shares", add)
        text = self._text("contraction", tile, first + second)
        launches = (
            Launch(f"{name}_0", (problem.left, problem.right, scratch), grid, block, shared),
            Launch(
                f"{name}_1",
                (scratch, *self.store.arguments),
                (ceil_div(elements, ADD_THREADS), 1, 1),
                (ADD_THREADS, 1, 1),
            ),
        )
        return self._result(text, launches, (elements * tile.shares * 4,))

    def _result(
        self, text: str, launches: tuple[Launch, ...], scratch: tuple[int, ...]
    ) -> CudaKernel:
        packings = [""] * self.group.inputs
        for number, packing in self.problem.packings:
            packings[number] = packing
        flops = 2 * self.problem.multiplications
        return CudaKernel(text, launches, scratch, tuple(packings), flops)

    def _arguments(self) -> tuple[int, ...]:
        return (self.problem.left, self.problem.right, *self.store.arguments)

    def _store_object(self) -> str:
        names = ", ".join(f"buffer{i}" for i in range(len(self.store.arguments)))
        return f"Store{{{names}}}"

    def _kernel(self, name: str, threads: int, parameters: str, call: str, cluster: int = 1) -> str:
        given = [parameters or "const float* a, const float* b"]
        given += [f"{kind}* buffer{i}" for i, kind in enumerate(self.store.types)]
        together = f" __cluster_dims__(1, 1, {cluster})" if cluster > 1 else ""
        return (
            f'extern "C" __global__ void{together} __launch_bounds__({threads})'
            f" {name}({', '.join(given)}) {{\n  {call}\n}}\n"
        )

    def _text(self, template: str, tile: Tile, kernels: str) -> str:
        parts = [
            header("instructions"),
            header(template),
            self.store.text,
            self._constants(tile),
            self._store_struct(),
        ]
        return "\n".join([*parts, kernels])

    def _store_struct(self) -> str:
        fields = [f"  {kind}* buffer{i};" for i, kind in enumerate(self.store.types)]
        passed = [f"buffer{i}, " for i in range(len(self.store.types))]
        outer, row, column = self.problem.place
        return "\n".join(
            [
                "struct Store {",
                *fields,
                "  __device__ __forceinline__ void operator()(int share, int m, int n,"
                " float value) const {",
                "    const int z = share / Problem::SPLITS;",
                f"    {self.store.name}({''.join(passed)}{outer}, {row}, {column}, value);",
                "  }",
                "};",
                "",
            ]
        )

    def _constants(self, tile: Tile) -> str:
        problem, gather = self.problem, self.problem.gather
        precisions = {"fp32": 0, "tf32": 1, "fp16": 2, "bf16": 3}
        scalars: dict[str, Any] = {
            "M": problem.m,
            "N": problem.n,
            "K": problem.k,
            "PROBLEMS": problem.count,
            "A_ROW": problem.a_row,
            "CHANNELS": gather.channels,
            "ROW": gather.row,
            "TAPS": gather.taps,
            "PIXELS": gather.pixels,
            "IMAGE": gather.image,
            "PLANE": gather.plane,
            "TAP_MAJOR": int(gather.tap_major),
            "CONTIGUOUS": int(gather.contiguous),
            "TRANSPOSED": int(gather.transposed),
            "PRECISION": precisions[self.target.precision],
            "BM": tile.rows,
            "BN": tile.columns,
            "BK": STEP,
            "WM": tile.warp_rows,
            "WN": tile.warp_columns,
            "STAGES": tile.stages,
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
        lines = [f"  static constexpr int {name} = {value};" for name, value in scalars.items()]
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
