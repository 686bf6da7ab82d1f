"""Segments that run in a bucket: padded inputs, and the leading boxes of its outputs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from compiler.frontend.graph import Graph
from compiler.frontend.padding.graphs import EXTENT, Padding
from compiler.module import Module
from compiler.program.buckets import padded_to
from compiler.program.folding import FoldedOutputs
from compiler.program.resident import on_host

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BucketModule:
    """The module of a bucket, its graph without masks, and the masks that its sizes need."""

    shapes: Mapping[str, Shape]
    graph: Graph
    padding: Padding
    module: Module


@dataclass(frozen=True, slots=True)
class PaddedSegment:
    """A segment for one size of inputs, which runs in a bucket.

    `extents` are inputs of the module, and `shapes` those of the outputs that it computes, by name.
    """

    bucket: BucketModule
    outputs: FoldedOutputs
    extents: Mapping[str, np.ndarray]
    shapes: Mapping[str, Shape]

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The outputs by name; raises InputDataError for an index out of range, if checked."""
        given = {
            name: padded_to(on_host(inputs[name]), self.bucket.shapes[name])
            for name in self.outputs.reads
        }
        computed = self.bucket.module.run({**given, **self.extents})
        boxes = {name: _box(computed[name], shape) for name, shape in self.shapes.items()}
        return self.outputs.of(inputs, boxes)


def _box(array: Any, shape: Shape) -> Any:
    """The leading part of an array, in one piece."""
    if array.shape == shape:
        return array
    return np.ascontiguousarray(array[tuple(map(slice, shape))])


def extents_by_name(extents: Sequence[int]) -> dict[str, np.ndarray]:
    """The inputs of a padded graph for extents."""
    return {f"{EXTENT}{number}": np.array(extent) for number, extent in enumerate(extents)}
