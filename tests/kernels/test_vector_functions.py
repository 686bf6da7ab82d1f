"""Mathematical functions of vectors, in the epilogues of templates and as LLVM code."""

import math
import re
from collections.abc import Callable

import llvmlite.binding as llvm
import numpy
import pytest

from compiler.kernels.group import Group, Node, TensorInfo
from compiler.kernels.ops.mathematics import FUNCTIONS, link_mathematics, vector_symbol
from tests.kernels.harness import Array
from tests.kernels.template_cases import check, random_array

REFERENCES: dict[str, Callable[[Array], Array]] = {
    "Exp": numpy.exp,
    "Log": numpy.log,
    "Tanh": numpy.tanh,
    "Sigmoid": lambda x: 1 / (1 + numpy.exp(-x)),
    "Erf": numpy.vectorize(math.erf),
    "Softplus": lambda x: numpy.logaddexp(0, x),
    "Elu": lambda x: numpy.where(x < 0, numpy.expm1(x), x),
}


@pytest.mark.parametrize("type", REFERENCES)
def test_epilogue_of_a_whole_vector_and_a_shorter_one(type: str) -> None:
    a, b = random_array(1, (5, 33)), random_array(2, (33, 23))
    infos = [TensorInfo("float32", shape) for shape in (a.shape, b.shape, (5, 23), (5, 23))]
    operators = (Node("MatMul", {}, (0, 1), (2,), "m"), Node(type, {}, (2,), (3,), "n"))
    group = Group(f"vector_{type}", tuple(infos), 2, (False, False), {}, operators, (3,))
    sums = a.astype("float64") @ b.astype("float64")
    with numpy.errstate(invalid="ignore"):
        check(group, [a, b], [REFERENCES[type](sums)], "cpu")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_one_definition_for_each_number_of_lanes(name: str) -> None:
    scalar, short = (vector_symbol(f"flowloom_{name}", lanes) for lanes in (1, 7))
    text = f"""
declare float @{scalar}(float)
declare <7 x float> @{short}(<7 x float>)
define <7 x float> @f(<7 x float> %x, float %y) {{
  %z = call <7 x float> @{short}(<7 x float> %x)
  %s = call float @{scalar}(float %y)
  %t = call <7 x float> @{short}(<7 x float> %z)
  %v = insertelement <7 x float> %t, float %s, i32 0
  ret <7 x float> %v
}}
"""
    linked = link_mathematics(text)
    llvm.parse_assembly(linked)
    assert {*re.findall(r"^define .*@(\w+)", linked.replace('"', ""), re.M)} == {"f", scalar, short}
