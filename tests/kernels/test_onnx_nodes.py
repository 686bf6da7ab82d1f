"""Every node test case of the installed onnx whose operator has a kernel."""

from collections import defaultdict

import numpy
import pytest

from compiler.kernels.ops.lowering import LOWERINGS
from compiler.net.operators import KINDS, Kind
from tests.kernels.harness import evaluate_once
from tests.kernels.node_cases import backend_cases, node_case, plain_types, usable_names

NAMES = sorted(usable_names())
OPERATORS = defaultdict[str, list[str]](list)
"""The names of the cases of each operator."""
for _name in NAMES:
    OPERATORS[backend_cases()[_name].model.graph.node[0].op_type].append(_name)


def test_every_operator_of_the_table_has_a_lowering():
    assert set(LOWERINGS) == set(KINDS)


def test_only_values_that_are_no_plain_tensors_are_left_out():
    """Strings, sequences, optionals and, of Cast and of the two of quantisation, 4- and 8-bit
    floats and 2- and 4-bit integers."""
    left_out = [case for case in backend_cases().values() if not plain_types(case)]
    kinds = {case.model.graph.node[0].op_type for case in left_out}
    assert kinds <= {"Cast", "DequantizeLinear", "Equal", "Identity", "QuantizeLinear"}
    assert len(NAMES) >= 780


@pytest.mark.parametrize("operator", OPERATORS)
def test_node_cases(operator: str):
    wrong = dict[str, AssertionError]()
    for name in OPERATORS[operator]:
        case = node_case(name)
        results = evaluate_once(case.group, case.inputs)
        try:
            for result, expected in zip(results, case.expected, strict=True):
                numpy.testing.assert_allclose(
                    wide(result), wide(expected), rtol=case.rtol, atol=case.atol
                )
        except AssertionError as error:
            wrong[name] = error
    assert not wrong


def wide(array: numpy.ndarray) -> numpy.ndarray:
    """An array whose type NumPy compares by tolerance."""
    return array.astype("float64") if array.dtype.name == "bfloat16" else array


def test_views_and_kernels_are_told_apart():
    assert {KINDS[name] for name in ("Reshape", "Flatten")} == {Kind.VIEW}
