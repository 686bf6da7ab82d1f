"""RNN, GRU and LSTM are compiled once for all steps and batches on a CPU."""

import logging
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import compiler
from compiler.program.model import DynamicModule
from tests.frontend.test_recurrent import BATCH, GATES, WIDTH, model_of
from tests.program.checks import check
from tests.program.symbolic.test_running import LOGGER, messages, tensor

SIZES = ((7, 5), (9, 2), (30, 4), (2, 2), (5, 17), (8, 6))
"""Steps and batches."""


def with_open_sizes(model: onnx.ModelProto, batch: str | int = "batch") -> onnx.ModelProto:
    """A model whose steps, and batch if it is a name, are open."""
    dimensions = model.graph.input[0].type.tensor_type.shape.dim
    dimensions[0].dim_param = "steps"
    if isinstance(batch, str):
        dimensions[1].dim_param = batch
    return model


def run_for_all_sizes(
    model: onnx.ModelProto, sizes: tuple[tuple[int, int], ...], caplog: pytest.LogCaptureFixture
) -> DynamicModule:
    """A module that was compared with onnxruntime at some sizes, and compiled once."""
    module = compiler.compile(model, threads=2)
    assert isinstance(module, DynamicModule)
    caplog.clear()
    with caplog.at_level(logging.WARNING, LOGGER):
        for steps, batch in sizes:
            check(module, model, {"x": tensor(steps, batch, WIDTH)})
    assert messages(caplog) == ["all"]
    module.verify()
    return module


@pytest.mark.parametrize("op_type", GATES)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_new_lengths_and_batches_compile_nothing(
    op_type: str, direction: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model = with_open_sizes(model_of(op_type, "B", direction=direction))
    module = run_for_all_sizes(model, SIZES, caplog)
    module.save(tmp_path / "saved")
    loaded = compiler.load(tmp_path / "saved", threads=1)
    assert isinstance(loaded, DynamicModule)
    caplog.clear()
    with caplog.at_level(logging.WARNING, LOGGER):
        for steps, batch in ((11, 3), (3, 9)):
            check(loaded, model, {"x": tensor(steps, batch, WIDTH)})
    assert not caplog.records
    for steps, batch in ((1, 4), (6, 1), (1, 1)):
        check(module, model, {"x": tensor(steps, batch, WIDTH)})
    # onnxruntime ends the process for a GRU without steps
    results = module.run({"x": tensor(0, 3, WIDTH)})
    assert results["Y"].shape[0] == 0
    assert not results["Y_h"].any()


@pytest.mark.parametrize(
    ("op_type", "optional", "attributes"),
    [
        ("LSTM", "Bhc", {"input_forget": 1}),
        ("LSTM", "BhcL", {"direction": "bidirectional"}),
        ("LSTM", "", {"activations": ["Relu", "Softsign", "HardSigmoid"]}),
        ("GRU", "BhL", {"linear_before_reset": 1}),
        ("GRU", "Bh", {"activations": ["HardSigmoid", "Softplus"]}),
        ("RNN", "BhL", {"direction": "reverse", "activations": ["Affine"]}),
    ],
)
def test_states_lengths_and_activations(
    op_type: str, optional: str, attributes: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    if "Affine" in attributes.get("activations", ()):
        attributes = attributes | {"activation_alpha": [0.5], "activation_beta": [0.2]}
    model = with_open_sizes(model_of(op_type, optional, **attributes), BATCH)
    run_for_all_sizes(model, tuple((steps, BATCH) for steps in (7, 9, 30, 5, 6)), caplog)


@pytest.mark.parametrize(
    ("op_type", "read"),
    [("RNN", ["Y_h"]), ("GRU", ["Y_h"]), ("LSTM", ["Y_h"]), ("LSTM", ["Y_c"]), ("LSTM", ["Y"])],
)
def test_some_results_alone(
    op_type: str, read: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    model = with_open_sizes(model_of(op_type, "B"))
    outputs = [output for output in model.graph.output if output.name in read]
    del model.graph.output[:]
    model.graph.output.extend(outputs)
    run_for_all_sizes(model, SIZES[:3], caplog)


def test_a_step_of_many_units_is_that_of_known_steps() -> None:
    """Units of several tiles, the last of which is not full."""
    steps, batch, hidden = 6, 5, 150
    random = np.random.default_rng(0)
    weights = {
        name: (random.standard_normal((1, 4 * hidden, width)) / width**0.5).astype("f4")
        for name, width in (("W", WIDTH), ("R", hidden))
    }
    node = onnx.helper.make_node("LSTM", ["x", "W", "R"], ["y"], hidden_size=hidden)
    graph = onnx.helper.make_graph(
        [node],
        "g",
        [onnx.helper.make_tensor_value_info("x", 1, ["steps", "batch", WIDTH])],
        [onnx.helper.make_tensor_value_info("y", 1, None)],
        [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    opset = [onnx.helper.make_opsetid("", 14)]
    model = onnx.helper.make_model(graph, opset_imports=opset, ir_version=8)
    module = compiler.compile(model, threads=2)
    assert isinstance(module, DynamicModule)
    for more in range(3):
        check(module, model, {"x": tensor(steps + more, batch + more, WIDTH)})
