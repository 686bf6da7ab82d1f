"""Unrolled recurrent operators agree with onnxruntime's."""

from typing import Any

import numpy as np
import pytest
from onnx import helper, numpy_helper

from compiler.errors import UnsupportedOperatorError
from compiler.frontend.importing import import_model
from compiler.frontend.interpreter import interpret
from compiler.frontend.semantics import Semantics
from compiler.net.operators.recurrence import ACTIVATION_PARAMETERS, DEFAULT_ACTIVATIONS
from tests.frontend.checks import assert_close, check, counts, random_inputs, run

STEPS, BATCH, WIDTH, HIDDEN = 4, 3, 5, 6
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def model_of(op_type: str, optional: str = "", opset: int = 14, /, **attributes: Any):
    """A model of one recurrent operator with constant weights and chosen optional inputs."""
    generator = np.random.default_rng(11)
    two = attributes.get("direction") == "bidirectional"
    directions, gates = 1 + two, GATES[op_type]
    shapes = {
        "W": (directions, gates * HIDDEN, WIDTH),
        "R": (directions, gates * HIDDEN, HIDDEN),
        "B": (directions, 2 * gates * HIDDEN),
        "h": (directions, BATCH, HIDDEN),
        "c": (directions, BATCH, HIDDEN),
        "P": (directions, 3 * HIDDEN),
    }
    weights = {n: generator.standard_normal(s).astype(np.float32) * 0.5 for n, s in shapes.items()}
    lengths = np.array([4, 2, 3], np.int32)
    names = ["W", "R", "B", "L", "h", *(["c", "P"] if op_type == "LSTM" else [])]
    used = [name if name in "WR" or name in optional else "" for name in names]
    outputs = ["Y", "Y_h", *(["Y_c"] if op_type == "LSTM" else [])]
    node = helper.make_node(
        op_type, ["x", *used], outputs, name="cell", hidden_size=HIDDEN, **attributes
    )
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", 1, [STEPS, BATCH, WIDTH])],
        [helper.make_tensor_value_info(name, 1, None) for name in outputs],
        [numpy_helper.from_array(lengths if n == "L" else weights[n], n) for n in used if n],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


@pytest.mark.parametrize("op_type", GATES)
@pytest.mark.parametrize("optional", ["", "B", "Bh", "BhL"])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_directions_biases_states_and_lengths(op_type: str, optional: str, direction: str):
    imported = check(model_of(op_type, optional + "c" * ("h" in optional), direction=direction))
    assert op_type not in counts(imported)


def test_peepholes():
    check(model_of("LSTM", "BP"))


def test_reset_after_the_gemm():
    check(model_of("GRU", "Bh", linear_before_reset=1))


@pytest.mark.parametrize("opset", [7, 14, 22])
def test_opsets(opset: int):
    check(model_of("LSTM", "B", opset))


@pytest.mark.parametrize(
    "activations",
    [["Relu", "Softsign", "HardSigmoid"], ["Sigmoid", "ScaledTanh", "Elu"]],
)
def test_activations(activations: list[str]):
    attributes = {"activation_alpha": [0.3], "activation_beta": [0.4]}
    if "Elu" in activations:
        attributes = {"activation_alpha": [1.2, 0.7], "activation_beta": [0.6]}
    check(model_of("LSTM", "B", activations=activations, **attributes))


@pytest.mark.parametrize("name", ACTIVATION_PARAMETERS)
@pytest.mark.parametrize(
    ("op_type", "position"), [("RNN", 0), ("GRU", 1), ("LSTM", 0), ("LSTM", 2)]
)
@pytest.mark.parametrize("alphas", [[], [0.7]], ids=["none", "alpha"])
def test_missing_parameters_may_be_onnxruntimes(
    op_type: str, position: int, name: str, alphas: list[float]
):
    names = list(DEFAULT_ACTIVATIONS[op_type])
    names[position] = name
    given = {"activation_alpha": alphas} if alphas else {}
    model = model_of(op_type, "B", activations=names, **given)
    imported = import_model(model, semantics=Semantics.parse("onnxruntime"))
    inputs = random_inputs(imported)
    results = interpret(imported.module, imported.weights, inputs)
    assert_close([*results.values()], run(model, inputs))


def test_an_unknown_activation_is_unsupported():
    with pytest.raises(UnsupportedOperatorError, match=r"LSTM 'cell'.*'Wavy'"):
        import_model(model_of("LSTM", activations=["Wavy", "Tanh", "Tanh"]))


def test_lengths_of_a_run():
    model = model_of("GRU", "BL")
    lengths = next(t for t in model.graph.initializer if t.name == "L")
    model.graph.initializer.remove(lengths)
    model.graph.input.append(helper.make_tensor_value_info("L", 6, [BATCH]))
    from compiler.frontend.export import export_model
    from tests.frontend.checks import assert_close, run

    imported = import_model(model)
    x = np.random.default_rng(1).standard_normal((STEPS, BATCH, WIDTH)).astype(np.float32)
    inputs = {"x": x, "L": np.array([1, 4, 2], np.int32)}
    again = export_model(imported.module, imported.weights)
    assert_close(run(again, inputs), run(model, inputs))


@pytest.mark.parametrize("op_type", GATES)
@pytest.mark.parametrize("optional", ["B", "Bhc"])
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
@pytest.mark.parametrize("layout", [0, 1])
def test_after_no_step_states_are_the_initial_ones(
    op_type: str, optional: str, direction: str, layout: int
):
    model = model_of(op_type, optional, direction=direction, layout=layout)
    shape = [BATCH, 0, WIDTH] if layout else [0, BATCH, WIDTH]
    model.graph.input[0].CopyFrom(helper.make_tensor_value_info("x", 1, shape))
    states = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer if t.name in "hc"}
    for tensor in model.graph.initializer:
        if layout and tensor.name in states:
            states[tensor.name] = states[tensor.name].swapaxes(0, 1)
            tensor.CopyFrom(numpy_helper.from_array(states[tensor.name], tensor.name))
    imported = import_model(model)
    found = interpret(imported.module, imported.weights, {"x": np.zeros(shape, np.float32)})
    directions = 1 + (direction == "bidirectional")
    state = (BATCH, directions, HIDDEN) if layout else (directions, BATCH, HIDDEN)
    assert found["Y"].shape == (
        (BATCH, 0, directions, HIDDEN) if layout else (0, directions, BATCH, HIDDEN)
    )
    zeros = np.zeros(state, np.float32)
    np.testing.assert_array_equal(found["Y_h"], states.get("h", zeros))
    if op_type == "LSTM":
        np.testing.assert_array_equal(found["Y_c"], states.get("c", zeros))


@pytest.mark.parametrize("op_type", GATES)
def test_weights_are_stored_once(op_type: str):
    imported = import_model(model_of(op_type, "B"))
    size = sum(array.size for array in imported.weights.values())
    gates = GATES[op_type] * HIDDEN
    assert size <= gates * (WIDTH + HIDDEN + 2) + BATCH * HIDDEN
