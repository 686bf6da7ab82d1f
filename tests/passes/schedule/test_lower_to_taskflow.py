"""Lowered graphs compute what the `dataflow` graph does, and faults name their remedy."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64

from compiler.errors import PipelineError
from compiler.ir.context import parse_module
from compiler.ir.dataflow import GraphOp
from compiler.ir.flatten import schedule_of
from compiler.passes.schedule.lower_to_taskflow import LowerToTaskflow
from compiler.schedule.tasks import ARENA_ALIGNMENT
from tests.adversary import in_order
from tests.graphs import GraphBuilder
from tests.grouped import Scheduled, graph_of, group_each, schedule_groups, scheduled, taskflow_of
from tests.networks import networks
from tests.schedules import touched


@settings(max_examples=60, deadline=None)
@given(scheduled() | networks())
def test_in_launch_order_the_results_are_the_interpreter_s(case: Scheduled):
    case.module.verify()
    assert case.graph.unsynchronized is not None
    run = in_order(case.schedule(), case.data, case.kernel)
    assert run.outputs == {name: array.tobytes() for name, array in case.reference.items()}


@settings(max_examples=40, deadline=None)
@given(networks())
def test_no_two_tasks_write_the_same_bytes_and_workspaces_are_aligned(case: Scheduled):
    schedule = case.schedule()
    written: set[tuple[int, int]] = set()
    for task in schedule.tasks:
        assert not written & touched(task.writes)
        written |= touched(task.writes)
        assert all(v.offset % ARENA_ALIGNMENT == 0 for v in task.writes if v.dtype == "uint8")


@settings(max_examples=30, deadline=None)
@given(networks())
def test_text_round_trip(case: Scheduled):
    parsed = parse_module(str(case.module))
    parsed.verify()
    assert str(parsed) == str(case.module)
    assert schedule_of(taskflow_of(parsed)) == case.schedule()


def relus(count: int = 3) -> ModuleOp:
    build = GraphBuilder()
    value = build.input("x", (1, 4))
    for _ in range(count):
        value = build.op("Relu", value)
    module = build.finish(value)
    group_each(module)
    schedule_groups(module, [0], [True], [0])
    return module


def spoil_kernel(graph: GraphOp) -> None:
    next(graph.groups).kernel = None


def spoil_stream(graph: GraphOp) -> None:
    next(graph.groups).stream = None


def spoil_order(graph: GraphOp) -> None:
    for group, partition in zip(graph.groups, [0, 1, 0], strict=True):
        group.partition = IntegerAttr(partition, i64)


def spoil_partition(graph: GraphOp) -> None:
    for group, stream in zip(graph.groups, [0, 1, 0], strict=True):
        group.partition, group.stream = IntegerAttr(0, i64), IntegerAttr(stream, i64)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (spoil_kernel, "a group of Relu 'Relu_0' has no kernel: run fuse-operators first"),
        (spoil_stream, "a group of Relu 'Relu_0' is on no stream: run assign-streams first"),
        (spoil_order, "partition 0 is not in one piece in launch order: run order-launches"),
        (spoil_partition, "a partition runs on streams 0 and 1: run assign-streams after"),
    ],
)
def test_what_is_missing_is_named(spoil: Callable[[GraphOp], None], message: str):
    module = relus()
    spoil(graph_of(module))
    with pytest.raises(PipelineError, match=message):
        LowerToTaskflow().apply(Context(), module)


def test_operators_and_copies_outside_groups_are_named():
    build = GraphBuilder()
    x = build.input("x", (1, 4))
    module = build.finish(build.op("Relu", x), x)
    with pytest.raises(PipelineError, match="Relu 'Relu_0' is in no group and no view"):
        LowerToTaskflow().apply(Context(), module)
    build = GraphBuilder()
    module = build.finish(build.input("x", (1, 4)))
    with pytest.raises(
        PipelineError, match=r"operand 0 of 'dataflow.yield' .* run fuse-operators first"
    ):
        LowerToTaskflow().apply(Context(), module)
