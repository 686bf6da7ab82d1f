"""Requests for a segment at inputs of some types, and of some contents."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from compiler.errors import ArtifactError
from compiler.program.segment import SegmentSource, hashed_piece
from compiler.schedule.tasks import Allocation
from compiler.tensors.dtypes import numpy_name

MOST_SHOWN = 6
"""The most inputs of a segment that messages list."""

InputArrays = Mapping[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class SegmentRequest:
    """A segment, its inputs, and the inputs on whose contents it depends."""

    source: SegmentSource
    inputs: InputArrays
    known: frozenset[str]

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the inputs."""
        return {name: array.shape for name, array in self.inputs.items()}

    @property
    def key_of_any_sizes(self) -> str:
        """Its identity among all requests for one model, but for the shapes of unknown inputs."""
        return self._digest(sizes=False)

    @property
    def digest(self) -> str:
        """Its identity among all requests for one model."""
        return self._digest(sizes=True)

    def _digest(self, sizes: bool) -> str:
        """A hash; the path of the body, which is unique in a model, stands for its constants."""
        hasher = self.source.hasher.copy()
        for name, array in self.inputs.items():
            is_constant = name in self.known
            shape = array.shape if sizes or is_constant else len(array.shape)
            hasher.update(hashed_piece(f"{name} {array.dtype.name} {shape}".encode()))
            hasher.update(hashed_piece(array.tobytes() if is_constant else b""))
        for name in self.source.writes:
            hasher.update(hashed_piece(name.encode()))
        return hasher.hexdigest()

    def check_saved(
        self, directory: Path, inputs: Iterable[Allocation], outputs: Iterable[str]
    ) -> None:
        """Raise ArtifactError unless a saved segment takes and gives what this one does.

        Inputs with symbolic extents match any sizes.
        """
        types = {name: (numpy_name(a.dtype), len(a.shape)) for name, a in self.inputs.items()}
        fits = all(types.get(tensor.name) == (tensor.dtype, len(tensor.shape)) for tensor in inputs)
        if not fits or not {*self.source.writes} <= {*outputs}:
            raise ArtifactError(f"{directory} is not the segment {self}: save the module again")

    def __str__(self) -> str:
        types = [f"{name} {a.dtype.name}{list(a.shape)}" for name, a in self.inputs.items()]
        if (more := len(types) - MOST_SHOWN) > 1:
            types[MOST_SHOWN:] = [f"{more} more"]
        return f"{self.source.name} for {', '.join(types) or 'no inputs'}"
