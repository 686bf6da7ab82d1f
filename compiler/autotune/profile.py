"""Times every distinct kernel of a schedule on its device (PPD, section 4.3: mini-benchmarks)."""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager

import numpy as np

from compiler.autotune.kernel_times import KernelTimeDatabase, KernelTimeRecord, key_of
from compiler.backends.gpu.driver import Driver, Handle, PreparedLaunch
from compiler.backends.gpu.functions import Functions
from compiler.backends.gpu.memory import aligned, as_bytes, reserve, upload
from compiler.backends.gpu.pointers import Pointers
from compiler.backends.gpu.random_inputs import random_numbers
from compiler.choice.timing import WARM_UP, Timing, summarize
from compiler.schedule.kernels import KernelSpec
from compiler.schedule.tasks import Schedule, Task

CHAIN = 24
SHORT = 4
"""Launches in two timed graphs. The difference of their times has no part of a graph's start, but
includes what a dependent launch costs."""

ENOUGH_NS = 10e6
"""From this time on one run of a kernel says enough: a chain of hundreds of them takes seconds."""

COLD_LENGTHS = (8, 2)
"""Launches in two graphs that flush the cache before each, which takes longer than most kernels."""


def measure_kernels(
    driver: Driver,
    schedule: Schedule,
    kernels: Mapping[str, KernelSpec],
    samples: int = 15,
    *,
    cold: bool = True,
    expired: Callable[[], bool] = lambda: False,
) -> KernelTimeDatabase:
    """Time each distinct kernel on separate buffers, in a chain of launches with warm caches.

    With `cold`, also in one with a flush of the cache before each, less the flushes. It goes on,
    costly kernels first, until `expired` says that time is over. What may not end needs a trial
    before (see `trials`).
    """
    driver.make_current()
    database = KernelTimeDatabase()
    tasks = {task.kernel: task for task in schedule.tasks}
    flush = reserve(driver, 2 * driver.device.l2_bytes, "flushing the cache") if cold else 0
    stream = driver.create_stream()
    chain = (flush, stream, samples, COLD_LENGTHS)
    flushed = chain_time(driver, (), *chain).median if flush else 0.0
    for name in costly_first(tasks, kernels):
        if expired():
            break
        key = key_of(kernels[name], driver.device)
        with on_device(driver, kernels[name], tasks[name]) as (calls, _):
            once = run_once(driver, calls, stream)
            if once >= ENOUGH_NS:
                database.add(key, record_of_one(once))
            else:
                warm = chain_time(driver, calls, 0, stream, samples)
                cold_ns = chain_time(driver, calls, *chain).median - flushed if flush else None
                cold_time = None if cold_ns is None else max(warm.median, cold_ns)
                database.add(
                    key, KernelTimeRecord(warm.median, cold_time, warm.low, warm.high, warm.count)
                )
    driver.destroy_stream(stream)
    if flush:
        driver.free(flush)
    return database


def costly_first(names: Iterable[str], kernels: Mapping[str, KernelSpec]) -> list[str]:
    """The names of kernels, the most FLOPs first."""
    return sorted(names, key=lambda name: -kernels[name].flops)


def record_of_one(nanoseconds: float) -> KernelTimeRecord:
    """The record of a kernel that takes so long that one run says enough."""
    return KernelTimeRecord(nanoseconds, nanoseconds, nanoseconds, nanoseconds, 1)


@contextmanager
def on_device(
    driver: Driver, kernel: KernelSpec, task: Task
) -> Generator[tuple[list[PreparedLaunch], list[PreparedLaunch]]]:
    """The launches of a kernel on separate buffers, with random operands, while it is loaded.

    Second are those of the entry points that take pointers to buffers, for launches that have one.
    """
    functions = Functions(driver, Schedule(kernel.name, (), (task,)), {kernel.name: kernel})
    seconds = functions.indirect[kernel.name]
    try:
        block, addresses = _buffers(driver, task)
        places = [(number, 0) for number in range(len(addresses))] if any(seconds) else []
        pointers = Pointers(driver, addresses, places)
        try:
            direct = list[PreparedLaunch]()
            indirect = list[PreparedLaunch]()
            for (function, x), second in zip(functions.of[kernel.name], seconds, strict=True):
                shape = x.grid, x.block, x.shared_bytes
                direct.append(driver.call(function, *shape, [addresses[i] for i in x.args]))
                if second is not None:
                    at = [pointers.of[i, 0] for i in x.args]
                    indirect.append(driver.call(second, *shape, at, indirect=True))
            yield direct, indirect
        finally:
            pointers.close()
            driver.free(block)
    finally:
        functions.close()


def run_once(driver: Driver, calls: Sequence[PreparedLaunch], stream: Handle) -> float:
    """Nanoseconds of one run of some calls."""
    start, end = (driver.create_event(timing=True) for _ in range(2))
    try:
        driver.record(start, stream)
        for call in calls:
            driver.launch(call, stream)
        driver.record(end, stream)
        driver.synchronize_event(end)
        return driver.elapsed(start, end)
    finally:
        driver.destroy_event(start)
        driver.destroy_event(end)


def chain_time(
    driver: Driver,
    calls: Sequence[PreparedLaunch],
    flush: int,
    stream: Handle,
    samples: int,
    lengths: tuple[int, int] = (CHAIN, SHORT),
) -> Timing:
    """Nanoseconds of one link of a chain: a long chain's graph less a short one's."""
    with chain_sampler(driver, calls, flush, stream, lengths) as sample:
        times = [sample() for _ in range(WARM_UP + samples)]
    return summarize(times[WARM_UP:])


@contextmanager
def chain_sampler(
    driver: Driver,
    calls: Sequence[PreparedLaunch],
    flush: int,
    stream: Handle,
    lengths: tuple[int, int],
) -> Generator[Callable[[], float]]:
    """A function that runs both chains once and returns the nanoseconds of one link."""
    graphs = [_chain(driver, calls, flush, length) for length in lengths]
    executables = [driver.instantiate(graph, stream) for graph in graphs]
    events = tuple(driver.create_event(timing=True) for _ in range(2))

    def sample() -> float:
        long, short = (_elapsed(driver, executable, stream, events) for executable in executables)
        # noise may make the short chain take longer than the long one
        return max(0.0, long - short) / (lengths[0] - lengths[1])

    try:
        yield sample
    finally:
        for event in events:
            driver.destroy_event(event)
        for executable, graph in zip(executables, graphs, strict=True):
            driver.destroy_executable(executable)
            driver.destroy_graph(graph)


def _chain(driver: Driver, calls: Sequence[PreparedLaunch], flush: int, length: int) -> Handle:
    """A graph that repeats some calls, a flush of the cache before each turn if wanted."""
    graph = driver.create_graph()
    last = tuple[Handle, ...]()
    for _ in range(length):
        if flush:
            last = (driver.add_fill(graph, last, flush, 0, 2 * driver.device.l2_bytes),)
        for call in calls:
            last = (driver.add_call(graph, last, call),)
    return graph


def _elapsed(
    driver: Driver, executable: Handle, stream: Handle, events: tuple[Handle, Handle]
) -> float:
    """Nanoseconds between events around one run of a graph."""
    start, end = events
    driver.record(start, stream)
    driver.launch_graph(executable, stream)
    driver.record(end, stream)
    driver.synchronize_event(end)
    return driver.elapsed(start, end)


def _buffers(driver: Driver, task: Task) -> tuple[int, list[int]]:
    """A block with room for a task's operands and results, and their addresses; operands random."""
    views = task.reads + task.writes
    block = reserve(driver, sum(aligned(v.nbytes) for v in views), f"kernel {task.kernel!r}")
    ends = np.cumsum([0, *(aligned(view.nbytes) for view in views)])
    addresses = [block + int(end) for end in ends[:-1]]
    reads = [random_numbers(view.shape, view.dtype, i) for i, view in enumerate(task.reads)]
    upload(driver, list(zip(addresses, map(as_bytes, reads), strict=False)))
    return block, addresses
