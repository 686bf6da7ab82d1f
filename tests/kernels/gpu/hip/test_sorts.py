"""Sorts and running sums as hipcc compiles them, and emulated with wavefronts of 64."""

from pathlib import Path

import numpy
import pytest

from compiler.kernels.group import Group
from compiler.target.target import parse_gpu
from tests.kernels.gpu.emulator import run
from tests.kernels.gpu.hip.test_contraction import (
    WAVEFRONTS,
    check_resources,
    compiled,
    disassembly,
    emulated,
)
from tests.kernels.gpu.of_template import kernel_in
from tests.kernels.test_cumulative import compare
from tests.kernels.test_cumulative import draw as draw_sums
from tests.kernels.test_cumulative import group_of as sums_of
from tests.kernels.test_top_k import draw, expected, group_of

TARGET = parse_gpu("hip:gfx90a:fp32")
GROUPS = {
    "top_k": group_of(numpy.broadcast_to(numpy.float64(0), (2, 5000)), 5000),
    "cumulative": sums_of(numpy.broadcast_to(numpy.float16(0), (1, 100_000)), 1),
}


@compiled
@pytest.mark.parametrize(("name", "group"), GROUPS.items(), ids=GROUPS)
def test_hipcc_compiles_them_without_spills(name: str, group: Group, tmp_path: Path):
    kernel = kernel_in(name, group, TARGET)
    assert kernel is not None
    assert len(kernel.launches) > 1
    check_resources(disassembly(kernel, TARGET, tmp_path))


@emulated
def test_rows_are_sorted():
    x = draw((2, 5000), "float32")
    group = group_of(x, 5000)
    kernel = kernel_in("top_k", group, TARGET)
    assert kernel is not None
    _, positions = run(kernel, group, [x], order=WAVEFRONTS)
    assert positions.tobytes() == expected(x, 5000, 1, True)[1].tobytes()


@emulated
def test_rows_are_added_up():
    x = draw_sums((2, 3000, 3), "float32")
    group = sums_of(x, 1, exclusive=True)
    kernel = kernel_in("cumulative", group, TARGET)
    assert kernel is not None
    (result,) = run(kernel, group, [x], order=WAVEFRONTS)
    compare(result, x, 1, True, False)
