"""FLOPs and bytes of operators and groups, and a roofline estimate of their time.

Where sizes depend on symbols all of these are numbers for the example sizes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import ceil, prod

from xdsl.dialects.builtin import NoneType
from xdsl.ir import SSAValue

from compiler.ir.dataflow import ConstantOp, GroupOp, OperatorOp
from compiler.ir.nodes import example_node
from compiler.ir.types import example_bytes, example_shape
from compiler.net.attributes import Shape
from compiler.net.operators import OPERATORS, Kind
from compiler.net.operators.reductions import LISTED_REDUCTIONS
from compiler.target.target import Target
from compiler.tensors.extents import symbols_of


@dataclass(frozen=True, slots=True)
class Roofline:
    """The bounds of a kernel: FLOPs and bytes per ns, and the ns of its launch.

    `operators` is the most operators of a kernel that has cheap ones only. A contraction of at
    least `filling` results occupies the whole device. What uses a sum with all its terms is one
    kernel with it along the last axes, or along any with at most `longest_row` terms. A reduction
    of at most `few_terms` is computed where it is read.
    """

    flops_per_ns: float
    bytes_per_ns: float
    launch_ns: int
    cache_bytes: int
    operators: int = 32
    filling: int | None = None
    longest_row: int = 0
    few_terms: int = 0


CPU = Roofline(flops_per_ns=40.0, bytes_per_ns=10.0, launch_ns=2_000, cache_bytes=32 << 20)
"""One core of a current server CPU with 256-bit vectors, and its share of the last-level cache."""


GPU = Roofline(
    flops_per_ns=60_000.0,
    bytes_per_ns=4_000.0,
    launch_ns=2_000,
    cache_bytes=50 << 20,
    operators=128,
    longest_row=1024,
    few_terms=8,
)
"""A data centre's GPU: FLOPs outside tensor cores, memory, the shortest kernel of a CUDA graph."""


FILLING_TILE = 128 * 128
"""The results of a contraction for each SM from which on none is left for another kernel."""


def roofline_of(target: Target) -> Roofline:
    """The roofline of a target."""
    return replace(GPU, filling=target.device.sms * FILLING_TILE) if target.is_gpu else CPU


def unrolled_terms(
    kind: str, axes: Iterable[int], shape: Shape, repeated: int, few_terms: int
) -> int:
    """How often a reduction over axes, if it is computed where it is read, computes an element
    before it; 0 of any other operator, and of more terms than a few.

    `repeated` is how often what it reads does so: each of its terms repeats that.
    """
    if kind not in LISTED_REDUCTIONS:
        return 0
    terms = prod(shape[axis] for axis in axes)
    is_few = not symbols_of(terms) and 1 < terms and terms * repeated <= few_terms
    return int(terms) * repeated if is_few else 0


@dataclass(frozen=True, slots=True)
class Work:
    """FLOPs computed and bytes moved to and from memory."""

    flops: int
    nbytes: int

    def __add__(self, other: "Work") -> "Work":
        return Work(self.flops + other.flops, self.nbytes + other.nbytes)


def is_cheap(op: OperatorOp) -> bool:
    """Whether computing a result element again costs about as much as loading it."""
    return _flops_an_element(op) == 1


def _flops_an_element(op: OperatorOp) -> int:
    flops = OPERATORS[op.type_name].facts.flops
    return flops if isinstance(flops, int) else flops(example_node(op))


def element_count(value: SSAValue) -> int:
    """The number of elements of a tensor; 0 for an operand that was left out."""
    return 0 if isinstance(value.type, NoneType) else prod(example_shape(value.type))


def nbytes(value: SSAValue) -> int:
    """The size of a tensor in bytes; 0 for an operand that was left out."""
    return 0 if isinstance(value.type, NoneType) else example_bytes(value.type)


def flops_of(op: OperatorOp) -> int:
    """The floating-point (or integer) operations of one operator; a multiply-add counts as two."""
    entry = OPERATORS[op.type_name]
    if entry.facts.work is not None:
        types = [value.type for value in op.outputs]
        shapes = [() if isinstance(type, NoneType) else example_shape(type) for type in types]
        return entry.facts.work(example_node(op), shapes)
    out = sum(element_count(value) for value in op.outputs)
    match entry.kind:
        case Kind.ELEMENTWISE:
            return out * _flops_an_element(op)
        case Kind.REDUCTION:
            window = op["kernel_shape"] if "kernel_shape" in op.attributes else ()
            reduced = out * prod(window) if window else element_count(op.inputs[0])
            return reduced * _flops_an_element(op)
        case Kind.OPAQUE:
            return sum(element_count(value) for value in op.inputs)
        case _:
            return 0


def read_bytes(op: OperatorOp, operand: int) -> int:
    """Bytes that an operator reads of an operand: of one that it moves, at most its results'."""
    whole = nbytes(op.inputs[operand])
    if OPERATORS[op.type_name].moves(operand):
        return min(whole, sum(map(nbytes, op.outputs)))
    return whole


def work_of_operators(operators: Iterable[OperatorOp], results: Iterable[SSAValue]) -> Work:
    """The work of operators fused into one kernel that writes `results`.

    Values between them stay in registers; a tensor that several read is read once.
    """
    flops = 0
    inner: set[SSAValue] = set()
    read: dict[SSAValue, int] = {}
    for op in operators:
        flops += flops_of(op)
        for i, value in enumerate(op.inputs):
            if value not in inner and not isinstance(value.owner, ConstantOp):
                read[value] = max(read.get(value, 0), read_bytes(op, i))
        inner.update(op.outputs)
    return Work(flops, sum(read.values()) + sum(nbytes(value) for value in results))


def work_of(group: GroupOp) -> Work:
    """The work of a group."""
    return work_of_operators(group.operators, group.results_yielded)


def works_of(groups: Sequence[GroupOp]) -> list[Work]:
    """The work of each group, counted once for those that share a kernel."""
    known: dict[str, Work] = {}
    works: list[Work] = []
    for group in groups:
        kernel = f" {len(works)}" if group.kernel is None else group.kernel.data
        if kernel not in known:
            known[kernel] = work_of(group)
        works.append(known[kernel])
    return works


def estimate(work: Work, roofline: Roofline = CPU) -> int:
    """The time of a kernel in ns by the roofline model, its launch included."""
    compute = work.flops / roofline.flops_per_ns
    memory = work.nbytes / roofline.bytes_per_ns
    return roofline.launch_ns + ceil(max(compute, memory))


def cost_of(group: GroupOp, roofline: Roofline = CPU) -> int:
    """The time of a group in ns: its `cost` if that was measured, else the estimate."""
    return costs_of([group], roofline)[0]


def costs_of(groups: Sequence[GroupOp], roofline: Roofline = CPU) -> list[int]:
    """`cost_of` of each group, estimated once for those that share a kernel."""
    missing = [group for group in groups if group.cost is None]
    estimates = iter([estimate(work, roofline) for work in works_of(missing)])
    return [next(estimates) if g.cost is None else g.cost.value.data for g in groups]
