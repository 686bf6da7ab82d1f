"""The walk by which a graph is rewritten: its operators are written again, or values instead."""

from collections.abc import Mapping
from dataclasses import replace

from compiler.frontend.builder import Builder
from compiler.frontend.expansion import Expansion
from compiler.frontend.graph import Dequantised, Graph, Value
from compiler.net.node import Node


class Walk:
    """Writes the operators of a graph to a new one, in order.

    What is rewritten is said by `replacement` and `renumbered`. `builder` writes the new graph,
    `instead` has its values for those of the old one that it does not have.
    """

    def __init__(self) -> None:
        self.builder = Builder(Graph([]), Expansion())
        self.instead: dict[Value, Value] = {}
        self._makers: dict[Value, Node[Value]] = {}
        self._noted = 0

    def replacement(self, operator: Node[Value]) -> Value | None:
        """The value instead of the result of an operator on values of the new graph, if any."""
        return None

    def renumbered(self, value: Value) -> Value | None:
        """The value instead of a result of an operator that was just written, if any."""
        return None

    def rewrite(self, graph: Graph) -> bool:
        """Rewrite a graph in place; returns whether any value was replaced.

        Dead operators stay: values that stand for others may be replaced by those later.
        """
        self.builder.graph.inputs = graph.inputs
        for old in graph.operators:
            self.builder.node = old.node
            operator = replace(old, inputs=[value and self._recoded(value) for value in old.inputs])
            value = self.replacement(operator)
            if value is not None:
                self.instead[old.output] = value
                continue
            self.builder.graph.operators.append(operator)
            for result in operator.outputs:
                if (value := self.renumbered(result)) is not None:
                    self.instead[result] = value
        if self.instead:
            graph.operators = self.builder.graph.operators
            graph.outputs = [(name, self.replaced(value)) for name, value in graph.outputs]
        return bool(self.instead)

    def replaced(self, value: Value) -> Value:
        """The value of the new graph for one of the old."""
        return self.instead.get(value, value)

    def _recoded(self, old: Value) -> Value:
        """The value of the new graph, the integers that it stands for those of the new graph."""
        value = self.replaced(old)
        if isinstance(value.code, Dequantised):
            value.code = replace(value.code, integers=self.replaced(value.code.integers))
        return value

    @property
    def makers(self) -> Mapping[Value, Node[Value]]:
        """The operator of each value of the new graph."""
        written = self.builder.graph.operators
        for operator in written[self._noted :]:
            self._makers.update((value, operator) for value in operator.outputs)
        self._noted = len(written)
        return self._makers
