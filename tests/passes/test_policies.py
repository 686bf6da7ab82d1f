"""Policies in the IR: stages become tokens, and policies may come from a user's file."""

from itertools import product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.errors import PipelineError
from compiler.ir.flatten import schedule_of
from compiler.ir.taskflow import GraphOp
from compiler.passes.pipeline import parse
from compiler.passes.runner import Runner, taskflow_graph
from compiler.schedule.tasks import Schedule
from tests.apply_passes import run
from tests.schedules import closure
from tests.strategies import Model, dataflow_graphs

ROOT = Path(__file__).parent.parent.parent
TAIL = "lower-to-taskflow,insert-sync,elide-sync,plan-memory"


def schedule(model: Model, pipeline: str) -> Schedule:
    """The verified schedule that a pipeline gives."""
    Runner().run(model.module, parse(pipeline))
    graph: GraphOp = taskflow_graph(model.module, pipeline)
    return schedule_of(graph)


@settings(max_examples=40, deadline=None)
@given(
    dataflow_graphs(max_operators=14),
    st.sampled_from(["wavefront", "ios"]),
    st.sampled_from(["source", "critical-path", "opara"]),
    st.booleans(),
)
def test_a_stage_begins_when_all_before_are_over(model: Model, policy: str, order: str, cut: bool):
    partition = "partition-graph{max-nodes=2}," if cut else ""
    head = f"fuse-operators{{max-ops=1}},{partition}assign-streams{{policy={policy} streams=3}}"
    graph = run(model, f"{head},order-launches{{policy={order}}}")
    stages = [g.stage.value.data for g in graph.groups if g.stage is not None]
    assert len(stages) == len(list(graph.groups))
    assert stages == sorted(stages)
    before = closure(schedule(model, TAIL))
    for u, v in product(range(len(stages)), repeat=2):
        assert stages[u] >= stages[v] or u in before[v]


@settings(max_examples=1, deadline=None)
@given(dataflow_graphs(max_operators=8))
def test_stages_that_are_out_of_order_are_rejected(model: Model):
    graph = run(model, "fuse-operators{max-ops=1},assign-streams{policy=wavefront},partition-graph")
    assert all(group.stage is None and group.stream is None for group in graph.groups)


@settings(max_examples=10, deadline=None)
@given(dataflow_graphs(max_operators=14))
def test_a_policy_of_the_users_own(model: Model):
    file = ROOT / "examples" / "custom_policy.py"
    own = f'assign-streams{{policy="{file}:longest_first" streams=2}}'
    graph = run(model, f"fuse-operators{{max-ops=1}},partition-graph{{policy=none}},{own}")
    assert {g.stream.value.data for g in graph.groups if g.stream is not None} <= {0, 1}


WRONG = """
def short(dag, streams): return Assignment([])
def far(dag, streams): return Assignment([streams] * len(dag))
def partitions(dag, most): return []
def order(dag, demands): return list(range(1, len(dag)))
from compiler.scheduling.policies.assignment import Assignment
"""


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (
            "assign-streams{policy=FILE:short}",
            "policy .*short' is wrong: it gives 0 streams",
        ),
        ("assign-streams{policy=FILE:far}", "is wrong: it gives stream 4, which is not below 4"),
        (
            "partition-graph{policy=FILE:partitions}",
            "partition policy .* is wrong: it gives 0 partitions",
        ),
        ("order-launches{policy=FILE:order}", "order policy .* is wrong: not a topological order"),
        ("order-launches{policy=FILE:nothing}", "has no function 'nothing'"),
        ("order-launches{policy=none.py:order}", "there is no file 'none.py'"),
        ("order-launches{policy=BROKEN:order}", "broken.py fails: ZeroDivisionError"),
    ],
)
def test_wrong_policies_are_named(step: str, message: str, tmp_path: Path):
    files = {"FILE": "own.py", "BROKEN": "broken.py"}
    (tmp_path / "own.py").write_text(WRONG)
    (tmp_path / "broken.py").write_text("1 / 0")
    for short, name in files.items():
        step = step.replace(short, str(tmp_path / name))
    name, _, policy = step.removesuffix("}").partition("{policy=")
    text = (ROOT / "tests" / "filecheck" / "assign-streams.mlir").read_text()
    from compiler.tools.opt import optimize

    with pytest.raises(PipelineError, match=message):
        optimize(text, "case", f'{name}{{policy="{policy}"}}', None, False)
