"""Ensembles of decision trees that classify or regress."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from compiler.program.classical.ensembles import Array, Attributes, attribute_array, ensemble_of
from compiler.program.classical.scores import labels_of, transformed

_EXTREMES: Mapping[bytes, tuple[np.ufunc, float]] = {
    b"MIN": (np.minimum, np.inf),
    b"MAX": (np.maximum, -np.inf),
}


class TreeRegressor:
    """TreeEnsembleRegressor with its attributes."""

    def __init__(self, attributes: Attributes):
        """Read the trees."""
        self._trees = ensemble_of(attributes, "target", attributes.get("n_targets", 1))
        self._base = attribute_array(attributes, "base_values", np.float64)
        self._aggregate: bytes = attributes.get("aggregate_function", b"SUM")
        self._transform: bytes = attributes.get("post_transform", b"NONE")

    def __call__(self, x: Array) -> tuple[Array]:
        """The targets of rows."""
        rows, scores = _rows(x), np.zeros((len(x), self._trees.classes))
        for part, places, weights in self._trees.votes(rows):
            scores[part] = self._aggregated(scores[part].size, places, weights).reshape(
                -1, self._trees.classes
            )
        return (transformed(scores + (self._base if self._base.size else 0), self._transform),)

    def _aggregated(self, size: int, places: Array, weights: Array) -> Array:
        if self._aggregate in _EXTREMES:
            function, start = _EXTREMES[self._aggregate]
            found = np.full(size, start)
            function.at(found, places, weights)
            return np.where(np.isinf(found), 0, found)
        sums = np.bincount(places, weights, size)
        return sums / self._trees.roots if self._aggregate == b"AVERAGE" else sums


class TreeClassifier:
    """TreeEnsembleClassifier with its attributes."""

    def __init__(self, attributes: Attributes):
        """Read the trees."""
        self._ints = attributes.get("classlabels_int64s", ())
        self._strings = attributes.get("classlabels_strings", ())
        self._classes = len(self._ints) or len(self._strings)
        self._trees = ensemble_of(attributes, "class", self._classes)
        self._base = attribute_array(attributes, "base_values", np.float64)
        self._transform: bytes = attributes.get("post_transform", b"NONE")
        self._positive = bool((self._trees.weights >= 0).all())
        self._single = not (self._trees.ids == 1).any()
        self._binary = self._classes == 2 and len({*self._trees.ids.tolist()}) == 1

    def __call__(self, x: Array) -> tuple[Array, ...]:
        """The labels and scores of rows."""
        rows, size = _rows(x), (len(x), self._classes)
        scores, voted = np.zeros(size), np.zeros(size, np.bool_)
        for part, places, weights in self._trees.votes(rows):
            flat = scores[part].size
            scores[part] = np.bincount(places, weights, flat).reshape(-1, self._classes)
            voted[part] = np.bincount(places, minlength=flat).reshape(-1, self._classes) > 0
        return self._of_two(scores, voted) if self._classes <= 2 else self._of_many(scores, voted)

    def _of_many(self, scores: Array, voted: Array) -> tuple[Array, ...]:
        """A class without votes has a score only if there are base values."""
        if self._base.size:
            scores, voted = scores + self._base, np.ones_like(voted)
        chosen = np.where(voted, scores, -np.inf).argmax(1)
        labels = labels_of(chosen, self._ints, self._strings)
        return labels, transformed(scores, self._transform)

    def _of_two(self, scores: Array, voted: Array) -> tuple[Array, ...]:
        """Where all votes are for the first class, they count for the second.

        Labels that are integers are 0 and 1 if both have votes, as in onnxruntime.
        """
        single = self._single
        scores = np.where(voted, self._based(scores, single), 0)
        weight = scores[:, 0] if single else scores[:, 1]
        chosen = (weight > (0.5 if self._binary and self._positive else 0)).astype(np.int64)
        named = self._binary or self._strings
        labels = labels_of(chosen, self._ints, self._strings) if named else chosen
        if not single or self._base.size == 2:
            return labels, transformed(scores, self._transform)
        total = None if self._classes == 1 else float(self._positive)
        return labels, transformed(scores[:, :1], self._transform, total)

    def _based(self, scores: Array, single: bool) -> Array:
        """Scores with base values; two of them make the second class the first's opposite."""
        if self._base.size < 2:
            return scores + np.array([self._base.sum(), 0])[: self._classes]
        if single:
            return scores + self._base
        second = scores[:, :1] + self._base[1]
        return np.concatenate([-second, second], 1)


PREPARED: Mapping[str, Callable[[Attributes], Callable[..., Any]]] = {
    "TreeEnsembleClassifier": TreeClassifier,
    "TreeEnsembleRegressor": TreeRegressor,
}
"""Operators whose attributes are read once."""


def _rows(x: Array) -> Array:
    return x if x.dtype == np.float64 else x.astype(np.float32)
