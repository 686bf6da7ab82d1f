"""Attention and MultiHeadAttention agree with onnxruntime's."""

from typing import Any

import numpy as np
import pytest

from compiler.errors import ModelError, UnsupportedOperatorError
from compiler.frontend.importing import import_model
from tests.frontend.contrib.checks import (
    check,
    compare,
    fed,
    imported_results,
    model_of,
    normal,
    whole,
)

BATCH, LENGTH, HEADS, WIDTH = 2, 4, 2, 6
LONGEST = 9


def _ones(*shape: int) -> np.ndarray:
    """A mask whose first key is seen, so that every row sees some key."""
    mask = whole(0, 2, *shape)
    mask[..., 0] = 1
    return mask


MASKS: dict[str, np.ndarray] = {
    "keys": _ones(BATCH, LENGTH),
    "scores": _ones(BATCH, LENGTH, LENGTH),
    "ends": np.array([3, 2], np.int32),
    "ends and starts": np.array([3, 4, 0, 1], np.int32),
}


@pytest.mark.parametrize("mask", [None, *MASKS])
@pytest.mark.parametrize("causal", [0, 1])
def test_masks_of_attention(mask: str | None, causal: int):
    given = None if mask is None else MASKS[mask]
    operands = [normal(BATCH, LENGTH, 5), normal(5, 3 * WIDTH), normal(3 * WIDTH), given]
    check("Attention", operands, constants=[1, 2], num_heads=HEADS, unidirectional=causal)


@pytest.mark.parametrize("mask", ["keys", "ends"])
@pytest.mark.parametrize("filter_value", [-1.5, -1e9])
def test_filter_values_of_masks(mask: str, filter_value: float):
    operands = [normal(BATCH, LENGTH, 5), normal(5, 3 * WIDTH), normal(3 * WIDTH), MASKS[mask]]
    check("Attention", operands, num_heads=HEADS, mask_filter_value=filter_value, unidirectional=1)


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("masked", [False, True])
def test_attention_after_past_keys(causal: int, masked: bool):
    size = WIDTH // HEADS
    operands = [
        normal(BATCH, LENGTH, 5),
        normal(5, 3 * WIDTH),
        normal(3 * WIDTH),
        _ones(BATCH, LENGTH + 3) if masked else None,
        normal(2, BATCH, HEADS, 3, size),
    ]
    check("Attention", operands, ["y", "present"], num_heads=HEADS, unidirectional=causal)


def test_attention_with_a_bias_of_scores():
    bias = normal(BATCH, HEADS, LENGTH, LENGTH)
    operands = [normal(BATCH, LENGTH, 5), normal(5, 3 * WIDTH), None, None, None, bias]
    check("Attention", operands, num_heads=HEADS, scale=0.3)


def test_attention_with_other_values():
    operands = [normal(BATCH, LENGTH, 5), normal(5, 16), normal(16)]
    check("Attention", operands, num_heads=HEADS, qkv_hidden_sizes=[6, 6, 4])


def _rows(width: int = WIDTH, length: int = LENGTH) -> np.ndarray:
    return normal(BATCH, length, width)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("causal", [0, 1])
def test_multi_head_attention(bias: bool, causal: int):
    operands = [_rows(), _rows(), _rows(), normal(3 * WIDTH) if bias else None]
    check("MultiHeadAttention", operands, num_heads=HEADS, unidirectional=causal)


@pytest.mark.parametrize("mask", ["keys", "scores", "ends"])
def test_masks_of_multi_head_attention(mask: str):
    operands = [_rows(), _rows(), _rows(), None, MASKS[mask]]
    check("MultiHeadAttention", operands, num_heads=HEADS)


def test_cross_attention():
    size = WIDTH // HEADS
    check(
        "MultiHeadAttention",
        [_rows(), _rows(length=7), _rows(10, 7), normal(22), _ones(BATCH, 7)],
        num_heads=HEADS,
    )
    heads = [normal(BATCH, HEADS, 7, size) for _ in range(2)]
    check("MultiHeadAttention", [_rows(), *heads], num_heads=HEADS, scale=0.4)


def _result(op_type: str, operands: list[Any], **attributes: Any) -> np.ndarray:
    """The result of a form that onnxruntime has no CPU kernel for."""
    model = model_of(op_type, operands, **attributes)
    return imported_results(model, fed(model, operands))[1][0]


@pytest.mark.parametrize("bias", [False, True])
def test_packed_operands(bias: bool):
    split, given = (BATCH, LENGTH, HEADS, WIDTH // HEADS), normal(3 * WIDTH) if bias else None
    rows = [_rows(), _rows(), _rows()]
    wanted = _result("MultiHeadAttention", [*rows, given], num_heads=HEADS)
    query, key, value = (operand.reshape(split) for operand in rows)
    packed = [np.stack([query, key, value], 3), None, None, given]
    compare(_result("MultiHeadAttention", packed, num_heads=HEADS), wanted)
    if not bias:
        pair = [rows[0], np.stack([key, value], 3)]
        compare(_result("MultiHeadAttention", pair, num_heads=HEADS), wanted)


def test_masks_of_the_longest_sequence():
    operands = [normal(BATCH, LENGTH, 5), normal(5, 3 * WIDTH), normal(3 * WIDTH)]
    past = normal(2, BATCH, HEADS, 3, WIDTH // HEADS)
    mask = _ones(BATCH, 1, LONGEST, LONGEST)
    rows = mask[:, 0, 3 : 3 + LENGTH, : 3 + LENGTH].copy()
    wanted = _result("Attention", [*operands, rows, past], num_heads=HEADS)
    compare(_result("Attention", [*operands, mask, past], num_heads=HEADS), wanted)


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("bias", [False, True])
def test_multi_head_attention_after_past_keys(causal: int, bias: bool):
    past = [normal(BATCH, HEADS, 3, WIDTH // HEADS) for _ in range(2)]
    scores = normal(1, HEADS, LENGTH, LENGTH + 3)
    operands = [_rows(), _rows(), _rows(), normal(3 * WIDTH) if bias else None, None, scores, *past]
    check(
        "MultiHeadAttention",
        operands,
        ["y", "keys", "values"],
        num_heads=HEADS,
        unidirectional=causal,
    )


@pytest.mark.parametrize("keys", [LENGTH - 1, LENGTH + 2])
@pytest.mark.parametrize("past", [False, True])
def test_causal_attention_to_another_number_of_keys_is_refused(keys: int, past: bool):
    """Onnxruntime's CPU kernel aligns the first of both, and shows the last query all keys."""
    operands: list[Any] = [_rows(), _rows(length=keys), _rows(length=keys)]
    if past:
        operands += [None] * 3 + [normal(BATCH, HEADS, 3, WIDTH // HEADS) for _ in range(2)]
    kind = UnsupportedOperatorError
    said = _error("MultiHeadAttention", operands, kind, num_heads=HEADS, unidirectional=1)
    assert f"which of its {keys} keys each of {LENGTH} queries sees is not defined" in said


def test_the_last_query_sees_all_keys():
    operands = [_rows(length=1), _rows(length=7), _rows(length=7)]
    check("MultiHeadAttention", operands, num_heads=HEADS, unidirectional=1)


def _error(op_type: str, operands: list[Any], kind: type[Exception], **attributes: Any) -> str:
    with pytest.raises(kind) as caught:
        import_model(model_of(op_type, operands, **attributes))
    return str(caught.value)


def test_wrong_nodes_are_refused_by_name():
    rows = [_rows(), _rows(), _rows()]
    said = _error("MultiHeadAttention", rows, ModelError)
    assert "'node'" in said
    assert "'num_heads' is missing" in said
    said = _error("MultiHeadAttention", rows, ModelError, num_heads=2, scales=1.0)
    assert "no attribute 'scales'" in said
    said = _error("MultiHeadAttention", [rows[0].astype(np.float64)], ModelError, num_heads=2)
    assert "its input 0 is float64; it can be" in said
    said = _error("Attention", [rows[0]], ModelError, num_heads=2)
    assert "its input 1 is left out" in said
    said = _error("Gelu", rows, ModelError)
    assert "it has 3 inputs, the operator has 1" in said


def test_unsupported_forms_are_refused_by_name():
    weight = normal(WIDTH, 3 * WIDTH)
    said = _error(
        "Attention", [_rows(), weight], UnsupportedOperatorError, num_heads=2, do_rotary=1
    )
    assert "'do_rotary' is set" in said
    mask = np.zeros(3 * BATCH + 2, np.int32)
    said = _error(
        "MultiHeadAttention",
        [_rows(), _rows(), _rows(), None, mask],
        UnsupportedOperatorError,
        num_heads=2,
    )
    assert "8 numbers for 2 sequences" in said
