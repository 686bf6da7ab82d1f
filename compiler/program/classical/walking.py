"""Walks of rows through trees, by compiled code."""

import ctypes
from pathlib import Path
from typing import Any

import numpy as np

from compiler.backends.memory import address
from compiler.program.classical.ensembles import NODE_MODES, Array, Ensemble
from compiler.support.native_code import native_function

TREES = Path(__file__).with_name("trees.ll")

FOLDS = ("SUM", "MIN", "MAX")
"""How the votes for a class or target become its score; the code knows their places here."""

_NODE = np.dtype(
    [
        ("bound", np.float64),
        ("feature", np.int32),
        ("nan", np.int32),
        ("children", np.int32, 2),
    ]
)

_ARGUMENTS = (*[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 2, *[ctypes.c_void_p] * 2)


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
