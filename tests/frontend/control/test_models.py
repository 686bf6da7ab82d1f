"""Random models of nested control flow, against onnxruntime, the interpreter and their export."""

import numpy as np
from hypothesis import event, given, settings
from hypothesis import strategies as st
from onnx import ModelProto

from compiler.frontend.export import export_model
from compiler.frontend.importing import import_model
from compiler.frontend.interpreter import interpret
from tests.frontend.control.checks import check, kinds, reference, static
from tests.frontend.control.models import control_models


@settings(max_examples=8, deadline=None)
@given(control_models(), st.integers(0, 2**32))
def test_random_control_flow_equals_onnxruntime(model: ModelProto, seed: int):
    module = static(model)
    event(f"control tasks: {min(len(kinds(module)), 4)}")
    imported = import_model(model, regions=True)
    exported = export_model(imported.module, imported.weights)
    random = np.random.default_rng(seed)
    for _ in range(3):
        feeds = {n: random.integers(-5, 6, s) for n, s in SHAPES.items()}
        check(module, model, feeds)
        found = interpret(imported.module, imported.weights, feeds)
        columns = found.values(), reference(exported, feeds), reference(model, feeds)
        for array, again, wanted in zip(*columns, strict=True):
            np.testing.assert_array_equal(array, wanted)
            np.testing.assert_array_equal(again, wanted)


SHAPES = {"x": (3,), "y": (3,), "rows": (70, 3)}
