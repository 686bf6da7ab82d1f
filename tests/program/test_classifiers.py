"""Operators of classical models on the host, against onnxruntime."""

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

import compiler
from compiler.errors import InputDataError

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
