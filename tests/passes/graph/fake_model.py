"""A cost model of fixed times for tests of how substitutions are chosen."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp

from compiler.choice.judges import estimated_timing
from compiler.ir.dataflow import GraphOp
from compiler.rewrite.search.backtracking import Cost
from compiler.rewrite.search.cost_model import CostPolicy, roofline_cost
from compiler.schedule.choices import ChoiceSource, Timing


@dataclass
class FakeModel:
    """A cost model of fixed times, which counts what it is asked."""

    rank: Sequence[float]
    uncertainty: float = 0.0
    known: dict[str, str] = field(default_factory=dict[str, str])
    asked: list[int] = field(default_factory=list[int])

    source: ClassVar[ChoiceSource] = "model"

    def cost(self, policy: CostPolicy, alpha: float, like: GraphOp) -> Cost:
        """The roofline's cost."""
        return roofline_cost(policy, alpha, like)

    def recall(self, question: str) -> str | None:
        """A decision that was kept."""
        return self.known.get(question)

    def remember(self, question: str, text: str) -> None:
        """Keep a decision."""
        self.known[question] = text

    def times(self, ways: Mapping[str, ModuleOp]) -> Mapping[str, Timing | str]:
        """The times of the candidates, the first for the graph as it was."""
        self.asked.append(len(ways))
        before, *others = ways
        times = {before: self.rank[1], **dict.fromkeys(others, self.rank[0])}
        return {name: estimated_timing(time, self.uncertainty) for name, time in times.items()}
