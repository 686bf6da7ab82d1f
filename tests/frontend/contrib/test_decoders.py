"""Operators of decoders agree with onnxruntime's: rotary embeddings, caches, packed weights."""

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from compiler.errors import ModelError, ShapeError, UnsupportedOperatorError
from compiler.frontend.importing import import_model
from tests.frontend.contrib.checks import check, model_of, normal, whole

BATCH, LENGTH, HEADS, FEW, SIZE = 2, 3, 4, 2, 16
POSITIONS = 12


def caches(rotary: int = SIZE) -> list[np.ndarray | None]:
    """Cosines and sines of random angles."""
    angles = normal(POSITIONS, rotary // 2)
    return [np.cos(angles), np.sin(angles)]


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("heads", [False, True])
@pytest.mark.parametrize("single", [False, True])
def test_rotary_embeddings(interleaved: int, heads: bool, single: bool):
    shape = (BATCH, HEADS, LENGTH, SIZE) if heads else (BATCH, LENGTH, HEADS * SIZE)
    positions = np.array([4]) if single else whole(0, POSITIONS, BATCH, LENGTH, dtype="int64")
    check("RotaryEmbedding", [normal(*shape), positions, *caches()], interleaved=interleaved)


@pytest.mark.parametrize("heads", [False, True])
def test_rotary_embeddings_of_the_first_elements(heads: bool):
    shape = (BATCH, HEADS, LENGTH, SIZE) if heads else (BATCH, LENGTH, HEADS * SIZE)
    positions = whole(0, POSITIONS, BATCH, LENGTH, dtype="int64")
    operands = [normal(*shape), positions, *caches(4)]
    check("RotaryEmbedding", operands, num_heads=HEADS, rotary_embedding_dim=4)


def attention(past: int, length: int, total: int, ends: list[int], packed: bool = False):
    """The first nine operands: cached and new tokens, and where each sequence ends."""
    batch, few = len(ends), FEW * SIZE
    query = normal(batch, length, HEADS * SIZE)
    rows: list[Any] = [query, normal(batch, length, few), normal(batch, length, few)]
    if packed:
        rows = [np.concatenate(rows, 2), None, None]
    earlier = [normal(batch, FEW, past, SIZE) if past else None for _ in range(2)]
    lengths = [np.array(ends, np.int32), np.array(total, np.int32)]
    return [*rows, *earlier, *lengths, *caches()]


PHASES: dict[str, Any] = {
    "prompt": (0, LENGTH, LENGTH, [LENGTH - 1, LENGTH - 1]),
    "prompt into a cache": (7, LENGTH, LENGTH, [LENGTH - 1, LENGTH - 1]),
    "a token": (4, 1, 5, [4, 4]),
    "a token in a cache": (9, 1, 6, [5, 3]),
    "sequences of other lengths": (4, 1, 5, [4, 2]),
    "some tokens": (4, LENGTH, 7, [6]),
}


@pytest.mark.parametrize("phase", [*PHASES])
@pytest.mark.parametrize("rotary", [0, 1])
@pytest.mark.parametrize("packed", [False, True])
def test_group_query_attention(phase: str, rotary: int, packed: bool):
    operands = attention(*PHASES[phase], packed=packed)
    operands = operands if rotary else operands[:7]
    check(
        "GroupQueryAttention",
        operands,
        ["y", "keys", "values"],
        constants=[6, 7, 8],
        num_heads=HEADS,
        kv_num_heads=FEW,
        do_rotary=rotary,
    )


@pytest.mark.parametrize(
    "given",
    [
        {"local_window_size": 2},
        {"softcap": 0.7},
        {"smooth_softmax": 1},
        {"scale": 0.2},
        {"do_rotary": 1, "rotary_interleaved": 1},
    ],
)
@pytest.mark.parametrize("phase", ["prompt", "some tokens", "a token in a cache"])
def test_attributes_of_group_query_attention(given: dict[str, Any], phase: str):
    operands = attention(*PHASES[phase])
    operands = operands if "do_rotary" in given else operands[:7]
    outputs = ["y", "keys", "values"]
    sizes = {"num_heads": HEADS, "kv_num_heads": FEW}
    check("GroupQueryAttention", operands, outputs, constants=[6], **sizes, **given)


def test_positions_biases_and_sinks():
    past, length, total, ends = PHASES["some tokens"]
    operands = attention(past, length, total, ends)
    operands += [whole(0, POSITIONS, len(ends), length, dtype="int64")]
    operands += [normal(1, HEADS, length, total), normal(HEADS)]
    outputs = ["y", "keys", "values"]
    given = {"num_heads": HEADS, "kv_num_heads": FEW, "do_rotary": 1}
    check("GroupQueryAttention", operands, outputs, constants=[6], **given)


def test_unsupported_forms_are_refused_by_name():
    operands = attention(*PHASES["a token"])[:7]
    sizes: dict[str, Any] = {"num_heads": HEADS, "kv_num_heads": FEW}
    with pytest.raises(UnsupportedOperatorError, match="its cache is quantised"):
        import_model(model_of("GroupQueryAttention", operands, k_quant_type="PER_TENSOR", **sizes))
    with pytest.raises(UnsupportedOperatorError, match=r"input 6 .* must be a constant"):
        import_model(model_of("GroupQueryAttention", operands, **sizes))
    sizes["kv_num_heads"] = 3
    with pytest.raises(ModelError, match="not a multiple of 3"):
        import_model(model_of("GroupQueryAttention", operands, constants=[6], **sizes))


@pytest.mark.parametrize(
    ("bits", "zeros"), [(4, None), (4, "uint8"), (4, "float32"), (8, None), (8, "uint8")]
)
@pytest.mark.parametrize("depth", [64, 72])
def test_weights_of_few_bits(bits: int, zeros: str | None, depth: int):
    block, rows = 16, 5
    blocks = -(-depth // block)
    packed = whole(0, 256, rows, blocks, block * bits // 8, dtype="uint8")
    offsets = None
    if zeros == "uint8":
        offsets = whole(0, 256, rows, -(-blocks * bits // 8), dtype="uint8")
    elif zeros == "float32":
        offsets = normal(rows, blocks) + 8
    operands = [normal(2, 3, depth), packed, np.abs(normal(rows, blocks)), offsets]
    check(
        "MatMulNBits",
        operands,
        constants=[1, 2, 3],
        K=depth,
        N=rows,
        bits=bits,
        block_size=block,
    )


@pytest.mark.parametrize(
    ("dtype", "bits"), [("int4", 4), ("uint4", 4), ("uint8", 2), ("uint8", 4), ("uint8", 8)]
)
@pytest.mark.parametrize("zeros", [False, True])
def test_gathers_of_few_bits(dtype: str, bits: int, zeros: bool):
    rows, columns, blocks = 7, 40, 3
    packed = dtype == "uint8"

    def integers(count: int) -> np.ndarray:
        if packed:
            return whole(0, 256, rows, -(-count * bits // 8), dtype="uint8")
        low = -8 if dtype == "int4" else 0
        return whole(low, low + 16, rows, count).astype(getattr(ml_dtypes, dtype))

    operands = [integers(columns), whole(-rows, rows, 2, 3), np.abs(normal(rows, blocks))]
    operands += [integers(blocks)] if zeros else []
    check(
        "GatherBlockQuantized",
        operands,
        constants=[0, 2, 3],
        bits=bits,
        block_size=16,
    )


def test_bias_of_weights_of_few_bits():
    packed = whole(0, 256, 5, 2, 8, dtype="uint8")
    operands = [normal(3, 32), packed, np.abs(normal(5, 2)), None, None, normal(5)]
    check("MatMulNBits", operands, constants=[1, 2, 5], K=32, N=5, bits=4, block_size=16)


@pytest.mark.parametrize(
    ("weight", "scales", "zeros", "message"),
    [
        ((5, 2, 8), (5, 4), (5, 2), "weight must be [5, 4, 8], not [5, 2, 8]"),
        ((5, 4, 8), (4, 5), (5, 2), "scales must be [20] or [5, 4], not [4, 5]"),
        ((5, 4, 8), (5, 4), (2, 5), "zero points must be [10] or [5, 2], not [2, 5]"),
    ],
)
def test_operands_of_another_shape_are_refused(
    weight: tuple[int, ...], scales: tuple[int, ...], zeros: tuple[int, ...], message: str
):
    packed, zero_points = (whole(0, 256, *shape, dtype="uint8") for shape in (weight, zeros))
    operands = [normal(3, 64), packed, np.abs(normal(*scales)), zero_points]
    model = model_of("MatMulNBits", operands, constants=[1, 2, 3], K=64, N=5, block_size=16)
    with pytest.raises(ShapeError, match=re.escape(message)):
        import_model(model)
