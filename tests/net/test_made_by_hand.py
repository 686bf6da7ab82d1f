"""Operators that no import leaves, in a graph made by hand: targets compute or refuse them."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Region

from compiler.artifact.module import Module
from compiler.driver.build import build_module, full_target
from compiler.driver.settings import Settings
from compiler.errors import KernelError
from compiler.ir.dataflow import GraphOp, NoneOp, OperatorOp, YieldOp
from compiler.ir.types import tensor_type
from compiler.ir.values import value_to_attribute
from compiler.net.operators.quantisation import QUANTISATION
from tests.kernels.gpu.emulator import COMPILER
from tests.net.test_specs import drawn, results
from tests.operator_cases import Array, Case, Draw
from tests.own_cases import FAMILIES

EMULATED = pytest.param(
    "emu", marks=pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")
)
OWN = sorted(
    {generator(draw).op_type for generator in FAMILIES.values() for draw in map(Draw, range(9))}
    | QUANTISATION.keys()
)
REFUSED: Mapping[tuple[str, str], str] = {
    ("Recurrence", "emu"): "GPUs have kernels of all its steps together for some sizes",
    ("PartialRanges", "emu"): "a GPU finds ranges while it stores the tensor",
}
"""What a target has no kernel for, and what the error says."""


def module_of(case: Case) -> ModuleOp:
    """A graph of one operator called `node`, whose operands are the inputs `i0`, `i1`..."""
    given = [array for array in case.inputs if array is not None]
    block = Block(arg_types=[tensor_type(array.dtype.name, array.shape) for array in given])
    none, arguments = NoneOp(), iter(block.args)
    block.add_op(none)
    operands = [none.results[0] if array is None else next(arguments) for array in case.inputs]
    types = [tensor_type(array.dtype.name, array.shape) for array in results(case)]
    attributes = {name: value_to_attribute(value) for name, value in case.attributes.items()}
    op = OperatorOp(case.op_type, operands, types, attributes, "node")
    block.add_op(op)
    block.add_op(YieldOp(*op.outputs))
    names = [f"i{i}" for i in range(len(given))], [f"o{i}" for i in range(len(types))]
    return ModuleOp([GraphOp("main", 23, *names, Region(block))])


def run(case: Case, target: str) -> list[Array]:
    """The results of an operator compiled for a target."""
    settings = Settings(full_target(target, None, None), None, None, budget=0)
    module = Module.of(build_module(module_of(case), {}, settings), {})
    given = [array for array in case.inputs if array is not None]
    found: dict[str, Any] = module.run({f"i{i}": array for i, array in enumerate(given)})
    return [*found.values()]


@pytest.mark.parametrize("target", ["cpu", EMULATED])
@pytest.mark.parametrize("op_type", OWN)
def test_an_operator_is_computed_or_refused(op_type: str, target: str):
    case = drawn()[op_type][0].canonical
    if (message := REFUSED.get((op_type, target))) is not None:
        with pytest.raises(KernelError, match=f'{op_type} "[^"]+": {message}.*import the model'):
            run(case, target)
        return
    for found, wanted in zip(run(case, target), results(case), strict=True):
        np.testing.assert_allclose(
            found.astype(np.float64), wanted.astype(np.float64), rtol=1e-5, atol=1e-5
        )
