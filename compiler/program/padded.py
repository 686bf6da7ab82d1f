"""Segments that run in a bucket: padded inputs, and the leading boxes of its outputs."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from compiler.artifact.module import Module
from compiler.backends.memory import aligned_array
from compiler.frontend.graph import Graph
from compiler.frontend.padding.axes import Crop
from compiler.frontend.padding.graphs import Padding
from compiler.frontend.padding.masking import EXTENT
from compiler.program.folding import FoldedOutputs
from compiler.program.resident import on_host

Shape = tuple[int, ...]
Box = tuple[slice, ...]


class PaddedInput:
    """Memory for an input of a bucket's size, with zeros after the elements of the last run's."""

    __slots__ = ("_box", "_elements", "_shape", "_whole")

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._box: Box | None = None
        self._whole = self._elements = np.empty(0)

    def filled(self, array: np.ndarray, box: Box) -> np.ndarray:
        """The memory with the elements of an array, which fill a box of it."""
        if box is not self._box:
            self._clear(array.dtype, box)
        self._elements[...] = array
        return self._whole

    def _clear(self, dtype: np.dtype[Any], box: Box) -> None:
        """Let elements fill another box."""
        if self._box is None:
            self._whole = aligned_array(self._shape, dtype)
        self._whole.fill(0)
        self._box = box
        self._elements = self._whole[box]


PaddedInputs = Mapping[str, PaddedInput]
"""The inputs of one run, by name."""


class PaddingPool:
    """Memory for padded inputs, for as many runs as were in progress in a bucket at once."""

    def __init__(self, shapes: Mapping[str, Shape]) -> None:
        self._shapes = shapes
        self._idle: deque[PaddedInputs] = deque()

    def __reduce__(self) -> tuple[type["PaddingPool"], tuple[Any, ...]]:
        """A copy begins without memory."""
        return PaddingPool, (self._shapes,)

    def take(self) -> PaddedInputs:
        """Memory that no other run has."""
        try:
            return self._idle.pop()
        except IndexError:
            return {name: PaddedInput(shape) for name, shape in self._shapes.items()}

    def give_back(self, inputs: PaddedInputs) -> None:
        """Let later runs use memory."""
        self._idle.append(inputs)

    def close(self) -> None:
        """Release the memory that no run has."""
        self._idle.clear()


@dataclass(frozen=True, slots=True)
class BucketModule:
    """The module of a bucket, its graph without masks, and the masks that its sizes need.

    `example` is the graph of smaller sizes by which the masks were found.
    """

    shapes: Mapping[str, Shape]
    graph: Graph
    example: Graph
    padding: Padding
    module: Module
    pool: PaddingPool


@dataclass(frozen=True, slots=True)
class PaddedSegment:
    """A segment for one size of inputs, which runs in a bucket.

    `given` and `made` are the parts of inputs and outputs that are smaller than the bucket's, and
    `extents` further inputs of its module.
    """

    bucket: BucketModule
    outputs: FoldedOutputs
    extents: Mapping[str, np.ndarray]
    given: Mapping[str, Box]
    made: Mapping[str, Crop]

    @classmethod
    def of(
        cls,
        bucket: BucketModule,
        outputs: FoldedOutputs,
        extents: Sequence[int],
        given: Mapping[str, Shape],
        made: Mapping[str, Crop],
    ) -> Self:
        """The segment for inputs of some shapes and its cropped outputs, by name."""
        full = {output.name: output.shape for output in bucket.module.schedule.of_kind("output")}
        arrays = {
            f"{EXTENT}{number}": aligned_array((), np.int64) for number in range(len(extents))
        }
        for array, extent in zip(arrays.values(), extents, strict=True):
            array[...] = extent
        return cls(
            bucket,
            outputs,
            arrays,
            _smaller({name: given[name] for name in outputs.reads}, bucket.shapes),
            {name: crop for name, crop in made.items() if crop.shape != full[name]},
        )

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The outputs by name; raises InputDataError for an index out of range, if checked."""
        arrays = {**self.extents}
        for name in self.outputs.reads:
            arrays[name] = on_host(inputs[name])
        memory = self.bucket.pool.take()
        try:
            for name, box in self.given.items():
                arrays[name] = memory[name].filled(arrays[name], box)
            computed = self.bucket.module.executable.run(arrays)
        finally:
            self.bucket.pool.give_back(memory)
        for name, crop in self.made.items():
            computed[name] = np.ascontiguousarray(crop(computed[name]))
        return self.outputs.of(inputs, computed)


def _smaller(shapes: Mapping[str, Shape], full: Mapping[str, Shape]) -> dict[str, Box]:
    """The leading parts of arrays that have smaller shapes than the whole arrays."""
    return {n: tuple(map(slice, shape)) for n, shape in shapes.items() if shape != full[n]}
