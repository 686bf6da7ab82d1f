"""The tiles of a page: what the database has measured for a kernel's problem, and what it lacks."""

from pathlib import Path

import pytest

from compiler.kernels import database
from compiler.kernels.database import Database, Entry, Measured
from compiler.kernels.database.fields import config_fields
from compiler.kernels.gpu.select import Candidate, Selection
from compiler.kernels.gpu.templates.gemm.candidates import candidates
from compiler.target.target import parse_gpu
from compiler.tools.explore.choice import (
    NO_TILES,
    TILES_OF_ARTIFACT,
    TILES_OF_RULES,
    tiles_sentence,
)
from compiler.tools.explore.configs import KernelConfig, measured_tiles
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
    best, other = measured_tiles(candidate, Selection(candidate, *candidate.choose()))
    assert (best.warm, best.low, best.high, best.cold) == (2e3, 1.9e3, 2.1e3, 2.5e3)
    assert (best.chosen, other.chosen) == (True, False)
    assert (other.low, other.cold, other.template) == (None, None, "gemm")
    assert best.config["rows"] == str(first.rows)
    assert best.config != other.config


def test_a_sentence_says_where_no_tile_was_measured():
    bare = KernelConfig("gemm", "estimated")
    assert tiles_sentence({"k": bare}, on_cpu=True) == TILES_OF_RULES
    assert tiles_sentence({}, on_cpu=False) == TILES_OF_ARTIFACT
    assert tiles_sentence({"k": bare}, on_cpu=False) == NO_TILES
