"""Ensembles of trees that are walked by compiled code, against onnxruntime."""

from collections.abc import Iterator
from itertools import count
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import compiler
from compiler.errors import InputDataError, ModelError
from compiler.frontend.rules.classical import ML_DOMAIN
from compiler.program.classical.ensembles import Ensemble, TreeNodes
from compiler.program.classical.trees import TreeRegressor
from tests.program.checks import reference

MODES = ("LEQ", "LT", "GTE", "GT", "EQ", "NEQ")
NUMBERS = np.array([-np.inf, -1.5, -1e-45, 0.0, 0.1, 2.0, np.inf], np.float32)


class Node(NamedTuple):
    """A node of TreeEnsembleRegressor's attributes."""

    treeids: int
    nodeids: int
    featureids: int = 0
    values: float = 0.0
    modes: str = "LEAF"
    truenodeids: int = 0
    falsenodeids: int = 0
    missing_value_tracks_true: int = 0


class Vote(NamedTuple):
    """The vote of a leaf."""

    treeids: int
    nodeids: int
    ids: int
    weights: float


class Grown:
    """Random trees, most of them unbalanced, whose leaves vote for one of two targets."""

    def __init__(self, seed: int, trees: int):
        self.random = np.random.default_rng(seed)
        self.nodes: list[Node] = []
        self.votes: list[Vote] = []
        for tree in range(trees):
            self._grow(tree, 0, count())

    def _grow(self, tree: int, depth: int, free: Iterator[int]) -> int:
        """Append a node, then those below it; the number of the node in its tree."""
        own, at, random = next(free), len(self.nodes), self.random
        self.nodes.append(Node(tree, own))
        if depth == 9 or random.random() < 0.1 + 0.05 * depth:
            self.votes.append(Vote(tree, own, int(random.integers(2)), float(random.normal())))
            return own
        met, unmet = (self._grow(tree, depth + 1, free) for _ in range(2))
        mode, threshold = f"BRANCH_{random.choice(MODES)}", float(random.choice(NUMBERS))
        feature, nan = random.integers([3, 2]).tolist()
        self.nodes[at] = Node(tree, own, feature, threshold, mode, met, unmet, nan)
        return own

    @property
    def regressor(self) -> dict[str, Any]:
        """The attributes of a TreeEnsembleRegressor."""
        nodes = {f"nodes_{n}": [getattr(v, n) for v in self.nodes] for n in Node._fields}
        votes = {f"target_{n}": [getattr(v, n) for v in self.votes] for n in Vote._fields}
        return {**nodes, **votes, "n_targets": 2}

    def rows(self, rows: int, dtype: Any) -> np.ndarray:
        """Rows of which many numbers equal thresholds, or are NaN."""
        return self.random.choice(np.append(NUMBERS, np.nan), (rows, 3)).astype(dtype)


def model_of(op_type: str, dtype: Any, version: int, **attributes: Any) -> Any:
    """A model of one node of rows x with the output y."""
    node = helper.make_node(op_type, ["x"], ["y"], domain=ML_DOMAIN, **attributes)
    element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    result = element if op_type == "TreeEnsemble" else TensorProto.FLOAT
    x = helper.make_tensor_value_info("x", element, [None, 3])
    y = helper.make_tensor_value_info("y", result, [None, None])
    graph = helper.make_graph([node], "trees", [x], [y])
    imports = [helper.make_opsetid(ML_DOMAIN, version), helper.make_opsetid("", 18)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10**6),
    st.integers(1, 5),
    st.integers(1, 20),
    st.sampled_from([np.float32, np.float64]),
    st.sampled_from(["SUM", "AVERAGE", "MIN", "MAX"]),
)
def test_any_trees_vote_as_in_onnxruntime(
    seed: int, trees: int, rows: int, dtype: Any, function: str
):
    grown = Grown(seed, trees)
    attributes = grown.regressor
    x = grown.rows(rows, dtype)
    model = model_of("TreeEnsembleRegressor", dtype, 3, aggregate_function=function, **attributes)
    wanted = reference(model, {"x": x})["y"]
    (found,) = TreeRegressor({**attributes, "aggregate_function": function})(x)
    np.testing.assert_allclose(found, wanted, 1e-5, 1e-6)


def of_roots(grown: Grown, dtype: Any) -> dict[str, Any]:
    """The attributes of a TreeEnsemble: leaves have numbers of their own."""
    kept = [node for node in grown.nodes if node.modes != "LEAF"]
    inner = {node[:2]: number for number, node in enumerate(kept)}
    leaves = {vote[:2]: number for number, vote in enumerate(grown.votes)}
    modes = np.array([MODES.index(n.modes.removeprefix("BRANCH_")) for n in kept], np.uint8)
    children = {
        side: [(node.treeids, getattr(node, f"{side}nodeids")) for node in kept]
        for side in ("true", "false")
    }
    return {
        "tree_roots": [inner[node[:2]] for node in kept if node.nodeids == 0],
        "nodes_featureids": [node.featureids for node in kept],
        "nodes_splits": numpy_helper.from_array(np.array([n.values for n in kept], dtype)),
        "nodes_modes": numpy_helper.from_array(modes),
        "nodes_missing_value_tracks_true": [n.missing_value_tracks_true for n in kept],
        **{f"nodes_{side}leafs": [int(p in leaves) for p in c] for side, c in children.items()},
        **{
            f"nodes_{side}nodeids": [(leaves | inner)[p] for p in c] for side, c in children.items()
        },
        "leaf_targetids": [vote.ids for vote in grown.votes],
        "leaf_weights": numpy_helper.from_array(np.array([v.weights for v in grown.votes], dtype)),
        "n_targets": 2,
    }


def all_branch(grown: Grown) -> bool:
    """Whether no tree is a single leaf, which a TreeEnsemble writes in another way."""
    return all(node.modes != "LEAF" for node in grown.nodes if node.nodeids == 0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("function", range(4))
@pytest.mark.parametrize("transform", range(4))
def test_trees_by_their_roots_vote_as_in_onnxruntime(dtype: Any, function: int, transform: int):
    grown = next(filter(all_branch, (Grown(seed, 3) for seed in range(99))))
    attributes = of_roots(grown, dtype)
    model = model_of(
        "TreeEnsemble", dtype, 5, aggregate_function=function, post_transform=transform,
        **attributes,
    )  # fmt: skip
    x = grown.rows(11, dtype)
    found = compiler.compile(model).run({"x": x})["y"]
    of_onnxruntime = {1: 2, 2: 1}  # where 1 is LOGISTIC and 2 SOFTMAX, against ONNX's text
    (last,) = (a for a in model.graph.node[0].attribute if a.name == "post_transform")
    last.i = of_onnxruntime.get(transform, transform)
    wanted = reference(model, {"x": x})["y"]
    assert found.dtype == wanted.dtype
    np.testing.assert_allclose(found, wanted, 1e-5, 1e-6)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("nodes_truenodeids", 0, "a tree leads back to a node above"),
        ("nodes_featureids", -1, "a feature is negative"),
        ("nodes_values", np.nan, "a threshold is not a number"),
        ("target_ids", 2, "a leaf votes for one beyond its 2 classes or targets"),
        ("nodes_truenodeids", 999, "there is no node 999 of tree"),
    ],
)
def test_a_walk_that_would_not_end_or_leave_the_arrays_is_refused(
    name: str, value: float, message: str
):
    grown = Grown(3, 2)
    attributes = grown.regressor
    inner = (i for i, node in enumerate(grown.nodes) if node.nodeids and node.modes != "LEAF")
    attributes[name][next(inner)] = value
    with pytest.raises(ModelError, match=message):
        compiler.compile(model_of("TreeEnsembleRegressor", np.float32, 3, **attributes)).run(
            {"x": grown.rows(1, np.float32)}
        )


def test_a_branch_that_leads_back_to_itself_is_refused():
    grown = Grown(3, 2)
    attributes = grown.regressor
    at = next(i for i, node in enumerate(grown.nodes) if node.nodeids and node.modes != "LEAF")
    attributes["nodes_truenodeids"][at] = grown.nodes[at].nodeids
    with pytest.raises(ModelError, match="a tree leads back to a node above"):
        compiler.compile(model_of("TreeEnsembleRegressor", np.float32, 3, **attributes))


def ladder(nodes: int, last: int) -> Ensemble:
    """A tree in which each node leads to the next two, the last inner one to a node and a leaf."""
    numbers = np.arange(nodes)
    met, unmet = np.minimum(numbers + 1, nodes - 1), np.minimum(numbers + 2, nodes - 1)
    met[-2] = last
    none = np.zeros(nodes, np.int64)
    columns = (none, none.astype(np.float64), none, none.astype(bool), met, unmet)
    return Ensemble(
        TreeNodes(*columns), none[:1], np.zeros(nodes + 1, np.int64), none[:0], none[:0], 1
    )


def test_nodes_that_many_ways_lead_to_are_looked_at_once():
    # 2^10000 walks, and as many nodes in a level as levels before it
    assert ladder(20_000, 19_999).classes == 1
    with pytest.raises(ValueError, match="a tree leads back to a node above"):
        ladder(20_000, 7)


def test_rows_without_a_column_that_trees_read_are_refused():
    grown = Grown(3, 2)
    model = model_of("TreeEnsembleRegressor", np.float32, 3, **grown.regressor)
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_param = "columns"
    module = compiler.compile(model)
    with pytest.raises(InputDataError, match="the trees read 3 columns"):
        module.run({"x": grown.rows(4, np.float32)[:, :2]})
