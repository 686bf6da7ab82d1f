"""Random models through all passes: every stage verifies and hostile executions agree."""

from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.frontend.interpreter import interpret
from compiler.ir.dataflow import GroupOp
from compiler.passes.pipeline import parse
from compiler.passes.runner import Runner
from compiler.verify.happens_before import check_schedule
from tests.adversary import agrees, in_order, shuffled
from tests.grouped import Scheduled, graph_of
from tests.schedules import races
from tests.strategies import Model, dataflow_graphs, pipelines


def lowered(model: Model, pipeline: str) -> Scheduled:
    """The model after the pipeline, with the groups that its tasks stand for."""
    reference = interpret(model.module, model.weights, model.inputs)
    head, _, tail = pipeline.partition("lower-to-taskflow")
    runner = Runner()
    runner.run(model.module, parse(head.rstrip(",")))
    groups: dict[str, GroupOp] = {}
    for group in graph_of(model.module).groups:
        assert group.kernel is not None
        groups[group.kernel.data] = group.clone()
    runner.run(model.module, parse("lower-to-taskflow" + tail))
    return Scheduled(model, groups, reference, model.module)


@settings(max_examples=60, deadline=None)
@given(dataflow_graphs("int32", max_operators=16), pipelines(), st.integers(0, 2**32))
def test_int32_models_give_the_interpreter_s_bits_in_any_order(
    model: Model, pipeline: str, seed: int
):
    case = lowered(model, pipeline)
    schedule = case.schedule()
    check_schedule(schedule)
    assert not races(schedule)
    run = shuffled(schedule, case.data, seed, kernel=case.kernel)
    assert not run.disturbed
    assert run.outputs == {name: array.tobytes() for name, array in case.reference.items()}
    assert agrees(shuffled(schedule, case.data, seed), in_order(schedule, case.data))
