"""Operators of classical models on the host, against onnxruntime."""

import math
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import compiler
from compiler.errors import InputDataError, ModelError, ShapeError
from compiler.program.model import DynamicModule
from tests.program.checks import reference

ML = "ai.onnx.ml"
X = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)


def classifier(labels: dict[str, Any], classes: int, spare: int = 0) -> Any:
    """A linear classifier of three features with a dictionary of its scores."""
    weights = np.random.default_rng(1).standard_normal(classes * 3 + spare).tolist()
    kind = "classlabels_ints" if "classlabels_int64s" in labels else "classlabels_strings"
    (names,) = labels.values()
    nodes = [
        helper.make_node(
            "LinearClassifier", ["x"], ["label", "scores"], domain=ML, coefficients=weights,
            intercepts=[0.5] * classes, post_transform="SOFTMAX", **{kind: names},
        ),
        helper.make_node("ZipMap", ["scores"], ["rows"], domain=ML, **labels),
    ]  # fmt: skip
    element = TensorProto.INT64 if "classlabels_int64s" in labels else TensorProto.STRING
    floats = helper.make_tensor_type_proto(TensorProto.FLOAT, [])
    rows = helper.make_sequence_type_proto(helper.make_map_type_proto(element, floats))
    graph = helper.make_graph(
        nodes,
        "classifier",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 3])],
        [
            helper.make_tensor_value_info("label", element, [4]),
            helper.make_value_info("rows", rows),
        ],
    )
    imports = [helper.make_opsetid(ML, 1), helper.make_opsetid("", 18)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


@pytest.mark.parametrize("spare", [0, 9])
@pytest.mark.parametrize(
    "labels", [{"classlabels_int64s": [3, 1, 2]}, {"classlabels_strings": ["a", "b", "ü"]}]
)
def test_scores_by_class_are_those_of_onnxruntime(labels: dict[str, Any], spare: int):
    model = classifier(labels, 3, spare)
    found = compiler.compile(model).run({"x": X})
    session: Any = onnxruntime.InferenceSession(model.SerializeToString())
    label, rows = session.run(None, {"x": X})
    assert found["label"].tolist() == list(label)
    for ours, theirs in zip(found["rows"], rows, strict=True):
        assert ours == pytest.approx(theirs, rel=1e-5)


def test_scores_that_do_not_fit_the_classes_are_refused():
    model = classifier({"classlabels_int64s": [3, 1, 2]}, 3)
    model.graph.node[1].attribute[0].ints.append(4)
    with pytest.raises(InputDataError, match="3 scores for 4 classes"):
        compiler.compile(model).run({"x": X})


def run_both(nodes: list[onnx.NodeProto], inputs: dict[str, Any], outputs: Any) -> None:
    """Compare nodes of the inputs with onnxruntime, in one model."""
    values = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(value.dtype), [None, *value.shape[1:]]
        )
        for name, value in inputs.items()
    ]
    infos = [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs]
    graph = helper.make_graph(nodes, "classical", values, infos)
    imports = [helper.make_opsetid(ML, 3), helper.make_opsetid("", 18)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=10)
    found = compiler.compile(model).run(inputs)
    for name, wanted in reference(model, inputs).items():
        assert (found[name].dtype, found[name].shape) == (wanted.dtype, wanted.shape), name
        if wanted.dtype.kind == "f":
            np.testing.assert_allclose(found[name], wanted, 1e-4, 1e-5, err_msg=name)
        else:
            np.testing.assert_array_equal(found[name], wanted, err_msg=name)


TRANSFORMS = ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT")
ROWS = np.random.default_rng(2).standard_normal((9, 4)).astype(np.float32)


def numbers(seed: int, count: int) -> list[float]:
    """Coefficients."""
    return np.random.default_rng(seed).standard_normal(count).astype(np.float32).tolist()


def node(op_type: str, outputs: list[str], **attributes: Any) -> onnx.NodeProto:
    """A node that reads x."""
    return helper.make_node(op_type, ["x"], outputs, domain=ML, **attributes)


def classified(name: str, op_type: str, **attributes: Any) -> tuple[onnx.NodeProto, Any]:
    """A classifier, and its outputs."""
    kind = TensorProto.STRING if "classlabels_strings" in attributes else TensorProto.INT64
    outputs = [(f"{name} label", kind), (f"{name} scores", TensorProto.FLOAT)]
    return node(op_type, [o for o, _ in outputs], **attributes), outputs


def check_classifiers(found: list[tuple[onnx.NodeProto, Any]], rows: np.ndarray = ROWS) -> None:
    """Compare classifiers of the same rows with onnxruntime."""
    run_both([n for n, _ in found], {"x": rows}, [o for _, outputs in found for o in outputs])


def test_linear_classifiers_transform_their_scores_as_onnxruntime_does():
    check_classifiers(
        [
            classified(
                f"{transform} {classes}", "LinearClassifier", coefficients=numbers(1, 4 * classes),
                intercepts=numbers(2, classes), classlabels_ints=[4, 7, 9][: max(classes, 2)],
                post_transform=transform,
            )
            for transform in TRANSFORMS
            for classes in (1, 2, 3)
            if (transform, classes) != ("PROBIT", 1)
        ]
    )  # fmt: skip


def test_regressors_transform_their_targets_as_onnxruntime_does():
    nodes = [
        node(
            "LinearRegressor", [f"{transform} {targets}"], coefficients=numbers(1, 4 * targets),
            intercepts=numbers(2, targets), targets=targets, post_transform=transform,
        )
        for transform in TRANSFORMS
        for targets in (1, 3)
    ]  # fmt: skip
    run_both(nodes, {"x": ROWS}, [(n.output[0], TensorProto.FLOAT) for n in nodes])


def support_vectors(classes: int, **attributes: Any) -> dict[str, Any]:
    """Two vectors for each class."""
    return {
        "coefficients": numbers(1, 2 * classes * (classes - 1)),
        "kernel_params": [0.4, 0.1, 2.0],
        "support_vectors": numbers(2, 2 * classes * 4),
        "vectors_per_class": [2] * classes,
        "rho": numbers(3, classes * (classes - 1) // 2),
        **attributes,
    }


@pytest.mark.parametrize("kernel", ["LINEAR", "POLY", "RBF", "SIGMOID"])
def test_support_vector_machines_classify_as_onnxruntime_does(kernel: str):
    labels = {2: {"classlabels_strings": ["no", "yes"]}, 4: {"classlabels_ints": [3, 5, 7, 9]}}
    check_classifiers(
        [
            classified(
                f"{transform} {classes} {bool(likely)}", "SVMClassifier", kernel_type=kernel,
                post_transform=transform, **labels[classes], **likely, **support_vectors(classes),
            )
            for transform in TRANSFORMS[:-1]
            for classes in (2, 4)
            for pairs in [classes * (classes - 1) // 2]
            for likely in ({}, {"prob_a": [-1.5] * pairs, "prob_b": numbers(4, pairs)})
        ]
    )  # fmt: skip


def test_hyperplanes_classify_as_onnxruntime_does():
    check_classifiers(
        [
            classified(
                f"{classes} {sign}", "SVMClassifier", rho=numbers(2, classes),
                kernel_params=[0.0, 0.0, 0.0],
                coefficients=[sign * abs(number) for number in numbers(1, 4 * classes)],
                classlabels_ints=[3, 5, 7][:classes],
            )
            for classes in (2, 3)
            for sign in (-1, 1)
        ]
    )  # fmt: skip


def forest(prefix: str, ids: list[int], least: float, depth: int = 3) -> dict[str, Any]:
    """Four full trees with weights for ids in each leaf, and conditions of all kinds."""
    random, inner, size = np.random.default_rng(5), 2**depth - 1, 2 ** (depth + 1) - 1
    trees, leaves = range(4), range(inner, size)
    modes = [f"BRANCH_{mode}" for mode in ("LEQ", "LT", "GTE", "GT", "EQ", "NEQ")]
    nodes = [(tree, place) for tree in trees for place in range(size)]
    votes = [(tree, leaf, i) for tree in trees for leaf in leaves for i in ids]
    is_inner = [place < inner for _, place in nodes]
    return {
        "nodes_treeids": [tree for tree, _ in nodes],
        "nodes_nodeids": [place for _, place in nodes],
        "nodes_featureids": random.integers(0, 4, len(nodes)).tolist(),
        "nodes_values": random.standard_normal(len(nodes)).astype(np.float32).tolist(),
        "nodes_modes": [random.choice(modes) if inside else "LEAF" for inside in is_inner],
        "nodes_truenodeids": [2 * p + 1 if p < inner else 0 for _, p in nodes],
        "nodes_falsenodeids": [2 * p + 2 if p < inner else 0 for _, p in nodes],
        "nodes_missing_value_tracks_true": random.integers(0, 2, len(nodes)).tolist(),
        f"{prefix}_treeids": [tree for tree, _, _ in votes],
        f"{prefix}_nodeids": [leaf for _, leaf, _ in votes],
        f"{prefix}_ids": [i for _, _, i in votes],
        f"{prefix}_weights": random.uniform(least, 0.4, len(votes)).astype(np.float32).tolist(),
    }


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_forests_classify_as_onnxruntime_does(dtype: Any):
    labels = {"classlabels_strings": ["a", "b", "c"]}
    two = {"classlabels_int64s": [10, 11]}
    check_classifiers(
        [
            classified(
                f"{transform} {ids} {base} {least}", "TreeEnsembleClassifier",
                post_transform=transform, **forest("class", ids, least),
                **(labels if 2 in ids else two), **({"base_values": base} if base else {}),
            )
            for transform in ("NONE", "LOGISTIC", "SOFTMAX")
            for least in (0, -0.5)
            for ids in ([0], [1], [0, 1], [2], [0, 1, 2])
            for base in ([], [0.1, 0.3, 0.2][: 3 if 2 in ids else 2], [0.1])
            if 2 not in ids or len(base) != 1
        ],
        np.where(ROWS > 1, np.nan, ROWS).astype(dtype),
    )  # fmt: skip


def test_forests_regress_as_onnxruntime_does():
    nodes = [
        node(
            "TreeEnsembleRegressor", [f"{function} {targets}"], n_targets=targets,
            base_values=numbers(3, targets), aggregate_function=function,
            **forest("target", [*range(targets)], -1),
        )
        for function in ("SUM", "AVERAGE", "MIN", "MAX")
        for targets in (1, 2)
    ]  # fmt: skip
    run_both(nodes, {"x": ROWS}, [(n.output[0], TensorProto.FLOAT) for n in nodes])


def test_a_tree_without_a_node_that_it_names_is_refused():
    attributes = forest("target", [0], 0)
    attributes["nodes_truenodeids"][0] = 99
    with pytest.raises(ModelError, match="no node 99 of tree 0"):
        run_both([node("TreeEnsembleRegressor", ["y"], **attributes)], {"x": ROWS}, [("y", 1)])


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_rows_are_scaled_to_float32_as_in_onnxruntime(dtype: Any):
    rows = np.array([[1, -3, 2], [0, 0, 0], [-1, -2, -3]], dtype)
    nodes = [node("Normalizer", [norm], norm=norm) for norm in ("MAX", "L1", "L2")]
    nodes.append(node("Scaler", ["scaled"], offset=[0.5, 1, 2], scale=[2.0, 0.5, 1]))
    run_both(nodes, {"x": rows}, [(n.output[0], TensorProto.FLOAT) for n in nodes])


def test_differences_of_large_numbers_keep_their_digits():
    rows = np.array([[1e9 + 0.25, 2e9 + 0.5]])
    scaler = node("Scaler", ["y"], offset=[1e9], scale=[2.0])
    run_both([scaler], {"x": rows}, [("y", TensorProto.FLOAT)])
    added = helper.make_node("Add", ["y", "y"], ["z"])  # compiled with what is around it
    run_both([scaler, added], {"x": rows}, [("z", TensorProto.FLOAT)])


def test_categories_are_mapped_by_place_or_number():
    nodes = [
        node("LabelEncoder", ["places"], classes_strings=["a", "b"], default_int64=-7),
        node("CategoryMapper", ["mapped"], cats_strings=["a", "b"], cats_int64s=[3, 4]),
    ]
    words = np.array([["b", "z"], ["a", "b"]], object)
    infos = [helper.make_tensor_value_info(n.output[0], TensorProto.INT64, None) for n in nodes]
    words_info = helper.make_tensor_value_info("x", TensorProto.STRING, [2, 2])
    graph = helper.make_graph(nodes, "classical", [words_info], infos)
    imports = [helper.make_opsetid(ML, 1), helper.make_opsetid("", 18)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=10)
    found = compiler.compile(model).run({"x": words})
    for name, wanted in reference(model, {"x": words}).items():
        np.testing.assert_array_equal(found[name], wanted)


@pytest.mark.parametrize(
    ("op_type", "key", "values", "attributes"),
    [
        ("DictVectorizer", TensorProto.STRING, {"c": 2.0, "a": 1.5},
         {"string_vocabulary": ["a", "b", "c"]}),
        ("CastMap", TensorProto.INT64, {3: 2.0, 0: 1.5}, {}),
        ("CastMap", TensorProto.INT64, {3: 2.0, 0: 1.5}, {"map_form": "SPARSE", "max_map": 5}),
    ],
)  # fmt: skip
def test_dictionaries_become_rows(
    op_type: str, key: int, values: dict[Any, float], attributes: dict[str, Any]
):
    floats = helper.make_tensor_type_proto(TensorProto.FLOAT, [])
    x = helper.make_value_info("x", helper.make_map_type_proto(key, floats))
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([node(op_type, ["y"], **attributes)], "classical", [x], [y])
    imports = [helper.make_opsetid(ML, 1), helper.make_opsetid("", 18)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=10)
    found, wanted = compiler.compile(model).run({"x": values})["y"], reference(model, {"x": values})
    np.testing.assert_array_equal(found, wanted["y"])
    assert (found.dtype, found.shape) == (wanted["y"].dtype, wanted["y"].shape)


@pytest.mark.parametrize("kernel", ["LINEAR", "POLY", "RBF", "SIGMOID"])
@pytest.mark.parametrize("one_class", [0, 1])
def test_support_vector_machines_regress_as_onnxruntime_does(kernel: str, one_class: int):
    regressor = node(
        "SVMRegressor", ["y"], kernel_type=kernel, kernel_params=[0.4, 0.1, 2.0], rho=[0.3],
        coefficients=numbers(1, 5), support_vectors=numbers(2, 20), n_supports=5,
        one_class=one_class,
    )  # fmt: skip
    run_both([regressor], {"x": ROWS}, [("y", TensorProto.FLOAT)])


def test_a_hyperplane_regresses_as_onnxruntime_does():
    regressor = node(
        "SVMRegressor", ["y"], coefficients=numbers(1, 4), rho=[0.3], n_supports=0,
        kernel_params=[0.0, 0.0, 0.0],
    )  # fmt: skip
    run_both([regressor], {"x": ROWS}, [("y", TensorProto.FLOAT)])


@pytest.mark.parametrize("value", [{"a": 2**70}, {"a": 1.5}, {"a": math.nan}, {"a": "1"}, {1: 1}])
def test_dictionaries_of_integers_hold_no_other_numbers(value: Any):
    integers = helper.make_tensor_type_proto(TensorProto.INT64, [])
    x = helper.make_value_info("x", helper.make_map_type_proto(TensorProto.STRING, integers))
    y = helper.make_tensor_value_info("y", TensorProto.INT64, None)
    vectorizer = node("DictVectorizer", ["y"], string_vocabulary=["a", "b"])
    graph = helper.make_graph([vectorizer], "classical", [x], [y])
    imports = [helper.make_opsetid(ML, 1), helper.make_opsetid("", 18)]
    module = compiler.compile(helper.make_model(graph, opset_imports=imports, ir_version=10))
    for fitting in ({"a": 2**62}, {"a": 3.0}, {"a": True}, {"b": np.int8(4)}):
        ((first, second),) = module.run({"x": fitting})["y"]
        assert {"a": first, "b": second}.items() >= fitting.items()
    with pytest.raises(ShapeError, match="give a dictionary"):
        module.run({"x": value})


SUPPORT: dict[str, Any] = {
    "coefficients": numbers(1, 3), "kernel_params": [0.0] * 3, "rho": [0.3],
    "support_vectors": numbers(2, 12),
}  # fmt: skip

MISFITS: list[tuple[str, dict[str, Any], str]] = [
    ("SVMRegressor", {**SUPPORT, "n_supports": 3, "rho": []}, "0 rho, not 1"),
    ("SVMRegressor", {**SUPPORT, "n_supports": 4}, "3 coefficients, not 4"),
    ("SVMRegressor", {**SUPPORT, "n_supports": 3, "kernel_params": [1.0]}, "SVMRegressor 'y'"),
    ("LinearRegressor", {"coefficients": numbers(1, 4), "intercepts": [1.0, 2.0]}, "2 intercepts"),
    (
        "LinearRegressor",
        {"coefficients": numbers(1, 8), "intercepts": [1.0], "targets": 2},
        "1 intercepts, not 2",
    ),
    ("LinearRegressor", {"coefficients": numbers(1, 4), "targets": 0}, "targets are 0"),
]


@pytest.mark.parametrize(("op_type", "attributes", "message"), MISFITS)
def test_numbers_that_do_not_fit_are_refused_when_the_model_is_compiled(
    op_type: str, attributes: dict[str, Any], message: str
):
    refused(op_type, attributes, [("y", TensorProto.FLOAT)], message)


@pytest.mark.parametrize(
    ("attribute", "value", "message"),
    [
        ("rho", [0.1, 0.2], "2 rho, not 3"),
        ("coefficients", [0.5] * 11, "11 coefficients, not 12"),
        ("prob_a", [0.5] * 3, "0 prob_b, not 3"),
        ("classlabels_ints", [4, 5], "2 labels for 3 vectors_per_class"),
    ],
)
def test_classes_of_support_vectors_have_numbers_for_each_pair(
    attribute: str, value: list[Any], message: str
):
    attributes = {"classlabels_ints": [4, 5, 6], **support_vectors(3), attribute: value}
    refused("SVMClassifier", attributes, [("y", TensorProto.INT64), ("z", 1)], message)


def refused(op_type: str, attributes: dict[str, Any], outputs: Any, message: str) -> None:
    """Expect an error when a model of one node is compiled."""
    made = node(op_type, [name for name, _ in outputs])
    for name, value in attributes.items():
        kind = onnx.AttributeProto.FLOATS if value == [] else None
        made.attribute.append(helper.make_attribute(name, value, attr_type=kind))
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])
    values = [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs]
    graph = helper.make_graph([made], "classical", [x], values)
    imports = [helper.make_opsetid(ML, 1), helper.make_opsetid("", 18)]
    with pytest.raises(ModelError, match=message):
        compiler.compile(helper.make_model(graph, opset_imports=imports, ir_version=10))


@pytest.mark.parametrize("columns", [[[2, 0, 2]], [1]])
def test_columns_are_those_of_onnxruntime(columns: list[Any]):
    chosen = helper.make_node("ArrayFeatureExtractor", ["x", "c"], ["y"], domain=ML)
    inputs = {"x": ROWS, "c": np.array(columns, np.int64)}
    run_both([chosen], inputs, [("y", TensorProto.FLOAT)])


def imputing(*others: onnx.NodeProto) -> onnx.ModelProto:
    """A model of any number of rows that imputes and scales, and other nodes that read `z`."""
    nodes = [
        node("Imputer", ["filled"], imputed_value_floats=[0.5], replaced_value_float=math.nan),
        helper.make_node("Scaler", ["filled"], ["z"], domain=ML, offset=[0.5], scale=[2.0]),
        *others,
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", 4])
    last = helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "classical", [x], [last])
    imports = [helper.make_opsetid(ML, 1), helper.make_opsetid("", 18)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


@pytest.mark.parametrize(
    ("others", "compiled"), [([], 0), ([helper.make_node("Exp", ["z"], ["y"])], 1)]
)
def test_classical_operators_join_what_is_compiled_around_them(
    others: list[onnx.NodeProto], compiled: int
):
    model = imputing(*others)
    module = compiler.compile(model)
    assert isinstance(module, DynamicModule)
    rows = np.where(np.tile(ROWS, (8, 1)) > 1, np.nan, np.tile(ROWS, (8, 1)))
    (found,), (wanted,) = module.run({"x": rows}).values(), reference(model, {"x": rows}).values()
    np.testing.assert_allclose(found, wanted, 1e-5, 1e-6)
    assert (len(module.build_seconds), len(module.on_host)) == (compiled, 0 if compiled else 2)


def test_inputs_of_other_types_are_checked_after_runs_of_right_ones():
    module = compiler.compile(imputing())
    for rows in (ROWS, ROWS):
        module.run({"x": rows})
    for wrong in ({"x": ROWS[:, :3]}, {"x": ROWS.astype(float)}, {"x": ROWS, "other": 3}, {}):
        with pytest.raises(ShapeError):
            module.run(wrong)
    module.run({"x": ROWS[:2]})


@pytest.mark.parametrize("last", [10_000.0, np.inf])
def test_distances_of_large_numbers_keep_their_digits(last: float):
    rows = ROWS + np.float32(10_000)
    rows[-1, -1] = last
    vectors = (np.array(numbers(2, 20)) + 10_000).astype(np.float32).tolist()
    regressor = node(
        "SVMRegressor", ["y"], kernel_type="RBF", kernel_params=[0.4, 0.0, 0.0], rho=[0.3],
        coefficients=numbers(1, 5), support_vectors=vectors, n_supports=5,
    )  # fmt: skip
    run_both([regressor], {"x": rows}, [("y", TensorProto.FLOAT)])


def test_a_vector_far_from_all_others_costs_them_no_digits():
    vectors = numbers(2, 20)
    vectors[6] = 1e9
    regressor = node(
        "SVMRegressor", ["y"], kernel_type="RBF", kernel_params=[0.4, 0.0, 0.0], rho=[0.3],
        coefficients=numbers(1, 5), support_vectors=vectors, n_supports=5,
    )  # fmt: skip
    run_both([regressor], {"x": ROWS}, [("y", TensorProto.FLOAT)])
