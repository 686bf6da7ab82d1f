"""Bundles, measurements with a fake driver, and merging."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from compiler.autotune.kernels import bundle as bundles
from compiler.autotune.kernels.bundle import Bundle, bounded, merge_bundles, packed
from compiler.autotune.kernels.duration import compile_seconds, device_seconds, expected_duration
from compiler.autotune.kernels.measure import CHAIN_NS, PROBES, agree, chain_lengths
from compiler.autotune.kernels.merge import entries_of, merge_entries
from compiler.autotune.kernels.results import Header, Result, load_results
from compiler.backends.gpu.driver import Handle
from compiler.errors import ArtifactError, DeviceError
from compiler.kernels import database
from compiler.kernels.database import Database, Entry, InContext, Measured
from compiler.target.nvrtc import nvrtc_version
from tests.autotune.kernels.make import (
    ELF,
    KEY,
    candidate,
    config,
    double,
    driver,
    forget,
    kernel,
    key_of,
    make_bundle,
    run,
)
from tests.backends.gpu.recording import RecordingDriver

GOOD = make_bundle(candidate(0, "double", 3), candidate(1, "double", 1), candidate(2, "double", 2))
HEADER = Header("sm_90", "d", "c")


def test_the_fastest_candidate_comes_first(tmp_path: Path):
    found = run(tmp_path / "r", GOOD)
    (entry,) = entries_of(load_results(tmp_path / "r")[0], found)
    assert entry.configs[0].config == config(1)
    assert entry.device == "sm_90/132 recorder"
    assert entry.version == f"v {nvrtc_version()}"


def test_wrong_and_broken_candidates_never_win(tmp_path: Path):
    bundle = make_bundle(
        candidate(0, "double", 3), candidate(1, "forget"), candidate(2, "broken"),
        candidate(3, "double", 2),
    )  # fmt: skip
    found = {result.config: result for result in run(tmp_path / "r", bundle)}
    assert found[config(1)].problem.startswith("wrong")
    assert found[config(2)].problem == "no"
    (entry,) = entries_of(HEADER, found.values())
    assert {measured.config for measured in entry.configs} == {config(0), config(3)}


def test_a_wrong_reference_gives_no_entry(tmp_path: Path):
    bundle = make_bundle(candidate(0, "forget"), candidate(1, "double"), candidate(2, "double"))
    assert entries_of(HEADER, run(tmp_path / "r", bundle)) == []


def test_a_killed_run_goes_on_where_it_was(tmp_path: Path):
    def killed(texts: Sequence[str]) -> Iterator[tuple[int, bytes | str]]:
        yield 0, ELF
        yield 1, ELF
        raise KeyboardInterrupt

    path = tmp_path / "r"
    with pytest.raises(KeyboardInterrupt):
        run(path, GOOD, compiler=killed)
    path.write_text(path.read_text() + '{"of": {"template"')
    found = run(path, GOOD)
    assert sorted(result.config for result in found) == [config(0), config(1), config(2)]
    assert run(path, GOOD) == found


def test_the_budget_ends_a_run(tmp_path: Path):
    assert run(tmp_path / "r", GOOD, seconds=0.0) == []


def test_results_of_another_device_are_refused(tmp_path: Path):
    run(tmp_path / "r", GOOD)
    other = driver()
    other.device = replace(other.device, name="another")
    with pytest.raises(ArtifactError, match="name another"):
        run(tmp_path / "r", GOOD, driver=other)
    with pytest.raises(DeviceError, match="prepare one with --arch sm_90"):
        run(tmp_path / "q", replace(GOOD, arch="sm_80"))


def test_a_bundle_survives_and_a_damaged_one_is_refused(tmp_path: Path):
    path = tmp_path / "b"
    bundles.save_bundle(GOOD, path)
    assert bundles.load_bundle(path) == GOOD
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(ArtifactError, match="damaged"):
        bundles.load_bundle(path)


def test_agreement_sees_one_element_and_knows_nan():
    one = np.ones(8, np.float32)
    other, lost = one.copy(), one.copy()
    other[3], lost[3] = 1.5, np.nan
    assert agree(one.view(np.uint8), one.view(np.uint8), "float32")
    assert agree(lost.view(np.uint8), lost.view(np.uint8), "float32")
    assert not agree(other.view(np.uint8), one.view(np.uint8), "float32")
    assert not agree(lost.view(np.uint8), one.view(np.uint8), "float32")


def test_measured_again_are_only_kernels_of_new_templates(tmp_path: Path):
    run(tmp_path / "r", GOOD)
    (old,) = GOOD.kernels
    found = run(tmp_path / "r", replace(GOOD, kernels=(replace(old, version="w"),)))
    assert sorted({(result.config, result.version) for result in found}) == [
        (config(n), version) for n in range(3) for version in "vw"
    ]
    assert len(entries_of(HEADER, found)) == 2


def test_a_slow_candidate_is_given_up_after_a_few_launches(tmp_path: Path):
    slow = make_bundle(candidate(0, "double"), candidate(1, "double", 60), candidate(2, "double"))
    device = driver()
    found = {result.config: result for result in run(tmp_path / "r", slow, driver=device)}
    assert found[config(1)].cold is None
    assert found[config(1)].warm == pytest.approx(60e3, rel=0.1)
    assert found[config(2)].cold is not None
    assert sum(len(graph.nodes) >= 60 for graph in device.graphs) == 0


def test_a_host_that_stalls_does_not_cost_a_candidate_its_times(tmp_path: Path):
    class Stalling(RecordingDriver):
        probes = 0

        def elapsed(self, start: Handle, end: Handle) -> float:
            """A millisecond more for every other probe: its launches, and the event's end."""
            found = super().elapsed(start, end)
            probed = found == (PROBES + 1) * 1e3
            self.probes += probed
            return found + 1e6 * (probed and self.probes % 2)

    device = Stalling({"double": double, "forget": forget})
    bundle = make_bundle(candidate(0, "double"), candidate(1, "double"))
    found = run(tmp_path / "r", bundle, driver=device)
    assert device.probes >= 4
    assert [result.warm for result in found] == [pytest.approx(1e3, rel=0.1)] * 2
    assert all(result.cold is not None for result in found)


def test_a_time_that_noise_swallowed_gives_no_entry():
    none, good = (Result(KEY, config(n), "v", 1000.0 * n, 1000.0) for n in range(2))
    (entry,) = entries_of(HEADER, [none, good])
    assert [measured.config for measured in entry.configs] == [config(1)]


def test_a_measured_candidate_keeps_its_interval(tmp_path: Path):
    (found,) = run(tmp_path / "r", make_bundle(candidate(0, "double")))
    assert found.warm is not None
    assert found.interval is not None
    assert found.interval[0] <= found.warm <= found.interval[1]
    (entry,) = entries_of(HEADER, load_results(tmp_path / "r")[1])
    assert [measured.interval for measured in entry.configs] == [found.interval]


def test_a_kernel_gets_its_workspace_and_gives_everything_back(tmp_path: Path):
    device = driver()
    free = device.free_memory()
    several = [
        kernel(f"{n}", candidate(0, "double", 1, 512), candidate(1, "double")) for n in range(9)
    ]
    found = run(tmp_path / "r", replace(GOOD, kernels=tuple(several)), driver=device)
    assert len(found) == 18
    assert {result.problem for result in found} == {""}
    assert device.free_memory() == free


def test_chains_are_long_enough_to_be_told_apart_and_no_longer():
    assert chain_lengths(5e3) == (24, 4)
    long, short = chain_lengths(1e6)
    assert (long, short) == (3, 1)
    for time in (1e3, 2e4, 5e4, 1e5):
        long, short = chain_lengths(time)
        assert 2 <= long - short <= 20
        assert (long - short) * time <= 1.5 * CHAIN_NS


def test_bundles_are_merged_with_the_same_kernel_once():
    both = merge_bundles([GOOD, GOOD])
    assert [kernel.weight for kernel in both.kernels] == [2.0]
    assert both.count == 3
    with pytest.raises(ArtifactError, match="prepare them anew"):
        merge_bundles([GOOD, replace(GOOD, headers={"a.cuh": "other"})])


def noisy(count: int) -> Bundle:
    """A bundle that cannot be compressed much."""
    chance = np.random.default_rng(0)
    texts = [chance.bytes(4000).hex() for _ in range(count)]
    return make_bundle(*(replace(candidate(n, "x"), text=text) for n, text in enumerate(texts)))


def test_a_bundle_is_bounded_by_leaving_out_the_last_candidates():
    large = noisy(20)
    whole = len(packed(large))
    kept, content = bounded(large, whole // 2)
    assert len(content) <= whole // 2
    assert 6 <= kept.count <= 10
    assert kept.kernels[0].candidates == large.kernels[0].candidates[: kept.count]
    assert bounded(large, whole)[0] == large
    with pytest.raises(ArtifactError, match="fewer models"):
        bounded(large, 1000)


def test_the_expected_time_is_the_longer_of_measuring_and_compiling():
    many = noisy(100)
    assert compile_seconds(many, 1) == pytest.approx(2 * compile_seconds(many, 2))
    assert 0.8 < device_seconds(many) < 3.0
    assert f"should take {compile_seconds(many, 2):.0f} s" in expected_duration(many, 2)
    assert f"should take {device_seconds(many):.0f} s" in expected_duration(many, 1000)


def measured(*numbers: int) -> tuple[Measured, ...]:
    """Tiles that take as many microseconds as their number says."""
    return tuple(Measured(config(n), 1e3 * n, 1e3 * n) for n in numbers)


def test_merging_keeps_every_device_and_version_and_the_fastest_tiles():
    old = Database([Entry(KEY, "d", "v", measured(5))], "d")
    same, other = Entry(KEY, "d", "v", measured(4)), Entry(KEY, "d", "w", measured(6))
    (entry,) = merge_entries(old, [same], "").entries
    assert [measured.config for measured in entry.configs] == [config(4), config(5)]
    found = merge_entries(old, [other, replace(same, device="e")], "e")
    assert [entry.identity[1:] for entry in found.entries] == [("d", "v"), ("d", "w"), ("e", "v")]
    assert found.device == "e"


def test_the_order_of_merging_different_results_does_not_matter():
    one, two = (
        Entry(KEY, "d", "v", measured(1, 3, 5, 7, 9)),
        Entry(KEY, "d", "v", measured(2, 4, 6)),
    )
    first = merge_entries(merge_entries(Database(), [one], "d"), [two], "d")
    assert first == merge_entries(merge_entries(Database(), [two], "d"), [one], "d")
    assert [measured.config for measured in first.entries[0].configs] == [
        config(n) for n in range(1, 7)
    ]


def test_the_choice_of_a_whole_model_outlives_faster_tiles():
    chosen = InContext(config(9), "m", 0.01)
    old = Database([Entry(KEY, "d", "v", measured(9), chosen)], "d")
    (entry,) = merge_entries(old, [Entry(KEY, "d", "v", measured(1, 2, 3, 4, 5, 6))], "d").entries
    assert entry.context == chosen
    assert [measured.config for measured in entry.configs] == [
        config(n) for n in (1, 2, 3, 4, 5, 9)
    ]
    assert entry.ranked[0].config == config(9)


def test_a_database_survives_and_a_damaged_one_is_refused(tmp_path: Path):
    entry = Entry(
        KEY,
        "d",
        "v",
        (Measured(config(2), 4.0, None, (3.5, 4.5)),),
        InContext(config(2), "m.onnx", 0.1),
    )
    plain = Entry(key_of("j"), "d", "v", measured(1, 2))
    database.save(tmp_path / "d", Database([entry, plain], "d"))
    assert database.load(tmp_path / "d") == Database([plain, entry], "d")
    (tmp_path / "d").write_text("{}\n")
    with pytest.raises(ArtifactError, match="is not a database"):
        database.load(tmp_path / "d")


def test_a_failed_write_leaves_the_old_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "d"
    database.save(path, Database([Entry(KEY, "d", "v", measured(1))], "d"))
    before = path.read_bytes()

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(database.os, "replace", fail)
    with pytest.raises(ArtifactError, match="No space left"):
        database.save(path, Database([Entry(KEY, "d", "v", measured(2))], "d"))
    assert path.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["d"]
