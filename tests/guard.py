"""Runs a module with every operand of every task at the edge of memory that cannot be accessed.

`run_guarded(module, inputs)` gives what `module.run(inputs)` gives, or raises `GuardError`, which
names the task, its kernel, its nodes and the operand, where a kernel reads or writes outside its
operands. `side="after"` guards the end of every operand, `side="before"` its start.

On the CPU the tasks run one after another in launch order, in a child process. Each task gets
copies of its operands (those that overlap share one), between pages that cannot be accessed for
8 GiB each way, and operands that it only reads cannot be written. Copies are aligned as kernels may
expect: to the element, workspaces to 64 bytes. So nothing is between an operand and the guarded
page, but for workspaces and operands that overlap others (less than 64 bytes) and on the side that
is not guarded (less than a page). These bytes are 0xFF, NaN in every float: a write there is an
error, and a read shows in the results. Results and workspaces are 0xFF before each task too.

On the emulator every launch of a module is so guarded by the engine (emulator/guard.h): at the end
with less than 16 bytes of poison, at the start with less than a page. `side` changes nothing there.
"""

import ctypes
import mmap
import os
import signal
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from compiler.artifact.module import Module, without_checks
from compiler.backends.cpu.build import CpuProgram
from compiler.backends.cpu.inputs import prepare_inputs
from compiler.backends.memory import ALIGNMENT
from compiler.errors import DeviceError
from compiler.schedule.kernels import KernelSpec
from compiler.schedule.tasks import Schedule, Task, View
from compiler.target.target import parse_target
from compiler.tensors.dtypes import ELEMENT_BYTES, numpy_dtype

Array = NDArray[Any]
Bytes = NDArray[np.uint8]
Side = Literal["before", "after"]

POISON = 0xFF
GUARD = 8 << 30
REPORT_BYTES = 1 << 14
SECONDS = 120
"""How long the child may take."""

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]

_NO_ACCESS, _READ, _READ_WRITE = 0, mmap.PROT_READ, mmap.PROT_READ | mmap.PROT_WRITE
_RESERVED = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000  # MAP_NORESERVE
_ENTRY = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
_HANDLER = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


class GuardError(AssertionError):
    """A kernel read or wrote outside its operands, or did not come back."""


def run_guarded(
    module: Module, inputs: Mapping[str, Array], side: Side = "after"
) -> dict[str, Array]:
    """The outputs of a run; raises GuardError when a kernel leaves its operands.

    Raises InputDataError for an index that is out of range, if the module checks them.
    """
    if parse_target(module.target).backend == "emu":
        return without_checks(_emulated(module, inputs))
    schedule = module.schedule
    program = CpuProgram(module.kernels.values())  # its code lives as long as it does
    given = iter(prepare_inputs(schedule.allocations, inputs))
    weights: Mapping[str, Array] = module.weights  # packed, as kernels read them
    sources = [
        next(given) if allocation.kind == "input" else weights.get(allocation.name)
        for allocation in schedule.allocations
    ]
    memory = [
        np.full(allocation.nbytes, POISON, np.uint8) if source is None else bytes_of(source)
        for allocation, source in zip(schedule.allocations, sources, strict=True)
    ]
    results = run_schedule(schedule, module.kernels, program.addresses, memory, side)
    return without_checks(results)


def run_schedule(
    schedule: Schedule,
    kernels: Mapping[str, KernelSpec],
    entries: Mapping[str, int],
    memory: Sequence[Bytes],
    side: Side,
) -> dict[str, Array]:
    """Run a schedule in a child on `memory`, one array an allocation; `entries` are addresses."""
    sizes = [allocation.nbytes for allocation in schedule.of_kind("output")]
    shared = mmap.mmap(-1, REPORT_BYTES + sum(sizes))

    def work() -> None:
        run = GuardedRun(schedule, kernels, entries, [part.copy() for part in memory], side, shared)
        run.all_tasks()

    status = _in_child(work, shared)
    text = shared[:REPORT_BYTES].rstrip(b"\0").decode()
    if status:
        how = f"ended by signal {-status}" if status < 0 else "failed"
        raise GuardError(f"{text} ({how})")
    results: dict[str, Array] = {}
    place = REPORT_BYTES
    for allocation, size in zip(schedule.of_kind("output"), sizes, strict=True):
        data = np.frombuffer(shared[place : place + size], numpy_dtype(allocation.dtype))
        results[allocation.name] = data.reshape(allocation.shape)
        place += size
    return results


def _emulated(module: Module, inputs: Mapping[str, Array]) -> dict[str, Array]:
    try:
        return {name: np.asarray(value) for name, value in module.run(inputs).items()}
    except DeviceError as error:
        raise GuardError(str(error)) from error


def bytes_of(array: Array) -> Bytes:
    """The bytes of an array in row-major order."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _in_child(work: Callable[[], None], shared: mmap.mmap) -> int:
    """Do work in a forked process: its exit code, or minus the signal that ended it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # other threads hold nothing we need
        child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = 1
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(SECONDS)
        work()
        code = 0
    except GuardError as error:
        _write(shared, str(error))
    except BaseException:
        _write(shared, traceback.format_exc())
    finally:
        os._exit(code)


def _write(shared: mmap.mmap, text: str) -> None:
    shared[:REPORT_BYTES] = text.encode()[:REPORT_BYTES].ljust(REPORT_BYTES, b"\0")


@dataclass
class Region:
    """The bytes from `start` to `end` of an allocation, which holds a task's views."""

    allocation: int
    start: int
    end: int
    unit: int
    written: bool
    base: int = 0
    pages: int = 0
    address: int = 0

    def place(self, content: Bytes, side: Side) -> None:
        """Copy the bytes to separate pages; `content` are those of the allocation."""
        size = self.end - self.start
        self.pages = -(-(size + self.unit) // mmap.PAGESIZE) * mmap.PAGESIZE
        reserved = _libc.mmap(None, self.pages + 2 * GUARD, _NO_ACCESS, _RESERVED, -1, 0)
        assert reserved not in (None, ctypes.c_void_p(-1).value), "no address space for the guards"
        self.base = reserved + GUARD
        self._protect(_READ_WRITE)
        if side == "after":
            last = self.base + self.pages - size
            self.address = last - (last - self.start) % self.unit
        else:
            self.address = self.base + self.start % self.unit
        self.bytes_from(self.base, self.pages)[:] = POISON
        self.bytes_from(self.address, size)[:] = content[self.start : self.end]

    def _protect(self, access: int) -> None:
        assert _libc.mprotect(self.base, self.pages, access) == 0

    @staticmethod
    def bytes_from(address: int, size: int) -> Bytes:
        """Memory at an address as an array."""
        memory: Any = (ctypes.c_uint8 * size).from_address(address)
        return np.frombuffer(memory, np.uint8)

    def of_view(self, view: View) -> Bytes:
        """The memory of a view in it."""
        return self.bytes_from(self.address + view.offset - self.start, view.nbytes)

    def close_to_writes(self) -> None:
        """Let nobody write it, unless the task may."""
        if not self.written:
            self._protect(_READ)

    def take(self, content: Bytes) -> bool:
        """Copy what the task wrote to the allocation; False if it wrote around it too."""
        size = self.end - self.start
        if self.written:
            content[self.start : self.end] = self.bytes_from(self.address, size)
        before = self.bytes_from(self.base, self.address - self.base)
        rest = self.base + self.pages - self.address - size
        after = self.bytes_from(self.address + size, rest)
        return bool((before == POISON).all() and (after == POISON).all())

    def release(self) -> None:
        """Give the pages back."""
        _libc.munmap(self.base - GUARD, self.pages + 2 * GUARD)


def regions_of(task: Task, workspaces: int) -> list[Region]:
    """The bytes that a task may touch: views that overlap are one region."""
    results = len(task.writes) - workspaces
    units = [ELEMENT_BYTES[view.dtype] for view in (*task.reads, *task.writes[:results])]
    units += [ALIGNMENT] * workspaces
    found: list[Region] = []
    views = zip((*task.reads, *task.writes), units, strict=True)
    order = sorted(enumerate(views), key=lambda item: (item[1][0].allocation, item[1][0].offset))
    for number, (view, unit) in order:
        written, end = number >= len(task.reads), view.offset + view.nbytes
        last = found[-1] if found else None
        if last and last.allocation == view.allocation and view.offset < last.end:
            last.end, last.unit = max(last.end, end), max(last.unit, unit)
            last.written = last.written or written
        else:
            found.append(Region(view.allocation, view.offset, end, unit, written))
    return found


class GuardedRun:
    """A schedule under way in the child, one task at a time."""

    def __init__(
        self,
        schedule: Schedule,
        kernels: Mapping[str, KernelSpec],
        entries: Mapping[str, int],
        memory: list[Bytes],
        side: Side,
        shared: mmap.mmap,
    ):
        self.schedule, self.kernels, self.entries = schedule, kernels, entries
        self.memory, self.shared = memory, shared
        self.side: Side = side
        self.now = ""
        self.places: list[tuple[View, int]] = []
        self._keep = _handle_faults(self._on_fault)

    def all_tasks(self) -> None:
        """Run every task, then hand the outputs over."""
        for index, task in enumerate(self.schedule.tasks):
            nodes = ", ".join(task.nodes)
            self.now = f"task {index} (kernel {task.kernel}, nodes {nodes})"
            _write(self.shared, f"{self.now} did not come back")
            self.one_task(task)
        place = REPORT_BYTES
        for allocation, data in zip(self.schedule.allocations, self.memory, strict=True):
            if allocation.kind == "output":
                self.shared[place : place + allocation.nbytes] = data.tobytes()
                place += allocation.nbytes

    def one_task(self, task: Task) -> None:
        """Run a task on guarded copies of its operands."""
        kernel = self.kernels[task.kernel]
        regions = regions_of(task, len(kernel.workspaces))
        for region in regions:
            region.place(self.memory[region.allocation], self.side)
        views = (*task.reads, *task.writes)
        homes = [_home(view, regions) for view in views]
        for view, home in zip(task.writes, homes[len(task.reads) :], strict=True):
            home.of_view(view)[:] = POISON
        for view, home in zip(task.reads, homes, strict=False):
            source = self.memory[view.allocation]
            home.of_view(view)[:] = source[view.offset : view.offset + view.nbytes]
        pairs = zip(views, homes, strict=True)
        self.places = [(view, home.address + view.offset - home.start) for view, home in pairs]
        self._launch(kernel, regions)
        for region in regions:
            if not region.take(self.memory[region.allocation]):
                raise GuardError(f"{self.now} writes next to {self._named(region)}")
            region.release()

    def _launch(self, kernel: KernelSpec, regions: Sequence[Region]) -> None:
        for region in regions:
            region.close_to_writes()
        for launch in kernel.launches:
            addresses = [self.places[argument][1] for argument in launch.args]
            pointers = (ctypes.c_void_p * max(1, len(addresses)))(*addresses)
            _ENTRY(self.entries[launch.symbol])(pointers, 0, launch.grid[0])

    def _named(self, region: Region) -> str:
        numbers = [
            str(number)
            for number, (view, _) in enumerate(self.places)
            if _home(view, [region], missing=True) is region
        ]
        return f"operand {', '.join(numbers)} of {len(self.places)}"

    def _on_fault(self, signal_number: int, information: int, _: int) -> None:
        """Say what a faulting address belongs to, and end the process."""
        address = ctypes.c_uint64.from_address(information + 16).value
        name = signal.Signals(signal_number).name
        _write(self.shared, f"{self.now} {name}: {self._described(address)}")
        os._exit(1)

    def _described(self, address: int) -> str:
        inside = [
            f"writes operand {number}, which it only reads"
            for number, (view, start) in enumerate(self.places)
            if start <= address < start + view.nbytes
        ]
        if inside:
            return inside[0]
        distance, number = min(
            (max(start - address, address - start - view.nbytes), number)
            for number, (view, start) in enumerate(self.places)
        )
        view, start = self.places[number]
        where = "before the start" if address < start else "after the end"
        kind = f"{view.dtype}{list(view.shape)}"
        return f"accesses memory {distance} bytes {where} of operand {number}, {kind}"


def _home(view: View, regions: Sequence[Region], missing: bool = False) -> Region:
    """The region that holds a view; with `missing` any other if there is none."""
    for region in regions:
        inside = region.start <= view.offset and view.offset + view.nbytes <= region.end
        if region.allocation == view.allocation and inside:
            return region
    assert missing, "a view without a region"
    return Region(-1, 0, 0, 1, False)


def _handle_faults(handler: Callable[[int, int, int], None]) -> object:
    """Have SIGSEGV, SIGBUS and SIGFPE call a function (signal, siginfo_t *, context)."""

    class Action(ctypes.Structure):
        _fields_ = [
            ("handler", _HANDLER),
            ("mask", ctypes.c_uint8 * 128),
            ("flags", ctypes.c_int),
            ("restorer", ctypes.c_void_p),
        ]

    action = Action(handler=_HANDLER(handler), flags=4)  # SA_SIGINFO
    for number in (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE):
        assert _libc.sigaction(int(number), ctypes.byref(action), None) == 0
    return action
