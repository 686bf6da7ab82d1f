"""A segment for one kind of inputs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from compiler.artifact.module import Module
from compiler.program.folding import FoldedOutputs
from compiler.program.resident import ResidentModule


class SegmentRunner(Protocol):
    """Computes outputs by name from inputs by name: a module, or numpy."""

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The outputs by name."""
        ...


@dataclass(frozen=True, slots=True)
class StaticSegment:
    """The outputs that need no operator, and the runner that computes the others, if any.

    Where outputs are `fresh` a module computes all of them, in memory that nobody else has, on the
    host or the device.
    """

    outputs: FoldedOutputs
    runner: SegmentRunner | None
    fresh: bool = field(init=False)

    def __post_init__(self) -> None:
        # A property would be a tenth of the time of a small run.
        all_computed = not self.outputs.constants and not self.outputs.passed
        computes = isinstance(self.runner, Module | ResidentModule)
        object.__setattr__(self, "fresh", all_computed and computes)

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The outputs by name; raises InputDataError for an index out of range, if checked."""
        if self.runner is None:
            return self.outputs.of(inputs, {})
        computed = self.runner.run({name: inputs[name] for name in self.outputs.reads})
        return computed if self.fresh else self.outputs.of(inputs, computed)
