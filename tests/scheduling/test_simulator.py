"""Simulated runs against a slow reference, and against what every run must satisfy."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from random import Random
from time import perf_counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.scheduling.bounds import lower_bound
from compiler.scheduling.simulator import Simulator, TaskDemand, execution, resource_demand
from compiler.target.devices import H200, NONE, DeviceModel

FREE = replace(H200, latencies=NONE)
Edges = list[tuple[int, int]]


@dataclass(frozen=True)
class Plan:
    """Tasks and one schedule of them."""

    works: list[TaskDemand]
    streams: list[int]
    edges: Edges
    order: list[int]

    @property
    def count(self) -> int:
        return len(self.works)

    def foreign(self, task: int) -> int:
        """For how many tasks on other streams a task waits."""
        return sum(v == task and self.streams[u] != self.streams[v] for u, v in self.edges)

    def waits(self) -> Edges:
        """Every edge, those between neighbours on a stream too."""
        following: Edges = []
        for stream in set(self.streams):
            tasks = [task for task in self.order if self.streams[task] == stream]
            following += pairwise(tasks)
        return self.edges + following

    def times(self, device: DeviceModel = H200) -> tuple[list[float], list[float]]:
        """Simulated starts and ends."""
        found = Simulator(self.works, device).times(self.streams, self.order, self.edges)
        return found[0].tolist(), found[1].tolist()

    def makespan(self, device: DeviceModel = H200) -> float:
        return Simulator(self.works, device).makespan(self.streams, self.order, self.edges)


@st.composite
def plans(draw: st.DrawFn, largest: int = 600, tasks: int = 12) -> Plan:
    """A random schedule; blocks of up to `largest` decide how much the tasks are in each
    other's way."""
    chance = Random(draw(st.integers(0, 10**6)))
    count, streams = draw(st.integers(1, tasks)), draw(st.integers(1, 5))
    works = [
        TaskDemand(
            float(chance.randint(100, 9000)),
            chance.randint(1, largest),
            chance.choice([64, 128, 256, 1024]),
            chance.choice([0, 32, 128]),
            chance.choice([0, 8 << 10, 100 << 10]),
            float(chance.choice([0, 10**4, 10**7])),
        )
        for _ in range(count)
    ]
    edges = [(u, v) for v in range(count) for u in range(v) if chance.random() < 0.2]
    order = list(range(count))
    return Plan(works, [chance.randrange(streams) for _ in range(count)], edges, order)


def shares(running: Sequence[int], demands: Sequence[tuple[float, ...]]) -> dict[int, float]:
    """The speed of each running task, oldest first: the definition, spelled out."""
    granted, free = dict[int, float](), 1.0
    for task in running:
        granted[task] = min(1.0, max(0.0, free) / demands[task][0])
        free -= demands[task][0]
    traffic = sum(granted[task] * demands[task][2] for task in running)
    speeds = dict[int, float]()
    for task in running:
        others = sum(granted[other] * demands[other][1] for other in running if other != task)
        speeds[task] = granted[task] / max(1 + others, traffic)
    return speeds


def reference(plan: Plan, device: DeviceModel) -> tuple[list[float], list[float]]:
    """The same run, slowly: at each moment everything is worked out anew from starts and ends."""
    known = device.latencies
    demands = [resource_demand(work, device) for work in plan.works]
    start, end, left = dict[int, float](), dict[int, float](), dict[int, float]()
    now = -1.0
    while len(end) < plan.count:
        arrivals = dict[int, float]()
        for task in set(range(plan.count)) - start.keys():
            waits = [u for u, v in plan.waits() if v == task]
            if all(u in end for u in waits):
                ready = max([known.graph, *(end[u] for u in waits)])
                arrivals[task] = ready + plan.works[task].launches * known.dependency
        speeds = shares(list(left), demands)
        finish = {t: now + left[t] / s if s else np.inf for t, s in speeds.items()}
        last = max(start.values(), default=-np.inf)
        issue = {t: last + known.gap + known.awaited * plan.foreign(t) for t in arrivals}
        moments = {t: max(now, issue[t], a) for t, a in arrivals.items()}
        first = min(finish, key=lambda t: finish[t], default=None)
        following = min(moments, key=lambda t: (arrivals[t], plan.order.index(t)), default=None)
        ends_first = first is not None and (
            following is None or finish[first] <= moments[following] + 1e-9
        )
        task = first if ends_first else following
        assert task is not None
        then = finish[task] if ends_first else moments[task]
        left = {t: rest - (then - now) * speeds[t] for t, rest in left.items()}
        now = then
        if ends_first:
            end[task] = now
            del left[task]
        else:
            start[task], left[task] = now, execution(plan.works[task], device)
    return [start[t] for t in range(plan.count)], [end[t] for t in range(plan.count)]


@given(plans(tasks=9))
@settings(max_examples=60, deadline=None)
def test_it_agrees_with_the_reference(plan: Plan):
    for device in (H200, FREE):
        start, end = plan.times(device)
        slow_start, slow_end = reference(plan, device)
        assert start == pytest.approx(slow_start, abs=1e-3)
        assert end == pytest.approx(slow_end, abs=1e-3)


@given(plans())
@settings(max_examples=60, deadline=None)
def test_edges_and_streams_are_respected_and_no_task_is_faster_than_alone(plan: Plan):
    start, end = plan.times()
    known = H200.latencies
    for u, v in plan.waits():
        assert start[v] >= end[u] + plan.works[v].launches * known.dependency - 1e-6
    for task, work in enumerate(plan.works):
        assert end[task] - start[task] >= execution(work, H200) - 1e-6
    assert all(later - sooner >= known.gap - 1e-6 for sooner, later in pairwise(sorted(start)))


@given(plans())
@settings(max_examples=60, deadline=None)
def test_no_run_is_below_the_bound(plan: Plan):
    for early in (False, True):
        works = [replace(work, early=early) for work in plan.works]
        bound = lower_bound(works, plan.edges, H200, early=early)
        simulator = Simulator(works, H200, early=early)
        assert simulator.makespan(plan.streams, plan.order, plan.edges) >= bound.time - 1e-3


@given(plans())
@settings(max_examples=30, deadline=None)
def test_one_stream_takes_the_sum_of_times_and_the_latencies(plan: Plan):
    alone = replace(plan, streams=[0] * plan.count)
    total = sum(max(work.time, work.launches * H200.latencies.dependency) for work in plan.works)
    assert alone.makespan() == pytest.approx(H200.latencies.graph + total)


@given(plans(largest=4), st.integers(0, 11), st.floats(1, 1e4))
@settings(max_examples=60, deadline=None)
def test_a_longer_task_never_helps_where_tasks_do_not_contend(plan: Plan, index: int, more: float):
    works = [replace(w, nbytes=0.0, shared_bytes=0, threads=64) for w in plan.works]
    plan, task = replace(plan, works=works), index % plan.count
    longer = [*works]
    longer[task] = replace(works[task], time=works[task].time + more)
    free = replace(H200, interference=0.0, latencies=replace(H200.latencies, gap=0.0, awaited=0.0))
    assert replace(plan, works=longer).makespan(free) >= plan.makespan(free) - 1e-6


@given(plans())
@settings(max_examples=20, deadline=None)
def test_it_is_deterministic_and_implied_edges_cost_no_more_than_an_awaited_task(plan: Plan):
    ahead = {v: {u for u, w in plan.waits() if w == v} for v in range(plan.count)}
    implied = {(a, v) for v in ahead for u in ahead[v] for a in ahead[u]} - {*plan.edges}
    more = replace(plan, edges=[*plan.edges, *sorted(implied)])
    assert plan.times() == plan.times()
    free = replace(H200, latencies=replace(H200.latencies, awaited=0.0))
    assert more.makespan(free) == pytest.approx(plan.makespan(free))


def test_a_longer_task_can_help_where_tasks_contend():
    large, narrow = 10_000, 60
    works = [
        TaskDemand(1000.0, 8),
        TaskDemand(9000.0, large),
        TaskDemand(5000.0, large),
        TaskDemand(9000.0, narrow),
    ]
    plan = Plan(works, [0, 0, 1, 1], [(0, 1), (2, 3)], [0, 1, 2, 3])
    longer = replace(plan, works=[replace(works[0], time=6000.0), *works[1:]])
    assert longer.makespan(FREE) < plan.makespan(FREE)


def test_small_kernels_overlap_and_large_ones_share_the_device():
    small, large = [TaskDemand(1000.0, 2)] * 8, [TaskDemand(1000.0, 5000)] * 8
    assert Simulator(small, FREE).makespan([0] * 8, range(8), []) == 8000
    assert Simulator(small, FREE).makespan(range(8), range(8), []) < 1100
    assert Simulator(large, FREE).makespan(range(8), range(8), []) == pytest.approx(8000)


def test_tasks_that_wait_in_a_cycle_are_an_error():
    with pytest.raises(ValueError, match="cycle"):
        Simulator([TaskDemand(1.0)] * 2).makespan([0, 0], [0, 1], [(1, 0)])


def test_a_task_that_never_ends_is_an_error():
    with pytest.raises(ValueError, match="never ends"):
        Simulator([TaskDemand(float("inf")), TaskDemand(1.0)]).makespan([0, 1], [0, 1], [])


def test_a_hundred_thousand_tasks_take_less_than_a_second():
    chance, count = np.random.default_rng(0), 100_000
    works = [TaskDemand(float(t), int(b)) for t, b in chance.integers(1, 5000, (count, 2))]
    edges = np.array([(max(0, v - int(chance.integers(1, 50))), v) for v in range(1, count)])
    simulator, streams = Simulator(works), np.arange(count) % 32
    simulator.makespan(streams, range(count), edges)
    begin = perf_counter()
    simulator.makespan(streams, range(count), edges)
    assert perf_counter() - begin < 1.0
