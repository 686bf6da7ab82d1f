"""The choices made for a module, their reasons and times, in nanoseconds."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from compiler.tensors.contraction import contraction_text

Mode = Literal["graph", "subgraphs", "streams"]
"""How a schedule is launched: as one graph, as a graph a subflow, or kernel by kernel."""

MODES: tuple[Mode, ...] = get_args(Mode)
"""The modes, the default first."""


@dataclass(frozen=True, slots=True)
class Timing:
    """The median of `count` samples in ns, and its 95 % confidence interval."""

    median: float
    low: float
    high: float
    count: int


@dataclass(frozen=True, slots=True)
class SearchRecord:
    """A schedule search: simulated ns by policy, of the best policy and after the moves.

    Of `steps` moves `kept` shortened the run, to `moved`; `makespan` is what was taken. `bound`
    holds the lower bounds.
    """

    start: str
    started_at: float
    moved: float
    makespan: float
    steps: int
    kept: int
    seed: int
    policies: Mapping[str, float]
    bound: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class TuningRecord:
    """The kernels that were measured while a model compiled, as no database had them.

    Of `kernels` unknown ones `improved` got another config than without measuring, by `tried`
    candidates in `seconds`. `before` and `after` are what the improved ones take of a run, in ns.
    """

    kernels: int = 0
    tried: int = 0
    improved: int = 0
    before: float = 0.0
    after: float = 0.0
    seconds: float = 0.0

    def __add__(self, other: "TuningRecord") -> "TuningRecord":
        """The record of two compilations together."""
        return TuningRecord(
            kernels=self.kernels + other.kernels,
            tried=self.tried + other.tried,
            improved=self.improved + other.improved,
            before=self.before + other.before,
            after=self.after + other.after,
            seconds=self.seconds + other.seconds,
        )

    def __str__(self) -> str:
        if not self.kernels:
            return "the databases have every kernel"
        gain = f", {self.before / 1e3:.1f} to {self.after / 1e3:.1f} us" if self.improved else ""
        return (
            f"{self.tried} candidates of {self.kernels} kernels that no database had, in"
            f" {self.seconds:.1f} s: {self.improved} faster ones{gain}"
        )


CONTRACTIONS, SUBSTITUTION, SCHEDULE = "contractions", "substitution", "schedule"
"""The questions of a compilation, the outer ones first."""

BINDING = "binding of "
"""The beginning of the question how a buffer that moves between runs is bound; its name follows."""

ChoiceSource = Literal["measured", "model"]
"""Whether candidates ran on a device, or a model estimated their times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The answer to one question of a compilation, with the choices made within it; times in ns.

    `estimates`, `timings` and `skipped` are by candidate: a model's time, the measured one, and why
    a candidate was not timed. The `baseline` is kept unless another candidate is surely faster.
    `within` holds the choices that were made for the chosen candidate alone.
    """

    question: str
    chosen: str
    baseline: str = ""
    source: ChoiceSource = "model"
    reason: str = ""
    estimates: Mapping[str, float] = field(default_factory=dict[str, float])
    timings: Mapping[str, Timing] = field(default_factory=dict[str, Timing])
    skipped: Mapping[str, str] = field(default_factory=dict[str, str])
    within: tuple["Choice", ...] = ()

    @property
    def times(self) -> dict[str, float]:
        """The measured median of each candidate, or else its estimate; the chosen one first."""
        medians = {name: timing.median for name, timing in self.timings.items()}
        times = {**self.estimates, **medians}
        return {name: times[name] for name in sorted(times, key=lambda name: name != self.chosen)}

    def nested(self) -> "Iterator[Choice]":
        """This choice and all within it, the outer ones first."""
        yield self
        for choice in self.within:
            yield from choice.nested()

    def of(self, question: str) -> "Choice | None":
        """The choice of a question, this one or one within it; None if it was not asked."""
        return next((choice for choice in self.nested() if choice.question == question), None)

    @property
    def schedule(self) -> "ScheduleChoice":
        """The choice of the schedule and mode, this one or one within it."""
        return next(choice for choice in self.nested() if isinstance(choice, ScheduleChoice))

    @property
    def sentence(self) -> str:
        """The candidate that was chosen and the reason, in one line."""
        if self.question != CONTRACTIONS:
            return f"{self.chosen}: {self.source}; {self.reason}"
        ways = [(contraction_text(way), time) for way, time in self.times.items()]
        figures = ", ".join(f"{words} {time / 1e3:.1f} us" for words, time in ways)
        return f"quantised operators contract {ways[0][0]}: {figures}"

    def __str__(self) -> str:
        """The sentences of the choices but for bindings, one a line, the innermost first."""
        outer = [c for c in self.nested() if not c.question.startswith(BINDING)]
        return "\n".join(choice.sentence for choice in reversed(outer))


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleChoice(Choice):
    """The choice of a module's schedule and mode, and what else was measured for it.

    `costs` are the measured times of kernels, `device` describes where they and the candidates ran.
    `pipeline` gives the schedule without a search; `tuning` says what was measured of kernels
    before they were built.
    """

    mode: Mode
    pdl: bool = False
    pipeline: str = ""
    budget_seconds: float = 0.0
    costs: Mapping[str, float] = field(default_factory=dict[str, float])
    device: Mapping[str, Any] | None = None
    search: SearchRecord | None = None
    tuning: TuningRecord | None = None

    @property
    def bindings(self) -> dict[str, str]:
        """How buffers that move between runs are bound, by input or output."""
        return {
            choice.question.removeprefix(BINDING): choice.chosen
            for choice in self.within
            if choice.question.startswith(BINDING)
        }
