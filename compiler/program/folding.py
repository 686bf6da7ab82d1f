"""A segment's graph without the outputs that need no operator."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from compiler.artifact.module import without_checks
from compiler.net.building.liveness import drop_dead
from compiler.net.building.masks import drop_masks
from compiler.net.graph import Graph, Value
from compiler.schedule.tasks import MEASURED_SIZE
from compiler.tensors.extents import value_at


@dataclass(frozen=True, slots=True)
class FoldedOutputs:
    """The outputs that are constants or inputs; `reads` are the inputs of the others.

    `sizes` are known but for what symbols stand for.
    """

    constants: Mapping[str, np.ndarray]
    passed: Mapping[str, str]
    reads: Sequence[str]
    sizes: Mapping[str, Value] = field(default_factory=dict[str, Value])

    def at(self, sizes: Mapping[str, int]) -> "FoldedOutputs":
        """The outputs for sizes by symbol."""
        numbers = {name: _frozen(_numbers(value, sizes)) for name, value in self.sizes.items()}
        return replace(self, constants={**self.constants, **numbers}, sizes={})

    def of(self, inputs: Mapping[str, Any], computed: Mapping[str, Any]) -> dict[str, Any]:
        """All outputs; raises InputDataError for an index out of range, if checked."""
        assert not self.sizes, "they are for all sizes"
        if not self.constants and not self.passed:
            return without_checks(computed)
        passed = {name: inputs[source] for name, source in self.passed.items()}
        return without_checks({**self.constants, **passed, **computed})


@dataclass(frozen=True, slots=True)
class FoldedGraph:
    """The outputs that need no operator, and a graph of the others."""

    outputs: FoldedOutputs
    graph: Graph


def folded(graph: Graph) -> FoldedGraph:
    """The folded form of a graph, which is changed in place."""
    determined = {name: value for name, value in graph.outputs if value.array is not None}
    constants = {name: _frozen(v.content) for name, v in determined.items() if not v.symbolic}
    sizes = {name: value for name, value in determined.items() if value.symbolic}
    names = {value: value.name for value in graph.inputs}
    passed = {name: names[value] for name, value in graph.outputs if value in names}
    graph.outputs = [(n, v) for n, v in graph.outputs if n not in determined and n not in passed]
    drop_masks(graph)
    drop_dead(graph)
    read = set(graph.uses())
    graph.inputs = [value for value in graph.inputs if value in read]
    reads = [value.name for value in graph.inputs]
    return FoldedGraph(FoldedOutputs(constants, passed, reads, sizes), graph)


def measured_by(graph: Graph) -> list[str]:
    """The names of the symbols whose sizes a graph measures."""
    names = (name for name, _ in graph.outputs if name.startswith(MEASURED_SIZE))
    return [name.removeprefix(MEASURED_SIZE) for name in names]


def _numbers(value: Value, sizes: Mapping[str, int]) -> np.ndarray:
    numbers = [value_at(extent, sizes) for extent in value.content.reshape(-1).tolist()]
    return np.array(numbers, value.dtype).reshape(value.shape)


def _frozen(array: np.ndarray) -> np.ndarray:
    """A view of a constant that nobody can change."""
    view = array.view()
    view.flags.writeable = False
    return view
