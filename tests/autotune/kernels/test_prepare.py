"""Which kernels a bundle holds: those of a model's graph, and of what may be substituted."""

import sys
from collections import Counter
from pathlib import Path

import pytest

from benchmarks import tuning
from compiler.autotune.kernels.bundle import load_bundle
from compiler.autotune.kernels.coverage import coverage
from compiler.autotune.kernels.prepare import prepare_bundle
from compiler.autotune.substitution.compared import compared_graphs
from compiler.frontend.importing import import_model
from compiler.ir.dataflow import GroupOp
from compiler.kernels import database
from compiler.kernels.building.module import distinct_groups
from compiler.kernels.building.select import measurable
from compiler.kernels.database import Database, Entry, Measured
from compiler.target.target import parse_gpu
from tests.autotune.kernels.make import bottleneck

TARGET = parse_gpu("cuda:sm_90:fp16")


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model's file; the user's database is in a new folder."""
    monkeypatch.setenv(database.DATABASE_VARIABLE, str(tmp_path / "tuning"))
    path = tmp_path / "bottleneck.onnx"
    path.write_bytes(bottleneck().SerializeToString())
    return path


def weights_of(model: Path, most: int | None = None) -> dict[str, float]:
    """The problems of the first graphs that are compared, and the time of each in them."""
    graphs = compared_graphs(import_model(model).module, TARGET)
    assert len(graphs) == 2
    found: dict[str, float] = {}
    for graph in graphs[slice(most)]:
        groups = [op for op in graph.walk() if isinstance(op, GroupOp)]
        uses = Counter(group.kernel.data for group in groups if group.kernel is not None)
        for name, group in distinct_groups(graph).items():
            for match in measurable(group, TARGET):
                time = match.estimate_ns(match.shortlist(2)[0]) / 1e3 * uses[name]
                found[match.key] = found.get(match.key, 0.0) + time
    return found


def test_kernels_of_candidates_are_prepared_and_each_graph_counts(model: Path):
    found = {k.key: k.weight for k in prepare_bundle([("", model)], ["fp16"], "sm_90", 2).kernels}
    assert found == pytest.approx(weights_of(model))
    alone = weights_of(model, 1)
    assert found.keys() > alone.keys(), "no kernel of a candidate"
    assert any(found[key] == pytest.approx(2 * alone[key]) for key in alone), "not counted twice"


def test_only_kernels_that_the_databases_lack_are_prepared(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    bundle = prepare_bundle([("", model)], ["fp16"], "sm_90", 2)
    known, *others = bundle.kernels
    measured = tuple(Measured(candidate.config, 1e3, 1e3) for candidate in known.candidates)
    entry = Entry(known.key, "sm_90/132 recorder", "another", measured)
    database.save(database.user_file("sm_90"), Database([entry], entry.device))
    path = tmp_path / "bottleneck.bundle"
    asked = ["prepare", str(path), "--models", str(model), "--precisions", "fp16"]
    for options, expected in (([], bundle.kernels), (["--missing"], others)):
        monkeypatch.setattr(sys, "argv", ["tuning.py", *asked, "--candidates", "2", *options])
        assert tuning.main() == 0
        assert {k.key for k in load_bundle(path).kernels} == {k.key for k in expected}


def test_the_coverage_is_of_all_graphs_that_are_compared(model: Path):
    found = coverage(model, str(TARGET), "")
    assert sum(found.counts.values()) == len(weights_of(model))
    assert sum(found.times.values()) == pytest.approx(1e3 * sum(weights_of(model).values()))
