"""The faster of several alternatives: the baseline, unless another is surely faster.

After PyGraph (2025): what should be faster is not always, so it is measured, and the choice is
never slower than the baseline, which is one of the alternatives.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Generic, Protocol, TypeVar

from compiler.schedule.choices import Choice, ChoiceSource, Timing

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)


@dataclass(frozen=True)
class Alternatives(Generic[T]):
    """The ways to answer a question, by name; the first is the baseline."""

    question: str
    ways: Mapping[str, T]

    @property
    def baseline(self) -> str:
        """The name of the way that is kept unless another is surely faster."""
        return next(iter(self.ways))


class Judge(Protocol[T_contra]):
    """Knows the times of alternatives, or can find them."""

    source: ClassVar[ChoiceSource]
    """Whether the times are measured."""

    def times(self, ways: Mapping[str, T_contra]) -> Mapping[str, Timing | str]:
        """The time of each way, or why it was not timed.

        The first way, the baseline, always has a time: what prevents it from running is raised.
        """
        ...


def surely_faster(way: Timing, reference: Timing) -> bool:
    """Whether a way takes less time than another beyond doubt.

    The upper end of its 95 % interval must not be above the other's median, and its own median must
    be below, so that of two ways with exactly the same time neither is faster.
    """
    return way.high <= reference.median and way.median < reference.median


def choose(alternatives: Alternatives[T], judge: Judge[T]) -> Choice:
    """Let a judge time the alternatives, and choose; the record of that.

    Of those that are surely faster than the baseline the least median is chosen, of equal ones the
    first; without any, the baseline.
    """
    times = judge.times(alternatives.ways)
    baseline = alternatives.baseline
    timings = {name: time for name, time in times.items() if isinstance(time, Timing)}
    faster = [name for name in timings if surely_faster(timings[name], timings[baseline])]
    chosen = min(faster, key=lambda name: timings[name].median, default=baseline)
    if chosen == baseline:
        reason = f"no candidate was surely faster than {baseline}"
    else:
        reason = f"the fastest of those that are surely faster than {baseline}"
    measured = judge.source == "measured"
    return Choice(
        question=alternatives.question,
        chosen=chosen,
        baseline=baseline,
        source=judge.source,
        reason=reason,
        estimates={} if measured else {name: timing.median for name, timing in timings.items()},
        timings=timings if measured else {},
        skipped={name: time for name, time in times.items() if isinstance(time, str)},
    )
