"""The kernel of KeptBoxes keeps the boxes that the host's code keeps, on numbers of all kinds."""

import numpy as np
import pytest

from compiler.frontend.interpreter.suppression import non_maximum_suppression
from compiler.kernels.group import TensorInfo
from tests.kernels.harness import evaluate_once, single

ODD = np.array([np.nan, np.inf, -np.inf, 3e38, -3e38, 0.0, -0.0], np.float32)
COUNT = 20


def with_odd(draw: np.random.Generator, numbers: np.ndarray, share: float) -> np.ndarray:
    """Numbers, a share of which are odd ones."""
    odd = draw.choice(ODD, numbers.shape)
    return np.where(draw.random(numbers.shape) < share, odd, numbers)


def kept(boxes: np.ndarray, scores: np.ndarray, widest: np.ndarray) -> list[int]:
    """The boxes of the only class that a kernel keeps."""
    results = [TensorInfo(dtype, (1, 1, COUNT)) for dtype in ("int64", "bool")]
    operands = [boxes, scores, widest]
    chosen, there = evaluate_once(*single("KeptBoxes", operands, results, {"most": COUNT}))
    return chosen[there].tolist()


@pytest.mark.parametrize("odd", ["scores", "boxes", "both"])
@pytest.mark.parametrize("widest", [0.0, 0.25, 1.0, np.nan])
def test_boxes_that_stay_are_those_of_the_host(odd: str, widest: float):
    for seed in range(8):
        draw = np.random.default_rng(seed)
        first, second = draw.integers(0, 9, (2, 1, COUNT, 2)).astype(np.float32)
        if odd != "scores":
            first, second = (with_odd(draw, corners, 0.1) for corners in (first, second))
        boxes = np.concatenate([np.minimum(first, second), np.maximum(first, second)], 2)
        scores = draw.random((1, 1, COUNT)).astype(np.float32)
        if odd != "boxes":
            scores = with_odd(draw, scores, 0.3)
        most, bound = np.array(COUNT), np.array(widest, np.float32)
        (expected,) = non_maximum_suppression(boxes, scores, most, bound)
        assert kept(boxes, scores, bound) == expected[:, 2].tolist()
