"""Ensembles of decision trees that classify or regress."""

import ctypes
from pathlib import Path
from typing import Any

import numpy as np

from compiler.backends.memory import address
from compiler.program.classical.attributes import (
    AGGREGATES,
    POST_TRANSFORMS,
    Attributes,
    check_labels,
)
from compiler.program.classical.ensembles import (
    NODE_MODES,
    Array,
    Ensemble,
    attribute_array,
    ensemble_of,
    ensemble_of_roots,
)
from compiler.program.classical.scores import labels_in, labels_of, transformed
from compiler.support.native_code import native_function

TREES = Path(__file__).with_name("trees.ll")

FOLDS = ("SUM", "MIN", "MAX")
"""How the votes for a class or target become its score; the code knows their places here."""

# the fields and their order are those of `node` in trees.c
_NODE = np.dtype(
    [
        ("bound", np.float64),
        ("feature", np.int32),
        ("nan", np.int32),
        ("children", np.int32, 2),
    ]
)

_ARGUMENTS = (*[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 2, *[ctypes.c_void_p] * 2)


# as `ensemble` in trees.c
class _Table(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int64) for name in ("trees", "classes", "aggregate")),
        *((name, ctypes.c_void_p) for name in ("nodes", "roots", "ends", "ids", "weights")),
    ]


class Walker:
    """The votes of an ensemble for rows."""

    def __init__(self, ensemble: Ensemble, aggregate: str = "SUM"):
        """Lay out the trees for rows of float32, and compile the code if nobody has."""
        self._ensemble = ensemble
        self._columns = int(ensemble.nodes.features[ensemble.nodes.inner].max(initial=0)) + 1
        self._classes = ensemble.classes
        self._votes = [
            np.ascontiguousarray(ensemble.roots, np.int32),
            np.ascontiguousarray(ensemble.ends, np.int64),
            np.ascontiguousarray(ensemble.ids, np.int64),
            np.ascontiguousarray(ensemble.weights, np.float64),
        ]
        self._numbers = len(ensemble.roots), ensemble.classes, FOLDS.index(aggregate)
        self._tables: dict[Any, tuple[_Table, Array]] = {}
        self._table(np.float32)
        self._walk = native_function(TREES, "trees_vote", None, *_ARGUMENTS)

    def _table(self, kind: Any) -> _Table:
        """The trees for rows of a type; the nodes that it points to are kept with it."""
        if kind not in self._tables:
            nodes = _laid_out(self._ensemble, kind)
            table = _Table(*self._numbers, *map(address, (nodes, *self._votes)))
            self._tables[kind] = table, nodes
        return self._tables[kind][0]

    def __call__(self, x: Array) -> tuple[Array, Array]:
        """The scores (rows, classes) as float64, and which of them have votes.

        Thresholds are rounded to float32 for rows of other types than float64. Raises ValueError
        for rows without columns that the trees read.
        """
        kind = np.float64 if x.dtype == np.float64 else np.float32
        # float32 widens without a change, so that one function serves both types
        rows = np.ascontiguousarray(np.atleast_2d(x).astype(kind, copy=False), np.float64)
        count, columns = rows.shape
        if columns < self._columns:
            raise ValueError(f"the trees read {self._columns} columns")
        scores = np.zeros((count, self._classes))
        voted = np.zeros(scores.shape, np.bool_)
        table = ctypes.addressof(self._table(kind))
        self._walk(table, address(rows), count, columns, address(scores), address(voted))
        return scores, voted


def _laid_out(ensemble: Ensemble, kind: Any) -> Array:
    """The nodes as the code reads them, for rows of a type: each compares a feature with a bound.

    A number below a threshold is at most the number before it. A node that asks for equality leads
    to a second one with that bound; these follow the nodes of the trees.
    """
    nodes = ensemble.nodes
    inner = ensemble.nodes.inner
    opposite, strict, exact = (
        inner & np.isin(nodes.conditions, [NODE_MODES.index(name) for name in names])
        for names in (("GTE", "GT", "NEQ"), ("LT", "GTE"), ("EQ", "NEQ"))
    )
    met = np.where(opposite, nodes.unmet, nodes.met)
    unmet = np.where(opposite, nodes.met, nodes.unmet)
    thresholds = nodes.thresholds.astype(kind)
    below = np.nextafter(thresholds, kind(-np.inf))
    below[thresholds == -np.inf] = np.nan  # no number is up to it
    missing = nodes.follows_nan | (nodes.conditions == NODE_MODES.index("NEQ"))
    second = len(inner) + np.cumsum(exact) - 1

    table = np.zeros(len(inner) + exact.sum(), _NODE)
    table["bound"] = np.concatenate([np.where(strict, below, thresholds), below[exact]])
    table["feature"] = np.concatenate([np.where(inner, nodes.features, 0), nodes.features[exact]])
    table["nan"][: len(inner)] = inner & (missing ^ opposite)
    table["children"][:, 0] = np.concatenate([unmet, met[exact]])
    table["children"][:, 1] = np.concatenate([np.where(exact, second, met), unmet[exact]])
    return table


class _Targets:
    """Aggregated votes of leaves for targets."""

    def __init__(self, trees: Ensemble, aggregate: str, transform: str):
        self._walker = Walker(trees, aggregate if aggregate in FOLDS else "SUM")
        self._divisor = len(trees.roots) if aggregate == "AVERAGE" else 1
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
        aggregate: str = attributes.get("aggregate_function", "SUM")
        self._targets = _Targets(trees, aggregate, attributes.get("post_transform", "NONE"))
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
        trees = ensemble_of_roots(attributes)
        self._targets = _Targets(trees, AGGREGATES[function], POST_TRANSFORMS[last])

    def __call__(self, x: Array) -> tuple[Array]:
        """The targets of rows, in the rows' type."""
        return (self._targets.of(x, dtype=x.dtype),)


class TreeClassifier:
    """TreeEnsembleClassifier with its attributes."""

    def __init__(self, attributes: Attributes):
        """Read the trees."""
        labels = labels_in(attributes)
        check_labels(labels)
        self._ints = labels.get("classlabels_int64s", ())
        self._strings = labels.get("classlabels_strings", ())
        self._classes = len(self._ints) or len(self._strings)
        trees = ensemble_of(attributes, "class", self._classes)
        self._walker = Walker(trees)
        self._base = attribute_array(attributes, "base_values", np.float64)
        self._transform: str = attributes.get("post_transform", "NONE")
        self._positive = bool((trees.weights >= 0).all())
        self._second = bool((trees.ids == 1).any())
        self._binary = self._classes == 2 and len({*trees.ids.tolist()}) == 1

    def __call__(self, x: Array) -> tuple[Array, ...]:
        """The labels and scores of rows."""
        scores, voted = self._walker(x)
        ways = {1: self._of_one, 2: self._of_two}
        return ways.get(self._classes, self._of_many)(scores, voted)

    def _of_many(self, scores: Array, voted: Array) -> tuple[Array, ...]:
        """A class without votes has a score only if there are base values."""
        if self._base.size:
            scores = scores + self._base
            voted = np.ones_like(voted)
        chosen = np.where(voted, scores, -np.inf).argmax(1)
        labels = labels_of(chosen, self._ints, self._strings)
        return labels, transformed(scores, self._transform)

    def _of_one(self, scores: Array, voted: Array) -> tuple[Array, ...]:
        """The score of a single class, whose name every row has.

        Labels that are integers are 1 where it is positive, and 0, as in onnxruntime.
        """
        scores = scores + self._base if self._base.size else scores
        positive = (scores[:, 0] > 0).astype(np.int64)
        labels = np.repeat(self._strings, len(scores)) if len(self._strings) else positive
        used = scores if self._base.size == 2 else scores[:, :1]
        return labels, transformed(used, self._transform)

    def _of_two(self, scores: Array, voted: Array) -> tuple[Array, ...]:
        """In a row without votes for the second class, those for the first one count for it.

        Labels that are integers are 0 and 1 if both have votes, as in onnxruntime.
        """
        second_voted = voted[:, 1:]
        base = self._base
        some = self._second and bool(second_voted.any())
        every = some and bool(second_voted.all())
        if base.size == 2:  # the second class is the first one's opposite
            second = scores[:, :1] + base[1]
            scores = np.where(second_voted, np.concatenate([-second, second], 1), scores + base)
        elif base.size:
            scores = scores + np.array([base[0], 0])
        if not voted.all():
            scores = np.where(voted, scores, 0)
        weight = np.where(second_voted[:, 0], scores[:, 1], scores[:, 0]) if some else scores[:, 0]
        # onnxruntime takes sums of votes that are all positive for probabilities
        chosen = (weight > (0.5 if self._binary and self._positive else 0)).astype(np.int64)
        named = self._binary or len(self._strings)
        labels = labels_of(chosen, self._ints, self._strings) if named else chosen
        if base.size == 2 or every:
            return labels, transformed(scores, self._transform)
        total = float(self._binary and self._positive)
        single = transformed(scores[:, :1], self._transform, total)
        if some:
            single = np.where(second_voted, transformed(scores, self._transform), single)
        return labels, single
