"""Operators of texts on the host, against onnxruntime, RE2's syntax and ONNX's text."""

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import compiler
from compiler.errors import InputDataError, ModelError
from tests.program.checks import reference

STRING, BOOL, INT64, FLOAT = (
    TensorProto.STRING,
    TensorProto.BOOL,
    TensorProto.INT64,
    TensorProto.FLOAT,
)


def texts(*items: str) -> np.ndarray:
    """A vector of texts."""
    return np.array(items, object)


def model_of(
    node: onnx.NodeProto, inputs: Sequence[np.ndarray], outputs: Sequence[int], opset: int = 21
) -> onnx.ModelProto:
    """A model of one node whose inputs have any sizes."""
    infos = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(x.dtype), [None] * x.ndim
        )
        for name, x in zip(node.input, inputs, strict=True)
    ]
    results = [
        helper.make_tensor_value_info(name, element, None)
        for name, element in zip(node.output, outputs, strict=True)
    ]
    graph = helper.make_graph([node], "texts", infos, results)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def run(
    op_type: str, inputs: Sequence[np.ndarray], outputs: Sequence[int], **attributes: Any
) -> list[np.ndarray]:
    """The outputs of one node."""
    node = helper.make_node(
        op_type,
        [f"x{i}" for i in range(len(inputs))],
        [f"y{i}" for i in range(len(outputs))],
        **attributes,
    )
    module = compiler.compile(model_of(node, inputs, outputs))
    return [*module.run(dict(zip(node.input, inputs, strict=True))).values()]


def test_the_parts_of_a_scalar_are_a_vector():
    parts, count = run("StringSplit", [np.array("a,b", object)], [STRING, INT64], delimiter=",")
    assert (parts.tolist(), count.shape, count.item()) == (["a", "b"], (), 2)


@pytest.mark.parametrize(
    ("text", "attributes", "parts"),
    [
        (" a\tb \u3000c\n", {}, ["a", "b", "c"]),
        (" a  b c ", {"maxsplit": 1}, ["a", "b c"]),
        (" a  b c ", {"maxsplit": 0}, ["a  b c"]),
        (" a b ", {"delimiter": " "}, ["", "a", "b", ""]),
        ("aaaaa", {"delimiter": "aa"}, ["", "", "a"]),
        ("a,b,c", {"delimiter": ",", "maxsplit": 1}, ["a", "b,c"]),
        ("a,b,c", {"delimiter": ",", "maxsplit": -1}, ["a", "b", "c"]),
        ("", {"delimiter": ","}, [""]),
        ("", {"delimiter": ""}, []),
    ],
)
def test_texts_are_parted_by_delimiters_or_whitespace(
    text: str, attributes: dict[str, Any], parts: list[str]
):
    rows, counts = run("StringSplit", [texts(text, "x")], [STRING, INT64], **attributes)
    assert counts.tolist() == [len(parts), 1]
    assert rows[0].tolist() == [*parts, *[""] * (rows.shape[1] - len(parts))]


def test_accents_stay_where_case_changes():
    words = texts("É", "straße", "ΑΣ", "İ")
    (lower,) = run(
        "StringNormalizer", [words], [STRING], is_case_sensitive=1, case_change_action="LOWER"
    )
    assert lower.tolist() == ["é", "straße", "\u03b1\u03c3", "i"]
    (upper,) = run("StringNormalizer", [words], [STRING], case_change_action="UPPER")
    assert upper.tolist() == ["É", "STRAßE", "ΑΣ", "İ"]


@pytest.mark.parametrize(
    ("locale", "lower", "upper"),
    [
        ("C", "i\u0131É", "\u0131I"),
        ("tr_TR.UTF-8", "\u0131\u0131é", "I\u0130"),
        ("en_US", "i\u0131é", "II"),
    ],
)
def test_locales_decide_which_letters_change(locale: str, lower: str, upper: str):
    (result,) = run(
        "StringNormalizer", [texts("I\u0131É")], [STRING], case_change_action="LOWER", locale=locale
    )
    assert result.tolist() == [lower]
    (result,) = run(
        "StringNormalizer", [texts("\u0131i")], [STRING], case_change_action="UPPER", locale=locale
    )
    assert result.tolist() == [upper]


def test_locales_that_are_none_are_refused_when_a_model_is_compiled():
    node = helper.make_node("StringNormalizer", ["x"], ["y"], locale="all of them")
    with pytest.raises(ModelError, match="its locale 'all of them' is not named like en_US"):
        compiler.compile(model_of(node, [texts("a")], [STRING]))


def test_every_letter_changes_as_in_the_c_library():
    letters = texts(
        *map(chr, [*range(1, 0x500), *range(0x1E00, 0x2000)])
    )  # older than the libraries
    for action in ("LOWER", "UPPER"):
        attributes: dict[str, Any] = {"case_change_action": action, "locale": "C.UTF-8"}
        node = helper.make_node("StringNormalizer", ["x0"], ["y0"], **attributes)
        wanted = reference(model_of(node, [letters], [STRING]), {"x0": letters})["y0"]
        (found,) = run("StringNormalizer", [letters], [STRING], **attributes)
        assert (found == wanted).all()


@pytest.mark.parametrize(
    ("attributes", "kept"),
    [
        ({"stopwords": ["MONDAY"]}, ["the", "monday's"]),
        ({"stopwords": ["monday"], "is_case_sensitive": 1}, ["the", "Monday", "monday's"]),
        ({"stopwords": ["Monday", "the", "monday's"]}, [""]),
    ],
)
def test_stop_words_are_left_out_of_vectors_and_rows(attributes: dict[str, Any], kept: list[str]):
    words = texts("the", "Monday", "monday's")
    for shape in ((3,), (1, 3)):
        (found,) = run("StringNormalizer", [words.reshape(shape)], [STRING], **attributes)
        assert (found.tolist(), found.dtype) == (
            np.reshape(kept, (*shape[:-1], -1)).tolist(),
            object,
        )


@pytest.mark.parametrize("action", ["NONE", "LOWER", "UPPER"])
def test_stop_words_are_compared_in_lower_case(action: str):
    words = texts("\u00df", "\u1e9e", "\u0130", "i", "I", "\u017f", "s")  # some have one upper case
    (found,) = run(
        "StringNormalizer",
        [words],
        [STRING],
        stopwords=["\u1e9e", "\u0130"],
        case_change_action=action,
    )
    case = {"NONE": str, "LOWER": str.lower, "UPPER": str.upper}[action]
    assert found.tolist() == [case("\u017f"), case("s")]


def test_matrices_of_words_are_refused():
    with pytest.raises(InputDataError, match="a vector or a single row"):
        run("StringNormalizer", [texts("a", "b").reshape(2, 1)], [STRING])


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        (r"\d+", ["12"], ["\u0663", ""]),
        (r"\w+", ["a_1"], ["é"]),
        (r"[[:alpha:]]+", ["ab"], [":a]", "é"]),
        (r"\pL+", ["é日"], ["1"]),
        (r"\Qa.b\E\z", ["a.b"], ["axb"]),
        (r"(?U)a+", ["aa"], ["b"]),
        (r"a|ab", ["ab"], ["abc"]),
        (r"(?s).*", ["a\nb", ""], []),
        (r".*", [""], ["a\nb"]),
    ],
)
def test_patterns_are_those_of_re2(pattern: str, matching: list[str], others: list[str]):
    words = texts(*matching, *others)
    (found,) = run("RegexFullMatch", [words], [BOOL], pattern=pattern)
    assert found.tolist() == [True] * len(matching) + [False] * len(others)


@pytest.mark.parametrize("pattern", ["(?=a)", "(?<!a)b", r"(a)\1", "[", "a{1001}"])
def test_patterns_that_re2_has_not_are_refused_when_a_model_is_compiled(pattern: str):
    node = helper.make_node("RegexFullMatch", ["x"], ["y"], "match", pattern=pattern)
    with pytest.raises(ModelError, match=r"RegexFullMatch 'match': its pattern .* is not RE2's"):
        compiler.compile(model_of(node, [texts("a")], [BOOL]))


@pytest.mark.parametrize("case", ["branch", "loop"])
def test_patterns_in_bodies_are_refused_when_a_model_is_compiled(case: str):
    node = helper.make_node("RegexFullMatch", ["x"], ["y"], pattern="(?=a)")
    result = helper.make_tensor_value_info("y", BOOL, None)
    body = helper.make_graph([node], "body", [], [result])
    branches = helper.make_node("If", ["c"], ["r"], then_branch=body, else_branch=body)
    inner = helper.make_graph(
        [branches], "body", [], [helper.make_tensor_value_info("r", BOOL, None)]
    )
    outer = helper.make_node("If", ["c"], ["z"], then_branch=inner, else_branch=inner)
    chosen, name = (branches, "r") if case == "branch" else (outer, "z")
    graph = helper.make_graph(
        [chosen],
        "bodies",
        [
            helper.make_tensor_value_info("x", STRING, ["n"]),
            helper.make_tensor_value_info("c", BOOL, []),
        ],
        [helper.make_tensor_value_info(name, BOOL, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    with pytest.raises(ModelError, match="is not RE2's"):
        compiler.compile(model)


def test_results_are_arrays_of_objects():
    scalar = np.array("a", object)
    results = [
        *run("StringConcat", [scalar, scalar], [STRING]),
        *run("StringNormalizer", [texts("a")], [STRING]),
        *run("Cast", [np.array(1.5, np.float32)], [STRING], to=STRING),
        run("StringSplit", [scalar], [STRING, INT64])[0],
    ]
    assert [(type(r), r.dtype) for r in results] == [(np.ndarray, object)] * 4


@pytest.mark.parametrize(
    ("text", "element", "number"),
    [
        ("0", BOOL, False),
        ("-0.0", BOOL, False),
        ("0.5", BOOL, True),
        ("NaN", BOOL, True),
        ("9007199254740993", INT64, 9007199254740993),
        (" 3.7\n", INT64, 3),
        ("1e3", INT64, 1000),
        ("300", TensorProto.INT8, 44),
        ("-1", TensorProto.UINT16, 65535),
        ("18446744073709551615", TensorProto.UINT64, 2**64 - 1),
        ("-inf", FLOAT, -np.inf),
        ("1e39", FLOAT, np.inf),
        (".5", TensorProto.FLOAT16, 0.5),
        ("500", TensorProto.FLOAT8E4M3FN, 448),
        ("-7", TensorProto.INT4, -7),
        ("17", TensorProto.UINT4, 1),
        ("1.0078125", TensorProto.BFLOAT16, 1.0078125),
    ],
)
def test_texts_are_cast_as_the_numbers_that_they_are(text: str, element: int, number: float):
    (found,) = run("Cast", [texts(text)], [element], to=element)
    assert found.dtype == helper.tensor_dtype_to_np_dtype(element)
    exact = found if found.dtype.kind in "biuf" else found.astype(np.float32)
    assert exact.tolist() == [number]


@pytest.mark.parametrize("text", ["", "x", "1x", "0x10", "1_000", "٣", "1,5", "True"])
@pytest.mark.parametrize("element", [FLOAT, INT64, BOOL])
def test_texts_that_are_no_numbers_are_refused(text: str, element: int):
    with pytest.raises(InputDataError, match="is not a number"):
        run("Cast", [texts(text)], [element], to=element)


@pytest.mark.parametrize(
    ("numbers", "wanted"),
    [
        (
            np.array([1e10, 0.1, -0.0, np.nan, np.inf, -np.inf], np.float32),
            ["1e+10", "0.1", "-0", "NaN", "INF", "-INF"],
        ),
        (np.array([123456.789012345]), ["123456.79"]),
        (np.array([2**63 - 1]), ["9223372036854775807"]),
        (np.array([True, False]), ["1", "0"]),
        (np.array([1.5, -2], ml_dtypes.bfloat16), ["1.5", "-2"]),
        (np.array([3, -4], ml_dtypes.int4), ["3", "-4"]),
    ],
)
@pytest.mark.parametrize("folded", [False, True])
def test_numbers_are_written_alike_in_runs_and_in_constants(
    numbers: np.ndarray, wanted: list[str], folded: bool
):
    if not folded:
        (found,) = run("Cast", [numbers], [STRING], to=STRING)
        assert found.tolist() == wanted
        return
    nodes = [
        helper.make_node("Cast", ["numbers"], ["texts"], to=STRING),
        helper.make_node("StringConcat", ["texts", "x"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "folded",
        [helper.make_tensor_value_info("x", STRING, [1])],
        [helper.make_tensor_value_info("y", STRING, None)],
        [onnx.numpy_helper.from_array(numbers, "numbers")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    assert compiler.compile(model).run({"x": texts("!")})["y"].tolist() == [f"{t}!" for t in wanted]


NGRAMS = {
    "max_skip_count": 1,
    "min_gram_length": 1,
    "max_gram_length": 2,
    "ngram_counts": [0, 2],
    "ngram_indexes": [1, 0, 3],
    "pool_int64s": [5, 6, 5, 6],
    "weights": [0.5, 2.0, 3.0],
}


@pytest.mark.parametrize(
    ("mode", "row"), [("TF", [2, 3, 0, 3]), ("IDF", [2, 0.5, 0, 3]), ("TFIDF", [4, 1.5, 0, 9])]
)
def test_ngrams_are_counted_and_weighted_by_their_places_in_the_pool(mode: str, row: list[float]):
    items = np.array([5, 6, 5, 5, 6], np.int32)
    (found,) = run("TfIdfVectorizer", [items], [FLOAT], mode=mode, **NGRAMS)
    assert (found.dtype, found.tolist()) == (np.float32, row)
    (found,) = run("TfIdfVectorizer", [np.stack([items, items])], [FLOAT], mode=mode, **NGRAMS)
    assert found.tolist() == [row, row]
    (found,) = run("TfIdfVectorizer", [items[:0]], [FLOAT], mode=mode, **NGRAMS)
    assert found.tolist() == [0] * 4


def test_a_weight_without_a_number_is_that_of_its_ngram_alone():
    weights = {"weights": [np.inf, np.nan, 3.0]}
    items = np.array([5, 5, 7], np.int32)
    (y,) = run("TfIdfVectorizer", [items], [FLOAT], mode="IDF", **NGRAMS | weights)
    assert y.tolist() == [0, np.inf, 0, 0]


@pytest.mark.parametrize("shape", [(300,), (7, 40), (3, 2), (40, 1)])
@pytest.mark.parametrize("words", [False, True])
def test_ngrams_of_any_length_are_those_of_onnxruntime(words: bool, shape: tuple[int, ...]):
    random = np.random.default_rng(len(shape))
    pool = sorted({tuple(row) for row in random.integers(-1, 2, (9, 3)).tolist()})
    singles, count = [-1, 0, 1], 3 + len(pool)
    items = [*singles, *(item for gram in pool for item in gram)]
    attributes: dict[str, Any] = {"ngram_counts": [0, 3, 3], "max_skip_count": 3}
    attributes |= {"min_gram_length": 1, "max_gram_length": 3, "mode": "TFIDF"}
    attributes["ngram_indexes"] = random.permutation(count).tolist()
    attributes["weights"] = random.random(count).tolist()
    attributes["pool_strings" if words else "pool_int64s"] = [*map(str, items)] if words else items
    x = random.integers(-2, 3, shape)
    x = texts(*map(str, x.ravel())).reshape(shape) if words else x
    node = helper.make_node("TfIdfVectorizer", ["x"], ["y"], **attributes)
    (wanted,) = reference(model_of(node, [x], [FLOAT]), {"x": x}).values()
    (found,) = run("TfIdfVectorizer", [x], [FLOAT], **attributes)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"mode": "tf"}, "its mode is 'tf'"),
        ({"ngram_indexes": [0, 1]}, "do not fit the pool's 3 n-grams"),
        ({"ngram_counts": [0, 1]}, "do not part the pool into 2-grams"),
        ({"max_gram_length": 3}, "lengths of n-grams"),
        ({"pool_strings": ["a"]}, "one of pool_strings and pool_int64s"),
    ],
)
def test_pools_that_do_not_fit_are_refused_when_a_model_is_compiled(
    changed: dict[str, Any], message: str
):
    attributes: dict[str, Any] = {"mode": "TF", **NGRAMS, **changed}
    node = helper.make_node("TfIdfVectorizer", ["x"], ["y"], **attributes)
    with pytest.raises(ModelError, match=message):
        compiler.compile(model_of(node, [np.zeros(1, np.int64)], [FLOAT]))
