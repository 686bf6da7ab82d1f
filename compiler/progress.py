"""Events of long work, for listeners that show how far it is; there are none by default."""

from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from threading import Lock
from time import perf_counter
from typing import TypeVar


@dataclass(frozen=True, slots=True)
class PassBegan:
    """A pass of the pipeline begins."""

    name: str


@dataclass(frozen=True, slots=True)
class PassEnded:
    """A pass has ended, after so many seconds with its verification."""

    name: str
    seconds: float


@dataclass(frozen=True, slots=True)
class KernelsBegan:
    """So many kernels will be built; others were in the cache, or in a library."""

    missing: int
    cached: int


@dataclass(frozen=True, slots=True)
class KernelBegan:
    """A kernel's compilation begins; several may be under way at once."""

    name: str


@dataclass(frozen=True, slots=True)
class KernelEnded:
    """A kernel is compiled, after so many seconds."""

    name: str
    seconds: float


@dataclass(frozen=True, slots=True)
class TuningBegan:
    """So many kernels that no database has are measured, for at most so many seconds."""

    kernels: int
    seconds: float


@dataclass(frozen=True, slots=True)
class CandidateMeasured:
    """So many candidates of kernels were measured, of those that were started."""

    done: int
    started: int


@dataclass(frozen=True, slots=True)
class PartsBegan:
    """A step of so many parts begins, of which several may be under way at once.

    The time that is left is estimated by their sizes, of which `size` is the sum (default: 1 for
    each). It may be within a part of another step.
    """

    step: str
    total: int
    size: float | None = None


@dataclass(frozen=True, slots=True)
class PartEnded:
    """A part of a step has ended, after so many seconds."""

    step: str
    name: str
    seconds: float
    size: float = 1.0


@dataclass(frozen=True, slots=True)
class StepEnded:
    """A step of a compilation, such as `kernels`, has ended."""

    name: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Paused:
    """Something is printed or timed: nothing is drawn until the next event."""


@dataclass(frozen=True, slots=True)
class Announcement:
    """Work without parts begins, described in a line."""

    text: str


ProgressEvent = (
    PassBegan
    | PassEnded
    | KernelsBegan
    | KernelBegan
    | KernelEnded
    | TuningBegan
    | CandidateMeasured
    | PartsBegan
    | PartEnded
    | StepEnded
    | Paused
    | Announcement
)
Listener = Callable[[ProgressEvent], None]
"""Takes events, one at a time; they may come from other threads than the caller's."""

StepPart = TypeVar("StepPart")

_LISTENERS: ContextVar[tuple[Listener, ...]] = ContextVar("listeners", default=())
_LOCK = Lock()


@contextmanager
def listening(*listeners: Listener | None) -> Generator[None, None, None]:
    """Let listeners hear of the work in the block, besides those that do already."""
    added = tuple(listener for listener in listeners if listener is not None)
    token = _LISTENERS.set((*_LISTENERS.get(), *added))
    try:
        yield
    finally:
        _LISTENERS.reset(token)


def notify(event: ProgressEvent) -> None:
    """Pass an event to every listener."""
    if listeners := _LISTENERS.get():
        with _LOCK:
            for listener in listeners:
                listener(event)


@contextmanager
def kernel_progress(name: str) -> Generator[None, None, None]:
    """Events around the compilation of a kernel; none at the end if it fails."""
    start = perf_counter()
    notify(KernelBegan(name))
    yield
    notify(KernelEnded(name, perf_counter() - start))


@contextmanager
def step_progress(name: str) -> Generator[None, None, None]:
    """An event after a step; none if it fails."""
    start = perf_counter()
    yield
    notify(StepEnded(name, perf_counter() - start))


def in_parts(
    step: str,
    items: Collection[StepPart],
    name: Callable[[StepPart], str] = lambda item: "",
    size: Callable[[StepPart], float] = lambda item: 1.0,
) -> Iterator[StepPart]:
    """Each item of a step in turn, with an event when the work on it has ended."""
    notify(PartsBegan(step, len(items), sum(map(size, items))))
    for item in items:
        start = perf_counter()
        yield item
        notify(PartEnded(step, name(item), perf_counter() - start, size(item)))


class StepClock:
    """The seconds of the steps of a compilation, in order."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = perf_counter()

    def lap(self, step: str) -> None:
        """A step has ended, and the next one begins."""
        end = perf_counter()
        self.seconds[step] = end - self._last
        notify(StepEnded(step, self.seconds[step]))
        self._last = end
