"""Fields of operations that are read directly."""

from typing import Any

import pytest
from xdsl.dialects.builtin import f32
from xdsl.ir import Block, Region
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    region_def,
    result_def,
    var_operand_def,
    var_result_def,
)
from xdsl.utils.test_value import create_ssa_value

from compiler.ir.accessors import direct_access


def definition() -> type[IRDLOperation]:
    """A new operation with fields of several kinds."""

    @irdl_op_definition
    class MixedOp(IRDLOperation):
        name = "test.mixed"
        first = operand_def()
        second = operand_def()
        others = var_operand_def()
        last = operand_def()
        one = result_def()
        more = var_result_def()
        body = region_def()

    return MixedOp


@direct_access
@irdl_op_definition
class VariadicOp(IRDLOperation):
    """An operation of operands and results only."""

    name = "test.variadic"
    inputs = var_operand_def()
    outputs = var_result_def()


VALUES = [create_ssa_value(f32) for _ in range(5)]


@pytest.mark.parametrize("name", ["first", "second", "others", "last", "one", "more", "body"])
def test_a_field_is_what_irdl_finds(name: str):
    plain, direct = (
        kind.create(operands=VALUES, result_types=[f32] * 3, regions=[Region(Block())])
        for kind in (definition(), direct_access(definition()))
    )
    places = {id(v): i for op in (plain, direct) for i, v in enumerate([*op.results, *op.regions])}

    def read(op: IRDLOperation) -> list[object]:
        found: Any = getattr(op, name)
        several: list[object] = [*found] if isinstance(found, tuple) else [found]  # pyright: ignore
        return [places.get(id(value), value) for value in several]

    assert read(direct) == read(plain)


def test_operands_and_results_are_those_of_now():
    op = VariadicOp.create(operands=VALUES[:2], result_types=[f32, f32])
    before = op.inputs
    op.operands[1] = VALUES[3]
    assert [*before] == VALUES[:2]
    assert [*op.inputs] == [VALUES[0], VALUES[3]]
    assert op.outputs == op.results
    with pytest.raises(AttributeError):
        setattr(op, "inputs", [])  # noqa: B010
