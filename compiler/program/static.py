"""A segment for one kind of inputs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from compiler.program.folding import FoldedOutputs


class SegmentRunner(Protocol):
    """Computes outputs by name from inputs by name: a module, or numpy."""

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The outputs by name."""
        ...


@dataclass(frozen=True, slots=True)
class StaticSegment:
    """The outputs that need no operator, and the runner that computes the others, if any."""

    outputs: FoldedOutputs
    runner: SegmentRunner | None

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The outputs by name; raises InputDataError for an index out of range, if checked."""
        if self.runner is None:
            return self.outputs.of(inputs, {})
        read = {name: inputs[name] for name in self.outputs.reads}
        return self.outputs.of(inputs, self.runner.run(read))
