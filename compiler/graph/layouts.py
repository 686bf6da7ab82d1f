"""Which tensors get a channel-blocked layout: read from a graph, decided on plain data."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import prod

from xdsl.dialects.builtin import NoneType
from xdsl.ir import SSAValue

from compiler.graph.alias_classes import DisjointSets, moved_from, shared_values
from compiler.graph.aliases import part_starts
from compiler.graph.channel_groups import holds_groups
from compiler.ir.dataflow import GraphOp, GroupOp, OperatorOp, WeightOp
from compiler.ir.layouts import block_of, can_block
from compiler.ir.types import dtype_of, example_bytes, nbytes_of, shape_of
from compiler.net.operators import KINDS, Kind
from compiler.net.operators.contractions import CONVOLUTIONS
from compiler.net.operators.injective import PARTS
from compiler.tensors.dtypes import ELEMENT_BYTES

DENSE_GAIN = 1.0
"""Bytes of traffic that a convolution saves for each byte of its image if that is blocked."""

DEPTHWISE_GAIN = 0.5
"""As `DENSE_GAIN`, for a grouped convolution whose groups are no larger than a block."""

LAYOUT_MISMATCH_COST = 0.1
"""The cost of each byte that a kernel reads in one layout and writes in another."""

Inner = dict[SSAValue, SSAValue]
"""From the arguments of a group's body to the group's operands."""


@dataclass
class AliasClass:
    """Tensors that share memory and so have one layout.

    `gain` is the traffic in bytes that blocking them saves; `able` whether they can be blocked.
    """

    able: bool = True
    gain: float = 0.0


@dataclass
class AliasClasses:
    """The alias classes of a graph, by number, and the class of each value.

    `mismatches` are pairs of classes with the cost of blocking only one of them.
    """

    numbers: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    classes: list[AliasClass] = field(default_factory=list[AliasClass])
    mismatches: list[tuple[int, int, float]] = field(default_factory=list[tuple[int, int, float]])


def choose_blocked(
    classes: Sequence[AliasClass], mismatches: Sequence[tuple[int, int, float]]
) -> list[bool]:
    """Which alias classes to block, so that the gains less the costs of mismatches are large.

    Starts with each class by itself and changes one at a time while that gains (iterated
    conditional modes: Besag, On the statistical analysis of dirty pictures, 1986).
    """
    near: list[list[tuple[int, float]]] = [[] for _ in classes]
    for a, b, loss in mismatches:
        if a != b:
            near[a].append((b, loss))
            near[b].append((a, loss))
    blocked = [storage.able and storage.gain > 0 for storage in classes]
    pending = list(range(len(classes)))
    while pending:
        v = pending.pop()
        if not classes[v].able:
            continue
        pull = classes[v].gain + sum(loss if blocked[u] else -loss for u, loss in near[v])
        if pull and (pull > 0) != blocked[v]:
            blocked[v] = pull > 0
            pending.extend(u for u, _ in near[v])
    return blocked


def block_for(value: SSAValue, block_bytes: int) -> int:
    """Channels in `block_bytes` of a tensor of floats or bytes; 0 if it cannot be blocked."""
    dtype = dtype_of(value.type)
    block = block_bytes // ELEMENT_BYTES[dtype]
    blocks = "float" in dtype or dtype in ("int8", "uint8")
    return block if blocks and can_block(shape_of(value.type), block) else 0


def read_alias_classes(graph: GraphOp, block_bytes: int) -> AliasClasses:
    """The alias classes of a fused graph, with the gains and constraints of its kernels."""
    reader = _Reader(graph, block_bytes)
    for op in graph.body.block.ops:
        if isinstance(op, OperatorOp):
            reader.view(op)
    for group in graph.groups:
        reader.group(group)
    return reader.finish()


class _Reader:
    def __init__(self, graph: GraphOp, block_bytes: int):
        self.graph = graph
        self.block_bytes = block_bytes
        self.sets = DisjointSets()
        self.plain: list[SSAValue] = [*graph.body.block.args, *graph.results_yielded]
        self.gains: list[tuple[SSAValue, float]] = []
        self.mismatches: list[tuple[SSAValue, SSAValue, float]] = []

    def view(self, op: OperatorOp) -> None:
        """Merge the classes of a view's tensors, or keep them row-major if it divides blocks."""
        values = shared_values(op)
        if op.type_name in PARTS or len({shape_of(v.type) for v in values}) == 1:
            for value in values[1:]:
                self.sets.merge(values[0], value)
            starts = part_starts(op)
            block = block_for(op.inputs[0], self.block_bytes)
            divided = (
                starts is not None and block > 0 and any(start[1] % block for start in starts)
            ) or _divides_batch(values)
            self.plain += values[:1] if divided else []
        elif any(prod(shape_of(v.type)[2:]) > 1 and len(shape_of(v.type)) > 2 for v in values):
            self.plain += values

    def group(self, group: GroupOp) -> None:
        """Note a kernel's gains by reading blocked images, and its costs of mismatches."""
        inner = _arguments(group)
        yielded = list(group.results_yielded)
        passed = [o for v, o in zip(yielded, group.outputs, strict=True)
                  if v in inner or yielded.count(v) > 1]  # fmt: skip
        self.plain += passed
        types = {op.type_name for op in group.operators}
        if {"MatMul", "Softmax"} <= types or group.control is not None:
            self.plain += [*group.inputs, *group.outputs]
        for op in group.operators:
            self.operator(op, inner)
        reads = [value for value in group.inputs if not isinstance(value.owner, WeightOp)]
        able = [value for value in reads if block_for(value, self.block_bytes)]
        first, *others = [*group.outputs, *able]
        for other in others:
            least = min(example_bytes(first.type), example_bytes(other.type))
            loss = LAYOUT_MISMATCH_COST * least
            self.mismatches.append((first, other, loss))

    def operator(self, op: OperatorOp, inner: Inner) -> None:
        """Note the gains and constraints of one operator of a kernel."""
        kind = KINDS[op.type_name]
        if kind is Kind.OPAQUE:
            group = op.parent_op()
            assert isinstance(group, GroupOp)
            self.plain += [*group.inputs, *group.outputs]
        if kind is not Kind.CONTRACTION:
            return
        gain = _image_gain(op, inner, self.block_bytes)
        images = list(_sources(op.inputs[0], inner)) if gain else []
        self.gains += [(value, gain * example_bytes(value.type)) for value in images]
        others = op.inputs[1:2] if gain else op.inputs[:2]
        self.plain += [inner[v] for v in map(moved_from, others) if v in inner]

    def finish(self) -> AliasClasses:
        result = AliasClasses()
        values = [v for op in self.graph.body.block.ops for v in op.results]
        for value in (*self.graph.body.block.args, *values):
            if isinstance(value.type, NoneType):
                continue
            root = self.sets.root(value)
            if root not in result.numbers:
                result.numbers[root] = len(result.classes)
                result.classes.append(AliasClass())
            result.numbers[value] = result.numbers[root]
            fits = isinstance(value.owner, GroupOp | OperatorOp)
            fits = fits and (block_for(value, self.block_bytes) > 0 or not nbytes_of(value.type))
            result.classes[result.numbers[value]].able &= fits
        for value in self.plain:
            result.classes[result.numbers[value]].able = False
        for value, gain in self.gains:
            result.classes[result.numbers[value]].gain += gain
        for a, b, loss in self.mismatches:
            result.mismatches.append((result.numbers[a], result.numbers[b], loss))
        return result


def _arguments(group: GroupOp) -> Inner:
    return dict(zip(group.body.block.args, group.inputs, strict=True))


def _divides_batch(values: Sequence[SSAValue]) -> bool:
    """Whether tensors that share memory are of more and fewer images: channel blocks are outside of
    these, so that those of one image are apart."""
    images = {shape_of(value.type)[:1] for value in values}
    return len(images) > 1 and any(prod(shape_of(value.type)[2:]) > 1 for value in values)


def _sources(value: SSAValue, inner: Inner) -> Iterator[SSAValue]:
    """The kernel's inputs from which an operand is computed, element by element."""
    pending: list[SSAValue] = [value]
    while pending:
        value = pending.pop()
        if value in inner:
            yield inner[value]
        elif isinstance(value.owner, OperatorOp):
            pending += [
                v
                for v in value.owner.inputs
                if not isinstance(v.type, NoneType) and shape_of(v.type) == shape_of(value.type)
            ]


def _image_gain(op: OperatorOp, inner: Inner, block_bytes: int) -> float:
    """Bytes that a contraction saves for each byte of its operand 0 if that is blocked.

    Weights must be constant; groups must consist of whole channel blocks, or blocks of whole
    groups.
    """
    if op.type_name not in CONVOLUTIONS:
        return 0.0
    weight = inner.get(moved_from(op.inputs[1]))
    if weight is None or not isinstance(weight.owner, WeightOp):
        return 0.0
    groups = op["group"]
    channels = shape_of(op.inputs[0].type)[1]
    images = _sources(op.inputs[0], inner)
    block = min((block_for(v, block_bytes) for v in images), default=0)
    if not block:
        return 0.0
    members = channels // groups
    if members % block == 0:
        return DENSE_GAIN
    small = op.type_name == "Conv" and holds_groups(op, block)
    return DEPTHWISE_GAIN if small else 0.0


def blocked_convolutions(groups: Iterable[GroupOp]) -> Iterator[tuple[OperatorOp, bool]]:
    """Each convolution, with whether all images that it reads are blocked."""
    for group in groups:
        inner = _arguments(group)
        for op in group.operators:
            if op.type_name in CONVOLUTIONS:
                images = list(_sources(op.inputs[0], inner))
                yield op, bool(images) and all(block_of(v.type) for v in images)
