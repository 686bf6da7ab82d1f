"""Measures a bundle's candidates on a device, without TVM: warm and cold, wrong ones excluded."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from time import perf_counter
from typing import Any

import numpy as np

from compiler.analysis.packing import apply_packing
from compiler.backends.gpu.driver import Call, Driver, Handle
from compiler.backends.gpu.memory import Pinned, aligned, as_bytes, reserve, upload
from compiler.backends.memory import Array, numpy_dtype
from compiler.errors import DeviceError
from compiler.profile.measure import chain_time
from compiler.schedule import ELEMENT_BYTES, Launch
from compiler.tuning.bundle import Buffer, Bundle, Candidate, Kernel
from compiler.tuning.results import Header, Result, ResultFile

SAMPLES, COLD_SAMPLES = 7, 5
COLD_LENGTHS = (8, 2)
"""Links of two chains that are timed with a flush of the cache before each."""

COLD_WITHIN = 1.25
"""Cold times are taken of candidates that are at most this much slower than the best so far."""

BOUND = 0.02
"""How far from the reference, against its largest value, tensor cores' sums may be."""

SHARED_BYTES = 48 << 10
POISON = 0xFF
"""Every byte of a result before a launch: NaN in each float type."""

Compiled = Iterator[tuple[int, bytes | str]]
Compiler = Callable[[Sequence[str]], Compiled]


def device_name(driver: Driver) -> str:
    """The architecture and the number of processors, which decide what is fast."""
    return f"{driver.device.architecture}/{driver.device.multiprocessors}"


@dataclass
class _Progress:
    total: int
    told: Callable[[str], None]
    done: int = 0
    start: float = 0.0

    def step(self, clock: Callable[[], float]) -> None:
        """Count one, and tell of every fiftieth how long the rest will take."""
        self.done += 1
        if self.done % 50 == 0 or self.done == self.total:
            rest = (clock() - self.start) / self.done * (self.total - self.done)
            self.told(f"{self.done}/{self.total} candidates, {rest:.0f} s left")


def measure(
    driver: Driver,
    bundle: Bundle,
    results: ResultFile,
    compile_texts: Compiler,
    seconds: float = float("inf"),
    told: Callable[[str], None] = lambda line: None,
    clock: Callable[[], float] = perf_counter,
) -> int:
    """Measure what has no result yet, heavy kernels first, until time is over; returns how many.

    Raises DeviceError when a candidate makes the device unusable: it is recorded, and the next run
    goes on behind it.
    """
    known = {(result.key, result.tile) for result in results.found}
    open_keys = {
        k.key for k in bundle.kernels for c in k.candidates if (k.key, c.tile) not in known
    }
    wanted = [
        (kernel, candidate)
        for kernel, candidate in bundle.in_turns()
        if (kernel.key, candidate.tile) not in known
        or (kernel.key in open_keys and candidate is kernel.candidates[0])
    ]
    progress = _Progress(len(wanted), told, start=clock())
    bench = _Bench(driver, results, known)
    compiled = compile_texts([candidate.text for _, candidate in wanted])
    try:
        for number, code in compiled:
            if clock() - progress.start >= seconds:
                told(f"time is over: {progress.total - progress.done} candidates are left")
                break
            bench.take(*wanted[number], code)
            progress.step(clock)
    finally:
        if close := getattr(compiled, "close", None):
            close()
        bench.close()
    return progress.done


class _Bench:
    """The buffers of a device on which candidates run, and the outputs to compare with."""

    def __init__(self, driver: Driver, results: ResultFile, known: set[Any]) -> None:
        driver.make_current()
        self.driver, self.results, self.known = driver, results, known
        self.stream = driver.create_stream()
        self.flush_bytes = 2 * driver.device.l2_bytes
        self.flush = reserve(driver, self.flush_bytes, "flushing the cache")
        lengths = COLD_LENGTHS
        self.flush_ns = chain_time(driver, (), self.flush, self.stream, SAMPLES, lengths).median
        self.references: dict[str, Array] = {}
        self.waiting: dict[str, list[tuple[Candidate, bytes | str]]] = {}
        self.best: dict[str, float] = {}

    def take(self, kernel: Kernel, candidate: Candidate, code: bytes | str) -> None:
        """Measure a candidate, once the one that it is compared with has run."""
        first = candidate is kernel.candidates[0]
        if not first and kernel.key not in self.references:
            self.waiting.setdefault(kernel.key, []).append((candidate, code))
            return
        self._take(kernel, candidate, code)
        for each in self.waiting.pop(kernel.key, ()) if first else ():
            self._take(kernel, *each)

    def _take(self, kernel: Kernel, candidate: Candidate, code: bytes | str) -> None:
        blank = Result(kernel.key, candidate.tile, weight=kernel.weight)
        if isinstance(code, str):
            self._add(replace(blank, problem=code[:300]))
            if candidate is kernel.candidates[0]:
                self.references.setdefault(kernel.key, np.empty(0, np.uint8))
            return
        try:
            self._add(self._run(kernel, candidate, code, blank))
        except DeviceError as error:
            self._add(replace(blank, problem=f"{error}"[:300]))
            self.driver.synchronize_stream(self.stream)  # raises if the device is lost

    def _add(self, result: Result) -> None:
        if (result.key, result.tile) not in self.known:
            self.known.add((result.key, result.tile))
            self.results.add(result)

    def _run(self, kernel: Kernel, candidate: Candidate, code: bytes, blank: Result) -> Result:
        module = self.driver.load_module(code)
        block, addresses = _place(self.driver, kernel, candidate)
        try:
            calls = [_call(self.driver, module, x, addresses) for x in candidate.launches]
            outputs = self._outputs(kernel, calls, addresses)
            problem = self._differs(kernel, outputs)
            return replace(blank, problem=problem) if problem else self._time(calls, blank)
        finally:
            self.driver.free(block)
            self.driver.unload_module(module)

    def _outputs(self, kernel: Kernel, calls: Sequence[Call], addresses: list[int]) -> Array:
        """The results of one run on poisoned buffers, one after the other."""
        driver, stream = self.driver, self.stream
        places = addresses[len(kernel.reads) :][: len(kernel.writes)]
        sizes = [nbytes(each) for each in kernel.writes]
        for address, size in zip(places, sizes, strict=True):
            driver.fill(address, POISON, size, stream)
        for call in calls:
            driver.launch(call, stream)
        pinned, ends = Pinned(driver, sum(sizes)), np.cumsum([0, *sizes])
        for address, size, end in zip(places, sizes, ends, strict=False):
            driver.copy(pinned.address + int(end), address, size, stream)
        driver.synchronize_stream(stream)
        found = pinned.bytes.copy()
        pinned.close()
        return found

    def _differs(self, kernel: Kernel, outputs: Array) -> str:
        """What is wrong with results; empty if nothing is. The first results are the reference."""
        reference = self.references.get(kernel.key)
        if reference is None or reference.size == 0:
            self.references[kernel.key] = outputs
            return ""
        start = 0
        for buffer in kernel.writes:
            end = start + nbytes(buffer)
            if not agree(outputs[start:end], reference[start:end], buffer.dtype):
                return "wrong: the results differ from the reference's"
            start = end
        return ""

    def _time(self, calls: Sequence[Call], blank: Result) -> Result:
        driver, stream = self.driver, self.stream
        warm, cold = chain_time(driver, calls, 0, stream, SAMPLES).median, None
        best = min(warm, self.best.get(blank.key, warm))
        self.best[blank.key] = best
        if warm <= COLD_WITHIN * best:
            timing = chain_time(driver, calls, self.flush, stream, COLD_SAMPLES, COLD_LENGTHS)
            cold = max(warm, timing.median - self.flush_ns)
        return replace(blank, warm=round(warm, 1), cold=None if cold is None else round(cold, 1))

    def close(self) -> None:
        """Give the device's memory back."""
        self.driver.free(self.flush)
        self.driver.destroy_stream(self.stream)


def agree(outputs: Array, reference: Array, dtype: str) -> bool:
    """Whether bytes of results of one type agree; NaN agrees with NaN alone."""
    kind = numpy_dtype(dtype)
    one, other = outputs.view(kind), reference.view(kind)
    if "float" not in dtype:
        return bool((one == other).all())
    a, b = one.astype(np.float32), other.astype(np.float32)
    finite = np.isfinite(b)
    if not np.array_equal(finite, np.isfinite(a)) or not finite.any():
        return np.array_equal(a, b, equal_nan=True)
    same = np.array_equal(a[~finite], b[~finite], equal_nan=True)
    a, b = a[finite], b[finite]
    return same and float(np.abs(a - b).max()) <= BOUND * float(np.abs(b).max())


def nbytes(buffer: Buffer) -> int:
    """Bytes of a buffer before packing."""
    return prod(buffer.shape) * ELEMENT_BYTES[buffer.dtype]


def _call(driver: Driver, module: Handle, launch: Launch, addresses: Sequence[int]) -> Call:
    function = driver.function(module, launch.symbol)
    if launch.shared_bytes + driver.function_info(function).shared_bytes > SHARED_BYTES:
        driver.allow_shared(function, launch.shared_bytes)
    arguments = [addresses[i] for i in launch.args]
    return driver.call(function, launch.grid, launch.block, launch.shared_bytes, arguments)


_inputs: dict[str, list[Array]] = {}


def _place(driver: Driver, kernel: Kernel, candidate: Candidate) -> tuple[int, list[int]]:
    """A block of device memory with a kernel's operands in it, and the address of each buffer."""
    if kernel.key not in _inputs:
        _inputs.clear()
        chance = np.random.default_rng(0)
        _inputs[kernel.key] = [_random(chance, buffer) for buffer in kernel.reads]
    reads = _inputs[kernel.key]
    sizes = [r.size for r in reads] + [nbytes(w) for w in kernel.writes] + [*candidate.scratch]
    ends = np.cumsum([0, *map(aligned, sizes)])
    block = reserve(driver, int(ends[-1]), f"kernel {kernel.name!r}")
    addresses = [block + int(end) for end in ends[:-1]]
    upload(driver, list(zip(addresses, reads, strict=False)))
    return block, addresses


def _random(chance: np.random.Generator, buffer: Buffer) -> Array:
    """Bytes of random numbers, packed; integers are 0 or 1, which are valid indices."""
    floats = 0.25 * chance.standard_normal(buffer.shape, np.float32)
    data = floats if "float" in buffer.dtype else chance.integers(0, 2, buffer.shape)
    data = np.ascontiguousarray(data.astype(numpy_dtype(buffer.dtype)))
    return as_bytes(apply_packing(data, buffer.packing))


def header_of(driver: Driver, bundle: Bundle) -> Header:
    """What this device's results of a bundle belong to; DeviceError for another architecture."""
    if driver.device.architecture != bundle.arch:
        raise DeviceError(
            f"the bundle is for {bundle.arch}, the device is {driver.device.architecture}: prepare"
            f" one with --arch {driver.device.architecture}"
        )
    return Header(bundle.arch, device_name(driver), bundle.version)
