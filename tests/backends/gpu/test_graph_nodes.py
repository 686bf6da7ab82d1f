"""Copy, child, fill and indirect nodes, and the events between units: those planned, no others."""

from collections.abc import Iterable
from itertools import pairwise

import numpy
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.autotune.profile import COLD_LENGTHS, measure_kernels
from compiler.backends.gpu.executable import GpuExecutable
from compiler.backends.gpu.executor import GpuExecutor
from compiler.schedule.kernels import KernelSpec, Launch
from compiler.schedule.tasks import Allocation, Schedule, Task, View
from compiler.scheduling.subflows import Subflow, single_tasks, subflows
from tests.backends.gpu.cases import Case, case
from tests.backends.gpu.recording import BASE, INDIRECT, Graph, Node, RecordingDriver
from tests.backends.gpu.test_graph import load, task_of

SEEDS = st.integers(0, 10**6)


def with_copies(found: Case, **options: object) -> tuple[Graph, GpuExecutable, GpuExecutor]:
    """The graph of a run from and to the host."""
    driver = RecordingDriver({})
    executable = load(found, driver, **options)
    executor = executable.executor()
    executor.run(found.inputs(0))
    graphs = [g for g in driver.graphs if any(node.kind == "copy" for node in g.nodes)]
    assert len(graphs) == 1
    return graphs[0], executable, executor


def ends(graph: Graph) -> dict[int, Node]:
    """The last node of each task, in which a child graph stands for its tasks."""
    last: dict[int, Node] = {}
    for node in graph.nodes:
        inside = node.child.nodes if node.child is not None else [node]
        last |= {int(task_of(each)[1:]): node for each in inside if each.call is not None}
    return last


def same(found: Iterable[Node], expected: Iterable[Node]) -> bool:
    """Whether both hold the same nodes, each once."""
    mine = [id(node) for node in found]
    return len(mine) == len(set(mine)) and set(mine) == {id(node) for node in expected}


def buffers(executor: GpuExecutor) -> dict[int, tuple[str, int, int]]:
    """Kind, address and bytes of each input and output, by allocation."""
    places = {kind: executor.in_place(kind) for kind in ("input", "output")}
    return {
        index: (a.kind, places[a.kind][a.name].address, a.nbytes)
        for index, a in enumerate(executor.schedule.allocations)
        if a.kind in places
    }


@given(SEEDS)
@settings(max_examples=20)
def test_copies_move_all_inputs_before_their_readers_and_all_outputs_after(seed: int):
    found = case(seed, tasks=10)
    graph, executable, executor = with_copies(found)
    last, plan = ends(graph), executable.plan
    copies = [node for node in graph.nodes if node.kind == "copy"]
    moved: dict[str, set[int]] = {"to_device": set(), "from_device": set()}
    for node in copies:
        assert node.copy is not None
        assert node.direction is not None
        inward = node.direction == "to_device"
        device, host = node.copy[:2] if inward else node.copy[1::-1]
        assert host < BASE <= device
        here = {
            index
            for index, (kind, address, nbytes) in buffers(executor).items()
            if device <= address and address + nbytes <= device + node.copy[2]
            if kind == ("input" if inward else "output")
        }
        assert here
        moved[node.direction] |= here
        if not inward:
            assert same(node.after, (last[t] for index in here for t in plan.writers[index]))
            continue
        assert node.after == ()
        followers = {task_of(n) for n in graph.nodes if any(o is node for o in n.after)}
        assert followers == {f"k{task}" for index in here for task in plan.readers[index]}
    kinds = {"to_device": "input", "from_device": "output"}
    for direction, kind in kinds.items():
        assert moved[direction] == {i for i, (k, _, _) in buffers(executor).items() if k == kind}


@given(SEEDS)
@settings(max_examples=20)
def test_child_graphs_follow_their_unit_and_hold_its_edges_only(seed: int):
    found = case(seed, tasks=15)
    graph, executable, _ = with_copies(found, children=True)
    last, before = ends(graph), executable.plan.before
    units = {unit.tasks: unit for unit in subflows(found.schedule)}
    for node in graph.nodes:
        if node.child is None:
            continue
        tasks = tuple(dict.fromkeys(int(task_of(each)[1:]) for each in node.child.nodes))
        assert tasks in units
        outside = [last[o] for task in tasks for o in before[task] if o not in tasks]
        assert same((o for o in node.after if o.kind != "copy"), outside)
        inner = ends(node.child)
        first = {task_of(n): n for n in reversed(node.child.nodes)}
        for task in tasks:
            expected = [inner[o] for o in before[task] if o in tasks]
            assert same(first[f"k{task}"].after + first[f"k{task}"].early, expected)
            assert inner[task].priority == executable.plan.priorities[task]


@given(SEEDS, st.integers(1, 5), st.sampled_from(["streams", "subgraphs"]))
@settings(max_examples=40)
def test_events_stand_between_streams_only(seed: int, streams: int, mode: str):
    found = case(seed, tasks=12, streams=streams)
    driver = RecordingDriver({})
    executor = load(found, driver, mode=mode).executor()
    executor.run(executor.in_place("input"), outputs="device")
    units = (single_tasks if mode == "streams" else subflows)(found.schedule)
    crossing = {(o, i) for i, u in enumerate(units) for o in u.after if units[o].stream != u.stream}
    roots = [unit for unit in units if not unit.after and unit.stream != 0]
    followed = {other for unit in units for other in unit.after}
    sinks = {i for i, u in enumerate(units) if u.stream != 0 and i not in followed}
    forked = any(unit.stream != 0 for unit in units)
    assert driver.log.count("wait") == len(crossing) + len(roots) + len(sinks)
    awaited = {other for other, _ in crossing} | sinks
    assert driver.log.count("record") == len(awaited) + forked + 1
    graphs = sum(launches(found, unit) > 1 for unit in units) if mode == "subgraphs" else 0
    assert driver.log.count("instantiate") == driver.log.count("launch_graph") == graphs
    alone = sum(launches(found, u) for u in units if mode == "streams" or launches(found, u) == 1)
    assert sum(line.startswith("launch k") for line in driver.log) == alone


def launches(found: Case, unit: Subflow) -> int:
    """How many kernels a unit launches."""
    return sum(len(found.kernels[f"k{task}"]) for task in unit.tasks)


def test_calls_read_pointers_only_where_a_buffer_is_bound_by_indirection():
    found = case(21, tasks=12, streams=3)
    driver = RecordingDriver({}, seed=3)
    executor = load(found, driver, bindings={"x0": "indirection"}).executor()
    executor.run(executor.in_place("input"), outputs="device")
    index = next(i for i, a in enumerate(found.schedule.allocations) if a.name == "x0")
    touching = {
        f"k{number}"
        for number, task in enumerate(found.schedule.tasks)
        if any(view.allocation == index for view in task.reads)
    }
    (graph,) = driver.graphs
    calls = [node.call for node in graph.nodes if node.call is not None]
    assert {c.symbol.split("_")[0] for c in calls if c.symbol.endswith(INDIRECT)} == touching
    x0 = executor.in_place("input")["x0"].address
    for call in calls:
        if not call.symbol.endswith(INDIRECT):
            assert x0 not in call.arguments
            continue
        values = [int(driver.bytes_from(at)[:8].view("uint64")[0]) for at in call.arguments]
        assert x0 in values


def test_an_update_touches_the_nodes_of_the_moved_buffer_only():
    found = case(21, tasks=12, streams=3)
    driver = RecordingDriver({}, seed=3)
    executor = load(found, driver, updates=100).executor()
    inputs = executor.in_place("input")
    executor.run(inputs, outputs="device")
    nodes = sum(inputs["x0"].address in n.call.arguments for n in driver.graphs[0].nodes if n.call)
    assert nodes > 0
    block = driver.allocate(inputs["x0"].nbytes)
    moved = {**inputs, "x0": type(inputs["x0"])(driver, inputs["x0"].allocation, block, None)}
    driver.log.clear()
    executor.run(moved, outputs="device")
    assert driver.log.count("update_call") == nodes


def test_cold_times_flush_the_cache_by_a_fill_before_each_link_of_a_chain():
    mix = case(4, tasks=1, subflows=False)
    driver = RecordingDriver(mix.functions)
    specs = mix.specs(lambda _: b"\x7fELF")
    measure_kernels(driver, mix.schedule, specs, samples=1)
    chains = [g for g in driver.graphs if any(node.kind == "fill" for node in g.nodes)]
    lengths = {sum(node.kind == "fill" for node in graph.nodes) for graph in chains}
    assert lengths == {*COLD_LENGTHS}
    for graph in chains:
        for node in graph.nodes:
            if node.kind == "fill":
                assert node.copy is not None
                assert node.copy[2] == 2 * driver.device.l2_bytes
        assert graph.nodes[0].after == ()
        assert all(node.after == (other,) for other, node in pairwise(graph.nodes))


def test_copies_of_small_neighbours_are_one_and_large_ones_are_apart():
    shapes = [(10,), (10,), (100_000,), (100_000,)]
    inputs = [Allocation("input", f"x{i}", "uint32", shape) for i, shape in enumerate(shapes)]
    views = tuple(View(i, 0, "uint32", shape) for i, shape in enumerate(shapes))
    output = Allocation("output", "y", "uint32", (10,))
    task = Task("k", 0, (), views, (View(4, 0, "uint32", (10,)),))
    schedule = Schedule("sizes", (*inputs, output), (task,))
    spec = KernelSpec("k", "cuda", b"\x7fELF", (Launch("f", (0, 4)),), ("",) * 4)
    driver = RecordingDriver({"f": lambda *_: None})
    executor = GpuExecutable.load(driver, schedule, {"k": spec}, {}).executor()
    executor.run({a.name: numpy.zeros(a.shape, numpy.uint32) for a in inputs})
    (graph,) = driver.graphs
    sizes = [n.copy[2] for n in graph.nodes if n.copy and n.direction == "to_device"]
    assert sizes == [256 + 40, 400_000, 400_000]
