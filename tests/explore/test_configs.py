"""The tiles of a page: what the database has measured for a kernel's problem, and what it lacks."""

from dataclasses import replace
from pathlib import Path

import pytest

from compiler.kernels import database
from compiler.kernels.building.select import Candidate, Selection, best, current_versions
from compiler.kernels.cpu.host import database_name, host_cpu
from compiler.kernels.cpu.machine import host_target
from compiler.kernels.database import Database, Entry, Measured
from compiler.kernels.database.fields import config_fields
from compiler.kernels.gpu.templates.gemm.candidates import candidates
from compiler.target.target import parse_gpu
from compiler.tools.explore.choice import (
    NO_CPU_TILES,
    NO_TILES,
    TILES_OF_ARTIFACT,
    tiles_sentence,
)
from compiler.tools.explore.configs import KernelConfig, kernel_configs, measured_tiles
from tests.autotune.kernels.test_cpu_tuning import group_of
from tests.kernels.gpu.of_template import BY_NAME, NOTHING, key_text
from tests.kernels.gpu.templates.test_tuned import gemm

TARGET = parse_gpu("cuda:sm_90:tf32")


def test_the_measured_configs_of_a_problem_are_its_tiles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(database, "folders", lambda: (tmp_path,))
    problem = gemm(128, 768, 768)
    first, second, *_ = candidates(problem, TARGET)
    times = (
        Measured(config_fields(first), 2e3, 2.5e3, (1.9e3, 2.1e3)),
        Measured(config_fields(second), 3e3),
    )
    entry = Entry(key_text("gemm", problem, TARGET), "sm_90/132", "v", times)
    database.save(tmp_path / "sm_90.jsonl", Database([entry], "sm_90/132"))
    candidate = Candidate(BY_NAME["gemm"], NOTHING, problem, TARGET)
    first_tile, other = measured_tiles(candidate, Selection(candidate, *candidate.choose()))
    assert (first_tile.warm, first_tile.low, first_tile.high, first_tile.cold) == (
        2e3,
        1.9e3,
        2.1e3,
        2.5e3,
    )
    assert (first_tile.chosen, other.chosen) == (True, False)
    assert (other.low, other.cold, other.template) == (None, None, "gemm")
    assert first_tile.config["rows"] == str(first.rows)
    assert first_tile.config != other.config


def cpu_entry(count: int, version: str) -> list[str]:
    """Save times of some configs of a convolution, the later the faster; the first is estimated."""
    found = best(group_of(), host_target()).candidate
    configs = [*found.by_fields][count - 1 :: -1]
    times = tuple(Measured(config, 1e3 * (rank + 1)) for rank, config in enumerate(configs))
    here, name = host_cpu(host_target()), database_name(host_target())
    entry = Entry(found.key, here, version, times)
    database.save(database.user_file(name), Database([entry], here))
    return [str(dict(config)["rows"]) for config in configs]


def test_a_cpus_kernel_has_what_its_database_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(database.DATABASE_VARIABLE, str(tmp_path))
    target = host_target()
    before = kernel_configs({"k": group_of()}, target)["k"]
    assert (before.template, before.provenance, before.candidates) == (
        "convolution",
        "estimated",
        [],
    )
    (version,) = current_versions(target)
    rows = cpu_entry(3, version)
    found = kernel_configs({"k": group_of()}, target)["k"]
    assert found.provenance == "tuned"
    assert [tile.config["rows"] for tile in found.candidates] == rows
    assert [(tile.warm, tile.chosen) for tile in found.candidates] == [
        (1e3, True),
        (2e3, False),
        (3e3, False),
    ]
    assert found.config == found.candidates[0].config != before.config
    assert "1 of 1 kernels" in tiles_sentence({"k": found}, on_cpu=True)


def test_times_of_older_templates_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(database.DATABASE_VARIABLE, str(tmp_path))
    cpu_entry(2, "older")
    found = kernel_configs({"k": group_of()}, host_target())["k"]
    assert found.provenance == "tuned with older templates or another compiler"
    activation = replace(group_of(), operators=group_of().operators[1:], inputs=3)
    assert kernel_configs({"k": activation}, host_target())["k"].provenance == "generic"


def test_a_sentence_says_where_no_tile_was_measured():
    bare = KernelConfig("gemm", "estimated")
    assert tiles_sentence({"k": bare}, on_cpu=True) == NO_CPU_TILES
    assert tiles_sentence({}, on_cpu=True) == TILES_OF_ARTIFACT
    assert tiles_sentence({}, on_cpu=False) == TILES_OF_ARTIFACT
    assert tiles_sentence({"k": bare}, on_cpu=False) == NO_TILES
