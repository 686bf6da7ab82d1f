"""Tiles that overlap with the kernels around them: only measurements choose them."""

from dataclasses import astuple, replace
from pathlib import Path

import pytest
from compiler.kernels.gpu.choices import choices_of

from compiler.autotune.kernels import in_context
from compiler.autotune.kernels.context import Descent, Step
from compiler.autotune.timing import Timing
from compiler.kernels import database
from compiler.kernels.database import Entry, Measured
from compiler.kernels.gpu.templates.gemm.candidates import candidates
from compiler.kernels.gpu.templates.gemm.config import Tile
from compiler.kernels.group import TensorInfo
from tests.kernels.gpu.of_template import chosen, estimated_tile, key_text
from tests.kernels.gpu.templates.test_tuned import TARGET, product, save
from tests.kernels.gpu.test_build import zeros
from tests.kernels.harness import single


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database of a user's own, and none in the package."""
    monkeypatch.setattr(database, "folders", lambda: (tmp_path,))


def early(tile: Tile) -> Tile:
    """A tile that begins to copy weights before its kernel waits."""
    return replace(tile, prefetch=True)


def test_an_early_tile_is_taken_where_it_was_measured():
    problem = product(128, 768, 768)
    tile = early(estimated_tile(problem, TARGET))
    save(
        Entry(key_text("gemm", problem, TARGET), "sm_90/132", "v", (Measured(astuple(tile), 1.0),))
    )
    assert chosen("gemm", problem, TARGET) == tile
    assert chosen("gemm", product(128, 1024, 768), TARGET).early


def test_a_whole_model_chooses_an_early_variant():
    problem = product(128, 768, 768)
    first, second = list(candidates(problem, TARGET))[:2]
    measured = Measured(astuple(first), 1.0, 1.5), Measured(astuple(second), 2.0, 2.5)
    entry = Entry(key_text("gemm", problem, TARGET), "sm_90/132", "v", measured)
    step = Step(entry.key, astuple(early(first)), 1000.0, 900.0)
    time = Timing(1000.0, 999.0, 1001.0, 50)
    descent = Descent({entry.key: step.values}, (step,), time, time, 1)
    in_context.record(descent, [entry], "model", TARGET, entry.device)
    assert chosen("gemm", problem, TARGET) == early(first)
    (kept,) = database.known("sm_90").values()
    kept_tiles = {each.tile for each in kept.tiles}
    assert kept_tiles == {astuple(early(first)), *(each.tile for each in measured)}


def test_variants_of_tiles_overlap_with_neighbours_as_they_can():
    inputs = [zeros(128, 768), zeros(768, 768)]
    for weights in ((1,), ()):
        info = TensorInfo("float32", (128, 768))
        group, _ = single("MatMul", inputs, [info], weights=weights)
        choices = next(choices_of(group, TARGET, 4))
        tile = Tile(*choices.options[0].values)
        found = {Tile(*values) for values in choices.variants(astuple(tile))}
        released = {replace(tile, release=True)}
        both = {early(tile), replace(early(tile), release=True)}
        assert found == (released | both if weights else released)
        assert Tile(*choices.variants(astuple(early(tile)))[0]) == tile
