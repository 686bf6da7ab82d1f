"""Conditional nodes of graphs on the emulator."""

from collections.abc import Sequence

import numpy as np
import pytest

from compiler.backends.emu.device import device
from compiler.errors import DeviceError
from tests.emulator.launching import functions

TEXT = """
#define KERNEL extern "C" __global__ void
KERNEL decide(unsigned long long* condition, const int* value) {
  cudaGraphSetConditional((unsigned long long)condition, *value);
}
KERNEL add(int* to, const int* from) { *to += *from; }
KERNEL count_down(unsigned long long* condition, int* left) {
  cudaGraphSetConditional((unsigned long long)condition, --*left > 0);
}
"""
SYMBOLS = ("decide", "add", "count_down")


def add_kernel(graph: int, after: Sequence[int], symbol: str, *arguments: int) -> int:
    """Add a kernel of one thread."""
    driver = device()
    one = (1, 1, 1)
    call = driver.call(functions(TEXT, SYMBOLS)[symbol], one, one, 0, arguments)
    return driver.add_call(graph, after, call)


def run(graph: int) -> None:
    """Run a graph twice, and destroy it."""
    driver = device()
    executable = driver.instantiate(graph, 0)
    driver.destroy_graph(graph)
    for _ in range(2):
        driver.launch_graph(executable, 0)
    driver.synchronize_stream(0)
    driver.destroy_executable(executable)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("value", [0, 1, 7])
def test_an_if_runs_one_of_its_bodies(value: int, seed: int):
    driver = device()
    driver.configure(seed)
    given, ten, one, total = (np.array([x], "i4") for x in (value, 10, 1, 0))
    graph = driver.create_graph()
    condition = driver.create_condition(graph)
    first = add_kernel(graph, (), "decide", condition, given.ctypes.data)
    node, (yes, no) = driver.add_conditional(graph, (first,), condition, "if")
    add_kernel(yes, (), "add", total.ctypes.data, ten.ctypes.data)
    add_kernel(no, (), "add", total.ctypes.data, one.ctypes.data)
    add_kernel(graph, (node,), "add", given.ctypes.data, given.ctypes.data)
    run(graph)
    assert total[0] == (20 if value else 2)
    assert given[0] == 4 * value


@pytest.mark.parametrize("seed", range(4))
def test_a_loop_in_a_loop_runs_until_its_condition_is_0(seed: int):
    driver = device()
    driver.configure(seed)
    outer, inner, three, total = (np.array([x], "i4") for x in (4, 0, 3, 0))
    graph = driver.create_graph()
    condition = driver.create_condition(graph)
    first = add_kernel(graph, (), "decide", condition, outer.ctypes.data)
    node, (body,) = driver.add_conditional(graph, (first,), condition, "loop")
    filled = add_kernel(body, (), "add", inner.ctypes.data, three.ctypes.data)
    nested = driver.create_condition(body)
    again = add_kernel(body, (filled,), "decide", nested, inner.ctypes.data)
    deep, (innermost,) = driver.add_conditional(body, (again,), nested, "loop")
    added = add_kernel(innermost, (), "add", total.ctypes.data, three.ctypes.data)
    add_kernel(innermost, (added,), "count_down", nested, inner.ctypes.data)
    add_kernel(body, (deep,), "count_down", condition, outer.ctypes.data)
    add_kernel(graph, (node,), "add", outer.ctypes.data, three.ctypes.data)
    run(graph)
    assert (total[0], inner[0], outer[0]) == (3 * 3 * (4 + 3), 0, 3)


def test_what_cuda_refuses_is_an_error():
    driver = device()
    graph = driver.create_graph()
    condition = driver.create_condition(graph)
    driver.add_conditional(graph, (), condition, "if")
    with pytest.raises(DeviceError, match="a condition of its graph for itself"):
        driver.add_conditional(graph, (), condition, "if")
    other = driver.create_graph()
    with pytest.raises(DeviceError, match="a condition of its graph for itself"):
        driver.add_conditional(other, (), driver.create_condition(graph), "loop")
    with pytest.raises(DeviceError, match="child graph has no conditional nodes"):
        driver.add_child(other, (), graph)
    driver.launch_graph(driver.instantiate(graph, 0), 0)
    with pytest.raises(DeviceError, match="condition of a conditional node was not set"):
        driver.synchronize_stream(0)
