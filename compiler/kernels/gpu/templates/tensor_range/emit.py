"""The CUDA text of a kernel around tensor_range.cuh."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

from compiler.graph.fusion.ranges import (
    TensorRange,
    find_parted_ranges,
    find_ranges,
    is_row_sum,
)
from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.gpu.epilogue import by_element, device_function, value_function
from compiler.kernels.gpu.source import header
from compiler.kernels.gpu.structs import (
    DEVICE,
    Functor,
    constants,
    kernel,
    numbered_parameters,
    struct,
    value_part,
)
from compiler.kernels.group import Group, Node
from compiler.kernels.template import KernelSource
from compiler.kernels.tir.fusion import FusionContext
from compiler.kernels.tir.loops import variable
from compiler.net.operators import facts_of
from compiler.schedule.kernels import Launch
from compiler.target.target import GpuTarget
from compiler.tensors.row_major import unflatten_index

SINGLE_THREADS, THREADS = 1024, 256
"""Threads of a single block, and of one of several."""

ROW_THREADS = (256, 128, 64, 32)
"""Threads of a block that has a row."""

DIVISIONS = (1, 8, 16, 32, 64, 128, 256, 512, 1024)
"""The most blocks of a kernel."""


@dataclass(frozen=True)
class Problem:
    """The extremes of a tensor of `shape`, and the results for each element and of one element.

    Where the kernel that computed the tensor wrote the extremes of its `parts`, these are reduced.
    `sums` is a result that adds rows of integers, if there is one; `nbytes` are those of all
    tensors.
    """

    tensor: int
    lowest: Node[int]
    highest: Node[int]
    shape: tuple[int, ...]
    wide: tuple[int, ...]
    scalars: tuple[int, ...]
    parts: int = 0
    sums: int | None = None
    nbytes: int = 0

    @property
    def elements(self) -> int:
        """Elements of the tensor."""
        return prod(self.shape)

    @property
    def row(self) -> int:
        """Elements of a row whose sum is a result; 0 without such a result."""
        return 0 if self.sums is None else self.shape[-1]


@dataclass(frozen=True)
class Config:
    """The threads of a block, the elements of a thread, and the blocks."""

    threads: int
    items: int
    blocks: int

    def launches(self, problem: Problem) -> int:
        """Launches of the kernel."""
        return 1 if self.blocks == 1 or problem.parts else 2


def read_range(group: Group) -> Problem | None:
    """The problem of a group that is a range, casts of its tensor aside; None for any other."""
    (tensor_range, *others) = (
        find_ranges(group)
        or [one for one in find_parted_ranges(group) if _is_all(group, one)]
        or [None]
    )
    if tensor_range is None or others or not _is_all(group, tensor_range):
        return None
    sums = [op.output for op in group.operators if is_row_sum(group, op)]
    if len(sums) > 1 or not set(sums) <= set(group.outputs):
        return None
    several = (v for v in group.outputs if prod(group.values[v].shape) > 1)
    wide = tuple(v for v in several if v not in sums)
    lowest, highest = (group.operators[i] for i in (tensor_range.lowest, tensor_range.highest))
    scalars = tuple(v for v in group.outputs if v not in (*wide, *sums))
    reduced = lowest.operand(0)
    parts = 0 if reduced == tensor_range.tensor else group.values[reduced].elements
    return Problem(
        tensor=tensor_range.tensor,
        lowest=lowest,
        highest=highest,
        shape=group.values[tensor_range.tensor].shape,
        wide=wide,
        scalars=scalars,
        parts=parts,
        sums=sums[0] if sums else None,
        nbytes=group.traffic_bytes,
    )


def _is_all(group: Group, tensor_range: TensorRange) -> bool:
    """Whether a group has nothing but operators of a range and casts of its tensor."""
    rest = set(range(len(group.operators))).difference(tensor_range.operators)
    return all(_leads_to(group, group.operators[i], tensor_range.tensor) for i in rest)


def _leads_to(group: Group, op: Node[int], tensor: int) -> bool:
    """Whether an operator casts what a group reads to the tensor of its range."""
    source = op.inputs[0] if facts_of(op.type).converts else None
    return op.outputs == (tensor,) and source is not None and source < group.inputs


def configs_of(problem: Problem) -> Iterator[Config]:
    """Few blocks with many elements each, or many; one for each row of which the sum is needed."""
    if problem.row:
        for threads in ROW_THREADS:
            items = ceil_div(problem.row, threads)
            yield Config(threads, items, problem.elements // problem.row)
        return
    seen: set[int] = set()
    for most in DIVISIONS:
        threads = SINGLE_THREADS if most == 1 else THREADS
        items = ceil_div(problem.elements, threads * most)
        blocks = ceil_div(problem.elements, threads * items)
        if blocks not in seen:
            seen.add(blocks)
            yield Config(threads, items, blocks)


def after_range(group: Group, problem: Problem, results: Sequence[int]) -> Group:
    """The group of some results, which reads the two extremes and the tensor after its other reads.

    Of the sums of rows it has the addends, as a folded result.
    """
    given = [*(op.output for op in (problem.lowest, problem.highest)), problem.tensor]
    numbers = {value: group.inputs + i for i, value in enumerate(given)}

    def number(value: int) -> int:
        return numbers.get(value, value if value < group.inputs else value + len(given))

    addends = replace(group.values[problem.tensor], dtype="int32", folded="sum")
    infos = {problem.sums: addends}
    kept = (
        replace(op, type="Identity", attributes={}, inputs=op.inputs[:1])
        if op.output in infos
        else op
        for op in group.operators
        if numbers.keys().isdisjoint(op.outputs)
    )
    operators = (
        replace(
            op,
            inputs=tuple(None if v is None else number(v) for v in op.inputs),
            outputs=tuple(number(v) for v in op.outputs),
        )
        for op in kept
    )
    own = [infos.get(v, group.values[v]) for v in range(group.inputs, len(group.values))]
    values = [*group.reads, *(group.values[v] for v in given), *own]
    return replace(
        group,
        values=tuple(values),
        inputs=group.inputs + len(given),
        weights=(*group.weights, *(False for _ in given)),
        constants={number(v): array for v, array in group.constants.items()},
        operators=tuple(operators),
        outputs=tuple(number(v) for v in results),
    )


FLOAT_BYTES = 4

GIVEN = ("&low", "&high", "&x")
"""The arguments for the reads that `after_range` adds."""


def range_kernel(group: Group, problem: Problem, config: Config, target: GpuTarget) -> KernelSource:
    """The kernel of a group: one launch, or one for the ranges of blocks and one for the rest."""
    loaded = {"Load": problem.tensor}
    if problem.parts:
        loaded |= {"Low": problem.lowest.operand(0), "High": problem.highest.operand(0)}
    parts = (
        *[_load(name, group, value, target) for name, value in loaded.items()],
        _store("Store", group, problem, (*problem.wide, *_sums(problem)), target),
        _store("Scalars", group, problem, problem.scalars, target),
        _rows(group, problem),
    )
    phases = ("WHOLE",) if config.launches(problem) == 1 else ("RANGES", "REST")
    scratch = (2 * FLOAT_BYTES * config.blocks,) if len(phases) > 1 else ()
    types = {n: t for part in parts for n, t in zip(part.arguments, part.types, strict=True)}
    if scratch:
        types[group.inputs + len(group.writes)] = "float"
    text = [header("tensor_range"), _constants(problem, config), *(part.text for part in parts)]
    made = ", ".join(part.made_by_number for part in parts)
    workspace = f"buffer{max(types)}" if scratch else "nullptr"
    grid, block = (config.blocks, 1, 1), (config.threads, 1, 1)
    launches: list[Launch] = []
    for i, phase in enumerate(phases):
        call = f"follow_range<Problem, {phase}>({made}, {workspace})"
        call = f"follow_parts<Problem>({made})" if problem.parts else call
        bare = Launch(f"{group.name}_{i}", (), grid, block)
        own, launch = kernel(bare, numbered_parameters(types), call)
        text.append(own)
        launches.append(launch)
    return KernelSource("\n".join(text), tuple(launches), scratch, flops=group.operations)


def _load(name: str, group: Group, value: int, target: GpuTarget) -> Functor:
    """An element of a value that is read or a cast of what is read."""
    info = group.values[value]
    element = variable("element")
    anchor = Node("Identity", {}, (value,), (len(group.values),))
    around = replace(
        group,
        values=(*group.values, info),
        operators=(*group.operators, anchor),
        outputs=anchor.outputs,
    )
    context = FusionContext(around, anchor)
    loaded = context.operand(0, unflatten_index(element, info.shape))
    own = f"{group.name}_{name.lower()}"
    function = value_function(own, context, loaded, [element], target)
    return value_part(name, function, "int element")


def _store(
    name: str, group: Group, problem: Problem, results: Sequence[int], target: GpuTarget
) -> Functor:
    """Some results, all for an element of the tensor or all of one element, given the extremes."""
    if not results:
        return Functor(name, _struct(name, (), ""))
    after = after_range(group, problem, results)
    element = variable("element")
    context = FusionContext(after, None)
    statement = context.store(None, unflatten_index(element, after.writes[0].shape))
    statement = by_element(statement, context.reads[-1:])
    own = f"{group.name}_{name.lower()}"
    function = device_function(own, context, statement, [element], target, exact=True)
    numbers = [_number(group, results, i) for i in function.arguments]
    names = dict(zip((-1, -2, -3), GIVEN, strict=True))
    names |= {group.inputs + group.outputs.index(v): "&sum" for v in _sums(problem)}
    passed = [names.get(n, f"buffer{n}") for n in numbers]
    buffers = {n: t for n, t in zip(numbers, function.types, strict=True) if n not in names}
    call = f"{own}({', '.join([*passed, 'element'])});"
    members = [f"{kind}* buffer{number};" for number, kind in buffers.items()]
    text = f"{function.text}\n{_struct(name, members, call)}"
    return Functor(name, text, tuple(buffers.values()), tuple(buffers))


def _struct(name: str, members: Sequence[str], call: str) -> str:
    """A struct that is called with an element, its number, the extremes and the sum of a row."""
    given = "int element, float x, float low, float high, int& sum"
    head = f"{DEVICE} void operator()({given}) const {{ {call} }}"
    return struct(name, [*(f"  {member}" for member in members), head])


def _sums(problem: Problem) -> tuple[int, ...]:
    """The result that adds rows, if there is one."""
    return () if problem.sums is None else (problem.sums,)


def _rows(group: Group, problem: Problem) -> Functor:
    """The struct that writes the sum of a row."""
    numbers = tuple(group.inputs + group.outputs.index(value) for value in _sums(problem))
    members = [f"  int* buffer{number};" for number in numbers]
    written = [f"buffer{number}[row] = sum;" for number in numbers]
    call = f"{DEVICE} void operator()(int row, int sum) const {{ {' '.join(written)} }}"
    return Functor("Rows", struct("Rows", [*members, call]), ("int",) * len(numbers), numbers)


def _number(group: Group, results: Sequence[int], buffer: int) -> int:
    """A kernel's argument for a buffer of `after_range`; those of `GIVEN` are negative."""
    place = buffer - group.inputs
    if place < 0:
        return buffer
    if place < len(GIVEN):
        return -place - 1
    return group.inputs + group.outputs.index(results[place - len(GIVEN)])


def _constants(problem: Problem, config: Config) -> str:
    values = {
        "ELEMENTS": problem.elements,
        "PARTS": problem.parts,
        "THREADS": config.threads,
        "ITEMS": config.items,
        "BLOCKS": config.blocks,
        "ROW": problem.row,
    }
    return struct("Problem", constants(values))
