"""Labels, features and dictionaries of classical models, and attributes that are refused."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import compiler
from compiler.errors import InputDataError, ModelError, ShapeError

ML = "ai.onnx.ml"
NAN = float("nan")


def map_type(keys: int, values: int) -> onnx.TypeProto:
    """The type of a dictionary."""
    return helper.make_map_type_proto(keys, helper.make_tensor_type_proto(values, []))


def model_of(
    op_type: str, inputs: Sequence[Any], outputs: Sequence[int], version: int, **attributes: Any
) -> onnx.ModelProto:
    """A model of one node; an input is an example of a tensor, or the type of a map."""
    names = [f"x{i}" for i in range(len(inputs))]
    node = helper.make_node(
        op_type, names, [f"y{i}" for i in range(len(outputs))], "n", domain=ML, **attributes
    )
    infos = [
        helper.make_value_info(name, x)
        if isinstance(x, onnx.TypeProto)
        else helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(x.dtype), [None] * x.ndim
        )
        for name, x in zip(names, inputs, strict=True)
    ]
    results = [
        helper.make_tensor_value_info(name, element, None)
        for name, element in zip(node.output, outputs, strict=True)
    ]
    imports = [helper.make_opsetid("", 18), helper.make_opsetid(ML, version)]
    graph = helper.make_graph([node], "classical", infos, results)
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def run(
    op_type: str, inputs: list[np.ndarray], outputs: list[int], version: int = 1, **attributes: Any
) -> list[Any]:
    """The outputs of one node."""
    module = compiler.compile(model_of(op_type, inputs, outputs, version, **attributes))
    return [*module.run({f"x{i}": x for i, x in enumerate(inputs)}).values()]


def tensor(*items: Any, dtype: Any = np.float64) -> Any:
    """An attribute."""
    return numpy_helper.from_array(np.array(items, dtype))


FLOAT, DOUBLE, INT64, STRING = (
    TensorProto.FLOAT,
    TensorProto.DOUBLE,
    TensorProto.INT64,
    TensorProto.STRING,
)


@pytest.mark.parametrize(
    ("version", "x", "element", "attributes", "wanted"),
    [
        (
            4,
            np.array([NAN, -0.0, 9.0]),
            DOUBLE,
            {
                "keys_tensor": tensor(0.0, NAN),
                "values_tensor": tensor(1.0, 2.0),
                "default_tensor": tensor(7.0),
            },
            [2.0, 1.0, 7.0],
        ),
        (
            2,
            np.array([NAN, 1], np.float32),
            INT64,
            {"keys_floats": [NAN, 1.0], "values_int64s": [3, 4]},
            [3, 4],
        ),
        (
            4,
            np.array([1, 2]),
            STRING,
            {"keys_int64s": [1], "values_strings": ["é"]},
            ["é", "_Unused"],
        ),
        (
            4,
            np.array(["a", "b"], object),
            TensorProto.INT16,
            {"keys_tensor": tensor("a", dtype=object), "values_tensor": tensor(5, dtype=np.int16)},
            [5, -1],
        ),
        (
            4,
            np.array(["a", "b"], object),
            FLOAT,
            {"keys_strings": ["a", "a"], "values_floats": [1.0, 2.0], "default_float": 9.0},
            [2.0, 9.0],
        ),
        (
            4,
            np.array([1, 2], np.int32),
            DOUBLE,
            {"keys_tensor": tensor(1, dtype=np.int32), "values_tensor": tensor(0.5)},
            [0.5, -0.0],
        ),
        (
            1,
            np.array([0, 5]),
            STRING,
            {"classes_strings": ["a"], "default_string": "?"},
            ["a", "?"],
        ),
    ],
)
def test_labels_are_encoded_by_key(
    version: int, x: np.ndarray, element: int, attributes: dict[str, Any], wanted: list[Any]
):
    (found,) = run("LabelEncoder", [x], [element], version, **attributes)
    assert found.dtype == helper.tensor_dtype_to_np_dtype(element)
    assert found.tolist() == wanted


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float32, np.float64])
def test_features_side_by_side_are_float32(dtype: Any):
    inputs = [np.array([[1, 2, 3], [4, 5, 6]], dtype), np.array([[7], [8]], dtype)]
    (found,) = run("FeatureVectorizer", inputs, [FLOAT], inputdimensions=[2, 2])
    assert (found.dtype, found.tolist()) == (np.float32, [[1, 2, 7, 0], [4, 5, 8, 0]])
    (found,) = run("FeatureVectorizer", [x[0] for x in inputs], [FLOAT])
    assert found.tolist() == [[1, 2, 3, 7]]


def test_features_that_do_not_fit_are_refused():
    with pytest.raises(InputDataError, match="different numbers of rows"):
        run("FeatureVectorizer", [np.ones((2, 1)), np.ones((3, 1))], [FLOAT])
    with pytest.raises(InputDataError, match="2 inputs and 1 inputdimensions"):
        run("FeatureVectorizer", [np.ones((2, 1))] * 2, [FLOAT], inputdimensions=[1])


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float32, np.float64])
def test_categories_are_vectors_of_one_1(dtype: Any):
    x = np.array([[1, 9], [-1, 2]]).astype(dtype)
    (found,) = run("OneHotEncoder", [x], [FLOAT], cats_int64s=[-1, 1, 2])
    assert (found.dtype, found.shape) == (np.float32, (2, 2, 3))
    assert found.tolist() == [[[0, 1, 0], [0, 0, 0]], [[1, 0, 0], [0, 0, 1]]]


def test_numbers_are_truncated_to_categories_and_others_may_be_refused():
    x = np.array([1.9, NAN, np.inf, -1.5], np.float32)
    (found,) = run("OneHotEncoder", [x], [FLOAT], cats_int64s=[1, -1])
    assert found.tolist() == [[1, 0], [0, 0], [0, 0], [0, 1]]
    words = np.array(["a", "z"], object)
    with pytest.raises(InputDataError, match="'z' is not a category, and zeros is 0"):
        run("OneHotEncoder", [words], [FLOAT], cats_strings=["a"], zeros=0)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float32, np.float64])
def test_what_is_greater_than_a_threshold_is_1_in_its_own_type(dtype: Any):
    x = np.array([[-1, 0], [1, 2]], dtype)
    (found,) = run("Binarizer", [x], [helper.np_dtype_to_tensor_dtype(x.dtype)], threshold=0.5)
    assert (found.dtype, found.tolist()) == (dtype, [[0, 0], [1, 1]])


@pytest.mark.parametrize("missing", [0, 1])
def test_trees_ask_for_membership_in_sets(missing: int):
    (found,) = run(
        "TreeEnsemble",
        [np.array([[1], [2], [3], [1.5], [NAN]], np.float32)],
        [FLOAT],
        5,
        n_targets=1,
        tree_roots=[0],
        nodes_featureids=[0, 0],
        nodes_splits=tensor(0, 2.5, dtype=np.float32),
        nodes_modes=tensor(6, 0, dtype=np.uint8),
        nodes_missing_value_tracks_true=[missing, 0],
        nodes_truenodeids=[0, 1],
        nodes_trueleafs=[1, 1],
        nodes_falsenodeids=[1, 2],
        nodes_falseleafs=[0, 1],
        leaf_targetids=[0, 0, 0],
        leaf_weights=tensor(10, 20, 30, dtype=np.float32),
        membership_values=tensor(1, 3, NAN, dtype=np.float32),
    )
    assert found.ravel().tolist() == [10, 20, 10, 20, 10 if missing else 30]


@pytest.mark.parametrize(
    ("keys", "values", "given", "row"),
    [
        (STRING, DOUBLE, {"a": 1.1}, [1.1, 0]),
        (STRING, INT64, {"b": 2**60 + 1}, [0, 2**60 + 1]),
        (STRING, FLOAT, {"a": 1.5, "z": 2.0}, [1.5, 0]),
        (STRING, DOUBLE, {}, [0, 0]),
        (INT64, STRING, {1: "é"}, ["é", ""]),
        (INT64, FLOAT, {2: 0.25}, [0, 0.25]),
    ],
)
def test_dictionaries_become_rows_of_their_values_type(
    keys: int, values: int, given: dict[Any, Any], row: list[Any]
):
    words = keys == STRING
    vocabulary = {"string_vocabulary": ["a", "b"]} if words else {"int64_vocabulary": [1, 2]}
    model = model_of("DictVectorizer", [map_type(keys, values)], [values], 1, **vocabulary)
    found = compiler.compile(model).run({"x0": given})["y0"]
    assert found.dtype == helper.tensor_dtype_to_np_dtype(values)
    assert found.tolist() == [row]


def test_dictionaries_are_inputs_of_sessions_and_of_loaded_programs(tmp_path: Path):
    model = model_of(
        "DictVectorizer", [map_type(STRING, FLOAT)], [FLOAT], 1, string_vocabulary=["a", "b"]
    )
    module = compiler.compile(model)
    module.run({"x0": {"b": 1.0}})
    module.save(tmp_path / "program")
    for source in (model.SerializeToString(), str(tmp_path / "program")):
        session = compiler.InferenceSession(source)
        assert [i.type for i in session.get_inputs()] == ["map(string,tensor(float))"]
        (row,) = session.run(None, {"x0": {"b": 2.0}})
        assert row.tolist() == [[0, 2]]


@pytest.mark.parametrize(("given"), [{"a": 1.0}, {1: "x"}, [1.0], None])
def test_inputs_that_are_no_such_dictionaries_are_refused(given: Any):
    module = compiler.compile(
        model_of("DictVectorizer", [map_type(INT64, FLOAT)], [FLOAT], 1, int64_vocabulary=[1])
    )
    with pytest.raises(ShapeError, match="give a dictionary of its keys and values"):
        module.run({"x0": given})


X = np.ones((2, 2), np.float32)
TREE = {
    "nodes_treeids": [0],
    "nodes_nodeids": [0],
    "nodes_featureids": [0],
    "nodes_values": [0.0],
    "nodes_truenodeids": [0],
    "nodes_falsenodeids": [0],
    "target_treeids": [0],
    "target_nodeids": [0],
    "target_ids": [0],
    "target_weights": [1.0],
    "n_targets": 1,
}


@pytest.mark.parametrize(
    ("op_type", "x", "version", "attributes", "message"),
    [
        ("LabelEncoder", np.array([1]), 2, {"keys_int64s": [1]}, "none of the attributes values_"),
        (
            "LabelEncoder",
            np.array([1]),
            2,
            {"keys_int64s": [1], "values_floats": [1.0, 2.0]},
            "1 keys for 2 values",
        ),
        (
            "LabelEncoder",
            np.array([1]),
            4,
            {"keys_int64s": [1], "values_floats": [1.0], "default_tensor": tensor(1.0)},
            "default_tensor is",
        ),
        (
            "OneHotEncoder",
            np.array([1]),
            1,
            {"cats_int64s": [1], "cats_strings": ["a"]},
            "exactly one",
        ),
        (
            "CategoryMapper",
            np.array([1]),
            1,
            {"cats_int64s": [1], "cats_strings": ["a", "b"]},
            "2 cats_strings for 1 cats_int64s",
        ),
        ("Normalizer", X, 1, {"norm": "L3"}, "norm is 'L3', not one of MAX, L1, L2"),
        (
            "LinearRegressor",
            X,
            1,
            {"post_transform": "TANH", "coefficients": [1.0]},
            "post_transform is 'TANH'",
        ),
        ("LinearRegressor", X, 1, {}, "no attribute 'coefficients'"),
        ("LinearClassifier", X, 1, {"coefficients": [1.0, 2.0]}, "no labels of its classes"),
        ("SVMRegressor", X, 1, {"coefficients": [1.0]}, "it has 0 rho, not 1"),
        ("Imputer", X, 1, {}, "none of the attributes imputed_value_floats"),
        ("ZipMap", X, 1, {}, "none of the attributes classlabels_int64s"),
        (
            "TreeEnsembleRegressor",
            X,
            1,
            {**TREE, "nodes_modes": ["BRANCH_MEMBER"]},
            "no mode of nodes",
        ),
        (
            "TreeEnsembleRegressor",
            X,
            1,
            {**TREE, "nodes_modes": ["LEAF"], "nodes_featureids": [0, 0]},
            "different lengths",
        ),
        (
            "TreeEnsembleRegressor",
            X,
            1,
            {**TREE, "nodes_modes": ["LEAF"], "target_weights": []},
            "different lengths",
        ),
        (
            "TreeEnsembleRegressor",
            X,
            1,
            {**TREE, "nodes_modes": ["LEAF"], "aggregate_function": "MEAN"},
            "aggregate_function is 'MEAN'",
        ),
    ],
)
def test_attributes_that_mean_nothing_are_refused_when_a_model_is_compiled(
    op_type: str, x: np.ndarray, version: int, attributes: dict[str, Any], message: str
):
    attributes = {name: value for name, value in attributes.items() if value != []}
    outputs = [INT64, FLOAT] if op_type.endswith("Classifier") else [FLOAT]
    with pytest.raises(ModelError, match=f"{op_type} 'n': .*{message}"):
        compiler.compile(model_of(op_type, [x], outputs, version, **attributes))
