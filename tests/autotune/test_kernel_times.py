"""The database merges in any order, survives a round trip, and serves the device it is of."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.autotune.kernel_times import (
    KernelTimeDatabase,
    KernelTimeKey,
    KernelTimeRecord,
    kernel_hash,
)
from compiler.autotune.profile import measure_kernels
from compiler.errors import ArtifactError
from compiler.schedule.kernels import KernelSpec, Launch
from tests.backends.gpu.cases import case
from tests.backends.gpu.recording import RecordingDriver

KEYS = st.builds(
    KernelTimeKey, st.sampled_from("ab"), st.just("gpu"), st.integers(1, 2), st.just("13.0")
)
TIMES = st.floats(1, 100)
RECORDS = st.builds(KernelTimeRecord, TIMES, TIMES, TIMES, TIMES, st.integers(1, 3))
DATABASES = st.lists(st.tuples(KEYS, RECORDS), max_size=6)


def database(entries: list[tuple[KernelTimeKey, KernelTimeRecord]]) -> KernelTimeDatabase:
    found = KernelTimeDatabase()
    for entry in entries:
        found.add(*entry)
    return found


@given(DATABASES, DATABASES)
def test_the_record_with_more_samples_is_kept(
    mine: list[tuple[KernelTimeKey, KernelTimeRecord]],
    theirs: list[tuple[KernelTimeKey, KernelTimeRecord]],
):
    merged = database(mine)
    merged.merge(database(theirs))
    for key, record in merged.records.items():
        given_ones = [r for k, r in mine + theirs if k == key]
        assert record in given_ones
        assert record.count == max(r.count for r in given_ones)


def test_round_trip_and_damage(tmp_path: Path):
    path = tmp_path / "times.json"
    found = KernelTimeDatabase(
        {KernelTimeKey("a", "gpu", 1, "13.0"): KernelTimeRecord(1.5, 2.0, 1.0, 2.0, 9)}
    )
    found.save(path)
    assert KernelTimeDatabase.load(path).records == found.records
    path.write_text(path.read_text()[:-9])
    with pytest.raises(ArtifactError, match="not a database of kernel times"):
        KernelTimeDatabase.load(path)
    path.write_text('{"format": 7, "kernels": []}')
    with pytest.raises(ArtifactError, match="format 7"):
        KernelTimeDatabase.load(path)


def test_a_kernel_is_known_by_its_code_and_launches():
    launch = Launch("f", (0,), (2, 1, 1))
    one = KernelSpec("one", "cuda", b"code", (launch,), ("",))
    two = KernelSpec("two", "cuda", b"code", (launch,), ("",))
    other = KernelSpec("one", "cuda", b"code", (Launch("f", (0,), (3, 1, 1)),), ("",))
    assert kernel_hash(one) == kernel_hash(two) != kernel_hash(other)


def test_every_kernel_of_a_schedule_is_timed():
    found = case(4, tasks=6)
    driver = RecordingDriver(found.functions)
    specs = found.specs(lambda name: b"\x7fELF" + name.encode())
    free = driver.free_memory()
    times = measure_kernels(driver, found.schedule, specs, samples=3)
    assert driver.free_memory() == free
    costs = times.costs(specs.values(), driver.device)
    assert costs == {name: 1000.0 * len(spec.launches) for name, spec in specs.items()}


def test_without_a_device_the_one_that_most_kernels_were_timed_on_counts():
    specs = [KernelSpec(name, "cuda", name.encode(), (), ()) for name in "ab"]
    a, b = (kernel_hash(spec) for spec in specs)
    found = KernelTimeDatabase(
        {KernelTimeKey(a, "old", 1, "13.0"): KernelTimeRecord(9, None, 9, 9, 5)}
    )
    assert found.costs_anywhere(specs) == {"a": 9}
    found.add(KernelTimeKey(a, "new", 1, "13.0"), KernelTimeRecord(3, 4, 3, 3, 5))
    found.add(KernelTimeKey(b, "new", 1, "13.0"), KernelTimeRecord(5, None, 5, 5, 5))
    assert found.costs_anywhere(specs) == {"a": 3.25, "b": 5}
    assert KernelTimeDatabase().costs_anywhere(specs) == {}


def test_quick_times_are_warm_only_and_end_when_time_is_over():
    found = case(4, tasks=6)
    driver = RecordingDriver(found.functions)
    specs = found.specs(lambda name: b"\x7fELF" + name.encode())
    answers = iter([False, False, True])
    times = measure_kernels(
        driver, found.schedule, specs, 3, cold=False, expired=lambda: next(answers)
    )
    assert [record.cold for record in times.records.values()] == [None, None]
