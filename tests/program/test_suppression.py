"""Non-maximum suppression against onnxruntime."""

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


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
def test_boxes_with_other_strides_are_read_as_they_are(order: tuple[int, int, int]):
    generator = np.random.default_rng(3)
    boxes = generator.random((2, 60, 4)).astype("f4")
    scores = generator.random((2, 3, 60)).astype("f4")
    strided = boxes.transpose(order).copy().transpose(np.argsort(order))
    arguments = (scores, np.array(9), np.array(0.1, "f4"), np.array(0.2, "f4"))
    (expected,) = non_maximum_suppression(boxes, *arguments)
    (selected,) = non_maximum_suppression(strided, *arguments)
    np.testing.assert_array_equal(selected, expected)


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


def chosen_one_by_one(boxes: np.ndarray, scores: np.ndarray, most: int, widest: float) -> list[int]:
    """The definition: each box, from the best on, that overlaps none of those before too much."""
    corners = np.concatenate(
        [np.minimum(*np.split(boxes, 2, 1)), np.maximum(*np.split(boxes, 2, 1))], 1
    )
    chosen: list[int] = []
    for box in np.argsort(-scores, kind="stable"):
        if len(chosen) >= most:
            break
        others = corners[chosen]
        sides = np.minimum(corners[box, 2:], others[:, 2:]) - np.maximum(
            corners[box, :2], others[:, :2]
        )
        shared = np.maximum(sides, 0).prod(1)
        areas = [(each[..., 2:] - each[..., :2]).prod(-1) for each in (corners[box], others)]
        if not (shared > np.float32(widest) * (areas[0] + areas[1] - shared)).any():
            chosen.append(int(box))
    return chosen


@pytest.mark.parametrize("count", [0, 1, 31, 32, 33, 200])
def test_equal_scores_and_scores_of_no_number_keep_the_order_of_boxes(count: int):
    generator = np.random.default_rng(count)
    # Sides of 1/8 make intersections and unions exact, so that no share is rounded at the bound.
    boxes = (generator.integers(0, 16, (1, count, 4)) / 8).astype("f4")
    scores = generator.choice(np.array([0, -0.0, 0.5, 1, np.inf, np.nan], "f4"), (1, 2, count))
    limits = (np.array(50), np.array(0.25, "f4"))
    (chosen,) = non_maximum_suppression(boxes, scores, *limits)
    expected = [
        (0, label, box)
        for label, row in enumerate(scores[0])
        for box in chosen_one_by_one(boxes[0], row, 50, 0.25)
    ]
    assert chosen.tolist() == [list(each) for each in expected]


def test_a_box_without_a_place_overlaps_none():
    boxes = np.array([[[0, 0, 1, 1], [0, 0, np.nan, 1], [0, 0, 1, 1]]], "f4")
    scores = np.array([[[0.9, 0.8, 0.7]]], "f4")
    (chosen,) = non_maximum_suppression(boxes, scores, np.array(3), np.array(0.5, "f4"))
    assert chosen[:, 2].tolist() == [0, 1]
