"""A node for each difference without a choice, where onnxruntime's result is not Flowloom's."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, numpy_helper, parser

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
    domain: str = ""
    types: tuple[int, ...] = ()
    """The element types of the outputs; empty for that of the first input."""
    widened: bool = False
    """Whether a Cast to float32 follows, as onnxruntime returns no floats of a byte."""
    processor: str = ""
    """The instructions without which a CPU may not show it, as Linux names them."""
    last_release: str = ""
    """The last release of onnxruntime that was seen to differ; empty if the installed one does."""

    def __str__(self) -> str:
        return f"{self.operator}: {self.when}"


def _floats(*values: float, dtype: str = "float32") -> Array:
    return np.array(values, dtype)


def _integers(*values: int, dtype: str = "int32") -> Array:
    return np.array(values, dtype)


def _texts(*texts: str) -> Array:
    return np.array(texts, object)


def _one_nan(*shape: int) -> Array:
    array = np.ones(shape, np.float32)
    array[0, 0, 9, 9] = NAN
    return array


def _tree(mode: int, **attributes: Any) -> dict[str, Any]:
    """A TreeEnsemble of one node, which compares with 1: 2 if that holds, else 3."""
    return {
        "n_targets": 1,
        "tree_roots": [0],
        "nodes_featureids": [0],
        "nodes_splits": numpy_helper.from_array(_floats(1), ""),
        "nodes_modes": numpy_helper.from_array(np.array([mode], np.uint8), ""),
        "nodes_truenodeids": [0],
        "nodes_trueleafs": [1],
        "nodes_falsenodeids": [1],
        "nodes_falseleafs": [1],
        "leaf_targetids": [0, 0],
        "leaf_weights": numpy_helper.from_array(_floats(2, 3), ""),
        **attributes,
    }


def _normalised(*values: float) -> Array:
    x = np.array(values)
    return (x - x.mean()) / np.sqrt(x.var() + 1e-5)


_SQUARES = 10.0 ** np.arange(9, 0, -1, dtype=np.float32)
_SUMS = np.array([(_SQUARES[max(i - 1, 0) : i + 2] ** 2.0).sum() for i in range(9)], np.float64)
_PERMUTED = np.random.default_rng(0).permutation(300).astype(np.float32)
_LARGE = "floating point does not hold it"
_ML = "ai.onnx.ml"
_TOO_LARGE = (
    "`saturate` is 0, and an element is rounded to a number that is too large for float8e4m3fn or"
    " float8e5m2"
)

_STACKING = parser.parse_graph("""
    stacking (int64 i, bool go, float[n] x) => (bool on, float[n] y, float[n] row)
    { on = Identity (go) y = Identity (x) row = Neg (x) }
""")

EXAMPLES = (
    DifferenceExample(
        "`qk_matmul_output_mode` is 2, and the scores are masked by booleans or causally",
        "Attention",
        {name: np.ones((1, 1, 2, 1), np.float32) for name in "qkv"},
        _floats(1, -INF, 1, 1).reshape(1, 1, 2, 2),
        {"is_causal": 1, "qk_matmul_output_mode": 2},
        opset=23,
        output=3,
        outputs=4,
        types=(TensorProto.FLOAT,) * 4,
    ),
    DifferenceExample(
        "a sequence has no step, and an initial state that is not 0",
        "GRU",
        {"x": np.ones((1, 2, 1), np.float32), "w": np.ones((1, 3, 1), np.float32)}
        | {"r": np.zeros((1, 3, 1), np.float32), "b": None, "lengths": _integers(0, 1)}
        | {"h": _floats(0.5, 0.25).reshape(1, 2, 1)},
        _floats(0.5, np.tanh(1) / (1 + np.e) + 0.25 / (1 + np.exp(-1))).reshape(1, 2, 1),
        {"hidden_size": 1},
        opset=14,
        output=1,
        outputs=2,
        types=(TensorProto.FLOAT, TensorProto.FLOAT),
    ),
    DifferenceExample(
        "it ends before its first iteration, and stacks results whose sizes its body leaves open",
        "Loop",
        {"x": np.array(0), "go": np.array(True), "start": _floats(1, 2, 3)},
        np.zeros((0, 3), np.float32),
        {"body": _STACKING},
        output=1,
        outputs=2,
        types=(TensorProto.FLOAT, TensorProto.FLOAT),
    ),
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
        "an element is NaN, or a scale NaN, infinite or 0",
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
        "the elements are float64",
        "HardSwish",
        {"x": _floats(0.7, dtype="float64")},
        opset=18,
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
        "an element of float32, by `alpha` of Swish, is below -18",
        "Sigmoid",
        {"x": _floats(-30, 1)},
        (1 / (1 + np.exp([30.0, -1.0]))).astype(np.float32),
    ),
    DifferenceExample(
        "an element of float32, by `alpha` of Swish, is below -18",
        "Swish",
        {"x": _floats(-12, 1)},
        (np.array([-12, 1]) / (1 + np.exp([24.0, -2.0]))).astype(np.float32),
        {"alpha": 2.0},
        opset=24,
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
    DifferenceExample(
        "elements are texts",
        "Gather",
        {"x": _texts("a", "b", "c", "d").reshape(2, 2), "i": np.array([1, 0])},
        _texts("c", "d", "a", "b").reshape(2, 2),
    ),
    DifferenceExample(
        "the input is a scalar",
        "NonZero",
        {"x": np.array(3, np.float32)},
        np.zeros((0, 1), np.int64),
        types=(TensorProto.INT64,),
    ),
    DifferenceExample(
        "a float becomes an integer that cannot hold it",
        "Cast",
        {"x": _floats(-300, 1, 1e10, -3e9)},
        attributes={"to": TensorProto.UINT32},
        decided=False,
        types=(TensorProto.UINT32,),
        processor="avx512f",
    ),
    DifferenceExample(
        "a result is an integer that its type cannot hold",
        "Shrink",
        {"x": _integers(2**31 - 1, -(2**31), 3)},
        _integers(-(2**31) + 2, 2**31 - 3, 6),
        {"lambd": 0.5, "bias": -3.0},
    ),
    DifferenceExample(
        f"a sum of integers is so large that {_LARGE}",
        "Einsum",
        {"x": np.full((2, 3), 2**30, np.int32)},
        attributes={"equation": "ij->i"},
    ),
    DifferenceExample(
        "an element is infinite",
        "ReduceLogSumExp",
        {"x": _floats(1, INF, 2)},
        np.array([INF], np.float32),
        last_release="1.23",
    ),
    DifferenceExample(
        "an element is NaN or infinite",
        "DynamicQuantizeLinear",
        {"x": _floats(-INF, 1, 2, *range(40))},
        outputs=3,
        decided=False,
    ),
    DifferenceExample(
        "the kernel is 3 x 3, and an operand holds NaN or infinities",
        "Conv",
        {"x": _one_nan(1, 64, 56, 56), "w": np.ones((64, 64, 3, 3), np.float32)},
        attributes={"pads": [1, 1, 1, 1]},
        decided=False,
    ),
    DifferenceExample(
        "a text is empty, or has whitespace other than spaces and there is no `delimiter`",
        "StringSplit",
        {"x": _texts("a\tb")},
        _texts("a", "b").reshape(1, 2),
        outputs=2,
        types=(TensorProto.STRING, TensorProto.INT64),
    ),
    DifferenceExample(
        "an element is NaN",
        "Unique",
        {"x": _floats(NAN, 1, NAN, 1)},
        _floats(1, NAN),
        opset=11,
    ),
    DifferenceExample(
        _TOO_LARGE,
        "Cast",
        {"x": _floats(448, 480, -490, 500)},
        _floats(448, NAN, NAN, NAN),
        {"to": TensorProto.FLOAT8E4M3FN, "saturate": 0},
        widened=True,
    ),
    DifferenceExample(
        _TOO_LARGE,
        "QuantizeLinear",
        {"x": _floats(57344, 61440, -65000, 70000), "scale": np.array(1, np.float32)}
        | {"zero": np.array(0, ml_dtypes.float8_e5m2)},
        _floats(57344, INF, -INF, INF),
        {"saturate": 0},
        types=(TensorProto.FLOAT,),
        widened=True,
    ),
    DifferenceExample(
        "a key is repeated, or a key of opset 2 is NaN",
        "LabelEncoder",
        {"x": np.array([1])},
        np.array([6]),
        {"keys_int64s": [1, 1], "values_int64s": [5, 6]},
        opset=2,
        domain=_ML,
    ),
    DifferenceExample(
        "a text is not a number, or not an integer where it becomes one",
        "Cast",
        {"x": _texts("1e3")},
        np.array([1000]),
        {"to": TensorProto.INT64},
        types=(TensorProto.INT64,),
    ),
    DifferenceExample(
        "`post_transform` is PROBIT, and there is one score for two labels",
        "LinearClassifier",
        {"x": _floats(0.2, 0.7).reshape(2, 1)},
        None,
        {
            **{"coefficients": [1.0], "intercepts": [0.0], "classlabels_ints": [7, 9]},
            "post_transform": "PROBIT",
        },
        opset=1,
        output=1,
        outputs=2,
        decided=False,  # the quantile is an approximation
        domain=_ML,
        types=(TensorProto.INT64, TensorProto.FLOAT),
    ),
    DifferenceExample(
        "`post_transform` is PROBIT",
        "SVMRegressor",
        {"x": _floats(0.5).reshape(1, 1)},
        _floats(0).reshape(1, 1),
        {
            **{"coefficients": [1.0], "rho": [0.0], "kernel_type": "LINEAR"},
            **{"kernel_params": [0.0, 0.0, 0.0], "post_transform": "PROBIT"},
        },
        opset=1,
        domain=_ML,
    ),
    DifferenceExample(
        "`post_transform` is 1 or 2",
        "TreeEnsemble",
        {"x": _floats(0, 2).reshape(2, 1)},
        (1 / (1 + np.exp([[-2.0, 2.0], [3.0, -3.0]]))).astype(np.float32),
        _tree(0, post_transform=1) | {"n_targets": 2, "leaf_targetids": [0, 1]},
        opset=5,
        domain=_ML,
    ),
    DifferenceExample(
        "some leaf does not vote for some target, and there are `base_values`, or the least or"
        " largest vote counts",
        "TreeEnsembleRegressor",
        {"x": _floats(0, 2).reshape(2, 1)},
        _floats(12, 20, 10, 23).reshape(2, 2),
        {
            "n_targets": 2,
            "base_values": [10.0, 20.0],
            "nodes_treeids": [0, 0, 0],
            "nodes_nodeids": [0, 1, 2],
            "nodes_featureids": [0, 0, 0],
            "nodes_values": [1.0, 0.0, 0.0],
            "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
            "nodes_truenodeids": [1, 0, 0],
            "nodes_falsenodeids": [2, 0, 0],
            "target_treeids": [0, 0],
            "target_nodeids": [1, 2],
            "target_ids": [0, 1],
            "target_weights": [2.0, 3.0],
        },
        opset=3,
        domain=_ML,
    ),
    DifferenceExample(
        "`norm` is L2, and the square of an integer is beyond its type",
        "Normalizer",
        {"x": _integers(50_000, 3).reshape(1, 2)},
        (np.array([[50_000, 3]]) / np.hypot(50_000, 3)).astype(np.float32),
        {"norm": "L2"},
        opset=1,
        domain=_ML,
        types=(TensorProto.FLOAT,),
    ),
)

WITHOUT_EXAMPLE = {
    ("TreeEnsemble", "a node asks for membership in a set, and an element has a fraction")
}
"""onnxruntime 1.32 gives one node with one or two members Flowloom's result: trees of several nodes
differ, of which the kind `texts` draws some."""
