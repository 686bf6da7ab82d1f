"""A program's segments compiled for all sizes, including saved ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from compiler.artifact.manifest import with_sha256
from compiler.artifact.weights import Placing
from compiler.program.request import SegmentRequest
from compiler.program.saving import SavedSegment
from compiler.program.symbolic import SymbolicSegment
from compiler.program.symbolic_saving import load_segment


@dataclass
class SymbolicSegments:
    """The segments compiled for all sizes, and ones that cannot be, by `key_of_any_sizes`.

    `instances` has the segment of each module for some sizes, by the digest of its request.
    """

    compiled: dict[str, list[SymbolicSegment]] = field(
        default_factory=dict[str, list[SymbolicSegment]]
    )
    fixed: set[str] = field(default_factory=set[str])
    instances: dict[str, SymbolicSegment] = field(default_factory=dict[str, SymbolicSegment])

    def of_request(
        self,
        request: SegmentRequest,
        saved: Mapping[str, SavedSegment],
        placing: Placing,
        options: Mapping[str, Any],
    ) -> Sequence[SymbolicSegment]:
        """The compilations of a request's key; `saved` ones, by folder, are loaded at the first.

        `placing` puts their weights somewhere; `options` are those of their modules. Raises
        ArtifactError for one that is of another key.
        """
        key = request.key_of_any_sizes
        if key not in self.compiled:
            loaded: list[SymbolicSegment] = []
            folders = (_folder(key, number) for number in count())
            for saved_segment in map(saved.get, folders):
                if saved_segment is None:
                    break
                vouch = with_sha256(saved_segment.manifest)
                segment = load_segment(saved_segment.directory, placing, vouch, options)
                request.check_saved(saved_segment.directory, segment.inputs, segment.results)
                loaded.append(segment)
            self.compiled[key] = loaded  # only all of them: a damaged one is an error of each run
        return self.compiled[key]

    @property
    def by_folder(self) -> Mapping[str, SymbolicSegment]:
        """The segments by the names of the folders that they are saved to."""
        return {
            _folder(key, number): segment
            for key, segments in self.compiled.items()
            for number, segment in enumerate(segments)
        }


def _folder(key: str, number: int) -> str:
    return f"{key}-{number:04d}"
