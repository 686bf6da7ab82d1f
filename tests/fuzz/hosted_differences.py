"""Where onnxruntime differs on texts and classical models: each with who is right, and why."""

import re
from typing import Any

import numpy as np
from onnx import numpy_helper

from tests.fuzz.call import Array, Call
from tests.fuzz.difference import OPEN, Difference


def _elements(array: Array) -> list[Any]:
    return array.ravel().tolist()


def _parts(call: Call) -> list[list[str]]:
    """The parts of each text, by regular expressions."""
    delimiter = call.attributes.get("delimiter", b"").decode()
    limit = call.attributes.get("maxsplit", -1)
    if not delimiter:
        stripped = [re.sub(r"^\s+|\s+$", "", text) for text in _elements(call.inputs[0])]
        rows = [_divided(r"\s+", text, limit) if text else [] for text in stripped]
    else:
        rows = [_divided(re.escape(delimiter), text, limit) for text in _elements(call.inputs[0])]
    return rows


def _divided(pattern: str, text: str, limit: int) -> list[str]:
    return [text] if limit == 0 else re.split(pattern, text, maxsplit=max(limit, 0))


def split(call: Call) -> list[Array]:
    """StringSplit of any whitespace, and of empty texts as one part."""
    rows, shape = _parts(call), call.inputs[0].shape
    width = max(map(len, rows), default=0)
    texts = np.array([[*row, *[""] * (width - len(row))] for row in rows], object)
    counts = np.array([len(row) for row in rows], np.int64)
    return [texts.reshape(*shape, width), counts.reshape(shape)]


def _pairs(call: Call) -> tuple[Array, Array]:
    """The keys and the values of a LabelEncoder."""

    def side(name: str) -> Array:
        ((kind, value),) = ((k, v) for k, v in call.attributes.items() if k.startswith(name))
        if kind.endswith("tensor"):
            return numpy_helper.to_array(value)
        if kind.endswith("strings"):
            return np.array([text.decode() for text in value], object)
        return np.array(value, np.float32 if kind.endswith("floats") else np.int64)

    return side("keys"), side("values")


def _same(a: Any, b: Any) -> bool:
    return a == b or (a != a and b != b)


def repeats_a_key(call: Call) -> bool:
    """Whether a LabelEncoder has a key twice."""
    if "classes_strings" in call.attributes:
        return False
    keys = _elements(_pairs(call)[0])
    return any(_same(a, b) for i, a in enumerate(keys) for b in keys[:i])


def encoded(call: Call) -> list[Array]:
    """The values of the last keys that equal the elements, or are NaN with them."""
    keys, values = _pairs(call)
    kinds = {"O": ("string", b"_Unused"), "f": ("float", -0.0), "i": ("int64", -1)}
    name, usual = kinds[values.dtype.kind]
    default: Any = call.attributes.get(f"default_{name}", usual)
    if "default_tensor" in call.attributes:
        default = numpy_helper.to_array(call.attributes["default_tensor"]).item()
    elif isinstance(default, bytes):
        default = default.decode()
    pairs = [*zip(_elements(keys), _elements(values), strict=True)][::-1]
    found = [
        next((value for key, value in pairs if _same(key, element)), default)
        for element in _elements(call.inputs[0])
    ]
    return [np.array(found, values.dtype).reshape(call.inputs[0].shape)]


_PLAIN = re.compile(
    r"\s*[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?\s*|\s*[+-]?(inf|infinity|nan)\s*", re.I | re.A
)
_WHOLE = re.compile(r"\s*[+-]?\d+\s*", re.A)


def odd_numeral(call: Call) -> bool:
    """Whether a text that is cast is no number, or no integer where integers are asked for."""
    if call.inputs[0].dtype != object:
        return False
    floats = (1, 10, 11, 16)
    if call.op == "Cast":
        exact = call.attributes["to"] in floats
    else:
        exact = call.inputs[1].dtype.kind == "f"
    pattern = _PLAIN if exact else _WHOLE
    return not all(pattern.fullmatch(text) for text in _elements(call.inputs[0]))


def misses_a_target(call: Call) -> bool:
    """Whether some leaf does not vote for some target, and that is not as good as a vote of 0."""
    attributes = call.attributes
    based = any(name.startswith("base_values") for name in attributes)
    if not based and attributes.get("aggregate_function") not in (b"MIN", b"MAX"):
        return False
    leaves = list(attributes["nodes_modes"]).count(b"LEAF")
    return len(attributes.get("target_ids", ())) < leaves * attributes.get("n_targets", 1)


def overflows(call: Call) -> bool:
    """Whether the square of an integer is beyond its type."""
    x = call.inputs[0]
    if x.dtype.kind != "i" or call.attributes.get("norm") != b"L2":
        return False
    return any(abs(n) ** 2 > np.iinfo(x.dtype).max for n in _elements(x))


def has_lone_probit(call: Call) -> bool:
    """Whether a classifier of two labels makes two probits of one score."""
    names = ("classlabels_ints", "classlabels_int64s", "classlabels_strings")
    labels = max(len(call.attributes.get(name, ())) for name in names)
    if call.attributes.get("post_transform") != b"PROBIT" or labels != 2:
        return False
    if call.op == "LinearClassifier":
        return len(call.attributes["coefficients"]) == call.inputs[0].shape[-1]
    return not call.attributes.get("prob_a")


HOSTED_DIFFERENCES = [
    Difference(
        "StringSplit",
        "a text is empty, or has whitespace other than spaces and there is no `delimiter`",
        lambda call: any(not t or re.search(r"[^\S ]", t) for t in _elements(call.inputs[0])),
        "has no part of an empty text, and parts at spaces only",
        "has one empty part of an empty text between delimiters, and parts at any whitespace",
        'the ONNX text: "consecutive whitespace characters are regarded as a single separator",'
        ' and without it delimiters "are deemed to delimit empty strings"',
        split,
    ),
    Difference(
        "Unique",
        "an element is NaN",
        lambda call: call.has_nan(),
        "takes NaN for equal to every element that it is compared with",
        "takes it for equal to NaN alone, and slices that have it for different",
        "the ONNX text points to numpy.unique, which does so",
    ),
    Difference(
        "LabelEncoder",
        "a key is repeated, or a key of opset 2 is NaN",
        lambda call: repeats_a_key(call) or (call.opset < 4 and _has_nan_key(call)),
        "takes the first of equal keys, and finds no NaN before opset 4",
        "takes the last, and finds NaN",
        'the ONNX text: "If a key is repeated, the last key takes precedence", and "even a float'
        ' NaN can be mapped"',
        encoded,
    ),
    Difference(
        "Cast CastLike",
        "a text is not a number, or not an integer where it becomes one",
        odd_numeral,
        "reads as far as the text is a number (1 of 1e3, 0 of 0x10)",
        "reads the whole number and cuts its fraction; other texts are refused",
        "the ONNX text: undefined",
    ),
    Difference(
        "LinearClassifier SVMClassifier TreeEnsembleClassifier",
        "`post_transform` is PROBIT, and there is one score for two labels",
        has_lone_probit,
        "writes one number for the two, and for the others what the memory holds",
        "gives those of 1 - p and p",
        "the ONNX text: scores of each class",
        kind=OPEN,
    ),
    Difference(
        "SVMRegressor",
        "`post_transform` is PROBIT",
        lambda call: call.attributes.get("post_transform") == b"PROBIT",
        "gives the score as it is",
        "gives the quantile of the score",
        "the ONNX text: the transform to apply to the score",
        kind=OPEN,
    ),
    Difference(
        "TreeEnsemble",
        "`post_transform` is 1 or 2",
        lambda call: call.attributes.get("post_transform", 0) in (1, 2),
        "takes 1 for LOGISTIC and 2 for SOFTMAX",
        "takes 1 for SOFTMAX and 2 for LOGISTIC",
        "the ONNX text",
    ),
    Difference(
        "TreeEnsemble",
        "a node asks for membership in a set, and an element has a fraction",
        lambda call: (
            6 in numpy_helper.to_array(call.attributes["nodes_modes"])
            and bool((call.inputs[0] != np.trunc(call.inputs[0])).any())
        ),
        "cuts the fraction",
        "compares the element itself",
        "the ONNX text asks whether the element is among the members",
    ),
    Difference(
        "TreeEnsembleRegressor",
        "some leaf does not vote for some target, and there are `base_values`, or the least or"
        " largest vote counts",
        misses_a_target,
        "leaves the base value of a target out where no leaf votes for it; takes a leaf without a"
        " vote for the only target for one with 0",
        "adds the base value to every target; takes such a leaf for none",
        "the ONNX text: base values are added to final scores, and leaves' weights are aggregated",
    ),
    Difference(
        "Normalizer",
        "`norm` is L2, and the square of an integer is beyond its type",
        overflows,
        "computes with the square as it wraps around",
        "computes the square in float64",
        "the ONNX text's formula",
    ),
]
"""Every known difference of texts and classical models."""


def _has_nan_key(call: Call) -> bool:
    return any(n != n for n in call.attributes.get("keys_floats", ()))
