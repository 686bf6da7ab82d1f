"""The emulator as a `compiler.backends.gpu.driver.Driver`: GPU kernels run on the CPU."""

import ctypes
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast

from compiler.backends.gpu.driver import DeviceInfo, Direction, FunctionInfo, Handle, PreparedLaunch
from compiler.emulator import engine
from compiler.emulator.compile import engine as engine_content
from compiler.emulator.compile import unpack, version
from compiler.emulator.engine import Dim, Engine
from compiler.errors import DeviceError
from compiler.schedule.tasks import ControlKind
from compiler.support.arguments import MOST_RUN_THREADS, ArgumentKind, check_arguments, whole
from compiler.target.devices import H200

EXTENSION = 12
"""DLPack's type of devices that it does not know."""


class EmulatedCall:
    """One launch: the engine's struct, the addresses and the bytes that they lead to."""

    def __init__(
        self,
        function: Handle,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared_bytes: int,
        arguments: Sequence[int],
        extents: Sequence[int] | None = None,
        indirect: bool = False,
    ) -> None:
        count = max(1, len(arguments))
        self.values = (ctypes.c_uint64 * count)(*arguments)
        start = ctypes.addressof(self.values)
        self._pointers = (ctypes.c_uint64 * count)(*range(start, start + 8 * count, 8))
        self._extents = None if extents is None else (ctypes.c_size_t * count)(*extents)
        self.struct = engine.EngineCall(
            kernel=ctypes.cast(function, ctypes.POINTER(engine.EngineKernel)),
            grid=Dim(*grid),
            block=Dim(*block),
            shared_bytes=shared_bytes,
            parameters=ctypes.addressof(self._pointers),
            extents=None if self._extents is None else ctypes.addressof(self._extents),
            indirect=indirect,
        )

    @property
    def reference(self) -> Any:
        """The struct as functions take it."""
        return ctypes.byref(self.struct)

    def set_argument(self, index: int, address: int) -> None:
        """Pass another address at this position."""
        self.values[index] = address


def _is_warp(value: object) -> bool:
    return isinstance(value, int) and value in (32, 64)


DEVICE_OPTIONS: Mapping[str, ArgumentKind] = {
    "seed": whole(most=2**64 - 1),
    "warp": ArgumentKind("32 or 64", _is_warp),
    "threads": whole(0, MOST_RUN_THREADS),
}
"""The options of the emulated device."""


class EmulatedDriver:
    """The one emulated device of this process. Handles are addresses of the engine's objects."""

    language: Literal["cuda", "hip", "emu"] = "emu"
    ordinal = 0
    dlpack_device: tuple[int, int] = (EXTENSION, 0)

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def configure(self, seed: int = 0, warp: int = 32, threads: int = 0) -> None:
        """Restart all random orders from a seed; set lanes a warp and host threads (0: all)."""
        check_arguments({"seed": seed, "warp": warp, "threads": threads}, DEVICE_OPTIONS)
        self._engine("configure", seed, warp, threads or len(os.sched_getaffinity(0)))

    @property
    def warp(self) -> int:
        """Lanes of a warp."""
        return self._engine.made("lanes")

    @property
    def opener(self) -> "Callable[[], EmulatedDriver]":
        """A function that makes an emulated device like this one in another process."""
        return partial(open_with_warps, self.warp)

    @property
    def device(self) -> DeviceInfo:
        """The host, with rates that are typical of what the emulator computes."""
        cores = len(os.sched_getaffinity(0))
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return DeviceInfo(
            name=f"the emulator with warps of {self.warp} threads",
            architecture="emu",
            ordinal=0,
            driver_version=version(),
            multiprocessors=cores,
            memory_bytes=memory,
            l2_bytes=1 << 20,
            shared_bytes_per_block=H200.block_shared_bytes,
            clock_khz=4000,
            memory_clock_khz=250_000,
            memory_bus_bits=64,
        )

    @property
    def priorities(self) -> tuple[int, int]:
        """All are alike: the order is random."""
        return 0, 0

    def make_current(self) -> None:
        """Nothing: every thread uses the one device."""

    def load_module(self, image: bytes) -> Handle:
        """Load an archive of `compile_kernels`; DeviceError if it is for another engine."""
        archive = unpack(image)
        if archive is None:
            raise DeviceError("these kernels were built for another machine: build them again")
        with tempfile.TemporaryDirectory(prefix="flowloom-") as folder:
            # dlopen takes files only; once open, the mapping outlives the file
            path = Path(folder) / "kernel.so"
            path.write_bytes(archive[0])
            return self._engine.made("module_load", str(path).encode())

    def unload_module(self, module: Handle) -> None:
        """Unload kernels, once all that is queued has run."""
        self._engine("module_unload", module)

    def function(self, module: Handle, symbol: str) -> Handle:
        """A kernel of loaded ones."""
        return self._engine.made("module_function", module, symbol.encode())

    def function_info(self, function: Handle) -> FunctionInfo:
        """A kernel's limits; an emulated one has no registers, and static shared memory is free."""
        return FunctionInfo(0, 0, 0, 1024)

    def allow_shared(self, function: Handle, nbytes: int) -> None:
        """Nothing: every kernel may have all shared memory."""

    def set_smem_carveout(self, function: Handle, percent: int) -> None:
        """Nothing: the emulator has no L1."""

    def blocks_per_multiprocessor(self, function: Handle, threads: int, shared_bytes: int) -> int:
        """A thread of the host runs one block at a time."""
        return 1

    def call(
        self,
        function: Handle,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared_bytes: int,
        arguments: Sequence[int],
        extents: Sequence[int] | None = None,
        indirect: bool = False,
    ) -> EmulatedCall:
        """Prepare a launch; an access outside of the extents, if given, is an error of the run."""
        return EmulatedCall(
            function, grid, block, shared_bytes, arguments, extents=extents, indirect=indirect
        )

    def spin(self, nanoseconds: int) -> EmulatedCall:
        """A launch that does nothing: the random order delays its successors."""
        return EmulatedCall(None, (1, 1, 1), (1, 1, 1), 0, ())

    def free_memory(self) -> int:
        """Bytes that the host has available."""
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")

    def allocate(self, nbytes: int) -> int:
        """Poisoned memory, aligned to 256 bytes."""
        return self._engine.made("allocate", nbytes)

    def free(self, address: int) -> None:
        """Give memory back, once all that is queued has run."""
        self._engine("free", address)

    allocate_pinned, free_pinned = allocate, free

    def ordinal_of(self, address: int) -> int:
        """0 for the engine's memory; DeviceError for any other."""
        if not self._engine.holds(address):
            raise DeviceError("emulator: this is not memory of the emulated device")
        return 0

    def copy(self, destination: int, source: int, nbytes: int, stream: Handle) -> None:
        """Queue a copy."""
        self._engine("memory_copy", destination, source, nbytes, stream)

    def fill(self, destination: int, value: int, nbytes: int, stream: Handle) -> None:
        self._engine("memory_fill", destination, ctypes.c_int(value), nbytes, stream)

    def write(self, destination: int, value: int, stream: Handle) -> None:
        """Queue writing one integer of 64 bits, which travels with the command."""
        self._engine("memory_write", destination, value, stream)

    def create_stream(self, *, priority: int = 0, ordered_with_default: bool = False) -> Handle:
        """A new stream."""
        return self._engine.made("stream_create", ctypes.c_int(ordered_with_default))

    def stream(self, address: int) -> Handle:
        """The stream at an address; 0, 1 and 2 are CUDA's numbers of its default streams."""
        return 0 if address in (0, 1, 2) else address

    def handle_address(self, handle: Handle) -> int:
        """A handle as an integer, which it is."""
        return int(handle)

    def destroy_stream(self, stream: Handle) -> None:
        """Destroy a stream; what is queued on it still runs."""
        self._engine("stream_destroy", stream)

    def synchronize_stream(self, stream: Handle) -> None:
        """Run what a stream waits for, and more."""
        self._engine("stream_synchronize", stream)

    def create_event(self, *, timing: bool = False) -> Handle:
        return self._engine.made("event_create")

    def destroy_event(self, event: Handle) -> None:
        self._engine("event_destroy", event)

    def record(self, event: Handle, stream: Handle) -> None:
        self._engine("event_record", event, stream)

    def wait(self, stream: Handle, event: Handle) -> None:
        self._engine("stream_wait", stream, event)

    def synchronize_event(self, event: Handle) -> None:
        """Run what an event waits for, and more."""
        self._engine("event_synchronize", event)

    def happened(self, event: Handle) -> bool:
        """Whether an event has happened; some of what is queued runs before."""
        happened = ctypes.c_int()
        self._engine("event_query", event, ctypes.byref(happened))
        return bool(happened.value)

    def elapsed(self, start: Handle, end: Handle) -> float:
        """Nanoseconds of the host between two events that have happened."""
        result = ctypes.c_double()
        self._engine("event_elapsed", ctypes.byref(result), start, end)
        return result.value

    def launch(self, call: PreparedLaunch, stream: Handle) -> None:
        self._engine("launch", cast(EmulatedCall, call).reference, stream)

    def create_graph(self) -> Handle:
        return self._engine.made("graph_create")

    def destroy_graph(self, graph: Handle) -> None:
        """Destroy a graph; executable forms and parents live on."""
        self._engine("graph_destroy", graph)

    def _node(
        self, graph: Handle, predecessors: Sequence[Handle], kind: str, *arguments: Any
    ) -> Handle:
        node = self._engine.made(f"graph_add_{kind}", graph, *arguments)
        for predecessor in predecessors:
            self._engine("graph_add_edge", graph, predecessor, node)
        return node

    def add_call(
        self,
        graph: Handle,
        predecessors: Sequence[Handle],
        call: PreparedLaunch,
        priority: int | None = None,
        early: Sequence[Handle] = (),
    ) -> Handle:
        """Add a kernel node; blocks of it may start before the nodes `early` have ended."""
        node = self._node(graph, predecessors, "call", cast(EmulatedCall, call).reference)
        for predecessor in early:
            self._engine("graph_add_early_edge", graph, predecessor, node)
        return node

    def add_copy(
        self,
        graph: Handle,
        predecessors: Sequence[Handle],
        destination: int,
        source: int,
        nbytes: int,
        direction: Direction,
    ) -> Handle:
        """Add a copy node."""
        return self._node(graph, predecessors, "copy", destination, source, nbytes)

    def add_fill(
        self,
        graph: Handle,
        predecessors: Sequence[Handle],
        destination: int,
        value: int,
        nbytes: int,
    ) -> Handle:
        return self._node(graph, predecessors, "fill", destination, ctypes.c_int(value), nbytes)

    def add_child(self, graph: Handle, predecessors: Sequence[Handle], child: Handle) -> Handle:
        return self._node(graph, predecessors, "child", child)

    def create_condition(self, graph: Handle) -> int:
        """The condition of a conditional node of a graph."""
        return self._engine.made("graph_add_condition", graph)

    def add_conditional(
        self, graph: Handle, predecessors: Sequence[Handle], condition: int, kind: ControlKind
    ) -> tuple[Handle, tuple[Handle, ...]]:
        """Add a node that runs one of two bodies (`if`), or one body again and again (`loop`)."""
        bodies = (ctypes.c_uint64 * 2)()
        loops = ctypes.c_int(kind == "loop")
        node = self._node(graph, predecessors, "decision", condition, loops, bodies)
        return node, tuple(bodies[: 1 if kind == "loop" else 2])

    def add_empty(self, graph: Handle, predecessors: Sequence[Handle]) -> Handle:
        return self._node(graph, predecessors, "empty")

    def instantiate(self, graph: Handle, stream: Handle) -> Handle:
        """The executable form of a graph."""
        return self._engine.made("graph_instantiate", graph)

    def destroy_executable(self, executable: Handle) -> None:
        self._engine("exec_destroy", executable)

    def update_call(self, executable: Handle, node: Handle, call: PreparedLaunch) -> None:
        self._engine("exec_set_call", executable, node, cast(EmulatedCall, call).reference)

    def launch_graph(self, executable: Handle, stream: Handle) -> None:
        self._engine("exec_launch", executable, stream)


def open_with_warps(lanes: int) -> EmulatedDriver:
    """The emulated device of a process that has none, with so many lanes a warp."""
    driver = EmulatedDriver(engine.open_engine(engine_content()))
    driver.configure(warp=lanes)
    return driver
