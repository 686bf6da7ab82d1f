"""Every node test case of the installed onnx whose operator has a kernel."""

import numpy
import pytest

from compiler.kernels.ops.lowering import LOWERINGS
from compiler.net.operators import KINDS, Kind
from tests.kernels.harness import evaluate
from tests.kernels.node_cases import backend_cases, node_case, plain_types, usable_names

NAMES = sorted(usable_names())


def test_every_operator_of_the_table_has_a_lowering():
    assert set(LOWERINGS) == set(KINDS)


def test_only_values_that_are_no_plain_tensors_are_left_out():
    """Strings, sequences, optionals and the 4- and 8-bit floats and 4-bit integers of Cast."""
    left_out = [case for case in backend_cases().values() if not plain_types(case)]
    kinds = {case.model.graph.node[0].op_type for case in left_out}
    assert kinds <= {"Cast", "Equal", "Identity"}
    assert len(NAMES) >= 780


@pytest.mark.parametrize("name", NAMES)
def test_node_case(name: str):
    case = node_case(name)
    results = evaluate(case.group, case.inputs)
    for result, expected in zip(results, case.expected, strict=True):
        wide = [
            a.astype("float64") if a.dtype.name == "bfloat16" else a for a in (result, expected)
        ]
        numpy.testing.assert_allclose(*wide, rtol=case.rtol, atol=case.atol)


def test_views_and_kernels_are_told_apart():
    assert {KINDS[name] for name in ("Reshape", "Flatten")} == {Kind.VIEW}
