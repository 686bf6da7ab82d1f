"""Which operators are views: their results are bytes of other tensors, so that nothing is moved."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import prod

from xdsl.ir import Attribute, Operation, SSAValue

from compiler.graph.alias_classes import shared_values
from compiler.ir.dataflow import GraphOp, GroupOp, OperatorOp
from compiler.ir.layouts import stored_block
from compiler.ir.movement import operator_maps
from compiler.ir.types import dtype_of, example_bytes, nbytes_of, shape_of
from compiler.net.maps import affine_indices
from compiler.net.operators import KINDS, Kind, facts_of
from compiler.net.operators.injective import PARTS
from compiler.tensors.dtypes import ELEMENT_BYTES
from compiler.tensors.extents import symbols_of
from compiler.tensors.row_major import squeezed_shape


@dataclass(frozen=True, slots=True)
class Location:
    """A byte offset in the memory of another value, the root."""

    root: SSAValue
    offset: int


@dataclass(frozen=True, slots=True)
class Copy:
    """An operand that has to be copied: `user` is a view operator or the graph's yield."""

    user: Operation
    operand: int


@dataclass(frozen=True)
class ViewPlan:
    """How the tensors of a graph share memory.

    `views` launch nothing; `copies` are the operands to replace by copies before that holds;
    `outputs` are the roots that are output buffers, with the position of their output.
    """

    views: frozenset[OperatorOp]
    copies: tuple[Copy, ...]
    outputs: Mapping[SSAValue, int]
    locations: Mapping[SSAValue, Location]
    """The location of every tensor outside groups; a root is at offset 0 of itself."""


@dataclass(frozen=True)
class _Forest:
    """Links from each tensor to the larger one whose bytes it shares."""

    links: dict[SSAValue, Location] = field(default_factory=dict[SSAValue, Location])

    def locate(self, value: SSAValue) -> Location:
        """Follow the links to the root, and shorten them."""
        path: list[SSAValue] = []
        while value in self.links:
            path.append(value)
            value = self.links[value].root
        offset = 0
        for step in reversed(path):
            offset += self.links[step].offset
            self.links[step] = Location(value, offset)
        return Location(value, offset)

    def whole_root(self, value: SSAValue) -> SSAValue | None:
        """The root of a tensor that covers all of it and that a kernel writes, or None."""
        root = self.locate(value).root
        whole = nbytes_of(value.type) == nbytes_of(root.type)
        written = isinstance(root.owner, OperatorOp | GroupOp)
        return root if whole and written else None


def plan_views(graph: GraphOp) -> ViewPlan:
    """Decide which operators outside groups are views, assuming that the others are kernels.

    A Reshape aliases its input, contiguous Slices and Splits are parts of theirs, and the operands
    of a contiguous Concat are emplaced in its result, unless more than one would need a copy. All
    tensors of a view have the same layout; no view of a channel-blocked tensor divides a block.
    """
    operators = [op for op in graph.body.block.ops if isinstance(op, OperatorOp)]
    forest = _Forest({value: location for op in operators for value, location in _aliases(op)})
    views = {op for op in operators if op.outputs and op.outputs[0] in forest.links}
    # Give each graph output its own root; an output that cannot have one needs a copy.
    outputs: dict[SSAValue, int] = {}
    copies: list[Copy] = []
    terminator = graph.body.block.last_op
    assert terminator is not None
    for index, value in enumerate(graph.results_yielded):
        root = forest.whole_root(value)
        if root is None or root in outputs:
            copies.append(Copy(terminator, index))
        else:
            outputs[root] = index
    # Largest first, so that a Concat of a prefix finds its operands adjacent in the longer one; the
    # order must not depend on block order, which fusion may change between two plans.
    concats = [op for op in operators if _is_contiguous_concat(op)]
    for op in sorted(
        concats, key=lambda op: (-example_bytes(op.outputs[0].type), op.outputs[0] not in outputs)
    ):
        if (needed := _emplace(op, forest, outputs)) is not None:
            views.add(op)
            copies += [Copy(op, index) for index in needed]
    locations = {value: forest.locate(value) for value in _tensors(graph)}
    return ViewPlan(frozenset(views), tuple(copies), outputs, locations)


def _tensors(graph: GraphOp) -> Iterator[SSAValue]:
    yield from graph.body.block.args
    for op in graph.body.block.ops:
        yield from (value for value in op.results if op.name != "dataflow.none")


def _have_one_layout(op: OperatorOp) -> bool:
    """Whether a view's tensors have one layout, row-major if a reshape changes the shape."""
    tensors = [value.type for value in shared_values(op)]
    blocks = {stored_block(type) for type in tensors}
    reshapes = KINDS.get(op.type_name) is Kind.VIEW and len(set(map(shape_of, tensors))) > 1
    return len(blocks) <= 1 and not (reshapes and any(blocks))


def _aliases(op: OperatorOp) -> Iterator[tuple[SSAValue, Location]]:
    is_view = KINDS.get(op.type_name) is Kind.VIEW
    if not (is_view or op.type_name in PARTS) or not _have_one_layout(op):
        return
    if is_view:
        yield op.outputs[0], Location(op.inputs[0], 0)
    elif (starts := part_starts(op)) is not None:
        type = op.inputs[0].type
        shape = shape_of(type)
        block = stored_block(type)
        size = ELEMENT_BYTES[dtype_of(type)]
        order = _stored_axes(len(shape), block)
        steps = {axis: prod(shape[a] for a in order[i + 1 :]) for i, axis in enumerate(order)}
        if not block or all(start[1] % block == 0 for start in starts):
            for value, start in zip(op.outputs, starts, strict=True):
                offset = sum(first * steps[axis] for axis, first in enumerate(start))
                yield value, Location(op.inputs[0], offset * size)


def is_absorbable(op: OperatorOp) -> bool:
    """Whether a view may move into a group: it only adds or drops axes of one element."""
    before = shape_of(op.inputs[0].type)
    after = shape_of(op.outputs[0].type)
    return KINDS[op.type_name] is Kind.VIEW and squeezed_shape(before) == squeezed_shape(after)


def part_starts(op: OperatorOp) -> list[list[int]] | None:
    """The index in operand 0 of each result's first element; None unless, in memory, each result
    is a range of consecutive elements of it."""
    shape = shape_of(op.inputs[0].type)
    shapes = [shape_of(value.type) for value in op.outputs]
    if op.type_name not in PARTS or not any(map(prod, shapes)):
        return None
    starts: list[list[int]] = []
    for maps, part in zip(operator_maps(op), shapes, strict=True):
        single = len(maps) == 1 and not maps[0].partial
        indices = affine_indices(maps[0], part) if single else None
        keeps_axes = indices is not None and all(
            index.terms in ((), ((axis, 1, part[axis]),)) for axis, index in enumerate(indices)
        )
        if indices is None or not keeps_axes:
            return None
        starts.append([index.offset for index in indices])
    order = _stored_axes(len(shape), stored_block(op.inputs[0].type))
    cut = [i for i, axis in enumerate(order) if any(part[axis] != shape[axis] for part in shapes)]
    outside = order[: max(cut, default=0)]
    if any(prod(part[axis] for axis in outside) > 1 for part in shapes):
        return None
    return starts


def _stored_axes(rank: int, block: int) -> list[int]:
    """The axes of a tensor from the outermost in memory on; channel blocks are outermost."""
    return [1, 0, *range(2, rank)] if block else list(range(rank))


def _is_outermost(type: Attribute, axis: int) -> bool:
    """Whether all axes outside of one in memory have a single element."""
    shape = shape_of(type)
    order = _stored_axes(len(shape), stored_block(type))
    return prod(shape[a] for a in order[: order.index(axis)]) == 1


def _is_contiguous_concat(op: OperatorOp) -> bool:
    if not facts_of(op.type_name).concatenates:
        return False
    type = op.outputs[0].type
    return _have_one_layout(op) and _is_outermost(type, op["axis"])


def _emplace(op: OperatorOp, forest: _Forest, outputs: Mapping[SSAValue, int]) -> list[int] | None:
    """Emplace a Concat's operands; returns those to copy, or None if it has to be a kernel."""
    result = op.outputs[0]
    sizes = {i: nbytes_of(v.type) for i, v in enumerate(op.inputs) if nbytes_of(v.type)}
    located = {i: forest.locate(op.inputs[i]) for i in sizes}
    if result not in forest.links and result not in outputs and _adjacent(located, sizes):
        forest.links[result] = next(iter(located.values()))
        return []
    emplaced: dict[SSAValue, Location] = {}
    copies: list[int] = []
    offset = 0
    above = forest.locate(result).root
    for i, size in sizes.items():
        root = forest.whole_root(op.inputs[i])
        if root is None or root in outputs or root in emplaced or root is above:
            copies.append(i)
        else:
            emplaced[root] = Location(result, offset)
        offset += size
        if any(symbol.measured for symbol in symbols_of(offset)) and i != max(sizes):
            return None  # an operand after it may be computed before the run measures the size
    if len(copies) > 1:  # one kernel copies all of it with fewer launches
        return None
    forest.links.update(emplaced)
    return copies


def _adjacent(located: Mapping[int, Location], sizes: Mapping[int, int]) -> bool:
    """Whether the operands are already adjacent, in order, in one root."""
    expected: Location | None = None
    for i, location in located.items():
        if expected not in (None, location):
            return False
        expected = Location(location.root, location.offset + sizes[i])
    return expected is not None
