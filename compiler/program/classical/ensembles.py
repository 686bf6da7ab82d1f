"""Decision trees in arrays: which leaves rows reach, and what the leaves vote for."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

Array = np.ndarray
Attributes = Mapping[str, Any]
TreeNode = tuple[int, int]

_PAIRS_AT_ONCE = 1 << 20
"""About as many pairs of a row and a tree are looked at together."""

_CONDITIONS: Mapping[bytes, Callable[[Array, Array], Array]] = {
    b"BRANCH_LEQ": np.less_equal,
    b"BRANCH_LT": np.less,
    b"BRANCH_GTE": np.greater_equal,
    b"BRANCH_GT": np.greater,
    b"BRANCH_EQ": np.equal,
    b"BRANCH_NEQ": np.not_equal,
}


def attribute_array(attributes: Attributes, name: str, dtype: Any = np.int64) -> Array:
    """An attribute, or its form as a tensor; empty if it has neither."""
    tensor = attributes.get(f"{name}_as_tensor")
    if isinstance(tensor, onnx.TensorProto):
        return numpy_helper.to_array(tensor).astype(dtype)
    return np.array(attributes.get(name, ()), dtype)


@dataclass(frozen=True)
class TreeNodes:
    """The nodes of all trees; children are indices, and a leaf is its own child."""

    features: Array
    thresholds: Array
    conditions: Array
    """The places of the modes in `modes`."""
    modes: tuple[bytes, ...]
    follows_nan: Array
    """Whether NaN meets the condition."""
    met: Array
    unmet: Array

    def leaves(self, rows: Array) -> Array:
        """The leaf that each row reaches in each tree (rows, trees)."""
        at = np.tile(self.roots, (len(rows), 1))
        row = np.arange(len(rows))[:, None]
        while (self.met[at] != at).any():
            values = rows[row, self.features[at]]
            at = np.where(self._meets(values, at), self.met[at], self.unmet[at])
        return at

    @property
    def roots(self) -> Array:
        """The nodes that no other has as a child."""
        index = np.arange(len(self.met))
        inner = self.met != index
        return np.setdiff1d(index, np.concatenate([self.met[inner], self.unmet[inner]]))

    def _meets(self, values: Array, at: Array) -> Array:
        thresholds, conditions = self.thresholds[at].astype(values.dtype), self.conditions[at]
        result = self.follows_nan[at] & np.isnan(values)
        for place, mode in enumerate(self.modes):
            if mode in _CONDITIONS:
                result |= (conditions == place) & _CONDITIONS[mode](values, thresholds)
        return result


@dataclass(frozen=True)
class Ensemble:
    """Trees, and the votes of their leaves for classes or targets."""

    nodes: TreeNodes
    roots: int
    ends: Array
    """Where the votes of each leaf begin, and those of the last end."""
    ids: Array
    weights: Array
    classes: int

    def votes(self, rows: Array) -> Iterator[tuple[slice, Array, Array]]:
        """For a few rows at a time: which, the places row * classes + id of votes, and weights."""
        step = max(_PAIRS_AT_ONCE // max(self.roots, 1), 1)
        for start in range(0, len(rows), step):
            part = slice(start, min(start + step, len(rows)))
            yield part, *self._votes_of(self.nodes.leaves(rows[part]))

    def _votes_of(self, leaves: Array) -> tuple[Array, Array]:
        counts = self.ends[leaves + 1] - self.ends[leaves]
        owners = np.repeat(np.arange(len(leaves)), counts.sum(1))
        flat = counts.ravel()
        before = np.cumsum(flat) - flat
        places: Array = np.arange(len(owners)) + np.repeat(self.ends[leaves].ravel() - before, flat)
        return owners * self.classes + self.ids[places], self.weights[places]


def ensemble_of(attributes: Attributes, votes: str, classes: int) -> Ensemble:
    """The trees of a node's attributes; `votes` is the prefix of the leaves': class or target.

    Raises ValueError if they name a node that is not there.
    """
    index = _pairs(attributes, "nodes_treeids", "nodes_nodeids")
    places = {pair: place for place, pair in enumerate(index)}
    nodes = _nodes(attributes, places)
    leaves = _pairs(attributes, f"{votes}_treeids", f"{votes}_nodeids")
    owners = np.array([_place(places, pair) for pair in leaves], np.int64)
    order = np.argsort(owners, kind="stable")
    return Ensemble(
        nodes=nodes,
        roots=len(nodes.roots),
        ends=np.searchsorted(owners[order], np.arange(len(index) + 1)),
        ids=attribute_array(attributes, f"{votes}_ids")[order],
        weights=attribute_array(attributes, f"{votes}_weights", np.float64)[order],
        classes=classes,
    )


def _pairs(attributes: Attributes, trees: str, nodes: str) -> Sequence[TreeNode]:
    return [*zip(attributes.get(trees, ()), attributes.get(nodes, ()), strict=True)]


def _place(places: Mapping[TreeNode, int], pair: TreeNode) -> int:
    if pair not in places:
        raise ValueError(f"there is no node {pair[1]} of tree {pair[0]}")
    return places[pair]


def _nodes(attributes: Attributes, places: Mapping[TreeNode, int]) -> TreeNodes:
    names: Sequence[bytes] = attributes.get("nodes_modes", ())
    modes = tuple(sorted(set(names)))
    missing = attribute_array(attributes, "nodes_missing_value_tracks_true", np.bool_)

    def children(name: str) -> Array:
        pairs = _pairs(attributes, "nodes_treeids", name)
        own = zip(pairs, names, range(len(names)), strict=True)
        found = (i if mode == b"LEAF" else _place(places, pair) for pair, mode, i in own)
        return np.fromiter(found, np.int64)

    return TreeNodes(
        features=attribute_array(attributes, "nodes_featureids"),
        thresholds=attribute_array(attributes, "nodes_values", np.float64),
        conditions=np.array([modes.index(name) for name in names]),
        modes=modes,
        follows_nan=missing if missing.size else np.zeros(len(names), np.bool_),
        met=children("nodes_truenodeids"),
        unmet=children("nodes_falsenodeids"),
    )
