"""Matching attention: softmax(scores(Q K^T)) V, with the layout changes of operands and result.

Weights and results may be rounded: elementwise operators by scalars follow the softmax and the
second MatMul, as where a model is quantised.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import gcd, prod

from compiler.graph.network import Network, Node, producers_of, users_of
from compiler.graph.windows import GEMM_TYPES, Allowed, StridedOperand, is_matrix, trace_operand
from compiler.net.operators import KINDS, Kind, facts_of
from compiler.tensors.extents import at_hints
from compiler.tensors.strides import StridedWindow

RESULT_TYPES = (*GEMM_TYPES, "int8", "uint8")
"""The types in which kernels store the result, of which float32 has every number."""

ALLOWED = (Allowed(unit_axis=-1), Allowed(unit_axis=-2), Allowed(masked=True))
"""Rows of Q and columns of K may be divided by their norms; rows of V may be left out."""

MOST_COLUMNS, MOST_DEPTH = 128, 256
"""The most columns of V, and of Q and K, of which registers hold a row for each lane."""

MOST_SLICES, SLICE = 8, 96
"""The most slices of a wider V, each of which needs all scores, and the columns of one."""

MOST_WIDE = 1 << 27
"""The most multiply-adds of a larger head: more take longer than kernels of GEMMs apart."""


ANCHOR = "Softmax"
"""The type of the operator around which an attention is."""

LEAST_ROWS = 8
"""The fewest rows of Q for which a CPU's kernel pays, as it writes K and V once more."""


@dataclass(frozen=True)
class Attention:
    """One attention; values and operators are the network's numbers.

    The windows of `query`, `key`, `value` and `result` have the shapes (batch..., S, D),
    (batch..., D, T), (batch..., T, E) and (batch..., S, E), and one stride for each of the last
    two axes. No source is a result of `operators`. `first` and `second` are the MatMuls, `scores`
    the elementwise operators and the views between the first and the `softmax`, `views` the views
    of the weights, and their Casts where these are not rounded.
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
    weights: tuple[int, ...] = ()
    results: tuple[int, ...] = ()
    views: tuple[int, ...] = ()

    @property
    def operators(self) -> tuple[int, ...]:
        """All operators, in order."""
        parts = (part.operators for part in (self.query, self.key, self.value, self.result))
        inner = {self.first, *self.scores, self.softmax, *self.weights, *self.views, self.second}
        return tuple(sorted(inner.union(*parts)))

    @property
    def batch(self) -> tuple[int, ...]:
        """The batch extents: one softmax(Q K^T) V for each index."""
        return self.result.window.shape[:-2]

    def pays_on_cpu(self, network: Network) -> bool:
        """Whether a CPU's kernel computes it, faster than kernels apart."""
        rows = at_hints(self.query.window.shape[-2])
        return self.is_plain(network) and rows >= LEAST_ROWS

    def is_plain(self, network: Network) -> bool:
        """Whether all is float32 or floats of 16 bits, with only scores between the MatMuls, and no
        vector is divided by its norm."""
        operands = (self.query, self.key, self.value)
        results = (self.first, self.softmax, self.second)
        numbers = [x.source for x in (*operands, self.result)]
        numbers += [network.operators[i].outputs[0] for i in results]
        normed = any(x.norm_floor is not None for x in operands)
        alike = all(network.values[number].dtype in GEMM_TYPES for number in numbers)
        return alike and not (normed or self.weights or self.results)

    @property
    def sizes(self) -> "AttentionSizes":
        """The extents of all problems together."""
        (rows, depth), (columns, width) = (x.window.shape[-2:] for x in (self.query, self.value))
        return AttentionSizes(prod(self.batch) * rows, columns, depth, width)


@dataclass(frozen=True, slots=True)
class AttentionSizes:
    """Rows of scores, keys, columns of Q and K, and columns of V."""

    rows: int
    columns: int
    depth: int
    width: int

    @property
    def multiplications(self) -> int:
        """Multiply-adds of the MatMuls, with the scores of each slice of V."""
        return self.rows * self.columns * (self.depth * width_slices(self.width) + self.width)

    @property
    def are_supported(self) -> bool:
        """Whether registers hold a head, or slices of few large ones."""
        if max(self.depth, self.width) <= MOST_COLUMNS:
            return True
        fits = self.depth <= MOST_DEPTH and width_slices(self.width) > 0
        return fits and self.multiplications <= MOST_WIDE


def width_slices(width: int) -> int:
    """Into how many slices kernels divide the columns of V; 0 if into none that fit.

    Slices of whole vectors are best, of eight elements or of four.
    """
    if width <= MOST_COLUMNS:
        return 1
    fitting = [n for n in range(2, MOST_SLICES + 1) if width % n == 0 and width // n <= SLICE]
    return min(fitting, key=lambda n: (-gcd(width // n, 8), n), default=0)


def may_attend(types: Iterable[str]) -> bool:
    """Whether operators of some types may hold an attention."""
    return ANCHOR in types


def find_attentions(network: Network, reads: bool = False) -> list[Attention]:
    """The attentions of a network whose intermediate values no other operator reads.

    With `reads`, results may be scaled, shifted and clipped by numbers that are inputs. What is
    between two attentions belongs to the first that is found, whose operators none after it moves.
    """
    finder = _Finder(network, reads)
    attentions: list[Attention] = []
    for i, node in enumerate(network.operators):
        if node.type == ANCHOR and (attention := finder.at(i)) is not None:
            finder.keep(attention)
            attentions.append(attention)
    return attentions


class _Finder:
    def __init__(self, network: Network, reads: bool):
        self.network = network
        self.reads = reads
        self.users, self.producers = users_of(network), producers_of(network)
        self.constants = network.constants
        self.outputs = frozenset(network.outputs)
        self.kept, self.ends = set[int](), set[int]()

    def keep(self, attention: Attention) -> None:
        """Leave an attention's operators to it, and its result as it is."""
        self.kept.update(attention.operators)
        self.ends.add(attention.result.source)

    def at(self, softmax: int) -> Attention | None:
        """The attention around a softmax over the last axis, if it is one."""
        node = self.network.operators[softmax]
        shape = self.shape(node.outputs[0])
        scores = node.inputs[0]
        last = node.attributes["axis"] == max(len(shape), 1) - 1
        if scores is None or not last or len(shape) < 2 or not prod(shape):
            return None
        chain = self.chain(scores)
        after = self.weights(node.outputs[0])
        if chain is None or after is None:
            return None
        return self.assemble(chain, softmax, after)

    def weights(self, value: int) -> list[int] | None:
        """The operators on the softmax's result, then the MatMul whose left operand that is."""
        path = list[int]()
        while (user := self.only_user(value)) is not None:
            node = self.network.operators[user]
            path.append(user)
            if node.type == "MatMul":
                return path if node.inputs[0] == value else None
            if not self.is_scalar(node, value) and not self.is_view(node):
                return None
            value = node.outputs[0]
        return None

    def is_view(self, node: Node[int]) -> bool:
        """Whether an operator changes only the axes before the matrices of a value."""
        if KINDS.get(node.type) is not Kind.VIEW or node.inputs[0] is None:
            return False
        before, after = self.shape(node.inputs[0]), self.shape(node.outputs[0])
        return len(before) > 1 and before[-2:] == after[-2:]

    def is_scalar(self, node: Node[int], value: int, reads: bool = False) -> bool:
        """Whether an operator computes each element of a value alone, by numbers.

        These are constants or, with `reads`, inputs.
        """
        others = (v for v in node.inputs if v is not None and v != value)
        known = all(
            self.constants[v].size == 1 if v in self.constants else reads and self.is_read(v)
            for v in others
        )
        alike = len(node.outputs) == 1 and self.shape(node.outputs[0]) == self.shape(value)
        return known and alike and KINDS.get(node.type) is Kind.ELEMENTWISE

    def is_read(self, value: int) -> bool:
        """Whether a value is a number that no operator computes."""
        return self.shape(value) == () and value not in self.producers

    def chain(self, value: int) -> list[int] | None:
        """The MatMul that computes the scores, then the operators that follow, in order."""
        producer = self.producers.get(value)
        if producer is None or self.only_user(value) is None:
            return None
        node = self.network.operators[producer]
        if node.type == "MatMul":
            return [producer] if self.dtype(value) in GEMM_TYPES else None
        for operand in self.of_scores(node):
            before = self.chain(operand)
            if before is not None:
                return [*before, producer]
        return None

    def of_scores(self, node: Node[int]) -> list[int]:
        """The operands that have a score for each one that an operator computes."""
        given = [value for value in node.inputs if value is not None]
        if self.is_view(node):
            return given[:1]
        if KINDS.get(node.type) is not Kind.ELEMENTWISE or len(node.outputs) != 1:
            return []
        return [value for value in given if self.shape(value) == self.shape(node.outputs[0])]

    def assemble(
        self, scores: Sequence[int], softmax: int, weights: Sequence[int]
    ) -> Attention | None:
        """The attention of the matched operators, or None if its types or sizes do not fit.

        A MatMul is the first of `scores`, the other the last of `weights`.
        """
        matmuls = [self.network.operators[i] for i in (scores[0], weights[-1])]
        if not all(map(self.is_matmul_of_floats, matmuls)):
            return None
        query, key, value = self.operands([*matmuls[0].inputs, matmuls[1].inputs[1]])
        query, key = (self.viewed(operand, matmuls) for operand in (query, key))
        if query is None or key is None:
            return None
        result = self.result(matmuls[1].outputs[0])
        batch = result.window.shape[:-2]
        query, key, value = (_broadcast(operand, batch) for operand in (query, key, value))
        if any(o.source in self.network.constants for o in (query, key, value)):
            return None
        rounded = self.rounding(weights[:-1])
        attention = Attention(
            query=query,
            key=key,
            value=value,
            first=scores[0],
            scores=tuple(scores[1:]),
            softmax=softmax,
            second=weights[-1],
            result=result,
            weights=rounded,
            results=self.results(result),
            views=tuple(i for i in weights[:-1] if i not in rounded),
        )
        return attention if attention.sizes.are_supported else None

    def rounding(self, operators: Sequence[int]) -> tuple[int, ...]:
        """The operators on weights that compute, and Casts among them."""
        if self.all_rename(operators):
            return ()
        return tuple(i for i in operators if not self.is_view(self.network.operators[i]))

    def results(self, result: StridedOperand) -> tuple[int, ...]:
        """The operators on the path of the result that compute, and Casts among them."""
        if self.all_rename(result.operators):
            return ()
        path = [(i, self.network.operators[i]) for i in result.operators]
        return tuple(i for i, node in path if KINDS.get(node.type) is Kind.ELEMENTWISE)

    def all_rename(self, operators: Sequence[int]) -> bool:
        """Whether operators keep all elements, perhaps in another order or type of float."""
        return all(self.is_renaming(self.network.operators[i]) for i in operators)

    def is_matmul_of_floats(self, node: Node[int]) -> bool:
        """Whether all operands and the result are matrices of floats."""
        used = [self.network.values[v] for v in (*node.inputs, *node.outputs) if v is not None]
        return all(v.dtype in GEMM_TYPES and len(v.shape) >= 2 and prod(v.shape) for v in used)

    def operands(self, values: Sequence[int | None]) -> list[StridedOperand]:
        """Q, K and V; a value that one of them reads is not recomputed by another."""
        ends = set(self.ends)
        while True:
            operands = [
                trace_operand(self.network, self.producers, value, ends, allowed)
                for value, allowed in zip(values, ALLOWED, strict=True)
                if value is not None
            ]
            inside = {producer for operand in operands for producer in operand.operators}
            met = {o.source for o in operands if self.producers.get(o.source) in inside}
            if not met:
                return operands
            ends |= met

    def viewed(
        self, operand: StridedOperand, matmuls: Sequence[Node[int]]
    ) -> StridedOperand | None:
        """Q or K for each matrix of weights, which may be a view of the scores."""
        weights = matmuls[1].inputs[0]
        assert weights is not None
        scores, viewed = (self.shape(v)[:-2] for v in (matmuls[0].outputs[0], weights))
        operand = _broadcast(operand, scores)
        if scores == viewed:
            return operand
        window = operand.window.reshaped((*viewed, *operand.window.shape[-2:]))
        return None if window is None else replace(operand, window=window)

    def result(self, value: int) -> StridedOperand:
        """The second MatMul's result as a window of what is computed of each element of it."""
        last = value
        path = list[int]()
        ends = list[int]()
        while (user := self.only_user(last)) is not None and user not in self.kept:
            node = self.network.operators[user]
            renaming = self.is_renaming(node) and node.inputs[0] == last
            if not renaming and not self.is_scalar(node, last, self.reads):
                break
            path.append(user)
            last = node.outputs[0]
            if KINDS.get(node.type) is not Kind.VIEW:
                ends.append(len(path))
        for end in reversed(ends):
            window = self.backwards(path[:end])
            given = self.network.operators[path[end - 1]].outputs[0]
            if window is not None and is_matrix(window) and self.dtype(given) in RESULT_TYPES:
                return StridedOperand(given, window, 1.0, tuple(path[:end]))
        return StridedOperand(value, StridedWindow.contiguous(self.shape(value)))

    def backwards(self, path: list[int]) -> StridedWindow | None:
        """The first operator's operand as a window of the last one's result."""
        nodes = [self.network.operators[i] for i in path]
        window: StridedWindow | None = StridedWindow.contiguous(self.shape(nodes[-1].outputs[0]))
        for node in reversed(nodes):
            if window is None or node.inputs[0] is None:
                return None
            shape = self.shape(node.inputs[0])
            if facts_of(node.type).permutes:
                order = node.attributes["perm"]
                window = window.transposed([order.index(axis) for axis in range(len(shape))])
            elif KINDS.get(node.type) is Kind.VIEW:
                window = window.reshaped(shape)
        return window

    def is_renaming(self, node: Node[int]) -> bool:
        """Whether an operator keeps all elements, perhaps in another order or type of float."""
        if facts_of(node.type).converts:
            return self.network.values[node.outputs[0]].dtype in GEMM_TYPES
        return facts_of(node.type).permutes or KINDS.get(node.type) is Kind.VIEW

    def only_user(self, value: int) -> int | None:
        """The operator that alone needs a value."""
        users = self.users[value]
        return users[0] if len(users) == 1 and value not in self.outputs else None

    def dtype(self, value: int) -> str:
        """The dtype of a value."""
        return self.network.values[value].dtype

    def shape(self, value: int) -> tuple[int, ...]:
        """The shape of a value."""
        return self.network.values[value].shape


def _broadcast(operand: StridedOperand, batch: tuple[int, ...]) -> StridedOperand:
    """An operand for each index of a batch."""
    window = operand.window
    return replace(operand, window=window.broadcast((*batch, *window.shape[-2:])))
