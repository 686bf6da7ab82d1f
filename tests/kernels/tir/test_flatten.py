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


def shifted(draw: Draw, length: int, width: int, inner: int) -> Any:
    """A function of one loop that reads a table at its quotient and at shifted remainders.

    It is given a size, by which some remainders are shifted.
    """
    size = te.var("n", "int32")
    shift = draw.choice([0, draw.randint(1, 6), size * draw.choice([1, 2, 4])])
    row_length = inner * draw.choice([width, 2, 3])
    chosen, halved, last = draw.randint(0, 2), draw.chance(0.3), draw.choice([None, 0, 1])
    table = te.placeholder((length, width, inner), "float32", name="A")

    def element(i: Any) -> Any:
        position = tirx.floordiv(i, inner)
        within = tirx.floordiv(tirx.floormod(i, row_length), inner)
        moved = (i, position, within)[chosen] + shift
        column = tirx.floormod(tirx.floordiv(moved, 2) if halved else moved, width)
        along = 0 if last is None else tirx.floormod(i + last, inner)
        return table(tirx.floordiv(i, row_length), column, along)

    return te.create_prim_func([size, table, te.compute((length,), element, name="B")])


def read(text: str, buffer: str) -> str:
    """The index at which a buffer is read."""
    (line,) = (line.strip() for line in text.splitlines() if f"= {buffer}[" in line)
    return line[line.index(f"= {buffer}[") + len(buffer) + 3 : -1]


def indices(function: Any) -> tuple[list[str], str, str]:
    """The loops of a function, the index at which it reads a table, and this index when flat."""
    module: Any = IRModule({"main": function})
    for one in (s_tir.transform.ConvertBlocksToOpaque(), s_tir.transform.LowerOpaqueBlock()):
        module = one(module)
    (names,) = re.findall(r"for ([\w, ]+) in", str(module))
    return names.split(", "), read(str(module), "A"), read(str(FLATTEN_BUFFERS(module)), "A_1")


def test_flat_indices_are_those_of_rows_and_columns():
    draw = Draw(3)
    for _ in range(150):
        width = draw.choice([2, 3, 4, 8])
        names, before, after = indices(gathered(draw, width))
        for i, j in np.ndindex(2, 8):
            loops: dict[str, Any] = dict(zip(names, (i, j), strict=True))
            row, column = eval(f"({before})", loops)
            assert eval(after, loops) == row * width + column, (before, after)


def test_flat_indices_of_a_shifted_loop_are_those_of_its_parts():
    draw = Draw(5)
    for _ in range(300):
        width, inner = draw.choice([2, 3, 4]), draw.choice([2, 3, 4])
        length = width * inner * draw.choice([1, 2, 6])
        (name,), before, after = indices(shifted(draw, length, width, inner))
        for i, size in np.ndindex(length, 5):
            values: dict[str, Any] = {name: i, "n": size}
            row, column, along = eval(f"({before})", values)
            position = (row * width + column) * inner + along
            assert eval(after, values) == position, (before, after)


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
