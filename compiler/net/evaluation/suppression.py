"""Non-maximum suppression of boxes."""

import numpy as np

from compiler.net.evaluation.registry import Array, evaluates
from compiler.net.node import TypedNode


@evaluates("KeptBoxes")
def evaluate_kept_boxes(node: TypedNode) -> list[Array]:
    """The boxes of each class that overlap no better one too much, and which of these there are."""
    boxes, scores, widest = (node.array(i) for i in range(3))
    least = node.array(3) if node.has(3) else None
    kept = np.zeros((*scores.shape[:2], node["most"]), np.int64)
    for image, label in np.ndindex(*scores.shape[:2]):
        own = scores[image, label]
        order = np.argsort(-own, kind="stable")  # numbers before NaN
        candidates = order if least is None else order[own[order] > least]
        chosen: list[int] = []
        for box in candidates.tolist():
            if len(chosen) == node["most"]:
                break
            if not _shares(boxes[image, box], boxes[image, chosen], widest):
                chosen.append(box)
        kept[image, label] = [*chosen, *[-1] * (node["most"] - len(chosen))]
    return [np.maximum(kept, 0), kept >= 0]


def _shares(box: Array, others: Array, widest: Array) -> bool:
    """Whether a box shares more than a part of the union with another one; NaN counts as more."""
    sides = np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2])
    shared = np.maximum(sides, 0).prod(1)
    areas = [(each[..., 2:] - each[..., :2]).prod(-1) for each in (box, others)]
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = shared / (areas[0] + areas[1] - shared)
    return bool((~(np.where(shared > 0, parts, 0) <= widest)).any())
