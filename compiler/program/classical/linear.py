"""Linear classifiers and regressors."""

from collections.abc import Sequence

import numpy as np

from compiler.program.classical.attributes import Attributes, check_length
from compiler.program.classical.scores import labels_of, transformed


def linear_classifier(
    x: np.ndarray,
    *,
    coefficients: Sequence[float],
    intercepts: Sequence[float] = (),
    classlabels_ints: Sequence[int] = (),
    classlabels_strings: Sequence[str] = (),
    post_transform: str = "NONE",
    multi_class: int = 0,
) -> tuple[np.ndarray, ...]:
    """The labels and scores of rows; two classes may share one score.

    Coefficients beyond those of the intercepts' classes, which old converters have written, are not
    read. What `multi_class` says is not needed.
    """
    count = len(classlabels_ints) or len(classlabels_strings)
    scores = _linear_scores(x, coefficients, intercepts, len(intercepts) or count)
    single = scores.shape[1] == 1
    chosen = (scores[:, 0] > 0).astype(int) if single else scores.argmax(1)
    labels = labels_of(chosen, classlabels_ints, classlabels_strings)
    return labels, transformed(scores, post_transform, 1 if single and count == 2 else None)


def check_targets(attributes: Attributes) -> None:
    """Raise ValueError unless a regressor has one intercept for each target, or none."""
    targets = attributes.get("targets", 1)
    if targets < 1:
        raise ValueError(f"its targets are {targets}, not at least 1")
    if attributes.get("intercepts"):
        check_length(attributes, "intercepts", targets)


def linear_regressor(
    x: np.ndarray,
    *,
    coefficients: Sequence[float],
    intercepts: Sequence[float] = (),
    targets: int = 1,
    post_transform: str = "NONE",
) -> tuple[np.ndarray]:
    """The targets of rows."""
    return (transformed(_linear_scores(x, coefficients, intercepts, targets), post_transform),)


def _linear_scores(
    x: np.ndarray, coefficients: Sequence[float], intercepts: Sequence[float], count: int
) -> np.ndarray:
    """Rows times `count` vectors of coefficients, plus the intercepts."""
    rows = np.atleast_2d(x).astype(np.float32, copy=False)
    used = np.asarray(coefficients[: count * rows.shape[1]], np.float32)
    products = rows @ used.reshape(count, -1).T
    return products + np.asarray(intercepts, np.float32) if len(intercepts) else products
