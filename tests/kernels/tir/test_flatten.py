"""Elements stay where they are when buffers become flat."""

import re
from typing import Any

import numpy as np
import pytest
from onnx import parser
from tvm import s_tir, te, tirx
from tvm.ir import IRModule

import compiler
from compiler.kernels.tir.flatten import FLATTEN_BUFFERS
from tests.fuzz.draw import Draw


def position(draw: Draw, row: Any, column: Any, width: int) -> Any:
    """A quotient or remainder of a sum of loops, as reversed and repeated axes have."""
    divisor = draw.choice([2, 3, width])
    factor = draw.choice([-2, -1, -1, -1, 1])
    number = draw.randint(-1, 12) + factor * column + draw.choice([0, 0, -4, 4]) * row
    remainder, quotient = tirx.floormod(number, divisor), tirx.floordiv(number, divisor)
    return draw.choice(
        [remainder, quotient, tirx.floormod(quotient, width), tirx.floordiv(remainder, 2)]
    )


def gathered(draw: Draw, width: int) -> Any:
    """A function that reads a column of each row of a table."""
    table = te.placeholder((2, width), "float32", name="A")

    def element(i: Any, j: Any) -> Any:
        return table(i, position(draw, i, j, width))

    return te.create_prim_func([table, te.compute((2, 8), element, name="B")])


def read(text: str, buffer: str) -> str:
    """The index at which a buffer is read."""
    (line,) = (line.strip() for line in text.splitlines() if f"= {buffer}[" in line)
    return line[line.index(f"= {buffer}[") + len(buffer) + 3 : -1]


def test_flat_indices_are_those_of_rows_and_columns():
    draw = Draw(3)
    for _ in range(150):
        width = draw.choice([2, 3, 4, 8])
        module: Any = IRModule({"main": gathered(draw, width)})
        for one in (s_tir.transform.ConvertBlocksToOpaque(), s_tir.transform.LowerOpaqueBlock()):
            module = one(module)
        before = read(str(module), "A")
        after = read(str(FLATTEN_BUFFERS(module)), "A_1")
        (names,) = re.findall(r"for (\w+), (\w+) in", str(module))
        for i, j in np.ndindex(2, 8):
            loops: dict[str, Any] = dict(zip(names, map(int, (i, j)), strict=True))
            row, column = eval(f"({before})", loops)
            assert eval(after, loops) == row * width + column, (before, after)


@pytest.mark.parametrize("target", ["cpu", "emu"])
def test_a_repeated_axis_is_read_backwards(target: str):
    model = parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 22]>
        g (float[2,4] x) => (float[2,8] y) <int64[2] times = {1, 2}, int64[1] start = {-1},
            int64[1] end = {-100}, int64[1] axis = {1}, int64[1] step = {-1}>
        { t = Tile (x, times) y = Slice (t, start, end, axis, step) }"""
    )
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    found = compiler.compile(model, target=target, budget=0).run({"x": x})["y"]
    np.testing.assert_array_equal(found, np.tile(x, 2)[:, ::-1])
