"""Costs of graphs and simulated times of candidates, without a device."""

import numpy as np
import pytest
from xdsl.ir import SSAValue

from compiler.autotune.substitution.costs import TermCosts, chains
from compiler.autotune.substitution.kernels import NO_DEMAND, KernelCosts
from compiler.autotune.substitution.model import SimulatedTimes
from compiler.graph.rewriting.dataflow import module_of
from compiler.graph.rewriting.terms import RESULT, Term, reachable
from compiler.graph.targets import set_target
from compiler.ir.edit import graphs_of
from compiler.rewrite.search.cost_model import POLICIES
from compiler.rewrite.search.kernels import TermKernel, critical_time, kernels_of
from compiler.target.target import parse_gpu
from tests.apply_passes import graph_of
from tests.graphs import GraphBuilder
from tests.rewrite.search.crafted import read, repvgg
from tests.strategies import Model

TARGET = "cuda:sm_90:fp16"


@pytest.fixture(scope="module")
def kernels() -> KernelCosts:
    """Estimates that the tests share."""
    return KernelCosts(parse_gpu(TARGET))


def prepared(model: Model) -> tuple[Model, list[Term]]:
    """A model for the GPU, and its operators."""
    set_target(model.module, TARGET)
    _, found = read(model)
    return model, [t for t in reachable(found.graph) if t.node.inputs and t.node.type != RESULT]


def branches(count: int) -> Model:
    """Chains of two convolutions of one image."""
    build = GraphBuilder()
    x = build.input("x0", (1, 32, 8, 8))
    ends: list[SSAValue] = []
    for branch in range(count):
        value = x
        for _ in range(2):
            w = build.weight(np.full((32, 32, 3, 3), branch, np.float32))
            value = build.op("Conv", value, w, shape=(1, 32, 8, 8), pads=[1] * 4)
        ends.append(value)
    return Model(build.finish(*ends), build.weights, {})


def test_the_kernel_of_an_operator_has_a_demand_and_a_view_none(kernels: KernelCosts):
    build = GraphBuilder()
    x = build.input("x0", (1, 16, 8, 8))
    w = build.weight(np.ones((16, 16, 3, 3), np.float32))
    conv = build.op("Conv", x, w, shape=(1, 16, 8, 8), pads=[1] * 4)
    pooled = build.op("MaxPool", conv, shape=(1, 16, 4, 4), kernel_shape=[2, 2], strides=[2, 2])
    flat = build.op("Reshape", pooled, build.constant([1, 256], "int64"), shape=(1, 256))
    model, terms = prepared(Model(build.finish(flat), build.weights, {}))
    costs = TermCosts(graph_of(model), kernels)
    found = {term.node.type: costs.demand(term) for term in terms}
    assert found["Conv"].time > found["MaxPool"].time > 0
    assert found["Conv"].blocks > 0
    assert found["Reshape"] == NO_DEMAND


def test_operators_of_several_results_and_of_weights_alone_have_a_demand(kernels: KernelCosts):
    build = GraphBuilder()
    x, w = build.input("x0", (2, 6)), build.weight(np.ones((3, 4), np.float32))
    sizes = build.constant([2, 4], "int64")
    parts = build.split("Split", [x, sizes], [(2, 2), (2, 4)], axis=1)
    results = [build.op("Relu", value) for value in (*parts, w)]
    model, terms = prepared(Model(build.finish(*results), build.weights, {}))
    costs = TermCosts(graph_of(model), kernels)
    for policy in POLICIES:
        assert costs.cost(policy, 0.25)(read(model)[1].graph) > 0
    of_weight = [term for term in terms if term.node.type == "Relu" and term.shape == (3, 4)]
    assert costs.demand(of_weight[0]).time > 0


def test_a_kernel_whose_template_has_no_model_takes_time(kernels: KernelCosts):
    """A GEMV and a LayerNormalization."""
    build = GraphBuilder()
    x = build.input("x0", (1, 64))
    rows = build.op("MatMul", x, build.weight(np.ones((64, 64), np.float32)), shape=(1, 64))
    scale = build.weight(np.ones((64,), np.float32))
    y = build.op("LayerNormalization", rows, scale, shape=(1, 64), axis=-1)
    model, terms = prepared(Model(build.finish(y), build.weights, {}))
    costs = TermCosts(graph_of(model), kernels)
    assert len(terms) == 2
    assert min(costs.demand(term).time for term in terms) > 500


def test_policies_count_sums_paths_and_makespans(kernels: KernelCosts):
    model, _ = prepared(branches(4))
    graph = read(model)[1].graph
    costs = TermCosts(graph_of(model), kernels)
    counted = kernels_of(graph)
    times = [costs.demand(kernel.term).time for kernel in counted]
    assert len(counted) == 8
    assert costs.cost("taso", 0.25)(graph) == sum(times)
    path = critical_time(counted, times)
    assert costs.cost("autograph", 0.25)(graph) == pytest.approx(sum(times) + path / 4)
    assert path == sum(times) / 4
    assert path <= costs.cost("makespan", 0.25)(graph) < sum(times)


def test_chains_are_streams():
    after = [(), (), (0,), (1,), (2, 3), (2,)]
    assert chains([TermKernel(None, a) for a in after]) == [0, 1, 0, 1, 0, 5]  # pyright: ignore[reportArgumentType]


def test_candidates_are_simulated_on_streams():
    model, _ = prepared(branches(4))
    judge = SimulatedTimes(parse_gpu(TARGET))
    chain, _ = prepared(repvgg(1, 32, "float32"))
    graphs = {"first": model, "again": model, "other": chain}
    modules = {name: module_of(read(g)[1].graph, graph_of(g)) for name, g in graphs.items()}
    first, again, other = judge.simulated(modules).values()
    assert first == again > 0
    assert other > 0
    (graph,) = graphs_of(modules["first"])
    assert first < sum(judge.kernels.demand(group).time for group in graph.groups)


def test_a_graph_without_kernels_takes_no_time():
    build = GraphBuilder()
    x = build.input("x0", (2, 3))
    y = build.op("Reshape", x, build.constant([6], "int64"), shape=(6,))
    model, _ = prepared(Model(build.finish(y), {}, {}))
    judge = SimulatedTimes(parse_gpu(TARGET))
    assert judge.cost("makespan", 0.0, graph_of(model))(read(model)[1].graph) == 0
    assert judge.time(module_of(read(model)[1].graph, graph_of(model))) >= 0


def test_without_a_cache_nothing_is_recalled():
    judge = SimulatedTimes(parse_gpu(TARGET))
    judge.remember("question", "text")
    assert judge.recall("question") is None
