"""The kernels that the search counts, against those that fusion makes."""

import pytest
from hypothesis import given, settings

from compiler.frontend.importing import import_model
from compiler.graph.cost import roofline_of
from compiler.graph.rewriting.dataflow import read_terms
from compiler.graph.rewriting.terms import Terms
from compiler.graph.targets import set_target, target_of
from compiler.ir.edit import graphs_of
from compiler.passes.pipeline import default_pipeline, parse, split_phases
from compiler.passes.runner import Runner
from compiler.rewrite.search.kernels import critical_time, kernels_of, mixed_cost
from examples import zoo
from tests.graphs import GraphBuilder
from tests.rewrite.search.crafted import read, repvgg
from tests.strategies import Model, dataflow_graphs


@pytest.mark.parametrize(
    ("network", "more"),
    [("googlenet", 0), ("resnet50", 0), ("skresnet34", 0.12), ("distilbert", 0.02)],
)
def test_as_many_as_fusion_makes_of_a_network(network: str, more: float):
    """Fusion may make fewer: it puts a Mul before the reduction that reads it.

    Of these skresnet34 has 16, and 135 kernels.
    """
    module = import_model(zoo.load(network), None, False).module
    set_target(module, "cuda:sm_90:fp16")
    passes, _ = split_phases(parse(default_pipeline()))
    place = [step.name for step in passes].index("substitute")
    Runner(verified=False).run(module, passes[:place])
    (graph,) = graphs_of(module)
    few_terms = roofline_of(target_of(graph)).few_terms
    counted = len(kernels_of(read_terms(graph, Terms()).graph, few_terms))
    Runner(verified=False).run(module, passes[place + 1 :])
    (graph,) = graphs_of(module)
    made = len(list(graph.groups))
    assert made <= counted <= (1 + more) * made


@settings(deadline=None, max_examples=60)
@given(dataflow_graphs())
def test_kernels_wait_for_earlier_ones_only(model: Model):
    _, found = read(model)
    kernels = kernels_of(found.graph)
    for number, kernel in enumerate(kernels):
        assert list(kernel.after) == sorted(set(kernel.after))
        assert all(0 <= before < number for before in kernel.after)


def test_views_cost_nothing_and_pass_on_what_they_wait_for():
    build = GraphBuilder()
    x = build.input("x0", (1, 4, 4, 4))
    one = build.op("MaxPool", x, shape=(1, 4, 2, 2), kernel_shape=[2, 2], strides=[2, 2])
    two = build.op("AveragePool", x, shape=(1, 4, 2, 2), kernel_shape=[2, 2], strides=[2, 2])
    both = build.op("Concat", one, two, shape=(1, 8, 2, 2), axis=1)
    flat = build.op("Reshape", both, build.constant([1, 32], "int64"), shape=(1, 32))
    last = build.op("ReduceSum", flat, build.constant([1], "int64"), shape=(1, 1))
    _, found = read(Model(build.finish(last), {}, {}))
    kernels = kernels_of(found.graph)
    assert [kernel.term.node.type for kernel in kernels] == ["MaxPool", "AveragePool", "ReduceSum"]
    assert kernels[-1].after == (0, 1)


def test_a_concat_along_an_inner_axis_is_a_kernel():
    build = GraphBuilder()
    x = build.input("x0", (2, 4))
    pair = [build.op(kind, x, axis=-1) for kind in ("Softmax", "LogSoftmax")]
    both = build.op("Concat", *pair, shape=(2, 8), axis=1)
    _, found = read(Model(build.finish(both), {}, {}))
    assert [kernel.term.node.type for kernel in kernels_of(found.graph)][-1] == "Concat"


def test_a_reduction_of_few_terms_is_computed_by_the_one_that_alone_reads_it():
    build = GraphBuilder()
    x = build.input("x0", (2, 4, 2, 64))
    pairs = build.op("ReduceSum", x, shape=(2, 4, 64), axes=[2], keepdims=0)
    fours = build.op("ReduceMax", pairs, shape=(2, 64), axes=[1], keepdims=0)
    last = build.op("ReduceSum", fours, shape=(2,), axes=[1], keepdims=0)
    graph = read(Model(build.finish(last), {}, {}))[1].graph

    def found(few_terms: int) -> list[tuple[str, int, int]]:
        kernels = kernels_of(graph, few_terms)
        return [(kernel.term.node.type, kernel.fused, kernel.nbytes) for kernel in kernels]

    assert found(1) == [("ReduceSum", 0, 0), ("ReduceMax", 0, 0), ("ReduceSum", 0, 0)]
    assert found(7) == [("ReduceMax", 1, 4 * (1024 - 512)), ("ReduceSum", 0, 0)]
    assert found(8) == [("ReduceSum", 2, 4 * (1024 - 128))]
    both = kernels_of((*graph, graph[0].operands[0]), 8)
    assert [kernel.term.node.type for kernel in both] == ["ReduceMax", "ReduceSum"]


def test_a_sum_is_fused_with_the_later_convolution_and_waits_for_the_other():
    _, found = read(repvgg(1))
    kernels = kernels_of(found.graph)
    assert [kernel.term.node.type for kernel in kernels] == ["Conv", "Conv"]
    assert kernels[1].after == (0,)


def test_costs():
    _, found = read(repvgg(2))
    kernels, times = kernels_of(found.graph), [1.0, 2.0, 4.0, 8.0]
    assert [kernel.after for kernel in kernels] == [(), (0,), (1,), (1, 2)]
    assert critical_time(kernels, times) == 15
    assert mixed_cost(kernels, times, 0.25) == 15 + 15 / 4
    assert mixed_cost(kernels, times, 0.0) == 15
    assert mixed_cost([], [], 1.0) == 0
