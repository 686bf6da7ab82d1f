"""The generators make what they promise: valid modules that the oracle can run."""

import numpy as np
import pytest
from hypothesis import given, settings

from compiler.frontend.interpreter import interpret
from compiler.ir.context import parse_module
from tests.strategies import LARGEST, Model, dataflow_graphs


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_models_run_and_stay_small(dtype: str):
    @settings(max_examples=30, deadline=None)
    @given(dataflow_graphs(dtype))
    def check(model: Model):
        model.module.verify()
        for result in interpret(model.module, model.weights, model.inputs).values():
            assert result.dtype == dtype
            assert np.isfinite(result).all()
            assert np.abs(result).max(initial=0) <= LARGEST

    check()


@settings(max_examples=15, deadline=None)
@given(dataflow_graphs())
def test_models_round_trip_through_text(model: Model):
    text = str(model.module)
    parsed = parse_module(text)
    parsed.verify()
    assert str(parsed) == text
