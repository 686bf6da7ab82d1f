"""Which tensors of a fused graph may be stored in 16 bits."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import prod

import numpy
from xdsl.ir import Operation, SSAValue

from compiler.graph.alias_classes import Sharing, moved_from, shared_values
from compiler.graph.attributes import integer
from compiler.graph.channel_groups import merges_in_blocks
from compiler.graph.targets import target_of
from compiler.ir.dataflow import ConstantOp, GraphOp, GroupOp, OperatorOp, WeightOp
from compiler.ir.layouts import BLOCK_BYTES
from compiler.ir.operators import KINDS, Kind
from compiler.ir.types import dtype_of, shape_of
from compiler.ir.values import attribute_to_array

LARGEST = {"float16": 65504.0, "bfloat16": float("inf")}
"""The largest finite number of each 16-bit type; bfloat16 has the range of float32."""

_GROWING = frozenset(
    "Cosh CumSum Exp LpNormalization LpPool GlobalLpPool Pow Reciprocal Sinh Tan Einsum".split()
)
"""Operators whose results may leave any range that their operands are in."""

_ENDING = frozenset(
    "Sigmoid HardSigmoid Tanh Erf Softsign Sign Sin Cos Softmax GroupNormalization"
    " InstanceNormalization LayerNormalization RMSNormalization LpNormalization".split()
)
"""Operators whose results are small however large their operands are."""


_CARRYING = (Kind.ELEMENTWISE, Kind.INJECTIVE, Kind.VIEW)


def narrow_values(graph: GraphOp, dtype: str) -> list[SSAValue]:
    """The float32 tensors between kernels that may be stored as `float16` or `bfloat16`.

    The graph's inputs, outputs and weights stay, and what shares memory with them. So do, of any
    kernel's results: sums and other statistics (small tensors, often squares or differences),
    what operators whose results leave every range give (powers, exponentials, reciprocals),
    quotients by tensors, numbers made of integers, and the operands of a softmax, which masks may
    have moved anywhere; and images that convolutions read faster in 32 bits: those whose channels
    fill no blocks in 16, not even with those of other groups. In float16 also everything that a
    finite constant beyond its range has flown into (infinities are the same in 16 bits).
    Products of tensors in range are taken to be in range, as mixed-precision training does.
    """
    reader = _Reader(graph, LARGEST[dtype])
    for op in graph.body.block.ops:
        reader.visit(op)
    kept = {reader.sharing.root(value) for value in reader.kept}
    values = (value for op in graph.body.block.ops for value in op.results)
    return [value for value in values if reader.sharing.root(value) not in kept]


def narrow_weights(group: GroupOp, dtype: str) -> list[int]:
    """Which inputs of a group are weights that are multiplied with 16-bit tensors only, or with
    what a convolution makes of one."""
    arguments: list[SSAValue] = list(group.body.block.args)
    found: list[int] = []
    for op in group.operators:
        if KINDS[op.type_name] is Kind.CONTRACTION and len(op.inputs) > 1:
            first, second = (moved_from(_convolved(operand)) for operand in op.inputs[:2])
            for one, other in ((first, second), (second, first)):
                if one in arguments and other in arguments and one.has_one_use():
                    weight, partner = (group.inputs[arguments.index(v)] for v in (one, other))
                    wide = isinstance(weight.owner, WeightOp) and dtype_of(weight.type) == "float32"
                    if wide and dtype_of(partner.type) == dtype:
                        found.append(arguments.index(one))
    return found


def _convolved(value: SSAValue) -> SSAValue:
    """The image of the convolution that a tensor is the result of, before a Relu; else itself."""
    for type in ("Conv", "Relu"):
        owner = moved_from(value).owner
        if not isinstance(owner, OperatorOp) or owner.type_name != type:
            return value
        value = owner.inputs[0]
    return value


@dataclass
class _Reader:
    graph: GraphOp
    largest: float
    sharing: Sharing = field(default_factory=Sharing)
    kept: list[SSAValue] = field(default_factory=list[SSAValue])
    wide: set[SSAValue] = field(default_factory=set[SSAValue])
    merging: bool = False

    def __post_init__(self) -> None:
        self.merging = target_of(self.graph).fuses_siblings
        self.kept += [*self.graph.body.block.args, *self.graph.results_yielded]

    def visit(self, op: Operation) -> None:
        """Note what an operation outside groups says of its operands and results."""
        if isinstance(op, GroupOp):
            self._group(op)
        elif isinstance(op, OperatorOp):
            values = shared_values(op)
            for value in values[1:]:
                self.sharing.join(values[0], value)
            if any(value in self.wide for value in values):
                self.wide.update(op.outputs)
        computed = isinstance(op, GroupOp | OperatorOp)
        self.kept += [v for v in op.results if not computed or self._stays(v)]

    def _stays(self, value: SSAValue) -> bool:
        return value in self.wide or dtype_of(value.type) != "float32"

    def _group(self, group: GroupOp) -> None:
        outer: dict[SSAValue, SSAValue] = dict(
            zip(group.body.block.args, group.inputs, strict=True)
        )
        self.wide.update(argument for argument, value in outer.items() if value in self.wide)
        for op in group.operators:
            if KINDS[op.type_name] is Kind.OPAQUE:
                self.kept += [*group.inputs, *group.outputs]
            if op.type_name in ("Softmax", "LogSoftmax"):
                self.kept += [outer[v] for v in _sources(op.inputs[0]) if v in outer]
            if op.type_name == "Conv" and _reads_wide(op, self.merging and _is_weight(op, outer)):
                self.kept += [outer[v] for v in _sources(op.inputs[0]) if v in outer]
            if self._is_wide(op):
                self.wide.update(op.outputs)
        for inner, result in zip(group.results_yielded, group.outputs, strict=True):
            if inner in self.wide:
                self.wide.add(result)
            if isinstance(inner.owner, OperatorOp) and _is_kept(inner.owner):
                self.kept.append(result)

    def _is_wide(self, op: OperatorOp) -> bool:
        """Whether a number out of range may flow into an operator's results."""
        if op.type_name in _ENDING:
            return False
        operands = op.inputs[:1] if op.type_name == "Clip" else op.inputs
        return any(value in self.wide or self._is_large(value) for value in operands)

    def _is_large(self, value: SSAValue) -> bool:
        if not isinstance(value.owner, ConstantOp) or "float" not in dtype_of(value.type):
            return False
        sizes = abs(attribute_to_array(value.owner.value).astype(numpy.float64))
        return bool((numpy.isfinite(sizes) & (sizes > self.largest)).any())


def _is_weight(op: OperatorOp, outer: Mapping[SSAValue, SSAValue]) -> bool:
    """Whether a convolution's weights are the model's own, as where its groups are merged."""
    weight = outer.get(moved_from(op.inputs[1]))
    return weight is not None and isinstance(weight.owner, WeightOp)


def _reads_wide(op: OperatorOp, merging: bool) -> bool:
    """Whether a convolution reads its image faster in 32 bits than in 16.

    A group of several channels has whole blocks in 32 bits alone, and is not one with others, for
    which there must be tensor cores (`merging`); or the taps of all channels lie in no blocks, so
    that they are copied one by one, and asynchronously in 32 bits alone.
    """
    groups, (channels, *image) = integer(op, "group", 1), shape_of(op.inputs[0].type)[1:]
    own, taps = channels // groups, prod(shape_of(op.inputs[1].type)[2:])
    if own * 2 % BLOCK_BYTES == 0 or not image:
        return False
    if groups == 1:
        return taps > 1
    whole = groups < channels and own * 4 % BLOCK_BYTES == 0
    return whole and not (merging and merges_in_blocks(op, BLOCK_BYTES // 2))


def _is_kept(op: OperatorOp) -> bool:
    """Whether an operator's results stay in float32 whatever its operands are."""
    if op.type_name == "Div":
        return not isinstance(op.inputs[1].owner, ConstantOp)
    if op.type_name == "Cast":
        return "float" not in dtype_of(op.inputs[0].type)
    return op.type_name in _GROWING or op.type_name.startswith("Reduce")


def _sources(value: SSAValue) -> Iterator[SSAValue]:
    """The values that one is computed from within its group, element by element."""
    pending, seen = [value], {value}
    while pending:
        value = pending.pop()
        yield value
        if isinstance(value.owner, OperatorOp) and KINDS[value.owner.type_name] in _CARRYING:
            pending += [v for v in value.owner.inputs if v not in seen]
            seen.update(value.owner.inputs)
