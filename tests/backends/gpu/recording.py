"""A driver without a GPU: it records graphs, and executes queued work late and in random order.

Only what a real device guarantees orders two operations: their stream, events, a graph's edges,
and that one executable graph never overlaps itself. Everything queued stays queued until somebody
synchronises; then operations run in a random order among those allowed.
"""

import ctypes
import random
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import RLock
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from compiler.backends.gpu.driver import DeviceInfo, Direction, FunctionInfo, Handle, PreparedLaunch
from compiler.errors import DeviceError
from compiler.schedule.tasks import ControlKind

Bytes = NDArray[np.uint8]
BASE = 1 << 56
POISON = 0xA5
INDIRECT = "_indirect"
"""How symbols end whose functions take pointers to pointers."""


@dataclass
class RecordedCall:
    """A launch whose arguments are addresses."""

    symbol: str
    action: Callable[..., None]
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    arguments: list[int]

    def set_argument(self, index: int, address: int) -> None:
        self.arguments[index] = address


@dataclass
class Node:
    """A graph's node: its kind, what it does, the nodes it follows, those it may start before."""

    kind: Literal["call", "copy", "fill", "child", "empty"]
    after: tuple["Node", ...]
    call: RecordedCall | None = None
    copy: tuple[int, int, int] | None = None
    direction: Direction | None = None
    child: "Graph | None" = None
    priority: int | None = None
    early: tuple["Node", ...] = ()


@dataclass
class Graph:
    """Nodes in the order in which they were added."""

    nodes: list[Node] = field(default_factory=list[Node])


@dataclass
class Executable:
    """A snapshot of a graph; `arguments` holds each kernel node's addresses."""

    graph: Graph
    arguments: dict[int, tuple[int, ...]]
    last: "Operation | None" = None


@dataclass(eq=False, repr=False)
class Operation:
    """Queued work and what it must follow."""

    action: Callable[[], None]
    after: list["Operation"]
    done: bool = False


@dataclass(eq=False)
class Stream:
    """A queue; `ordered` streams follow the legacy default stream."""

    address: int
    ordered: bool = False
    last: Operation | None = None
    alive: bool = True


@dataclass(eq=False)
class Event:
    """Happens when the operation it was recorded behind is done."""

    address: int
    operation: Operation | None = None
    alive: bool = True
    place: int = 0


class RecordingDriver:
    """Implements `Driver`; `kernels` are Python functions of the arrays from each address on."""

    language: Literal["cuda", "hip", "emu"] = "cuda"
    ordinal = 0
    dlpack_device: tuple[int, int] = (2, 0)
    priorities = (0, -5)
    opener = None

    def __init__(
        self, kernels: Mapping[str, Callable[..., None]], seed: int = 0, memory: int = 1 << 30
    ) -> None:
        self._kernels, self._chance, self._total = kernels, random.Random(seed), memory
        self._starts: list[int] = []
        self._blocks: dict[int, Bytes] = {}
        self._pinned: dict[int, Any] = {}
        self._pending: list[Operation] = []
        self._handles: dict[int, Any] = {}
        self._next, self._queued = BASE, 0
        self._lock = RLock()
        self.default = Stream(1, ordered=True)
        self.log: list[str] = []
        self.fills: list[tuple[int, int, int]] = []
        self.graphs: list[Graph] = []
        self.device = DeviceInfo(
            "recorder", "sm_90", 0, "13.0", 132, memory, 1 << 20, 227 << 10, 10**6, 10**6, 4096
        )

    def add_kernels(self, kernels: Mapping[str, Callable[..., None]]) -> None:
        """Offer more functions; one of the same name is replaced for modules loaded from now."""
        self._kernels = {**self._kernels, **kernels}

    def make_current(self) -> None:
        self.log.append("make_current")

    def load_module(self, image: bytes) -> Handle:
        if not image.startswith(b"\x7fELF"):
            raise DeviceError("this image does not run on recorder: compile it for sm_90")
        return image

    def unload_module(self, module: Handle) -> None:
        self.log.append("unload_module")

    def function(self, module: Handle, symbol: str) -> Handle:
        own = symbol.removesuffix(INDIRECT)
        if own not in self._kernels:
            raise DeviceError(f"the image has no kernel {symbol!r}")
        return symbol, self._kernels[own]

    def function_info(self, function: Handle) -> FunctionInfo:
        return FunctionInfo(32, 0, 0, 1024)

    def allow_shared(self, function: Handle, nbytes: int) -> None:
        self.log.append(f"allow_shared {function[0]} {nbytes}")

    def set_smem_carveout(self, function: Handle, percent: int) -> None:
        self.log.append(f"set_smem_carveout {function[0]} {percent}")

    def blocks_per_multiprocessor(self, function: Handle, threads: int, shared_bytes: int) -> int:
        return 2048 // threads

    def call(
        self,
        function: Handle,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared_bytes: int,
        arguments: Sequence[int],
        extents: Sequence[int] | None = None,
        indirect: bool = False,
    ) -> RecordedCall:
        symbol, action = function
        return RecordedCall(symbol, action, grid, block, shared_bytes, list(arguments))

    def spin(self, nanoseconds: int) -> RecordedCall:
        shape = (1, 1, 1)
        return RecordedCall("spin", lambda: None, shape, shape, 0, [])

    def free_memory(self) -> int:
        return self._total - sum(block.size for block in self._blocks.values())

    def allocate(self, nbytes: int) -> int:
        if nbytes > self.free_memory():
            raise DeviceError("out of memory")
        with self._lock:
            address = self._next
            self._next += (nbytes // 256 + 2) * 256
            self._blocks[address] = np.full(max(1, nbytes), POISON, np.uint8)
            self._starts.append(address)
        return address

    def free(self, address: int) -> None:
        self.drain()
        del self._blocks[address]
        self._starts.remove(address)

    def allocate_pinned(self, nbytes: int) -> int:
        memory = (ctypes.c_uint8 * nbytes)()
        self._pinned[ctypes.addressof(memory)] = memory
        return ctypes.addressof(memory)

    def free_pinned(self, address: int) -> None:
        self.drain()
        del self._pinned[address]

    def ordinal_of(self, address: int) -> int:
        self.bytes_from(address)
        return 0

    def bytes_from(self, address: int) -> Bytes:
        """The memory from an address to the end of its block; fails outside every block."""
        place = bisect_right(self._starts, address) - 1
        start = self._starts[place] if place >= 0 else 0
        assert place >= 0, f"address {address:#x} is in no block"
        assert address - start < self._blocks[start].size, f"{address:#x} is past its block"
        return self._blocks[start][address - start :]

    def _bytes(self, address: int, nbytes: int) -> Bytes:
        for start, memory in self._pinned.items():
            if start <= address < start + len(memory):
                data = np.ctypeslib.as_array(memory)[address - start :]
                break
        else:
            data = self.bytes_from(address)
        assert data.size >= nbytes, "a copy leaves its block"
        return data[:nbytes]

    def _copy_now(self, destination: int, source: int, nbytes: int) -> None:
        self._bytes(destination, nbytes)[:] = self._bytes(source, nbytes)

    def copy(self, destination: int, source: int, nbytes: int, stream: Handle) -> None:
        assert abs(destination - source) >= nbytes, "a copy to where it copies from"
        self.log.append("copy")
        self._queue(stream, lambda: self._copy_now(destination, source, nbytes))

    def fill(self, destination: int, value: int, nbytes: int, stream: Handle) -> None:
        def action() -> None:
            self._bytes(destination, nbytes)[:] = value

        self.fills.append((destination, value, nbytes))
        self._queue(stream, action)

    def write(self, destination: int, value: int, stream: Handle) -> None:
        def action() -> None:
            self._bytes(destination, 8).view(np.uint64)[:] = value

        self.log.append("write")
        self._queue(stream, action)

    def create_stream(self, *, priority: int = 0, ordered_with_default: bool = False) -> Handle:
        return self._remember(Stream(0, ordered_with_default))

    def _remember(self, handle: Any) -> Handle:
        with self._lock:
            handle.address = len(self._handles) + 100
            self._handles[handle.address] = handle
        return handle

    def stream(self, address: int) -> Handle:
        return self.default if address in (0, 1) else self._handles[address]

    def handle_address(self, handle: Handle) -> int:
        return handle.address

    def destroy_stream(self, stream: Handle) -> None:
        assert stream.alive
        stream.alive = False

    def synchronize_stream(self, stream: Handle) -> None:
        self._run_until(stream.last)

    def create_event(self, *, timing: bool = False) -> Handle:
        return self._remember(Event(0))

    def destroy_event(self, event: Handle) -> None:
        assert event.alive
        event.alive = False

    def record(self, event: Handle, stream: Handle) -> None:
        assert event.alive
        event.operation, event.place = self._queue(stream, lambda: None), self._queued
        self.log.append("record")

    def wait(self, stream: Handle, event: Handle) -> None:
        assert event.alive
        self.log.append("wait")
        if event.operation is not None:
            self._queue(stream, lambda: None, [event.operation])

    def synchronize_event(self, event: Handle) -> None:
        self._run_until(event.operation)

    def happened(self, event: Handle) -> bool:
        return event.operation is None or event.operation.done

    def elapsed(self, start: Handle, end: Handle) -> float:
        """A microsecond for each operation that was queued in between."""
        assert self.happened(start)
        assert self.happened(end)
        return 1000.0 * (end.place - start.place)

    def _queue(
        self, stream: Stream, action: Callable[[], None], after: Sequence[Operation] = ()
    ) -> Operation:
        assert stream.alive, "a stream is used after it was destroyed"
        before = [*after, *([stream.last] if stream.last else [])]
        others = [each for each in list(self._handles.values()) if isinstance(each, Stream)]
        follows = [self.default] if stream.ordered else []
        follows = [each for each in others if each.ordered] if stream is self.default else follows
        before += [each.last for each in follows if each.last is not None]
        operation = Operation(action, before)
        stream.last = operation
        with self._lock:
            self._pending.append(operation)
            self._queued += 1
        return operation

    def _run_until(self, goal: Operation | None) -> None:
        """Execute pending work in a random allowed order until the goal is done."""
        while goal is not None and not goal.done:
            with self._lock:
                if not goal.done:
                    self.step()

    def drain(self) -> None:
        """Execute everything that is queued."""
        with self._lock:
            while self._pending:
                self.step()

    def step(self) -> None:
        """Execute one operation of those that may run now."""
        ready = [each for each in self._pending if all(other.done for other in each.after)]
        chosen = self._chance.choice(ready)
        chosen.action()
        chosen.done = True
        self._pending.remove(chosen)

    def _execute(self, call: RecordedCall, arguments: Sequence[int]) -> None:
        if call.symbol.endswith(INDIRECT):
            arguments = [int(self._bytes(at, 8).view(np.uint64)[0]) for at in arguments]
        call.action(*(self.bytes_from(address) for address in arguments))

    def launch(self, call: PreparedLaunch, stream: Handle) -> None:
        assert isinstance(call, RecordedCall)
        arguments = tuple(call.arguments)
        self.log.append(f"launch {call.symbol}")
        self._queue(stream, lambda: self._execute(call, arguments))

    def create_graph(self) -> Handle:
        self.graphs.append(Graph())
        return self.graphs[-1]

    def destroy_graph(self, graph: Handle) -> None:
        self.log.append("destroy_graph")

    def _add(self, graph: Graph, node: Node) -> Node:
        before = node.after + node.early
        assert all(any(other is each for each in graph.nodes) for other in before)
        assert len({id(other) for other in before}) == len(before)
        assert all(other.kind == "call" for other in node.early)
        graph.nodes.append(node)
        return node

    def add_call(
        self,
        graph: Handle,
        predecessors: Sequence[Handle],
        call: PreparedLaunch,
        priority: int | None = None,
        early: Sequence[Handle] = (),
    ) -> Handle:
        assert isinstance(call, RecordedCall)
        node = Node("call", tuple(predecessors), call=call, priority=priority, early=tuple(early))
        return self._add(graph, node)

    def add_copy(
        self,
        graph: Handle,
        predecessors: Sequence[Handle],
        destination: int,
        source: int,
        nbytes: int,
        direction: Direction,
    ) -> Handle:
        assert (destination >= BASE) == (direction != "from_device")
        assert (source >= BASE) == (direction != "to_device")
        copy = (destination, source, nbytes)
        return self._add(graph, Node("copy", tuple(predecessors), copy=copy, direction=direction))

    def add_fill(
        self,
        graph: Handle,
        predecessors: Sequence[Handle],
        destination: int,
        value: int,
        nbytes: int,
    ) -> Handle:
        return self._add(
            graph, Node("fill", tuple(predecessors), copy=(destination, value, nbytes))
        )

    def add_child(self, graph: Handle, predecessors: Sequence[Handle], child: Handle) -> Handle:
        return self._add(graph, Node("child", tuple(predecessors), child=Graph(list(child.nodes))))

    def create_condition(self, graph: Handle) -> int:
        raise DeviceError("the recorder has no conditional nodes")

    def add_conditional(
        self, graph: Handle, predecessors: Sequence[Handle], condition: int, kind: ControlKind
    ) -> tuple[Handle, tuple[Handle, ...]]:
        raise DeviceError("the recorder has no conditional nodes")

    def add_empty(self, graph: Handle, predecessors: Sequence[Handle]) -> Handle:
        return self._add(graph, Node("empty", tuple(predecessors)))

    def instantiate(self, graph: Handle, stream: Handle) -> Handle:
        self.log.append("instantiate")
        return Executable(Graph(list(graph.nodes)), self._arguments(graph))

    def _arguments(self, graph: Graph) -> dict[int, tuple[int, ...]]:
        found: dict[int, tuple[int, ...]] = {}
        for node in graph.nodes:
            if node.call is not None:
                found[id(node)] = tuple(node.call.arguments)
            if node.child is not None:
                found |= self._arguments(node.child)
        return found

    def destroy_executable(self, executable: Handle) -> None:
        self.log.append("destroy_executable")

    def update_call(self, executable: Handle, node: Handle, call: PreparedLaunch) -> None:
        assert isinstance(call, RecordedCall)
        assert any(node is each for each in executable.graph.nodes), "not a node of this graph"
        assert node.call.symbol == call.symbol
        executable.arguments[id(node)] = tuple(call.arguments)
        self.log.append("update_call")

    def launch_graph(self, executable: Handle, stream: Handle) -> None:
        self.log.append("launch_graph")
        behind = [executable.last] if executable.last else []
        start = self._queue(stream, lambda: None, behind)
        ends = self._expand(executable.graph, [start], dict(executable.arguments))
        executable.last = self._queue(stream, lambda: None, ends)

    def _expand(
        self, graph: Graph, start: list[Operation], arguments: dict[int, tuple[int, ...]]
    ) -> list[Operation]:
        """Queue a graph's nodes; returns what the graph's end must follow.

        A call follows the end of its early predecessors if it waits itself, else their start.
        """
        ends: dict[int, list[Operation]] = {}
        starts: dict[int, list[Operation]] = {}
        for node in graph.nodes:
            waits = node.call is not None and getattr(node.call.action, "programmatic", False)
            early = ends if waits else starts
            before = [end for other in node.after for end in ends[id(other)]]
            before += [each for other in node.early for each in early[id(other)]]
            before = starts[id(node)] = before or start
            if node.child is not None:
                ends[id(node)] = self._expand(node.child, before, arguments)
            else:
                operation = Operation(self._action(node, arguments), before)
                with self._lock:
                    self._pending.append(operation)
                    self._queued += 1
                ends[id(node)] = [operation]
        return [end for each in ends.values() for end in each] or start

    def _action(self, node: Node, arguments: dict[int, tuple[int, ...]]) -> Callable[[], None]:
        if node.call is not None:
            call, values = node.call, arguments[id(node)]
            return lambda: self._execute(call, values)
        if node.copy is not None and node.kind == "copy":
            destination, source, nbytes = node.copy
            return lambda: self._copy_now(destination, source, nbytes)
        if node.copy is not None:
            destination, value, nbytes = node.copy
            return lambda: self._bytes(destination, nbytes).fill(value)
        return lambda: None
