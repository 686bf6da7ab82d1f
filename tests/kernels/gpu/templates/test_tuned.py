"""Tiles from the database: of the same problem, of similar ones, or by the estimate."""

from dataclasses import replace
from pathlib import Path

import pytest

from compiler.kernels import database
from compiler.kernels.building.cache import (
    KernelCache,
    tuning_of,  # pyright: ignore[reportPrivateUsage]
)
from compiler.kernels.building.select import (
    Provenance,
    current_versions,
    entries,
    provenance_of,
)
from compiler.kernels.database import Database, Entry, InContext, Measured
from compiler.kernels.database.fields import config_fields, full_version
from compiler.kernels.gpu.templates.gemm.candidates import (
    SLOWEST,
    candidates,
    diverse,
    is_modelled,
)
from compiler.kernels.gpu.templates.gemm.config import Tile
from compiler.kernels.gpu.templates.gemm.estimate import estimate
from compiler.kernels.gpu.templates.gemm.neighbours import (
    near_measured,
    neighbours,
    problem_of,
)
from compiler.kernels.gpu.templates.gemm.problem import Form, Gather, Problem
from compiler.kernels.gpu.templates.gemm.template import Gemm
from compiler.kernels.group import Group, Node, TensorInfo
from compiler.kernels.versions import code_hash
from compiler.schedule.kernels import KernelSpec
from compiler.target.nvrtc import nvrtc_version
from compiler.target.target import parse_gpu, parse_target
from tests.kernels.gpu.of_template import chosen, entry, estimated_tile, key_text

KEY = '{"template":"gemm"}'
TARGET = parse_gpu("cuda:sm_90:tf32")


def gemm(m: int, n: int, k: int) -> Problem:
    """A matmul with packed weights."""
    return Problem(
        m=m,
        n=n,
        k=k,
        count=1,
        dtype="float32",
        form=Form.ROWS,
        a_row=k,
        b_row=k,
        left=0,
        right=1,
        gather=Gather(k, n, 0, k, row=k, source=(1, 1, n), result=(1, 1, n)),
        a_offset="0",
        b_offset="0",
        result_index=("z", "m", "n"),
        packings=((1, ""),),
    )


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's database, and none in the package."""
    monkeypatch.setattr(database, "folders", lambda: (tmp_path,))
    return tmp_path


def save(*entries: Entry, device: str = "sm_90/132") -> None:
    """Write the user's database."""
    database.save(database.user_file("sm_90"), Database([*entries], device))


def record(problem: Problem, place: int) -> Tile:
    """Save an entry in which the tile at a place of the candidates is fastest."""
    tile = list(candidates(problem, TARGET))[place]
    save(entry("gemm", problem, tile, 1.0))
    return tile


def test_without_a_database_the_estimate_decides():
    problem = gemm(128, 768, 768)
    assert chosen("gemm", problem, TARGET) == estimated_tile(problem, TARGET)


@pytest.mark.parametrize("place", [0, 7, 20])
def test_the_measured_tile_is_taken(place: int):
    problem = gemm(128, 768, 768)
    assert record(problem, place) == chosen("gemm", problem, TARGET)


def test_wgmma_tiles_may_have_any_number_of_stages():
    problem = gemm(128, 768, 768)
    wide = [Tile(64, 64, 16, 64, 1, stages, wgmma=True) for stages in (2, 9, 5)]
    times = tuple(Measured(config_fields(tile), 1e3 + i) for i, tile in enumerate(wide))
    save(Entry(key_text("gemm", problem, TARGET), "sm_90/132", "v", times))
    assert chosen("gemm", problem, TARGET) == wide[2]


def test_a_similar_problem_lends_its_shape():
    lent = record(gemm(128, 768, 768), 0)
    tile = chosen("gemm", gemm(128, 1024, 768), TARGET)
    assert tile.shape == lent.shape
    far = gemm(4096, 8192, 768)
    assert chosen("gemm", far, TARGET) == estimated_tile(far, TARGET)


def test_operands_in_32_bits_take_the_tile_of_tf32_where_they_have_none_of_their_own():
    problem = gemm(128, 768, 768)
    tile = chosen("gemm", problem, parse_gpu("cuda:sm_90:fp16"))
    assert record(problem, 20) == chosen("gemm", problem, parse_gpu("cuda:sm_90:fp16"))
    assert chosen("gemm", replace(problem, dtype="float16"), parse_gpu("cuda:sm_90:fp16")) != tile


def test_entries_of_other_templates_lend_nothing():
    grouped = '{"template":"grouped_conv","image_dtype":"float32","channels":1}'
    attention = '{"template":"attention","precision":"tf32","batch":12}'
    config = (("tiles", 1), ("warps", 4))
    save(*(Entry(key, "sm_90/132", "v", (Measured(config, 1.0, 1.0),))
           for key in (grouped, attention)))  # fmt: skip
    problem = gemm(128, 768, 768)
    assert neighbours(key_text("gemm", problem, TARGET), database.known("sm_90")) == []
    assert chosen("gemm", problem, TARGET) == estimated_tile(problem, TARGET)


def test_keys_give_their_problems_back():
    problem = gemm(128, 768, 768)
    key = key_text("gemm", problem, TARGET)
    assert key_text("gemm", problem_of(key), TARGET) == key
    half = key_text("gemm", problem, parse_gpu("cuda:sm_90:fp16"))
    record(problem, 0)
    assert neighbours(half, database.known("sm_90")) == []


def test_candidates_are_diverse():
    problem = gemm(128, 768, 768)
    found = diverse(problem, TARGET, 24)
    assert found[0] == estimated_tile(problem, TARGET)
    assert len(set(found)) == len(found) > 16
    times = {tile: estimate(problem, tile, TARGET) for tile in candidates(problem, TARGET)}
    near = [t for t in times if times[t] <= SLOWEST * min(times.values())]
    assert set(found) <= set(near)
    assert {t.shape for t in found} >= {t.shape for t in near if is_modelled(t)}
    assert {t.shape for t in diverse(problem, TARGET, len(times))} == {t.shape for t in near}
    assert any(tile.wgmma for tile in found)


def test_wgmma_tiles_are_predicted_by_estimates_in_nanoseconds():
    """A similar problem's fast tile is not passed over for any wide tile that fits."""
    similar, wanted = gemm(64, 512, 512), gemm(64, 640, 512)
    best = min(
        (t for t in candidates(similar, TARGET) if not t.wgmma),
        key=lambda tile: estimate(similar, tile, TARGET),
    )
    save(entry("gemm", similar, best, 1.5e3))
    assert any(tile.wgmma for tile in candidates(wanted, TARGET))
    assert not chosen("gemm", wanted, TARGET).wgmma
    save(entry("gemm", similar, best, 1e6))
    assert chosen("gemm", wanted, TARGET).wgmma


def test_current_templates_then_the_device_then_the_user_decide(folder: Path):
    current = full_version(code_hash(Gemm.sources), nvrtc_version())
    ours, theirs = "sm_90/132 NVIDIA H200", "sm_90/114 NVIDIA H100 PCIe"
    found = [
        Entry(KEY, device, version, (Measured((("tiles", n),), 1.0),))
        for n, (device, version) in enumerate([(ours, "old"), (theirs, "old"), (theirs, current)])
    ]
    save(*found, device=ours)
    assert entries(TARGET)[KEY] == found[2]
    save(*found[:2], device=ours)
    assert entries(TARGET)[KEY] == found[0]
    save(*found[:2], device=theirs)
    assert entries(TARGET)[KEY] == found[1]
    assert current in current_versions(TARGET)
    assert provenance_of(found[2], TARGET, theirs) is Provenance.TUNED
    assert provenance_of(found[2], TARGET, ours) is Provenance.OTHER_DEVICE
    assert provenance_of(found[0], TARGET, ours) is Provenance.OTHER_VERSION


@pytest.mark.parametrize("place", [0, 1])
def test_configs_of_another_version_are_left_out_with_a_warning(place: int):
    problems = gemm(64, 512, 512), gemm(64, 640, 512)
    estimated = chosen("gemm", problems[0], TARGET)
    key, old = key_text("gemm", problems[place], TARGET), (("height", 64), (f"width{place}", 64))
    save(Entry(key, "sm_90/132", "v", (Measured(old, 1.0),)))
    with pytest.warns(UserWarning, match=r"height, width.* left out; remove the files"):
        assert chosen("gemm", problems[0], TARGET) == estimated


def test_the_choice_of_a_whole_model_comes_first():
    first, second, third = ((("tiles", n),) for n in (1, 2, 3))
    times = (Measured(first, 1.0), Measured(second, 2.0), Measured(third, 3.0))
    alone = Entry(KEY, "d", "v", times)
    assert [measured.config for measured in alone.ranked] == [first, second, third]
    chosen = replace(alone, context=InContext(third, "model.onnx", 0.02))
    assert [measured.config for measured in chosen.ranked] == [third, first, second]


def test_a_new_database_gives_new_cache_keys():
    before = tuning_of(TARGET)
    record(gemm(128, 768, 768), 0)
    assert tuning_of(TARGET) != before
    assert tuning_of(parse_target("cpu:x86-64-v3")) == ""


def test_a_cached_kernel_is_not_taken_once_the_database_has_changed(tmp_path: Path):
    info = TensorInfo("float32", (4,))
    group = Group("one", (info, info), 1, (False,), {}, (Node("Relu", {}, (0,), (1,)),), (1,))
    cache, target = KernelCache(tmp_path / "cache"), "cuda:sm_90:tf32"
    cache.store(group, target, KernelSpec("one", "cuda", b"code", (), ("",)))
    assert cache.load(group, target) is not None
    record(gemm(128, 768, 768), 0)
    assert cache.load(group, target) is None


def test_the_best_measured_tiles_and_similar_ones_are_measured_again():
    image = Gather(64, 361, 64 * 361, 361, 9, 64, True, (1, 19, 19), (1, 19, 19), (1, 3, 3),
                   pads=(0, 1, 1))  # fmt: skip
    problem = replace(
        gemm(128, 361, 576),
        form=Form.BLOCKS,
        b_row=0,
        gather=image,
        result_index=("0", "m", "n"),
        packings=((0, ""),),
        block=4,
    )
    fits = set(candidates(problem, TARGET))
    best = next(t for t in candidates(problem, TARGET) if t.split_k == 4 and not t.halo)
    own = entry("gemm", problem, best, 1.0)
    first, patch, *others = near_measured(problem, own, TARGET, fits)
    assert first == best
    assert replace(patch, halo=False, stages=best.stages) == best
    assert {tile.split_k for tile in others} == {2, 3, 6}
    assert all(tile.shape == best.shape for tile in others)
