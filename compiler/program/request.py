"""Requests for a segment at inputs of some types, and of some contents."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from compiler.program.segment import SegmentSource

MOST_SHOWN = 6
"""The most inputs of a segment that messages list."""

InputArrays = Mapping[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class SegmentRequest:
    """A segment, its inputs, and the inputs on whose contents it depends."""

    source: SegmentSource
    inputs: InputArrays
    known: frozenset[str]

    def with_shapes(self, shapes: Mapping[str, tuple[int, ...]]) -> "SegmentRequest":
        """The request for inputs of other shapes, with unknown contents."""
        inputs = {
            name: np.broadcast_to(np.zeros((), array.dtype), shapes[name])
            for name, array in self.inputs.items()
        }
        return replace(self, inputs=inputs)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the inputs."""
        return {name: array.shape for name, array in self.inputs.items()}

    @property
    def contents_key(self) -> tuple[str, bytes]:
        """Its identity among all requests for one model whose inputs may have other shapes."""
        contents = (self.inputs[name].tobytes() for name in sorted(self.known))
        return self.source.name, b"|".join(contents)

    @property
    def digest(self) -> str:
        """Its identity among all requests for one model."""
        hasher = hashlib.sha256()
        for node in self.source.nodes.values():
            hasher.update(node.SerializeToString(deterministic=True))
        for name, array in self.inputs.items():
            content = array.tobytes() if name in self.known else b""
            hasher.update(f"{name} {array.dtype.name} {array.shape} ".encode() + content)
        hasher.update(" ".join(self.source.writes).encode())
        return hasher.hexdigest()

    def __str__(self) -> str:
        types = [f"{name} {a.dtype.name}{list(a.shape)}" for name, a in self.inputs.items()]
        if (more := len(types) - MOST_SHOWN) > 1:
            types[MOST_SHOWN:] = [f"{more} more"]
        return f"{self.source.name} for {', '.join(types) or 'no inputs'}"
