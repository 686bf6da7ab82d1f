"""Decision trees in arrays: their nodes, and what their leaves vote for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from compiler.program.classical.attributes import Attributes, required_attribute

Array = np.ndarray
TreeNode = tuple[int, int]

NODE_MODES = ("LEQ", "LT", "GTE", "GT", "EQ", "NEQ")
"""The comparisons of a feature with a threshold, in the order of their numbers."""


def attribute_array(attributes: Attributes, name: str, dtype: Any = np.int64) -> Array:
    """An attribute, or its form as a tensor; empty if it has neither."""
    return np.array(attributes.get(f"{name}_as_tensor", attributes.get(name, ())), dtype)


@dataclass(frozen=True)
class TreeNodes:
    """The nodes of all trees; children are indices, and a leaf is its own child."""

    features: Array
    thresholds: Array
    conditions: Array
    """The places in `NODE_MODES`; a leaf's means nothing."""
    follows_nan: Array
    """Whether NaN meets the condition, as it does each NEQ."""
    met: Array
    unmet: Array

    def __post_init__(self):
        """Raise ValueError if the arrays differ in length."""
        if len({len(getattr(self, column.name)) for column in fields(self)}) > 1:
            raise ValueError("its nodes_ attributes have different lengths")

    @property
    def inner(self) -> Array:
        """Whether each node has others below it."""
        numbers = np.arange(len(self.met))
        return (self.met != numbers) | (self.unmet != numbers)


@dataclass(frozen=True)
class Ensemble:
    """Trees, and the votes of their leaves for classes or targets."""

    nodes: TreeNodes
    roots: Array
    ends: Array
    """Where the votes of each node begin, and those of the last end."""
    ids: Array
    weights: Array
    classes: int

    def __post_init__(self):
        """Raise ValueError if a walk would not end, or leave the arrays."""
        if len({len(self.ids), len(self.weights), int(self.ends[-1])}) > 1:
            raise ValueError("its leaves' ids and weights have different lengths")
        children = np.concatenate([self.nodes.met, self.nodes.unmet, self.roots])
        if children.size and not 0 <= children.min() <= children.max() < len(self.nodes.met):
            raise ValueError("a tree names a node that is not there")
        if self.ids.size and not 0 <= self.ids.min() <= self.ids.max() < self.classes:
            raise ValueError(f"a leaf votes for one beyond its {self.classes} classes or targets")
        inner = self.nodes.inner
        if (self.nodes.features[inner] < 0).any():
            raise ValueError("a feature is negative")
        if np.isnan(self.nodes.thresholds[inner]).any():
            raise ValueError("a threshold is not a number")
        if self._leads_back(inner):
            raise ValueError("a tree leads back to a node above")

    def _leads_back(self, inner: Array) -> bool:
        """Whether a walk from a root can meet a node twice; trees may share nodes.

        Each node is looked at twice, so that a list of a hundred thousand nodes takes a second.
        """
        reached = np.zeros(len(inner), bool)
        level = np.unique(self.roots)
        while level.size:
            reached[level] = True
            below = self._below(level[inner[level]])
            level = np.unique(below[~reached[below]])
        waiting = np.bincount(self._below(np.flatnonzero(reached & inner)), minlength=len(inner))
        ready = np.flatnonzero(reached & (waiting == 0))
        passed = 0
        while ready.size:
            passed += ready.size
            below = self._below(ready[inner[ready]])
            np.subtract.at(waiting, below, 1)
            below = np.unique(below)
            ready = below[waiting[below] == 0]
        return passed < reached.sum()

    def _below(self, nodes: Array) -> Array:
        return np.concatenate([self.nodes.met[nodes], self.nodes.unmet[nodes]])


def ensemble_of(attributes: Attributes, votes: str, classes: int) -> Ensemble:
    """The trees of a node's attributes; `votes` is the prefix of the leaves': class or target.

    Raises ValueError if they name a missing node, or lead back to a node above.
    """
    index = _pairs(attributes, "nodes_treeids", "nodes_nodeids")
    places = {pair: number for number, pair in enumerate(index)}
    nodes = _nodes(attributes, places)
    roots = {tree: number for number, (tree, _) in reversed([*enumerate(index)])}  # its first node
    leaves = _pairs(attributes, f"{votes}_treeids", f"{votes}_nodeids")
    owners = np.array([_place(places, pair) for pair in leaves], np.int64)
    order = np.argsort(owners, kind="stable")
    ids = attribute_array(attributes, f"{votes}_ids")
    weights = attribute_array(attributes, f"{votes}_weights", np.float64)
    if {len(ids), len(weights)} != {len(leaves)}:
        raise ValueError("its leaves' ids and weights have different lengths")
    return Ensemble(
        nodes=nodes,
        roots=np.array([*roots.values()][::-1], np.int64),
        ends=np.searchsorted(owners[order], np.arange(len(index) + 1)),
        ids=ids[order],
        weights=weights[order],
        classes=classes,
    )


def ensemble_of_roots(attributes: Attributes) -> Ensemble:
    """The trees of TreeEnsemble's attributes, in which leaves follow the other nodes.

    A node that asks for membership in a set becomes one for each member; those beyond the first
    follow the leaves. Raises ValueError if the arrays do not fit.
    """
    features = attribute_array(attributes, "nodes_featureids")
    missing = attribute_array(attributes, "nodes_missing_value_tracks_true", np.bool_)
    ids = attribute_array(attributes, "leaf_targetids")
    inner = len(features)
    leaves = len(ids)
    leaf_numbers = np.arange(inner, inner + leaves)

    def padded(values: Array) -> Array:
        return np.concatenate([values, np.zeros(leaves, values.dtype)])

    def children(side: str) -> Array:
        numbers = attribute_array(attributes, f"nodes_{side}nodeids")
        beyond = inner * attribute_array(attributes, f"nodes_{side}leafs")
        if len(numbers) != len(beyond):
            raise ValueError("its nodes_ attributes have different lengths")
        return np.concatenate([numbers + beyond, leaf_numbers])

    nodes = TreeNodes(
        features=padded(features),
        thresholds=padded(np.array(required_attribute(attributes, "nodes_splits"), np.float64)),
        conditions=padded(np.array(required_attribute(attributes, "nodes_modes"), np.int64)),
        follows_nan=padded(missing if missing.size else np.zeros(inner, np.bool_)),
        met=children("true"),
        unmet=children("false"),
    )
    nodes = _without_sets(nodes, np.array(attributes.get("membership_values", ()), np.float64))
    spare = len(nodes.met) - inner - leaves
    return Ensemble(
        nodes=nodes,
        roots=attribute_array(attributes, "tree_roots"),
        ends=np.concatenate(
            [np.zeros(inner, np.int64), np.arange(leaves + 1), np.full(spare, leaves)]
        ),
        ids=ids,
        weights=np.array(required_attribute(attributes, "leaf_weights"), np.float64),
        classes=attributes.get("n_targets", 1),
    )


_MEMBER = len(NODE_MODES)
"""The number of the mode that asks for membership in a set."""


def _without_sets(nodes: TreeNodes, members: Array) -> TreeNodes:
    """The nodes, with a chain of comparisons with one member each for every set; NaN ends a set."""
    if not np.isin(nodes.conditions, np.arange(_MEMBER + 1)).all():
        raise ValueError("its nodes_modes are not from 0 to 6")
    (asking,) = np.nonzero(nodes.conditions == _MEMBER)
    (ends,) = np.nonzero(np.isnan(members))
    sets = [chunk[~np.isnan(chunk)] for chunk in np.split(members, ends)]
    if len(sets) == len(asking) + 1 and not len(sets[-1]):
        sets.pop()
    if len(sets) != len(asking):
        raise ValueError(f"membership_values has {len(sets)} sets for {len(asking)} nodes")
    columns: dict[str, list[Any]] = {f.name: getattr(nodes, f.name).tolist() for f in fields(nodes)}
    for node, values in zip(asking.tolist(), sets, strict=True):
        if not len(values):
            raise ValueError("a set of membership_values has no member")
        extra = range(len(columns["met"]), len(columns["met"]) + len(values) - 1)
        last = columns["unmet"][node]
        for position, member, below in zip((node, *extra), values, (*extra, last), strict=True):
            if position != node:
                for column in columns.values():
                    column.append(column[node])
            columns["thresholds"][position] = member
            columns["conditions"][position] = NODE_MODES.index("EQ")
            columns["unmet"][position] = below
    return TreeNodes(
        **{name: np.array(column, getattr(nodes, name).dtype) for name, column in columns.items()}
    )


def _pairs(attributes: Attributes, trees: str, nodes: str) -> Sequence[TreeNode]:
    return [*zip(attributes.get(trees, ()), attributes.get(nodes, ()), strict=True)]


def _place(places: Mapping[TreeNode, int], pair: TreeNode) -> int:
    if pair not in places:
        raise ValueError(f"there is no node {pair[1]} of tree {pair[0]}")
    return places[pair]


def _nodes(attributes: Attributes, places: Mapping[TreeNode, int]) -> TreeNodes:
    modes: Sequence[str] = attributes.get("nodes_modes", ())
    missing = attribute_array(attributes, "nodes_missing_value_tracks_true", np.bool_)
    numbers = {f"BRANCH_{name}": number for number, name in enumerate(NODE_MODES)} | {"LEAF": 0}
    if unknown := {*modes} - numbers.keys():
        raise ValueError(f"there is no mode of nodes {min(unknown)!r}")

    def children(name: str) -> Array:
        pairs = _pairs(attributes, "nodes_treeids", name)
        rows = zip(pairs, modes, range(len(modes)), strict=True)
        indices = (i if mode == "LEAF" else _place(places, pair) for pair, mode, i in rows)
        return np.fromiter(indices, np.int64)

    return TreeNodes(
        features=attribute_array(attributes, "nodes_featureids"),
        thresholds=attribute_array(attributes, "nodes_values", np.float64),
        conditions=np.array([numbers[mode] for mode in modes], np.int64),
        follows_nan=missing if missing.size else np.zeros(len(modes), np.bool_),
        met=children("nodes_truenodeids"),
        unmet=children("nodes_falsenodeids"),
    )
