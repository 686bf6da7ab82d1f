"""Bundles, measurements with a fake driver, merging, and choosing tiles from a database."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compiler.errors import ArtifactError
from compiler.kernels import database
from compiler.kernels.database import Entry, Measured
from compiler.schedule import Launch
from compiler.tuning import bundle as bundles
from compiler.tuning.bundle import Buffer, Bundle, Candidate, Kernel
from compiler.tuning.measure import agree, header_of, measure
from compiler.tuning.merge import entries_of, merged
from compiler.tuning.results import Header, Result, ResultFile, load
from tests.backends.gpu.recording import RecordingDriver

ELF = b"\x7fELF"
SIZE = 64


def double(source: Any, result: Any) -> None:
    """A right kernel."""
    result.view(np.float32)[:SIZE] = 2 * source.view(np.float32)[:SIZE]


def forget(source: Any, result: Any) -> None:
    """A kernel that leaves its last element out."""
    result.view(np.float32)[: SIZE - 1] = 2 * source.view(np.float32)[: SIZE - 1]


def candidate(number: int, symbol: str, times: int = 1) -> Candidate:
    """A candidate whose launches take as many microseconds as there are."""
    return Candidate((number,), symbol, (Launch(symbol, (0, 1)),) * times, ())


def make_bundle(*candidates: Candidate) -> Bundle:
    """A bundle of one kernel."""
    buffer = Buffer("float32", (SIZE,))
    kernel = Kernel("k", "kernel", 1.0, (buffer,), (buffer,), candidates)
    return Bundle("sm_90", "sm_90a", "v", {"a.cuh": ""}, (kernel,))


GOOD = make_bundle(candidate(0, "double", 3), candidate(1, "double", 1), candidate(2, "double", 2))


def compiled(texts: Sequence[str]) -> Iterator[tuple[int, bytes | str]]:
    """Cubins in an order that brings the reference last."""
    for number in reversed(range(len(texts))):
        yield number, ("no" if texts[number] == "broken" else ELF)


def run(path: Path, bundle: Bundle, **options: Any) -> list[Result]:
    """Measure on a fake device."""
    driver = RecordingDriver({"double": double, "forget": forget})
    results = ResultFile(path, header_of(driver, bundle))
    measure(driver, bundle, results, options.pop("compiler", compiled), **options)
    results.close()
    return load(path)[1]


def test_the_fastest_candidate_comes_first(tmp_path: Path):
    found = run(tmp_path / "r", GOOD)
    (entry,) = entries_of(load(tmp_path / "r")[0], found)
    assert entry.tiles[0].tile == (1,)
    assert entry.device == "sm_90/132"


def test_wrong_and_broken_candidates_never_win(tmp_path: Path):
    bundle = make_bundle(
        candidate(0, "double", 3), candidate(1, "forget"), candidate(2, "broken"),
        candidate(3, "double", 2),
    )  # fmt: skip
    found = {result.tile: result for result in run(tmp_path / "r", bundle)}
    assert found[(1,)].problem.startswith("wrong")
    assert found[(2,)].problem == "no"
    (entry,) = entries_of(Header("sm_90", "d", "v"), found.values())
    assert {each.tile for each in entry.tiles} == {(0,), (3,)}


def test_a_wrong_reference_gives_no_entry(tmp_path: Path):
    bundle = make_bundle(candidate(0, "forget"), candidate(1, "double"), candidate(2, "double"))
    assert entries_of(Header("sm_90", "d", "v"), run(tmp_path / "r", bundle)) == []


def test_a_killed_run_goes_on_where_it_was(tmp_path: Path):
    def killed(texts: Sequence[str]) -> Iterator[tuple[int, bytes | str]]:
        yield 0, ELF
        yield 1, ELF
        raise KeyboardInterrupt

    path = tmp_path / "r"
    with pytest.raises(KeyboardInterrupt):
        run(path, GOOD, compiler=killed)
    path.write_text(path.read_text() + '{"key": "k", "ti')
    found = run(path, GOOD)
    assert sorted(result.tile for result in found) == [(0,), (1,), (2,)]
    assert run(path, GOOD) == found


def test_the_budget_ends_a_run(tmp_path: Path):
    assert run(tmp_path / "r", GOOD, seconds=0.0) == []


def test_results_of_another_device_are_refused(tmp_path: Path):
    run(tmp_path / "r", GOOD)
    with pytest.raises(ArtifactError, match="name another"):
        run(tmp_path / "r", replace(GOOD, version="w"))


def test_a_bundle_survives_and_a_damaged_one_is_refused(tmp_path: Path):
    path = tmp_path / "b"
    bundles.save(GOOD, path)
    assert bundles.load(path) == GOOD
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(ArtifactError, match="damaged"):
        bundles.load(path)


def test_agreement_sees_one_element_and_knows_nan():
    one = np.ones(8, np.float32)
    other, lost = one.copy(), one.copy()
    other[3], lost[3] = 1.5, np.nan
    assert agree(one.view(np.uint8), one.view(np.uint8), "float32")
    assert agree(lost.view(np.uint8), lost.view(np.uint8), "float32")
    assert not agree(other.view(np.uint8), one.view(np.uint8), "float32")
    assert not agree(lost.view(np.uint8), one.view(np.uint8), "float32")


def test_merging_keeps_tiles_of_one_version_only():
    old = Entry("k", "d", "v", (Measured((1,), 5.0, 5.0),))
    same = Entry("k", "d", "v", (Measured((2,), 4.0, 4.0),))
    (entry,) = merged([old], [same])
    assert [each.tile for each in entry.tiles] == [(2,), (1,)]
    assert merged([old], [replace(same, version="w")])[0].tiles == same.tiles


def test_a_database_survives_and_a_damaged_one_is_refused(tmp_path: Path):
    entry = Entry("k", "d", "v", (Measured((2,), 4.0, None),))
    database.save(tmp_path / "d", [entry])
    assert database.load(tmp_path / "d") == [entry]
    (tmp_path / "d").write_text("{}\n")
    with pytest.raises(ArtifactError, match="no database"):
        database.load(tmp_path / "d")
