"""A bench without a device: candidates with known times, a clock that only work moves."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf

from hypothesis import strategies as st

from compiler.autotune.kernels.plan import TuningSubject
from compiler.choice.timing import Timing
from compiler.kernels.database.fields import Config

MEASURE_S, COMPARE_S = 0.01, 0.02


@dataclass
class SimulatedBench:
    """Candidates compile for `compile_s` seconds on `width` cores; infinity is one that fails.

    What is measured is the true time, times the `noise` of that candidate.
    """

    truth: dict[str, dict[Config, float]]
    width: int = 2
    compile_s: float = 0.1
    noise: dict[Config, float] = field(default_factory=dict[Config, float])
    now: float = 0.0
    started: list[tuple[str, Config]] = field(default_factory=list[tuple[str, Config]])
    running: list[tuple[float, str, Config]] = field(
        default_factory=list[tuple[float, str, Config]]
    )
    waits: list[float] = field(default_factory=list[float])

    def clock(self) -> float:
        return self.now

    def start(self, key: str, config: Config) -> None:
        self.started.append((key, config))
        self.running.append((self.now + self.compile_s, key, config))

    def finished(self, seconds: float) -> tuple[str, Config, float] | None:
        assert seconds > 0, "it is asked for more when time is over"
        ready, key, config = min(self.running)
        if ready > self.now + seconds:
            self.now += seconds
            return None
        self.running.remove((ready, key, config))
        self.now = max(self.now, ready) + MEASURE_S
        return key, config, self.truth[key][config] * self.noise.get(config, 1.0)

    def compared(self, key: str, configs: Sequence[Config]) -> list[Timing]:
        self.now += COMPARE_S
        times = [self.truth[key][config] for config in configs]
        return [] if inf in times else [Timing(t, 0.999 * t, 1.001 * t, 25) for t in times]


def config(*numbers: int) -> Config:
    """A config of some fields."""
    return tuple(zip("abcdef", numbers, strict=False))


def subject(key: str, uses: int, *estimates: float) -> TuningSubject:
    """A kernel with as many candidates as estimates."""
    configs = tuple(config(number, number // 2) for number in range(len(estimates)))
    return TuningSubject(key, uses, configs, estimates)


@st.composite
def subjects(draw: st.DrawFn) -> list[TuningSubject]:
    """Some kernels with several candidates."""
    estimate = st.floats(100.0, 1e6)
    return [
        subject(
            f"k{number}",
            draw(st.integers(1, 30)),
            *draw(st.lists(estimate, min_size=2, max_size=9)),
        )
        for number in range(draw(st.integers(1, 6)))
    ]


@st.composite
def benches(draw: st.DrawFn, given: Sequence[TuningSubject], noise: float = 0.0) -> SimulatedBench:
    """A bench on which the candidates of kernels take any time, or fail; a first one never does."""
    truth: dict[str, dict[Config, float]] = {}
    times = st.one_of(st.floats(100.0, 1e6), st.just(inf))
    for own in given:
        first, *others = own.configs
        truth[own.key] = {c: draw(times) for c in others} | {first: draw(st.floats(100.0, 1e6))}
    off = st.floats(1 - noise, 1 + noise)
    every = {c for own in given for c in own.configs}
    return SimulatedBench(
        truth,
        width=draw(st.integers(1, 6)),
        compile_s=draw(st.floats(0.0, 1.0)),
        noise={c: draw(off) for c in sorted(every)} if noise else {},
    )
