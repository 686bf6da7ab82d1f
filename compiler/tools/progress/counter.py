"""A command's work that is done and under way, and how long the rest will take."""

from dataclasses import dataclass, field

from compiler.progress import (
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
)

SLOWEST = 8
"""The passes and kernels that `--timing` names."""

KERNEL_STEP = "kernels"
"""The step whose parts are kernels."""


@dataclass
class StepParts:
    """The parts of a step: how many there are and are done, and their sizes."""

    step: str
    total: int
    size: float
    started: float
    done: int = 0
    size_done: float = 0.0

    def end(self, size: float) -> None:
        """Count a part that is done."""
        self.done += 1
        self.size_done += size

    def left(self, time: float) -> float | None:
        """The estimated seconds left; None before the first part is done."""
        if not self.size_done:
            return None
        return (time - self.started) / self.size_done * max(0.0, self.size - self.size_done)


@dataclass
class WorkCounter:
    """Counts a command's events; `steps`, `kernels` and `passes` have the seconds of each.

    `levels` are the steps in parts that are under way, each within a part of the one before.
    """

    levels: list[StepParts] = field(default_factory=list[StepParts])
    running: dict[str, float] = field(default_factory=dict[str, float])
    steps: dict[str, float] = field(default_factory=dict[str, float])
    kernels: dict[str, float] = field(default_factory=dict[str, float])
    passes: dict[str, float] = field(default_factory=dict[str, float])
    _tuned_until: float | None = None
    _outside_pass: int = 0

    def take(self, event: ProgressEvent, time: float) -> None:
        """Count an event at a time."""
        match event:
            case KernelsBegan():
                self._begin(StepParts(KERNEL_STEP, event.missing, event.missing, time))
                self._tuned_until = None
                self.running.clear()
            case TuningBegan():
                self._tuned_until = time + event.seconds
            case KernelBegan():
                self.running[event.name] = time
            case KernelEnded():
                self._end(KERNEL_STEP, 1.0)
                self.running.pop(event.name, None)
                self.kernels[event.name] = event.seconds
            case PassBegan():
                self._outside_pass = len(self.levels)
            case PassEnded():
                del self.levels[self._outside_pass :]
                self.passes[event.name] = self.passes.get(event.name, 0.0) + event.seconds
            case PartsBegan():
                size = event.total if event.size is None else event.size
                self._begin(StepParts(event.step, event.total, size, time))
            case PartEnded():
                self._end(event.step, event.size)
            case StepEnded():
                self._leave(event.name)
                self.steps[event.name] = self.steps.get(event.name, 0.0) + event.seconds
            case _:
                pass

    def _begin(self, level: StepParts) -> None:
        self._leave(level.step)
        self.levels.append(level)

    def _leave(self, step: str) -> None:
        """Forget a step, and those within it."""
        for depth, level in enumerate(self.levels):
            if level.step == step:
                del self.levels[depth:]
                return

    def _end(self, step: str, size: float) -> None:
        """Count a part of a step, and forget the steps within it."""
        for depth, level in enumerate(self.levels):
            if level.step == step:
                level.end(size)
                del self.levels[depth + 1 :]
                return

    def of(self, step: str) -> StepParts:
        """A step that is under way; without parts if it is not."""
        return next((p for p in self.levels if p.step == step), StepParts(step, 0, 0.0, 0.0))

    @property
    def oldest(self) -> str:
        """The kernel that has been under way for the longest time, or nothing."""
        return min(self.running, key=lambda name: self.running[name], default="")

    def left(self, time: float) -> float | None:
        """The estimated seconds left of the innermost step; for tuning, its limit."""
        if self._tuned_until is not None:
            return max(0.0, self._tuned_until - time)
        return self.levels[-1].left(time) if self.levels else None

    def slowest(self) -> list[tuple[str, float]]:
        """The passes and kernels that took longest, in seconds, the slowest first.

        A pass that ran on several graphs counts with all of its time.
        """
        named = [(f"pass {name}", seconds) for name, seconds in self.passes.items()]
        named += [(f"kernel {name}", seconds) for name, seconds in self.kernels.items()]
        return sorted(named, key=lambda item: -item[1])[:SLOWEST]
