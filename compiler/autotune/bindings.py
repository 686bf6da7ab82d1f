"""Runs of executors for timing, and the measured choice of how buffers that move are bound."""

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import cycle
from time import perf_counter, perf_counter_ns

from compiler.backends.gpu.arrays import DeviceArray
from compiler.backends.gpu.binding import Binding
from compiler.backends.gpu.executor import GpuExecutor
from compiler.backends.gpu.memory import reserve
from compiler.backends.gpu.random_inputs import fill_inputs
from compiler.choice.alternatives import Alternatives, choose
from compiler.choice.budget import Budget
from compiler.choice.judges import MeasuredJudge, Sampler
from compiler.choice.timing import WARM_UP
from compiler.schedule.choices import BINDING, Choice

BINDING_SAMPLES = 30
"""The most samples of each way to bind one buffer."""


@contextmanager
def running(executor: GpuExecutor) -> Generator[Sampler]:
    """The sampler of an executor's wall time, which is closed afterwards."""
    try:
        yield timed_run(executor)
    finally:
        executor.close()


def timed_run(executor: GpuExecutor) -> Sampler:
    """A function that runs on the executor's own buffers and returns the wall nanoseconds."""
    fill_inputs(executor)
    return partial(_wall_time, executor, executor.in_place("input"), executor.in_place("output"))


def _wall_time(
    executor: GpuExecutor, inputs: Mapping[str, DeviceArray], outputs: Mapping[str, DeviceArray]
) -> float:
    start = perf_counter_ns()
    executor.run(inputs, outputs=outputs)
    return perf_counter_ns() - start


def measure_bindings(executor: GpuExecutor, budget: Budget) -> Iterator[Choice]:
    """Time all ways to bind a buffer that moves, for each input and output, and set the fastest.

    Nothing is measured where the executor has no choice, and what is not measured when time is
    over stays as it is.
    """
    fill_inputs(executor)
    inputs = executor.in_place("input")
    outputs = executor.in_place("output")
    buffers = [(arrays, name) for arrays in (inputs, outputs) for name in arrays]
    end = perf_counter() + budget.seconds
    for arrays, name in buffers if executor.binds_freely else []:
        if not arrays[name].nbytes or perf_counter() >= end:
            continue
        with _moving(executor, inputs, outputs, arrays, name) as sampler:
            ways = (executor.bindings[name], *executor.ways(name))
            samplers = {way: partial(sampler, way) for way in ways}
            judge = MeasuredJudge[Sampler](nullcontext, budget.among(len(buffers)), BINDING_SAMPLES)
            choice = choose(Alternatives(BINDING + name, samplers), judge)
            executor.bind_by(name, next(way for way in ways if way == choice.chosen))
        yield choice


@contextmanager
def _moving(
    executor: GpuExecutor,
    inputs: dict[str, DeviceArray],
    outputs: dict[str, DeviceArray],
    arrays: dict[str, DeviceArray],
    name: str,
) -> Generator[Callable[[Binding], float]]:
    """A function that runs with one buffer, which `arrays` holds, elsewhere than in the last run.

    It takes the way in which the buffer is bound, and returns the wall nanoseconds.
    """
    original = arrays[name]
    driver = executor.driver
    addresses = [reserve(driver, original.nbytes, f"measuring {name!r}") for _ in range(2)]
    for address in addresses:
        driver.copy(address, original.address, original.nbytes, executor.stream)
    turn = cycle(DeviceArray(driver, original.allocation, address, None) for address in addresses)

    def run(binding: Binding) -> float:
        if executor.bindings[name] != binding:
            executor.bind_by(name, binding)
            for _ in range(WARM_UP):
                arrays[name] = next(turn)
                _wall_time(executor, inputs, outputs)
        arrays[name] = next(turn)
        return _wall_time(executor, inputs, outputs)

    try:
        yield run
    finally:
        arrays[name] = original
        for address in addresses:
            driver.free(address)
