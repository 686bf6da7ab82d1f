"""The longest path and the floors of its kernels, on random graphs and on a recorded profile."""

from itertools import pairwise

from hypothesis import given

from benchmarks.calibration.data import read
from benchmarks.critical_path import steps_of, waits, widest
from compiler.schedule.kernels import KernelSpec, Launch
from compiler.schedule.tasks import Schedule, Task
from compiler.scheduling.critical_path import floor_time, path_steps, table
from compiler.support.dag import DAG, critical_path
from compiler.target.devices import H200
from tests.strategies import dags


def slow_longest(dag: DAG) -> int:
    """The length of the longest path by trying all of them."""

    def rank(v: int) -> int:
        return dag.costs[v] + max((rank(w) for w in dag.successors[v]), default=0)

    return max(map(rank, range(len(dag))), default=0)


@given(dags(max_nodes=9))
def test_any_graph(dag: DAG):
    edges = [(u, v) for u, users in enumerate(dag.successors) for v in users]
    times = [float(cost) for cost in dag.costs]
    path = critical_path(times, dag.successors)
    assert sum(times[v] for v in path) == slow_longest(dag)
    assert all(pair in edges for pair in pairwise(path))


def kernel(name: str, flops: int, nbytes: int, shared: int = 0, launches: int = 1) -> KernelSpec:
    """A kernel that does so much."""
    launch = Launch(name, (), (1, 1, 1), (128, 1, 1), shared)
    return KernelSpec(
        name, "cuda", b"", (launch,) * launches, (), flops=flops, traffic_bytes=nbytes
    )


def test_floors():
    start = H200.latencies.dependency
    assert floor_time(kernel("moves", 0, 4_300_000), H200) == start + 1000
    assert floor_time(kernel("computes", 66_900_000, 1), H200) == start + 1000
    assert floor_time(kernel("multiplies", 66_900_000, 1, 64 << 10), H200) < start + 200
    assert floor_time(kernel("adds shares", 0, 0, 0, 2), H200) == 2 * start
    assert floor_time(kernel("nothing", 0, 0, 0, 0), H200) == 0


def test_steps_are_those_of_the_path():
    kernels = {name: kernel(name, 0, 0) for name in "abc"}
    names, times = ["a", "b", "c", "b"], [1000.0, 5000.0, 9000.0, 3000.0]
    steps = path_steps(names, times, [(0, 1), (0, 2), (1, 3)], kernels, H200)
    assert [(s.kernel, s.count, s.time) for s in steps] == [("c", 1, 9000.0), ("a", 1, 1000.0)]
    text = table(path_steps(names, times, [(0, 1), (1, 2), (2, 3)], kernels, H200), 1)
    assert text[0].startswith("4 tasks of 3 kernels on the longest path: 18.0 us")
    assert text[-1].endswith("by 2 others")
    assert path_steps([], [], [], {}, H200) == []


def test_tasks_wait_for_tokens_and_for_their_stream():
    tasks = [Task("k", s, after, (), ()) for s, after in ((0, ()), (1, (0,)), (0, ()), (1, (2,)))]
    found = set(waits(Schedule("s", (), tuple(tasks))))
    assert found == {(0, 1), (0, 2), (2, 3), (1, 3)}


def test_recorded_models():
    """Paths of an H200's profile: shorter than all tasks, and above the floors of most kernels."""
    _, (_, *models) = read()
    for model in models:
        steps = steps_of(model, H200)
        time = sum(step.count * step.time for step in steps)
        every = sum(model.time(task.kernel) for task in widest(model).tasks)
        assert 0 < time <= every, model.name
        assert [step.lost for step in steps] == sorted((s.lost for s in steps), reverse=True)
        floors = sum(step.count * step.floor for step in steps)
        assert 0.05 * time < floors < time, model.name
