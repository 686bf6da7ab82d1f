"""The peers: one PyTorch module run in different ways, each ready to be queued on a stream."""

import signal
import types
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np
import torch
import torch._dynamo.config
from torch.profiler import ProfilerActivity, profile

from benchmarks.peers.opara import allocate_streams, crossings
from compiler.backends.cuda.device import device

Tensors = tuple[torch.Tensor, ...]


@dataclass
class Contender:
    """Something that runs the model: `queue` starts one run on PyTorch's current stream.

    `outputs` gives the last run's outputs, in the model's order, once it has ended; `close`
    releases its memory. `keep` holds what a captured graph reads; `module` is ours, compiled.
    """

    queue: Callable[[], Any]
    outputs: Callable[[], list[np.ndarray]]
    facts: dict[str, Any] = field(default_factory=dict)
    close: Callable[[], Any] = lambda: None
    keep: object = None
    module: Any = None


class OutOfTime(BaseException):
    """A contender was not ready in time; not an Exception, which compilers would swallow."""


@contextmanager
def time_limit(seconds: float) -> Generator[None]:
    """Raise OutOfTime in the main thread after so many seconds, and again until it gets through."""

    def stop(number: int, frame: types.FrameType | None) -> None:
        raise OutOfTime(f"not ready within {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds, 5.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def use_tensor_cores(allowed: bool) -> None:
    """Let GEMMs of float32 be computed in TF32, or not."""
    torch.set_float32_matmul_precision("high" if allowed else "highest")
    torch.backends.cudnn.allow_tf32 = allowed
    torch.backends.cudnn.benchmark = True


def arrays(result: Any) -> list[np.ndarray]:
    """A module's result, a tensor or several, as float32 arrays on the host."""
    tensors = (result,) if isinstance(result, torch.Tensor) else tuple(result)
    return [tensor.detach().float().cpu().numpy() for tensor in tensors]


def reference(module: torch.nn.Module, inputs: Tensors) -> list[np.ndarray]:
    """The outputs of a float32 module run eagerly without tensor cores."""
    use_tensor_cores(False)
    try:
        return arrays(module(*inputs))
    finally:
        use_tensor_cores(True)


def _captured(run: Callable[[], Any]) -> Contender:
    """One CUDA graph of a run, captured after three warm-up runs on a side stream."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            run()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = run()
    return Contender(graph.replay, lambda: arrays(result), close=graph.reset, keep=run)


def eager(module: torch.nn.Module, inputs: Tensors) -> Contender:
    """PyTorch as it is."""
    last: list[Any] = []

    def queue() -> None:
        last[:] = [module(*inputs)]

    return Contender(queue, lambda: arrays(last[0]), close=last.clear)


def graph(module: torch.nn.Module, inputs: Tensors) -> Contender:
    """PyTorch's kernels in one CUDA graph, on one stream."""
    return _captured(lambda: module(*inputs))


def compile_and_run(module: torch.nn.Module, inputs: Tensors, **options: bool) -> Callable[[], Any]:
    """A function that runs what torch.compile makes of the module; it has run once.

    Nothing compiled before is dropped, as its kernels may be in a graph; so shapes must be static,
    or another batch size would be compiled for any.
    """
    torch._dynamo.config.recompile_limit = 64
    optimized = torch.compile(module, dynamic=False, options=dict(options))
    optimized(*inputs)
    torch.cuda.synchronize()
    return lambda: optimized(*inputs)


def compiled(module: torch.nn.Module, inputs: Tensors, **options: bool) -> Contender:
    """torch.compile's kernels in one CUDA graph."""
    start = perf_counter()
    run = compile_and_run(module, inputs, **options)
    seconds = perf_counter() - start
    contender = _captured(run)
    contender.facts["compile_seconds"] = round(seconds, 1)
    return contender


def autotuned(module: torch.nn.Module, inputs: Tensors) -> Contender:
    """torch.compile with max-autotune, in one CUDA graph."""
    return compiled(module, inputs, max_autotune=True)


class _Streamed(torch.fx.Interpreter):
    """Runs each operator of a graph on its stream, after the operands on other streams.

    Every value is kept until the interpreter goes: memory that one stream gives back must not be
    used again while another stream still reads it.
    """

    def __init__(self, module: torch.fx.GraphModule, placed: "Placement") -> None:
        super().__init__(module, garbage_collect_values=False)
        self._placed = placed
        self._ends: dict[torch.fx.Node, torch.cuda.Event] = {}

    def run_node(self, n: torch.fx.Node) -> Any:
        """Run one node; those that launch nothing run where the caller is."""
        if n not in self._placed.stream:
            return super().run_node(n)
        stream = self._placed.stream[n]
        for operand in self._placed.awaited[n]:
            stream.wait_event(self._ends[operand])
        with torch.cuda.stream(stream):
            result = super().run_node(n)
        if n in self._placed.recorded:
            self._ends[n] = stream.record_event()
        return result


@dataclass(frozen=True)
class Placement:
    """Where each operator runs, whose ends it waits for, and whose ends are recorded."""

    stream: dict[torch.fx.Node, Any]
    awaited: dict[torch.fx.Node, tuple[torch.fx.Node, ...]]
    recorded: set[torch.fx.Node]
    streams: list[Any]


def _place(module: torch.fx.GraphModule) -> Placement:
    """Opara's streams for the operators of an exported graph.

    The streams are the driver's, as PyTorch itself hands out no more than 32 different ones.
    """
    silent = ("placeholder", "get_attr", "call_module", "output")
    nodes = [node for node in module.graph.nodes if node.op not in silent]
    index = {node: i for i, node in enumerate(nodes)}
    operands = [[index[n] for n in node.all_input_nodes if n in index] for node in nodes]
    numbers = allocate_streams(operands)
    waits = crossings(operands, numbers)
    driver = device()
    handles = [driver.create_stream() for _ in range(max(numbers, default=-1) + 1)]
    streams = [torch.cuda.ExternalStream(driver.handle_address(h)) for h in handles]
    awaited = {node: tuple(nodes[i] for i in waits[index[node]]) for node in nodes}
    return Placement(
        {node: streams[numbers[i]] for i, node in enumerate(nodes)},
        awaited,
        {operand for operands in awaited.values() for operand in operands},
        streams,
    )


def opara(module: torch.nn.Module, inputs: Tensors) -> Contender:
    """PyTorch's kernels on the streams of Opara's Algorithm 1, captured as one CUDA graph."""
    exported = torch.export.export(module, inputs).module()
    placed = _place(exported)
    alive: list[_Streamed] = []

    def run() -> Any:
        interpreter = _Streamed(exported, placed)
        alive[:] = [interpreter]
        caller = torch.cuda.current_stream()
        for stream in placed.streams:
            stream.wait_stream(caller)
        result = interpreter.run(*inputs)
        for stream in placed.streams:
            caller.wait_stream(stream)
        return result

    contender = _captured(run)
    alive.clear()
    contender.facts["streams"] = len(placed.streams)
    return contender


CONTENDERS: dict[str, Callable[[torch.nn.Module, Tensors], Contender]] = {
    "eager": eager,
    "graph": graph,
    "opara": opara,
    "compile": compiled,
    "max-autotune": autotuned,
}
"""How each peer is made from a module and inputs that are on the device."""


def kernels_of(queue: Callable[[], Any]) -> dict[str, float]:
    """How many kernels and copies one run launches, and their microseconds in all, by CUPTI."""
    for _ in range(3):
        queue()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as trace:
        queue()
        torch.cuda.synchronize()
    on_device = torch.autograd.DeviceType.CUDA
    events = [event for event in trace.events() if event.device_type == on_device]
    busy = sum(event.time_range.elapsed_us() for event in events)
    return {"kernels": len(events), "busy_us": round(busy, 2)}


def clocks(queue: Callable[[], Any], stream: torch.cuda.Stream) -> dict[str, Callable[[], float]]:
    """One run's microseconds, `device` between two events and `wall` until the stream is idle."""
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)

    def on_device() -> float:
        start.record(stream)
        queue()
        end.record(stream)
        end.synchronize()
        return 1e3 * start.elapsed_time(end)

    def on_the_wall() -> float:
        began = perf_counter()
        queue()
        stream.synchronize()
        return 1e6 * (perf_counter() - began)

    return {"device": on_device, "wall": on_the_wall}
