"""The attentions that the search counts as one kernel."""

import numpy as np
import pytest

from compiler.autotune.substitution.costs import TermCosts
from compiler.autotune.substitution.kernels import KernelCosts
from compiler.frontend.importing import import_model
from compiler.graph.rewriting.dataflow import read_terms
from compiler.graph.rewriting.terms import RESULT, Graph, Term, Terms, reachable
from compiler.graph.targets import set_target
from compiler.ir.dataflow import GraphOp
from compiler.ir.edit import graphs_of
from compiler.passes.pipeline import parse
from compiler.passes.runner import Runner
from compiler.rewrite.search.kernels import attentions_of, kernels_of
from compiler.target.target import parse_gpu
from tests.frontend.checks import parse as parse_model

TARGET = parse_gpu("cuda:sm_90:fp16")


def graph_of(text: str, shape: str = "1,8,12") -> Graph:
    """The terms of an ONNX graph of one input."""
    return read(imported(text, shape))


def read(graph: GraphOp) -> Graph:
    """The terms of a graph."""
    return read_terms(graph, Terms()).graph


def imported(text: str, shape: str = "1,8,12") -> GraphOp:
    """An ONNX graph of one input."""
    weights = {
        "heads": np.array([1, 8, 2, 2]),
        "flat": np.array([1, 8, 4]),
        "c": np.array(0.5, np.float32),
        "w": np.ones((4, 12), np.float32),
        "mask": np.ones((8, 8), np.float32),
        **{f"{name}{at}": np.array([at]) for name in ("f", "t") for at in (0, 2, 3, 4, 8, 12)},
    }
    model = parse_model(f"g (float[{shape}] x) => (float[1,8,4] y) {{ {text} }}", 21, **weights)
    module = import_model(model, None, False).module
    Runner().run(module, parse("canonicalize"))
    set_target(module, str(TARGET))
    (graph,) = graphs_of(module)
    return graph


def found_in(graph: Graph) -> dict[Term, tuple[Term, ...]]:
    """The attentions of a graph."""
    return attentions_of(graph, reachable(graph))


SPLIT = "p, q, r = Split<axis=2, num_outputs=3>(x)"
SLICED = """p = Slice(x, f0, f4, t2) q = Slice(x, f4, f8, t2) r = Slice(x, f8, f12, t2)"""
ATTENTION = """
    a = Reshape(p, heads) b = Reshape(q, heads) d = Reshape(r, heads)
    k = Transpose<perm=[0,2,1,3]>(a) l = Transpose<perm=[0,2,3,1]>(b)
    v = Transpose<perm=[0,2,1,3]>(d)
    m = MatMul(k, l) n = Mul(m, c) o = Add(n, mask) s = Softmax<axis=-1>(o) z = MatMul(s, v)
    u = Transpose<perm=[0,2,1,3]>(z) y = Reshape(u, flat)"""


@pytest.mark.parametrize("parts", [SPLIT, SLICED], ids=["split", "sliced"])
def test_an_attention_is_one_kernel_with_the_layouts_of_its_operands_and_result(parts: str):
    graph = graph_of(parts + ATTENTION)
    ((last, members),) = found_in(graph).items()
    assert last is members[-1] is graph[0]
    kinds = [term.node.type for term in members]
    assert [kind for kind in kinds if kind in ("MatMul", "Mul", "Add", "Softmax")] == [
        "MatMul",
        "Mul",
        "Add",
        "Softmax",
        "MatMul",
    ]
    assert kinds.count("Transpose") == 4
    assert ("Split" in kinds) == (parts is SPLIT)
    (kernel,) = kernels_of(graph)
    assert kernel.members == members
    assert kernel.after == ()


def test_rounded_weights_and_results_are_inside():
    rounded = ATTENTION.replace("MatMul(s, v)", "MatMul(j, v) i = Round(z)")
    rounded = rounded.replace(" z =", " h = Mul(s, c) j = Round(h) z =").replace(">(z)", ">(i)")
    ((last, members),) = found_in(graph_of(SPLIT + rounded)).items()
    assert last is members[-1]
    assert [term.node.type for term in members].count("Round") == 2


def test_views_of_scores_and_weights_are_inside():
    viewed = ATTENTION.replace("o = Add(n,", "e = Unsqueeze(n, f2) o = Add(e,")
    viewed = viewed.replace("z = MatMul(s,", "g = Squeeze(s, f2) z = MatMul(g,")
    ((last, members),) = found_in(graph_of(SPLIT + viewed)).items()
    assert last is members[-1]
    assert [term.node.type for term in members].count("MatMul") == 2


def test_divisions_by_norms_are_inside():
    cosine = ATTENTION.replace("m = MatMul(k, l)", "i = Div(k, e) m = MatMul(i, l)")
    cosine = cosine.replace("i =", "g = ReduceL2(k, f2) e = Clip(g, c) i =").replace("f2", "f3")
    ((last, members),) = found_in(graph_of(SPLIT + cosine)).items()
    kinds = [term.node.type for term in members]
    assert last is members[-1]
    assert {"Div", "Clip", "ReduceL2"} < {*kinds}
    assert kinds.count("Transpose") == 4


@pytest.mark.parametrize(
    ("change", "left"),
    [
        (("Softmax<axis=-1>", "Softmax<axis=2>"), "Softmax"),
        (("MatMul(s, v)", "MatMul(v, s)"), "Softmax"),
        (("Softmax<axis=-1>(o)", "Softmax<axis=-1>(m)"), ""),
    ],
)
def test_what_is_not_an_attention_has_its_own_kernels(change: tuple[str, str], left: str):
    text = ATTENTION.replace(*change)
    if "MatMul(v, s)" in text:
        text = text.replace("v = Transpose<perm=[0,2,1,3]>", "v = Transpose<perm=[0,2,3,1]>")
        text = text.replace("u = Transpose<perm=[0,2,1,3]>", "u = Transpose<perm=[0,3,1,2]>")
    found = found_in(graph_of(SPLIT + text))
    assert bool(found) == (not left)


def test_results_of_a_split_that_others_read_are_not_absorbed_without_it():
    """The kernel is estimated from its members: a result without its operator has no meaning."""
    text = SPLIT + ATTENTION.replace("y = Reshape(u, flat)", "i = Reshape(u, flat) y = Add(i, p)")
    like = imported(text)
    graph = read_terms(like, Terms()).graph
    ((_, members),) = found_in(graph).items()
    for member in members:
        assert member.node.type != RESULT or member.node.inputs[0] in members
    costs = TermCosts(like, KernelCosts(TARGET))
    assert all(costs.kernel(kernel).time > 0 for kernel in kernels_of(graph))


def test_operands_that_others_read_are_not_absorbed():
    text = SPLIT + ATTENTION.replace("y = Reshape(u, flat)", "i = Reshape(u, flat) y = Add(i, p)")
    graph = graph_of(text)
    ((_, members),) = found_in(graph).items()
    assert "Split" not in [term.node.type for term in members]
    kinds = [kernel.term.node.type for kernel in kernels_of(graph)]
    assert kinds[0] == "Split"
    assert len(kinds) == 2
    assert kernels_of(graph)[1].after == (0,)


def test_an_attention_waits_for_the_projection():
    graph = graph_of("h = MatMul(x, w) " + SPLIT.replace("(x)", "(h)") + ATTENTION, "1,8,4")
    first, second = kernels_of(graph)
    assert (first.term.node.type, second.after) == ("MatMul", (0,))
    assert second.members
