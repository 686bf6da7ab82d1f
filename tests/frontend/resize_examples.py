"""A smallest node for each rule of semantics of Resize, and its results by the ONNX text."""

import numpy as np

from tests.frontend.semantics_example import RANDOM, Array, Example, by_reference, floats, normal


def _rounded_integers(example: Example) -> Array:
    """Integers interpolated in float64 between the two neighbours of (i + 0.5) / scale - 0.5."""
    (x,) = example.feeds.values()
    scale = float(np.asarray(example.inputs["scales"])[-1])
    old = np.arange(x.shape[-1], dtype=np.float64)
    at: Array = (np.arange(int(len(old) * scale)) + 0.5) / scale - 0.5
    at = np.clip(at, 0, old[-1])
    rows: list[Array] = [np.interp(at, old, row.astype(np.float64)) for row in x]
    return np.rint(np.stack(rows))


def _filled_integers(example: Example) -> Array:
    """Rows of four at 8 positions of (-1.5, ..., 4.5), and what is nearest to the fill outside."""
    (x,) = example.feeds.values()
    at = np.linspace(-1.5, 4.5, 8)
    nearest = np.clip(np.ceil(at - 0.5).astype(int), 0, 3)
    fill = np.rint(example.attributes["extrapolation_value"])
    return np.where((at < 0) | (at > 3), fill, x[:, nearest]).astype(np.float64)


def _resampled(example: Example) -> Array:
    """Rows interpolated in float64 at i / scale."""
    (x,) = example.feeds.values()
    scale = float(np.asarray(example.inputs["scales"])[-1])
    old = np.arange(x.shape[-1], dtype=np.float64)
    rows: list[Array] = [np.interp(old / scale, old, row.astype(np.float64)) for row in x]
    return np.stack(rows)


def _cropped(example: Example) -> Array:
    """Rows interpolated in float64 at as many positions from one end of a region to the other."""
    (x,) = example.feeds.values()
    start, end = np.asarray(example.inputs["roi"], np.float64) * (x.shape[1] - 1)
    old = np.arange(x.shape[1], dtype=np.float64)
    at: Array = start + old * (end - start) / old[-1]
    rows: list[Array] = [np.interp(at, old, row.astype(np.float64)) for row in x]
    return np.stack(rows)


_BYTES = RANDOM.integers(0, 255, (6, 7)).astype(np.uint8)
_LINEAR = {"mode": "linear"}
_CORNERS = {"coordinate_transformation_mode": "align_corners"}
_CROPS = {"coordinate_transformation_mode": "tf_crop_and_resize"}

RESIZE_EXAMPLES = (
    Example(
        "resize-align-corners-scale",
        "Resize",
        {"mode": "cubic", **_CORNERS},
        {"x": normal(1, 1, 4, 4), "roi": None, "scales": floats(1, 1, 0.6, 0.6)},
        by_reference,
        ("scales",),
        free={"x": ("batch", 1, 4, 4)},
    ),
    Example(
        "resize-align-corners-scale",
        "Resize",
        _LINEAR | _CORNERS,
        {"x": normal(1, 2, 3, 5), "roi": None, "scales": floats(1, 1, 1, 1.5)},
        by_reference,
        ("scales",),
        free={"x": ("batch", 2, 3, "width")},
    ),
    Example(
        "resize-align-corners-scale",
        "Resize",
        {"mode": "linear", "antialias": 1, **_CORNERS},
        {"x": normal(1, 1, 9, 7), "roi": None, "scales": floats(1, 1, 0.4, 1.3)},
        by_reference,
        ("scales",),
        free={"x": (1, "channels", 9, 7)},
    ),
    Example(
        "resize-integers",
        "Resize",
        _LINEAR,
        {
            "x": RANDOM.integers(0, 255, (6, 7)).astype(np.uint8),
            "r": None,
            "scales": floats(1, 3),
        },
        _rounded_integers,
        ("scales",),
        free={"x": (6, "width")},
    ),
    Example(
        "resize-integers",
        "Resize",
        {"mode": "nearest", "extrapolation_value": -2.75, **_CROPS},
        {
            "x": np.arange(12, dtype=np.int32).reshape(3, 4),
            "roi": floats(0, -0.5, 1, 1.5),
            "scales": floats(1, 2),
        },
        _filled_integers,
        ("roi", "scales"),
        free={"x": (3, "width")},
    ),
    Example(
        "resize-crop-same-size",
        "Resize",
        _LINEAR | _CROPS,
        {"x": normal(2, 3), "roi": floats(0.1, 0.1, 0.9, 0.8), "scales": floats(1, 2)},
        by_reference,
        ("roi", "scales"),
        free={"x": (2, "width")},
    ),
    Example(
        "resize-same-size",
        "Resize",
        {"mode": "cubic", "antialias": 1},
        {"x": normal(1, 1, 4, 6), "roi": None, "scales": floats(1, 1, 1.2, 1.1)},
        by_reference,
        ("scales",),
        free={"x": (1, "channels", 4, 6)},
    ),
    Example(
        "resize-same-size",
        "Resize",
        {"nearest_mode": "floor", "coordinate_transformation_mode": "asymmetric"},
        {"x": normal(3, 4), "roi": None, "scales": floats(1, 1.2)},
        by_reference,
        ("scales",),
        free={"x": ("batch", 4)},
    ),
    Example(
        "resize-same-size",
        "Upsample",
        _LINEAR,
        {"x": normal(3, 9), "scales": floats(1, 1.1)},
        _resampled,
        ("scales",),
        opset=9,
        free={"x": ("batch", 9)},
    ),
    Example(
        "resize-same-size",
        "Resize",
        _LINEAR,
        {"x": normal(3, 9), "scales": floats(1, 1.1)},
        _resampled,
        ("scales",),
        opset=10,
        free={"x": ("batch", 9)},
    ),
    Example(
        "resize-same-size",
        "Resize",
        _LINEAR | _CROPS | {"axes": [1]},
        {"x": normal(4, 6), "roi": floats(0.1, 0.8), "scales": floats(1.1)},
        _cropped,
        ("roi", "scales"),
        free={"x": ("batch", 6)},
    ),
    Example(
        "resize-same-axis",
        "Resize",
        _LINEAR | {"antialias": 1},
        {"x": normal(1, 1, 3, 4), "roi": None, "scales": floats(1, 1, 1.1, 1.5)},
        by_reference,
        ("scales",),
        free={"x": ("batch", 1, 3, 4)},
    ),
    Example(
        "resize-same-axis",
        "Resize",
        {"mode": "cubic", "antialias": 1, "axes": [3, 2]},
        {"x": normal(1, 2, 5, 6), "roi": None, "scales": floats(0.6, 1.15)},
        by_reference,
        ("scales",),
        free={"x": (1, "channels", 5, 6)},
    ),
)
