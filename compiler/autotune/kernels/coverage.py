"""How much of a model the database of measured choices covers."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compiler.autotune.kernels.prepare import groups_of
from compiler.kernels.building.select import Provenance, measurable
from compiler.target.target import parse_gpu


@dataclass(frozen=True)
class Coverage:
    """How many of a model's kernels have each provenance, and their estimated times."""

    counts: Mapping[Provenance, int]
    times: Mapping[Provenance, float]

    def __str__(self) -> str:
        total = sum(self.counts.values())
        time = sum(self.times.values())
        tuned = self.counts.get(Provenance.TUNED, 0)
        share = 100 * self.times.get(Provenance.TUNED, 0.0) / time if time else 100.0
        untuned = [
            f"{self.counts[origin]} {origin.value}"
            for origin in Provenance
            if origin is not Provenance.TUNED and self.counts.get(origin)
        ]
        suffix = f"; {', '.join(untuned)}" if untuned else ""
        return f"{tuned} of {total} kernels tuned, {share:.0f} % of their time{suffix}"


def coverage(
    model: Any, target: str, device: str, input_shapes: Mapping[str, Sequence[int]] | None = None
) -> Coverage:
    """The coverage by the database on a device of the kernels of all graphs that are compared.

    A kernel that several groups need counts once, its time as often as it runs in all graphs.
    """
    machine = parse_gpu(target)
    origins: dict[str, Provenance] = {}
    times = dict.fromkeys(Provenance, 0.0)
    for group, uses in groups_of(model, machine, input_shapes):
        for match in measurable(group, machine):
            configs = match.shortlist(2)
            if len(configs) > 1:
                origin = match.provenance(device)
                origins[match.key] = origin
                times[origin] += match.estimate_ns(configs[0]) * uses
    return Coverage(Counter(origins.values()), times)
