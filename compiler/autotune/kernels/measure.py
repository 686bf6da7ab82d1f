"""Measures a bundle's candidates on a device, without TVM: warm and cold, wrong ones excluded."""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from math import prod
from time import perf_counter
from typing import Protocol

import numpy as np

from compiler.autotune.kernels.bundle import Bundle, KernelCandidate, OperandBuffer, TunableKernel
from compiler.autotune.kernels.results import Header, Identity, Result, ResultList
from compiler.autotune.profile import (
    COLD_LENGTHS,
    ENOUGH_NS,
    chain_sampler,
    chain_time,
    run_once,
)
from compiler.autotune.trials import TrialError, TrialUnavailableError, trials_on
from compiler.backends.gpu.driver import Driver, Handle, PreparedLaunch
from compiler.backends.gpu.memory import Pinned, aligned, as_bytes, reserve, upload
from compiler.backends.gpu.random_inputs import random_numbers
from compiler.backends.memory import POISON, Array
from compiler.choice.timing import MOST_SECONDS, Timing, time_all
from compiler.errors import DeviceError
from compiler.graph.packing import apply_packing, packed_shape
from compiler.progress import PartEnded, PartsBegan, notify
from compiler.schedule.kernels import KernelSpec, Launch
from compiler.schedule.tasks import Task, View
from compiler.target.devices import DEFAULT_SHARED_BYTES
from compiler.target.nvrtc import nvrtc_version
from compiler.tensors.dtypes import ELEMENT_BYTES, numpy_dtype

WARM_SAMPLES = 7
COLD_SAMPLES = 5
CHAIN_NS = 200e3
LINKS = (2, 20)
"""How much longer the longer of two warm chains takes, and its fewest and most further links."""

COLD_WITHIN = 1.25
"""Cold times are taken of candidates that are at most this much slower than the best so far."""

GIVEN_UP = 2.0
"""A candidate that takes this many times the best is given up."""

LONG_NS = 20e3
"""Up to this time launching may be what takes long: no candidate is given up."""

PROBES = 3
"""Launches by which a candidate is first judged."""

TRIES = 3
"""How often a candidate that seems slow is judged: other processes can keep the host from
launching, which looks as if the kernel took that time."""

PLACED_BYTES = 2 << 30
PLACED_PART = 0.5
"""The most bytes of kernels' operands that stay on the device until those of others need the room,
and the part of its free memory."""

BOUND = 0.02
"""How far from the reference, against its largest value, tensor cores' sums may be."""

COMPARED_SECONDS = 0.25
COMPARED_SAMPLES = 25
"""How long, and how often at most, candidates are run in alternation to compare them."""

CompiledTexts = Iterator[tuple[int, bytes | str]]
TextCompiler = Callable[[Sequence[str]], CompiledTexts]


def device_name(driver: Driver) -> str:
    """The architecture, the number of SMs and the name, which decide what is fast."""
    device = driver.device
    return f"{device.architecture}/{device.multiprocessors} {device.name}"


class ResultSink(Protocol):
    """Takes results, such as a file."""

    def add(self, result: Result) -> None:
        """Keep a result."""


def measure(
    driver: Driver,
    bundle: Bundle,
    results: ResultList,
    compile_texts: TextCompiler,
    seconds: float = float("inf"),
    report: Callable[[str], None] = lambda line: None,
    clock: Callable[[], float] = perf_counter,
) -> int:
    """Measure candidates without a result, heavy kernels first, until time is over; their number.

    Raises DeviceError when a candidate makes the device unusable: it is recorded, and the next run
    goes on after it.
    """
    measured = {result.identity for result in results.found}
    pending = _pending(bundle, measured)
    if not pending:
        report("every candidate was measured before")
        return 0
    start = clock()
    done = 0
    notify(PartsBegan("measure", len(pending)))
    bench = CandidateBench(driver, results, measured)
    compiled = compile_texts([candidate.text for _, candidate in pending])
    try:
        for number, code in compiled:
            if (begun := clock()) - start >= seconds:
                report(f"time is over: {len(pending) - done} candidates are left")
                break
            bench.take(*pending[number], code)
            done += 1
            notify(PartEnded("measure", pending[number][0].name, clock() - begun))
    finally:
        # closing a generator ends its compiling processes, also where time was over
        if close := getattr(compiled, "close", None):
            close()
        bench.close()
    return done


def unmeasured(bundle: Bundle, results: Iterable[Result]) -> Bundle:
    """The kernels that have a candidate without a result."""
    measured = {result.identity for result in results}
    kernels = (
        kernel
        for kernel in bundle.kernels
        if any((kernel.key, c.config, kernel.version) not in measured for c in kernel.candidates)
    )
    return replace(bundle, kernels=tuple(kernels))


def _pending(bundle: Bundle, done: set[Identity]) -> list[tuple[TunableKernel, KernelCandidate]]:
    """The candidates that have no result yet, and the references to compare them with."""
    missing = {
        (k.key, c.config)
        for k in bundle.kernels
        for c in k.candidates
        if (k.key, c.config, k.version) not in done
    }
    open_keys = {key for key, _ in missing}
    return [
        (kernel, candidate)
        for kernel, candidate in bundle.in_turns()
        if (kernel.key, candidate.config) in missing
        or (kernel.key in open_keys and candidate is kernel.candidates[0])
    ]


class CandidateBench:
    """The buffers of a device on which candidates run, and the outputs to compare with.

    Each runs in a trial first: one that does not end there is left out, and so is one whose error
    would make this process's context unusable. Results go to `results`, but for those of
    candidates that are `measured`, by identity.
    """

    def __init__(self, driver: Driver, results: ResultSink, measured: set[Identity]) -> None:
        driver.make_current()
        self.driver = driver
        self.results = results
        self.measured = measured
        self.stream = driver.create_stream()
        self.flush_bytes = 2 * driver.device.l2_bytes
        self.flush = reserve(driver, self.flush_bytes, "flushing the cache")
        self.flush_ns = chain_time(
            driver, (), self.flush, self.stream, WARM_SAMPLES, lengths=COLD_LENGTHS
        ).median
        self.references: dict[str, Array] = {}
        self.waiting: dict[str, list[tuple[KernelCandidate, bytes | str]]] = {}
        self.placed: dict[str, tuple[Handle, list[int]]] = {}
        self.room = min(PLACED_BYTES, int(PLACED_PART * driver.free_memory()))
        self.taken: dict[str, int] = {}
        self.best: dict[str, float] = {}
        self.events = [driver.create_event(timing=True) for _ in range(2)]
        self.pinned: Pinned | None = None
        self.trials = trials_on(driver)
        self.trials.start()

    def take(self, kernel: TunableKernel, candidate: KernelCandidate, code: bytes | str) -> None:
        """Measure a candidate, once the one that it is compared with has run."""
        first = candidate is kernel.candidates[0]
        if not first and kernel.key not in self.references:
            self.waiting.setdefault(kernel.key, []).append((candidate, code))
            return
        self._take(kernel, candidate, code)
        for waiting in self.waiting.pop(kernel.key, ()) if first else ():
            self._take(kernel, *waiting)

    def _take(self, kernel: TunableKernel, candidate: KernelCandidate, code: bytes | str) -> None:
        blank = Result(kernel.key, candidate.config, kernel.version, weight=kernel.weight)
        if isinstance(code, str):
            self._fail(kernel, candidate, replace(blank, problem=code[:300]))
            return
        try:
            self._add(self._run(kernel, candidate, code, blank))
        except TrialError as error:
            self._fail(kernel, candidate, replace(blank, problem=f"{error}"[:300]))
        except TrialUnavailableError:
            raise
        except DeviceError as error:
            self._fail(kernel, candidate, replace(blank, problem=f"{error}"[:300]))
            self.driver.synchronize_stream(self.stream)  # raises if the device is lost

    def _fail(self, kernel: TunableKernel, candidate: KernelCandidate, result: Result) -> None:
        """Record a failure; without the first candidate's results others are not waited for."""
        self._add(result)
        if candidate is kernel.candidates[0]:
            self.references.setdefault(kernel.key, np.empty(0, np.uint8))

    def _add(self, result: Result) -> None:
        if result.identity not in self.measured:
            self.measured.add(result.identity)
            self.results.add(result)

    def _run(
        self, kernel: TunableKernel, candidate: KernelCandidate, code: bytes, blank: Result
    ) -> Result:
        # A candidate as a kernel with a task, for its trial.
        packed = [packed_shape(buffer.shape, buffer.packing) for buffer in kernel.reads]
        reads = [View(0, 0, b.dtype, shape) for b, shape in zip(kernel.reads, packed, strict=True)]
        writes = [View(0, 0, buffer.dtype, buffer.shape) for buffer in kernel.writes]
        scratch = [View(0, 0, "uint8", (nbytes,)) for nbytes in candidate.scratch]
        spec = KernelSpec(
            name=kernel.name,
            language=self.driver.language,
            code=code,
            launches=candidate.launches,
            packings=("",) * len(reads),
            workspaces=candidate.scratch,
        )
        task = Task(kernel.name, 0, (), tuple(reads), (*writes, *scratch))
        needed = sum(view.nbytes for view in (*task.reads, *task.writes))
        while self.placed and self.driver.free_memory() < needed:
            self._free_oldest()
        self.trials.kernel(spec, task, MOST_SECONDS)
        addresses = self._place(kernel)
        with self._loaded(kernel, candidate, code, addresses) as calls:
            problem = self._differs(kernel, self._outputs(kernel, calls, addresses))
            return replace(blank, problem=problem) if problem else self._time(calls, blank)

    @contextmanager
    def _loaded(
        self, kernel: TunableKernel, candidate: KernelCandidate, code: bytes, addresses: list[int]
    ) -> Generator[list[PreparedLaunch]]:
        """A candidate's calls on a kernel's buffers, while it is on the device."""
        driver = self.driver
        module = driver.load_module(code)
        scratch = list[int]()
        try:
            for nbytes in candidate.scratch:
                scratch.append(reserve(driver, nbytes, f"kernel {kernel.name!r}"))
            places = [*addresses, *scratch]
            yield [_call(driver, module, x, places) for x in candidate.launches]
        finally:
            for address in scratch:
                driver.free(address)
            driver.unload_module(module)

    def compared(
        self,
        kernel: TunableKernel,
        candidates: Sequence[tuple[KernelCandidate, bytes]],
        clock: Callable[[], float] = perf_counter,
    ) -> list[Timing]:
        """The times of right candidates with warm caches, in alternation so that drift affects all.

        Raises DeviceError where one cannot run.
        """
        addresses = self._place(kernel)
        longest = self.best.get(kernel.key, CHAIN_NS)
        with ExitStack() as stack:
            runs: dict[str, Callable[[], float]] = {}
            for number, (candidate, code) in enumerate(candidates):
                calls = stack.enter_context(self._loaded(kernel, candidate, code, addresses))
                chain = (0, self.stream, chain_lengths(longest))
                sampler = chain_sampler(self.driver, calls, *chain)
                runs[str(number)] = stack.enter_context(sampler)
            timings = time_all(
                runs, COMPARED_SECONDS, clock, keep=tuple(runs), samples=COMPARED_SAMPLES
            )
        return [timings[name] for name in runs]

    def _place(self, kernel: TunableKernel) -> list[int]:
        """The address of each buffer of a kernel, whose operands are copied there once."""
        if kernel.key not in self.placed:
            needed = sum(unpacked_bytes(buffer) for buffer in (*kernel.reads, *kernel.writes))
            while self.placed and sum(self.taken.values()) + needed > self.room:
                self._free_oldest()
            self.placed[kernel.key] = _place(self.driver, kernel)
            self.taken[kernel.key] = needed
        return self.placed[kernel.key][1]

    def _free_oldest(self) -> None:
        """Free the operands that were placed first."""
        oldest = next(iter(self.placed))
        self.driver.free(self.placed.pop(oldest)[0])
        del self.taken[oldest]

    def _outputs(
        self, kernel: TunableKernel, calls: Sequence[PreparedLaunch], addresses: list[int]
    ) -> Array:
        """The results of one run on poisoned buffers, one after the other."""
        driver = self.driver
        stream = self.stream
        places = addresses[len(kernel.reads) :][: len(kernel.writes)]
        sizes = [unpacked_bytes(buffer) for buffer in kernel.writes]
        for address, size in zip(places, sizes, strict=True):
            driver.fill(address, POISON, size, stream)
        for call in calls:
            driver.launch(call, stream)
        ends = np.cumsum([0, *sizes])
        # page-locked memory stays for later kernels, since getting it takes long
        nbytes = int(ends[-1])
        if self.pinned is None or self.pinned.bytes.size < nbytes:
            if self.pinned is not None:
                self.pinned.close()
            self.pinned = Pinned(self.driver, nbytes)
        pinned = self.pinned
        for address, size, end in zip(places, sizes, ends, strict=False):
            driver.copy(pinned.address + int(end), address, size, stream)
        driver.synchronize_stream(stream)
        return pinned.bytes[: ends[-1]].copy()

    def _differs(self, kernel: TunableKernel, outputs: Array) -> str:
        """The error of results; empty if there is none. The first results are the reference."""
        reference = self.references.get(kernel.key)
        if reference is None or reference.size == 0:
            self.references[kernel.key] = outputs
            return ""
        start = 0
        for buffer in kernel.writes:
            end = start + unpacked_bytes(buffer)
            if not agree(outputs[start:end], reference[start:end], buffer.dtype):
                return "wrong: the results differ from the reference's"
            start = end
        return ""

    def _time(self, calls: Sequence[PreparedLaunch], blank: Result) -> Result:
        best = self.best.get(blank.key)
        once = run_once(self.driver, calls, self.stream)
        if once >= ENOUGH_NS:
            self.best[blank.key] = min(once, best or once)
            return replace(blank, warm=round(once, 1), cold=round(once, 1))
        limit = LONG_NS if best is None else max(GIVEN_UP * best, LONG_NS)
        probe = self._probe(calls)
        for _ in range(TRIES - 1):
            probe = probe if probe <= limit else min(probe, self._probe(calls))
        if best is not None and probe > limit:
            return replace(blank, warm=round(probe, 1))
        driver = self.driver
        warm_timing = chain_time(
            driver, calls, 0, self.stream, WARM_SAMPLES, lengths=chain_lengths(probe)
        )
        warm = warm_timing.median
        cold = None
        self.best[blank.key] = best = min(warm, best or warm)
        if warm <= COLD_WITHIN * best:
            timing = chain_time(
                driver, calls, self.flush, self.stream, COLD_SAMPLES, lengths=COLD_LENGTHS
            )
            cold = max(warm, timing.median - self.flush_ns)
        return replace(
            blank,
            warm=round(warm, 1),
            cold=None if cold is None else round(cold, 1),
            interval=(round(warm_timing.low, 1), round(warm_timing.high, 1)),
        )

    def _probe(self, calls: Sequence[PreparedLaunch]) -> float:
        """Nanoseconds of a few launches in a row, each."""
        start, end = self.events
        self.driver.record(start, self.stream)
        for call in [*calls] * PROBES:
            self.driver.launch(call, self.stream)
        self.driver.record(end, self.stream)
        self.driver.synchronize_event(end)
        return self.driver.elapsed(start, end) / PROBES

    def close(self) -> None:
        """Give the device's memory back, and the host's."""
        if self.pinned is not None:
            self.pinned.close()
        for address in (self.flush, *(block for block, _ in self.placed.values())):
            self.driver.free(address)
        for event in self.events:
            self.driver.destroy_event(event)
        self.driver.destroy_stream(self.stream)


def chain_lengths(nanoseconds: float) -> tuple[int, int]:
    """The least lengths of two chains whose difference is above noise."""
    fewest, longest = LINKS
    links = max(fewest, min(longest, round(CHAIN_NS / max(1.0, nanoseconds))))
    short = max(1, links // 5)
    return short + links, short


def agree(outputs: Array, reference: Array, dtype: str, bound: float = BOUND) -> bool:
    """Whether bytes of results of one type agree; NaN agrees with NaN alone.

    Floats may differ by `bound`, against the largest of the reference.
    """
    kind = numpy_dtype(dtype)
    actual = outputs.view(kind)
    expected = reference.view(kind)
    if "float" not in dtype:
        return bool((actual == expected).all())
    a, b = (array.astype(np.float32, copy=False) for array in (actual, expected))
    finite = np.isfinite(b)
    if not np.array_equal(finite, np.isfinite(a)) or not finite.any():
        return np.array_equal(a, b, equal_nan=True)
    same = np.array_equal(a[~finite], b[~finite], equal_nan=True)
    a = a[finite]
    b = b[finite]
    return same and float(np.abs(a - b).max()) <= bound * float(np.abs(b).max())


def unpacked_bytes(buffer: OperandBuffer) -> int:
    """Bytes of a buffer before packing."""
    return prod(buffer.shape) * ELEMENT_BYTES[buffer.dtype]


def _call(
    driver: Driver, module: Handle, launch: Launch, addresses: Sequence[int]
) -> PreparedLaunch:
    function = driver.function(module, launch.symbol)
    if launch.shared_bytes + driver.function_info(function).shared_bytes > DEFAULT_SHARED_BYTES:
        driver.allow_shared(function, launch.shared_bytes)
    arguments = [addresses[i] for i in launch.args]
    return driver.call(function, launch.grid, launch.block, launch.shared_bytes, arguments)


def _place(driver: Driver, kernel: TunableKernel) -> tuple[Handle, list[int]]:
    """A block of device memory with a kernel's operands in it, and the address of each buffer."""
    reads = [random_operand(buffer, number) for number, buffer in enumerate(kernel.reads)]
    sizes = [read.size for read in reads] + [unpacked_bytes(write) for write in kernel.writes]
    ends = np.cumsum([0, *map(aligned, sizes)])
    block = reserve(driver, int(ends[-1]), f"kernel {kernel.name!r}")
    addresses = [block + int(end) for end in ends[:-1]]
    upload(driver, list(zip(addresses, reads, strict=False)))
    return block, addresses


def random_operand(buffer: OperandBuffer, number: int) -> Array:
    """Bytes of random numbers, packed; integers are 0 or 1, which are valid indices.

    `number` makes the operands of a kernel differ.
    """
    data = random_numbers(buffer.shape, buffer.dtype, number)
    return as_bytes(apply_packing(data, buffer.packing))


def header_here(driver: Driver) -> Header:
    """The header of what a device measures with this machine's compiler."""
    return Header(driver.device.architecture, device_name(driver), nvrtc_version())


def header_of(driver: Driver, bundle: Bundle) -> Header:
    """The header of this device's results of a bundle; DeviceError for another architecture."""
    if driver.device.architecture != bundle.arch:
        raise DeviceError(
            f"the bundle is for {bundle.arch}, the device is {driver.device.architecture}: prepare"
            f" one with --arch {driver.device.architecture}"
        )
    return header_here(driver)
