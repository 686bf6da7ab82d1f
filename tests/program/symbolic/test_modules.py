"""The IR with symbols: passes decide as for the example sizes, and the result holds for others."""

from collections.abc import Callable, Iterable
from pathlib import Path

import onnx
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from compiler.driver.settings import SUBSTITUTE
from compiler.driver.symbolic import PLAN_MEMORY
from compiler.errors import FlowloomError
from compiler.frontend.importing.model import emitted
from compiler.graph.signature import signature
from compiler.graph.targets import set_target
from compiler.ir.context import parse_module
from compiler.ir.edit import graphs_of
from compiler.ir.taskflow_memory import ViewOp
from compiler.kernels.group import extract_group
from compiler.passes.pipeline import DEFAULT_PIPELINE, parse, split_phases, without_pass
from compiler.passes.runner import Runner, verify
from compiler.program.folding import folded
from compiler.tensors.assumptions import Assumptions, assuming
from compiler.tensors.extents import Undecided, terms_of
from compiler.tensors.substitution import has_symbols
from tests.fuzz.case import Case
from tests.fuzz.graphs import random_graph
from tests.fuzz.sizes import opened
from tests.lowered import lowered
from tests.program.symbolic.graphs import (
    Sizes,
    SymbolicGraph,
    numeric_graph,
    read,
    symbolic_graph,
)
from tests.program.symbolic.test_graphs import EXPORTS, one_node, sizes_that_fit
from tests.program.symbolic.texts import text_at, without_hashes

GRAPH_PASSES, _ = split_phases(parse(DEFAULT_PIPELINE))
UNSUBSTITUTED = without_pass(DEFAULT_PIPELINE, SUBSTITUTE)
BERTS = ["bert", "bert_dynamic", "bert_dynamo"]
HINTS = {"batch": 3, "length": 23}


def exported(name: str, hints: Sizes = HINTS) -> SymbolicGraph:
    """The graph with symbols of an export."""
    path: Path = EXPORTS / f"{name}.onnx"
    return symbolic_graph(read(onnx.load_model_from_string(path.read_bytes())), hints)


def imported(graph: SymbolicGraph, target: str = "cpu") -> ModuleOp:
    """The module of a graph for a target."""
    module = lowered(emitted(folded(graph.graph).graph)).module
    set_target(module, target)
    return module


def in_turn(
    module: ModuleOp, numbers: ModuleOp, passes: Iterable[ModulePass], hints: Sizes
) -> str | None:
    """Run passes on a module with symbols, and on the one for the example sizes.

    The name of the first pass after which they differ, if any.
    """
    different = None
    for step in passes:
        Runner(each=True).run(module, [step])
        Runner(each=True).run(numbers, [step])
        texts = (text_at(str(module), hints), str(numbers))
        first, second = map(without_hashes, texts)
        if different is None and first != second:
            different = step.name
    return different


@pytest.mark.parametrize("name", BERTS)
def test_passes_decide_as_for_the_example_sizes(name: str):
    graph = exported(name)
    with assuming() as assumptions:
        module = imported(graph)
        numbers = parse_module(text_at(str(module), HINTS))
        assert in_turn(module, numbers, GRAPH_PASSES, HINTS) is None
    assert not assumptions.pinned()
    holds = assumptions.hold
    assert all(holds({"batch": b, "length": n}) for b in (2, 3, 32, 64) for n in range(2, 65))
    for sizes in sizes_that_fit(graph, HINTS, 0):
        verify(parse_module(text_at(str(module), sizes)))


def test_passes_for_a_gpu_decide_as_for_the_example_sizes():
    """All but substitutions, which compare graphs of numbers."""
    graph, (steps, _) = exported("bert"), split_phases(parse(UNSUBSTITUTED))
    with assuming() as assumptions:
        module = imported(graph, "cuda:sm_90:fp16")
        numbers = parse_module(text_at(str(module), HINTS))
        assert in_turn(module, numbers, steps, HINTS) is None
    holds = assumptions.hold
    assert all(holds({"batch": b, "length": n}) for b in (2, 3, 32, 64) for n in range(2, 65))
    for sizes in sizes_that_fit(graph, HINTS, 0):
        verify(parse_module(text_at(str(module), sizes)))


def test_offsets_in_an_arena_do_not_grow_with_the_graph():
    """As sums of all sizes before them they made each comparison of two as long as the graph."""
    without_plan = without_pass(UNSUBSTITUTED, PLAN_MEMORY)
    with assuming() as assumptions:
        module = imported(exported("bert"))
        Runner().run(module, parse(without_plan))
    offsets = [op.offset.value.data for op in module.walk() if isinstance(op, ViewOp)]
    assert len({*offsets}) > 10
    assert all(len([*terms_of(offset)]) <= 2 for offset in offsets)
    assert not any("offset" in str(condition.extent) for condition in assumptions)


@pytest.mark.parametrize("hints", [{"batch": 32, "length": 64}, {"batch": 2, "length": 32}])
@pytest.mark.parametrize("name", BERTS)
def test_sizes_that_other_extents_have_are_not_assumed(name: str, hints: Sizes):
    graph = exported(name, hints)
    with assuming() as assumptions:
        module = imported(graph)
        Runner().run(module, GRAPH_PASSES)
    assert not assumptions.pinned()
    assert all(assumptions.hold({"batch": b, "length": n}) for b in (2, 32) for n in (2, 31, 64))
    verify(parse_module(text_at(str(module), {"batch": 5, "length": 9})))


def undecided(error: BaseException) -> bool:
    """Whether an error is, or comes from, a comparison that nothing decides."""
    return isinstance(error, Undecided) or isinstance(error.__cause__, Undecided)


def check(case: Case, seed: int) -> int:
    """Compare the passes on one random model; the sizes for which the result was verified."""
    model, hints = opened(case.proto)
    source = read(model)
    if numeric_graph(source, hints)[1]:
        return 0
    graph = symbolic_graph(source, hints)
    if graph.obstacles or not graph.symbols or graph.assumptions.pinned():
        return 0
    with assuming() as assumptions:
        module = imported(graph)
        numbers = parse_module(text_at(str(module), hints))
        different = in_turn(module, numbers, GRAPH_PASSES, hints)
    if assumptions.pinned():
        return 0
    # two symbols, or a symbol and a number, of one size: no pass takes them for equal
    assert different is None or len({*hints.values()}) < len(hints)
    both: tuple[Assumptions, ...] = (graph.assumptions, assumptions)
    every = [
        sizes
        for sizes in sizes_that_fit(graph, hints, seed)
        if all(conditions.hold(sizes) for conditions in both)
    ]
    for sizes in every:
        verify(parse_module(text_at(str(module), sizes)))
    return len(every)


@pytest.mark.parametrize(("kind", "seeds"), [(one_node, 60), (random_graph, 25)])
def test_passes_on_random_models_hold_for_all_sizes(
    kind: Callable[[int, str], Case | None], seeds: int
):
    several = 0
    for seed in range(seeds):
        case = kind(seed, "cpu")
        if case is None:
            continue
        try:
            several += check(case, seed) > 1
        except FlowloomError as error:
            if not undecided(error) and "does not fit" not in str(error):
                raise
        except Undecided:
            continue
    assert several > seeds // 6


def test_groups_of_one_form_share_a_kernel_whatever_their_symbols():
    model = onnx.parser.parse_model("""
        <ir_version: 10, opset_import: ["": 21]>
        g (float[rows, width] x, float[width, rows] y) => (float[rows, width] a, float[n, m] b)
        { s = Sin(x) a = Exp(s) t = Sin(y) b = Exp(t) }""")
    with assuming():
        module = imported(symbolic_graph(read(model), {"rows": 5, "width": 5}))
        Runner().run(module, GRAPH_PASSES)
        first, second = (group for graph in graphs_of(module) for group in graph.groups)
        assert signature(first) == signature(second)
        group = extract_group(first)
    assert str(group.reads[0].shape) == "(s0, s1)"
    assert has_symbols(group.values[0].shape)


def test_groups_of_other_hints_have_other_kernels():
    model = onnx.parser.parse_model("""
        <ir_version: 10, opset_import: ["": 21]>
        g (float[rows] x, float[width] y) => (float[n] a, float[m] b)
        { a = Sin(x) b = Sin(y) }""")
    with assuming():
        module = imported(symbolic_graph(read(model), {"rows": 5, "width": 500}))
        Runner().run(module, GRAPH_PASSES)
        first, second = (group for graph in graphs_of(module) for group in graph.groups)
        assert signature(first) != signature(second)
