"""How much of a model the database of measured choices covers."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compiler.autotune.kernels.prepare import groups_of
from compiler.kernels.gpu.choices import choices_of, standing_of
from compiler.kernels.gpu.recorded import Standing
from compiler.target.target import parse_gpu


@dataclass(frozen=True)
class Coverage:
    """How many of a model's kernels with a choice have each standing, and their estimated times."""

    counts: Mapping[Standing, int]
    times: Mapping[Standing, float]

    def __str__(self) -> str:
        total, time = sum(self.counts.values()), sum(self.times.values())
        tuned = self.counts.get(Standing.TUNED, 0)
        part = 100 * self.times.get(Standing.TUNED, 0.0) / time if time else 100.0
        others = [
            f"{self.counts[each]} {each.value}"
            for each in Standing
            if each is not Standing.TUNED and self.counts.get(each)
        ]
        rest = f"; {', '.join(others)}" if others else ""
        return f"{tuned} of {total} kernels tuned, {part:.0f} % of their time{rest}"


def coverage(
    model: Any, target: str, device: str, input_shapes: Mapping[str, Sequence[int]] | None = None
) -> Coverage:
    """What the database holds for the kernels of a model on a device.

    A kernel that several groups of the model need counts once, its time as often as it runs.
    """
    machine = parse_gpu(target)
    standings: dict[str, Standing] = {}
    times = dict.fromkeys(Standing, 0.0)
    for group, uses in groups_of(model, machine, input_shapes):
        for choices in choices_of(group, machine, 2):
            if len(choices.options) > 1:
                found = standing_of(choices, machine, device)
                standings[choices.key] = found
                times[found] += choices.options[0].estimate * uses
    return Coverage(Counter(standings.values()), times)
