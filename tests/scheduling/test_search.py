"""The search for a schedule: never worse than a policy, repeatable, valid after every move."""

from dataclasses import replace
from itertools import product
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.autotune.schedule.candidates import scheduled
from compiler.ir.edit import graphs_of
from compiler.ir.flatten import schedule_of
from compiler.passes.base.adapter import read_groups, write_placement
from compiler.passes.pipeline import parse
from compiler.passes.runner import Runner, taskflow_graph, verify
from compiler.scheduling.inner_loops import change, kept_edges
from compiler.scheduling.outline import launched_together, outline
from compiler.scheduling.placement import Groups, Placement, PlacementPolicy, place
from compiler.scheduling.placement_text import placement_to_text
from compiler.scheduling.search import SMALL, ScheduleSearch, placement_of, search, starts, state_of
from compiler.scheduling.simulator import Simulator, TaskDemand, predict
from compiler.support.dag import DAG
from tests.strategies import Model, dataflow_graphs

TAIL = "lower-to-taskflow,insert-sync,elide-sync,plan-memory"
POLICIES = [
    PlacementPolicy(streams, count, partition, 2, order)
    for streams, count, (partition, order) in product(
        ("opara", "critical-path", "wavefront", "ios", "ppd"),
        (2, 3),
        (("none", "source"), ("ppd", "critical-path"), ("balanced", "opara")),
    )
]


@st.composite
def problems(draw: st.DrawFn, tasks: int = SMALL) -> tuple[Groups, Simulator]:
    """A random DAG whose nodes ask different parts of the device."""
    chance = Random(draw(st.integers(0, 10**6)))
    count = draw(st.integers(1, tasks))
    edges = [(u, v) for v in range(count) for u in range(v) if chance.random() < 2 / count]
    works = [
        TaskDemand(float(chance.randint(500, 9000)), chance.randint(1, 300)) for _ in range(count)
    ]
    dag = DAG.from_edges([round(work.time) for work in works], edges)
    flops, nbytes = ([chance.randrange(10**6) for _ in works] for _ in range(2))
    return Groups(dag, flops, nbytes, balance=4.0, cache_bytes=1 << 20), Simulator(works)


@given(problems(tasks=12))
@settings(max_examples=8, deadline=None)
def test_it_is_never_worse_than_any_policy(problem: tuple[Groups, Simulator]):
    found = search(*problem, steps=300, margin=0.0)
    judge = ScheduleSearch(*problem)
    assert found.makespan == judge.makespan(found.placement)
    assert {policy.name for policy in starts(len(problem[0].dag))} == found.policies.keys()
    for policy in starts(len(problem[0].dag)):
        assert found.makespan <= judge.makespan(place(problem[0], policy)) + 1e-6


@given(problems(tasks=8), st.integers(0, 5))
@settings(max_examples=5, deadline=None)
def test_a_seed_and_steps_decide_everything(problem: tuple[Groups, Simulator], seed: int):
    first, second = (search(*problem, steps=200, seed=seed, margin=0.0) for _ in range(2))
    assert first == second


def test_moves_pay_where_every_policy_leaves_something():
    """More steps never make it worse, and other seeds find others: the seed is used."""
    chance = Random(3)
    count = 60
    edges = [(u, v) for v in range(count) for u in range(max(0, v - 9), v) if chance.random() < 0.2]
    works = [
        TaskDemand(float(chance.randint(500, 9000)), chance.randint(1, 300)) for _ in range(count)
    ]
    dag = DAG.from_edges([round(work.time) for work in works], edges)
    ones = [1] * count
    problem = Groups(dag, ones, ones, balance=4.0, cache_bytes=1 << 20), Simulator(works)
    found = [search(*problem, steps=steps, margin=0.0) for steps in (0, 100, 1000, 4000)]
    times = [result.makespan for result in found]
    assert times == sorted(times, reverse=True) == [result.moved for result in found]
    assert times[-1] < 0.995 * times[0]
    others = (search(*problem, steps=500, seed=seed, margin=0.0) for seed in range(4))
    assert len({tuple(result.placement.order) for result in others}) > 1
    gained = 1.0 - times[-1] / times[0]
    for margin, taken in ((gained - 0.001, found[-1]), (gained + 0.001, found[0])):
        best = search(*problem, steps=4000, margin=margin)
        assert (best.placement, best.makespan) == (taken.placement, taken.makespan)
        assert (best.moved, best.kept) == (found[-1].moved, found[-1].kept)


def test_the_number_of_policies_and_steps_shrinks_with_the_graph():
    assert len(starts(10)) > len(starts(100)) > len(starts(5000)) >= 4
    assert starts(10**6)[0] == PlacementPolicy("sequential", 1, order="source")


def valid(groups: Groups, found: Placement) -> None:
    """Topological, units in one piece on one stream."""
    place_of = {v: i for i, v in enumerate(found.order)}
    assert sorted(found.order) == list(range(len(groups.dag)))
    assert all(place_of[u] < place_of[v] for u, v in groups.dag.edges)
    assert len(launched_together(found)) == len(set(found.partitions))
    pairs = {(found.partitions[v], found.streams[v]) for v in found.order}
    assert len(pairs) == len(set(found.partitions))


@given(problems(), st.integers(0, 99))
@settings(max_examples=30, deadline=None)
def test_every_move_keeps_a_schedule_valid(problem: tuple[Groups, Simulator], seed: int):
    groups, simulator = problem
    judge = ScheduleSearch(groups, simulator)
    order, streams, joined = state_of(place(groups, PlacementPolicy("opara", 4, "ppd", 2)))
    for dice in np.random.default_rng(seed).integers(0, 1 << 40, (60, 4)):
        before = order.tolist(), streams.tolist(), joined.tolist()
        changed = change(dice, 5, (order, streams, joined), judge.before, judge.after)
        assert changed or before == (order.tolist(), streams.tolist(), joined.tolist())
        valid(groups, placement_of(order, streams, joined))


@settings(max_examples=20, deadline=None)
@given(dataflow_graphs(max_operators=14), st.sampled_from(POLICIES))
def test_a_placement_is_what_the_passes_decide(model: Model, policy: PlacementPolicy):
    Runner().run(model.module, parse("fuse-operators{max-ops=1}"))
    groups, simulator, kernels = grouped(model)
    model_groups = list(graphs_of(model.module)[0].groups)
    found, judge = place(groups, policy), ScheduleSearch(groups, simulator)
    passes, placed = model.module.clone(), model.module.clone()
    Runner().run(passes, parse(f"{policy.passes()},{TAIL}"))
    write_placement(graphs_of(placed)[0], found)
    Runner().run(placed, parse(TAIL))
    schedules = [schedule_of(taskflow_graph(module, TAIL)) for module in (passes, placed)]
    assert schedules[0] == schedules[1]
    works = [kernels[task.kernel] for task in schedules[0].tasks]
    time = predict(schedules[0], works, "graph").makespan
    assert judge.makespan(found) == pytest.approx(time)
    counted = sum(len(task.after) for task in schedules[0].tasks)
    assert counted == len(judge.waits(found))
    if set(found.stages) == {None}:
        assert counted == len(kept_edges(state_of(found), judge.before))
    names = [group.kernel.data for group in model_groups if group.kernel is not None]
    bare = (replace(task, reads=(), writes=(), nodes=()) for task in schedules[0].tasks)
    assert outline(groups.dag, found, names).tasks == tuple(bare)


@settings(max_examples=20, deadline=None)
@given(dataflow_graphs(max_operators=14), st.integers(0, 9))
def test_what_is_found_is_a_verified_schedule_of_that_time(model: Model, seed: int):
    Runner().run(model.module, parse("fuse-operators{max-ops=1}"))
    groups, simulator, kernels = grouped(model)
    found = search(groups, simulator, steps=150, seed=seed, margin=0.0)
    text = placement_to_text(groups.dag, found.placement)
    pipeline = f"import-placement{{placement={text}}},{TAIL}"
    graph = scheduled(model.module, pipeline.replace(text, f'"{text}"'), Runner())
    verify(model.module)
    schedule = schedule_of(graph)
    works = [kernels[task.kernel] for task in schedule.tasks]
    assert predict(schedule, works, "graph").makespan == pytest.approx(found.makespan)


def grouped(model: Model) -> tuple[Groups, Simulator, dict[str, TaskDemand]]:
    """A model's groups with costs by kernel."""
    (graph,) = graphs_of(model.module)
    names = sorted({g.kernel.data for g in graph.groups if g.kernel is not None})
    kernels = {name: TaskDemand(1000.0 * (i + 1), 7 * i + 1) for i, name in enumerate(names)}
    works = [kernels[g.kernel.data] for g in graph.groups if g.kernel is not None]
    return read_groups(graph), Simulator(works), kernels


@given(problems(), st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_the_compiled_waits_are_those_of_the_outline(problem: tuple[Groups, Simulator], seed: int):
    """`kept_edges` is the fast form of what `outline` says, also after moves."""
    groups, simulator = problem
    judge, names = ScheduleSearch(groups, simulator), ["k"] * len(groups.dag)
    state = state_of(place(groups, PlacementPolicy("ios", 4, "ppd", 2)))
    for dice in np.random.default_rng(seed).integers(0, 1 << 40, (20, 4)):
        change(dice, 5, state, judge.before, judge.after)
        found = placement_of(*state)
        place_of = {v: place for place, v in enumerate(found.order)}
        fast = sorted((place_of[u], place_of[v]) for u, v in judge.waits(found).tolist())
        tasks = outline(groups.dag, found, names).tasks
        assert fast == sorted((u, v) for v, task in enumerate(tasks) for u in task.after)
