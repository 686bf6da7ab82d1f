"""The interface of a GPU vendor's driver library; only `backends/cuda` and `backends/hip` call one.

It offers what HIP 5.2 has: graphs are built from kernel, copy, fill, child and empty nodes; none is
captured from a stream. Handles are opaque values of the library; device addresses are
integers. Every method raises DeviceError when the library reports an error.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from compiler.schedule.tasks import ControlKind

Handle = Any
"""An opaque value of the vendor's library: a stream, event, module, function, graph or node."""

Direction = Literal["to_device", "from_device", "on_device"]


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """A device's name and the limits that decide launches; clocks in kHz, memory in bytes."""

    name: str
    architecture: str
    ordinal: int
    driver_version: str
    multiprocessors: int
    memory_bytes: int
    l2_bytes: int
    shared_bytes_per_block: int
    clock_khz: int
    memory_clock_khz: int
    memory_bus_bits: int

    @property
    def bandwidth(self) -> float:
        """The memory's peak rate in bytes per nanosecond (two transfers a clock)."""
        return 2 * self.memory_clock_khz * self.memory_bus_bits / 8 / 1e6

    @property
    def flops(self) -> float:
        """The peak rate in float operations per nanosecond: 128 fused multiply-adds a clock."""
        return 256 * self.multiprocessors * self.clock_khz / 1e6


@dataclass(frozen=True, slots=True)
class FunctionInfo:
    """The resources that a function takes: for each thread (registers, local bytes) and block."""

    registers: int
    local_bytes: int
    shared_bytes: int
    threads_per_block: int


class PreparedLaunch(Protocol):
    """One launch of a function, ready for the driver; its addresses can be changed later."""

    def set_argument(self, index: int, address: int) -> None:
        """Pass another device address at this position from the next launch or update on."""


class Driver(Protocol):
    """One device and its primary context."""

    language: Literal["cuda", "hip", "emu"]
    ordinal: int
    dlpack_device: tuple[int, int]

    @property
    def opener(self) -> "Callable[[], Driver] | None":
        """A function, which can be pickled, that opens this device in another process.

        None for a device that runs nothing, such as one that only records.
        """

    @property
    def device(self) -> DeviceInfo:
        """The device's description."""
        ...

    @property
    def priorities(self) -> tuple[int, int]:
        """The lowest and the highest priority; a smaller number is more urgent."""
        ...

    def make_current(self) -> None:
        """Use this device from the calling thread."""

    def load_module(self, image: bytes) -> Handle:
        """Load a compiled image."""

    def unload_module(self, module: Handle) -> None:
        """Unload an image and its functions."""

    def function(self, module: Handle, symbol: str) -> Handle:
        """A function of a loaded image."""

    def function_info(self, function: Handle) -> FunctionInfo:
        """The resources that a function uses."""
        ...

    def allow_shared(self, function: Handle, nbytes: int) -> None:
        """Let a function be launched with this much dynamic shared memory a block."""

    def set_smem_carveout(self, function: Handle, percent: int) -> None:
        """Set the preferred share of an SM's L1, in percent, that is shared memory."""

    def blocks_per_multiprocessor(self, function: Handle, threads: int, shared_bytes: int) -> int:
        """How many blocks of this size can be resident on one multiprocessor."""
        ...

    def call(
        self,
        function: Handle,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared_bytes: int,
        arguments: Sequence[int],
        extents: Sequence[int] | None = None,
        indirect: bool = False,
    ) -> PreparedLaunch:
        """Prepare a launch whose parameters are device addresses, of pointers where `indirect`.

        `extents` are the bytes that each leads to, for drivers that check accesses.
        """
        ...

    def spin(self, nanoseconds: int) -> PreparedLaunch:
        """A launch of one thread that touches no memory and takes `nanoseconds`."""
        ...

    def free_memory(self) -> int:
        """Bytes of device memory that can still be allocated."""
        ...

    def allocate(self, nbytes: int) -> int:
        """Device memory, aligned to 256 bytes."""
        ...

    def free(self, address: int) -> None:
        """Give device memory back, once nothing queued uses it."""

    def allocate_pinned(self, nbytes: int) -> int:
        """The address of page-locked host memory."""
        ...

    def free_pinned(self, address: int) -> None:
        """Give page-locked memory back."""

    def ordinal_of(self, address: int) -> int:
        """The ordinal of the device that an address belongs to."""
        ...

    def copy(self, destination: int, source: int, nbytes: int, stream: Handle) -> None:
        """Queue a copy in any direction; host memory is page-locked."""

    def fill(self, destination: int, value: int, nbytes: int, stream: Handle) -> None:
        """Queue writing one byte value."""

    def write(self, destination: int, value: int, stream: Handle) -> None:
        """Queue writing one integer of 64 bits to the device, for graphs launched after it."""

    def create_stream(self, *, priority: int = 0, ordered_with_default: bool = False) -> Handle:
        """A new stream, ordered with the legacy default stream or not."""

    def stream(self, address: int) -> Handle:
        """The handle of somebody else's stream."""

    def handle_address(self, handle: Handle) -> int:
        """A stream or event as the integer that other libraries take."""
        ...

    def destroy_stream(self, stream: Handle) -> None:
        """Destroy a stream that this driver created."""

    def synchronize_stream(self, stream: Handle) -> None:
        """Block until all that is queued on a stream is done."""

    def create_event(self, *, timing: bool = False) -> Handle:
        """A new event."""

    def destroy_event(self, event: Handle) -> None:
        """Destroy an event."""

    def record(self, event: Handle, stream: Handle) -> None:
        """Let the event happen when all queued on the stream so far is done."""

    def wait(self, stream: Handle, event: Handle) -> None:
        """Let what is queued on the stream from now on wait for the event's last record."""

    def synchronize_event(self, event: Handle) -> None:
        """Block until an event has happened."""

    def happened(self, event: Handle) -> bool:
        """Whether an event has happened."""
        ...

    def elapsed(self, start: Handle, end: Handle) -> float:
        """Nanoseconds between two timing events that have happened."""
        ...

    def launch(self, call: PreparedLaunch, stream: Handle) -> None:
        """Queue one launch."""

    def create_graph(self) -> Handle:
        """An empty graph."""

    def destroy_graph(self, graph: Handle) -> None:
        """Destroy a graph; executable forms and parents it was copied into live on."""

    def add_call(
        self,
        graph: Handle,
        predecessors: Sequence[Handle],
        call: PreparedLaunch,
        priority: int | None = None,
        early: Sequence[Handle] = (),
    ) -> Handle:
        """Add a kernel node; it may start before the kernel nodes `early` end, and waits itself."""

    def add_copy(
        self,
        graph: Handle,
        predecessors: Sequence[Handle],
        destination: int,
        source: int,
        nbytes: int,
        direction: Direction,
    ) -> Handle:
        """Add a copy node; host memory is page-locked."""

    def add_fill(
        self,
        graph: Handle,
        predecessors: Sequence[Handle],
        destination: int,
        value: int,
        nbytes: int,
    ) -> Handle:
        """Add a node that writes one byte value."""

    def add_child(self, graph: Handle, predecessors: Sequence[Handle], child: Handle) -> Handle:
        """Add a copy of another graph as one node."""

    def create_condition(self, graph: Handle) -> int:
        """The condition of one conditional node of a graph; kernels before the node set it."""
        ...

    def add_conditional(
        self, graph: Handle, predecessors: Sequence[Handle], condition: int, kind: ControlKind
    ) -> tuple[Handle, tuple[Handle, ...]]:
        """Add a node that decides by a condition, and return it with its bodies.

        These are empty graphs, which belong to the node: an `if` runs the first unless the
        condition is 0, else the second; a `loop` runs its one body until it is 0.
        """
        ...

    def add_empty(self, graph: Handle, predecessors: Sequence[Handle]) -> Handle:
        """Add a node that does nothing."""

    def instantiate(self, graph: Handle, stream: Handle) -> Handle:
        """The executable form of a graph, sent to the device by way of a stream."""

    def destroy_executable(self, executable: Handle) -> None:
        """Destroy an executable graph."""

    def update_call(self, executable: Handle, node: Handle, call: PreparedLaunch) -> None:
        """Give a kernel node the call's present addresses, from the next launch on."""

    def launch_graph(self, executable: Handle, stream: Handle) -> None:
        """Queue one run of an executable graph."""
