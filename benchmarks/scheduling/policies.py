"""The schedules that compete, as options of the schedule passes."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Policy:
    """Options of the three passes that decide a schedule; partitions of one group are none."""

    streams: str
    count: int
    partition: str = "none"
    max_nodes: int = 1
    order: str = "critical-path"

    def pipeline(self) -> str:
        """The schedule passes: three that decide, two that lower, two that tidy up."""
        return (
            f"partition-graph{{policy={self.partition} max-nodes={self.max_nodes}}},"
            f"assign-streams{{policy={self.streams} streams={self.count}}},"
            f"order-launches{{policy={self.order}}},"
            "lower-to-taskflow,insert-sync,elide-sync,plan-memory{reuse=concurrent}"
        )


AUTO = "auto"
"""The schedule that is searched for by the simulator: the default on a GPU."""

POLICIES = {
    "sequential": Policy("sequential", 1),
    "ppd, 4": Policy("ppd", 4, "ppd", 8),
    "ppd, 4, no partition": Policy("ppd", 4),
    "opara": Policy("opara", 0, order="opara"),
    "opara, by path": Policy("opara", 0),
    "opara, 16": Policy("opara", 16),
    "opara, 8": Policy("opara", 8),
    "opara, 4": Policy("opara", 4),
    "opara, 4, ppd parts": Policy("opara", 4, "ppd", 4),
    "opara, 4, balanced": Policy("opara", 4, "balanced", 4),
    "nimble": Policy("nimble", 0),
    "nimble, 8": Policy("nimble", 8),
    "wavefront, 8": Policy("wavefront", 8, order="source"),
    "ios, 8": Policy("ios", 8, order="source"),
    "critical-path, 4": Policy("critical-path", 4, order="source"),
    "critical-path, 8": Policy("critical-path", 8, order="source"),
    "critical-path, 16": Policy("critical-path", 16, order="source"),
    "optimal, 4": Policy("optimal", 4, order="source"),
}
"""Streams of 0 are as many as the policy wants; policies that order nodes keep their order."""

TABLE_4 = {
    f"table 4: {count} streams, {name}": Policy("ppd", count, *partition)
    for count in (1, 2, 4, 8, 16)
    for name, partition in {"no parts": ("none", 1), "parts of 8": ("ppd", 8)}.items()
}
"""PPD's Table 4: the number of streams, with and without partitions."""

PART_SIZES = {
    f"parts of {size}": Policy("ppd", 4, "ppd", size) for size in (1, 2, 4, 8, 16, 32, 64)
}
"""The size of partitions on four streams."""


def own_policies(functions: Sequence[str], streams: int) -> dict[str, Policy]:
    """Stream policies of users' files, each given as `FILE.py:FUNCTION`, by their row's name."""
    return {
        f"{function.rpartition(':')[2]}, {streams}": Policy(f'"{function}"', streams)
        for function in functions
    }


def policies(ablations: bool) -> dict[str, Policy]:
    """Every schedule to be compared, by name."""
    return {**POLICIES, **(TABLE_4 | PART_SIZES if ablations else {})}
