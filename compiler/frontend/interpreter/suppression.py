"""Non-maximum suppression of boxes, one class of one image at a time."""

import ctypes
from pathlib import Path

import numpy as np

SUPPRESSION = Path(__file__).with_name("suppression.ll")

_POINTER = ctypes.c_void_p
_INTEGER = ctypes.c_int64
_SIGNATURE = (
    *(_POINTER, _POINTER, _INTEGER, _INTEGER, _INTEGER, ctypes.c_float),
    *(_POINTER, _POINTER, _POINTER, _POINTER, _POINTER),
)


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
    # LLVM is loaded for models with boxes only.
    from compiler.support.native_code import native_function

    suppress = native_function(SUPPRESSION, "suppress", None, *_SIGNATURE)
    classes, count = scores.shape[1:]
    most = max(0, min(int(_scalar(limit, 0)), count))
    heap, kept = np.empty(count, np.int32), np.empty((5, most), np.float32)
    chosen, taken = np.empty((classes, most), np.int64), np.empty(classes, np.int64)
    least = None if threshold is None else np.array([_scalar(threshold, 0.0)], np.float32)
    scratch = [None if a is None else a.ctypes.data for a in (least, heap, kept, chosen, taken)]
    sizes = (classes, count, most, _scalar(overlap, 0.0))
    rows = [np.empty((0, 3), np.int64)]
    for batch, (sides, image) in enumerate(zip(boxes, scores, strict=True)):
        corners = _corners(sides.astype(np.float32, copy=False), center_point_box)
        image = np.ascontiguousarray(image, np.float32)
        suppress(corners.ctypes.data, image.ctypes.data, *sizes, *scratch)
        labels, places = np.nonzero(np.arange(most) < taken[:, None])
        rows.append(np.stack([np.full_like(labels, batch), labels, chosen[labels, places]], 1))
    return (np.concatenate(rows),)


def _scalar(array: np.ndarray | None, default: float) -> float:
    return default if array is None or not array.size else array.reshape(-1)[0].item()


def _corners(boxes: np.ndarray, centred: int) -> np.ndarray:
    """Boxes as rows of smaller and larger coordinates: contiguous float32[boxes, 4].

    numpy's results of arrays with other strides have these strides, too, so that the boxes are
    copied where they are not rows themselves.
    """
    boxes = np.ascontiguousarray(boxes)
    if centred:
        middle = boxes[:, :2]
        half = boxes[:, 2:] / np.float32(2)
        return np.concatenate([middle - half, middle + half], 1)
    first, second = boxes[:, :2], boxes[:, 2:]
    return np.concatenate([np.minimum(first, second), np.maximum(first, second)], 1)
