"""The comparison of schedulers: its plans are verified, and its tables say what was measured."""

import argparse
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest

from benchmarks.calibration.data import read, write
from benchmarks.pass_scaling import synthetic
from benchmarks.scaling import SHAPES, decisions, module_of, passes
from benchmarks.schedulers import costs_of, row_of
from benchmarks.scheduling.cases import Case, Planned, plan
from benchmarks.scheduling.policies import (
    PART_SIZES,
    POLICIES,
    TABLE_4,
    Policy,
    own_policies,
    policies,
)
from benchmarks.scheduling.record import record
from benchmarks.scheduling.tables import markdown
from benchmarks.simulator import HOST
from benchmarks.simulator import errors as errors_of
from compiler.ir.dataflow import GroupOp
from compiler.ir.edit import graphs_of
from compiler.passes.base.adapter import read_dag
from compiler.passes.pipeline import parse
from compiler.passes.runner import Runner
from compiler.schedule.kernels import KernelSpec
from compiler.target.devices import H200
from tests.autotune.schedule.fakes import kernels


def planned(count: int, competing: Mapping[str, Policy]) -> dict[str, Planned | str]:
    """Each policy's plan of a graph eight wide."""
    module = synthetic(count, 8)
    Runner().run(module, parse("fuse-operators{max-ops=1}"))
    names = {op.kernel.data for op in module.walk() if isinstance(op, GroupOp) and op.kernel}
    case = Case("synthetic", "cpu", str(module), {})
    return plan(case, dict.fromkeys(names, 5000.0), competing)


def test_every_policy_plans():
    found = planned(24, policies(ablations=True))
    assert set(found) == {*POLICIES, *TABLE_4, *PART_SIZES}
    for name, outcome in found.items():
        assert isinstance(outcome, Planned), outcome
        tokens = sum(len(task.after) for task in outcome.schedule.tasks)
        assert outcome.figures["waits"] == tokens <= outcome.figures["waits before elision"]
        assert outcome.figures["streams"] <= (policies(True)[name].count or 24)
    assert isinstance(found["sequential"], Planned)
    assert found["sequential"].figures["waits"] == 0


def test_refusals_and_errors_are_shown():
    names = ("sequential", "opara", "nimble", "optimal, 4")
    found = planned(205, {name: POLICIES[name] for name in names})
    found |= dict.fromkeys(TABLE_4, found["sequential"])
    assert "at most 200 nodes" in str(found["optimal, 4"])
    row: dict[str, Any] = {"model": "m", "target": "cpu", "policies": {}, "refused": {}}
    for name, outcome in found.items():
        if isinstance(outcome, Planned):
            times = {"streams": 50.0 if name == "nimble" else 100.0}
            figures = {"same bits": name != "opara", "simulated us": times, "measured us": times}
            row["policies"][name] = outcome.figures | figures
        else:
            row["refused"][name] = outcome
    text = markdown([row, row])
    assert "optimal, 4: optimal handles at most 200 nodes" in text
    assert "| opara | 100 | 100 WRONG |" in text
    assert "| nimble | 2.00 | 2.00 | 2.00 |" in text
    assert "| optimal, 4 | - | - | 0.00 |" in text
    assert "**m, ablations**" in text
    for figures in row["policies"].values():
        del figures["measured us"], figures["same bits"]
    assert "| nimble | 50 | - |" in markdown([row])
    assert "| nimble | 2.00 | 2.00 | 2.00 |" in markdown([row, row])


def test_a_users_policy_has_a_line_in_each_table(tmp_path: Path):
    file = tmp_path / "own.py"
    file.write_text(
        "from compiler.scheduling.policies.assignment import Assignment\n"
        "def one(dag, streams): return Assignment([streams - 1] * len(dag))\n"
    )
    own = own_policies([f"{file}:one"], 3)
    outcomes = planned(24, {"sequential": POLICIES["sequential"], **own})
    outcome = outcomes["one, 3"]
    assert isinstance(outcome, Planned), outcome
    assert {task.stream for task in outcome.schedule.tasks} == {2}
    times = {"simulated us": {"streams": 50.0}}
    rows = {name: {**outcome.figures, **times} for name in ("sequential", "one, 3")}
    row: dict[str, Any] = {"model": "m", "target": "cpu", "policies": rows, "refused": {}}
    text = markdown([row, row])
    assert "| one, 3 | 50 | - | 1 | " in text
    assert "| one, 3 | 1.00 | 1.00 | 1.00 |" in text


def test_the_search_is_simulated_and_shown_without_a_device():
    module = synthetic(40, 8)
    Runner().run(module, parse("fuse-operators{max-ops=1}"))
    built = kernels(module)
    case = Case("synthetic", "cuda:sm_90:tf32", str(module), built)
    costs = {name: 1000.0 * (3 + i) for i, name in enumerate(sorted(built))}
    found = plan(case, costs, {name: POLICIES[name] for name in ("sequential", "opara, 4")})
    row = row_of(case, costs, found, simulate=True)
    auto, one = row["policies"]["auto"], row["policies"]["sequential"]
    record = auto["search"]
    assert auto["simulated us"]["graph"] == pytest.approx(record["makespan"] / 1e3)
    assert max(record["bound"].values()) <= record["makespan"] <= record["started_at"]
    assert record["started_at"] <= 1e3 * one["simulated us"]["graph"]
    assert 0 <= auto["policies' seconds"] <= auto["search seconds"]
    cells = [cell.strip() for cell in markdown([row]).splitlines()[-1].split("|")]
    assert cells[1:4] == ["synthetic", "40", f"{one['simulated us']['graph']:.1f}"]
    assert cells[6] == f"{record['moved'] / 1e3:.1f}"


def test_what_is_recorded_is_what_the_simulator_reads(tmp_path: Path):
    module = synthetic(40, 8)
    Runner().run(module, parse("fuse-operators{max-ops=1}"))
    built = kernels(module)
    case = Case("synthetic", "cuda:sm_90:tf32", str(module), built)
    costs = {name: 1000.0 * (3 + i) for i, name in enumerate(sorted(built))}
    found = plan(case, costs, {name: POLICIES[name] for name in ("sequential", "opara, 4")})
    row = row_of(case, costs, found, simulate=True)
    for policy in row["policies"].values():
        policy["measured us"] = {
            mode: us + HOST / 1e3 for mode, us in policy["simulated us"].items()
        }
    known = {"architecture": "sm_90"}
    record_of = record(case, costs, {**found, "optimal": "refused"}, row)
    write(tmp_path / "record.gz", {"device": known}, {"synthetic": record_of})
    head, (model,) = read(tmp_path / "record.gz")
    assert (head, model.name, model.warm) == ({"device": known}, "synthetic", costs)
    assert model.replays.keys() == found.keys() == {"sequential", "opara, 4", "auto"}
    errors = [
        *errors_of(model, "graph", H200).values(),
        *errors_of(model, "subgraphs", H200).values(),
    ]
    assert len(errors) == 6
    assert max(map(abs, errors)) < 1e-3


def test_costs_of_other_kernels_are_refused(tmp_path: Path):
    path = tmp_path / "rows.json"
    path.write_text('[{"model": "m", "costs": {"a": 5.0}}]')
    options = argparse.Namespace(costs=path, simulate=True)
    kernel = KernelSpec("a", "cuda", b"", (), ())
    assert costs_of(Case("m", "cuda:sm_90", "", {"a": kernel}), options) == {"a": 5.0}
    with pytest.raises(SystemExit, match="no time of m's kernel b"):
        costs_of(Case("m", "cuda:sm_90", "", {"a": kernel, "b": kernel}), options)


def test_a_module_of_a_graph_has_its_dependencies():
    for shape in SHAPES.values():
        dag = shape(50, 7, Random(0))
        (graph,) = graphs_of(module := module_of(dag))
        module.verify()
        assert list(read_dag(graph).edges) == list(dag.edges)


def test_passes_on_ten_thousand_groups_are_quick():
    """A tenth of the largest size that is promised, with about eight times what is needed."""
    dag = SHAPES["random"](10_000, 100, Random(0))
    for name, seconds in passes(dag, 8):
        assert seconds < (8 if name in ("groups", "pass lower-to-taskflow") else 4), name


def test_decisions_on_ten_thousand_nodes_are_quick():
    """A tenth of the largest size that is promised, with four times the seconds that are needed."""
    for shape in SHAPES.values():
        for name, seconds in decisions(shape(10_000, 100, Random(0)), 8):
            assert seconds < 2, name
