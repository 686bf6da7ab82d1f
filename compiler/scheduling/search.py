"""The search for a schedule: the policies' best by the simulator, then improved move by move.

IOS (MLSys 2021) and AutoGraph (AAAI 2023) search with costs, too; here one simulation judges a
whole schedule. All is counted in steps, so the result depends on the arguments alone.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product

import numpy as np

from compiler.errors import PipelineError
from compiler.progress import in_parts
from compiler.scheduling.arrays import Booleans, Integers
from compiler.scheduling.inner_loops import improve, kept_edges, run_time
from compiler.scheduling.outline import awaited_nodes, launched_together
from compiler.scheduling.placement import Groups, Placement, PlacementPolicy, place
from compiler.scheduling.simulator import Simulator

Edges = tuple[Integers, Integers]

STREAM_COUNTS = (4, 8, 16, 32, 2)
"""Streams that policies are tried with, the best guesses first."""

STEP_TASKS = 2_000_000
"""Moves are tried until this many tasks have been simulated, unless `MOST_MOVES` is reached."""

MOST_MOVES = 20_000

START_TASKS = 40_000
"""Policies are tried, the best guesses first, until they have placed this many nodes."""

SEARCH_MARGIN = 0.05
"""The share by which moves must shorten a run to be taken: the simulator's median error.

Smaller gains are noise: schedules that it saw shortened by 1 to 4 % took up to 3 % longer.
"""

SMALL = 24
"""The policies that search themselves, IOS and the exact one, are tried up to this many nodes."""


@dataclass(frozen=True)
class SearchResult:
    """The placement found and how: times are simulated ns of one graph, by policy.

    `moved` is the time after the moves from `start`, of which `kept` shortened the run; where they
    gained too little, `placement` and `makespan` are those of `start`.
    """

    placement: Placement
    makespan: float
    start: PlacementPolicy
    started_at: float
    moved: float
    steps: int
    kept: int
    policies: Mapping[str, float] = field(default_factory=dict[str, float])


class ScheduleSearch:
    """Judges placements of one graph's nodes; see `search`."""

    def __init__(self, groups: Groups, simulator: Simulator):
        latencies = simulator.device.latencies
        self.groups = groups
        self._tasks = simulator.arrays
        self._latencies = (latencies.graph, latencies.gap, latencies.awaited)
        self.before = _rows(groups.dag.predecessors)
        self.after = _rows(groups.dag.successors)

    def makespan(self, placement: Placement) -> float:
        """Simulated ns of one run as one graph, with the waits that `elide-sync` leaves."""
        edges = self.waits(placement)
        return run_time(state_of(placement), edges, self._tasks, self._latencies)

    def waits(self, placement: Placement) -> Integers:
        """The waits that `elide-sync` leaves, as pairs of nodes."""
        incoming = self.before
        if any(stage is not None for stage in placement.stages):
            incoming = _rows(awaited_nodes(self.groups.dag, placement))
        return kept_edges(state_of(placement), incoming)

    def improved(
        self, start: Placement, width: int, steps: int, seed: int
    ) -> tuple[Placement, int]:
        """The placement after `steps` moves on `width` streams, and how many were kept."""
        chances = np.random.default_rng(seed).integers(0, 1 << 40, (steps, 4))
        state = state_of(start)
        accepted = improve(
            chances, width, state, self.before, self.after, self._tasks, self._latencies
        )
        return placement_of(*state), accepted


def search(
    groups: Groups,
    simulator: Simulator,
    steps: int | None = None,
    seed: int = 0,
    margin: float = SEARCH_MARGIN,
) -> SearchResult:
    """The best placement by the simulator: never worse than any of `starts`.

    `steps` is the number of moves tried, by default those of about a fifth of a second; they are
    taken if they shorten the run by the share `margin`.
    """
    judge = ScheduleSearch(groups, simulator)
    tried = dict[PlacementPolicy, tuple[float, Placement]]()
    for policy in in_parts("try policies", starts(len(groups.dag)), lambda policy: policy.name):
        try:
            placed = place(groups, policy)
        except PipelineError:  # a policy refuses what is too large for it
            continue
        tried[policy] = judge.makespan(placed), placed
    start = min(tried, key=lambda policy: tried[policy][0])
    start_time, best = tried[start]
    steps = min(MOST_MOVES, STEP_TASKS // max(len(groups.dag), 1)) if steps is None else steps
    # Moves may use more streams than the start did.
    width = max(STREAM_COUNTS[1], 1 + max((s for s in best.streams if s is not None), default=0))
    placement, accepted = judge.improved(best, width, steps, seed)
    moved = judge.makespan(placement)
    best_time = start_time
    if moved < (1.0 - margin) * start_time:
        best = placement
        best_time = moved
    figures = {policy.name: time for policy, (time, _) in tried.items()}
    return SearchResult(
        placement=best,
        makespan=best_time,
        start=start,
        started_at=start_time,
        moved=moved,
        steps=steps,
        kept=accepted,
        policies=figures,
    )


def starts(count: int) -> list[PlacementPolicy]:
    """The policies that are tried on a graph of `count` nodes, one stream first."""
    limit = max(4, START_TASKS // max(count, 1))
    return [*_starts(count)][:limit]


def _starts(count: int) -> Iterator[PlacementPolicy]:
    yield PlacementPolicy("sequential", 1, order="source")
    for streams in STREAM_COUNTS:
        yield PlacementPolicy("critical-path", streams, order="source")
        yield PlacementPolicy("opara", streams)
    if count <= SMALL:
        yield PlacementPolicy("optimal", 4, order="source")
        yield from (PlacementPolicy("ios", streams, order="source") for streams in STREAM_COUNTS)
    for streams in STREAM_COUNTS:
        yield PlacementPolicy("nimble", streams)
        yield PlacementPolicy("opara", streams, order="opara")
        yield PlacementPolicy("wavefront", streams, order="source")
        yield PlacementPolicy("ppd", streams)
    for size, policy in product((2, 8), ("ppd", "balanced")):
        yield PlacementPolicy("opara", 4, policy, size)
        yield PlacementPolicy("ppd", 4, policy, size)


def _rows(lists: Iterable[Iterable[int]]) -> Edges:
    """Lists one after another, and where each begins."""
    rows = [list(items) for items in lists]
    first = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    return first, np.array([v for row in rows for v in row], np.int64)


def state_of(placement: Placement) -> tuple[Integers, Integers, Booleans]:
    """A placement as fresh arrays, streams numbered without gaps."""
    streams = np.unique(np.array(placement.streams, np.int64), return_inverse=True)[1]
    fused = np.ones(len(placement.order), np.bool_)
    fused[[places.start for places in launched_together(placement)]] = False
    return np.array(placement.order, np.int64), streams.astype(np.int64), fused


def placement_of(order: Integers, streams: Integers, fused: Booleans) -> Placement:
    """The placement of such arrays; streams that have no node are left out."""
    partitions = np.empty(len(order), np.int64)
    partitions[order] = np.cumsum(~fused) - 1
    used = np.unique(streams, return_inverse=True)[1]
    return Placement(
        order=order.tolist(),
        partitions=partitions.tolist(),
        streams=used.tolist(),
        stages=[None] * len(order),
    )
