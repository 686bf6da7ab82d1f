"""A node of the host that does not take an element type is refused when the model is compiled."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import compiler
from compiler.errors import FlowloomError, UnsupportedOperatorError

ML, TEXT, FLOAT = "ai.onnx.ml", TensorProto.STRING, TensorProto.FLOAT
TF_IDF: dict[str, Any] = {
    "mode": "TF",
    "min_gram_length": 1,
    "max_gram_length": 1,
    "max_skip_count": 0,
    "ngram_counts": [0],
    "ngram_indexes": [0, 1],
}
KEYS: dict[str, Any] = {"values_int64s": [1, 2], "domain": ML}
TENSOR = helper.make_tensor("keys", TensorProto.INT32, [2], [3, 4])


def model_of(
    op_type: str, elements: list[int], opset: int, attributes: dict[str, Any], size: Any
) -> onnx.ModelProto:
    """A node in a model of open or fixed sizes."""
    names = [f"x{i}" for i in range(len(elements))]
    node = helper.make_node(op_type, names, ["y"], name="node", **attributes)
    inputs = [
        helper.make_tensor_value_info(n, e, [size]) for n, e in zip(names, elements, strict=True)
    ]
    outputs = [helper.make_tensor_value_info("y", TensorProto.INT64, None)]
    graph = helper.make_graph([node], "main", inputs, outputs)
    domain = attributes.get("domain", "")
    imports = [helper.make_opsetid(d, v) for d, v in {"": 21, domain: opset}.items()]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


REFUSED: list[tuple[str, list[int], int, dict[str, Any], str]] = [
    ("LabelEncoder", [FLOAT], 4, {**KEYS, "keys_strings": ["a", "b"]}, "tensor(string)"),
    ("LabelEncoder", [TEXT], 4, {**KEYS, "keys_int64s": [1, 2]}, "tensor(int64)"),
    ("LabelEncoder", [TensorProto.INT64], 4, {**KEYS, "keys_tensor": TENSOR}, "tensor(int32)"),
    ("LabelEncoder", [FLOAT], 1, {"classes_strings": ["a"], "domain": ML}, "tensor(string)"),
    ("OneHotEncoder", [TEXT], 1, {"cats_int64s": [1, 2], "domain": ML}, "tensor(int64)"),
    ("OneHotEncoder", [FLOAT], 1, {"cats_strings": ["a"], "domain": ML}, "tensor(string)"),
    ("Imputer", [FLOAT], 1, {"imputed_value_int64s": [1], "domain": ML}, "tensor(int64)"),
    ("Binarizer", [TEXT], 1, {"domain": ML}, "tensor(float)"),
    ("Normalizer", [TensorProto.BOOL], 1, {"domain": ML}, "tensor(float)"),
    ("ArrayFeatureExtractor", [FLOAT, FLOAT], 1, {"domain": ML}, "tensor(int64)"),
    ("TfIdfVectorizer", [TEXT], 9, {**TF_IDF, "pool_int64s": [1, 2]}, "tensor(int32)"),
    ("TfIdfVectorizer", [FLOAT], 9, {**TF_IDF, "pool_strings": ["a", "b"]}, "tensor(int32)"),
    ("StringConcat", [TEXT, FLOAT], 20, {}, "tensor(string)"),
    ("StringNormalizer", [FLOAT], 10, {}, "tensor(string)"),
    ("Equal", [TEXT, FLOAT], 19, {}, "cast one to the type of the other"),
    ("Unique", [TensorProto.FLOAT8E5M2], 11, {}, "tensor(float)"),
    ("Concat", [TensorProto.UINT4], 13, {"axis": 0}, "tensor(float)"),
    ("Equal", [TensorProto.FLOAT8E4M3FNUZ] * 2, 19, {}, "tensor(float)"),
    ("NonZero", [TensorProto.INT4], 13, {}, "tensor(float)"),
]


@pytest.mark.parametrize(("op_type", "elements", "opset", "attributes", "remedy"), REFUSED)
def test_a_type_is_refused_when_the_model_is_compiled(
    op_type: str, elements: list[int], opset: int, attributes: dict[str, Any], remedy: str
):
    with pytest.raises(FlowloomError):
        compiler.compile(model_of(op_type, elements, opset, attributes, 2))
    with pytest.raises(UnsupportedOperatorError) as caught:
        compiler.compile(model_of(op_type, elements, opset, attributes, "n"))
    message = str(caught.value)
    assert f"{op_type} 'node' ({attributes.get('domain', 'ai.onnx')} opset {opset})" in message
    assert remedy in message


def test_types_that_are_inferred_and_those_in_bodies_are_seen():
    """The keys of an encoder of texts behind a cast in the branch of an If."""
    cast = helper.make_node("Cast", ["x"], ["number"], to=TensorProto.INT64)
    encode = helper.make_node(
        "LabelEncoder", ["number"], ["code"], domain=ML, keys_strings=["a"], values_int64s=[1]
    )
    code = helper.make_tensor_value_info("code", TensorProto.INT64, None)
    then = helper.make_graph([cast, encode], "then", [], [code])
    other = helper.make_graph(
        [helper.make_node("Cast", ["x"], ["code"], to=TensorProto.INT64)], "other", [], [code]
    )
    node = helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other)
    inputs = [
        helper.make_tensor_value_info("c", TensorProto.BOOL, []),
        helper.make_tensor_value_info("x", FLOAT, ["n"]),
    ]
    output = helper.make_tensor_value_info("y", TensorProto.INT64, ["n"])
    graph = helper.make_graph([node], "main", inputs, [output])
    imports = [helper.make_opsetid("", 21), helper.make_opsetid(ML, 4)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=10)
    with pytest.raises(UnsupportedOperatorError, match=r"its input 0 is tensor\(int64\)"):
        compiler.compile(model)


def test_types_that_fit_are_taken():
    attributes = {**KEYS, "keys_strings": ["a", "b"]}
    module = compiler.compile(model_of("LabelEncoder", [TEXT], 4, attributes, "n"))
    found = module.run({"x0": np.array(["b", "?", "a"], object)})["y"]
    np.testing.assert_array_equal(found, [2, -1, 1])


def test_types_of_a_later_opset_are_taken():
    """Unique has bfloat16 from a later opset on, whose inference of types is asked then."""
    model = model_of("Unique", [TensorProto.BFLOAT16], 11, {}, "n")
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.BFLOAT16
    dtype = helper.tensor_dtype_to_np_dtype(TensorProto.BFLOAT16)
    found = compiler.compile(model).run({"x0": np.array([2, 1, 2], dtype)})["y"]
    np.testing.assert_array_equal(found.astype("f4"), [1, 2])
