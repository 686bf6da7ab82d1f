"""Non-maximum suppression against onnxruntime."""

from typing import Any

import numpy as np
import pytest

from compiler.frontend.interpreter.suppression import non_maximum_suppression
from tests.program.checks import check, compiled, model_of

TEXT = """g (float[n, b, 4] boxes, float[n, c, b] scores, int64 limit, float overlap, float least)
    => (int64[m, 3] kept) {
    kept = NonMaxSuppression<center_point_box = CENTRED>(boxes, scores, limit, overlap, least)
}"""


@pytest.mark.parametrize("centred", [0, 1])
@pytest.mark.parametrize(("limit", "overlap"), [(5, 0.3), (100, 0.0), (0, 0.5), (100, 0.9)])
def test_boxes_are_those_of_onnxruntime(centred: int, limit: int, overlap: float):
    text = TEXT.replace("CENTRED", str(centred))
    generator = np.random.default_rng(limit)
    boxes = generator.random((2, 60, 4)).astype("f4")
    scores = generator.choice(np.linspace(0, 1, 40, dtype="f4"), (2, 3, 60))
    inputs = {
        "boxes": boxes,
        "scores": scores,
        "limit": np.array(limit),
        "overlap": np.array(overlap, "f4"),
        "least": np.array(0.2, "f4"),
    }
    check(compiled(text), model_of(text), inputs)


@pytest.mark.parametrize(("limit", "side"), [(3000, 0.01), (3000, 0.3), (1100, 0.01), (64, 0.1)])
def test_many_boxes_are_compared_in_blocks(limit: int, side: float):
    text = TEXT.replace("CENTRED", "0")
    corners, sides = np.random.default_rng(limit).random((2, 1, 3000, 2)).astype("f4")
    inputs = {
        "boxes": np.concatenate([corners, corners + side * sides], 2),
        "scores": np.random.default_rng(1).random((1, 1, 3000)).astype("f4"),
        "limit": np.array(limit),
        "overlap": np.array(0.4, "f4"),
        "least": np.array(0.0, "f4"),
    }
    check(compiled(text), model_of(text), inputs)


def test_only_boxes_above_the_threshold_are_sorted(monkeypatch: pytest.MonkeyPatch):
    generator = np.random.default_rng(3)
    corners = generator.random((1, 500, 2), np.float32)
    boxes = np.concatenate([corners, corners + np.float32(0.1)], 2)
    scores = generator.random((1, 3, 500), np.float32)
    sizes: list[int] = []
    argsort = np.argsort

    def counted(array: np.ndarray, **options: Any) -> np.ndarray:
        sizes.append(array.size)
        return argsort(array, **options)

    monkeypatch.setattr(np, "argsort", counted)
    limits = (np.array(limit) for limit in (20, np.float32(0.5), np.float32(0.9)))
    (chosen,) = non_maximum_suppression(boxes, scores, *limits)
    assert sizes == [int((row > np.float32(0.9)).sum()) for row in scores[0]]
    assert (scores[tuple(chosen[:, :2].T)][np.arange(len(chosen)), chosen[:, 2]] > 0.9).all()
