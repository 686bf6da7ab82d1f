"""Tiles from the database: of the same problem, of similar ones, or by the estimate."""

from pathlib import Path

import pytest

from compiler.kernels import database
from compiler.kernels.cache import _tuning
from compiler.kernels.cuda.problem import Form, Gather, Problem
from compiler.kernels.cuda.target import CudaTarget
from compiler.kernels.cuda.tiles import (
    SHAPES,
    WIDE_COLUMNS,
    WIDE_ROWS,
    candidates,
    choose_tile,
    diverse,
)
from compiler.kernels.cuda.tuned import key_of, neighbours, problem_of, tile_for
from compiler.kernels.database import Entry, Measured

TARGET = CudaTarget("sm_90", "tf32")


def product(m: int, n: int, k: int) -> Problem:
    """A matrix product with packed weights."""
    image = Gather(k, n, 0, k, row=k, source=(1, 1, n), result=(1, 1, n))
    sizes = (m, n, k, 1, "float32", Form.ROWS, k, k, 0, 1, image)
    return Problem(*sizes, "0", "0", ("z", "m", "n"), ((1, ""),))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A database of a user's own, and none in the package."""
    monkeypatch.setattr(database, "folders", lambda: (tmp_path,))
    return tmp_path


def record(problem: Problem, place: int) -> tuple[int, ...]:
    """Save an entry in which the tile at a place of the candidates is fastest."""
    tile = list(candidates(problem, TARGET))[place]
    fields = (tile.rows, tile.columns, tile.warp_rows, tile.warp_columns, tile.shares, tile.stages)
    entry = Entry(key_of(problem, TARGET), "sm_90/132", "v", (Measured(fields, 1.0, 1.0),))
    database.save(database.user_file("sm_90"), [entry])
    return fields


def test_without_a_database_the_estimate_decides():
    problem = product(128, 768, 768)
    assert tile_for(problem, TARGET) == choose_tile(problem, TARGET)


@pytest.mark.parametrize("place", [0, 7, 20])
def test_the_measured_tile_is_taken(place: int):
    problem = product(128, 768, 768)
    fields = record(problem, place)
    tile = tile_for(problem, TARGET)
    assert (tile.rows, tile.columns, tile.shares) == (fields[0], fields[1], fields[4])


def test_a_similar_problem_lends_its_shape():
    fields = record(product(128, 768, 768), 0)
    tile = tile_for(product(128, 1024, 768), TARGET)
    assert (tile.rows, tile.columns) == fields[:2]
    far = product(4096, 8192, 768)
    assert tile_for(far, TARGET) == choose_tile(far, TARGET)


def test_keys_give_their_problems_back():
    problem = product(128, 768, 768)
    assert key_of(problem_of(key_of(problem, TARGET)), TARGET) == key_of(problem, TARGET)
    half = key_of(problem, CudaTarget("sm_90", "fp16"))
    record(problem, 0)
    assert neighbours(half, database.known("sm_90")) == []


def test_candidates_are_diverse():
    found = diverse(product(128, 768, 768), TARGET, 24)
    assert found[0] == choose_tile(product(128, 768, 768), TARGET)
    assert len(set(found)) == 24
    wide = len(WIDE_ROWS) * len(WIDE_COLUMNS)
    assert (
        len({(t.rows, t.columns, t.warp_rows, t.warp_columns) for t in found}) == len(SHAPES) + wide
    )


def test_a_new_database_gives_new_cache_keys():
    before = _tuning("cuda:sm_90:tf32")
    record(product(128, 768, 768), 0)
    assert _tuning("cuda:sm_90:tf32") != before
    assert _tuning("cpu:x86-64-v3") == ""
