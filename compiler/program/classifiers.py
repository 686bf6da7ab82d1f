"""Operators of classical models that run on the host as onnxruntime runs them."""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from onnx import helper
from onnx.reference import ReferenceEvaluator

ML = "ai.onnx.ml"
"""The domain of classical models."""


def zip_map(
    scores: np.ndarray,
    classlabels_int64s: Sequence[int] = (),
    classlabels_strings: Sequence[bytes] = (),
) -> tuple[list[dict[Any, float]]]:
    """A dictionary of the scores by class for each row; ValueError if there are too many scores."""
    labels = [*classlabels_int64s, *(label.decode() for label in classlabels_strings)]
    rows = np.atleast_2d(scores)
    if rows.shape[-1] != len(labels):
        raise ValueError(f"{rows.shape[-1]} scores for {len(labels)} classes")
    return ([dict(zip(labels, row, strict=True)) for row in rows.tolist()],)


def linear_classifier(x: np.ndarray, **attributes: Any) -> tuple[np.ndarray, ...]:
    """Labels and scores; coefficients beyond those of the intercepts' classes are not read.

    The reference implementation refuses these, which old converters have written.
    """
    rows = np.atleast_2d(x)
    intercepts, coefficients = attributes.get("intercepts", ()), attributes["coefficients"]
    used = len(intercepts) * rows.shape[-1] or len(coefficients)
    attributes["coefficients"] = coefficients[:used]
    node = helper.make_node("LinearClassifier", ["x"], ["label", "scores"], domain=ML, **attributes)
    infos = [helper.make_empty_tensor_value_info(name) for name in ("x", "label", "scores")]
    graph = helper.make_graph([node], "host", infos[:1], infos[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid(ML, 1)])
    evaluator: Any = ReferenceEvaluator(model)
    return tuple(cast(Sequence[np.ndarray], evaluator.run(None, {"x": rows})))
