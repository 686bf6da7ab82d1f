"""One CUDA kernel of a group with symbols gives numpy's results for all sizes, on the emulator."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from compiler.kernels.building.cuda_kernel import generate
from compiler.kernels.group import Group, TensorInfo
from compiler.kernels.template import KernelSource
from compiler.target.target import parse_gpu
from compiler.tensors.extents import NotForAllSizes, value_at
from tests.kernels.gpu.emulator import COMPILER, Order, Program
from tests.kernels.symbolic.cases import GENERIC, SIZES, Sizes, expected, feeds, group, node

pytestmark = pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")

TARGET = parse_gpu("cuda:sm_90:fp32")

CASES: Mapping[str, Group] = {
    name: replace(case, name=f"k{i}") for i, (name, case) in enumerate(GENERIC.items())
}


@cache
def sources() -> Mapping[str, KernelSource]:
    """The kernels of all cases."""
    return {name: generate(case, TARGET) for name, case in CASES.items()}


@cache
def program() -> Program:
    """All kernels, which C++ compiles as one program."""
    texts = "\n".join(kernel.text for kernel in sources().values())
    launches = tuple(launch for kernel in sources().values() for launch in kernel.launches)
    return Program(KernelSource(texts, launches))


def admitted(case: Group) -> Iterator[Sizes]:
    """The sizes that the bounds of a case's symbols admit."""
    own = {symbol.name: symbol for symbol in case.symbols}
    for sizes in SIZES:
        if all(s.high is None or sizes[name] <= s.high for name, s in own.items()):
            yield {name: sizes[name] for name in own}


def with_sizes_operand(numeric: Group, sizes: Sizes) -> Group:
    """The operands of a kernel at some sizes: after the reads those sizes, then the results."""
    read = TensorInfo("int64", (len(sizes),))
    values = (*numeric.reads, read, *numeric.writes)
    outputs = tuple(range(numeric.inputs + 1, len(values)))
    weights = (*numeric.weights, True)
    return Group(numeric.name, values, numeric.inputs + 1, weights, {}, (), outputs)


def at(kernel: KernelSource, sizes: Sizes) -> KernelSource:
    """A kernel whose grids and workspaces are numbers."""
    launches = tuple(
        replace(own, grid=tuple(value_at(extent, sizes) for extent in own.grid))
        for own in kernel.launches
    )
    workspaces = tuple(value_at(own, sizes) for own in kernel.workspaces)
    return replace(kernel, launches=launches, workspaces=workspaces)


def in_larger_grids(kernel: KernelSource) -> KernelSource:
    """A kernel at some sizes in grids of more blocks, where the sizes decide the grid."""
    launches = tuple(
        replace(own, grid=tuple(n + 1 + n // 2 if n > 1 else n for n in own.grid))
        for own in kernel.launches
    )
    return replace(kernel, launches=launches)


def run_at(
    name: str, sizes: Sizes, order: Order, seed: int = 0, *, larger: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """The result of a kernel for sizes, and numpy's."""
    numeric, kernel = CASES[name].at(sizes), at(sources()[name], sizes)
    if larger:
        kernel = in_larger_grids(kernel)
    kernel = replace(kernel, packings=("",) * (numeric.inputs + 1))
    arrays = feeds(numeric, seed)
    values = np.array([*sizes.values()], np.int64)
    own = with_sizes_operand(numeric, sizes)
    (result,) = program().run(kernel, own, [*arrays, values], order=order)
    return result, expected(numeric, arrays)


@pytest.mark.parametrize("name", CASES)
def test_one_kernel_gives_numpys_results_for_all_sizes(name: str):
    for number, sizes in enumerate(admitted(CASES[name])):
        result, wanted = run_at(name, sizes, Order(number), number)
        np.testing.assert_allclose(result, wanted, 1e-4, 1e-4, err_msg=str(sizes))


@pytest.mark.parametrize("name", CASES)
def test_blocks_beyond_the_grid_for_its_sizes_do_nothing(name: str):
    for number, sizes in enumerate(admitted(CASES[name])):
        result, wanted = run_at(name, sizes, Order(number), number, larger=True)
        np.testing.assert_allclose(result, wanted, 1e-4, 1e-4, err_msg=str(sizes))


@pytest.mark.parametrize("name", CASES)
def test_all_accesses_are_proved_to_be_inside_for_all_sizes(name: str):
    # a row of a table is the index of an element divided by the row's length: that is tested
    undecided = sources()[name].footprint.undecided
    assert not undecided or (name == "embedding" and "of input0" in undecided[0])


def test_a_grid_is_that_of_all_sizes():
    (launch,) = sources()["flat map"].launches
    assert str(launch.grid[0]) == "(s0*s1 + 127)//128"
    (launch,) = sources()["softmax"].launches
    assert str(launch.grid[0]) == "s0"


def test_a_tile_keeps_its_size_where_tensors_may_be_smaller():
    """A transposed read goes through shared memory, whose arrays have a size in CUDA."""
    assert "__shared__ alignas(64) float input0_shared_ptr[1056]" in sources()["transpose"].text


def test_what_needs_numbers_has_no_symbolic_kernel():
    n = CASES["map"].reads[0].shape[0]
    scan = group(
        "scan", [("float32", (n, 8))], [node("CumSum", [0], 1, axis=0)], [("float32", (n, 8))]
    )
    with pytest.raises(NotForAllSizes, match="no symbolic kernel: CumSum"):
        generate(scan, TARGET)


def test_sizes_that_sum_up_are_no_divisors():
    """TVM cannot divide a fused index by n + 3: that axis is the outermost one."""
    assert "/ (s1 + 3)" not in sources()["concat"].text
