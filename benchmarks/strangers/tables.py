"""Estimators of scikit-learn, LightGBM and XGBoost, fitted to random tables."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.strangers.case import Feed, floats

COLUMNS = 12

_SKLEARN: dict[str, tuple[str, str, dict[str, Any]]] = {
    "ada_boost": ("ensemble", "AdaBoostClassifier", {"n_estimators": 5}),
    "ada_boost_regressor": ("ensemble", "AdaBoostRegressor", {"n_estimators": 5}),
    "bagging": ("ensemble", "BaggingClassifier", {"n_estimators": 4}),
    "bayesian_gaussian_mixture": ("mixture", "BayesianGaussianMixture", {"n_components": 3}),
    "bayesian_ridge": ("linear_model", "BayesianRidge", {}),
    "bernoulli_naive_bayes": ("naive_bayes", "BernoulliNB", {}),
    "calibrated": ("calibration", "CalibratedClassifierCV", {}),
    "decision_tree": ("tree", "DecisionTreeClassifier", {}),
    "decision_tree_regressor": ("tree", "DecisionTreeRegressor", {}),
    "elastic_net": ("linear_model", "ElasticNet", {}),
    "extra_trees": ("ensemble", "ExtraTreesClassifier", {"n_estimators": 10}),
    "gamma_regressor": ("linear_model", "GammaRegressor", {}),
    "gaussian_mixture": ("mixture", "GaussianMixture", {"n_components": 3}),
    "gaussian_naive_bayes": ("naive_bayes", "GaussianNB", {}),
    "gaussian_process": ("gaussian_process", "GaussianProcessRegressor", {}),
    "gaussian_process_classifier": ("gaussian_process", "GaussianProcessClassifier", {}),
    "gradient_boosting": ("ensemble", "GradientBoostingClassifier", {"n_estimators": 10}),
    "gradient_boosting_regressor": ("ensemble", "GradientBoostingRegressor", {"n_estimators": 10}),
    "hist_gradient_boosting": ("ensemble", "HistGradientBoostingClassifier", {"max_iter": 10}),
    "isolation_forest": ("ensemble", "IsolationForest", {"n_estimators": 10}),
    "k_bins": ("preprocessing", "KBinsDiscretizer", {"n_bins": 4}),
    "k_neighbours": ("neighbors", "KNeighborsClassifier", {}),
    "k_neighbours_regressor": ("neighbors", "KNeighborsRegressor", {}),
    "kernel_pca": ("decomposition", "KernelPCA", {"n_components": 3, "kernel": "rbf"}),
    "knn_imputer": ("impute", "KNNImputer", {}),
    "lda": ("discriminant_analysis", "LinearDiscriminantAnalysis", {}),
    "linear_svc": ("svm", "LinearSVC", {}),
    "local_outlier_factor": ("neighbors", "LocalOutlierFactor", {"novelty": True}),
    "logistic_regression": ("linear_model", "LogisticRegression", {}),
    "max_abs_scaler": ("preprocessing", "MaxAbsScaler", {}),
    "min_max_scaler": ("preprocessing", "MinMaxScaler", {"clip": True}),
    "mlp": ("neural_network", "MLPClassifier", {"max_iter": 20}),
    "mlp_regressor": ("neural_network", "MLPRegressor", {"max_iter": 20}),
    "multi_task_lasso": ("linear_model", "MultiTaskLasso", {}),
    "nearest_centroid": ("neighbors", "NearestNeighbors", {}),
    "normalizer": ("preprocessing", "Normalizer", {}),
    "nu_svr": ("svm", "NuSVR", {}),
    "one_class_svm": ("svm", "OneClassSVM", {}),
    "pca": ("decomposition", "PCA", {"n_components": 4}),
    "pls": ("cross_decomposition", "PLSRegression", {}),
    "poisson": ("linear_model", "PoissonRegressor", {}),
    "polynomial_features": ("preprocessing", "PolynomialFeatures", {}),
    "power_transformer": ("preprocessing", "PowerTransformer", {}),
    "qda": ("discriminant_analysis", "QuadraticDiscriminantAnalysis", {}),
    "quantile_regressor": ("linear_model", "QuantileRegressor", {}),
    "random_forest": ("ensemble", "RandomForestClassifier", {"n_estimators": 10}),
    "random_forest_regressor": ("ensemble", "RandomForestRegressor", {"n_estimators": 10}),
    "ransac": ("linear_model", "RANSACRegressor", {}),
    "ridge": ("linear_model", "RidgeClassifier", {}),
    "robust_scaler": ("preprocessing", "RobustScaler", {}),
    "select_k_best": ("feature_selection", "SelectKBest", {"k": 4}),
    "sgd": ("linear_model", "SGDClassifier", {"loss": "log_loss"}),
    "simple_imputer": ("impute", "SimpleImputer", {}),
    "svc": ("svm", "SVC", {"probability": True}),
    "svr": ("svm", "SVR", {}),
    "truncated_svd": ("decomposition", "TruncatedSVD", {"n_components": 3}),
}


def _table() -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    x = generator.standard_normal((200, COLUMNS)).astype(np.float32)
    return x, (x[:, :3].sum(1) > 0).astype(np.int64) + (x[:, 3] > 1)


def _estimator(name: str) -> Any:
    """A fitted estimator of scikit-learn."""
    from importlib import import_module

    module, kind, options = _SKLEARN[name]
    x, classes = _table()
    made = getattr(import_module(f"sklearn.{module}"), kind)(**options)
    numbers = np.abs(x[:, :4] @ np.arange(1.0, 5)) + 0.1
    regression = kind.endswith(("Regressor", "SVR", "Net", "Ridge", "PLSRegression"))
    if kind == "MultiTaskLasso":
        return made.fit(x, x[:, :2])
    return made.fit(x, numbers if regression else classes)


def _sklearn(name: str) -> Any:
    from skl2onnx import to_onnx

    return to_onnx(_estimator(name), _table()[0][:1])


def _pipeline(_: str) -> Any:
    from skl2onnx import to_onnx
    from sklearn.compose import ColumnTransformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import KBinsDiscretizer, PolynomialFeatures, StandardScaler

    columns = ColumnTransformer(
        [
            ("scaled", StandardScaler(), [0, 1, 2]),
            ("bins", KBinsDiscretizer(3), [3, 4]),
            ("squares", PolynomialFeatures(2), [5, 6]),
        ]
    )
    x, classes = _table()
    return to_onnx(make_pipeline(columns, LogisticRegression()).fit(x, classes), x[:1])


def _stacking(_: str) -> Any:
    from skl2onnx import to_onnx
    from sklearn.ensemble import RandomForestClassifier, StackingClassifier, VotingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import GaussianNB

    x, classes = _table()
    votes = VotingClassifier([("a", GaussianNB()), ("b", LogisticRegression())], voting="soft")
    forest = RandomForestClassifier(5)
    return to_onnx(StackingClassifier([("v", votes), ("f", forest)]).fit(x, classes), x[:1])


def _boosted(name: str) -> Any:
    import onnxmltools
    from onnxmltools.convert.common.data_types import FloatTensorType

    x, classes = _table()
    library, _, kind = name.partition("_")
    initial = [("X", FloatTensorType([None, COLUMNS]))]
    if library == "lightgbm":
        import lightgbm

        made: Any = getattr(lightgbm, f"LGBM{kind.title()}")(n_estimators=10, verbose=-1)
        return onnxmltools.convert_lightgbm(made.fit(x, classes), initial_types=initial)
    import xgboost

    made = getattr(xgboost, f"XGB{kind.title()}")(n_estimators=10)
    return onnxmltools.convert_xgboost(made.fit(x, classes), initial_types=initial)


_OTHERS: dict[str, Callable[[str], Any]] = {
    "pipeline": _pipeline,
    "stacking": _stacking,
    **dict.fromkeys(
        ("lightgbm_classifier", "lightgbm_regressor", "xgboost_classifier", "xgboost_regressor"),
        _boosted,
    ),
}

TABLES = (*_SKLEARN, *_OTHERS)
FEEDS: dict[str, Feed] = {"X": floats("s", COLUMNS)}


def write_table(name: str, path: Path) -> None:
    """Fit an estimator and write its ONNX model."""
    path.write_bytes(_OTHERS.get(name, _sklearn)(name).SerializeToString())
