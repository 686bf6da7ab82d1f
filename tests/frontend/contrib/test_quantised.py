"""Quantised operators of onnxruntime agree with its kernels, to one step of a byte."""

from typing import Any

import numpy as np
import pytest

from tests.frontend.contrib.checks import (
    check,
    compare,
    fed,
    imported_results,
    model_of,
    normal,
    positive,
    whole,
)

RANGES = {"int8": (-128, 128), "uint8": (0, 256)}


def byte(dtype: str, *shape: int) -> np.ndarray:
    """Fresh random bytes of a dtype."""
    return whole(*RANGES[dtype], *shape, dtype=dtype)


def zero(dtype: str, *shape: int) -> np.ndarray:
    """Fresh random zero points."""
    low, high = RANGES[dtype]
    return whole((3 * low + high) // 4, (low + 3 * high) // 4, *shape, dtype=dtype)


def quantised(dtype: str, *shape: int, zeros: bool = True) -> list[np.ndarray | None]:
    """A quantised tensor with its scale and zero point."""
    return [byte(dtype, *shape), positive(), zero(dtype) if zeros else None]


@pytest.mark.parametrize("dtype", RANGES)
@pytest.mark.parametrize("columns", [(), (5,)])
@pytest.mark.parametrize("optional", [False, True])
def test_dynamically_quantised_matmuls(dtype: str, columns: tuple[int, ...], optional: bool):
    operands = [normal(2, 3, 4), byte(dtype, 4, 5), positive(*columns)]
    operands += [zero(dtype, *columns), normal(5)] if optional else []
    check("DynamicQuantizeMatMul", operands, constants=[1, 2, 3])


def test_dynamic_quantisation_of_zeros():
    zeros = np.zeros((2, 4), np.float32)
    check("DynamicQuantizeMatMul", [zeros, byte("int8", 4, 5), positive(), zero("int8")])


@pytest.mark.parametrize("dtype", RANGES)
@pytest.mark.parametrize("columns", [(), (5,)])
@pytest.mark.parametrize("optional", [False, True])
def test_scaled_matmuls(dtype: str, columns: tuple[int, ...], optional: bool):
    operands = [byte("uint8", 3, 4), byte(dtype, 4, 5), positive(), positive(*columns)]
    operands += [zero("uint8"), zero(dtype, *columns), normal(5)] if optional else []
    check("MatMulIntegerToFloat", operands, constants=[1, 3, 5])


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("columns", [(), (5,)])
def test_quantised_gemms(bias: bool, scaled: bool, columns: tuple[int, ...]):
    operands = [byte("uint8", 3, 4), positive(), zero("uint8"), byte("int8", 5, 4)]
    operands += [positive(*columns), zero("int8", *columns)]
    operands += [whole(-5000, 5000, 5) if bias else None]
    operands += [np.array(3.1, np.float32), zero("uint8")] if scaled else []
    output = "y:uint8" if scaled else "y"
    check("QGemm", operands, [output], constants=range(3, 9), transB=1, alpha=0.7)


@pytest.mark.parametrize("mask", [False, True])
@pytest.mark.parametrize("past", [False, True])
@pytest.mark.parametrize("columns", [(), (18,)])
def test_quantised_attention(mask: bool, past: bool, columns: tuple[int, ...]):
    total = 7 if past else 4
    operands = [byte("uint8", 2, 4, 6), byte("int8", 6, 18), normal(18)]
    operands += [positive(), positive(*columns)]
    operands += [whole(0, 2, 2, total) if mask else None, zero("uint8"), zero("int8", *columns)]
    operands += [normal(2, 2, 2, 3, 3)] if past else []
    outputs = ["y", "present"] if past else ["y"]
    attributes: dict[str, Any] = {"num_heads": 2, "unidirectional": int(past)}
    check("QAttention", operands, outputs, constants=[1, 2, 3, 4, 6, 7], **attributes)


@pytest.mark.parametrize("op_type", ["QLinearAdd", "QLinearMul"])
@pytest.mark.parametrize("dtype", RANGES)
def test_binary_operators(op_type: str, dtype: str):
    operands = [*quantised(dtype, 2, 3, 4), *quantised(dtype, 3, 1), positive(), zero(dtype)]
    check(op_type, operands, [f"y:{dtype}"])


@pytest.mark.parametrize("op_type", ["QLinearSigmoid", "QLinearLeakyRelu"])
@pytest.mark.parametrize("dtype", RANGES)
@pytest.mark.parametrize("zeros", [False, True])
def test_unary_operators(op_type: str, dtype: str, zeros: bool):
    operands = [*quantised(dtype, 3, 5, zeros=zeros), positive(), zero(dtype) if zeros else None]
    given: dict[str, Any] = {"alpha": 0.3} if "Leaky" in op_type else {}
    check(op_type, operands, [f"y:{dtype}"], constants=[1, 2, 3, 4], **given)


@pytest.mark.parametrize("dtype", RANGES)
@pytest.mark.parametrize(("axis", "opset"), [(-1, 13), (1, 13), (1, 12)])
def test_softmax(dtype: str, axis: int, opset: int):
    y_zero = np.array(0 if dtype == "uint8" else -128, dtype)
    operands = [*quantised(dtype, 2, 3, 4), np.array(1 / 256, np.float32), y_zero]
    check("QLinearSoftmax", operands, [f"y:{dtype}"], [1, 2, 3, 4], axis=axis, opset=opset)


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("dtype", RANGES)
def test_pools(last: int, dtype: str):
    shape = (1, 6, 7, 4) if last else (1, 4, 6, 7)
    operands = [*quantised(dtype, *shape), positive(), zero(dtype)]
    check("QLinearGlobalAveragePool", operands, [f"y:{dtype}"], [1, 2, 3, 4], channels_last=last)
    window: dict[str, Any] = {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 0]}
    for counted in (0, 1):
        check(
            "QLinearAveragePool",
            operands,
            [f"y:{dtype}"],
            channels_last=last,
            count_include_pad=counted,
            **window,
        )


def test_means():
    operands = [*quantised("uint8", 2, 3, 4), positive(), zero("uint8")]
    model = model_of("QLinearReduceMean", operands, ["y:uint8"], axes=[1], keepdims=1)
    x, scale, x_zero, y_scale, y_zero = (np.asarray(v).astype(np.float64) for v in operands)
    wanted = np.rint(((x - x_zero) * scale).mean(1, keepdims=True) / y_scale) + y_zero
    _, (got,) = imported_results(model, fed(model, operands))
    compare(got, np.clip(wanted, 0, 255).astype(np.uint8))


@pytest.mark.parametrize("dtype", RANGES)
def test_choices(dtype: str):
    operands = [whole(0, 2, 3, dtype="bool"), *quantised(dtype, 2, 3), *quantised(dtype, 2, 1)]
    operands += [positive(), zero(dtype)]
    check("QLinearWhere", operands, [f"y:{dtype}"], constants=[2, 3, 5, 6, 7, 8])


@pytest.mark.parametrize("dtype", RANGES)
def test_concatenations(dtype: str):
    operands = [positive(), zero(dtype), *quantised(dtype, 2, 3), *quantised(dtype, 2, 4)]
    check("QLinearConcat", operands, [f"y:{dtype}"], constants=[0, 1, 3, 4, 6, 7], axis=1)


def test_convolutions_with_channels_last():
    x, w = quantised("uint8", 1, 5, 6, 4), quantised("int8", 3, 4, 3, 3)
    operands = [*x, *w, np.array(4, np.float32), zero("uint8"), whole(-900, 900, 3)]
    check("QLinearConv", operands, ["y:uint8"], range(1, 9), channels_last=1, pads=[1] * 4)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16"])
@pytest.mark.parametrize("axis", [None, 1])
def test_quantisation(dtype: str, axis: int | None):
    limits = np.iinfo(dtype)
    size = () if axis is None else (4,)
    scale, offset = positive(*size), whole(limits.min // 2, limits.max // 2, *size, dtype=dtype)
    given: dict[str, Any] = {} if axis is None else {"axis": axis}
    check("QuantizeLinear", [normal(3, 4, 2), scale, offset], [f"y:{dtype}"], **given)
    x = whole(limits.min, limits.max, 3, 4, 2, dtype=dtype)
    check("DequantizeLinear", [x, scale, offset], **given)


STEPS, BATCH, WIDTH, HIDDEN = 3, 2, 5, 6


def lstm(directions: int, per_channel: bool, optional: str, dtype: str) -> list[Any]:
    """The operands of a quantised LSTM; optional ones by name."""
    channels = (directions, 4 * HIDDEN) if per_channel else (directions,)
    state = (directions, BATCH, HIDDEN)
    given = {
        "B": normal(directions, 8 * HIDDEN),
        "L": np.array([3, 2], np.int32),
        "h": normal(*state),
        "c": normal(*state),
        "P": normal(directions, 3 * HIDDEN),
    }
    operands = [normal(STEPS, BATCH, WIDTH), byte(dtype, directions, WIDTH, 4 * HIDDEN)]
    operands += [byte(dtype, directions, HIDDEN, 4 * HIDDEN)]
    operands += [value if name in optional else None for name, value in given.items()]
    for _ in range(2):
        zeros = np.zeros(channels, dtype) if per_channel else zero(dtype, *channels)
        operands += [
            np.asarray(positive(*channels) * 0.2),
            zeros,
        ]  # onnxruntime takes no others per channel
    return operands


@pytest.mark.parametrize("optional", ["", "B", "Bhc", "BLhcP"])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("per_channel", [False, True])
def test_quantised_lstms(optional: str, direction: str, per_channel: bool):
    operands = lstm(1 + (direction == "bidirectional"), per_channel, optional, "int8")
    # Backwards, onnxruntime pairs the steps of shorter sequences with others: other ranges.
    tolerance = 5e-2 if "L" in optional and direction != "forward" else 1e-4
    check(
        "DynamicQuantizeLSTM",
        operands,
        ["Y", "Y_h", "Y_c"],
        [1, 2, 3, 7, *range(8, 12)],
        tolerance,
        hidden_size=HIDDEN,
        direction=direction,
    )


@pytest.mark.parametrize(
    "given",
    [
        {
            **{"activations": ["HardSigmoid", "Tanh", "Relu"], "clip": 0.5},
            **{"activation_alpha": [0.3], "activation_beta": [0.4]},
        },
        {"activations": ["ThresholdedRelu", "Affine", "Tanh"], "activation_alpha": [0.1]},
        {"clip": 0.3},
    ],
    ids=["parameters", "defaults", "clip"],
)
def test_activations_of_quantised_lstms(given: dict[str, Any]):
    """Defaults and the clip of an operator of onnxruntime are onnxruntime's."""
    operands = lstm(1, False, "Bc", "uint8")
    check(
        "DynamicQuantizeLSTM",
        operands,
        ["Y"],
        [1, 2, *range(8, 12)],
        hidden_size=HIDDEN,
        **given,
    )
