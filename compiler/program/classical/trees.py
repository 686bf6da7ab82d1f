"""Ensembles of decision trees that classify or regress."""

from typing import Any

import numpy as np

from compiler.program.classical.ensembles import (
    Array,
    Attributes,
    Ensemble,
    attribute_array,
    ensemble_of,
    ensemble_of_roots,
)
from compiler.program.classical.scores import labels_in, labels_of, transformed
from compiler.program.classical.walking import AGGREGATES, Walker


class _Targets:
    """Aggregated votes of leaves for targets."""

    def __init__(self, trees: Ensemble, aggregate: bytes, transform: bytes):
        self._walker = Walker(trees, aggregate if aggregate in AGGREGATES else b"SUM")
        self._divisor = len(trees.roots) if aggregate == b"AVERAGE" else 1
        self._transform = transform

    def of(self, x: Array, base: Array | None = None, dtype: Any = np.float32) -> Array:
        """The targets of rows, transformed, from base values on."""
        scores, _ = self._walker(x)
        if self._divisor != 1:
            scores /= self._divisor
        if base is not None and base.size:
            scores += base
        return transformed(scores, self._transform, dtype=dtype)


class TreeRegressor:
    """TreeEnsembleRegressor with its attributes."""

    def __init__(self, attributes: Attributes):
        """Read the trees."""
        trees = ensemble_of(attributes, "target", attributes.get("n_targets", 1))
        aggregate: bytes = attributes.get("aggregate_function", b"SUM")
        self._targets = _Targets(trees, aggregate, attributes.get("post_transform", b"NONE"))
        self._base = attribute_array(attributes, "base_values", np.float64)

    def __call__(self, x: Array) -> tuple[Array]:
        """The targets of rows."""
        return (self._targets.of(x, self._base),)


class TreeEnsemble:
    """TreeEnsemble with its attributes."""

    def __init__(self, attributes: Attributes):
        """Read the trees."""
        function: int = attributes.get("aggregate_function", 1)
        last: int = attributes.get("post_transform", 0)
        aggregate, transform = _AGGREGATES[function], _TRANSFORMS[last]
        self._targets = _Targets(ensemble_of_roots(attributes), aggregate, transform)

    def __call__(self, x: Array) -> tuple[Array]:
        """The targets of rows, in the rows' type."""
        return (self._targets.of(x, dtype=x.dtype),)


_AGGREGATES = (b"AVERAGE", b"SUM", b"MIN", b"MAX")
_TRANSFORMS = (b"NONE", b"SOFTMAX", b"LOGISTIC", b"SOFTMAX_ZERO", b"PROBIT")
"""The names of the numbers that TreeEnsemble has instead."""


class TreeClassifier:
    """TreeEnsembleClassifier with its attributes."""

    def __init__(self, attributes: Attributes):
        """Read the trees."""
        labels = labels_in(attributes)
        self._ints = labels.get("classlabels_int64s", ())
        self._strings = labels.get("classlabels_strings", ())
        self._classes = len(self._ints) or len(self._strings)
        trees = ensemble_of(attributes, "class", self._classes)
        self._walker = Walker(trees)
        self._base = attribute_array(attributes, "base_values", np.float64)
        self._transform: bytes = attributes.get("post_transform", b"NONE")
        self._positive = bool((trees.weights >= 0).all())
        self._single = not (trees.ids == 1).any()
        self._binary = self._classes == 2 and len({*trees.ids.tolist()}) == 1

    def __call__(self, x: Array) -> tuple[Array, ...]:
        """The labels and scores of rows."""
        scores, voted = self._walker(x)
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
        named = self._binary or len(self._strings)
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
