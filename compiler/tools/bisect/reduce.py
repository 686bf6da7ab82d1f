"""The smallest part of a model that still shows a difference, by delta debugging."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

from compiler.backends.memory import Array
from compiler.errors import FlowloomError
from compiler.tools.bisect.extract import Extractor, ReproModel, whole_model
from compiler.tools.bisect.finding import Finding
from compiler.tools.bisect.search import Question, search_cause

Chosen = tuple[int, ...]


@dataclass(frozen=True)
class Reduced:
    """A part of a model that shows the difference, its finding, and how many parts were tried."""

    part: ReproModel
    finding: Finding
    nodes: int
    tried: int


def minimal(
    whole: Sequence[int], shows: Callable[[Chosen], bool], time_left: Callable[[], bool]
) -> Chosen:
    """A part of a sequence that shows something and, given time, no longer does with one less.

    Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input" (2002), ddmin; the
    whole is known to show it.
    """
    smallest, parts = tuple(whole), 2
    while len(smallest) > 1 and time_left():
        size = -(-len(smallest) // parts)
        chunks = [smallest[start : start + size] for start in range(0, len(smallest), size)]
        rests = [tuple(i for i in smallest if i not in chunk) for chunk in chunks]
        tries = (*chunks, *rests) if len(chunks) > 2 else chunks
        smaller = next((one for one in tries if time_left() and one and shows(one)), None)
        if smaller is not None:
            parts = 2 if smaller in chunks else max(2, len(chunks) - 1)
            smallest = smaller
        elif size == 1:
            break
        else:
            parts = min(2 * parts, len(smallest))
    return smallest


def reduced_model(
    question: Question, inputs: Mapping[str, Array], finding: Finding, seconds: float
) -> Reduced | None:
    """The smallest part of the model that has the finding's cause; None if no part shows it.

    The nodes that the finding names are tried first. Takes about as long as it is given. Raises
    Refusal if onnxruntime cannot compute the values between nodes.
    """
    end = perf_counter() + seconds
    extractor = Extractor(whole_model(question.model), inputs)
    trial = _Trials(question, extractor, finding)

    def time_left() -> bool:
        return perf_counter() < end

    named = [i for i, node in enumerate(extractor.nodes) if node.name in finding.nodes]
    start = next(
        (c for c in (named, range(len(extractor.nodes))) if c and trial.shows(tuple(c))), None
    )
    if start is None:
        return None
    nodes = minimal(start, trial.shows, time_left)
    part, finding_of_part = trial.found[nodes]
    return Reduced(part, finding_of_part, len(nodes), trial.tried)


class _Trials:
    """Searches parts of a model, and keeps those that have the cause."""

    def __init__(self, question: Question, extractor: Extractor, finding: Finding):
        self._question, self._extractor, self._finding = question, extractor, finding
        self.found: dict[Chosen, tuple[ReproModel, Finding]] = {}
        self.tried = 0

    def shows(self, chosen: Chosen) -> bool:
        """Whether the model of some nodes has the cause."""
        self.tried += 1
        try:
            part = self._extractor.part(chosen)
            arguments: dict[str, Any] = {
                **self._question.arguments,
                "input_shapes": {},
                "dump_ir": None,
            }
            asked = replace(
                self._question, model=part.model, inputs=part.inputs, arguments=arguments
            )
            finding = search_cause(asked).finding
        except FlowloomError:
            return False  # the part is not a model that compiles
        if finding is None or not self._finding.same_cause(finding):
            return False
        self.found[chosen] = (part, finding)
        return True
