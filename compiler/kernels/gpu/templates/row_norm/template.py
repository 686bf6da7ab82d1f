"""Normalisations of rows as CUDA kernels that read memory once: the text around rows.cuh."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass
from math import prod
from typing import Any

from tvm import tirx
from tvm.ir import PrimType, Var

from compiler.kernels.gpu.epilogue import (
    StoreFunction,
    device_function,
    value_function,
    value_struct,
)
from compiler.kernels.gpu.recorded import first_of, recorded
from compiler.kernels.gpu.scheduled import CudaKernel
from compiler.kernels.gpu.source import header
from compiler.kernels.gpu.templates.gemm.tiles import ceil_div
from compiler.kernels.group import Group, Operator
from compiler.kernels.ops.lowering import unflatten_index
from compiler.kernels.tir.loops import variable
from compiler.kernels.tir.surroundings import Surroundings
from compiler.schedule import Launch
from compiler.target.target import GpuTarget

NORMALIZATIONS = ("LayerNormalization", "RMSNormalization")

MOST_THREADS = 1024
ITEMS = 4
"""Elements that a thread has, as long as there are threads for all."""
MOST_ITEMS = 16
"""Elements that fit the registers of a thread."""

WARP_ITEMS = 32
"""Elements that fit the registers of a thread whose warp has a row."""
MANY_ROWS = 128
"""Blocks that there are at least where they have several rows: about one a processor."""

EPSILON = 1e-5
"""ONNX's own where the attribute is left out."""


@dataclass(frozen=True)
class Rows:
    """A normalisation with what is around it; its rows begin at the axis `first`."""

    anchor: Operator
    around: Surroundings
    first: int

    @property
    def sizes(self) -> tuple[int, int]:
        """Rows and columns."""
        return prod(self.around.shape[: self.first]), prod(self.around.shape[self.first :])


@dataclass(frozen=True, order=True)
class Work:
    """The threads of a row and the rows of a block."""

    threads: int
    rows: int = 1


def rows_kernel(group: Group, target: GpuTarget, work: Work | None = None) -> CudaKernel | None:
    """The kernel of a group around one float32 normalisation; None for any other group.

    A block adds up a row in an order that depends on its length only: the same bits every time.
    """
    problem = rows_problem(group)
    if problem is None:
        return None
    anchor, around, first = problem.anchor, problem.around, problem.first
    shape = around.shape
    work = work or tuned_work(problem, target)
    row, column = place = [variable(name) for name in ("row", "column")]
    at = [*unflatten_index(row, shape[:first]), *unflatten_index(column, shape[first:])]
    values = {
        "Load": around.operand(0, at),
        "Scale": _broadcast(around, 1, at, 1.0),
        "Shift": _broadcast(around, 2, at, 0.0),
    }
    functions = {
        name: value_function(f"{group.name}_{name.lower()}", around, value, place, target)
        for name, value in values.items()
    }
    value = Var("value", PrimType("float32"))
    store = device_function(
        f"{group.name}_store", around, around.store(value, at), [*place, value], target
    )
    return _kernel(group, anchor, functions, store, problem.sizes, work)


def rows_problem(group: Group) -> Rows | None:
    """The only float32 normalisation of a group, if its rows fit a block's registers."""
    anchors = [op for op in group.operators if op.type in NORMALIZATIONS]
    if len(anchors) != 1 or not _is_plain(group, anchors[0]):
        return None
    around = Surroundings(group, anchors[0])
    first = anchors[0].attributes.get("axis", -1) % len(around.shape)
    problem = Rows(anchors[0], around, first)
    fits = 0 < problem.sizes[1] <= MOST_THREADS * MOST_ITEMS
    return problem if around.elementwise and fits else None


def choose_work(problem: Rows) -> Work:
    """A warp a row where there are many rows, else threads that have a few elements each."""
    together = list(_together(problem))
    if together:
        return together[-1]
    return Work(min(MOST_THREADS, ceil_div(problem.sizes[1], ITEMS * 32) * 32))


def candidates(problem: Rows) -> Iterator[Work]:
    """The works whose threads' registers hold a row, the chosen one first."""
    columns = problem.sizes[1]
    apart = (Work(ceil_div(columns, items * 32) * 32) for items in (1, 2, 4, 8, MOST_ITEMS))
    works = dict.fromkeys((choose_work(problem), *apart, *_together(problem)))
    yield from (work for work in works if work.threads <= MOST_THREADS)


def _together(problem: Rows) -> Iterator[Work]:
    """Several rows a block, of a warp each, where that leaves every processor some."""
    rows, columns = problem.sizes
    for together in (2, 4, 8):
        if columns <= 32 * WARP_ITEMS and rows >= MANY_ROWS * together:
            yield Work(32, together)


def tuned_work(problem: Rows, target: GpuTarget) -> Work:
    """The work that was measured to be fastest, or else should be."""
    entry = recorded(rows_key(problem), target)
    found = first_of(entry, {astuple(work) for work in candidates(problem)})
    return Work(*found) if found else choose_work(problem)


def rows_key(problem: Rows) -> str:
    """What decides the speed of a problem's threads; what is around it is left out."""
    return json.dumps(("rows", problem.anchor.type, *problem.sizes), separators=(",", ":"))


def _is_plain(group: Group, anchor: Operator) -> bool:
    """Whether an anchor has float32 operands and one result."""
    used = [i for i in anchor.inputs if i is not None]
    results = [i for i in anchor.outputs if group.values[i].dtype]
    return len(results) == 1 and all(group.values[i].dtype == "float32" for i in (*used, *results))


def _broadcast(around: Surroundings, position: int, at: list[Any], missing: float) -> Any:
    """The element of an operand that goes with an element of the result."""
    if position >= len(around.operands) or around.operands[position] is None:
        return tirx.const(missing, "float32")
    shape = [int(extent) for extent in around.operands[position].shape]
    own = at[len(at) - len(shape) :]
    own = [0 if n == 1 else i for i, n in zip(own, shape, strict=True)]
    return around.operand(position, own)


def _kernel(
    group: Group,
    anchor: Operator,
    functions: Mapping[str, StoreFunction],
    store: StoreFunction,
    sizes: tuple[int, int],
    work: Work,
) -> CudaKernel:
    rows, columns = sizes
    epsilon = float(anchor.attributes.get("epsilon", EPSILON)).hex()
    constants = [
        "struct Problem {",
        f"  static constexpr int COUNT = {rows}, COLUMNS = {columns};",
        f"  static constexpr int THREADS = {work.threads}, ROWS = {work.rows};",
        f"  static constexpr bool CENTRED = {int(anchor.type == 'LayerNormalization')};",
        f"  static constexpr float EPSILON = {epsilon}f;",
        "};",
        "",
    ]
    parts = [*(function.text for function in functions.values()), store.text]
    parts += [header("rows"), "\n".join(constants)]
    parts += [value_struct(name, f, "int row, int column") for name, f in functions.items()]
    name = f"{group.name}_0"
    text = "\n".join([*parts, _store_struct(store), _function(name, functions, store, work)])
    arguments = [i for function in (*functions.values(), store) for i in function.arguments]
    grid, block = ceil_div(rows, work.rows), work.threads * work.rows
    launch = Launch(name, tuple(arguments), (grid, 1, 1), (block, 1, 1))
    return CudaKernel(text, (launch,), flops=8 * rows * columns)


def _store_struct(store: StoreFunction) -> str:
    names = [f"buffer{i}" for i in range(len(store.types))]
    return "\n".join(
        [
            "struct Store {",
            *(f"  {kind}* {own};" for kind, own in zip(store.types, names, strict=True)),
            "  __device__ __forceinline__ void operator()"
            "(int row, int column, float value) const {",
            f"    {store.name}({', '.join([*names, 'row', 'column', 'value'])});",
            "  }",
            "};",
            "",
        ]
    )


def _function(
    name: str, functions: Mapping[str, StoreFunction], store: StoreFunction, work: Work
) -> str:
    given: list[str] = []
    objects: list[str] = []
    for struct, function in (*functions.items(), ("Store", store)):
        names = [f"buffer{len(given) + i}" for i in range(len(function.types))]
        given += [f"{kind}* {own}" for kind, own in zip(function.types, names, strict=True)]
        objects.append(f"{struct}{{{', '.join(names)}}}")
    threads = work.threads * work.rows
    return (
        f'extern "C" __global__ void __launch_bounds__({threads}) {name}({", ".join(given)}) {{\n'
        f"  standardise<Problem>({', '.join(objects)});\n}}\n"
    )
