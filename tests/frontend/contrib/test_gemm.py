"""Fused GEMMs, convolutions and activations agree with onnxruntime's."""

from typing import Any

import numpy as np
import pytest

from tests.frontend.checks import counts
from tests.frontend.contrib.checks import (
    check,
    compare,
    fed,
    imported_results,
    model_of,
    normal,
)


@pytest.mark.parametrize("trans_a", [0, 1])
@pytest.mark.parametrize("trans_b", [0, 1])
def test_matmuls_of_transposed_operands(trans_a: int, trans_b: int):
    a = normal(2, 5, 4) if trans_a else normal(2, 4, 5)
    b = normal(2, 3, 5) if trans_b else normal(2, 5, 3)
    check("FusedMatMul", [a, b], transA=trans_a, transB=trans_b, alpha=0.5)


@pytest.mark.parametrize("trans", [0, 1])
def test_matmuls_of_transposed_batches(trans: int):
    a = normal(4, 2, 3, 5)
    b = normal(2, 3, 4, 6) if trans else normal(2, 3, 5, 6)
    check("FusedMatMul", [a, b], transA=trans, transBatchA=1)


def test_matmuls_of_vectors():
    check("FusedMatMul", [normal(5), normal(5, 3)], transA=1)


@pytest.mark.parametrize(
    ("activation", "parameters"),
    [
        ("Relu", {}),
        ("Tanh", {}),
        ("LeakyRelu", {"activation_alpha": 0.3}),
        ("HardSigmoid", {"activation_alpha": 0.3, "activation_beta": 0.4}),
    ],
)
def test_gemms_with_activations(activation: str, parameters: dict[str, Any]):
    operands = [normal(5, 4), normal(3, 5).T.copy(), normal(3)]
    check("FusedGemm", operands, transA=1, alpha=0.7, beta=0.5, activation=activation, **parameters)


@pytest.mark.parametrize(
    ("activation", "parameters"),
    [
        ("Relu", []),
        ("Sigmoid", []),
        ("LeakyRelu", [0.3]),
        ("Clip", [-0.2, 0.4]),
        ("HardSigmoid", [0.3, 0.4]),
    ],
)
@pytest.mark.parametrize("residual", [False, True])
def test_convolutions_with_activations(activation: str, parameters: list[float], residual: bool):
    operands = [normal(1, 4, 6, 6), normal(6, 2, 3, 3), normal(6)]
    operands += [normal(1, 6, 6, 6)] if residual else []
    given: dict[str, Any] = {"activation_params": parameters} if parameters else {}
    check("FusedConv", operands, activation=activation, group=2, pads=[1] * 4, **given)


def test_convolutions_without_bias():
    check("FusedConv", [normal(1, 4, 6, 6), normal(6, 4, 3, 3)], strides=[2, 2], activation="Relu")


@pytest.mark.parametrize("op_type", ["Gelu", "QuickGelu", "FastGelu"])
def test_activations(op_type: str):
    check(op_type, [normal(3, 8)])


@pytest.mark.parametrize("op_type", ["BiasGelu", "FastGelu"])
def test_activations_of_sums(op_type: str):
    assert counts(check(op_type, [normal(3, 8), normal(8)], constants=[1]))["Gelu"] == 1


def test_quick_gelu_takes_its_factor():
    check("QuickGelu", [normal(3, 8)], alpha=1.0)
    check("QuickGelu", [normal(3, 8)], alpha=0.3)


def _result(op_type: str, operands: list[np.ndarray | None], **attributes: Any) -> np.ndarray:
    """The result of an operator that onnxruntime has no CPU kernel for."""
    model = model_of(op_type, operands, **attributes)
    _, (result,) = imported_results(model, fed(model, operands))
    return result


def _softmax(x: np.ndarray, axes: tuple[int, ...] = (-1,)) -> np.ndarray:
    exponentials = np.exp(x - x.max(axes, keepdims=True))
    return exponentials / exponentials.sum(axes, keepdims=True)


@pytest.mark.parametrize("bias", [(2, 1, 1, 5), (1, 1, 4, 5)])
def test_softmax_of_sums(bias: tuple[int, ...]):
    x, y = normal(2, 3, 4, 5), normal(*bias)
    inner = int(bias[0] == 2)
    got = _result("BiasSoftmax", [x, y], axis=3, is_inner_broadcast=inner)
    compare(got, _softmax(x + y))
    got = _result("BiasSoftmax", [x, y], axis=2, is_inner_broadcast=inner)
    compare(got, _softmax(x + y, (2, 3)))


def test_bias_add():
    x, bias, skip = normal(2, 3, 4), normal(4), normal(2, 3, 4)
    compare(_result("BiasAdd", [x, bias, skip]), x + bias + skip)


def test_gemm_fast_gelu():
    x, w, bias = normal(2, 3, 4), normal(4, 5), normal(5)
    z = (x @ w + bias).astype(np.float64)
    wanted = 0.5 * z * (1 + np.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3)))
    compare(_result("GemmFastGelu", [x, w, bias]), wanted.astype(np.float32))


def test_matmuls_with_activations():
    a, b = normal(3, 4), normal(5, 4)
    got = _result("FusedMatMulActivation", [a, b], transB=1, activation="Relu")
    compare(got, np.maximum(a @ b.T, 0))


def test_gelu_of_one_half_scales_the_other():
    x, bias = normal(2, 3, 8), normal(8)
    gelu = _result("Gelu", [(x + bias)[..., 4:]])
    compare(_result("BiasSplitGelu", [x, bias]), (x + bias)[..., :4] * gelu)


def test_convolutions_with_channels_last():
    x, w, bias = normal(1, 4, 6, 5), normal(6, 2, 3, 3), normal(6)
    first = [x.transpose(0, 2, 3, 1).copy(), w.transpose(0, 2, 3, 1).copy(), bias]
    wanted = _result("FusedConv", [x, w, bias], group=2, pads=[1, 1, 1, 1])
    got = _result("NhwcConv", list(first), group=2, pads=[1, 1, 1, 1])
    compare(got, wanted.transpose(0, 2, 3, 1))
