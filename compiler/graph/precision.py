"""Which tensors of a fused graph may be stored in 16 bits."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy
from xdsl.ir import Operation, SSAValue

from compiler.graph.alias_classes import DisjointSets, moved_from, shared_values
from compiler.graph.channel_groups import merges_in_blocks
from compiler.graph.targets import target_of
from compiler.ir.dataflow import ConstantOp, GraphOp, GroupOp, NoneOp, OperatorOp, WeightOp
from compiler.ir.layouts import BLOCK_BYTES
from compiler.ir.nodes import node_of
from compiler.ir.types import dtype_of, shape_of
from compiler.ir.values import attribute_to_array
from compiler.net.operators import KINDS, OPERATORS, RECURRENCE, Kind, broadcasts, facts_of
from compiler.net.operators.contractions import FLOAT_CONTRACTIONS, GEMMS
from compiler.net.operators.indices import GATHERS

LARGEST = {"float16": 65504.0, "bfloat16": float("inf")}
"""The largest finite number of each 16-bit type; bfloat16 has the range of float32."""

_WIDE_INTEGERS = ("int32", "int64")

MMA_SIZE = 16
"""The rows of an MMA tile."""

MEMORY_BOUND_ROWS = 8
"""The most rows of a GEMM whose time on a CPU is that of reading its weights: with more, their
bytes take less time than converting them would."""

_POINTWISE = (Kind.ELEMENTWISE, Kind.INJECTIVE, Kind.VIEW)


def narrow_values(graph: GraphOp, dtype: str) -> list[SSAValue]:
    """The float32 tensors between kernels that may be stored as `float16` or `bfloat16`.

    These stay float32:

    * the graph's inputs, outputs and weights, and their aliases;
    * sums and other statistics (small tensors, often squares or differences), results without a
      bound (powers, exponentials, reciprocals), casts of integers, quotients by tensors but for
      those of rows by their norms, and extremes of any of these;
    * what a contraction multiplies by a computed tensor that stays float32, or by an input: it
      reads both as one type;
    * tensors of one element, such as scales, which may be tiny and take no time to read;
    * operands of a softmax, which a mask may have given any value;
    * what a kernel only casts to integers of 32 or 64 bits: indices, sums of integers;
    * images that convolutions of a GPU read faster in 32 bits: those whose channels do not fill
      blocks in 16 bits, not even with merged groups;
    * in float16, every value data-dependent on a finite constant that overflows float16
      (infinities are the same in 16 bits).

    Results of GEMMs, convolutions and recurrences are assumed to be in range, as in mixed-precision
    training.
    """
    reader = _read(graph, dtype)
    return reader.without([*reader.kept, *reader.boundary], reader.multiplied)


@dataclass(frozen=True)
class CopiedOutputs:
    """The results of a group, by number, of which other groups read copies in 16 bits."""

    group: GroupOp
    readers: Mapping[int, Sequence[GroupOp]]


def copied_outputs(graph: GraphOp, dtype: str) -> list[CopiedOutputs]:
    """The outputs of the graph that tensor cores had better read as copies in 16 bits.

    They would be narrow between kernels, pointwise kernels compute them, and contractions with a
    narrow tensor, or with what their own kernel computes, read them for whole MMA tiles.
    """
    yielded = set(graph.results_yielded)
    groups = [group for group in graph.groups if not yielded.isdisjoint(group.outputs)]
    pointwise = [g for g in groups if all(KINDS[op.type_name] in _POINTWISE for op in g.operators)]
    if not pointwise:
        return []
    reader = _read(graph, dtype)
    narrow = set(reader.without([*reader.kept, *reader.boundary]))
    outputs = yielded.intersection(reader.without(reader.kept))
    copied: list[CopiedOutputs] = []
    for group in pointwise:
        readers = {
            number: contracting
            for number, value in enumerate(group.outputs)
            if value in outputs and (contracting := _contracting(value, narrow))
        }
        if readers:
            copied.append(CopiedOutputs(group, readers))
    return copied


def _contracting(value: SSAValue, narrow: Collection[SSAValue]) -> list[GroupOp]:
    """The groups whose contractions read a tensor for whole MMA tiles."""
    users = dict.fromkeys(use.operation for use in value.uses)
    groups = [user for user in users if isinstance(user, GroupOp) and user.control is None]
    return [group for group in groups if _reads_tiles(group, value, narrow)]


def _reads_tiles(group: GroupOp, value: SSAValue, narrow: Collection[SSAValue]) -> bool:
    outer: dict[SSAValue, SSAValue] = dict(zip(group.body.block.args, group.inputs, strict=True))
    for matmul in (op for op in group.operators if op.type_name == "MatMul"):
        sources = [outer.get(source := _repeated_from(v), source) for v in matmul.inputs]
        if value in sources:
            other = 1 - sources.index(value)
            tiled = min(shape_of(matmul.inputs[other].type)[-2:]) >= MMA_SIZE
            return tiled and (sources[other] in narrow or sources[other] not in outer.values())
    return False


def narrow_weights(group: GroupOp, dtype: str) -> list[int]:
    """The indices of a group's inputs that are float32 weights of a contraction with a tensor of
    type `dtype`, or with a convolution of one."""
    arguments: list[SSAValue] = list(group.body.block.args)
    weights: list[int] = []
    for op in group.operators:
        contracts = KINDS[op.type_name] is Kind.CONTRACTION or op.type_name == RECURRENCE
        if contracts and len(op.inputs) > 1:
            first, second = (_selected_from(_convolved(operand)) for operand in op.inputs[:2])
            for one, other in ((first, second), (second, first)):
                if one in arguments and other in arguments and one.has_one_use():
                    weight, partner = (group.inputs[arguments.index(v)] for v in (one, other))
                    wide = isinstance(weight.owner, WeightOp) and dtype_of(weight.type) == "float32"
                    if wide and dtype_of(partner.type) == dtype:
                        weights.append(arguments.index(one))
    return weights


def streamed_weights(group: GroupOp) -> list[int]:
    """The indices of a group's inputs that are float32 weights of GEMMs of few rows.

    A CPU reads them no faster than memory, in 16 bits twice as many; others have their accuracy.
    """
    arguments: list[SSAValue] = list(group.body.block.args)
    weights: list[int] = []
    for op in group.operators:
        if op.type_name not in GEMMS or op.inputs[1] not in arguments:
            continue
        number = arguments.index(op.inputs[1])
        shape = shape_of(op.outputs[0].type)
        weight = group.inputs[number]
        constant = isinstance(weight.owner, WeightOp) and dtype_of(weight.type) == "float32"
        alone = op.inputs[1].has_one_use() and len(shape_of(weight.type)) == 2
        if constant and alone and prod(shape[:-1]) <= MEMORY_BOUND_ROWS:
            weights.append(number)
    return weights


def _convolved(value: SSAValue) -> SSAValue:
    """The image of the convolution, perhaps followed by a Relu, that computes a tensor; else it."""
    for type in ("Conv", "Relu"):
        owner = moved_from(value).owner
        if not isinstance(owner, OperatorOp) or owner.type_name != type:
            return value
        value = owner.inputs[0]
    return value


def _selected_from(value: SSAValue) -> SSAValue:
    """The tensor whose elements a value holds, all or those at some indices."""
    owner = moved_from(value).owner
    while isinstance(owner, OperatorOp) and owner.type_name in GATHERS:
        value = owner.inputs[0]
        owner = moved_from(value).owner
    return moved_from(value)


@dataclass
class _Reader:
    graph: GraphOp
    largest: float
    classes: DisjointSets = field(default_factory=DisjointSets)
    kept: list[SSAValue] = field(default_factory=list[SSAValue])
    boundary: list[SSAValue] = field(default_factory=list[SSAValue])
    overflowing: set[SSAValue] = field(default_factory=set[SSAValue])
    extremes: list[tuple[SSAValue, SSAValue]] = field(
        default_factory=list[tuple[SSAValue, SSAValue]]
    )
    multiplied: list[tuple[SSAValue, SSAValue]] = field(
        default_factory=list[tuple[SSAValue, SSAValue]]
    )
    merging: bool = False

    def __post_init__(self) -> None:
        self.merging = target_of(self.graph).fuses_siblings
        self.boundary += [*self.graph.body.block.args, *self.graph.results_yielded]

    def without(
        self, kept: Sequence[SSAValue], pairs: Sequence[tuple[SSAValue, SSAValue]] = ()
    ) -> list[SSAValue]:
        """The results of operations that share no memory with any of some values.

        With the first of a pair, or what extremes are of, the second is kept.
        """
        roots = {self.classes.root(value) for value in kept}
        linked = [tuple(map(self.classes.root, pair)) for pair in (*self.extremes, *pairs)]
        while more := {second for first, second in linked if first in roots} - roots:
            roots |= more
        values = (value for op in self.graph.body.block.ops for value in op.results)
        return [value for value in values if self.classes.root(value) not in roots]

    def visit(self, op: Operation) -> None:
        """Note which operands and results of an operation outside groups stay float32."""
        if isinstance(op, GroupOp):
            self._group(op)
        elif isinstance(op, OperatorOp):
            values = shared_values(op)
            for value in values[1:]:
                self.classes.merge(values[0], value)
            if any(value in self.overflowing for value in values):
                self.overflowing.update(op.outputs)
        computed = isinstance(op, GroupOp | OperatorOp)
        self.kept += [v for v in op.results if not computed or self._stays(v)]

    def _stays(self, value: SSAValue) -> bool:
        single = prod(shape_of(value.type)) == 1
        return single or value in self.overflowing or dtype_of(value.type) != "float32"

    def _group(self, group: GroupOp) -> None:
        outer: dict[SSAValue, SSAValue] = dict(
            zip(group.body.block.args, group.inputs, strict=True)
        )
        self.overflowing.update(arg for arg, value in outer.items() if value in self.overflowing)
        for op in group.operators:
            if KINDS[op.type_name] is Kind.OPAQUE and op.type_name != RECURRENCE:
                self.kept += [*group.inputs, *group.outputs]
            if facts_of(op.type_name).converts and dtype_of(op.results[0].type) in _WIDE_INTEGERS:
                self.kept += [outer[v] for v in op.inputs if v in outer]
            if op.type_name in ("Softmax", "LogSoftmax"):
                self.kept += [outer[v] for v in _sources(op.inputs[0]) if v in outer]
            on_gpu = target_of(self.graph).is_gpu
            if op.type_name == "Conv" and on_gpu and self._prefers_float32(op, outer):
                self.kept += [outer[v] for v in _sources(op.inputs[0]) if v in outer]
            self._multiplied(op, outer)
            if self._may_overflow(op):
                self.overflowing.update(op.outputs)
        for inner, result in zip(group.results_yielded, group.outputs, strict=True):
            if inner in self.overflowing:
                self.overflowing.add(result)
            if isinstance(inner.owner, OperatorOp):
                self._result(inner.owner, result, outer)

    def _result(self, op: OperatorOp, result: SSAValue, outer: Mapping[SSAValue, SSAValue]) -> None:
        """Note whether the result of a group that an operator computes stays, or with what."""
        if _is_kept(op):
            self.kept.append(result)
        if _is_extreme(op):
            sources = _sources(op.inputs[0])
            self.extremes += [(outer[v], result) for v in sources if v in outer]

    def _multiplied(self, op: OperatorOp, outer: Mapping[SSAValue, SSAValue]) -> None:
        """Note both operands of a contraction where neither is a weight."""
        if op.type_name not in FLOAT_CONTRACTIONS:
            return
        sources = [outer.get(moved_from(operand)) for operand in op.inputs[:2]]
        computed = [v for v in sources if v and not isinstance(v.owner, WeightOp | ConstantOp)]
        if len(computed) == 2:
            self.multiplied += [(computed[0], computed[1]), (computed[1], computed[0])]

    def _prefers_float32(self, conv: OperatorOp, outer: Mapping[SSAValue, SSAValue]) -> bool:
        return _prefers_float32(conv, self.merging and _is_weight(conv, outer))

    def _may_overflow(self, op: OperatorOp) -> bool:
        """Whether an operator's results depend on a constant that overflows."""
        facts = facts_of(op.type_name)
        if facts.is_small:
            return False
        operands = op.inputs[:1] if facts.clips else op.inputs
        return any(value in self.overflowing or self._is_large(value) for value in operands)

    def _is_large(self, value: SSAValue) -> bool:
        if not isinstance(value.owner, ConstantOp) or "float" not in dtype_of(value.type):
            return False
        sizes = abs(attribute_to_array(value.owner.value).astype(numpy.float64))
        return bool((numpy.isfinite(sizes) & (sizes > self.largest)).any())


def _read(graph: GraphOp, dtype: str) -> _Reader:
    """The reader of a whole graph."""
    reader = _Reader(graph, LARGEST[dtype])
    for op in graph.body.block.ops:
        reader.visit(op)
    return reader


def _repeated_from(value: SSAValue) -> SSAValue:
    """The tensor whose elements a value holds, perhaps several times."""
    while isinstance(owner := (value := moved_from(value)).owner, OperatorOp):
        if not broadcasts(owner.type_name):
            break
        value = owner.inputs[0]
    return value


def _is_weight(op: OperatorOp, outer: Mapping[SSAValue, SSAValue]) -> bool:
    """Whether a convolution's weights are constant, without which its groups are not merged."""
    weight = outer.get(moved_from(op.inputs[1]))
    return weight is not None and isinstance(weight.owner, WeightOp)


def _prefers_float32(op: OperatorOp, merging: bool) -> bool:
    """Whether a convolution reads its image faster in 32 bits than in 16.

    Either the channels of a group fill whole blocks in 32 bits only, and groups cannot be merged,
    which takes tensor cores (`merging`); or the channels do not fill blocks, so that taps are
    copied one at a time, which is asynchronous in 32 bits only.
    """
    groups, (channels, *image) = op["group"], shape_of(op.inputs[0].type)[1:]
    own = channels // groups
    taps = prod(shape_of(op.inputs[1].type)[2:])
    if own * 2 % BLOCK_BYTES == 0 or not image:
        return False
    if groups == 1:
        return taps > 1
    whole = groups < channels and own * 4 % BLOCK_BYTES == 0
    return whole and not (merging and merges_in_blocks(op, BLOCK_BYTES // 2))


def _is_kept(op: OperatorOp) -> bool:
    """Whether an operator's results stay float32 whatever its operands are."""
    if op.type_name == "Div":
        return not (isinstance(op.inputs[1].owner, ConstantOp) or _is_normalised(op))
    if facts_of(op.type_name).converts:  # of truths into 0 and 1, which all types have
        source = dtype_of(op.inputs[0].type)
        return "float" not in source and source != "bool"
    if _is_extreme(op):
        makers = (value.owner for value in _sources(op.inputs[0]))
        return any(isinstance(maker, OperatorOp) and _is_kept(maker) for maker in makers)
    return facts_of(op.type_name).wide


def _is_extreme(op: OperatorOp) -> bool:
    """Whether an operator's results are elements of its operand, the extremes of some axes."""
    entry = OPERATORS[op.type_name]
    return entry.kind is Kind.REDUCTION and entry.facts.exact and entry.facts.reduces is not None


def _is_normalised(quotient: OperatorOp) -> bool:
    """Whether a quotient is at most 1: its divisor is no less than its rows' norms."""
    dividend, divisor = quotient.inputs
    viewed: tuple[int, ...] = ()
    while isinstance(owner := divisor.owner, OperatorOp) and _is_no_less(owner):
        if KINDS[owner.type_name] is Kind.VIEW:
            viewed = viewed or shape_of(divisor.type)
        divisor = owner.inputs[0]
    if not isinstance(owner, OperatorOp) or owner.type_name != "ReduceL2":
        return False
    return owner.inputs[0] == dividend and (viewed or shape_of(divisor.type)) == _kept(owner)


def _kept(reduction: OperatorOp) -> tuple[int, ...]:
    """The shape in which each result meets the elements that it is of."""
    reduces = facts_of(reduction.type_name).reduces
    axes = () if reduces is None else reduces(node_of(reduction))
    shape = shape_of(reduction.inputs[0].type)
    return tuple(1 if i in axes else extent for i, extent in enumerate(shape))


def _is_no_less(op: OperatorOp) -> bool:
    """Whether an operator's results are its first operand, or larger by constants."""
    if op.type_name in ("Add", "Max") and len(op.inputs) == 2:
        floor = _constant(op.inputs[1])
        return floor is not None and bool((floor >= 0).all())
    if not facts_of(op.type_name).clips:
        return broadcasts(op.type_name) or KINDS[op.type_name] is Kind.VIEW
    ceiling = _constant(op.inputs[2]) if len(op.inputs) > 2 else None
    unlimited = len(op.inputs) < 3 or isinstance(op.inputs[2].owner, NoneOp)
    return unlimited or bool(ceiling is not None and (ceiling >= numpy.finfo("float32").max).all())


def _constant(value: SSAValue) -> numpy.ndarray | None:
    owner = value.owner
    return attribute_to_array(owner.value) if isinstance(owner, ConstantOp) else None


def _sources(value: SSAValue) -> Iterator[SSAValue]:
    """A value and all values of its group from which it is computed element by element."""
    pending = [value]
    seen = {value}
    while pending:
        value = pending.pop()
        yield value
        if isinstance(value.owner, OperatorOp) and KINDS[value.owner.type_name] in _POINTWISE:
            pending += [v for v in value.owner.inputs if v not in seen]
            seen.update(value.owner.inputs)
