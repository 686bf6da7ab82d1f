"""If and Loop in both dialects: text, local checks, and lowering by every pass."""

import numpy as np
import onnx
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import VerifyException

from compiler.errors import ModelError
from compiler.frontend.export import export_model
from compiler.frontend.importing import import_model
from compiler.frontend.interpreter import interpret
from compiler.ir import dataflow, taskflow
from compiler.ir.context import parse_module
from compiler.ir.edit import graphs_of
from compiler.ir.flatten import schedule_of
from compiler.ir.unflatten import unflattened
from compiler.passes.pipeline import DEFAULT_PIPELINE, parse, split_phases
from compiler.passes.runner import Runner, name_kernels, verify
from compiler.verify.equivalence import check_equivalent
from compiler.verify.happens_before import check_schedule
from tests.frontend.control.checks import model_of, reference

TEXT = """g (int64 trips, bool c, int64[3] x, int64[80, 3] rows) => (int64[3] y, int64[80, 3] all) {
    yes = Constant<value = bool {1}>()
    z = Loop (trips, yes, x) <
        body = step (int64 i, bool go, int64[3] v) => (bool d, int64[3] w) {
            d = Identity(go)
            w = If (c) <
                then_branch = a () => (int64[3] p) {
                    k = Constant<value = int64[3] {5, 6, 7}>()
                    p = Add(v, k)
                },
                else_branch = b () => (int64[3] q) { q = Sub(v, i) }
            >
        }
    >
    y, all = Scan <num_scan_inputs = 1, body = scan (int64[3] s, int64[3] r)
        => (int64[3] t, int64[3] o) {
            t = Add(s, r)
            o = Mul(t, r)
        }
    > (z, rows)
}"""
FEEDS = {
    "trips": np.array(3),
    "c": np.array(True),
    "x": np.arange(3),
    "rows": np.arange(240).reshape(80, 3),
}


def imported() -> tuple[ModuleOp, dict[str, np.ndarray]]:
    found = import_model(model_of(TEXT), regions=True)
    return found.module, found.weights


def test_graphs_of_bodies_are_found_before_those_around_them():
    module, _ = imported()
    found = graphs_of(module)
    assert found == [op for op in module.walk() if isinstance(op, dataflow.GraphOp)][::-1]
    assert len(found) == 5
    assert found[-1].parent_op() is module


def steps(module: ModuleOp) -> list[str]:
    """Apply the default pipeline; the text after each pass, which must parse to the same."""
    passes = parse(DEFAULT_PIPELINE)
    graph_passes, _ = split_phases(passes)
    texts = [str(module)]
    for step in passes:
        if step.name == "partition-graph":
            name_kernels(module, graph_passes)
        Runner().run(module, [step])
        texts.append(str(module))
    return texts


def lowered() -> tuple[ModuleOp, taskflow.GraphOp]:
    module, _ = imported()
    steps(module)
    (graph,) = [op for op in module.ops if isinstance(op, taskflow.GraphOp)]
    return module, graph


def test_the_text_after_every_pass_parses_to_the_same():
    module, _ = imported()
    for text in steps(module):
        again = parse_module(text)
        verify(again)
        assert str(again) == text


def test_graph_passes_keep_the_meaning():
    module, weights = imported()
    expected = reference(model_of(TEXT), FEEDS)
    graph_passes, _ = split_phases(parse(DEFAULT_PIPELINE))
    for step in (None, *graph_passes):
        if step is not None:
            Runner().run(module, [step])
        for found, wanted in zip(interpret(module, weights, FEEDS).values(), expected, strict=True):
            np.testing.assert_array_equal(found, wanted)


def test_bodies_have_one_stream_and_their_arena_is_packed():
    _, graph = lowered()
    schedule = schedule_of(graph)
    check_schedule(schedule)
    bodies = [b for t in schedule.all_tasks if t.control is not None for b in t.control.bodies]
    assert len(bodies) == 4
    assert all(body.streams == 1 for body in bodies)
    assert not any(body.of_kind("weight") for body in bodies)
    controls = [op for op in graph.walk() if isinstance(op, taskflow.ControlTaskOp)]
    assert len(controls) == 3


def test_a_schedule_becomes_the_same_graph_again():
    _, graph = lowered()
    schedule = schedule_of(graph)
    again = schedule_of(unflattened(schedule, graph))
    check_equivalent(again, schedule)
    assert [t.kernel for t in again.all_tasks] == [t.kernel for t in schedule.all_tasks]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("carried = 1 : i64", "carried = 2 : i64", "a dataflow.loop has"),
        ("length = 80 : i64", "length = 79 : i64", "79 iterations, but not the rows of int64"),
        ("conditional = false", "conditional = true", "a dataflow.loop has"),
        ("scans = [false]", "scans = 3 : i64", "lists 'scans' and 'stacks'"),
    ],
)
def test_each_fault_of_a_loop_is_named(old: str, new: str, message: str):
    module, _ = imported()
    text = str(module)
    assert old in text
    with pytest.raises((VerifyException, ModelError), match=message):
        parse_module(
            text.replace(old, new, 1) if "rows" not in message else text.replace(old, new)
        ).verify()


def test_a_group_holds_an_if_alone():
    module, _ = imported()
    group = next(op for op in module.walk() if isinstance(op, dataflow.GroupOp))
    assert group.control is not None
    group.body.block.insert_op_before(dataflow.NoneOp(), group.control)
    with pytest.raises(VerifyException, match="holds an If or a Loop alone"):
        module.verify()


@pytest.mark.parametrize("condition", [True, False])
def test_graphs_go_back_to_onnx_before_and_after_fusion(condition: bool):
    module, weights = imported()
    feeds = {**FEEDS, "c": np.array(condition)}
    expected = reference(model_of(TEXT), feeds)
    for passes in ("canonicalize", "fuse-operators"):
        Runner().run(module, parse(passes))
        model = export_model(module, weights)
        onnx.checker.check_model(model)  # pyright: ignore[reportUnknownMemberType]
        for found, wanted in zip(reference(model, feeds), expected, strict=True):
            np.testing.assert_array_equal(found, wanted)
