"""Samples of contenders that take turns, and their medians."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import quantiles

ROUNDS = 5
"""Turns that each contender gets; drift of clocks and temperature hits all alike."""

WARM_UP = 10
"""Runs of each contender before its first sample of all."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Median and quartiles of samples, all in microseconds, and how many there are."""

    median: float
    low: float
    high: float
    count: int

    def as_json(self) -> dict[str, float]:
        """Plain data."""
        return asdict(self)


def spread(samples: Sequence[float]) -> Spread:
    """The quartiles of at least two samples."""
    low, middle, high = quantiles(samples, n=4, method="inclusive")
    return Spread(round(middle, 3), round(low, 3), round(high, 3), len(samples))


def take_turns(
    clocks: Mapping[str, Mapping[str, Callable[[], float]]],
    samples: int,
    failed: Callable[[str, Exception], None],
) -> dict[str, dict[str, Spread]]:
    """Time contenders in turn; `clocks` hold, by contender and method, one run's microseconds.

    A contender that raises is handed to `failed` and gets no figures; the others go on.
    """
    taken: dict[str, dict[str, list[float]]] = {
        name: {method: [] for method in methods} for name, methods in clocks.items()
    }
    share = max(1, -(-samples // ROUNDS))
    for turn in range(ROUNDS):
        for name in list(taken):
            try:
                _one_turn(clocks[name], taken[name], WARM_UP if turn == 0 else 1, share)
            except Exception as error:
                del taken[name]
                failed(name, error)
    return {
        name: {method: spread(values) for method, values in methods.items()}
        for name, methods in taken.items()
    }


def _one_turn(
    clocks: Mapping[str, Callable[[], float]],
    taken: Mapping[str, list[float]],
    warm_up: int,
    count: int,
) -> None:
    for method, clock in clocks.items():
        for _ in range(warm_up):
            clock()
        taken[method].extend(clock() for _ in range(count))
