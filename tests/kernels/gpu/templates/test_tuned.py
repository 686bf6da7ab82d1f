"""Tiles from the database: of the same problem, of similar ones, or by the estimate."""

from dataclasses import astuple, replace
from pathlib import Path

import pytest
from compiler.kernels.gpu.recorded import Standing, first_of, recorded, standing

from compiler.kernels import database
from compiler.kernels.cache import KernelCache, _tuning
from compiler.kernels.database import Database, Entry, InContext, Measured
from compiler.kernels.gpu.headers import current_versions, full_version, template_hash
from compiler.kernels.gpu.templates.gemm.candidates import (
    SLOWEST,
    candidates,
    diverse,
    is_measured,
)
from compiler.kernels.gpu.templates.gemm.config import Tile
from compiler.kernels.gpu.templates.gemm.estimate import estimate
from compiler.kernels.gpu.templates.gemm.neighbours import (
    near_recorded,
    neighbours,
    problem_of,
)
from compiler.kernels.gpu.templates.gemm.problem import Form, Gather, Problem
from compiler.kernels.group import Group, Operator, TensorInfo
from compiler.nvrtc import nvrtc_version
from compiler.schedule import KernelSpec
from compiler.target.target import parse_gpu
from tests.kernels.gpu.of_template import chosen, estimated_tile, key_text

TARGET = parse_gpu("cuda:sm_90:tf32")


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


def save(*entries: Entry, device: str = "sm_90/132") -> None:
    """Write the user's database."""
    database.save(database.user_file("sm_90"), Database([*entries], device))


def record(problem: Problem, place: int) -> tuple[int, ...]:
    """Save an entry in which the tile at a place of the candidates is fastest."""
    tile = list(candidates(problem, TARGET))[place]
    fields = (tile.rows, tile.columns, tile.warp_rows, tile.warp_columns, tile.split_k, tile.stages)
    entry = Entry(
        key_text("gemm", problem, TARGET), "sm_90/132", "v", (Measured(fields, 1.0, 1.0),)
    )
    save(entry)
    return fields


def test_without_a_database_the_estimate_decides():
    problem = product(128, 768, 768)
    assert chosen("gemm", problem, TARGET) == estimated_tile(problem, TARGET)


@pytest.mark.parametrize("place", [0, 7, 20])
def test_the_measured_tile_is_taken(place: int):
    problem = product(128, 768, 768)
    fields = record(problem, place)
    tile = chosen("gemm", problem, TARGET)
    assert (tile.rows, tile.columns, tile.split_k) == (fields[0], fields[1], fields[4])


def test_wide_tiles_are_taken_with_as_many_stages_as_they_can_have():
    problem = product(128, 768, 768)
    wide = [Tile(64, 64, 16, 64, 1, stages, wgmma=True) for stages in (2, 9, 5)]
    times = tuple(Measured(astuple(tile), 1e3 + i) for i, tile in enumerate(wide))
    save(Entry(key_text("gemm", problem, TARGET), "sm_90/132", "v", times))
    assert chosen("gemm", problem, TARGET) == wide[2]


def test_a_similar_problem_lends_its_shape():
    fields = record(product(128, 768, 768), 0)
    tile = chosen("gemm", product(128, 1024, 768), TARGET)
    assert (tile.rows, tile.columns) == fields[:2]
    far = product(4096, 8192, 768)
    assert chosen("gemm", far, TARGET) == estimated_tile(far, TARGET)


def test_operands_in_32_bits_take_the_tile_of_tf32_where_they_have_none_of_their_own():
    problem = product(128, 768, 768)
    fields = record(problem, 20)
    tile = chosen("gemm", problem, parse_gpu("cuda:sm_90:fp16"))
    assert (tile.rows, tile.columns, tile.split_k) == (fields[0], fields[1], fields[4])
    assert chosen("gemm", replace(problem, dtype="float16"), parse_gpu("cuda:sm_90:fp16")) != tile


def test_entries_of_other_templates_lend_nothing():
    grouped = (
        '["grouped","float32","float32",true,[1,8,9,9],[1,8,9,9],1,1,4,[3,3],[1,1],[1,1],[1,1]]'
    )
    attention = '["attention","tf32",12,[128,64,768,1],[64,128,1,768],[128,64,768,1]]'
    save(*(Entry(key, "sm_90/132", "v", (Measured((1, 32, 3), 1.0, 1.0),))
           for key in (grouped, attention)))  # fmt: skip
    problem = product(128, 768, 768)
    assert neighbours(key_text("gemm", problem, TARGET), database.known("sm_90")) == []
    assert chosen("gemm", problem, TARGET) == estimated_tile(problem, TARGET)


def test_keys_give_their_problems_back():
    problem = product(128, 768, 768)
    assert key_text("gemm", problem_of(key_text("gemm", problem, TARGET)), TARGET) == key_text(
        "gemm", problem, TARGET
    )
    half = key_text("gemm", problem, parse_gpu("cuda:sm_90:fp16"))
    record(problem, 0)
    assert neighbours(half, database.known("sm_90")) == []


def test_candidates_are_diverse():
    problem = product(128, 768, 768)
    found = diverse(problem, TARGET, 24)
    assert found[0] == estimated_tile(problem, TARGET)
    assert len(set(found)) == len(found) > 16
    times = {tile: estimate(problem, tile, TARGET) for tile in candidates(problem, TARGET)}
    near = [t for t in times if times[t] <= SLOWEST * min(times.values())]
    assert set(found) <= set(near)
    assert {t.shape for t in found} >= {t.shape for t in near if is_measured(t)}
    assert {t.shape for t in diverse(problem, TARGET, len(times))} == {t.shape for t in near}
    assert any(tile.wgmma for tile in found)


def test_wide_tiles_count_by_their_own_estimates_in_nanoseconds():
    """A similar problem's fast tile is not passed over for any wide tile that fits."""
    similar, wanted = product(64, 512, 512), product(64, 640, 512)
    best = min(
        (t for t in candidates(similar, TARGET) if not t.wgmma),
        key=lambda tile: estimate(similar, tile, TARGET),
    )
    entry = Entry(
        key_text("gemm", similar, TARGET), "sm_90/132", "v", (Measured(astuple(best), 1.5e3),)
    )
    save(entry)
    assert any(tile.wgmma for tile in candidates(wanted, TARGET))
    assert not chosen("gemm", wanted, TARGET).wide
    save(replace(entry, tiles=(Measured(astuple(best), 1e6),)))
    assert chosen("gemm", wanted, TARGET).wide


def test_current_templates_then_the_device_then_the_user_decide(folder: Path):
    current = full_version(template_hash("contraction"), nvrtc_version())
    ours, theirs = "sm_90/132 NVIDIA H200", "sm_90/114 NVIDIA H100 PCIe"
    found = [
        Entry("k", device, version, (Measured((n,), 1.0),))
        for n, (device, version) in enumerate([(ours, "old"), (theirs, "old"), (theirs, current)])
    ]
    save(*found, device=ours)
    assert recorded("k", TARGET) == found[2]
    save(*found[:2], device=ours)
    assert recorded("k", TARGET) == found[0]
    save(*found[:2], device=theirs)
    assert recorded("k", TARGET) == found[1]
    assert current in current_versions()
    assert standing(found[2], theirs) is Standing.TUNED
    assert standing(found[2], ours) is Standing.OTHER_DEVICE
    assert standing(found[0], ours) is Standing.OTHER_VERSION


def test_the_choice_of_a_whole_model_comes_first():
    entry = Entry("k", "d", "v", (Measured((1,), 1.0), Measured((2,), 2.0), Measured((3,), 3.0)))
    assert first_of(entry, {(2,), (3,)}) == (2,)
    chosen = replace(entry, context=InContext((3,), "model.onnx", 0.02))
    assert first_of(chosen, {(1,), (2,), (3,)}) == (3,)
    assert first_of(chosen, {(1,), (2,)}) == (1,)
    assert first_of(None, {(1,)}) is None


def test_a_new_database_gives_new_cache_keys():
    before = _tuning("cuda:sm_90:tf32")
    record(product(128, 768, 768), 0)
    assert _tuning("cuda:sm_90:tf32") != before
    assert _tuning("cpu:x86-64-v3") == ""


def test_a_cached_kernel_is_not_taken_once_the_database_has_changed(tmp_path: Path):
    info = TensorInfo("float32", (4,))
    group = Group("one", (info, info), 1, (False,), {}, (Operator("Relu", {}, (0,), (1,)),), (1,))
    cache, target = KernelCache(tmp_path / "cache"), "cuda:sm_90:tf32"
    cache.store(group, target, KernelSpec("one", "cuda", b"code", (), ("",)))
    assert cache.load(group, target) is not None
    record(product(128, 768, 768), 0)
    assert cache.load(group, target) is None


def test_what_was_measured_best_is_measured_again_with_what_is_near():
    image = Gather(64, 361, 64 * 361, 361, 9, 64, True, (1, 19, 19), (1, 19, 19), (1, 3, 3),
                   pads=(0, 1, 1))  # fmt: skip
    sizes = (128, 361, 576, 1, "float32", Form.BLOCKS, 576, 0, 0, 1, image)
    problem = Problem(*sizes, "0", "0", ("0", "m", "n"), ((0, ""),), 4)
    fits = set(candidates(problem, TARGET))
    assert near_recorded(problem, TARGET, fits) == []
    best = next(t for t in candidates(problem, TARGET) if t.split_k == 4 and not t.halo)
    fields = (*astuple(best)[:10],)
    save(Entry(key_text("gemm", problem, TARGET), "sm_90/132", "v", (Measured(fields, 1.0, 1.0),)))
    first, patch, *others = near_recorded(problem, TARGET, fits)
    assert first == best
    assert replace(patch, halo=False, stages=best.stages) == best
    assert {tile.split_k for tile in others} == {2, 3, 6}
    assert all(tile.shape == best.shape for tile in others)
