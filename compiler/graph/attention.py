"""Matching attention: softmax(scores(Q K^T)) V, with the layout changes of operands and result."""

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from math import prod

from compiler.graph.network import Network, NetworkNode, producers_of, users_of
from compiler.graph.strides import StridedWindow
from compiler.graph.windows import GEMM_TYPES, StridedOperand, is_matrix, trace_operand
from compiler.ir.operators import KINDS, Kind

MOST_COLUMNS = 128
"""The largest head: columns of Q and K, and of V, that kernels keep in registers."""


@dataclass(frozen=True)
class Attention:
    """One attention; values and operators are the network's numbers.

    The windows of `query`, `key`, `value` and `result` have the shapes (batch..., S, D),
    (batch..., D, T), (batch..., T, E) and (batch..., S, E), and one stride for each of the last
    two axes. No source is a result of `operators`. `first` and `second` are the MatMuls, `scores`
    the elementwise operators between the first and the `softmax`.
    """

    query: StridedOperand
    key: StridedOperand
    value: StridedOperand
    first: int
    scores: tuple[int, ...]
    softmax: int
    second: int
    result: StridedOperand
    """The result as a window of the value that the attention writes."""

    @property
    def operators(self) -> tuple[int, ...]:
        """All operators, in order."""
        parts = (part.operators for part in (self.query, self.key, self.value, self.result))
        inner = {self.first, *self.scores, self.softmax, self.second}
        return tuple(sorted(inner.union(*parts)))

    @property
    def batch(self) -> tuple[int, ...]:
        """The batch extents: one softmax(Q K^T) V for each index."""
        return self.result.window.shape[:-2]

    @property
    def multiplications(self) -> int:
        """Multiply-adds of both MatMuls."""
        rows, depth = self.query.window.shape[-2:]
        columns, width = self.value.window.shape[-2:]
        return prod(self.batch) * rows * columns * (depth + width)


def find_attentions(network: Network) -> list[Attention]:
    """The attentions of a network whose intermediate values no other operator reads."""
    finder = _Finder(network)
    matches = (finder.at(i) for i, node in enumerate(network.operators) if node.type == "Softmax")
    return [attention for attention in matches if attention is not None]


class _Finder:
    def __init__(self, network: Network):
        self.network = network
        self.users, self.producers = users_of(network), producers_of(network)
        self.outputs = frozenset(network.outputs)

    def at(self, softmax: int) -> Attention | None:
        """The attention around a softmax over the last axis, if it is one."""
        node = self.network.operators[softmax]
        shape, scores = self.shape(node.outputs[0]), node.inputs[0]
        second = self.only_user(node.outputs[0])
        last = node.attributes.get("axis", -1) % max(len(shape), 1) == len(shape) - 1
        if second is None or scores is None or not last or len(shape) < 2 or not prod(shape):
            return None
        chain = self.chain(scores, shape)
        matmul = self.network.operators[second]
        if chain is None or matmul.type != "MatMul" or matmul.inputs[0] != node.outputs[0]:
            return None
        return self.assemble(chain[0], tuple(chain[1:]), softmax, second)

    def chain(self, value: int, shape: tuple[int, ...]) -> list[int] | None:
        """The MatMul that computes the scores, then the elementwise operators that follow."""
        producer = self.producers.get(value)
        if producer is None or self.shape(value) != shape or self.only_user(value) is None:
            return None
        node = self.network.operators[producer]
        if node.type == "MatMul":
            return [producer] if self.network.values[value].dtype == "float32" else None
        if KINDS.get(node.type) is not Kind.ELEMENTWISE or len(node.outputs) != 1:
            return None
        for operand in node.inputs:
            before = None if operand is None else self.chain(operand, shape)
            if before is not None:
                return [*before, producer]
        return None

    def assemble(
        self, first: int, scores: tuple[int, ...], softmax: int, second: int
    ) -> Attention | None:
        """The attention of the matched operators, or None if its types or sizes do not fit."""
        matmuls = [self.network.operators[i] for i in (first, second)]
        if not all(map(self.is_float32_matmul, matmuls)):
            return None
        result = self.result(matmuls[1].outputs[0])
        batch = result.window.shape[:-2]
        query, key, value = self.operands([*matmuls[0].inputs, matmuls[1].inputs[1]], batch)
        if any(o.source in self.network.constants for o in (query, key, value)):
            return None
        if max(query.window.shape[-1], value.window.shape[-1]) > MOST_COLUMNS:
            return None
        return Attention(
            query=query,
            key=key,
            value=value,
            first=first,
            scores=scores,
            softmax=softmax,
            second=second,
            result=result,
        )

    def is_float32_matmul(self, node: NetworkNode) -> bool:
        """Whether all operands and the result are float32 matrices."""
        used = [self.network.values[v] for v in (*node.inputs, *node.outputs) if v is not None]
        return all(v.dtype == "float32" and len(v.shape) >= 2 and prod(v.shape) for v in used)

    def operands(
        self, values: Sequence[int | None], batch: tuple[int, ...]
    ) -> list[StridedOperand]:
        """Q, K and V; a value that one of them reads is not recomputed by another."""
        ends = set[int]()
        while True:
            operands = [
                self.operand(value, batch, ends, masked=index == 2)
                for index, value in enumerate(values)
            ]
            inside = {producer for operand in operands for producer in operand.operators}
            met = {o.source for o in operands if self.producers.get(o.source) in inside}
            if not met:
                return operands
            ends |= met

    def operand(
        self, value: int | None, batch: tuple[int, ...], ends: Set[int], masked: bool
    ) -> StridedOperand:
        """A MatMul's operand, broadcast over the batch."""
        assert value is not None
        operand = trace_operand(self.network, self.producers, value, ends, masked=masked)
        window = operand.window.broadcast((*batch, *operand.window.shape[-2:]))
        return replace(operand, window=window)

    def result(self, value: int) -> StridedOperand:
        """The second MatMul's result as a window of the last view, Transpose or Cast of it."""
        last, path, moved = value, list[int](), list[int]()
        while (user := self.only_user(last)) is not None:
            node = self.network.operators[user]
            if not self.is_renaming(node) or node.inputs[0] != last:
                break
            path.append(user)
            last = node.outputs[0]
            if KINDS.get(node.type) is not Kind.VIEW:
                moved = list(path)
        for length in range(len(moved), 0, -1):
            window = self.backwards(moved[:length])
            if window is not None and is_matrix(window):
                given = self.network.operators[moved[length - 1]].outputs[0]
                return StridedOperand(given, window, 1.0, tuple(moved[:length]))
        return StridedOperand(value, StridedWindow.contiguous(self.shape(value)))

    def backwards(self, path: list[int]) -> StridedWindow | None:
        """The first operator's operand as a window of the last one's result."""
        nodes = [self.network.operators[i] for i in path]
        window: StridedWindow | None = StridedWindow.contiguous(self.shape(nodes[-1].outputs[0]))
        for node in reversed(nodes):
            if window is None or node.inputs[0] is None:
                return None
            shape = self.shape(node.inputs[0])
            if node.type == "Transpose":
                order = node.attributes.get("perm") or list(reversed(range(len(shape))))
                window = window.transposed([order.index(axis) for axis in range(len(shape))])
            elif node.type != "Cast":
                window = window.reshaped(shape)
        return window

    def is_renaming(self, node: NetworkNode) -> bool:
        """Whether an operator keeps all elements, perhaps in another order or type of float."""
        if node.type == "Cast":
            return self.network.values[node.outputs[0]].dtype in GEMM_TYPES
        return node.type == "Transpose" or KINDS.get(node.type) is Kind.VIEW

    def only_user(self, value: int) -> int | None:
        """The operator that alone needs a value."""
        users = self.users[value]
        return users[0] if len(users) == 1 and value not in self.outputs else None

    def shape(self, value: int) -> tuple[int, ...]:
        """The shape of a value."""
        return self.network.values[value].shape
