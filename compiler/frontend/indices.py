"""Operators that check at run time whether indices are in range, as extra outputs of a graph."""

import numpy as np

from compiler.errors import ModelError
from compiler.frontend.builder import Builder
from compiler.net.graph import Graph, Inputs, Value
from compiler.net.operators.indices import AttributeOf, Bounds, index_bounds
from compiler.schedule.tasks import IN_RANGE, RESERVED_NAMES


class IndexWatch:
    """Adds an output for each node that reads or writes at run-time indices."""

    def __init__(self, builder: Builder):
        self.builder = builder
        self.outputs: dict[str, Value] = {}

    def watch(self, op_type: str, name: str, inputs: Inputs, attribute: AttributeOf) -> None:
        """Watch a node, unless it has no indices or they are constants, which import checks."""
        bounds = index_bounds(op_type, inputs, attribute)
        indices = None if bounds is None else inputs[bounds.input]
        self.builder.node = name
        if bounds is not None and indices is not None and indices.array is None:
            self.add(op_type, bounds, indices)

    def add(self, op_type: str, bounds: Bounds, indices: Value) -> None:
        """Watch an input of the builder's node that has indices, which are not constants."""
        name = self.builder.node
        text = f"{IN_RANGE}{op_type} {name}: input {bounds.input} must be in {bounds}"
        while text in self.outputs:
            text += "'"
        self.builder.node = f"{name}/in-range"
        # An int32 scalar: one if all indices are within their bounds, else zero.
        one = self.builder.one
        low, high = (self._limit(indices, limits) for limits in (bounds.low, bounds.high))
        inside = one("And", one("GreaterOrEqual", indices, low), one("LessOrEqual", indices, high))
        number = one("Cast", inside, to=6)
        if not indices.rank:
            in_range = number
        else:
            in_range = one("ReduceMin", number, axes=list(range(indices.rank)), keepdims=0)
        self.outputs[text] = in_range
        self.builder.node = name

    def _limit(self, indices: Value, numbers: tuple[int, ...]) -> Value:
        shape = (-1,) if len(numbers) > 1 else ()
        return self.builder.constant(np.array(numbers).reshape(shape), indices.dtype)

    def add_to(self, graph: Graph) -> None:
        """Add the outputs to a graph, except for nodes that were removed from it."""
        made = {value for operator in graph.operators for value in operator.outputs}
        graph.outputs.extend(item for item in self.outputs.items() if item[1] in made)


def check_output_names(graph: Graph) -> None:
    """Raise ModelError for an output whose name is reserved for checks."""
    for name, _ in graph.outputs:
        if name.startswith(RESERVED_NAMES):
            raise ModelError(f"the output {name!r} has a name that is reserved: rename it")
