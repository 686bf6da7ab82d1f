"""Random models through the whole pipeline, kernels and CPU backend, against the interpreter."""

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compiler.artifact.module import Module
from compiler.driver.build import build_module
from compiler.driver.settings import Settings
from compiler.frontend.interpreter import interpret
from compiler.kernels.building import KernelCache
from tests.strategies import Model, dataflow_graphs, pipelines

SLOW = settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def compile_and_run(model: Model, pipeline: str, threads: int) -> dict[str, np.ndarray]:
    """The outputs of two runs of one module, which must agree in every bit."""
    settings = Settings("cpu", pipeline, cache=KernelCache(), jobs=1)
    built = build_module(model.module, model.weights, settings)
    module = Module(built.content, threads=threads, poison=True)
    first, second = module.run(model.inputs), module.run(model.inputs)
    for name, array in first.items():
        np.testing.assert_array_equal(array, second[name])
    return first


@SLOW
@given(dataflow_graphs(dtype="int32"), pipelines(), st.integers(1, 3))
def test_integer_models_agree_in_every_bit(model: Model, pipeline: str, threads: int):
    expected = interpret(model.module, model.weights, model.inputs)
    actual = compile_and_run(model, pipeline, threads)
    assert list(actual) == list(expected)
    for name, array in expected.items():
        np.testing.assert_array_equal(actual[name], array)


@SLOW
@given(dataflow_graphs(), pipelines(), st.integers(1, 3))
def test_float_models_agree(model: Model, pipeline: str, threads: int):
    expected = interpret(model.module, model.weights, model.inputs)
    actual = compile_and_run(model, pipeline, threads)
    for name, array in expected.items():
        np.testing.assert_allclose(actual[name], array, rtol=2e-4, atol=2e-4)
