"""Support vector machines that classify and regress."""

import ctypes
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np

from compiler.backends.memory import address
from compiler.program.classical.attributes import (
    Attributes,
    check_labels,
    check_length,
    required_attribute,
)
from compiler.program.classical.scores import labels_in, labels_of, logistic, transformed
from compiler.support.native_code import native_function

Array = np.ndarray

PAIRS = Path(__file__).with_name("pairs.ll")

_SPARE = np.finfo(np.float64).eps / np.finfo(np.float32).eps * 16
"""Parts of a sum of float64 whose last digits are those of float32, with some to spare."""

_ARGUMENTS = (ctypes.c_void_p, *[ctypes.c_int64] * 2, *[ctypes.c_void_p] * 2)


class Kernel:
    """How alike rows and support vectors are."""

    def __init__(self, attributes: Attributes, count: int):
        """Read so many vectors, and the kernel's type and numbers."""
        self._type: str = attributes.get("kernel_type", "LINEAR")
        self._gamma, self._offset, self._degree = attributes.get("kernel_params") or (0, 0, 0)
        vectors = np.array(required_attribute(attributes, "support_vectors"), np.float32)
        self._vectors = vectors.reshape(count, -1)
        self._centre = self._vectors.mean(0, np.float64)
        self._centred = self._vectors - self._centre
        self._norms = (self._centred**2).sum(1)

    def similarities(self, rows: Array) -> Array:
        """How alike each row is to each vector."""
        if self._type == "RBF":
            return np.exp(-self._gamma * self._distances(rows).astype(np.float32))
        dots = rows @ self._vectors.T
        if self._type == "POLY":
            return (self._gamma * dots + self._offset) ** self._degree
        return np.tanh(self._gamma * dots + self._offset) if self._type == "SIGMOID" else dots

    def _distances(self, rows: Array) -> Array:
        """The squared distances of rows and vectors.

        They follow from a MatMul, in float64 from the centre on. That has no digits to spare for
        vectors that are much closer than the centre, which a single large number moves away, nor
        for infinities: their differences are squared.
        """
        centred = rows - self._centre
        norms = (centred**2).sum(1)[:, None] + self._norms
        distances = norms - 2 * (centred @ self._centred.T)
        inexact = ~(distances >= norms * _SPARE)  # so is NaN
        for row in np.flatnonzero(inexact.any(1)):
            (near,) = np.nonzero(inexact[row])
            differences = rows[row].astype(np.float64) - self._vectors[near]
            distances[row, near] = (differences**2).sum(1)
        return distances


class SupportVectorClassifier:
    """SVMClassifier with its attributes."""

    def __init__(self, attributes: Attributes):
        """Read the vectors and the labels."""
        self._weights = np.array(required_attribute(attributes, "coefficients"), np.float32)
        self._bounds = np.array(required_attribute(attributes, "rho"), np.float32)
        self._counts: Sequence[int] = attributes.get("vectors_per_class", ())
        self._a = np.array(attributes.get("prob_a", ()))
        self._b = np.array(attributes.get("prob_b", ()))
        labels = labels_in(attributes)
        check_labels(labels)
        self._ints = labels.get("classlabels_ints", ())
        self._strings = labels.get("classlabels_strings", ())
        self._check_lengths(attributes)
        if self._a.size:
            _fit()  # compiled before the first run
        self._kernel = Kernel(attributes, sum(self._counts)) if self._counts else None
        self._transform: str = attributes.get("post_transform", "NONE")

    def _check_lengths(self, attributes: Attributes) -> None:
        """Raise ValueError for lists that do not fit the number of classes."""
        classes = len(self._counts)
        if not classes:
            check_length(attributes, "rho", least=1)
            return
        pairs = classes * (classes - 1) // 2
        check_length(attributes, "coefficients", sum(self._counts) * (classes - 1))
        check_length(attributes, "rho", pairs)
        if self._a.size or self._b.size:
            check_length(attributes, "prob_a", pairs)
            check_length(attributes, "prob_b", pairs)
        names = len(self._ints) or len(self._strings)
        if names < classes:
            raise ValueError(f"it has {names} labels for {classes} vectors_per_class")

    def __call__(self, x: Array) -> tuple[Array, ...]:
        """The labels of rows with their scores: those of pairs of classes, or probabilities."""
        rows = np.atleast_2d(x).astype(np.float32, copy=False)
        if self._kernel is None:
            scores = self._of_hyperplanes(rows)
            total = None
            # onnxruntime takes scores by weights that are all positive for probabilities
            chosen = _of_hyperplanes(scores, threshold=0.5 if (self._weights >= 0).all() else 0)
        else:
            similarities = self._kernel.similarities(rows)
            scores = _pair_scores(similarities, self._weights, self._bounds, self._counts)
            # How many pairs each class wins.
            classes = len(self._counts)
            votes = np.zeros((len(scores), classes), int)
            for column, (i, j) in enumerate(combinations(range(classes), 2)):
                won = scores[:, column] > 0
                votes[:, i] += won
                votes[:, j] += ~won
            chosen = votes.argmax(1)
            scores, total = self._of_pairs(scores)
        labels = labels_of(chosen, self._ints, self._strings)
        return labels, transformed(scores, self._transform, total)

    def _of_hyperplanes(self, rows: Array) -> Array:
        classes = len(self._ints) or len(self._strings)
        return rows @ self._weights.reshape(classes, -1).T + self._bounds[0]

    def _of_pairs(self, scores: Array) -> tuple[Array, float]:
        """The scores to transform, and the total of both where there is a single pair."""
        if self._a.size:
            # The probabilities of classes that fit those of pairs best, by libsvm's iteration.
            classes = len(self._counts)
            # as libsvm does: the iteration divides by these probabilities
            pairs = np.clip(1 - logistic(scores * self._a + self._b), 1e-7, 1 - 1e-7)
            beats = np.zeros((len(scores), classes, classes))
            for column, (i, j) in enumerate(combinations(range(classes), 2)):
                beats[:, i, j] = pairs[:, column]
                beats[:, j, i] = 1 - pairs[:, column]
            form = -beats * beats.swapaxes(1, 2)
            diagonal = np.arange(classes)
            form[:, diagonal, diagonal] = (beats**2).sum(1)
            probabilities = np.full((len(form), classes), 1 / classes)
            slope = np.empty(classes)
            _fit()(address(form), len(form), classes, address(probabilities), address(slope))
            return probabilities, 0
        return scores, 0 if self._transform == "NONE" else 1


class SupportVectorRegressor:
    """SVMRegressor with its attributes."""

    def __init__(self, attributes: Attributes):
        """Read the vectors."""
        count = attributes.get("n_supports", 0)
        if count:
            check_length(attributes, "coefficients", count)
        check_length(attributes, "rho", least=1)
        self._weights = np.array(required_attribute(attributes, "coefficients"), np.float32)
        self._bound = np.float32(required_attribute(attributes, "rho")[0])
        self._kernel = Kernel(attributes, count) if count else None
        self._one_class = attributes.get("one_class", 0)
        self._transform: str = attributes.get("post_transform", "NONE")

    def __call__(self, x: Array) -> tuple[Array]:
        """A number for each row; with `one_class` 1 for those inside, and -1."""
        rows = np.atleast_2d(x).astype(np.float32, copy=False)
        similarities = rows if self._kernel is None else self._kernel.similarities(rows)
        scores = (similarities @ self._weights + self._bound)[:, None]
        if self._one_class:
            return (np.where(scores > 0, np.float32(1), np.float32(-1)),)
        return (transformed(scores, self._transform),)


def _of_hyperplanes(scores: Array, threshold: float) -> Array:
    """The classes with the largest scores; of two the second, if the score is large."""
    chosen = scores.argmax(1)
    if scores.shape[1] != 2:
        return chosen
    largest = scores.max(1)
    return np.where((largest >= threshold) if threshold else (largest > 0), 1, chosen)


def _pair_scores(
    similarities: Array, weights: Array, bounds: Array, counts: Sequence[int]
) -> Array:
    """The score of each pair of classes; a class has weights against each other one."""
    weights = weights.reshape(len(counts) - 1, -1)
    ends = np.cumsum(counts)
    spans = [slice(end - count, end) for end, count in zip(ends, counts, strict=True)]

    def columns() -> Iterator[Array]:
        for (i, j), bound in zip(combinations(range(len(counts)), 2), bounds, strict=True):
            first = similarities[:, spans[i]] @ weights[j - 1, spans[i]]
            yield first + similarities[:, spans[j]] @ weights[i, spans[j]] + bound

    return np.stack([*columns()], 1)


def _fit() -> Callable[..., None]:
    return native_function(PAIRS, "pairs_fit", None, *_ARGUMENTS)
