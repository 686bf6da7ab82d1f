"""Fused normalisations agree with onnxruntime's."""

import numpy as np
import pytest

from compiler.errors import UnsupportedOperatorError
from tests.frontend.checks import counts
from tests.frontend.contrib.checks import (
    check,
    compare,
    fed,
    imported_results,
    model_of,
    normal,
    whole,
)


@pytest.mark.parametrize("beta", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("rows", [(2, 3), (1, 3), (3,)])
def test_layer_normalization_of_sums(beta: bool, bias: bool, rows: tuple[int, ...]):
    operands = [normal(2, 3, 8), normal(*rows, 8), normal(8)]
    operands += [normal(8) if beta else None, normal(8) if bias else None]
    outputs = ["y", "", "", "sum"] if bias else ["y"]
    imported = check("SkipLayerNormalization", operands, outputs, epsilon=1e-3)
    assert counts(imported)["LayerNormalization"] == 1


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("outputs", [["y"], ["y", "", "", "sum"]])
def test_root_mean_square_normalization_of_sums(bias: bool, outputs: list[str]):
    operands = [normal(2, 3, 8), normal(2, 3, 8), normal(8), normal(8) if bias else None]
    imported = check("SkipSimplifiedLayerNormalization", operands, outputs, epsilon=1e-3)
    assert counts(imported)["RMSNormalization"] == 1


@pytest.mark.parametrize("axis", [-1, 1])
def test_root_mean_square_normalization(axis: int):
    operands = [normal(2, 3, 8), normal(8) if axis == -1 else normal(3, 8)]
    imported = check("SimplifiedLayerNormalization", operands, domain="", axis=axis)
    assert counts(imported)["RMSNormalization"] == 1


def test_statistics_of_sums_are_refused():
    operands = [normal(2, 3, 8), normal(2, 3, 8), normal(8)]
    model = model_of("SkipSimplifiedLayerNormalization", operands, ["y", "", "inverse"])
    with pytest.raises(UnsupportedOperatorError, match="statistics are not computed"):
        imported_results(model, fed(model, operands))


EMBEDDINGS = [normal(11, 8), normal(6, 8), normal(2, 8), normal(8), normal(8)]


@pytest.mark.parametrize("segments", [False, True])
@pytest.mark.parametrize("mask", [False, True])
@pytest.mark.parametrize("positions", [False, True])
def test_embeddings(segments: bool, mask: bool, positions: bool):
    words, position, segment, gamma, beta = EMBEDDINGS
    operands = [
        whole(0, 11, 2, 5),
        whole(0, 2, 2, 5) if segments else None,
        words,
        position,
        segment if segments else None,
        gamma,
        beta,
        whole(0, 2, 2, 5) if mask else None,
        whole(0, 6, 2, 5) if positions else None,
    ]
    outputs = ["y", "lengths:int32", "sum"]
    check("EmbedLayerNormalization", operands, outputs, constants=range(2, 7), epsilon=1e-4)


def _group_norm(x: np.ndarray, gamma: np.ndarray, beta: np.ndarray, groups: int) -> np.ndarray:
    """Of channels that are last, in float64, with SiLU."""
    batch, *_, channels = x.shape
    split = x.astype(np.float64).reshape(batch, -1, groups, channels // groups)
    mean, deviation = split.mean((1, 3), keepdims=True), split.var((1, 3), keepdims=True)
    y = ((split - mean) / np.sqrt(deviation + 1e-5)).reshape(x.shape) * gamma + beta
    return (y / (1 + np.exp(-y))).astype(np.float32)


def test_groups_of_channels():
    x, gamma, beta = normal(2, 3, 4, 6), normal(6), normal(6)
    wanted = _group_norm(x, gamma, beta, 3)
    model = model_of("GroupNorm", [x, gamma, beta], groups=3, activation=1)
    compare(imported_results(model, fed(model, [x, gamma, beta]))[1][0], wanted)
    first = [x.transpose(0, 3, 1, 2).copy(), gamma, beta]
    model = model_of("GroupNorm", first, groups=3, activation=1, channels_last=0)
    compare(imported_results(model, fed(model, first))[1][0], wanted.transpose(0, 3, 1, 2))


@pytest.mark.parametrize("shape", [(2, 3, 4, 6), (2, 1, 1, 6), (2, 6)])
def test_groups_of_channels_of_sums(shape: tuple[int, ...]):
    x, gamma, beta, skip, bias = normal(2, 3, 4, 6), normal(6), normal(6), normal(*shape), normal(6)
    operands = [x, gamma, beta, skip, bias]
    total = x + skip.reshape(2, *([1, 1] if skip.ndim == 2 else skip.shape[1:3]), 6) + bias
    model = model_of("SkipGroupNorm", operands, ["y", "sum"], groups=2, activation=1)
    _, (y, got) = imported_results(model, fed(model, operands))
    compare(got, total)
    compare(y, _group_norm(total, gamma, beta, 2))
