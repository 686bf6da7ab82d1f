"""Rows of Q and columns of K that attention divides by their norms, and those divided before."""

import numpy as np
import pytest

from compiler.frontend.importing import import_model
from compiler.graph.attention import Attention, find_attentions
from compiler.graph.network import read_network
from compiler.graph.targets import set_target
from compiler.ir.edit import graphs_of
from compiler.passes.pipeline import parse
from compiler.passes.runner import Runner
from tests.frontend.checks import parse as parse_model

CONSTANTS = {
    "last": np.array([2]), "rows": np.array([1]), "floor": np.float32(1e-6),
    "ceiling": np.float32(7), "two": np.float32(2), "three": np.array([3], np.float32),
    "whole": np.array([2, 4, 4]), "most": np.finfo("float32").max,
}  # fmt: skip

NORMS = {
    "a plain one": ("n = ReduceL2 (q, last) u = Div (q, n)", 0.0),
    "a Clip": ("n = ReduceL2 (q, last) c = Clip (n, floor) u = Div (q, c)", 1e-6),
    "a Max": ("n = ReduceL2 (q, last) c = Max (n, floor) u = Div (q, c)", 1e-6),
    "two floors": (
        "n = ReduceL2 (q, last) c = Max (n, two) e = Expand (c, whole) d = Clip (e, floor)"
        " u = Div (q, d)", 2.0,
    ),
    "a factor after": ("n = ReduceL2 (q, last) d = Div (q, n) u = Mul (d, two)", 0.0),
    "of another value": ("n = ReduceL2 (v, last) u = Div (q, n)", None),
    "of another axis": ("n = ReduceL2 (q, rows) u = Div (q, n)", None),
    "of all": ("n = ReduceL2 (q) u = Div (q, n)", None),
    "a ceiling": ("n = ReduceL2 (q, last) c = Clip (n, floor, ceiling) u = Div (q, c)", None),
    "a factor of the norm": ("n = ReduceL2 (q, last) c = Mul (n, two) u = Div (q, c)", None),
    "another norm": ("n = ReduceL1 (q, last) u = Div (q, n)", None),
}  # fmt: skip
"""How q becomes the left operand `u`, and the floor of its norms; None if it is divided before."""


def attention_in(text: str) -> Attention:
    """The only attention of a graph."""
    graph = f"g (float[2,4,4] q, float[2,4,4] k, float[2,4,4] v) => (float[2,4,4] y) {{ {text} }}"
    module = import_model(parse_model(graph, 20, **CONSTANTS), None, False).module
    set_target(module, "cuda:sm_90:fp16")
    Runner().run(module, parse("canonicalize"))
    (found,) = find_attentions(read_network(graphs_of(module)[-1]))
    return found


def norm_floors(text: str) -> tuple[float | None, ...]:
    """The floors of Q and K of the only attention of a graph."""
    found = attention_in(text)
    return found.query.norm_floor, found.key.norm_floor


def test_the_largest_number_is_no_ceiling():
    text = "n = ReduceL2 (q, last) c = Clip (n, floor, most) u = Div (q, c)"
    assert norm_floors(text + REST.format("u, k")) == (pytest.approx(1e-6), None)


REST = " s = MatMul ({}) w = Softmax <axis = -1> (s) y = MatMul (w, v)"


@pytest.mark.parametrize("norm", NORMS)
def test_norms_of_rows(norm: str):
    text, floor = NORMS[norm]
    expected = None if floor is None else pytest.approx(floor)
    assert norm_floors(text + REST.format("u, k")) == (expected, None)


@pytest.mark.parametrize(("axis", "found"), [("rows", True), ("last", False)])
def test_norms_of_keys(axis: str, found: bool):
    text = f"n = ReduceL2 (k, {axis}) u = Div (k, n)" + REST.format("q, u")
    assert norm_floors(text) == (None, 0.0 if found else None)


@pytest.mark.parametrize(
    "before", ["h = Mul (q, two)", "m = ReduceL2 (q, last) h = Div (q, m)"], ids=["factor", "norm"]
)
def test_what_is_divided_after_a_factor_or_a_norm_is_read(before: str):
    """A factor would cancel but for the floor: it is none of the scores."""
    text = before + " n = ReduceL2 (h, last) u = Div (h, n)" + REST.format("u, k")
    query = attention_in(text).query
    assert (query.factor, query.norm_floor, len(query.operators)) == (1.0, 0.0, 2)
