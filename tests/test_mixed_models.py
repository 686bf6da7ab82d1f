"""Control flow, symbolic dimensions and quantised operators together equal onnxruntime's."""

from collections import Counter

import numpy as np
import onnx
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

import compiler
from compiler.artifact.module import Module
from compiler.program.model import DynamicModule
from compiler.tools.reference import run_onnxruntime
from tests.mixed_models import ROWS, feeds, mixed_models

Inputs = dict[str, np.ndarray]
SEEDS = st.integers(0, 2**32)


def check(module: Module | DynamicModule, model: onnx.ModelProto, inputs: Inputs) -> None:
    """Compare a run with onnxruntime's: to rounding, where a scale is any number."""
    found = module.run(inputs)
    for name, wanted in run_onnxruntime(model, inputs).items():
        assert found[name].shape == wanted.shape
        np.testing.assert_allclose(found[name], wanted, rtol=1e-4, atol=1e-4)


@settings(max_examples=2, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(mixed_models(), SEEDS)
def test_any_model_of_any_number_of_rows(model: onnx.ModelProto, seed: int):
    module = compiler.compile(model)
    event(type(module).__name__)
    for rows in (1, 5, 1):
        check(module, model, feeds(rows, seed + rows))


@settings(max_examples=2, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(mixed_models(symbolic=False), SEEDS, st.sampled_from(["bytes", "floats"]))
def test_any_model_as_one_graph_on_an_emulated_gpu(model: onnx.ModelProto, seed: int, how: str):
    module = compiler.compile(model, target="emu::fp32", dynamic=False, quantised=how)
    assert isinstance(module, Module)
    event(str(Counter(t.kernel for t in module.schedule.all_tasks if t.control)))
    for turn in range(3):
        check(module, model, feeds(ROWS, seed + turn))
