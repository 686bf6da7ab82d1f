"""A node for each difference without a choice, where onnxruntime's result is not Flowloom's."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.fuzz.hosted_differences import HOSTED_DIFFERENCES

Array = NDArray[Any]
NAN, INF = np.nan, np.inf


@dataclass(frozen=True)
class DifferenceExample:
    """A node whose `result` is what the page says, or what the difference corrects it to."""

    when: str
    """The difference's."""
    operator: str
    inputs: Mapping[str, Array | None]
    result: Array | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    opset: int = 22
    output: int = 0
    """The number of the output that differs."""
    outputs: int = 1
    decided: bool = True
    """Whether there is one right result."""

    def __str__(self) -> str:
        return f"{self.operator}: {self.when}"


def _floats(*values: float, dtype: str = "float32") -> Array:
    return np.array(values, dtype)


def _integers(*values: int, dtype: str = "int32") -> Array:
    return np.array(values, dtype)


def _normalised(*values: float) -> Array:
    x = np.array(values)
    return (x - x.mean()) / np.sqrt(x.var() + 1e-5)


_SQUARES = 10.0 ** np.arange(9, 0, -1, dtype=np.float32)
_SUMS = np.array([(_SQUARES[max(i - 1, 0) : i + 2] ** 2.0).sum() for i in range(9)], np.float64)
_PERMUTED = np.random.default_rng(0).permutation(300).astype(np.float32)
_LARGE = "floating point does not hold it"

EXAMPLES = (
    DifferenceExample(
        "an element is NaN",
        "ReduceMax",
        {"x": _floats(1, NAN, 3, 2)},
        _floats(NAN),
        opset=17,
    ),
    DifferenceExample(
        "an element is minus infinity",
        "MaxPool",
        {"x": _floats(-INF, -INF, 3).reshape(1, 1, 3)},
        _floats(-INF, 3).reshape(1, 1, 2),
        {"kernel_shape": [2]},
    ),
    DifferenceExample(
        "no operand is NaN or infinite",
        "InstanceNormalization",
        {
            "x": _floats(4096, 4097, 4098, 4100).reshape(1, 1, 4),
            **{"scale": _floats(1), "bias": _floats(0)},
        },
    ),
    DifferenceExample(
        f"a power of integers is so large that {_LARGE}",
        "Pow",
        {"x": _integers(3, 7), "exponent": _integers(25, 20)},
    ),
    DifferenceExample(
        "an element is negative, or 0 and `alpha` is infinite", "Elu", {"x": _floats(-1e-6, 1)}
    ),
    DifferenceExample(
        "all elements of a row are equal",
        "MeanVarianceNormalization",
        {"x": _floats(3, 3, 3).reshape(1, 3)},
        attributes={"axes": [0, 1]},
    ),
    DifferenceExample(
        "an element of float16 is infinite, before opset 12",
        "Clip",
        {"x": _floats(INF, 1, -INF, dtype="float16")},
        _floats(65504, 1, -65504, dtype="float16"),
        opset=11,
    ),
    DifferenceExample(
        "integers are interpolated with antialias, or along the second of four axes",
        "Resize",
        {"x": _integers(-100, -50, 30, 99, dtype="int8").reshape(1, 4), "roi": None}
        | {"scales": _floats(1, 0.5)},
        attributes={"mode": "linear", "antialias": 1},
    ),
    DifferenceExample(
        "an operand holds NaN or infinities",
        "Resize",
        {"x": _floats(1, INF, 3, 4).reshape(1, 4), "roi": None, "scales": _floats(1, 2)},
        _floats(1, INF, INF, INF, INF, 3.25, 3.75, 4).reshape(1, 8),
        {"mode": "linear"},
    ),
    DifferenceExample(
        "elements are float64, or `stash_type` is not float32",
        "GroupNormalization",
        {
            "x": _floats(1, 2, 4, dtype="float64").reshape(1, 1, 3),
            **{"scale": _floats(1, dtype="float64"), "bias": _floats(0, dtype="float64")},
        },
        _normalised(1, 2, 4).reshape(1, 1, 3),
        {"num_groups": 1},
    ),
    DifferenceExample(
        "an element is NaN",
        "DynamicQuantizeLinear",
        {"x": _floats(NAN, 1, 2, *range(40))},
        np.array(NAN, np.float32),
        output=1,
        outputs=3,
    ),
    DifferenceExample(
        "`alpha` is 0, NaN or larger than 1000",
        "Celu",
        {"x": _floats(1, 2)},
        _floats(1, 2),
        {"alpha": 0.0},
    ),
    DifferenceExample(
        "an element is NaN, or a scale NaN or infinite",
        "QuantizeLinear",
        {"x": _floats(NAN, 1, *range(40)), "scale": np.array(1, np.float32)}
        | {"zero": np.array(3, np.uint8)},
        _integers(3, 4, *range(3, 43), dtype="uint8"),
    ),
    DifferenceExample(
        "elements are float64, or integers that float32 does not hold",
        "Shrink",
        {"x": _floats(3.3, dtype="float64")},
        attributes={"lambd": 1.0, "bias": 0.1},
    ),
    DifferenceExample(
        "`approximate` is tanh and the elements are float64",
        "Gelu",
        {"x": _floats(0.7, dtype="float64")},
        attributes={"approximate": "tanh"},
    ),
    DifferenceExample(
        f"a reduction of integers is so large that {_LARGE}",
        "ReduceSum",
        {"x": _integers(2**30, 2**30, 5)},
    ),
    DifferenceExample(
        "an operand, or `spatial_scale`, holds NaN or infinities",
        "GridSample",
        {"x": _floats(1, 2, 3, 4).reshape(1, 1, 2, 2), "grid": _floats(NAN, 0).reshape(1, 1, 1, 2)},
        _floats(NAN).reshape(1, 1, 1, 1),
    ),
    DifferenceExample(
        "a position is so large that float32 has no fractions there",
        "GridSample",
        {"x": np.arange(49, dtype=np.float32).reshape(1, 1, 7, 7)}
        | {"grid": _floats(3.3e7, 0.1, 123456789, 0.3).reshape(1, 1, 2, 2)},
        attributes={"padding_mode": "reflection"},
        decided=False,
    ),
    DifferenceExample(
        "`sorted` is 0",
        "TopK",
        {"x": _PERMUTED, "k": np.array([100])},
        np.arange(100, dtype=np.float32),
        {"sorted": 0, "largest": 0},
        outputs=2,
    ),
    DifferenceExample(
        "a variance plus `epsilon` is 0",
        "BatchNormalization",
        {"x": _floats(3, 1).reshape(2, 1), "scale": _floats(1), "bias": _floats(0)}
        | {"mean": _floats(1), "variance": _floats(0)},
        _floats(INF, NAN).reshape(2, 1),
        {"epsilon": 0.0},
    ),
    DifferenceExample(
        "`reduction` is max or min, and an element or update is NaN",
        "ScatterElements",
        {"x": _floats(1, NAN), "indices": np.array([0, 1]), "updates": _floats(NAN, 1)},
        _floats(NAN, NAN),
        {"reduction": "max"},
    ),
    DifferenceExample(
        "an element of float32 is below -18",
        "Sigmoid",
        {"x": _floats(-30, 1)},
        (1 / (1 + np.exp([30.0, -1.0]))).astype(np.float32),
    ),
    DifferenceExample(
        "`alpha`, `beta` or `bias` is infinite",
        "LRN",
        {"x": _floats(1, 2, 3).reshape(1, 3, 1, 1)},
        _floats(0, 0, 0).reshape(1, 3, 1, 1),
        {"size": 3, "alpha": INF},
    ),
    DifferenceExample(
        "`bias` is 0",
        "LRN",
        {"x": _SQUARES.reshape(1, 9, 1, 1)},
        (_SQUARES / np.sqrt(_SUMS / 3)).astype(np.float32).reshape(1, 9, 1, 1),
        {"size": 3, "bias": 0.0, "beta": 0.5, "alpha": 1.0},
    ),
)

SHOWN_BY_THE_SEARCH = {
    ("Gather Loop", "elements are texts"): "shown by test_contents.py",
    ("NonZero", "the input is a scalar"): "another shape, shown by test_contents.py",
    ("Relu", "an element is NaN"): "earlier releases of onnxruntime give 0",
    ("Max Min", "an element is NaN"): "earlier releases of onnxruntime depend on places",
    ("Cast CastLike", "a float becomes an integer that cannot hold it"): "undefined on both sides",
    ("Conv", "the kernel is 3 x 3, and an operand holds NaN or infinities"): "the kernel chosen",
    ("Shrink", "a result is an integer that its type cannot hold"): "undefined on both sides",
    ("Einsum", f"a sum of integers is so large that {_LARGE}"): "onnxruntime's plan for operands",
    ("ReduceLogSumExp", "an element is infinite"): "onnxruntime's way to reduce",
    ("DynamicQuantizeLinear", "an element is NaN or infinite"): "as of NaN alone, above",
    **{
        (d.operators, d.when): "texts and classical models, drawn by the kind `texts`"
        for d in HOSTED_DIFFERENCES
    },
}
"""Differences that no node shows on every processor and release, and on what they depend."""
