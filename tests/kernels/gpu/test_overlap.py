"""Tiles that overlap with the kernels around them: only measurements choose them."""

from dataclasses import replace
from pathlib import Path

import pytest

from compiler.autotune.kernels import in_context
from compiler.autotune.kernels.descent import Descent, Improvement
from compiler.choice.timing import Timing
from compiler.kernels import database
from compiler.kernels.building.select import measurable
from compiler.kernels.database import Entry, Measured
from compiler.kernels.database.fields import config_fields
from compiler.kernels.gpu.templates.gemm.candidates import candidates
from compiler.kernels.gpu.templates.gemm.config import Tile
from compiler.kernels.group import TensorInfo
from tests.kernels.gpu.of_template import chosen, entry, estimated_tile, key_text
from tests.kernels.gpu.templates.test_tuned import TARGET, gemm, save
from tests.kernels.gpu.test_build import zeros
from tests.kernels.harness import single


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's database, and none in the package."""
    monkeypatch.setattr(database, "folders", lambda: (tmp_path,))


def early(tile: Tile) -> Tile:
    """A tile that begins to copy weights before its kernel waits."""
    return replace(tile, prefetch=True)


def test_an_early_tile_is_taken_where_it_was_measured():
    problem = gemm(128, 768, 768)
    tile = early(estimated_tile(problem, TARGET))
    save(entry("gemm", problem, tile, 1.0))
    assert chosen("gemm", problem, TARGET) == tile
    assert chosen("gemm", gemm(128, 1024, 768), TARGET).prefetch


def test_a_whole_model_chooses_an_early_variant():
    problem = gemm(128, 768, 768)
    first, second = list(candidates(problem, TARGET))[:2]
    measured = Measured(config_fields(first), 1.0, 1.5), Measured(config_fields(second), 2.0, 2.5)
    own = Entry(key_text("gemm", problem, TARGET), "sm_90/132", "v", measured)
    step = Improvement(own.key, config_fields(early(first)), 1000.0, 900.0)
    time = Timing(1000.0, 999.0, 1001.0, 50)
    descent = Descent({own.key: step.values}, (step,), time, time, 1)
    in_context.record(descent, [own], "model", TARGET, own.device)
    assert chosen("gemm", problem, TARGET) == early(first)
    (kept,) = database.known("sm_90").values()
    configs = {found.config for found in kept.configs}
    assert configs == {config_fields(early(first)), *(found.config for found in measured)}


def test_variants_of_tiles_overlap_with_neighbours_as_they_can():
    inputs = [zeros(128, 768), zeros(768, 768)]
    for weights in ((1,), ()):
        info = TensorInfo("float32", (128, 768))
        group, _ = single("MatMul", inputs, [info], weights=weights)
        own = next(measurable(group, TARGET))
        tile, *_ = own.shortlist(4)
        found = {*own.variants(tile)}
        released = {replace(tile, release=True)}
        both = {early(tile), replace(early(tile), release=True)}
        assert found == (released | both if weights else released)
        assert own.variants(early(tile))[0] == tile
