"""The compilations for all sizes of a program's segments, those that were saved among them."""

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

    `instances` are those of which a module is for some sizes, by the digest of its request.
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
        place: Placing,
        options: Mapping[str, Any],
    ) -> Sequence[SymbolicSegment]:
        """The compilations of a request's key; `saved` ones, by folder, are loaded at the first.

        `place` puts their weights somewhere; `options` are those of their modules. Raises
        ArtifactError for one that is of another key.
        """
        key = request.key_of_any_sizes
        if key not in self.compiled:
            loaded: list[SymbolicSegment] = []
            folders = (_folder(key, number) for number in count())
            for own in map(saved.get, folders):
                if own is None:
                    break
                vouch = with_sha256(own.manifest)
                segment = load_segment(own.directory, place, vouch, options)
                request.check_saved(own.directory, segment.inputs, segment.results)
                loaded.append(segment)
            self.compiled[key] = loaded  # only all of them: a damaged one is an error of each run
        return self.compiled[key]

    @property
    def by_folder(self) -> Mapping[str, SymbolicSegment]:
        """The segments by the names of the folders that they are saved to."""
        return {
            _folder(key, number): segment
            for key, own in self.compiled.items()
            for number, segment in enumerate(own)
        }


def _folder(key: str, number: int) -> str:
    return f"{key}-{number:04d}"
