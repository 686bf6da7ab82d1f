"""The displays of work on standard error: a bar on a terminal, plain lines elsewhere."""

import sys
from collections.abc import Callable, Iterator
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
    Paused,
    ProgressEvent,
    StepEnded,
    TuningBegan,
)
from compiler.tools.progress.counter import KERNEL_STEP, WorkCounter

FULL_WIDTH = 70
"""Columns of a terminal that has room for a bar; one of half has room for the count."""

QUIET_SECONDS = 1.0
"""Plain lines are at least this far apart, and the first comes after so long."""


def ended_part(event: PartEnded, counter: WorkCounter) -> str:
    """The step, how many of its parts are done, and the one that ended last."""
    step = counter.of(event.step)
    return f"{event.step} {step.done} of {step.total}" + (f": {event.name}" if event.name else "")


class PlainDisplay:
    """Lines of text, not more than one a second."""

    def __init__(self, counter: WorkCounter, stream: IO[str], clock: Callable[[], float]):
        self._counter = counter
        self._stream = stream
        self._clock = clock
        self._last = clock()

    def show(self, event: ProgressEvent) -> None:
        """Print a line where one is due."""
        time = self._clock()
        counter = self._counter
        match event:
            case KernelEnded() if time - self._last >= QUIET_SECONDS:
                eta = counter.left(time) or 0.0
                kernels = counter.of(KERNEL_STEP)
                slow = f"; at work on {counter.oldest}" if counter.oldest else ""
                self._line(
                    f"kernel {kernels.done} of {kernels.total}: {event.name},"
                    f" {event.seconds:.1f} s; about {eta:.0f} s left{slow}"
                )
            case PartEnded() if time - self._last >= QUIET_SECONDS:
                eta = counter.left(time) or 0.0
                self._line(
                    f"{ended_part(event, counter)}, {event.seconds:.1f} s; about {eta:.0f} s left"
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

    def __init__(self, counter: WorkCounter, stream: IO[str], clock: Callable[[], float]):
        from rich.console import Console
        from rich.progress import Progress

        self._counter = counter
        self._clock = clock
        console = Console(file=stream, stderr=stream is sys.stderr)
        self._bar = Progress(
            *_columns(console.width),
            expand=True,
            console=console,
            transient=True,
            # commands remove the bar before they print, so output needs no detour
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
                kernels = counter.of(KERNEL_STEP)
                number = min(kernels.done + 1, kernels.total)
                text = f"kernel {number} of {kernels.total}: {counter.oldest}"
                self._update(text, kernels.total, kernels.done)
            case PartsBegan():
                self._update(event.step, event.total, 0)
            case PartEnded():
                step = counter.of(event.step)
                self._update(ended_part(event, counter), step.total, step.done)
            case Announcement():
                self._update(event.text, None, 0)
            case TuningBegan():
                self._update(tuning_text(event), None, 0)
            case CandidateMeasured():
                self._update("measuring candidates of kernels", event.started, event.done)
            case StepEnded() | Paused():
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


def _columns(width: int) -> Iterator[Any]:
    """The columns that a terminal has room for: the text yields to the count and the time left."""
    from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn
    from rich.table import Column

    text = Column(no_wrap=True, overflow="ellipsis", ratio=1)
    yield SpinnerColumn()
    yield TextColumn("{task.description}", markup=False, table_column=text)
    if width >= FULL_WIDTH:
        yield BarColumn(bar_width=width // 4)
    if width >= FULL_WIDTH // 2:
        yield MofNCompleteColumn(table_column=Column(no_wrap=True))
    yield TextColumn("{task.fields[left]}", table_column=Column(no_wrap=True))


def tuning_text(event: TuningBegan) -> str:
    """The kernels that are measured, and how long."""
    return (
        f"measuring {event.kernels} kernels that no database has, for at most {event.seconds:.1f} s"
    )
