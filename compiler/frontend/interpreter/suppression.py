"""Non-maximum suppression of boxes in numpy, one class of one image at a time."""

import numpy as np

BLOCK, COMPARED = 64, 1024
"""The boxes that are compared with others at a time, and those others, so that caches hold them."""


def non_maximum_suppression(
    boxes: np.ndarray,
    scores: np.ndarray,
    limit: np.ndarray | None = None,
    overlap: np.ndarray | None = None,
    threshold: np.ndarray | None = None,
    *,
    center_point_box: int = 0,
) -> tuple[np.ndarray]:
    """ONNX's NonMaxSuppression: int64[selected, 3] of batch, class and box.

    `boxes` are [batch, boxes, 4], `scores` [batch, classes, boxes]; `limit` bounds the boxes of a
    class (0 if left out), `overlap` their intersection over union, `threshold` their scores.
    """
    most = _scalar(limit, 0)
    widest = _scalar(overlap, 0.0)
    found: list[tuple[int, int, int]] = []
    for batch, rows in enumerate(boxes.astype(np.float32, copy=False)):
        # Boxes as rows of smaller and larger coordinates: float32[boxes, 4].
        if center_point_box:
            middle, half = rows[:, :2], rows[:, 2:] / np.float32(2)
            corners = np.concatenate([middle - half, middle + half], 1)
        else:
            first, second = rows[:, :2], rows[:, 2:]
            corners = np.concatenate([np.minimum(first, second), np.maximum(first, second)], 1)
        for label, row in enumerate(scores[batch]):
            order = _candidates(row, None if threshold is None else _scalar(threshold, 0.0))
            kept = _kept(corners, order, int(most), float(widest))
            found += [(batch, label, int(box)) for box in kept]
    return (np.array(found, np.int64).reshape(-1, 3),)


def _scalar(array: np.ndarray | None, default: float) -> float:
    return default if array is None or not array.size else array.reshape(-1)[0].item()


def _candidates(scores: np.ndarray, threshold: float | None) -> np.ndarray:
    """The boxes with scores above the threshold, the best first, equal ones in their order."""
    order = np.argsort(-scores, kind="stable")
    return order if threshold is None else order[scores[order] > np.float32(threshold)]


def _kept(corners: np.ndarray, order: np.ndarray, most: int, widest: float) -> list[int]:
    """The boxes, best first, that overlap no better one by more than the bound.

    A block of boxes is compared with those that are kept before, then its boxes with each other.
    """
    sides = np.ascontiguousarray(corners.T)
    sizes = (sides[2] - sides[0]) * (sides[3] - sides[1])
    kept: list[int] = []
    for first in range(0, order.size, BLOCK):
        if len(kept) >= most:
            break
        block = order[first : first + BLOCK]
        for start in range(0, len(kept), COMPARED):
            better = np.array(kept[start : start + COMPARED])
            block = block[~_overlapping(sides, sizes, block, better, widest).any(1)]
        overlaps = _overlapping(sides, sizes, block, block, widest)
        free = np.ones(block.size, bool)
        for place, box in enumerate(block.tolist()):
            if free[place]:
                kept.append(box)
                free &= ~overlaps[place]
    return kept[: max(most, 0)]


def _overlapping(
    sides: np.ndarray, sizes: np.ndarray, ones: np.ndarray, others: np.ndarray, widest: float
) -> np.ndarray:
    """Whether each of some boxes overlaps each of others by more than the bound."""
    shared = np.ones((ones.size, others.size), np.float32)
    for low, high in ((0, 2), (1, 3)):
        length = np.minimum(sides[high, ones, None], sides[high, others])
        length -= np.maximum(sides[low, ones, None], sides[low, others])
        shared *= np.maximum(length, np.float32(0), out=length)
    union = sizes[ones, None] + sizes[others] - shared
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(shared > 0, shared / union, np.float32(0))
    return ~(share <= np.float32(widest))
