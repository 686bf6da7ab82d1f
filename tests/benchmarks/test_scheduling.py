"""The comparison of schedulers: its plans are verified, and its tables say what was measured."""

from collections.abc import Mapping
from random import Random
from typing import Any

from benchmarks.pass_scaling import synthetic
from benchmarks.scaling import SHAPES, decisions, module_of, passes
from benchmarks.scheduling.cases import Case, Planned, plan
from benchmarks.scheduling.policies import PART_SIZES, POLICIES, TABLE_4, Policy, policies
from benchmarks.scheduling.tables import markdown
from compiler.analysis.units import graphs_of, group_graph
from compiler.ir.dataflow import GroupOp
from compiler.pipeline import Runner, parse


def planned(count: int, competing: Mapping[str, Policy]) -> dict[str, Planned | str]:
    """Each policy's plan of a graph eight wide."""
    module = synthetic(count, 8)
    Runner().run(module, parse("fuse{max-ops=1}"))
    kernels = {op.kernel.data for op in module.walk() if isinstance(op, GroupOp) and op.kernel}
    case = Case("synthetic", "cpu", str(module), {})
    return plan(case, dict.fromkeys(kernels, 5000.0), competing)


def test_every_policy_plans():
    found = planned(24, policies(ablations=True))
    assert set(found) == {*POLICIES, *TABLE_4, *PART_SIZES}
    for name, each in found.items():
        assert isinstance(each, Planned), each
        tokens = sum(len(task.after) for task in each.schedule.tasks)
        assert each.figures["waits"] == tokens <= each.figures["waits before elision"]
        assert each.figures["streams"] <= (policies(True)[name].count or 24)
    assert isinstance(found["sequential"], Planned)
    assert found["sequential"].figures["waits"] == 0


def test_refusals_and_errors_are_shown():
    names = ("sequential", "opara", "nimble", "optimal, 4")
    found = planned(205, {name: POLICIES[name] for name in names})
    found |= dict.fromkeys(TABLE_4, found["sequential"])
    assert "at most 200 nodes" in str(found["optimal, 4"])
    row: dict[str, Any] = {"model": "m", "target": "cpu", "policies": {}, "refused": {}}
    for name, each in found.items():
        if isinstance(each, Planned):
            times = {"streams": 50.0 if name == "nimble" else 100.0}
            figures = {"same bits": name != "opara", "simulated us": times, "measured us": times}
            row["policies"][name] = each.figures | figures
        else:
            row["refused"][name] = each
    text = markdown([row, row])
    assert "optimal, 4: optimal handles at most 200 nodes" in text
    assert "| opara | 100 | 100 WRONG |" in text
    assert "| nimble | 2.00 | 2.00 | 2.00 |" in text
    assert "| optimal, 4 | - | - | 0.00 |" in text
    assert "**m, ablations**" in text


def test_a_module_of_a_graph_has_its_dependencies():
    for shape in SHAPES.values():
        dag = shape(50, 7, Random(0))
        (graph,) = graphs_of(module := module_of(dag))
        module.verify()
        assert list(group_graph(graph).dag.edges) == list(dag.edges)


def test_passes_on_ten_thousand_groups_are_quick():
    """A tenth of the largest size that is promised, with about four times what is needed."""
    dag = SHAPES["random"](10_000, 100, Random(0))
    for name, seconds in passes(dag, 8):
        assert seconds < (4 if name in ("groups", "pass lower-to-taskflow") else 2), name


def test_decisions_on_ten_thousand_nodes_are_quick():
    """A tenth of the largest size that is promised, with four times the seconds that are needed."""
    for shape in SHAPES.values():
        for name, seconds in decisions(shape(10_000, 100, Random(0)), 8):
            assert seconds < 2, name
