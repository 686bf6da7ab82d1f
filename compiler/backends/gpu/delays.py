"""Random delays before random tasks: a test of the edges, which must hold at any speed."""

import random
from dataclasses import dataclass, field

from compiler.backends.gpu.driver import Driver, PreparedLaunch

SHARE = 0.3
"""The fraction of the tasks that are delayed."""

LONGEST = 40_000
"""Nanoseconds: longer than most kernels run, so that independent tasks overtake."""


@dataclass(slots=True)
class Delays:
    """Launches that only take time, drawn from `seed`; None adds no delays."""

    driver: Driver
    seed: int | None
    _calls: dict[int, PreparedLaunch | None] = field(
        default_factory=dict[int, PreparedLaunch | None]
    )

    def before(self, task: int) -> PreparedLaunch | None:
        """The launch that delays a task, if any."""
        if self.seed is None:
            return None
        if task not in self._calls:
            chance = random.Random(f"{self.seed} {task}")
            late = chance.random() < SHARE
            self._calls[task] = self.driver.spin(chance.randrange(LONGEST)) if late else None
        return self._calls[task]
