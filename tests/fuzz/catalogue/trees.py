"""Ensembles of trees (ai.onnx.ml)."""

from typing import Any

import numpy as np
from onnx import TensorProto, helper

from tests.fuzz.catalogue.learned import (
    NUMBERS,
    TRANSFORMS,
    class_labels,
    eighths,
    rows,
    tensor,
    wild,
)
from tests.fuzz.draw import Draw
from tests.fuzz.hosted import ML, Hosted, generates_hosted, hosted

PARTS = (
    "treeids nodeids featureids values modes truenodeids falsenodeids missing_value_tracks_true"
).split()
MODES = ("LEQ", "LT", "GTE", "GT", "EQ", "NEQ")


class Forest:
    """Random trees: `nodes` as (tree, number, feature, value, mode, true, false, missing)."""

    def __init__(self, draw: Draw, columns: int):
        """Grow one to four trees; a tree may be a single leaf."""
        self.draw, self.columns = draw, columns
        self.nodes: list[list[Any]] = []
        self.modes = draw.choice([MODES, MODES[:1], MODES[1:2]])
        for tree in range(draw.randint(1, 4)):
            self._grow(tree, 0, [0])

    def _grow(self, tree: int, depth: int, free: list[int]) -> int:
        own, draw = free[0], self.draw
        free[0] += 1
        node = [tree, own, 0, 0.0, "LEAF", 0, 0, 0]
        self.nodes.append(node)
        if depth < 4 and not draw.chance(0.2 + 0.1 * depth):
            node[2:5] = (
                draw.randrange(self.columns),
                draw.choice(eighths(draw, 1)),
                draw.choice(self.modes),
            )
            node[5:8] = (
                self._grow(tree, depth + 1, free),
                self._grow(tree, depth + 1, free),
                draw.randint(0, 1),
            )
        return own

    def attributes(self, votes: str, count: int, tensors: Any) -> dict[str, Any]:
        """The attributes, with votes of each leaf for some of the classes or targets."""
        columns = zip(PARTS, zip(*self.nodes, strict=True), strict=True)
        found: dict[str, Any] = {f"nodes_{name}": [*column] for name, column in columns}
        found["nodes_modes"] = [m if m == "LEAF" else f"BRANCH_{m}" for m in found["nodes_modes"]]
        leaves = [node for node in self.nodes if node[4] == "LEAF"]
        some = self.draw.choice([1.0, 1.0, 0.6])
        cast = [(*leaves[0][:2], 0, 0.5)]
        cast += [
            (n[0], n[1], i, self.draw.randint(-8, 8) / 8)
            for n in leaves
            for i in range(count)
            if (n is not leaves[0] or i) and self.draw.chance(some)
        ]
        for i, name in enumerate(("treeids", "nodeids", "ids", "weights")):
            found[f"{votes}_{name}"] = [vote[i] for vote in cast]
        if tensors:
            for name in ("nodes_values", f"{votes}_weights"):
                found[f"{name}_as_tensor"] = tensor(found.pop(name), tensors)
        return found


def _forest(draw: Draw, op: str, votes: str, count: int) -> tuple[int, list[Any], dict[str, Any]]:
    """The opset, the runs and the attributes of trees."""
    version, columns = draw.choice([1, 3]), draw.randint(1, 4)
    dtypes = NUMBERS if votes == "class" else NUMBERS[:2]  # as many as onnxruntime has
    runs = wild(draw, rows(draw, columns, dtypes))
    double = version == 3 and runs[0][0].dtype == np.float64 and draw.chance(0.5)
    return version, runs, Forest(draw, columns).attributes(votes, count, double and np.float64)


@generates_hosted("TreeEnsembleRegressor")
def tree_targets(draw: Draw, op: str) -> Hosted:
    """Every way to aggregate."""
    targets = draw.randint(1, 3)
    version, runs, attributes = _forest(draw, op, "target", targets)
    double = "nodes_values_as_tensor" in attributes
    base = draw.choice([None, eighths(draw, targets)])
    if base:
        attributes |= (
            {"base_values_as_tensor": tensor(base, np.float64)} if double else {"base_values": base}
        )
    return hosted(
        op,
        runs,
        [TensorProto.FLOAT],
        version,
        domain=ML,
        n_targets=targets,
        aggregate_function=draw.choice([None, "SUM", "AVERAGE", "MIN", "MAX"]),
        post_transform=draw.choice([None, *TRANSFORMS]),
        **attributes,
    )


@generates_hosted("TreeEnsembleClassifier")
def tree_classes(draw: Draw, op: str) -> Hosted:
    """One to four classes."""
    classes = draw.choice([1, 2, 2, 3, 4])
    element, labels = class_labels(draw, classes, "classlabels_int64s")
    version, runs, attributes = _forest(draw, op, "class", classes)
    base = draw.choice([None, eighths(draw, classes)])
    if base and "nodes_values_as_tensor" not in attributes:
        attributes["base_values"] = base
    return hosted(
        op,
        runs,
        [element, TensorProto.FLOAT],
        version,
        domain=ML,
        post_transform=draw.choice([None, *TRANSFORMS]),
        **labels,
        **attributes,
    )


@generates_hosted("TreeEnsemble")
def tree_ensemble(draw: Draw, op: str) -> Hosted:
    """Trees by their roots, with nodes that ask for membership in a set."""
    dtype, columns, targets = (
        draw.choice(["float32", "float64"]),
        draw.randint(1, 3),
        draw.randint(1, 2),
    )
    inner: list[list[Any]] = []
    leaves: list[tuple[int, float]] = []
    sets: dict[int, list[int]] = {}
    most = draw.choice([5, 6])

    def grow(depth: int) -> tuple[int, int]:
        """The number of a node or leaf, and whether it is a leaf."""
        if depth and (depth == 4 or draw.chance(0.3)):
            leaves.append((draw.randrange(targets), draw.randint(-8, 8) / 8))
            return len(leaves) - 1, 1
        own, mode = len(inner), draw.randint(0, most)
        node = [draw.randrange(columns), draw.choice(eighths(draw, 1)), mode, draw.randint(0, 1)]
        inner.append(node)
        if mode == 6:
            sets[own] = draw.choices(range(-2, 3), k=draw.randint(1, 3))  # onnxruntime's are whole
        node += [*grow(depth + 1), *grow(depth + 1)]
        return own, 0

    roots = [grow(0)[0] for _ in range(draw.randint(1, 3))]
    runs = rows(draw, columns, [dtype])
    if sets and draw.chance(0.9):
        runs = [[np.trunc(x) for x in run] for run in runs]
    parts = [*zip(*inner, strict=True)]
    members = [number for own in sorted(sets) for number in (*sets[own], float("nan"))]
    return hosted(
        op,
        wild(draw, runs),
        [helper.np_dtype_to_tensor_dtype(np.dtype(dtype))],
        5,
        domain=ML,
        n_targets=targets,
        tree_roots=roots,
        aggregate_function=draw.choice([None, 0, 1, 2, 3]),
        post_transform=draw.choice([None, None, 0, 0, 3, 3, 1, 2, 4]),
        nodes_featureids=parts[0],
        nodes_splits=tensor(parts[1], dtype),
        nodes_modes=tensor(parts[2], np.uint8),
        nodes_missing_value_tracks_true=draw.choice([None, parts[3]]),
        nodes_truenodeids=parts[4],
        nodes_trueleafs=parts[5],
        nodes_falsenodeids=parts[6],
        nodes_falseleafs=parts[7],
        leaf_targetids=[leaf[0] for leaf in leaves],
        leaf_weights=tensor([leaf[1] for leaf in leaves], dtype),
        membership_values=tensor(members, dtype) if members else None,
    )
