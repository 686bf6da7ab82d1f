"""What the driver's functions are given when graphs are built; needs cuda-bindings, but no GPU."""

import ctypes
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pytest

from compiler.backends.cuda import driver
from compiler.backends.cuda.driver import CudaDriver

pytestmark = pytest.mark.skipif(find_spec("cuda") is None, reason="needs cuda-bindings")


class Recorder:
    """The bindings' types and enumerations; functions note their arguments and count results."""

    def __init__(self) -> None:
        self._library: Any = import_module("cuda.bindings.driver")
        self.calls: list[tuple[str, tuple[Any, ...]]] = []

    def __getattr__(self, name: str) -> Any:
        if not (name.startswith("cu") and name[2].isupper()):
            return getattr(self._library, name)
        return self._function(name)

    def _function(self, name: str) -> Callable[..., Any]:
        def function(*arguments: Any) -> tuple[Any, str]:
            self.calls.append((name, arguments))
            return self._library.CUresult.CUDA_SUCCESS, f"{name} {len(self.calls)}"

        return function


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    found = Recorder()
    monkeypatch.setattr(driver, "bindings", lambda: found)
    return found


@pytest.fixture
def made(recorder: Recorder) -> Any:
    """A driver without a device."""
    found: Any = object.__new__(CudaDriver)
    found._cu, found._context, found.ordinal = recorder, "context", 0
    return found


def call(made: Any, recorder: Recorder) -> Any:
    """A launch of two blocks with two addresses."""
    function = recorder.CUfunction(1)
    return made.call(function, (2, 1, 1), (64, 1, 1), 128, [0x1000, 0x2000])


def test_a_kernel_node_has_its_edges_then_early_ones_then_its_priority(
    made: Any, recorder: Recorder
):
    own = call(made, recorder)
    node = made.add_call("graph", ["a", "b"], own, -3, ["c", "d"])
    assert node == "cuGraphAddKernelNode 1"
    (_, added), (_, edges), (_, priority) = recorder.calls
    assert [name for name, _ in recorder.calls] == [
        "cuGraphAddKernelNode",
        "cuGraphAddDependencies",
        "cuGraphKernelNodeSetAttribute",
    ]
    assert added == ("graph", ("a", "b"), 2, own.node)
    graph, starts, ends, data, count = edges
    assert (graph, starts, ends, count) == ("graph", ("c", "d"), (node, node), 2)
    kinds = recorder.CUgraphDependencyType
    for edge in data:
        assert edge.type == kinds.CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC.value
        assert edge.from_port == recorder.CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC
    assert priority[0] == node
    assert priority[1] == recorder.CUkernelNodeAttrID.CU_LAUNCH_ATTRIBUTE_PRIORITY
    assert priority[2].priority == -3


def test_a_plain_kernel_node_has_nothing_else(made: Any, recorder: Recorder):
    made.add_call("graph", [], call(made, recorder))
    assert [name for name, _ in recorder.calls] == ["cuGraphAddKernelNode"]


@pytest.mark.parametrize("direction", ["to_device", "from_device", "on_device"])
def test_a_copy_node_names_the_kinds_of_memory(made: Any, recorder: Recorder, direction: Any):
    made.add_copy("graph", ["a"], 0x2000, 0x1000, 640, direction)
    ((name, (graph, after, count, params, context)),) = recorder.calls
    assert name == "cuGraphAddMemcpyNode"
    assert (graph, after, count, context) == ("graph", ("a",), 1, "context")
    assert (params.WidthInBytes, params.Height, params.Depth) == (640, 1, 1)
    kind = recorder.CUmemorytype
    host, device = kind.CU_MEMORYTYPE_HOST, kind.CU_MEMORYTYPE_DEVICE
    kinds = {
        "to_device": (host, device),
        "from_device": (device, host),
        "on_device": (device, device),
    }
    assert (params.srcMemoryType, params.dstMemoryType) == kinds[direction]
    source = params.srcHost if direction == "to_device" else params.srcDevice
    destination = params.dstHost if direction == "from_device" else params.dstDevice
    assert (int(source), int(destination)) == (0x1000, 0x2000)


def test_fill_child_and_empty_nodes(made: Any, recorder: Recorder):
    made.add_fill("graph", ["a"], 0x1000, 255, 77)
    made.add_child("graph", ["a", "b"], "child")
    made.add_empty("graph", [])
    (fill, (graph, after, count, params, context)), child, empty = recorder.calls
    assert (fill, graph, after, count) == ("cuGraphAddMemsetNode", "graph", ("a",), 1)
    assert (int(params.dst), params.value, params.elementSize) == (0x1000, 255, 1)
    assert (params.width, params.height, context) == (77, 1, "context")
    assert child == ("cuGraphAddChildGraphNode", ("graph", ("a", "b"), 2, "child"))
    assert empty == ("cuGraphAddEmptyNode", ("graph", (), 0))


def test_graphs_use_the_priorities_of_nodes_and_are_uploaded(made: Any, recorder: Recorder):
    made.instantiate("graph", "stream")
    (first, (graph, flags)), upload = recorder.calls
    known = recorder.CUgraphInstantiate_flags
    assert (first, graph) == ("cuGraphInstantiate", "graph")
    assert flags == known.CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY.value
    assert upload == ("cuGraphUpload", ("cuGraphInstantiate 1", "stream"))


def test_an_update_gives_the_node_the_present_addresses(made: Any, recorder: Recorder):
    own = call(made, recorder)
    own.set_argument(1, 0x3000)
    made.update_call("executable", "node", own)
    ((name, (executable, node, params)),) = recorder.calls
    assert name == "cuGraphExecKernelNodeSetParams"
    assert (executable, node) == ("executable", "node")
    pointers = (ctypes.c_void_p * 2).from_address(int(params.kernelParams))
    values = [ctypes.c_uint64.from_address(p or 0).value for p in pointers]
    assert values == [0x1000, 0x3000]


def test_plain_launches_and_events(made: Any, recorder: Recorder):
    own = call(made, recorder)
    made.launch(own, "stream")
    made.record("event", "stream")
    made.wait("other", "event")
    launch, record, wait = recorder.calls
    shape = (2, 1, 1, 64, 1, 1, 128)
    assert launch == ("cuLaunchKernel", (own.function, *shape, "stream", own.params, 0))
    assert record == ("cuEventRecord", ("event", "stream"))
    assert wait == ("cuStreamWaitEvent", ("other", "event", 0))
