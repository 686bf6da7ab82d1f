"""Shared bytes are never in use twice at once, and no token is added."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from compiler.errors import PipelineError
from compiler.ir.taskflow_memory import ArenaOp
from compiler.passes.schedule.elide_sync import ElideSync
from compiler.passes.schedule.insert_sync import InsertSync
from compiler.passes.schedule.lower_to_taskflow import LowerToTaskflow
from compiler.passes.schedule.plan_memory import PlanMemory
from compiler.schedule.tasks import Allocation, Schedule, Task, View, arena_aligned
from compiler.verify.happens_before import HappensBefore, check_schedule
from compiler.verify.memory import plan_arena
from tests.adversary import agrees, in_order, shuffled
from tests.graphs import GraphBuilder
from tests.grouped import Scheduled, group_each, schedule_groups, synchronise, taskflow_of
from tests.networks import networks
from tests.schedules import cells, closure


def arena_bytes(schedule: Schedule) -> int:
    return sum(allocation.nbytes for allocation in schedule.of_kind("arena"))


def assert_sharing_is_ordered(before: Schedule, after: Schedule) -> None:
    """Views that shared no byte before and do now belong to tasks with an order."""
    order = closure(after)
    uses = [
        (index, cells(old), cells(new))
        for index, (a, b) in enumerate(zip(before.tasks, after.tasks, strict=True))
        for old, new in zip(a.reads + a.writes, b.reads + b.writes, strict=True)
    ]
    for i, old, new in uses:
        for j, other_old, other_new in uses:
            if new & other_new and not old & other_old:
                connected = i in order[j] or j in order[i]
                assert connected or _together(uses, old, other_old)


def _together(uses: list[tuple[int, set[tuple[int, int]], set[tuple[int, int]]]],
            a: set[tuple[int, int]], b: set[tuple[int, int]]) -> bool:  # fmt: skip
    return any(old & a and old & b for _, old, _ in uses)


@settings(max_examples=60, deadline=None)
@given(networks(), st.integers(0, 2**32))
def test_sharing_follows_the_order_and_adds_no_token(case: Scheduled, seed: int):
    before = synchronise(case)
    PlanMemory().apply(Context(), case.module)
    case.module.verify()
    after = case.schedule()
    check_schedule(after)
    assert [t.after for t in after.tasks] == [t.after for t in before.tasks]
    assert arena_bytes(after) <= arena_bytes(before)
    assert_sharing_is_ordered(before, after)
    reference = in_order(before, case.data)
    assert agrees(shuffled(after, case.data, seed), reference)
    run = in_order(after, case.data, case.kernel)
    assert run.outputs == {name: array.tobytes() for name, array in case.reference.items()}


@settings(max_examples=30, deadline=None)
@given(networks())
def test_idempotent(case: Scheduled):
    synchronise(case, reuse=True)
    size = arena_bytes(case.schedule())
    PlanMemory().apply(Context(), case.module)
    check_schedule(case.schedule())
    assert arena_bytes(case.schedule()) <= size


def test_views_without_bytes_stay_in_the_arena():
    arena = Allocation("arena", "", "uint8", (768,))
    (big, small, empty) = (
        View(0, 64, "uint8", (512,)),
        View(0, 0, "uint8", (64,)),
        View(0, 704, "float32", (0, 3)),
    )
    tasks = (Task("a", 0, (), (), (big,)), Task("b", 0, (), (), (small, empty)))
    schedule = Schedule("s", (arena,), tasks)
    plan = plan_arena(schedule, 0, HappensBefore(schedule))
    assert plan.size == 512
    assert all(plan.move(v.offset) + v.nbytes <= plan.size for v in (big, small, empty))


def test_an_arena_never_grows():
    """Halves of 64 bytes that nobody uses as a whole would take 64 bytes each."""
    parts = [View(0, 32 * i, "float32", (8,)) for i in range(2)]
    tasks = [
        *(Task("write", 0, (), (), (part,)) for part in parts),
        *(Task("read", 0, (), (part,), (View(1 + i, 0, "float32", (8,)),))
          for i, part in enumerate(parts)),
    ]  # fmt: skip
    outputs = [Allocation("output", f"y{i}", "float32", (8,)) for i in range(2)]
    schedule = Schedule("s", (Allocation("arena", "a", "uint8", (64,)), *outputs), tuple(tasks))
    plan = plan_arena(schedule, 0, HappensBefore(schedule))
    assert (plan.size, plan.move(0), plan.move(32)) == (64, 0, 32)


def chain(length: int, streams: list[int]) -> ModuleOp:
    build = GraphBuilder()
    value = build.input("x", (100,))
    for _ in range(length):
        value = build.op("Relu", value)
    module = build.finish(value)
    group_each(module)
    schedule_groups(module, streams, [True], [0])
    LowerToTaskflow().apply(Context(), module)
    return module


@pytest.mark.parametrize("streams", [[0], [0, 1], [0, 1, 2]])
def test_a_chain_takes_two_buffers_and_says_what_it_took(streams: list[int]):
    module = chain(20, streams)
    for step in (InsertSync(), ElideSync(), PlanMemory()):
        step.apply(Context(), module)
    (arena,) = [op for op in module.walk() if isinstance(op, ArenaOp)]
    assert f"bytes_without_reuse = {19 * arena_aligned(400)} : i64" in str(arena)
    assert arena.result.type.get_shape() == (2 * arena_aligned(400),)


def test_nothing_moves_without_reuse_and_tokens_come_first():
    module = chain(4, [0, 1])
    text = str(module)
    PlanMemory(reuse="none").apply(Context(), module)
    assert str(module) == text
    assert taskflow_of(module).unsynchronized is not None
    with pytest.raises(PipelineError, match="run insert-sync first"):
        PlanMemory().apply(Context(), module)
