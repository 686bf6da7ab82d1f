"""Operators of classical models (ai.onnx.ml) on the host, as onnxruntime computes them.

The text of ONNX leaves much of them open, and onnx's reference implementation differs from what
converters of scikit-learn and of boosted trees rely on.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from compiler.program.classical.attributes import (
    Attributes,
    check_choices,
    check_labels,
    check_required,
    only,
)
from compiler.program.classical.labels import (
    category_mapper,
    label_encoder,
    one_hot_encoder,
    taken_dtypes,
)
from compiler.program.classical.linear import check_targets, linear_classifier, linear_regressor
from compiler.program.classical.maps import cast_map, dictionary_vectorizer, zip_map
from compiler.program.classical.scaling import (
    array_feature_extractor,
    binarizer,
    feature_vectorizer,
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

__all__ = ["CLASSICAL_FACTORIES", "CLASSICAL_FUNCTIONS", "classical", "taken_dtypes"]

ClassicalFunction = Callable[..., Sequence[Any]]

CLASSICAL_FUNCTIONS: Mapping[str, ClassicalFunction] = {
    "ArrayFeatureExtractor": array_feature_extractor,
    "Binarizer": binarizer,
    "CastMap": cast_map,
    "FeatureVectorizer": feature_vectorizer,
    "Imputer": imputer,
    "LinearClassifier": linear_classifier,
    "LinearRegressor": linear_regressor,
    "Normalizer": normalizer,
    "Scaler": scaler,
}
"""Operators whose attributes are arguments."""

CLASSICAL_FACTORIES: Mapping[str, Callable[[Attributes], ClassicalFunction]] = {
    "CategoryMapper": category_mapper,
    "DictVectorizer": dictionary_vectorizer,
    "LabelEncoder": label_encoder,
    "OneHotEncoder": one_hot_encoder,
    "SVMClassifier": SupportVectorClassifier,
    "SVMRegressor": SupportVectorRegressor,
    "TreeEnsemble": TreeEnsemble,
    "TreeEnsembleClassifier": TreeClassifier,
    "TreeEnsembleRegressor": TreeRegressor,
    "ZipMap": zip_map,
}
"""Operators whose attributes are read once."""


def classical(op_type: str, attributes: Attributes) -> ClassicalFunction:
    """An operator's function, of attributes whose texts are `str` and whose tensors are arrays.

    Raises ValueError if the attributes are invalid, KeyError for another operator.
    """
    check_choices(attributes)
    if op_type in CLASSICAL_FACTORIES:
        return CLASSICAL_FACTORIES[op_type](attributes)
    function = CLASSICAL_FUNCTIONS[op_type]
    check_required(function, attributes)
    if op_type == "Imputer":
        only(attributes, "imputed_value_floats", "imputed_value_int64s")
    if op_type == "LinearClassifier":
        check_labels(labels_in(attributes))
    if op_type == "LinearRegressor":
        check_targets(attributes)
    numbers = {
        name: np.array(attributes[name], np.float32)
        for name in ("coefficients", "intercepts", "offset", "scale")
        if name in attributes
    }
    return partial(function, **{**attributes, **numbers, **labels_in(attributes)})
