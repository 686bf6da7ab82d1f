"""Operators of classical models (ai.onnx.ml) on the host, as onnxruntime computes them.

The text of ONNX leaves much of them open, and onnx's reference implementation differs from what
converters of scikit-learn and of boosted trees rely on.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from compiler.program.classical.linear import linear_classifier, linear_regressor
from compiler.program.classical.maps import (
    cast_map,
    category_mapper,
    dictionary_vectorizer,
    label_encoder,
    zip_map,
)
from compiler.program.classical.scaling import (
    array_feature_extractor,
    imputer,
    normalizer,
    scaler,
)
from compiler.program.classical.scores import labels_in
from compiler.program.classical.support_vectors import (
    SupportVectorClassifier,
    SupportVectorRegressor,
)
from compiler.program.classical.trees import TreeClassifier, TreeEnsemble, TreeRegressor

_OPERATORS: Mapping[str, Callable[..., Sequence[Any]]] = {
    "ArrayFeatureExtractor": array_feature_extractor,
    "CastMap": cast_map,
    "CategoryMapper": category_mapper,
    "DictVectorizer": dictionary_vectorizer,
    "Imputer": imputer,
    "LinearClassifier": linear_classifier,
    "LinearRegressor": linear_regressor,
    "Normalizer": normalizer,
    "Scaler": scaler,
    "ZipMap": zip_map,
}

_PREPARED: Mapping[str, Callable[[Mapping[str, Any]], Callable[..., Sequence[Any]]]] = {
    "SVMClassifier": SupportVectorClassifier,
    "SVMRegressor": SupportVectorRegressor,
    "TreeEnsemble": TreeEnsemble,
    "TreeEnsembleClassifier": TreeClassifier,
    "TreeEnsembleRegressor": TreeRegressor,
}
"""Operators whose attributes are read once."""


def classical(op_type: str, attributes: Mapping[str, Any]) -> Callable[..., Sequence[Any]] | None:
    """An operator's function, or None where the reference implementation serves.

    Raises ValueError if the attributes are those of no ensemble of trees.
    """
    if op_type in _PREPARED and "membership_values" not in attributes:
        return _PREPARED[op_type](attributes)
    if op_type == "LabelEncoder" and "classes_strings" in attributes:
        return partial(label_encoder, **attributes)
    function = _OPERATORS.get(op_type)
    return None if function is None else partial(function, **_as_arrays(attributes))


def _as_arrays(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes, long lists of numbers and labels as arrays: no run converts them again."""
    numbers = {
        name: np.array(attributes[name], np.float32)
        for name in ("coefficients", "intercepts", "offset", "scale")
        if name in attributes
    }
    return {**attributes, **numbers, **labels_in(attributes)}
