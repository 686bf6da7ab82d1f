"""A segment's graph without the outputs that need no operator."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from compiler.artifact.module import without_checks
from compiler.frontend.graph import Graph
from compiler.frontend.liveness import drop_dead
from compiler.frontend.masks import drop_masks


@dataclass(frozen=True, slots=True)
class FoldedOutputs:
    """The outputs that are known and those that are inputs; `reads` are inputs of the others."""

    constants: Mapping[str, np.ndarray]
    passed: Mapping[str, str]
    reads: Sequence[str]

    def of(self, inputs: Mapping[str, Any], computed: Mapping[str, Any]) -> dict[str, Any]:
        """All outputs; raises InputDataError for an index out of range, if checked."""
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
    constants = {n: _frozen(v.content) for n, v in graph.outputs if v.array is not None}
    names = {value: value.name for value in graph.inputs}
    passed = {name: names[value] for name, value in graph.outputs if value in names}
    graph.outputs = [(n, v) for n, v in graph.outputs if n not in constants | passed]
    drop_masks(graph)
    drop_dead(graph)
    read = set(graph.uses())
    graph.inputs = [value for value in graph.inputs if value in read]
    reads = [value.name for value in graph.inputs]
    return FoldedGraph(FoldedOutputs(constants, passed, reads), graph)


def _frozen(array: np.ndarray) -> np.ndarray:
    """A view of a constant that nobody can change."""
    view = array.view()
    view.flags.writeable = False
    return view
