"""Small graphs of terms that the tests of the search share."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compiler.graph.rewriting.dataflow import ReadGraph, read_terms
from compiler.graph.rewriting.terms import Graph, Term, Terms
from compiler.net.operators import KINDS, Kind
from compiler.rewrite.search.blocks import operators_of
from tests.apply_passes import graph_of
from tests.graphs import GraphBuilder
from tests.strategies import Model


def weight(*shape: int, seed: int = 0) -> NDArray[Any]:
    """Small random numbers."""
    return 0.3 * np.random.default_rng(seed).standard_normal(shape)


def repvgg(blocks: int = 1, channels: int = 4, dtype: str = "float64", batch: int = 1) -> Model:
    """Blocks of RepVGG: a convolution, a pointwise one and the input itself are added."""
    build = GraphBuilder()
    shape = (batch, channels, 6, 6)
    value = build.input("x0", shape, dtype)
    for block in range(blocks):
        sizes = ((3, 1), (1, 0))
        branches = [
            build.op(
                "Conv",
                value,
                build.weight(weight(channels, channels, k, k, seed=3 * block + k).astype(dtype)),
                shape=shape,
                pads=[pad] * 4,
                kernel_shape=[k, k],
            )
            for k, pad in sizes
        ]
        total = build.op("Add", build.op("Add", *branches), value)
        value = build.op("Relu", total)
    data = np.random.default_rng(9).standard_normal(shape).astype(dtype)
    return Model(build.finish(value), build.weights, {"x0": data})


def chain(kinds: Sequence[str], shape: Sequence[int] = (1, 4)) -> Model:
    """Operators of one operand, one after another."""
    build = GraphBuilder()
    value = build.input("x0", shape)
    for kind in kinds:
        value = build.op(kind, value)
    return Model(build.finish(value), {}, {"x0": np.ones(shape, np.float32)})


def read(model: Model) -> tuple[Terms, ReadGraph]:
    """The terms of a model."""
    terms = Terms()
    return terms, read_terms(graph_of(model), terms)


def operators(graph: Graph) -> float:
    """A cost that adds up over operators: one for each, ten for a contraction."""
    return float(sum(map(_weight_of, operators_of(graph))))


def _weight_of(term: Term) -> int:
    return 10 if KINDS.get(term.node.type) is Kind.CONTRACTION else 1
