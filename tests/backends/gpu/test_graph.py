"""Graphs have exactly the edges, order, parameters and priorities that were planned."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.backends.gpu.executable import GpuExecutable
from compiler.schedule.choices import MODES
from compiler.schedule.kernels import KernelSpec
from compiler.schedule.tasks import Allocation, Schedule, Task, View
from compiler.scheduling.subflows import subflows
from tests.backends.gpu.cases import Case, case
from tests.backends.gpu.recording import Graph, Node, RecordingDriver

SEEDS = st.integers(0, 10**6)


def load(found: Case, driver: RecordingDriver, **options: Any) -> GpuExecutable:
    driver.add_kernels(found.functions)
    specs = found.specs(lambda _: b"\x7fELF")
    return GpuExecutable.load(driver, found.schedule, specs, found.weights, **options)


def built(found: Case, **options: Any) -> tuple[Graph, GpuExecutable]:
    """The graph of one run on the executor's own buffers."""
    driver = RecordingDriver({})
    executable = load(found, driver, **options)
    executor = executable.executor()
    executor.run(executor.in_place("input"), outputs="device")
    return driver.graphs[0], executable


def task_of(node: Node) -> str:
    assert node.call is not None
    return node.call.symbol.split("_")[0]


@given(SEEDS, st.integers(1, 8))
@settings(max_examples=30)
def test_edges_are_the_reduced_tokens_and_stream_order(seed: int, streams: int):
    found = case(seed, tasks=15, streams=streams)
    graph, executable = built(found)
    plan = executable.plan
    last = {task_of(node): node for node in graph.nodes}
    first = {task_of(node): node for node in reversed(graph.nodes)}
    for index, task in enumerate(found.schedule.tasks):
        before = {id(last[f"k{other}"]) for other in plan.before[index]}
        node = first[task.kernel]
        assert {id(other) for other in node.after + node.early} == before
        if node is not last[task.kernel]:
            assert last[task.kernel].after + last[task.kernel].early == (node,)
        assert last[task.kernel].priority == plan.priorities[index]
    order = list(dict.fromkeys(task_of(node) for node in graph.nodes))
    assert order == [f"k{task}" for task in plan.order]


@given(SEEDS, st.booleans())
@settings(max_examples=20)
def test_only_kernels_that_wait_themselves_start_early(seed: int, pdl: bool):
    found = case(seed, tasks=10)
    graph, _ = built(found, pdl=pdl)
    for node in graph.nodes:
        assert node.call is not None
        waits = pdl and found.functions[node.call.symbol].programmatic
        assert not (node.after if waits else node.early)


@given(SEEDS)
@settings(max_examples=10)
def test_delays_come_before_random_tasks_and_leave_all_other_edges(seed: int):
    found = case(seed, tasks=20, streams=3)
    plain, _ = built(found)
    late, _ = built(found, delays=seed)
    spins = {
        id(node) for node in late.nodes if node.call is not None and node.call.symbol == "spin"
    }

    def edges(graph: Graph) -> list[tuple[str, list[str]]]:
        names = {id(n): n.call.symbol for n in graph.nodes if n.call is not None}
        return [
            (names[id(n)], [names[id(o)] for o in n.after + n.early if id(o) not in spins])
            for n in graph.nodes
            if id(n) not in spins
        ]

    assert edges(late) == edges(plain)
    delayed = [node for node in late.nodes if any(id(other) in spins for other in node.after)]
    assert len(delayed) == len(spins)


@given(SEEDS)
@settings(max_examples=10)
def test_kernels_wait_for_the_end_of_copies_and_child_graphs(seed: int):
    found = case(seed, tasks=10)
    driver = RecordingDriver({})
    for children in (False, True):
        load(found, driver, children=children).run(found.inputs(seed))
    for graph in driver.graphs:
        for node in graph.nodes:
            assert node.call is not None or not node.early
            assert all(other.call is not None for other in node.early)


@given(SEEDS)
@settings(max_examples=20)
def test_launch_parameters_are_those_of_the_kernels(seed: int):
    found = case(seed, tasks=8)
    graph, _ = built(found)
    specs = found.specs(lambda _: b"")
    launches = {launch.symbol: launch for spec in specs.values() for launch in spec.launches}
    for node in graph.nodes:
        assert node.call is not None
        launch = launches[node.call.symbol]
        assert (node.call.grid, node.call.block) == (launch.grid, launch.block)
        assert node.call.shared_bytes == launch.shared_bytes
        assert len(node.call.arguments) == len(launch.args)


@given(SEEDS)
@settings(max_examples=20)
def test_subflows_of_several_tasks_are_child_graphs(seed: int):
    found = case(seed, tasks=15)
    graph, _ = built(found, children=True)
    several = [unit for unit in subflows(found.schedule) if len(unit.tasks) > 1]
    children = [node.child for node in graph.nodes if node.child is not None]
    symbols = [list(dict.fromkeys(task_of(n) for n in child.nodes)) for child in children]
    assert symbols == [[f"k{task}" for task in unit.tasks] for unit in several]


@given(SEEDS, st.integers(1, 8), st.integers(0, 24))
@settings(max_examples=40, deadline=None)
def test_every_mode_gives_the_bits_of_a_sequential_run(seed: int, streams: int, tasks: int):
    found = case(seed, tasks=tasks, streams=streams)
    driver = RecordingDriver({}, seed)
    for options in ({"children": True}, *({"mode": mode} for mode in MODES)):
        executor = load(found, driver, **options).executor()
        for run in range(2):
            inputs = found.inputs(seed + run)
            outputs = executor.run(inputs)
            for name, expected in found.expected(inputs).items():
                np.testing.assert_array_equal(outputs[name], expected, f"{options} {name}")


@pytest.mark.parametrize("mode", MODES)
def test_a_task_without_launches_still_orders_others(mode: str):
    found = case(3, tasks=4, streams=2, subflows=False)
    empty = Task("nothing", 1, (len(found.schedule.tasks) - 1,), (), ())
    schedule = Schedule("gap", found.schedule.allocations, (*found.schedule.tasks, empty))
    driver = RecordingDriver(found.functions)
    specs = found.specs(lambda _: b"\x7fELF")
    specs["nothing"] = KernelSpec("nothing", "cuda", b"\x7fELF", (), ())
    inputs = found.inputs(0)
    outputs = GpuExecutable.load(driver, schedule, specs, found.weights, mode=mode).run(inputs)
    for name, expected in found.expected(inputs).items():
        np.testing.assert_array_equal(outputs[name], expected)


def test_one_stream_of_plain_launches_needs_no_other_stream():
    found = case(5, tasks=10, streams=1)
    driver = RecordingDriver({})
    executor = load(found, driver, mode="streams").executor()
    executor.run(executor.in_place("input"), outputs="device")
    assert "wait" not in driver.log
    assert driver.log.count("record") == 1


def test_an_empty_schedule_runs():
    schedule = Schedule("empty", (Allocation("input", "x", "float32", (0,)),), ())
    executable = GpuExecutable.load(RecordingDriver({}), schedule, {}, {})
    assert executable.run({"x": np.zeros(0, np.float32)}) == {}
    assert View(0, 0, "float32", (0,)).nbytes == 0
