"""Terms: the results of immutable nodes, of which equal ones are the same object.

A graph is a tuple of terms. Rewriting shares everything that stays, duplicates vanish and what
nothing reads is not there, so the candidates of a search cost little.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from types import MappingProxyType

from compiler.graph.rewriting.attributes import as_operator, with_defaults
from compiler.graph.rewriting.simplify import simplified
from compiler.graph.rewriting.weights import FOLDED
from compiler.net.node import Node
from compiler.net.operators import KnownTensor, infer

CONSTANT = frozenset({"weight", "constant", "fill", "identity"}) | FOLDED
"""Leaves that are known when a model is compiled, and operators whose results are, too, if their
inputs are. A `fill` has one number in every element; `identity` is the identity matrix."""

RESULT = "result"
"""The type of the node of a term that is one result of an operator with several."""

_NUMBER = attrgetter("number")


@dataclass(frozen=True, eq=False, slots=True)
class Term:
    """The results of a node on terms, or a leaf, whose node has no inputs.

    Inputs come before it in the order of `number`. `constant` terms depend on weights and constants
    only. The node's attributes are frozen, and its outputs empty: the term stands for them; see
    `attributes.py`.
    """

    node: Node["Term"]
    types: tuple[KnownTensor, ...]
    number: int
    head: int
    """The number of its node's type, its attributes and types, which terms on other inputs
    share."""
    constant: bool
    operands: tuple["Term", ...] = field(init=False)
    """The inputs that are not omitted."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "operands", tuple(t for t in self.node.inputs if t is not None))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the first result."""
        return self.types[0].shape

    @property
    def dtype(self) -> str:
        """The dtype name of the first result."""
        return self.types[0].dtype

    def __repr__(self) -> str:
        if not self.node.inputs:
            return f"{self.node.type}#{self.number}"
        return f"{self.node.type}#{self.number}({', '.join(map(repr, self.node.inputs))})"


Graph = tuple[Term, ...]
"""The results of a graph."""

_Key = tuple[Hashable, ...]


@dataclass
class Terms:
    """All terms of a search: makes each once."""

    _known: dict[tuple[int, ...], Term] = field(default_factory=dict[tuple[int, ...], Term])
    _heads: dict[_Key, int] = field(default_factory=dict[_Key, int])
    _types: dict[_Key, KnownTensor] = field(default_factory=dict[_Key, KnownTensor])

    def leaf(self, kind: str, type: KnownTensor, **attributes: Hashable) -> Term:
        """A term without inputs."""
        return self.opaque(kind, (), attributes, (type,))

    def fill(self, value: float, dtype: str, shape: Sequence[int]) -> Term:
        """A tensor with one number in every element."""
        return self.leaf("fill", KnownTensor(dtype, tuple(shape)), value=value)

    def identity(self, size: int, dtype: str) -> Term:
        """The identity matrix."""
        return self.leaf("identity", KnownTensor(dtype, (size, size)))

    def apply(
        self,
        kind: str,
        inputs: Sequence[Term | None],
        attributes: Mapping[str, Hashable] = MappingProxyType({}),
        node: str = "",
    ) -> Term:
        """An operator of one result, whose type is inferred, in its simplest form.

        Raises Mismatch for inputs that do not fit.
        """
        full = with_defaults(kind, attributes, [t and t.shape for t in inputs])
        simpler = simplified(self, kind, inputs, full)
        if simpler is not None:
            return simpler
        return self.opaque(kind, inputs, full, (self._type(kind, inputs, full),), node)

    def _type(
        self, kind: str, inputs: Sequence[Term | None], attributes: Mapping[str, Hashable]
    ) -> KnownTensor:
        """The type of the result of an operator, which is inferred once for operands of a type."""
        key = (kind, tuple([t and t.types[0] for t in inputs]), frozenset(attributes.items()))
        if key not in self._types:
            tensors = [t and t.types[0] for t in inputs]
            (type,) = infer(kind, tensors, as_operator(tensors, attributes))
            self._types[key] = type
        return self._types[key]

    def opaque(
        self,
        kind: str,
        inputs: Sequence[Term | None],
        attributes: Mapping[str, Hashable],
        types: Sequence[KnownTensor],
        node: str = "",
    ) -> Term:
        """An operator as it is, with known types; of several results if there are several types."""
        content = (kind, frozenset(attributes.items()), tuple(types))
        head = self._heads.setdefault(content, len(self._heads))
        frozen = MappingProxyType(dict(attributes))
        return self._once(head, kind, inputs, frozen, tuple(types), node)

    def result(self, term: Term, index: int) -> Term:
        """One result of an operator that has several."""
        return self.opaque(RESULT, (term,), {"index": index}, (term.types[index],))

    def results(self, term: Term) -> Graph:
        """All results of an operator that are not left out."""
        if len(term.types) == 1:
            return (term,)
        return tuple(self.result(term, i) for i, type in enumerate(term.types) if type.dtype)

    def copy(self, term: Term, inputs: Sequence[Term | None]) -> Term:
        """A term with other inputs of the same types."""
        if tuple(inputs) == term.node.inputs:
            return term
        node = term.node
        single = node.type != RESULT and len(term.types) == 1
        simpler = simplified(self, node.type, inputs, node.attributes) if single else None
        if simpler is not None:
            return simpler
        return self.opaque_copy(term, inputs)

    def opaque_copy(self, term: Term, inputs: Sequence[Term | None]) -> Term:
        """A term with other inputs of the same types, not simplified."""
        node = term.node
        return self._once(term.head, node.type, inputs, node.attributes, term.types, node.node)

    def _once(
        self,
        head: int,
        kind: str,
        inputs: Sequence[Term | None],
        attributes: Mapping[str, Hashable],
        types: tuple[KnownTensor, ...],
        name: str,
    ) -> Term:
        """The term of a head on some inputs, which is made if it is not known."""
        key = (head, *[-1 if t is None else t.number for t in inputs])
        term = self._known.get(key)
        if term is None:
            node = Node(kind, attributes, tuple(inputs), (), name)
            term = Term(node, types, len(self._known), head, _is_constant(node))
            self._known[key] = term
        return term


def _is_constant(node: Node[Term]) -> bool:
    """Whether a node's results are known when a model is compiled."""
    if node.type not in CONSTANT or not all(t.constant for t in node.inputs if t is not None):
        return False
    return "pads" not in node.attributes or (len(node.inputs) == 1 and node["mode"] == "constant")


def reachable(roots: Iterable[Term], least: int = 0) -> list[Term]:
    """The terms that some depend on, and those themselves, inputs first.

    Terms below the number `least` are left out, and what only they depend on.
    """
    terms: set[Term] = set()
    pending = list(roots)
    while pending:
        term = pending.pop()
        if term not in terms and term.number >= least:
            terms.add(term)
            pending += term.operands
    return sorted(terms, key=_NUMBER)


def readers_of(terms: Iterable[Term]) -> dict[Term, list[Term]]:
    """The terms that use each of some terms, in order; inputs come before what uses them."""
    users: dict[Term, list[Term]] = {}
    for term in terms:
        users[term] = []
        for operand in term.operands if len(term.operands) < 2 else set(term.operands):
            users[operand].append(term)
    return users


def replaced(terms: Terms, graph: Graph, new: Mapping[Term, Term]) -> Graph | None:
    """The graph with some terms replaced by others; None if these depend on what they replace."""
    least = min(term.number for term in new)
    if any(term in new for term in reachable(new.values(), least)):
        return None
    now = dict(new)
    for term in reachable(graph, least):
        if term not in now and not now.keys().isdisjoint(term.operands):
            inputs = [t and now.get(t, t) for t in term.node.inputs]
            now[term] = terms.copy(term, inputs)
    return tuple(now.get(term, term) for term in graph)
