"""The last choice among a kernel's best few, made where its neighbours share the device.

Coordinate descent: one kernel after the other, by their share of the time, takes the alternative
with which the whole model is fastest, if that is beyond noise.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from compiler.choice.alternatives import Alternatives, choose, surely_faster
from compiler.choice.judges import RecordedJudge
from compiler.kernels.database.fields import Config
from compiler.schedule.choices import Timing

Configs = Mapping[str, Config]
"""The values of each kernel, by key."""

Compare = Callable[[Sequence[Configs]], list[Timing]]
"""Times some choices in alternation, so that drift affects all alike."""


@dataclass(frozen=True)
class KernelOptions:
    """A kernel, the nanoseconds of a run that it takes, and its best options, as built first."""

    key: str
    time: float
    options: tuple[Config, ...]


@dataclass(frozen=True)
class Improvement:
    """An alternative that was taken: both times in nanoseconds."""

    key: str
    values: Config
    before: float
    after: float

    @property
    def gain(self) -> float:
        """The part of a model's time that it saves."""
        return 1 - self.after / self.before


@dataclass(frozen=True)
class Descent:
    """The choice for each kernel, the steps that led there, and the model's time at both ends.

    Without steps, or where the end is not surely faster than the start, the choice is the first.
    """

    choice: Configs
    steps: tuple[Improvement, ...]
    start: Timing
    end: Timing
    compared: int


def descend(
    subjects: Sequence[KernelOptions],
    compare: Compare,
    expired: Callable[[], bool],
    rounds: int = 2,
) -> Descent:
    """Improve a model's time kernel by kernel until a round changes nothing or time is over.

    `compare` is asked for the current choice and its alternatives together; `expired` ends it.
    """
    first = {subject.key: subject.options[0] for subject in subjects}
    choice = dict(first)
    steps = list[Improvement]()
    compared = 0
    ordered = sorted(subjects, key=lambda subject: (-subject.time, subject.key))
    for _ in range(rounds):
        steps_before = len(steps)
        for subject in ordered:
            if expired():
                break
            compared += 1
            step = _improve(choice, subject, compare)
            if step is not None:
                choice[subject.key] = step.values
                steps.append(step)
        if len(steps) == steps_before or expired():
            break
    start, end = compare([first, choice])
    if steps and not surely_faster(end, start):
        return Descent(first, (), start, start, compared)
    # a later round may have changed a kernel again: of its steps only the last one counts
    lasting = tuple(step for step in steps if choice[step.key] == step.values)
    return Descent(choice, lasting, start, end, compared)


def _improve(
    choice: dict[str, Config], subject: KernelOptions, compare: Compare
) -> Improvement | None:
    """The best alternative of one kernel, if the model is surely faster with it."""
    current = choice[subject.key]
    options = [values for values in subject.options if values != current]
    timing, *timings = compare([choice, *({**choice, subject.key: values} for values in options)])
    ways = {str(number): values for number, values in enumerate([current, *options])}
    times = dict(zip(ways, [timing, *timings], strict=True))
    step = choose(Alternatives(f"config of {subject.key}", ways), RecordedJudge(times))
    if step.chosen == step.baseline:
        return None
    return Improvement(subject.key, ways[step.chosen], timing.median, times[step.chosen].median)
