"""What only a GPU can show; each check raises on failure and returns one line of figures.

They run as tests marked `gpu`, and all at once by `tests/gpu_check.py`, which needs no pytest.
"""

import asyncio
import random
import threading
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compiler.backends.cuda.device import device
from compiler.backends.gpu.arrays import DeviceArray
from compiler.backends.gpu.executable import GpuExecutable
from compiler.backends.gpu.memory import Pinned
from compiler.errors import DeviceError
from compiler.schedule.kernels import KernelSpec, Launch
from compiler.schedule.tasks import Allocation, Schedule, Task, View
from compiler.target.nvrtc import compile_cuda
from tests.backends.gpu.cases import Case, case

Words = NDArray[np.uint32]

WAITS = {
    "none": "",
    "random": """{ unsigned seed = blockIdx.x * 2654435761u ^ (unsigned)clock64();
  seed ^= seed >> 13; long long end = clock64() + (seed * 2246822519u >> 17);
  while (clock64() < end) { } }""",
    "work": "{ long long end = clock64() + 6000; while (clock64() < end) { } }",
}
"""What every kernel does first: nothing, up to 17 us of random delay in each block, or 3 us."""


def load(found: Case, wait: str = "none", **options: Any) -> GpuExecutable:
    """A case on the device, all its kernels in one cubin."""
    driver = device()
    text = f"#define WAIT {' '.join(WAITS[wait].split())}\n"
    text += "".join(mix.cuda() for mix in found.functions.values())
    image = compile_cuda(text, driver.device.architecture)
    return GpuExecutable.load(
        driver, found.schedule, found.specs(lambda _: image), found.weights, **options
    )


class OnDevice:
    """Device memory of our own that offers the array interface."""

    def __init__(self, array: Words, shift: int = 0) -> None:
        self.shape, self.nbytes = array.shape, array.nbytes
        self._block = device().allocate(array.nbytes + shift)
        self.address = self._block + shift
        self.set(array)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        data = (self.address, False)
        return {"shape": self.shape, "typestr": "<u4", "data": data, "version": 3}

    def set(self, array: Words) -> None:
        """Overwrite the memory and wait."""
        pinned = Pinned(device(), self.nbytes)
        pinned.bytes[:] = array.view(np.uint8)
        self._copy(self.address, pinned.address)
        pinned.close()

    def get(self) -> Words:
        """Wait for the device, then the memory's contents."""
        pinned = Pinned(device(), self.nbytes)
        self._copy(pinned.address, self.address)
        array = pinned.bytes.view(np.uint32).copy()
        pinned.close()
        return array

    def _copy(self, destination: int, source: int) -> None:
        driver = device()
        driver.make_current()
        stream = driver.create_stream(ordered_with_default=True)
        driver.copy(destination, source, self.nbytes, stream)
        driver.synchronize_stream(stream)
        driver.destroy_stream(stream)

    def close(self) -> None:
        """Free the memory."""
        device().free(self._block)


def equal(found: dict[str, Any], expected: dict[str, Words], what: str) -> None:
    """Raise unless every output has exactly the expected bits."""
    assert list(found) == list(expected), what
    for name, array in expected.items():
        np.testing.assert_array_equal(np.asarray(found[name]), array, f"{what}: {name}")


def outputs_on_device(found: Case) -> dict[str, OnDevice]:
    """Poisoned device arrays for every output."""
    return {
        a.name: OnDevice(np.full(a.shape, 0xA5A5A5A5, np.uint32))
        for a in found.schedule.of_kind("output")
    }


OPTIONS: list[dict[str, Any]] = [
    {"mode": "graph"},
    {"mode": "graph", "children": True},
    {"mode": "subgraphs"},
    {"mode": "streams"},
]


def check_device() -> str:
    """The device can be described."""
    info = device().device
    assert info.bandwidth > 100
    free = device().free_memory() >> 20
    return (
        f"{info.name} {info.architecture}, {info.multiprocessors} SMs, driver "
        f"{info.driver_version}, {info.clock_khz / 1e3:.0f} MHz, {info.bandwidth:.0f} B/ns, "
        f"{free} MiB free, priorities {device().priorities}"
    )


def check_modes(wait: str = "none", seeds: int = 4) -> str:
    """Random schedules over 1 to 8 streams give numpy's bits in every mode."""
    count = 0
    for streams in (1, 2, 3, 4, 8):
        for seed in range(seeds):
            found = case(100 * streams + seed, tasks=30, streams=streams, words=300)
            for options in OPTIONS:
                executable = load(found, wait, **options)
                for run in range(3):
                    inputs = found.inputs(run)
                    equal(executable.run(inputs), found.expected(inputs), f"{streams} {options}")
                    count += 1
                executable.close()
    return f"{count} runs equal"


def check_random_delays() -> str:
    """The same with random delays in every block of every kernel."""
    return check_modes("random", 3)


def check_early_launches(seeds: int = 8) -> str:
    """Programmatic edges and delays before random tasks change no bit in any mode."""
    count = 0
    for seed in range(seeds):
        found = case(900 + seed, tasks=40, streams=1 + seed % 4, words=3000)
        inputs = found.inputs(seed)
        for options in OPTIONS:
            for extra in ({"pdl": False}, {}, {"delays": seed}, {"delays": seed, "pdl": False}):
                executor = load(found, "random", **options, **extra).executor()
                for _ in range(5):
                    equal(executor.run(inputs), found.expected(inputs), f"{options} {extra}")
                    count += 1
                executor.close()
    return f"{count} runs equal"


def check_replays(runs: int = 1000) -> str:
    """Many runs with changing inputs, in memory that moves, bound in every way."""
    found = case(7, tasks=30, streams=4, words=200)
    updates = 0
    for binding in ("update", "copy", "indirection"):
        names = [a.name for a in found.schedule.allocations if a.kind in ("input", "output")]
        executor = load(found, bindings=dict.fromkeys(names, binding), updates=10**6).executor()
        places = [{n: OnDevice(a) for n, a in found.inputs(0).items()} for _ in range(3)]
        targets = [outputs_on_device(found) for _ in range(2)]
        for run in range(runs):
            inputs, arrays, outputs = found.inputs(run), places[run % 3], targets[run % 2]
            for name, array in arrays.items():
                array.set(inputs[name])
            executor.run(arrays, outputs=outputs)
            got = {name: each.get() for name, each in outputs.items()}
            equal(got, found.expected(inputs), f"{binding} run {run}")
            updates += 1
        executor.close()
    return f"{updates} runs equal"


def check_host_replays(runs: int = 300) -> str:
    """Runs with numpy arrays, mixed with runs on the device, in every mode."""
    found = case(8, tasks=20, streams=3, words=200)
    for options in OPTIONS:
        executor = load(found, **options).executor()
        for run in range(runs):
            inputs = found.inputs(run)
            given = {
                name: OnDevice(array) if (run + number) % 3 == 0 else array
                for number, (name, array) in enumerate(inputs.items())
            }
            equal(executor.run(given), found.expected(inputs), f"{options} run {run}")
            for each in given.values():
                if isinstance(each, OnDevice):
                    each.close()
        executor.close()
    return f"{runs * len(OPTIONS)} runs equal"


def check_misaligned_and_overlapping() -> str:
    """A buffer that is not aligned, and an output that is an input's memory, still work."""
    found = case(11, tasks=20, streams=3, words=64)
    inputs = found.inputs(1)
    executor = load(found).executor()
    shifted = {name: OnDevice(array, shift=4) for name, array in inputs.items()}
    equal(executor.run(shifted), found.expected(inputs), "misaligned")
    name, allocation = next((a.name, a) for a in found.schedule.of_kind("output"))
    first = next(iter(inputs))
    size = max(allocation.shape[0], inputs[first].size)
    shared = OnDevice(np.zeros(size, np.uint32))
    source, target = Part(shared, inputs[first].size), Part(shared, allocation.shape[0])
    padded = np.zeros(size, np.uint32)
    padded[: inputs[first].size] = inputs[first]
    shared.set(padded)
    executor.run({**inputs, first: source}, outputs={name: target})
    expected = found.expected(inputs)[name]
    np.testing.assert_array_equal(shared.get()[: expected.size], expected)
    return "equal"


class Part:
    """The first words of device memory."""

    def __init__(self, whole: OnDevice, words: int) -> None:
        data, self._whole = (whole.address, False), whole
        self.__cuda_array_interface__ = {
            "shape": (words,), "typestr": "<u4", "data": data, "version": 3
        }  # fmt: skip


def check_crosswise(runs: int = 30) -> str:
    """Arrays anywhere in the executor's own buffers, of inputs and outputs, lose nothing."""
    found, chance = case(33, tasks=20, streams=3, words=300), random.Random(1)
    names = [a.name for a in found.schedule.allocations if a.kind in ("input", "output")]
    for options in OPTIONS:
        ways = {name: chance.choice(("copy", "update", "indirection")) for name in names}
        executor = load(found, "random", bindings=ways, **options).executor()
        places = [a for kind in ("input", "output") for a in executor.in_place(kind).values()]
        start, end = places[0].address, places[-1].address + places[-1].nbytes
        for run in range(runs):
            values, inputs = found.inputs(run), executor.in_place("input")
            for name, array in inputs.items():
                address = chance.randrange(start, end - array.nbytes, 4)
                inputs[name] = DeviceArray(array.driver, array.allocation, address, executor)
            values |= {name: array.numpy().view(np.uint32) for name, array in inputs.items()}
            result = executor.run(inputs)
            equal(result, found.expected(values), f"{options} {run}")
        executor.close()
    return f"{runs * len(OPTIONS)} runs equal"


def check_two_threads(runs: int = 200) -> str:
    """Two threads with an executor each, on one module's weights, in every mode."""
    found, failures = case(9, tasks=30, streams=4, words=300), list[BaseException]()

    def work(executable: GpuExecutable, seed: int, options: dict[str, Any]) -> None:
        try:
            executor = executable.executor(**options)
            for run in range(runs):
                inputs = found.inputs(1000 * seed + run)
                equal(executor.run(inputs), found.expected(inputs), f"thread {seed} run {run}")
            executor.close()
        except BaseException as error:
            failures.append(error)

    for options in OPTIONS:
        executable = load(found, "random")
        threads = [threading.Thread(target=work, args=(executable, s, options)) for s in (1, 2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]
    return f"{2 * runs * len(OPTIONS)} runs equal"


def check_shared_executor() -> str:
    """Four threads on one executor get their own results."""
    found, failures = case(10, tasks=20, streams=4, words=100), list[BaseException]()
    executable = load(found)

    def work(seed: int) -> None:
        try:
            for run in range(100):
                inputs = found.inputs(1000 * seed + run)
                equal(executable.run(inputs), found.expected(inputs), f"thread {seed}")
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return "400 runs equal"


def check_asynchronous(runs: int = 60) -> str:
    """Runs queued on changing streams, waited for by event and awaited."""
    found = case(12, tasks=30, streams=4, words=200)
    driver = device()
    streams = [driver.handle_address(driver.create_stream()) for _ in range(3)]
    for options in OPTIONS:
        executor = load(found, "random", **options).executor()
        for run in range(runs):
            inputs = found.inputs(run)
            queued = executor.submit(inputs, stream=streams[run % 3])
            if run % 2:
                equal(queued.wait(), found.expected(inputs), f"{options} {run}")
            else:
                equal(asyncio.run(awaited(queued)), found.expected(inputs), f"{options} {run}")
            assert queued.done()
        executor.close()
    return f"{len(OPTIONS) * runs} runs equal"


async def awaited(queued: Any) -> dict[str, Any]:
    """Await a run."""
    return await queued


def check_torch() -> str:
    """PyTorch's tensors and streams, by array interface and DLPack, without a copy."""
    torch: Any = import_module("torch")
    found = case(13, tasks=30, streams=4, words=200)
    executor = load(found, "random").executor()
    side = torch.cuda.Stream()
    for run in range(50):
        inputs = found.inputs(run)
        stream = side if run % 2 else None
        with torch.cuda.stream(side if run % 2 else torch.cuda.default_stream()):
            signed = {n: torch.from_numpy(a.view(np.int32)).cuda() for n, a in inputs.items()}
            tensors = {name: each.view(torch.uint32) for name, each in signed.items()}
            outputs = executor.submit(tensors, outputs="device", stream=stream)
            results = {n: torch.from_dlpack(o).clone() for n, o in outputs.wait().items()}
            got = {n: r.view(torch.int32).cpu().numpy().view(np.uint32) for n, r in results.items()}
        equal(got, found.expected(inputs), f"run {run}")
    return f"50 runs equal, torch {torch.__version__}"


def check_cupy() -> str:
    """CuPy's arrays in, and out by array interface and DLPack."""
    cupy: Any = import_module("cupy")
    found = case(14, tasks=30, streams=4, words=200)
    executor = load(found, "random").executor()
    for run in range(30):
        inputs = found.inputs(run)
        arrays = {name: cupy.asarray(array) for name, array in inputs.items()}
        outputs = executor.run(arrays, outputs="device")
        read = cupy.asarray if run % 2 else cupy.from_dlpack
        got = {name: cupy.asnumpy(read(array)) for name, array in outputs.items()}
        equal(got, found.expected(inputs), f"run {run}")
        equal({n: a.numpy() for n, a in outputs.items()}, got, f"run {run}")
    return "30 runs equal"


def one_kernel(arena: int = 0, shared: int = 0, code: bytes = b"") -> Case:
    """A case of one task that reads x and writes y; `arena` bytes are reserved in vain."""
    found = case(1, tasks=0, streams=1, words=8)
    schedule = found.schedule
    spare = Allocation("arena", "arena", "uint8", (arena or schedule.allocations[0].nbytes,))
    return Case(
        Schedule("one", (spare, *schedule.allocations[1:]), schedule.tasks),
        found.kernels,
        found.weights,
    )


def expect(kind: type[Exception], words: tuple[str, ...], action: Callable[[], object]) -> str:
    """The message of an error that must occur and hold some words."""
    message = ""
    try:
        action()
    except kind as error:
        message = str(error)
    assert message, f"no {kind.__name__}"
    assert all(word in message for word in words), message
    return message


def check_out_of_memory() -> str:
    """Too large an arena is an error that says how much was needed and how much is free."""
    executable = load(one_kernel(arena=4 << 40))
    return expect(DeviceError, ("4194304.0 MiB", "free"), executable.executor)[:90]


def check_wrong_architecture() -> str:
    """A cubin of another architecture is an error that names the kernel and the remedy."""
    found = one_kernel()
    text = "#define WAIT\n" + "".join(mix.cuda() for mix in found.functions.values())
    other = "sm_80" if device().device.architecture != "sm_80" else "sm_90"
    specs = found.specs(lambda _: compile_cuda(text, other))
    return expect(
        DeviceError,
        ("k0", "--arch"),
        lambda: GpuExecutable.load(device(), found.schedule, specs, found.weights),
    )[:90]


SHARED_KERNEL = """
extern "C" __global__ void reverse(const unsigned *x, unsigned *y) {
  extern __shared__ unsigned tile[];
  for (int i = threadIdx.x; i < 40000; i += blockDim.x) tile[i] = x[i];
  __syncthreads();
  for (int i = threadIdx.x; i < 40000; i += blockDim.x) y[i] = tile[39999 - i];
}
"""


def check_large_shared_memory() -> str:
    """A kernel with 160 kB of dynamic shared memory runs; one with 300 kB is refused."""
    size, driver = 40000, device()
    image = compile_cuda(SHARED_KERNEL, driver.device.architecture)
    tensors = (
        Allocation("input", "x", "uint32", (size,)),
        Allocation("output", "y", "uint32", (size,)),
    )
    views = [View(index, 0, "uint32", (size,)) for index in (0, 1)]
    task = Task("reverse", 0, (), (views[0],), (views[1],))
    schedule = Schedule("shared", tensors, (task,))

    def make(nbytes: int) -> GpuExecutable:
        launch = Launch("reverse", (0, 1), (1, 1, 1), (1024, 1, 1), nbytes)
        spec = KernelSpec("reverse", "cuda", image, (launch,), ("",))
        return GpuExecutable.load(driver, schedule, {"reverse": spec}, {})

    x = np.arange(size, dtype=np.uint32)
    np.testing.assert_array_equal(make(4 * size).run({"x": x})["y"], x[::-1])
    return expect(DeviceError, ("reverse", "shared memory"), lambda: make(300_000))


def check_alternative() -> str:
    """Another schedule of the same kernels shares the weights that are on the device."""
    found = case(16, tasks=30, streams=4, words=300)
    one = replace(found.schedule, tasks=tuple(replace(t, stream=0) for t in found.schedule.tasks))
    executable, inputs = load(found), found.inputs(1)
    free = device().free_memory()
    other = executable.alternative(one)
    assert device().free_memory() == free
    equal(other.run(inputs), found.expected(inputs), "one stream")
    equal(executable.run(inputs), found.expected(inputs), "four streams")
    return "equal"


def check_poison() -> str:
    """With the arena and outputs filled before each run, results stay the same."""
    found = case(17, tasks=30, streams=4, words=300)
    for options in OPTIONS:
        executor = load(found, poison=True, **options).executor()
        outputs = outputs_on_device(found)
        for run in range(3):
            inputs = found.inputs(run)
            equal(executor.run(inputs), found.expected(inputs), f"{options} {run}")
            executor.run(inputs, outputs=outputs)
            got = {name: each.get() for name, each in outputs.items()}
            equal(got, found.expected(inputs), f"{options} {run}")
    return "equal"


CHECKS: tuple[Callable[[], str], ...] = (
    check_device,
    check_modes,
    check_random_delays,
    check_early_launches,
    check_replays,
    check_host_replays,
    check_misaligned_and_overlapping,
    check_crosswise,
    check_two_threads,
    check_shared_executor,
    check_asynchronous,
    check_torch,
    check_cupy,
    check_out_of_memory,
    check_wrong_architecture,
    check_large_shared_memory,
    check_alternative,
    check_poison,
)
