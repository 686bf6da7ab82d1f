"""Host time of a run on a GPU, in microseconds above the launch of a graph by the bare driver.

    python benchmarks/gpu_overhead.py [--tasks 1 100 400] [--json FILE]

`queue` is the host's time to queue one run; `wall` the time of a run and of waiting for its end.
All runs are given the same device buffers.
The goal is at most 10 us of `queue` above an empty graph launch, for device buffers.
"""

import argparse
import json
import sys
from collections.abc import Callable
from importlib import import_module, util
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from compiler.backends.cuda.build import device
from compiler.backends.gpu.driver import Handle
from compiler.backends.gpu.executable import GpuExecutable
from compiler.schedule.kernels import KernelSpec, Launch
from compiler.schedule.tasks import Allocation, Schedule, Task, View
from compiler.target.nvrtc import compile_cuda

SOURCE = """
extern "C" __global__ void empty() {}
extern "C" __global__ void touch(const float *x, float *y) { if (threadIdx.x > 64) y[0] = x[0]; }
"""
GOAL_US = 10.0


def executable(tasks: int, streams: int = 4) -> GpuExecutable:
    """A schedule of tasks that do next to nothing, with one input and one output."""
    allocations = (
        Allocation("input", "x", "float32", (64,)),
        Allocation("output", "y", "float32", (64,)),
        Allocation("arena", "arena", "uint8", (256,)),
    )
    x, y = (View(index, 0, "float32", (64,)) for index in (0, 1))
    scratch = View(2, 0, "float32", (64,))
    work = [Task("touch", i % streams, (), (x,), (scratch,)) for i in range(tasks - 1)]
    last = tuple(range(max(0, tasks - 1 - streams), tasks - 1))
    schedule = Schedule("overhead", allocations, (*work, Task("touch", 0, last, (x,), (y,))))
    image = compile_cuda(SOURCE, device().device.architecture)
    launch = Launch("touch", (0, 1), (1, 1, 1), (64, 1, 1))
    spec = KernelSpec("touch", "cuda", image, (launch,), ("",))
    return GpuExecutable.load(device(), schedule, {"touch": spec}, {})


def bare_graph(nodes: int, stream: Handle) -> Handle:
    """An executable graph of a chain of empty kernels, made with the driver alone."""
    driver = device()
    module = driver.load_module(compile_cuda(SOURCE, driver.device.architecture))
    call = driver.call(driver.function(module, "empty"), (1, 1, 1), (64, 1, 1), 0, ())
    graph, after = driver.create_graph(), ()
    for _ in range(nodes):
        after = (driver.add_call(graph, after, call),)
    return driver.instantiate(graph, stream)


def host_us(action: Callable[[], object], wait: Callable[[], object], depth: int = 10) -> float:
    """The median time to queue one piece of work, waiting for the device now and then."""
    samples: list[float] = []
    for _ in range(100):
        start = perf_counter()
        for _ in range(depth):
            action()
        samples.append(1e6 * (perf_counter() - start) / depth)
        wait()
    return median(samples)


def wall_us(action: Callable[[], object], wait: Callable[[], object]) -> float:
    """The median time of one piece of work until it has ended."""
    samples: list[float] = []
    for _ in range(300):
        start = perf_counter()
        action()
        wait()
        samples.append(1e6 * (perf_counter() - start))
    return median(samples[50:])


def measure(tasks: int) -> dict[str, float]:
    """Every figure for one number of tasks."""
    driver, executor = device(), executable(tasks).executor()
    inputs, outputs = executor.in_place("input"), executor.in_place("output")
    stream = executor.stream
    ways: dict[str, Callable[[], object]] = {}
    for name, nodes in (("empty graph", 1), ("bare graph", tasks)):
        graph = bare_graph(nodes, stream)
        ways[name] = lambda graph=graph: driver.launch_graph(graph, stream)
    ways["ours, device arrays"] = lambda: executor.submit(inputs, outputs=outputs)
    if util.find_spec("torch"):
        torch: Any = import_module("torch")
        x, y = {"x": torch.zeros(64).cuda()}, {"y": torch.zeros(64).cuda()}
        ways["ours, torch tensors"] = lambda: executor.submit(x, outputs=y)

    def wait() -> None:
        driver.synchronize_stream(stream)

    figures: dict[str, float] = {}
    for name, action in ways.items():
        action()
        wait()
        figures[f"{name}: queue"] = host_us(action, wait)
        figures[f"{name}: wall"] = wall_us(action, wait)
    executor.close()
    return figures


def above_empty(figures: dict[str, float]) -> dict[str, float]:
    """How much longer each way of ours takes to queue than an empty graph's launch."""
    empty = figures["empty graph: queue"]
    return {n: t - empty for n, t in figures.items() if n.startswith("ours") and "queue" in n}


def main() -> None:
    """Print a table, and write it as JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, nargs="+", default=[1, 100, 400])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found = {str(tasks): measure(tasks) for tasks in options.tasks}
    for tasks, figures in found.items():
        for name, time in figures.items():
            print(f"{tasks:>5} tasks  {name:32} {time:8.2f} us")
    if options.json:
        data = {"device": device().device.name, "microseconds": found}
        options.json.write_text(json.dumps(data, indent=1))


if __name__ == "__main__":
    main()
