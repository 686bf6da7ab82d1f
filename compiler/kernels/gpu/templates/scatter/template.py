"""ScatterND and ScatterElements, in which each element of the result has one thread."""

from dataclasses import dataclass
from functools import reduce
from math import prod

from tvm.ir import PointerType, PrimType, Var

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.gpu.epilogue import Parameter, c_type, device_text
from compiler.kernels.gpu.source import header
from compiler.kernels.gpu.structs import constants, kernel, restricted, struct
from compiler.kernels.gpu.untyped import PrimFunc, tirx
from compiler.kernels.group import Group, Node
from compiler.kernels.ops.common import cast, wide
from compiler.kernels.ops.opaque import COMBINATIONS, combine
from compiler.kernels.ops.tables import table_element
from compiler.kernels.template import KernelSource, OneWay
from compiler.schedule.kernels import Launch
from compiler.target.target import GpuTarget

SCATTERS = ("ScatterND", "ScatterElements")

MOST_RANGES = 64
"""Most ranges of ScatterElements: the threads of each read all indices."""

BLOCKS, THREADS = 1, 1024
"""Blocks of an SM that find their updates, and threads of an SM that have columns."""

MOST_ITEMS, MOST_WIDTH, FLIGHT = 5, 4, 4
"""Most indices that a thread reads at a time, most elements that it has of a slice, and the updates
of a slice that it loads at a time. Updates found take 8 bytes of shared memory each."""


@dataclass(frozen=True)
class Problem:
    """A scatter of lists of updates, each into slots.

    ScatterND has one list, of slices, and no axis. ScatterElements has one for each column: an
    index of the indices' shape without the axis; where that is the only one, its elements are
    slices, too.
    """

    operator: Node[int]
    shape: tuple[int, ...]
    places: tuple[int, ...]
    axis: int | None

    @property
    def slices(self) -> bool:
        """Whether there is one list of updates, of slices."""
        return self.axis is None or len(self.shape) == 1

    @property
    def along(self) -> tuple[int, ...]:
        """The extents that an index is inside."""
        if self.axis is None:
            return self.shape[: self.places[-1]]
        return (self.shape[self.axis],)

    @property
    def slots(self) -> int:
        """The places that an index may name."""
        return prod(self.along)

    @property
    def inner(self) -> int:
        """Elements from one slot to the next."""
        before = len(self.along) if self.axis is None else self.axis + 1
        return prod(self.shape[before:])

    @property
    def updates(self) -> int:
        """The updates of a list."""
        if self.axis is None:
            return prod(self.places[:-1])
        return self.places[self.axis]

    @property
    def columns(self) -> int:
        """The lists of updates."""
        return 1 if self.slices else prod(self.places) // self.updates

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return 1024 if self.slices else 128

    @property
    def items(self) -> int:
        """Indices that a thread reads at a time: the same number each time."""
        chunks = ceil_div(self.updates, self.threads * MOST_ITEMS)
        return ceil_div(self.updates, self.threads * chunks)

    @property
    def sharers(self) -> int:
        """Threads that share a slice: a power of two, whole warps of wide ones."""
        each = max(min(self.inner, 32), ceil_div(self.inner, MOST_WIDTH))
        return min(self.threads, 1 << (each - 1).bit_length())

    @property
    def width(self) -> int:
        """Elements of a slice that a thread has at a time."""
        return min(MOST_WIDTH, ceil_div(self.inner, self.sharers))

    def slots_of_range(self, target: GpuTarget) -> int:
        """The slots of a block, or of blocks of different columns."""
        sms = target.device.sms
        ranges = BLOCKS * sms if self.slices else min(MOST_RANGES, THREADS * sms // self.columns)
        return -(-self.slots // max(1, ranges))


COPY_THREADS, COPY_ITEMS = 256, 4
"""Threads of a block that copies, and elements of each."""


def _combine(group: Group, problem: Problem) -> PrimFunc:
    """A function that combines an element of the updates into one of the result."""
    dtype = group.writes[0].dtype
    kind = str(problem.operator.attributes["reduction"])
    buffers = [tirx.decl_buffer((1,), dtype, name=name) for name in ("out", "updates")]
    pointers = [Var(b.name, PointerType(PrimType(dtype))) for b in buffers]
    places = [Var(name, PrimType("int64")) for name in ("to", "from")]
    old, new = (tirx.BufferLoad(b, [at]) for b, at in zip(buffers, places, strict=True))
    given = group.constants.get(problem.operator.operand(2))
    new = new if given is None else table_element(given, 0, dtype)
    value = new if kind == "none" else combine(kind, cast(old, wide(dtype)), cast(new, wide(dtype)))
    store = tirx.BufferStore(buffers[0], cast(value, dtype), [places[0]])
    declared = [tirx.DeclBuffer(b, data=p) for b, p in zip(buffers, pointers, strict=True)]
    return tirx.PrimFunc([*pointers, *places], tirx.SeqStmt([*declared, store]))


def _constants(group: Group, problem: Problem, slots: int) -> str:
    """The problem as constants and functions."""
    kind, index = (c_type(group.values[problem.operator.operand(i)].dtype) for i in range(2))
    values = {
        "THREADS": problem.threads,
        "ITEMS": problem.items,
        "WIDTH": problem.width,
        "FLIGHT": FLIGHT,
        "COUNT": problem.updates,
        "SLOTS": problem.slots,
        "RANGE": slots,
        "INNER": problem.inner,
        "COLUMNS": problem.sharers if problem.slices else problem.columns,
        "STEP": prod(problem.places[(problem.axis or 0) + 1 :]),
    }
    lines = constants(values)
    position = "int64_t i"
    lines += [
        f"  static __device__ __forceinline__ int slot(const {index}* indices, {position}) {{",
        f"    return {_slot(group, problem)};",
        "  }",
        "  static __device__ __forceinline__ int64_t base(int column) {",
        f"    return {_base(problem)};",
        "  }",
        "  static __device__ __forceinline__ void combine"
        f"({kind}* out, const {kind}* updates, int64_t to, int64_t from) {{",
        f"    {group.name}_combine(out, ({kind}*)updates, to, from);",
        "  }",
    ]
    return struct("Problem", lines)


def _slot(group: Group, problem: Problem) -> str:
    """The slot that the indices of update `i` name, as a C expression."""
    depth = len(problem.along)
    given = group.constants.get(problem.operator.operand(1))
    read = [f"indices[i * {depth} + {k}]" for k in range(depth)]
    read = read if given is None else [str(int(given.item()))]
    each = [f"inside({i}, {extent})" for i, extent in zip(read, problem.along, strict=True)]
    pairs = zip(each[1:], problem.along[1:], strict=True)
    return reduce(lambda total, pair: f"({total}) * {pair[1]} + {pair[0]}", pairs, each[0])


def _base(problem: Problem) -> str:
    """Where a column's first slot is, as a C expression."""
    if problem.slices:
        return "0"
    terms: list[str] = []
    before = 1
    for axis in reversed([i for i in range(len(problem.shape)) if i != problem.axis]):
        extent = problem.places[axis]
        step = prod(problem.shape[axis + 1 :])
        terms.append(f"(int64_t)(column / {before} % {extent}) * {step}")
        before *= extent
    return " + ".join(terms)


def _scattered(launch: Launch, group: Group, problem: Problem) -> tuple[str, Launch]:
    """The kernel that combines, whose parameters are the operands that are not constants."""
    numbers = [problem.operator.operand(i) for i in range(3)]
    kind, index = (c_type(group.values[i].dtype) for i in numbers[:2])
    operands = zip((kind, index, kind), ("data", "indices", "updates"), numbers, strict=True)
    parameters: list[Parameter] = []
    absent: list[str] = []
    for own, name, number in operands:
        if number < group.inputs:
            parameters.append(restricted(f"const {own}*", name, number))
        else:
            absent.append(f"const {own}* {name} = nullptr;\n  ")
    parameters.append(restricted(f"{kind}*", "out", group.inputs))
    body = "slices<Problem>(data, " if problem.slices else "elements<Problem>("
    call = f"{''.join(absent)}scatter_{body}indices, updates, out)"
    return kernel(launch, parameters, call)


def _copied(group: Group, problem: Problem) -> tuple[str, Launch]:
    """The kernel that copies the tensor."""
    kind = c_type(group.writes[0].dtype)
    elements = prod(problem.shape)
    data = restricted(f"const {kind}*", "data", problem.operator.operand(0))
    each = COPY_THREADS * COPY_ITEMS
    first = f"(int64_t)blockIdx.x * {each}"
    call = f"copy_slice(data, out, {first}, {elements}, {each}, {COPY_THREADS})"
    grid = (ceil_div(elements, each), 1, 1)
    launch = Launch(f"{group.name}_copy", (), grid, (COPY_THREADS, 1, 1))
    return kernel(launch, [data, restricted(f"{kind}*", "out", group.inputs)], call)


LAUNCH_US, CHUNK_US, ROUND_US, LOOK_US, UPDATE_US, BYTES = 8.0, 1.2, 0.5, 0.7, 0.25, 2e6
"""Microseconds of a launch and its sort, fitted to four scatters on an H100 (11 to 14 us); of
slices, of a chunk of indices and of one round of loads; of single elements, of a look among the
indices and of an update; the bytes of a microsecond. The latter were not measured one by one."""


class Scatter(OneWay[Problem, GpuTarget]):
    """A group of one scatter.

    Updates of one element are combined in their order: the same bits every time.
    """

    name = "scatter"

    def problem(self, group: Group, target: GpuTarget) -> Problem | None:
        """The scatter that a group consists of; None for any other group."""
        operator, *others = group.operators
        if others or operator.type not in SCATTERS:
            return None
        if operator.attributes["reduction"] not in COMBINATIONS:
            return None
        data, indices, updates = (operator.operand(i) for i in range(3))
        held = [group.constants[i].size for i in (indices, updates) if i in group.constants]
        if data in group.constants or max(held, default=1) > 1 or group.values[data].code:
            return None
        shape, places = group.values[data].shape, group.values[indices].shape
        if not prod(places) or not prod(shape):
            return None
        return Problem(operator, shape, places, operator["axis"])

    def estimate_ns(self, problem: Problem, config: None, target: GpuTarget) -> float:
        """Copying, looking through all indices, and a thread's share of the updates."""
        copied = 8 * problem.slots * problem.inner / BYTES
        slots = problem.slots_of_range(target)
        share = problem.updates * slots / problem.slots
        if problem.slices:
            chunks = ceil_div(problem.updates, problem.threads * problem.items)
            share *= problem.sharers / problem.threads / FLIGHT
            rounds = max(chunks, share) * ceil_div(problem.inner, problem.sharers * problem.width)
            return 1e3 * (LAUNCH_US + copied + chunks * CHUNK_US + rounds * ROUND_US)
        looked = problem.updates / problem.threads * LOOK_US
        return 1e3 * (2 * LAUNCH_US + copied + looked + share * UPDATE_US)

    def emit(self, group: Group, problem: Problem, config: None, target: GpuTarget) -> KernelSource:
        """The kernel of a scatter; where slots are not slices, a launch copies the tensor first."""
        slots = problem.slots_of_range(target)
        ranges = ceil_div(problem.slots, slots)
        blocks = ceil_div(problem.columns, problem.threads)
        grid = (ranges, 1, 1) if problem.slices else (blocks, ranges, 1)
        bare = Launch(f"{group.name}_0", (), grid, (problem.threads, 1, 1))
        text, launch = _scattered(bare, group, problem)
        parts = [device_text(f"{group.name}_combine", _combine(group, problem), target)]
        parts += [header("indices"), header("scatter"), _constants(group, problem, slots), text]
        if problem.slices:
            return KernelSource("\n".join(parts), (launch,))
        copying, copy = _copied(group, problem)
        return KernelSource("\n".join([*parts, copying]), (copy, launch))
