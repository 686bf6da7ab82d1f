"""Normalisations of rows, which read memory once: the text around row_norm.cuh."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from tvm.ir import PrimType, Var

from compiler.kernels.gpu.entries.sizes import runtime_constant, with_runtime_sizes
from compiler.kernels.gpu.epilogue import (
    StoreFunction,
    device_function,
    value_function,
)
from compiler.kernels.gpu.source import header
from compiler.kernels.gpu.structs import (
    Functor,
    functor_parameters,
    kernel,
    store_struct,
    value_struct,
)
from compiler.kernels.gpu.untyped import tirx
from compiler.kernels.group import Group, Node
from compiler.kernels.sizes import at_hint, is_number
from compiler.kernels.template import Folds, KernelSource, Key, Template
from compiler.kernels.tir.fusion import FusionContext
from compiler.kernels.tir.loops import variable
from compiler.schedule.kernels import Launch
from compiler.target.target import GpuTarget
from compiler.tensors.arithmetic import ceil_div
from compiler.tensors.extents import Extent
from compiler.tensors.row_major import unflatten_index

NORMALIZATIONS = ("LayerNormalization", "RMSNormalization")

MOST_THREADS = 1024
ITEMS = 4
"""Elements of a thread, where there are enough threads."""
MOST_ITEMS = 16
"""Elements that fit the registers of a thread."""

WARP_ITEMS = 32
"""Elements that fit the registers of a thread whose warp has a row."""
MANY_ROWS = 128
"""Fewest blocks where each has several rows: about one per SM."""

ROW_US, ELEMENTS = 1.7, 6e3
"""Microseconds of a row, and the elements that an SM reads in one: fitted to the shipped database's
times on an H200."""

EPSILON = 1e-5
"""ONNX's default."""


@dataclass(frozen=True)
class Problem:
    """A normalisation with its prologue and epilogue; it reduces the axes from `first` on."""

    anchor: Node[int]
    context: FusionContext
    first: int

    @property
    def sizes(self) -> tuple[int, int]:
        """Rows, those of the example where a run decides them, and columns."""
        shape = self.context.shape
        return at_hint(self.rows), prod(map(at_hint, shape[self.first :]))

    @property
    def rows(self) -> Extent:
        """The rows, for all sizes."""
        return prod(self.context.shape[: self.first])


@dataclass(frozen=True)
class Config:
    """The threads of a row and the rows of a block."""

    threads: int
    rows: int = 1


class RowNorm(Template[Problem, Config, GpuTarget], Folds):
    """A group around one float32 normalisation whose rows fit a block's registers.

    A block sums a row in an order that depends on its length only: the same bits every time.
    """

    name = "row_norm"
    folds_ranges = True
    sources = ("row_norm.cuh",)

    def match(self, group: Group, target: GpuTarget) -> Sequence[Problem]:
        """The only normalisation of a group."""
        anchor = group.only(*NORMALIZATIONS)
        if anchor is None or not _is_plain(group, anchor):
            return []
        context = FusionContext(group, anchor)
        problem = Problem(anchor, context, anchor.attributes["axis"])
        fits = 0 < problem.sizes[1] <= MOST_THREADS * MOST_ITEMS
        numbers = all(map(is_number, context.shape[problem.first :]))
        return [problem] if context.elementwise and fits and numbers else []

    def configs(self, problem: Problem, target: GpuTarget) -> Iterator[Config]:
        """The configs whose registers hold a row, the likeliest first."""
        columns = problem.sizes[1]
        single = (Config(ceil_div(columns, items * 32) * 32) for items in (1, 2, 4, 8, MOST_ITEMS))
        likely = dict.fromkeys((likeliest(problem), *single, *_several_rows(problem)))
        yield from (config for config in likely if config.threads <= MOST_THREADS)

    def estimate_ns(self, problem: Problem, config: Config, target: GpuTarget) -> float:
        """The same for all configs: launching, and the elements at the rate of all SMs."""
        rows, columns = problem.sizes
        return 1e3 * (ROW_US + rows * columns / (ELEMENTS * target.device.sms))

    def key(self, problem: Problem, target: GpuTarget) -> Key:
        """The type and the sizes; prologue and epilogue are left out."""
        rows, columns = problem.sizes
        return {"type": problem.anchor.type, "rows": rows, "columns": columns}

    def emit(
        self, group: Group, problem: Problem, config: Config, target: GpuTarget
    ) -> KernelSource:
        context, shape, first = problem.context, problem.context.shape, problem.first
        row, column = place = [variable(name) for name in ("row", "column")]
        inside = bool(group.symbols)
        at = [*unflatten_index(row, shape[:first], inside), *unflatten_index(column, shape[first:])]
        values = {
            "Load": context.operand(0, at),
            "Scale": _given(context.broadcast(1, at), 1.0),
            "Shift": _given(context.broadcast(2, at), 0.0),
        }
        functions = {
            name: value_function(f"{group.name}_{name.lower()}", context, value, place, target)
            for name, value in values.items()
        }
        value = Var("value", PrimType("float32"))
        statement = context.store(value, at)
        scalars = [*place, value]
        store = device_function(f"{group.name}_store", context, statement, scalars, target)
        source = _kernel(group, problem, functions, store, config)
        return with_runtime_sizes(source, group) if group.symbols else source


def likeliest(problem: Problem) -> Config:
    """A warp per row where there are many rows, else threads with a few elements each."""
    several = list(_several_rows(problem))
    if several:
        return several[-1]
    return Config(min(MOST_THREADS, ceil_div(problem.sizes[1], ITEMS * 32) * 32))


def _several_rows(problem: Problem) -> Iterator[Config]:
    """Several rows a block, each of one warp, where every SM still gets some."""
    rows, columns = problem.sizes
    for several in (2, 4, 8):
        if columns <= 32 * WARP_ITEMS and rows >= MANY_ROWS * several:
            yield Config(32, several)


def _is_plain(group: Group, anchor: Node[int]) -> bool:
    """Whether an anchor has float32 operands and one result."""
    used = [i for i in anchor.inputs if i is not None]
    results = [i for i in anchor.outputs if group.values[i].dtype]
    return len(results) == 1 and all(group.values[i].dtype == "float32" for i in (*used, *results))


def _given(value: Any, missing: float) -> Any:
    return tirx.const(missing, "float32") if value is None else value


def _kernel(
    group: Group,
    problem: Problem,
    functions: Mapping[str, StoreFunction],
    store: StoreFunction,
    config: Config,
) -> KernelSource:
    place = "int row, int column"
    structs = [Functor(name, value_struct(name, own, place), own.types, own.arguments)
               for name, own in functions.items()]  # fmt: skip
    stored = store_struct("Store", store, f"{place}, float value")
    structs.append(Functor("Store", stored, store.types, store.arguments))
    parts = [*(function.text for function in functions.values()), store.text]
    parts += [header("row_norm"), _constants(group, problem, config)]
    parts += [own.text for own in structs]
    grid = ceil_div(problem.rows, config.rows)
    block = config.threads * config.rows
    launch = Launch(f"{group.name}_0", (), (grid, 1, 1), (block, 1, 1))
    parameters, made = functor_parameters(structs)
    text, launch = kernel(launch, parameters, f"normalize<Problem>({', '.join(made)})")
    return KernelSource("\n".join([*parts, text]), (launch,), flops=8 * prod(problem.sizes))


def _constants(group: Group, problem: Problem, config: Config) -> str:
    rows, columns = problem.sizes
    lengths = [f"  static constexpr int COUNT = {rows}, COLUMNS = {columns};"]
    if not is_number(problem.rows):
        lengths = [
            *runtime_constant("COUNT", problem.rows, group),
            f"  static constexpr int COLUMNS = {columns};",
        ]
    epsilon = float(problem.anchor.attributes["epsilon"]).hex()
    constants = [
        "struct Problem {",
        *lengths,
        f"  static constexpr int THREADS = {config.threads}, ROWS = {config.rows};",
        f"  static constexpr bool CENTERED = {int(problem.anchor.type == 'LayerNormalization')};",
        f"  static constexpr float EPSILON = {epsilon}f;",
        "};",
        "",
    ]
    return "\n".join(constants)
