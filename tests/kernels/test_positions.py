"""ArgMax and ArgMin: NaN and equal elements, and a reduction that vectors compute."""

from itertools import product

import numpy as np
import pytest

import compiler
from compiler.kernels.cpu.generic import schedule_cpu
from compiler.kernels.group import TensorInfo
from compiler.target.target import parse_cpu
from tests.frontend.checks import parse
from tests.kernels.gpu.emulator import COMPILER
from tests.kernels.harness import Array, single

NO_COMPILER = pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")


def position(row: Array, largest: bool, last: bool) -> int:
    """The position of an extreme of a row, NaN ignored unless it comes first."""
    if np.isnan(row[0]):
        return 0
    wanted = np.nanmax(row) if largest else np.nanmin(row)
    return int(np.flatnonzero(row == wanted)[-1 if last else 0])


@pytest.mark.parametrize("target", ["cpu", pytest.param("emu", marks=NO_COMPILER)])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "uint8", "int8"])
def test_first_and_last_of_equal_elements(dtype: str, target: str):
    generator = np.random.default_rng(5)
    low = 0 if dtype == "uint8" else -3
    x = generator.integers(low, 4, (6, 67)).astype(dtype)
    if dtype.startswith("float"):
        x[0, :3], x[1, 0], x[2, 5:], x[3, 7:9] = np.nan, np.nan, np.nan, (np.inf, -np.inf)
        x[4, ::2], x[5] = -0.0, -np.inf
    else:
        limits = np.iinfo(dtype)
        x[0, 3:60:7], x[1, 3:60:7], x[2], x[3] = limits.max, limits.min, limits.min, limits.max
    kinds = [*product(("ArgMax", "ArgMin"), (0, 1))]
    results = ", ".join(f"int64[6] y{i}" for i in range(len(kinds)))
    nodes = "".join(
        f" y{i} = {name}<axis=1, keepdims=0, select_last_index={last}>(x)"
        for i, (name, last) in enumerate(kinds)
    )
    element = {"float32": "float"}.get(dtype, dtype)
    text = f"g ({element}[6,67] x) => ({results}) {{{nodes} }}"
    module = compiler.compile(parse(text), target=target)
    actual = module.run({"x": x})
    for i, (name, last) in enumerate(kinds):
        rows = [position(row.astype(np.float64), name == "ArgMax", bool(last)) for row in x]
        assert actual[f"y{i}"].tolist() == rows, (name, last)


def test_a_row_is_reduced_by_one_minimum():
    """LLVM makes vectors of a minimum, not of two values that change under a condition."""
    x = np.zeros((8, 1024), np.float32)
    attributes = {"axis": 1, "keepdims": 0, "select_last_index": 0}
    group = single("ArgMax", [x], [TensorInfo("int64", (8,))], attributes)[0]
    function = schedule_cpu(group, parse_cpu("cpu:x86-64-v3")).function
    assert function is not None
    assert "= T.min(position[" in function.script()
