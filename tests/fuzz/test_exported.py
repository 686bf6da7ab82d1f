"""PyTorch's operator database as a part of the search."""

import numpy as np
import pytest

from tests.fuzz.checks import check
from tests.fuzz.exported import NotExported, random_exported, unlike, what_is_missing

HERE = not what_is_missing()


@pytest.mark.skipif(HERE, reason="PyTorch is installed")
def test_the_search_says_what_it_needs():
    with pytest.raises(NotExported, match="is not installed: pip install"):
        random_exported(0, "cpu")


@pytest.mark.skipif(not HERE, reason="needs torch, onnxscript and expecttest")
def test_an_operator_of_the_database_computes_what_pytorch_does():
    from tests.fuzz import exported

    database = exported.operator_database()
    seed = next(i for i, operator in enumerate(database) if operator.name == "add")
    case = random_exported(seed, "cpu")
    assert case is not None
    assert case.note == "add"
    assert check(case) is None


def test_other_numbers_types_and_shapes_are_found():
    wanted = {"y": np.array([1.0, np.nan], np.float32)}
    assert not unlike({"y": wanted["y"] + np.float32(1e-5)}, wanted)
    assert "at [0]" in unlike({"y": wanted["y"] + 1}, wanted)
    assert "float64[2], not float32[2]" in unlike({"y": wanted["y"].astype(float)}, wanted)
    assert "float32[1], not float32[2]" in unlike({"y": wanted["y"][:1]}, wanted)
