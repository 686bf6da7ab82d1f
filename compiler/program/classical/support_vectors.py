"""Support vector machines that classify and regress."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from compiler.program.classical.scores import labels_of, logistic, transformed

Array = np.ndarray


@dataclass(frozen=True)
class Kernel:
    """How alike rows and vectors are."""

    type: bytes
    gamma: float
    offset: float
    degree: float

    def similarities(self, rows: Array, vectors: Array) -> Array:
        """How alike each row is to each vector."""
        if self.type == b"RBF":
            distances = ((rows[:, None] - vectors) ** 2).sum(-1)
            return np.exp(-self.gamma * distances)
        dots = rows @ vectors.T
        if self.type == b"POLY":
            return (self.gamma * dots + self.offset) ** self.degree
        return np.tanh(self.gamma * dots + self.offset) if self.type == b"SIGMOID" else dots


def svm_classifier(
    x: Array,
    coefficients: Sequence[float],
    rho: Sequence[float],
    kernel_params: Sequence[float] = (),
    kernel_type: bytes = b"LINEAR",
    support_vectors: Sequence[float] = (),
    vectors_per_class: Sequence[int] = (),
    prob_a: Sequence[float] = (),
    prob_b: Sequence[float] = (),
    classlabels_ints: Sequence[int] = (),
    classlabels_strings: Sequence[str] = (),
    post_transform: bytes = b"NONE",
) -> tuple[Array, ...]:
    """The labels of rows with their scores: those of pairs of classes, or probabilities."""
    rows = np.atleast_2d(x).astype(np.float32)
    weights, bounds = np.array(coefficients, np.float32), np.array(rho, np.float32)
    if vectors_per_class:
        kernel = Kernel(kernel_type, *(kernel_params or (0, 0, 0)))
        alike = kernel.similarities(rows, _vectors(support_vectors, sum(vectors_per_class)))
        scores = _pair_scores(alike, weights, bounds, vectors_per_class)
        chosen = _votes(scores, len(vectors_per_class)).argmax(1)
        scores, total = _of_pairs(scores, prob_a, prob_b, len(vectors_per_class), post_transform)
    else:
        classes = len(classlabels_ints) or len(classlabels_strings)
        scores, total = rows @ weights.reshape(classes, -1).T + bounds[0], None
        chosen = _of_hyperplanes(scores, least=0.5 if (weights >= 0).all() else 0)
    labels = labels_of(chosen, classlabels_ints, classlabels_strings)
    return labels, transformed(scores, post_transform, total)


def svm_regressor(
    x: Array,
    coefficients: Sequence[float],
    rho: Sequence[float],
    kernel_params: Sequence[float] = (),
    kernel_type: bytes = b"LINEAR",
    support_vectors: Sequence[float] = (),
    n_supports: int = 0,
    one_class: int = 0,
    post_transform: bytes = b"NONE",
) -> tuple[Array]:
    """A number for each row; with `one_class` 1 for those inside, and -1."""
    rows = np.atleast_2d(x).astype(np.float32)
    weights = np.array(coefficients, np.float32)
    if n_supports:
        kernel = Kernel(kernel_type, *(kernel_params or (0, 0, 0)))
        rows = kernel.similarities(rows, _vectors(support_vectors, n_supports))
    scores = (rows @ weights + np.float32(rho[0]))[:, None]
    if one_class:
        return (np.where(scores > 0, np.float32(1), np.float32(-1)),)
    return (transformed(scores, post_transform),)


def _vectors(support_vectors: Sequence[float], count: int) -> Array:
    return np.array(support_vectors, np.float32).reshape(count, -1)


def _of_hyperplanes(scores: Array, least: float) -> Array:
    """The classes with the largest scores; of two the second, if the score is large."""
    chosen = scores.argmax(1)
    if scores.shape[1] != 2:
        return chosen
    largest = scores.max(1)
    return np.where((largest >= least) if least else (largest > 0), 1, chosen)


def _of_pairs(
    scores: Array, a: Sequence[float], b: Sequence[float], classes: int, transform: bytes
) -> tuple[Array, float]:
    """The scores to transform, and the total of both where there is a single pair."""
    if a:
        return _probabilities(scores, np.array(a), np.array(b), classes), 0
    return scores, 0 if transform == b"NONE" else 1


def _pair_scores(alike: Array, weights: Array, bounds: Array, counts: Sequence[int]) -> Array:
    """The score of each pair of classes; a class has weights against each other one."""
    weights = weights.reshape(len(counts) - 1, -1)
    ends = np.cumsum(counts)
    spans = [slice(end - count, end) for end, count in zip(ends, counts, strict=True)]

    def columns() -> Iterator[Array]:
        for (i, j), bound in zip(combinations(range(len(counts)), 2), bounds, strict=True):
            mine = alike[:, spans[i]] @ weights[j - 1, spans[i]]
            yield mine + alike[:, spans[j]] @ weights[i, spans[j]] + bound

    return np.stack([*columns()], 1)


def _votes(scores: Array, classes: int) -> Array:
    """How many pairs each class wins."""
    votes = np.zeros((len(scores), classes), int)
    for column, (i, j) in enumerate(combinations(range(classes), 2)):
        won = scores[:, column] > 0
        votes[:, i] += won
        votes[:, j] += ~won
    return votes


def _probabilities(scores: Array, a: Array, b: Array, classes: int) -> Array:
    """The probabilities of classes that fit those of pairs best, by libsvm's iteration."""
    pairs = np.clip(1 - logistic(scores * a + b), 1e-7, 1 - 1e-7)
    beats = np.zeros((len(scores), classes, classes))
    for column, (i, j) in enumerate(combinations(range(classes), 2)):
        beats[:, i, j], beats[:, j, i] = pairs[:, column], 1 - pairs[:, column]
    form = -beats * beats.swapaxes(1, 2)
    diagonal = np.arange(classes)
    form[:, diagonal, diagonal] = (beats**2).sum(1)
    return np.stack([_least(row) for row in form]) if len(form) else np.empty((0, classes))


def _least(form: Array) -> Array:
    """The distribution for which a quadratic form is least."""
    classes = len(form)
    found = np.full(classes, 1 / classes)
    for _ in range(max(100, classes)):
        slope = form @ found
        value = found @ slope
        if abs(slope - value).max() < 0.005 / classes:
            break
        for t in range(classes):
            step = (value - slope[t]) / form[t, t]
            value = (value + step * (step * form[t, t] + 2 * slope[t])) / (1 + step) ** 2
            slope = (slope + step * form[t]) / (1 + step)
            found[t] += step
            found /= 1 + step
    return found
