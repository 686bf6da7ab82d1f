"""The finding of a search for the cause of wrong outputs."""

from dataclasses import dataclass, field
from typing import Any, Literal

Cause = Literal["import", "pass", "kernel", "schedule", "rounding"]


@dataclass(frozen=True)
class Finding:
    """The first step after which outputs differ, or the kernel or the pair of tasks to blame.

    `name` is that of the pass or the kernel, empty for others; `operators` and `nodes` say what
    the kernel computes, or what a reduced model of a wrong pass holds; `tasks` are numbers in the
    schedule. `difference` has the error and its bound, or what the verifier says.
    """

    cause: Cause
    name: str = ""
    difference: str = ""
    operators: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    tasks: tuple[int, ...] = ()

    @property
    def headline(self) -> str:
        """The fault in a sentence."""
        match self.cause:
            case "import":
                return f"the import of the model is wrong{self._places}"
            case "pass":
                return f"the pass '{self.name}' is wrong{self._places}"
            case "kernel":
                return f"the kernel '{self.name}' of task {self.tasks[0]} is wrong{self._places}"
            case "schedule":
                where = f" after the pass '{self.name}'" if self.name else ""
                earlier, later = self.tasks or (None, None)
                waits = f": task {later} does not wait for task {earlier}" if self.tasks else ""
                return f"the schedule is wrong{where}{waits}"
            case "rounding":
                return "no pass, kernel or wait is wrong alone: small errors add up"

    @property
    def _places(self) -> str:
        """The operators, and the nodes that they come from."""
        text = f": it computes {', '.join(self.operators)}" if self.operators else ""
        return text + (f" for the nodes {', '.join(self.nodes)}" if self.nodes else "")

    def same_cause(self, finding: "Finding | None") -> bool:
        """Whether another finding blames the same pass, or another thing of the same kind."""
        if finding is None or finding.cause != self.cause:
            return False
        return self.cause != "pass" or self.name == finding.name


@dataclass(frozen=True)
class Story:
    """Each step of a search in a line, and the finding, if there is one."""

    lines: tuple[str, ...] = ()
    finding: Finding | None = None
    target: str = ""
    reference: str = ""
    repro: dict[str, Any] = field(default_factory=dict[str, Any])

    def to_json(self) -> dict[str, Any]:
        """The story as plain data."""
        finding = self.finding
        return {
            "target": self.target,
            "reference": self.reference,
            "different": finding is not None,
            "finding": None if finding is None else {**vars(finding), "headline": finding.headline},
            "steps": list(self.lines),
            "repro": self.repro,
        }
