"""Operators of classical models (ai.onnx.ml)."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from tests.fuzz.case import Array
from tests.fuzz.catalogue.text import few_words, texts
from tests.fuzz.draw import Draw
from tests.fuzz.hosted import ML, Hosted, any_shape, generates_hosted, hosted, runs_of

NUMBERS = ("float32", "float64", "int64", "int32")
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "PROBIT", "SOFTMAX_ZERO")


def eighths(draw: Draw, count: int) -> list[float]:
    """Numbers whose sums and products are exact, so that no decision hangs on a rounding."""
    return [draw.randint(-16, 16) / 8 for _ in range(count)]


def rows(draw: Draw, columns: int, dtypes: Sequence[str] = NUMBERS, rank: int = 2) -> list[Any]:
    """The runs of one matrix, or of one vector."""
    dtype = draw.choice(dtypes)
    unit = 8 if "float" in dtype and draw.chance(0.7) else 1

    def made() -> list[Array]:
        shape = (
            (columns,)
            if rank == 1
            else (draw.choice([1, 2, 5, 0 if draw.chance(0.2) else 3]), columns)
        )
        return [(draw.numpy.integers(-16, 17, shape) / unit).astype(dtype)]

    return runs_of(draw, made)


def wild(draw: Draw, runs: list[Any]) -> list[Any]:
    """The runs with some special values among floats, in few cases."""

    def changed(x: Array) -> Array:
        if x.dtype.kind != "f":
            return x
        special = draw.numpy.choice([np.nan, np.inf, -np.inf], x.shape)
        return np.where(draw.numpy.random(x.shape) < 0.2, special, x).astype(x.dtype)

    return [[*map(changed, run)] for run in runs] if draw.specials else runs


def tensor(array: Any, dtype: Any = None) -> Any:
    """An attribute of numbers or texts."""
    return numpy_helper.from_array(np.array(array, dtype))


@generates_hosted("Binarizer")
def binarizer(draw: Draw, op: str) -> Hosted:
    """onnxruntime has float32 alone."""
    runs = rows(draw, 3, ["float32"], draw.randint(1, 2))
    threshold = draw.choice([None, *eighths(draw, 3)])
    return hosted(op, runs, [TensorProto.FLOAT], 1, domain=ML, threshold=threshold)


@generates_hosted("Normalizer")
def norms(draw: Draw, op: str) -> Hosted:
    """Every norm and type."""
    runs = wild(draw, rows(draw, draw.randint(1, 4), rank=draw.randint(1, 2)))
    norm = draw.choice([None, "MAX", "L1", "L2"])
    return hosted(op, runs, [TensorProto.FLOAT], 1, domain=ML, norm=norm)


@generates_hosted("Scaler")
def scaling(draw: Draw, op: str) -> Hosted:
    """One number for all, or one for each column."""
    count = draw.choice([1, 3])
    return hosted(
        op,
        wild(draw, rows(draw, 3, rank=draw.randint(1, 2))),
        [TensorProto.FLOAT],
        1,
        domain=ML,
        offset=eighths(draw, count),
        scale=eighths(draw, count),
    )


@generates_hosted("Imputer")
def imputing(draw: Draw, op: str) -> Hosted:
    """The types that onnxruntime has, and NaN as what is missing."""
    runs, count = rows(draw, 3, ["float32", "int64"], draw.randint(1, 2)), draw.choice([1, 3])
    dtype = runs[0][0].dtype
    if dtype.kind == "f":
        runs, missing = wild(draw, runs), draw.choice([0.0, 0.5, float("nan")])
        values: Any = {
            "imputed_value_floats": eighths(draw, count),
            "replaced_value_float": missing,
        }
    else:
        values = {"imputed_value_int64s": [7] * count, "replaced_value_int64": draw.randint(-3, 3)}
    element = helper.np_dtype_to_tensor_dtype(dtype)
    return hosted(op, runs, [element], 1, domain=ML, **values)


@generates_hosted("FeatureVectorizer")
def features(draw: Draw, op: str) -> Hosted:
    """One to three inputs of one type, wider and narrower than their dimensions."""
    widths = [draw.randint(1, 4) for _ in range(draw.randint(1, 3))]
    dtype, vectors = draw.choice(NUMBERS), draw.chance(0.3)

    def made() -> list[Array]:
        count = draw.randint(1, 4)
        shapes = [(w,) if vectors else (count, w) for w in widths]
        return [draw.array(shape, dtype, -9, 9) for shape in shapes]

    dimensions = [max(1, width + draw.choice([0, 0, 0, -1, 1])) for width in widths]
    runs = runs_of(draw, made)
    return hosted(op, runs, [TensorProto.FLOAT], 1, domain=ML, inputdimensions=dimensions)


@generates_hosted("ArrayFeatureExtractor")
def columns_of(draw: Draw, op: str) -> Hosted:
    """Texts and numbers, now and then a column that is not there."""
    dtype, rank = draw.choice([*NUMBERS, "text"]), draw.randint(1, 3)

    def made() -> list[Array]:
        shape = tuple(draw.randint(1, 4) for _ in range(rank))
        x = texts(draw, shape) if dtype == "text" else draw.array(shape, dtype)
        last = shape[-1] + draw.chance(0.05)
        columns = draw.numpy.integers(-int(draw.chance(0.05)), last, draw.randint(1, 4))
        return [x, columns.reshape(1, -1) if two else columns]

    two = draw.chance(0.5)
    runs = runs_of(draw, made)
    element = helper.np_dtype_to_tensor_dtype(runs[0][0].dtype)
    return hosted(op, runs, [element], 1, domain=ML)


_KINDS = {
    "float32": "floats",
    "int64": "int64s",
    "text": "strings",
    "float64": "",
    "int32": "",
    "int16": "",
}


def _of_kind(draw: Draw, kind: str, count: int) -> list[Any]:
    """Elements of a type, NaN among floats."""
    if kind == "text":
        return draw.choices(few_words(draw), k=count)
    pool = (
        [-0.0, 0.0, 0.5, 1.0, -2.5, float("nan"), float("inf")]
        if "float" in kind
        else [*range(-3, 4)]
    )
    return draw.choices(pool, k=count)


def _array(elements: list[Any], kind: str, shape: Sequence[int]) -> Array:
    array = np.empty(len(elements), object if kind == "text" else kind)
    array[:] = elements
    return array.reshape(tuple(shape))


@generates_hosted("LabelEncoder")
def labels(draw: Draw, op: str) -> Hosted:
    """Keys and values of every pair of types that onnxruntime has, as lists and as tensors."""
    version = draw.choice([1, 2, 4, 4])
    if version == 1:
        return _labels_by_place(draw, op)
    pairs = [(k, v) for k in ("float32", "int64", "text") for v in ("float32", "int64", "text")]
    pairs += [("float64", "float64"), ("text", "int16"), ("int64", "int64")] if version == 4 else []
    key, value = draw.choice(pairs)
    count = draw.randint(1, 5)
    keys, values = _of_kind(draw, key, count), _of_kind(draw, value, count)
    default = _of_kind(draw, value, 1)
    as_tensor = "" in (_KINDS[key], _KINDS[value]) or (version == 4 and draw.chance(0.4))
    attributes: dict[str, Any] = {f"keys_{_KINDS[key]}": keys, f"values_{_KINDS[value]}": values}
    if as_tensor:
        attributes = {
            "keys_tensor": numpy_helper.from_array(_array(keys, key, [count])),
            "values_tensor": numpy_helper.from_array(_array(values, value, [count])),
            "default_tensor": numpy_helper.from_array(_array(default, value, [1])),
        }
    elif draw.chance(0.6):
        attributes[f"default_{_KINDS[value].removesuffix('s')}"] = default[0]
    rank = draw.randint(0, 3)

    def made() -> list[Array]:
        shape = any_shape(draw, rank)
        others = _of_kind(draw, key, 2)
        return [_array(draw.choices([*keys, *others], k=int(np.prod(shape))), key, shape)]

    runs = runs_of(draw, made)
    element = (
        TensorProto.STRING if value == "text" else helper.np_dtype_to_tensor_dtype(np.dtype(value))
    )
    return hosted(op, runs, [element], version, domain=ML, **attributes)


def _labels_by_place(draw: Draw, op: str) -> Hosted:
    names, to_text, rank = few_words(draw), draw.chance(0.5), draw.randint(0, 2)

    def made() -> list[Array]:
        shape = any_shape(draw, rank)
        if to_text:
            return [draw.numpy.integers(-1, len(names) + 1, shape)]
        return [texts(draw, shape, names)]

    element = TensorProto.STRING if to_text else TensorProto.INT64
    return hosted(
        op,
        runs_of(draw, made),
        [element],
        1,
        domain=ML,
        classes_strings=names,
        default_int64=draw.choice([None, -7]),
        default_string=draw.choice([None, "é"]),
    )


@generates_hosted("CategoryMapper")
def categories(draw: Draw, op: str) -> Hosted:
    """Either way."""
    example = _labels_by_place(draw, op)
    names = few_words(draw)
    return hosted(
        op,
        example.runs,
        example.outputs,
        1,
        domain=ML,
        cats_strings=names,
        cats_int64s=draw.choices(range(-2, 5), k=len(names)),
        default_int64=draw.choice([None, -7]),
        default_string=draw.choice([None, "é"]),
    )


@generates_hosted("OneHotEncoder")
def one_hot(draw: Draw, op: str) -> Hosted:
    """Texts, and numbers that are truncated."""
    kind, rank = draw.choice(["text", "int64", "float32", "float64"]), draw.randint(0, 3)
    names = few_words(draw)
    pool: list[Any] = (
        names if kind == "text" else [-2, -1, 0, 1, 3, *([0.5, -0.5, 1.9] if "f" in kind else [])]
    )

    def made() -> list[Array]:
        shape = any_shape(draw, rank)
        return [_array(draw.choices(pool, k=int(np.prod(shape))), kind, shape)]

    attributes: dict[str, Any] = (
        {"cats_strings": draw.choices(names, k=draw.randint(1, 4))}
        if kind == "text"
        else {"cats_int64s": draw.choices([-2, -1, 0, 1, 3], k=draw.randint(1, 4))}
    )
    return hosted(
        op,
        wild(draw, runs_of(draw, made)),
        [TensorProto.FLOAT],
        1,
        domain=ML,
        zeros=draw.choice([None, 1, 0]),
        **attributes,
    )


def class_labels(draw: Draw, count: int, integers: str) -> tuple[int, dict[str, Any]]:
    """The type of labels, and their attribute; onnxruntime dies of a single one that is a text."""
    if count == 1 or draw.chance(0.5):
        return TensorProto.INT64, {integers: draw.sample(range(-3, 9), count)}
    return TensorProto.STRING, {"classlabels_strings": draw.sample("a b c é 日 ß".split(), count)}


@generates_hosted("LinearClassifier")
def linear_classes(draw: Draw, op: str) -> Hosted:
    """One to four vectors of coefficients."""
    columns, vectors = draw.randint(1, 4), draw.randint(1, 4)
    element, labels = class_labels(draw, max(vectors, 2), "classlabels_ints")
    return hosted(
        op,
        rows(draw, columns, rank=draw.choice([1, 2, 2])),
        [element, TensorProto.FLOAT],
        1,
        domain=ML,
        coefficients=eighths(draw, columns * vectors),
        intercepts=eighths(draw, vectors),
        post_transform=draw.choice([None, *TRANSFORMS]),
        multi_class=draw.choice([None, 0, 1]),
        **labels,
    )


@generates_hosted("LinearRegressor")
def linear_targets(draw: Draw, op: str) -> Hosted:
    """onnxruntime has float32 alone."""
    columns, targets = draw.randint(1, 4), draw.randint(1, 3)
    return hosted(
        op,
        rows(draw, columns, ["float32"]),
        [TensorProto.FLOAT],
        1,
        domain=ML,
        coefficients=eighths(draw, columns * targets),
        targets=targets,
        intercepts=draw.choice([None, eighths(draw, targets)]),
        post_transform=draw.choice([None, *TRANSFORMS]),
    )


@generates_hosted("SVMRegressor")
def support_vector_targets(draw: Draw, op: str) -> Hosted:
    """Every kernel, and none."""
    columns, vectors = draw.randint(1, 4), draw.choice([0, 2, 5])
    return hosted(
        op,
        rows(draw, columns, ["float32"]),
        [TensorProto.FLOAT],
        1,
        domain=ML,
        kernel_type=draw.choice(["LINEAR", "POLY", "RBF", "SIGMOID"]) if vectors else "LINEAR",
        kernel_params=[0.25, 0.5, 2.0],
        rho=eighths(draw, 1),
        n_supports=vectors,
        coefficients=eighths(draw, vectors or columns),
        support_vectors=eighths(draw, vectors * columns) or None,
        post_transform=draw.choice([None, *TRANSFORMS]),
        one_class=draw.choice([None, 0, 1]),
    )


@generates_hosted("SVMClassifier")
def support_vector_classes(draw: Draw, op: str) -> Hosted:
    """Two to four classes, with probabilities too."""
    columns, classes = draw.randint(1, 4), draw.randint(2, 4)
    counts = [draw.randint(1, 3) for _ in range(classes)]
    vectors, pairs = sum(counts), classes * (classes - 1) // 2
    element, labels = class_labels(draw, classes, "classlabels_ints")
    transforms = TRANSFORMS
    likely: dict[str, Any] = {}
    if draw.chance(0.4):
        likely = {"prob_a": [-1.5] * pairs, "prob_b": eighths(draw, pairs)}
        # PROBIT magnifies roundings near 0 and 1, and SOFTMAX_ZERO leaves out what is below 1e-7
        transforms = TRANSFORMS[:-2]
    return hosted(
        op,
        rows(draw, columns),
        [element, TensorProto.FLOAT],
        1,
        domain=ML,
        kernel_type=draw.choice(["LINEAR", "POLY", "RBF", "SIGMOID"]),
        kernel_params=[0.25, 0.5, 2.0],
        rho=eighths(draw, pairs),
        coefficients=eighths(draw, vectors * (classes - 1)),
        support_vectors=eighths(draw, vectors * columns),
        vectors_per_class=counts,
        post_transform=draw.choice([None, *transforms]),
        **labels,
        **likely,
    )


@generates_hosted("ZipMap")
def dictionaries(draw: Draw, op: str) -> Hosted:
    """Rows of scores by class; the runs have the columns, or are refused."""
    element, labels = class_labels(draw, draw.randint(1, 4), "classlabels_int64s")
    (names,) = labels.values()
    runs = rows(draw, len(names) + draw.chance(0.05), ["float32"], draw.randint(1, 2))
    return hosted(op, runs, [0], 1, domain=ML, keys=element, **labels)
