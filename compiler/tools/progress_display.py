"""How long commands show what they do: a bar on a terminal, plain lines elsewhere, on stderr."""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import IO, Any, cast

from compiler.progress import (
    Announcement,
    CandidateMeasured,
    KernelBegan,
    KernelEnded,
    KernelsBegan,
    PartEnded,
    PartsBegan,
    PassBegan,
    PassEnded,
    ProgressEvent,
    StepEnded,
    TuningBegan,
    listening,
)

QUIET_SECONDS = 1.0
"""Plain lines are at least this far apart, and the first comes after so long."""

SLOWEST = 8
"""The passes and kernels that `--timing` names."""


def add_quiet(parser: ArgumentParser) -> None:
    """The option `--quiet`, by which a command that shows progress does not."""
    parser.add_argument("-q", "--quiet", action="store_true", help="show no progress")


def add_json(parser: ArgumentParser) -> None:
    """The option `--json`, by which a command's result can be read by programs."""
    parser.add_argument("--json", action="store_true", help="print one JSON object")


@dataclass
class KernelCounter:
    """The kernels of a compilation, or a step's parts, that are done and under way."""

    total: int = 0
    done: int = 0
    started: float = 0.0
    tuned_until: float | None = None
    running: dict[str, float] = field(default_factory=dict[str, float])
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    passes: dict[str, float] = field(default_factory=dict[str, float])

    def take(self, event: ProgressEvent, now: float) -> None:
        """Count an event at a time."""
        match event:
            case KernelsBegan():
                self.total, self.done, self.started = event.missing, 0, now
                self.tuned_until = None
                self.running.clear()
            case TuningBegan():
                self.tuned_until = now + event.seconds
            case KernelBegan():
                self.running[event.name] = now
            case KernelEnded():
                self.done += 1
                self.running.pop(event.name, None)
                self.seconds[event.name] = event.seconds
            case PassEnded():
                self.passes[event.name] = self.passes.get(event.name, 0.0) + event.seconds
            case PartsBegan():
                self.total, self.done, self.started = event.total, 0, now
            case PartEnded():
                self.done += 1
            case _:
                pass

    @property
    def oldest(self) -> str:
        """The kernel that has been under way for the longest time, or nothing."""
        return min(self.running, key=lambda name: self.running[name], default="")

    def left(self, now: float) -> float | None:
        """The estimated seconds left, after the first kernel or part, or while some are tuned."""
        if self.tuned_until is not None:
            return max(0.0, self.tuned_until - now)
        if not self.done:
            return None
        return (now - self.started) / self.done * (self.total - self.done)

    def slowest(self) -> list[tuple[str, float]]:
        """The passes and kernels that took longest, in seconds, the slowest first.

        A pass that ran on several graphs counts with all of its time.
        """
        named = [(f"pass {name}", seconds) for name, seconds in self.passes.items()]
        named += [(f"kernel {name}", seconds) for name, seconds in self.seconds.items()]
        return sorted(named, key=lambda item: -item[1])[:SLOWEST]


def ended_part(event: PartEnded, counter: KernelCounter) -> str:
    """The step, how many of its parts are done, and the one that ended last."""
    return f"{event.step} {counter.done} of {counter.total}: {event.name}"


class PlainDisplay:
    """Lines of text, not more than one a second."""

    def __init__(self, counter: KernelCounter, stream: IO[str], clock: Callable[[], float]):
        self._counter, self._stream, self._clock = counter, stream, clock
        self._last = clock()

    def show(self, event: ProgressEvent) -> None:
        """Print a line where one is due."""
        now, counter = self._clock(), self._counter
        match event:
            case KernelEnded() if now - self._last >= QUIET_SECONDS:
                left = counter.left(now) or 0.0
                slow = f"; at work on {counter.oldest}" if counter.oldest else ""
                self._line(
                    f"kernel {counter.done} of {counter.total}: {event.name},"
                    f" {event.seconds:.1f} s; about {left:.0f} s left{slow}"
                )
            case PartEnded() if now - self._last >= QUIET_SECONDS:
                left = counter.left(now) or 0.0
                self._line(
                    f"{ended_part(event, counter)}, {event.seconds:.1f} s; about {left:.0f} s left"
                )
            case PassEnded() | StepEnded() if event.seconds >= QUIET_SECONDS:
                kind = "pass" if isinstance(event, PassEnded) else "step"
                self._line(f"{kind} {event.name}: {event.seconds:.1f} s")
            case Announcement():
                self._line(event.text)
            case TuningBegan():
                self._line(tuning_text(event))
            case _:
                pass

    def _line(self, text: str) -> None:
        self._last = self._clock()
        print(f"flowloom: {text}", file=self._stream, flush=True)

    def stop(self) -> None:
        """Nothing is left to remove."""


class TerminalDisplay:
    """A bar by rich, which is gone when the work has ended."""

    def __init__(self, counter: KernelCounter, stream: IO[str], clock: Callable[[], float]):
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn

        self._counter, self._clock = counter, clock
        columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False))
        counts = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[left]}"))
        console = Console(file=stream, stderr=stream is sys.stderr)
        self._bar = Progress(
            *columns,
            *counts,
            console=console,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._task = self._bar.add_task("", total=None, left="")
        self._live = False

    def show(self, event: ProgressEvent) -> None:
        """Bring the bar up to date; it is removed where commands print."""
        counter = self._counter
        match event:
            case PassBegan():
                self._update(f"pass {event.name}", None, 0)
            case KernelsBegan() if event.missing:
                self._update("kernels", event.missing, 0)
            case KernelBegan() | KernelEnded():
                number = min(counter.done + 1, counter.total)
                text = f"kernel {number} of {counter.total}: {counter.oldest}"
                self._update(text, counter.total, counter.done)
            case PartsBegan():
                self._update(event.step, event.total, 0)
            case PartEnded():
                self._update(ended_part(event, counter), counter.total, counter.done)
            case Announcement():
                self._update(event.text, None, 0)
            case TuningBegan():
                self._update(tuning_text(event), None, 0)
            case CandidateMeasured():
                self._update("measuring candidates of kernels", event.started, event.done)
            case StepEnded():
                self.stop()
            case _:
                pass

    def _update(self, text: str, total: int | None, done: int) -> None:
        left = self._counter.left(self._clock()) if total else None
        words = "" if left is None else f"about {left:.0f} s left"
        update = cast(Any, self._bar.update)
        update(self._task, description=text, total=total, completed=done, left=words)
        if not self._live:
            self._bar.start()
            self._live = True

    def stop(self) -> None:
        """Remove the bar."""
        if self._live:
            self._bar.stop()
            self._live = False


def tuning_text(event: TuningBegan) -> str:
    """The kernels that are measured, and how long."""
    return (
        f"measuring {event.kernels} kernels that no database has, for at most {event.seconds:.1f} s"
    )


@contextmanager
def shown_progress(options: Namespace) -> Generator[None, None, None]:
    """Show the work of a command that has `--quiet`, unless it is given; `--timing` at the end."""
    if not hasattr(options, "quiet"):
        yield
        return
    counter = KernelCounter()
    kind = TerminalDisplay if sys.stderr.isatty() else PlainDisplay
    display = None if options.quiet else kind(counter, sys.stderr, monotonic)

    def listen(event: ProgressEvent) -> None:
        counter.take(event, monotonic())
        if display is not None:
            display.show(event)

    options.kernel_seconds = counter.seconds
    try:
        with listening(listen):
            yield
    finally:
        if display is not None:
            display.stop()
    if getattr(options, "timing", False):
        for name, seconds in counter.slowest():
            print(f"{seconds:9.3f} s  {name}", file=sys.stderr)
