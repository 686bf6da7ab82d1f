"""A graph with symbols is, for all sizes that meet its conditions, the graph of these sizes."""

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from compiler.errors import FlowloomError, ShapeError
from compiler.net.graph import Graph
from compiler.program.interpreted import InterpretedGraph
from compiler.tensors.extents import Undecided
from tests.fuzz.case import Case
from tests.fuzz.graphs import random_graph, random_node
from tests.fuzz.sizes import opened
from tests.program.symbolic.graphs import (
    Sizes,
    SymbolicGraph,
    graph_at,
    lines_of,
    numeric_graph,
    read,
    symbolic_graph,
)

EXPORTS = Path(__file__).parents[3] / "examples" / "exports"
MOST_SIZES = 4


def sizes_that_fit(symbolic: SymbolicGraph, hints: Sizes, seed: int) -> list[Sizes]:
    """The example sizes and some others that meet the conditions."""
    chosen, found = random.Random(seed), [hints]
    for _ in range(40):
        sizes = {
            name: max(2, chosen.choice([n, n + 1, n - 1, 2 * n, chosen.randint(2, 9)]))
            if name in symbolic.symbols
            else n
            for name, n in hints.items()
        }
        if sizes not in found and symbolic.assumptions.hold(sizes):
            found.append(sizes)
    return found[:MOST_SIZES]


def compute_the_same(first: Graph, second: Graph, seed: int) -> bool:
    """Whether two graphs give the same for random inputs; not operators of random results."""
    numbers = np.random.default_rng(seed)
    feeds = {
        value.name: numbers.integers(0, 2, value.shape).astype(value.dtype)
        if "float" not in value.dtype
        else numbers.uniform(-2, 2, value.shape).astype(value.dtype)
        for value in first.inputs
    }
    results, others = (InterpretedGraph(graph).run(feeds) for graph in (first, second))
    return all(
        array.shape == others[name].shape
        and np.allclose(array.astype(float), others[name].astype(float), 1e-4, 1e-5, True)
        for name, array in results.items()
    )


def check(model: onnx.ModelProto, hints: Sizes, seed: int) -> int:
    """Compare the graphs at several sizes; how many there were."""
    source = read(model)
    symbolic = symbolic_graph(source, hints)
    if symbolic.obstacles:
        return 0
    every = sizes_that_fit(symbolic, hints, seed)
    for sizes in every:
        numeric, obstacles = numeric_graph(source, sizes)
        assert not obstacles
        found = graph_at(symbolic.graph, sizes)
        # what is constant for numbers only may be rewritten in ways that an operator is not
        assert lines_of(found) == lines_of(numeric) or compute_the_same(numeric, found, seed), sizes
    return len(every)


def one_node(seed: int, target: str) -> Case | None:
    """A model of one node."""
    return random_node(seed, target, 0.3, "node")


@pytest.mark.parametrize(("kind", "seeds"), [(one_node, 300), (random_graph, 30)])
def test_a_random_graph_with_symbols_is_that_of_each_size(
    kind: Callable[[int, str], Case | None], seeds: int
):
    several = 0
    for seed in range(seeds):
        case = kind(seed, "cpu")
        if case is None:
            continue
        model, hints = opened(case.proto)
        try:
            if numeric_graph(read(model), hints)[1]:
                continue
        except FlowloomError:
            continue
        try:
            several += check(model, hints, seed) > 1
        except Undecided:
            continue
    assert several > seeds // 4


@pytest.mark.parametrize("name", ["bert", "bert_dynamic", "bert_dynamo"])
def test_an_export_has_one_graph_for_all_sizes(name: str):
    model = onnx.load_model_from_string((EXPORTS / f"{name}.onnx").read_bytes())
    assert check(model, {"batch": 3, "length": 23}, 0) == MOST_SIZES


@pytest.mark.parametrize("name", ["bert", "bert_dynamic", "bert_dynamo"])
def test_the_conditions_of_a_bert_leave_its_sizes_open(name: str):
    source = read(onnx.load_model_from_string((EXPORTS / f"{name}.onnx").read_bytes()))
    symbolic = symbolic_graph(source, {"batch": 3, "length": 23})
    assert len([*symbolic.assumptions]) < 8
    holds = symbolic.assumptions.hold
    assert all(holds({"batch": b, "length": n}) for b in (2, 3, 32, 64) for n in range(2, 65))
    assert not holds({"batch": 2, "length": 65}), "there are 64 embeddings of positions"
    assert not holds({"batch": 2**25, "length": 2}), "32 bits do not index that"


TABLE = """<ir_version: 10, opset_import: ["": 21]>
    g (float[batch, length] x) => (float[a, b, 4] y) {
    one = Constant <value = int64 {1}> ()
    zero = Constant <value = int64 {0}> ()
    shape = Shape(x)
    length = Gather(shape, one)
    count = Range(zero, length, one)
    moved = Add(count, one)
    axes = Constant <value = int64[1] {2}> ()
    rows = Gather(table, moved)
    wide = Unsqueeze(x, axes)
    y = Add(wide, rows) }"""


def test_a_size_at_which_an_index_is_out_of_range_does_not_meet_the_conditions():
    model = onnx.parser.parse_model(TABLE)
    table = np.arange(80, dtype="f4").reshape(20, 4)
    model.graph.initializer.append(numpy_helper.from_array(table, "table"))
    assert check(model, {"batch": 3, "length": 9}, 0) > 1
    source = read(model)
    symbolic = symbolic_graph(source, {"batch": 3, "length": 9})
    assert symbolic.assumptions.hold({"batch": 3, "length": 19})
    assert not symbolic.assumptions.hold({"batch": 3, "length": 20})
    numeric_graph(source, {"batch": 3, "length": 19})
    with pytest.raises(ShapeError, match="20, which is outside"):
        numeric_graph(source, {"batch": 3, "length": 20})
