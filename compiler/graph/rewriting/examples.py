"""Terms for the example sizes of symbols, of which costs are estimated."""

from dataclasses import dataclass, field, replace

from compiler.graph.rewriting.terms import Graph, Term, Terms, reachable
from compiler.tensors.extents import at_hints
from compiler.tensors.substitution import mapped_extents, shape_at_hints


@dataclass
class Examples:
    """The terms for the example sizes in place of some over symbols, each made once."""

    terms: Terms
    _made: dict[Term, Term] = field(default_factory=dict[Term, Term])

    def of(self, graph: Graph) -> Graph:
        """A graph for the example sizes."""
        for term in reachable(graph):
            if term not in self._made:
                self._made[term] = self._example(term)
        return tuple(self._made[term] for term in graph)

    def _example(self, term: Term) -> Term:
        node = term.node
        inputs = [operand and self._made[operand] for operand in node.inputs]
        attributes = {n: mapped_extents(v, at_hints) for n, v in node.attributes.items()}
        types = [replace(type, shape=shape_at_hints(type.shape)) for type in term.types]
        if not inputs:
            return self.terms.leaf(node.type, types[0], **attributes)
        return self.terms.opaque(node.type, inputs, attributes, types, node.node)
