"""Recurrences that stay one operator agree with onnxruntime's RNN, GRU and LSTM."""

from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

import compiler
from compiler.backends.emu.device import device
from compiler.frontend.export import export_model
from compiler.frontend.importing import Imported, import_model
from compiler.frontend.interpreter import interpret
from compiler.frontend.semantics import Semantics
from compiler.graph.fusion.recurrences import Recurrence
from compiler.graph.fusion.whole import Whole
from tests.frontend.checks import assert_close, counts, random_inputs, run
from tests.frontend.test_recurrent import BATCH, GATES, HIDDEN, STEPS, model_of
from tests.kernels.gpu.emulator import COMPILER

emulated = pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")
RESETS_AFTER: dict[str, dict[str, Any]] = {"GRU": {"linear_before_reset": 1}}


def kept(model: onnx.ModelProto, operators: int = 1) -> Imported:
    """The import where every recurrence has a kernel; its export and meaning are the model's."""
    imported = import_model(model, has_kernel=lambda sizes: True)
    assert counts(imported)["Recurrence"] == operators
    inputs = random_inputs(imported)
    inputs = {
        n: x if x.dtype.kind == "f" else np.array([4, 2, 3], x.dtype) for n, x in inputs.items()
    }
    expected = run(model, inputs)
    assert_close(run(export_model(imported.module, imported.weights), inputs), expected)
    found = interpret(imported.module, imported.weights, inputs)
    assert_close([*found.values()], expected)
    return imported


@pytest.mark.parametrize("op_type", GATES)
@pytest.mark.parametrize("optional", ["", "B", "Bh", "BhL"])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_directions_biases_states_and_lengths(op_type: str, optional: str, direction: str):
    optional += "c" * ("h" in optional)
    kept(model_of(op_type, optional, direction=direction, **RESETS_AFTER.get(op_type, {})))


@pytest.mark.parametrize("optional", ["", "BhL"])
@pytest.mark.parametrize("direction", ["reverse", "bidirectional"])
def test_a_reset_before_the_gemm(optional: str, direction: str):
    kept(model_of("GRU", optional, direction=direction))


@pytest.mark.parametrize(
    "activations", [["Relu", "Softsign", "HardSigmoid"], ["Sigmoid", "ScaledTanh", "Elu"]]
)
def test_activations(activations: list[str]):
    given = {"activation_alpha": [0.3, 0.7], "activation_beta": [0.4]}
    kept(model_of("LSTM", "B", activations=activations, **given))


def as_unrolled(model: onnx.ModelProto, semantics: str = "onnx") -> None:
    """Check that one operator computes what all steps do, where onnxruntime differs."""
    chosen = Semantics.parse(semantics)
    unrolled = import_model(model, semantics=chosen)
    whole = import_model(model, semantics=chosen, has_kernel=lambda sizes: True)
    assert counts(whole)["Recurrence"] == 1
    inputs = random_inputs(whole)
    first, second = (interpret(i.module, i.weights, inputs) for i in (unrolled, whole))
    assert_close([*second.values()], [*first.values()])


def test_coupled_gates():
    kept(model_of("LSTM", "Bhc", input_forget=1))


@pytest.mark.parametrize("semantics", ["onnx", "onnxruntime"])
def test_missing_parameters(semantics: str):
    names = ["ThresholdedRelu", "Affine", "ScaledTanh"]
    as_unrolled(model_of("LSTM", "Bc", activations=names), semantics)


@pytest.mark.parametrize("op_type", GATES)
def test_clipped(op_type: str):
    as_unrolled(model_of(op_type, "Bh", clip=0.5, **RESETS_AFTER.get(op_type, {})))


@pytest.mark.parametrize("optional", ["Bhc", "B"])
def test_batch_first(optional: str):
    model = model_of("LSTM", optional, layout=1, direction="bidirectional")
    for tensor in model.graph.initializer:
        if tensor.name in "hc":
            state = np.random.default_rng(4).standard_normal((STEPS, 2, HIDDEN), np.float32)
            tensor.CopyFrom(onnx.numpy_helper.from_array(state, tensor.name))
    as_unrolled(model)


def test_lengths_of_a_run():
    model = model_of("GRU", "BL", linear_before_reset=1)
    lengths = next(t for t in model.graph.initializer if t.name == "L")
    model.graph.initializer.remove(lengths)
    model.graph.input.append(helper.make_tensor_value_info("L", 6, [BATCH]))
    kept(model)


@pytest.mark.parametrize("output", ["Y", "Y_h", "Y_c"])
def test_only_some_outputs(output: str):
    model = model_of("LSTM", "B")
    wanted = [value for value in model.graph.output if value.name == output]
    del model.graph.output[:]
    model.graph.output.extend(wanted)
    kept(model)


def test_what_no_kernel_computes_is_unrolled():
    for model in (
        model_of("LSTM", "BP"),
        model_of("RNN", "", direction="bidirectional", activations=["Tanh", "Relu"]),
    ):
        kept(model, operators=0)


def test_only_recurrences_with_a_kernel_are_kept():
    asked: list[Whole] = []

    def has_kernel(sizes: Whole) -> bool:
        asked.append(sizes)
        return False

    assert not counts(import_model(model_of("LSTM"), has_kernel=has_kernel))["Recurrence"]
    assert asked == [Recurrence("LSTM", STEPS, BATCH, HIDDEN, 1)]


@emulated
@pytest.mark.parametrize("precision", ["tf32", "fp16"])
def test_models_in_float16(precision: str):
    model = model_of("LSTM", "Bhc", direction="bidirectional")
    half = onnx.ModelProto.FromString(model.SerializeToString())
    for tensor in half.graph.initializer:
        array = onnx.numpy_helper.to_array(tensor).astype(np.float16)
        tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))
    for value in (*half.graph.input, *half.graph.output):
        value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT16
    x = np.random.default_rng(5).standard_normal((STEPS, BATCH, 5), np.float32)
    module = compiler.compile(half, target="emu", precision=precision)
    assert any("recurrence<" in kernel.source for kernel in module.kernels.values())
    found = module.run({"x": x.astype(np.float16)})
    for array, expected in zip(found.values(), run(model, {"x": x}), strict=True):
        np.testing.assert_allclose(array, expected, atol=5e-3)


@emulated
@settings(max_examples=3, deadline=None)
@given(data=st.data())
def test_modules_on_the_emulator(data: st.DataObject):
    op_type = data.draw(st.sampled_from([*GATES]))
    direction = data.draw(st.sampled_from(["forward", "reverse", "bidirectional"]))
    optional = data.draw(st.sampled_from(["", "B", "Bhc", "BLhc"]))
    precision = data.draw(st.sampled_from(["tf32", "fp16"]))
    resets_after = data.draw(st.booleans()) and op_type == "GRU"
    given = {"linear_before_reset": 1} if resets_after else {}
    model = model_of(op_type, optional, direction=direction, **given)
    inputs = {"x": np.random.default_rng(2).standard_normal((STEPS, BATCH, 5), np.float32)}
    module = compiler.compile(model, target="emu", precision=precision)
    assert any("recurrence<" in kernel.source for kernel in module.kernels.values())
    device().configure(data.draw(st.integers(0, 99)), 32)
    for found, expected in zip(module.run(inputs).values(), run(model, inputs), strict=True):
        np.testing.assert_allclose(found, expected, atol=5e-3)


@emulated
@pytest.mark.parametrize(("op_type", "output"), [("RNN", "Y_h"), ("GRU", "Y_h"), ("LSTM", "Y_c")])
def test_the_last_state_alone_on_the_emulator(op_type: str, output: str):
    model = model_of(op_type, "B")
    (wanted,) = [value for value in model.graph.output if value.name == output]
    del model.graph.output[:]
    model.graph.output.append(wanted)
    inputs = {"x": np.random.default_rng(2).standard_normal((STEPS, BATCH, 5), np.float32)}
    module = compiler.compile(model, target="emu")
    assert any("recurrence<" in kernel.source for kernel in module.kernels.values())
    (expected,) = run(model, inputs)
    np.testing.assert_allclose(module.run(inputs)[output], expected, atol=5e-3)
