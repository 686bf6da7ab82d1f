"""The kernel cache: damage, concurrency, crashes, limits, and directories that fail."""

import errno
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy
import onnx
import pytest
from onnx import helper, parser

from compiler.kernels.building import cache as kernel_cache
from compiler.kernels.building import kernel
from compiler.kernels.building.cache import (
    STAMP,
    TRIM_SECONDS,
    KernelCache,
    deciding_sources,
    decode_entry,
    encode_entry,
)
from compiler.kernels.database import Database, Entry, Measured, save, user_file
from compiler.kernels.group import Group, TensorInfo
from compiler.schedule.kernels import KernelSpec, Launch, Operand
from compiler.support import caches
from tests.kernels.harness import single
from tests.rewrite.rules.certificates import imported

PACKAGE = Path(caches.__file__).parents[1]
LAUNCH = Launch("k_0", (0, 1), (7, 1, 1))
READS = (Operand("float32", (2, 3)), Operand("bool", ()))
SPEC = KernelSpec(
    *("k", "object", b"\x7fELF\x00code", (LAUNCH,), ("", "pad:0,1"), (64,), 5, 6),
    reads=READS,
    writes=READS[:1],
)


def group_of(extent: int = 4) -> Group:
    array = numpy.zeros((2, extent), "float32")
    return single("Relu", [array], [TensorInfo("float32", array.shape)])[0]


def entries(directory: Path) -> list[Path]:
    return list(directory.glob("*/*.kernel"))


def test_an_entry_comes_back_whole(tmp_path: Path):
    cache = KernelCache(tmp_path)
    assert cache.load(group_of(), "cpu:a") is None
    cache.store(group_of(), "cpu:a", SPEC)
    assert cache.load(group_of(), "cpu:a") == SPEC
    assert decode_entry(encode_entry(SPEC)) == SPEC


def test_group_and_target_are_part_of_the_key(tmp_path: Path):
    cache = KernelCache(tmp_path)
    cache.store(group_of(), "cpu:a", SPEC)
    assert cache.load(group_of(5), "cpu:a") is None
    assert cache.load(group_of(), "cpu:b") is None


@pytest.mark.parametrize("position", [0, 20, 60, -1])
def test_a_flipped_byte_is_warned_of_and_built_anew(tmp_path: Path, position: int):
    cache = KernelCache(tmp_path)
    cache.store(group_of(), "cpu:a", SPEC)
    content = bytearray(entries(tmp_path)[0].read_bytes())
    content[position] ^= 1
    entries(tmp_path)[0].write_bytes(content)
    with pytest.warns(UserWarning, match="damaged"):
        assert cache.load(group_of(), "cpu:a") is None
    cache.store(group_of(), "cpu:a", SPEC)
    assert cache.load(group_of(), "cpu:a") == SPEC


@pytest.mark.parametrize("kept", [0, 10, 50, 100])
def test_a_truncated_entry_is_warned_of(tmp_path: Path, kept: int):
    cache = KernelCache(tmp_path)
    cache.store(group_of(), "cpu:a", SPEC)
    path = entries(tmp_path)[0]
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.warns(UserWarning, match="damaged"):
        assert cache.load(group_of(), "cpu:a") is None


def test_a_leftover_of_a_crash_is_no_entry_and_is_cleared(tmp_path: Path):
    cache = KernelCache(tmp_path)
    cache.store(group_of(), "cpu:a", SPEC)
    leftover = entries(tmp_path)[0].parent / "tmpcrash.tmp"
    leftover.write_bytes(b"half an en")
    assert cache.status().entries == 1
    assert cache.load(group_of(), "cpu:a") == SPEC
    assert cache.clear() == 1
    assert not leftover.exists()
    assert cache.status().entries == 0


WRITER = """
import sys
from tests.kernels.building.test_cache import SPEC, KernelCache, group_of
cache = KernelCache(sys.argv[1])
for _ in range(100):
    for extent in range(1, 6):
        found = cache.load(group_of(extent), "cpu:a")
        assert found is None or found == SPEC
        cache.store(group_of(extent), "cpu:a", SPEC)
"""


def test_two_processes_write_the_same_entries(tmp_path: Path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-W", "error", "-c", WRITER, str(tmp_path)]
    writers = [subprocess.Popen(command, env=environment) for _ in range(2)]
    assert [writer.wait(300) for writer in writers] == [0, 0]
    assert KernelCache(tmp_path).status().entries == 5
    assert not list(tmp_path.glob("*/*.tmp"))


@pytest.fixture(autouse=True)
def unwarned(monkeypatch: pytest.MonkeyPatch) -> None:
    """No cache was warned of yet."""
    monkeypatch.setattr(caches, "WARNED", set[str]())


def test_a_directory_that_cannot_be_made_is_warned_of_once(tmp_path: Path):
    blocked = tmp_path / "file"
    blocked.write_text("not a directory")
    with warnings.catch_warnings(record=True) as caught:
        for _ in range(2):
            cache = KernelCache(blocked)
            cache.store(group_of(), "cpu:a", SPEC)
            assert cache.load(group_of(), "cpu:a") is None
            cache.trim()
            assert (cache.status().entries, cache.clear()) == (0, 0)
    (warning,) = caught
    assert "working without a cache: set FLOWLOOM_CACHE" in str(warning.message)


@pytest.mark.parametrize(
    ("function", "code", "said"),
    [
        ("Path.write_bytes", errno.EROFS, "Read-only file system"),
        ("Path.write_bytes", errno.EACCES, "Permission denied"),
        ("os.replace", errno.ENOSPC, "No space left on device"),
    ],
)
def test_a_directory_that_takes_no_entry_is_warned_of_and_nothing_is_left(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, function: str, code: int, said: str
):
    def fail(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(f"compiler.support.caches.{function}", fail)
    with pytest.warns(UserWarning, match=rf"cannot write .*{tmp_path}: {said}; working without"):
        KernelCache(tmp_path).store(group_of(), "cpu:a", SPEC)
    monkeypatch.undo()
    assert list(tmp_path.glob("*/*")) == []


def run_without_cache(place: Path, *options: str, **changes: str) -> list[str]:
    """The lines that compiling a small model prints to standard error, where it must not fail."""
    model = helper.make_model(parser.parse_graph("g (float[4] x) => (float[4] y) { y = Relu(x) }"))
    onnx.save(model, place / "model.onnx")
    command = [sys.executable, "-m", "compiler", "compile", "model.onnx", "-o", "built"]
    command += ["--quiet"]
    kept = {n: v for n, v in os.environ.items() if n not in ("FLOWLOOM_CACHE", "XDG_CACHE_HOME")}
    path = os.pathsep.join(filter(None, map(os.path.abspath, sys.path)))
    ran = subprocess.run(
        [*command, *options],
        cwd=place,
        env={**kept, "PYTHONPATH": path, **changes},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stderr.splitlines()


def test_a_cache_that_cannot_be_made_is_one_line_on_the_command_line(tmp_path: Path):
    (line,) = run_without_cache(tmp_path, HOME="/proc")
    assert line.startswith("flowloom: warning: cannot write the kernel cache /proc/.cache/flowloom")
    assert line.endswith("working without a cache: set FLOWLOOM_CACHE to a directory that can be"
                         " written")  # fmt: skip


def test_without_a_cache_nothing_is_read_or_written(tmp_path: Path):
    cache = tmp_path / "cache"
    assert run_without_cache(tmp_path, "--no-cache", FLOWLOOM_CACHE=str(cache)) == []
    assert not cache.exists()


def test_without_a_home_there_is_no_cache(monkeypatch: pytest.MonkeyPatch):
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    for variable in ("FLOWLOOM_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    with pytest.warns(UserWarning, match="there is no home directory; working without a cache"):
        cache = KernelCache()
    cache.store(group_of(), "cpu:a", SPEC)
    assert cache.load(group_of(), "cpu:a") is None
    assert cache.status().directory is None


def test_a_directory_that_cannot_be_read_is_warned_of(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    def fail(_: Path) -> bytes:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(kernel_cache, "read_regular", fail)
    with pytest.warns(UserWarning, match=r"cannot read .*Permission denied; working without"):
        assert KernelCache(tmp_path, version="any").load(group_of(), "cpu:a") is None


def test_new_tiles_make_old_kernels_of_a_gpu_unknown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setenv("FLOWLOOM_TUNING", str(tmp_path / "tiles"))
    tuned, carried = KernelCache(tmp_path), KernelCache(tmp_path, version="carried")
    for cache in (tuned, carried):
        for target in ("cpu:a", "cuda:sm_90:tf32", "cuda:sm_80:tf32"):
            cache.store(group_of(), target, SPEC)
    entry = Entry('{"template":"gemm"}', "some", "1", (Measured((("rows", 16),), 5.0),))
    save(user_file("sm_90"), Database([entry]))
    assert tuned.load(group_of(), "cuda:sm_90:tf32") is None
    assert tuned.load(group_of(), "cuda:sm_80:tf32") == SPEC
    assert tuned.load(group_of(), "cpu:a") == SPEC
    assert carried.load(group_of(), "cuda:sm_90:tf32") == SPEC


def test_the_version_is_of_all_that_building_imports():
    """Else a change of a room would leave the kernels of before it in users' caches."""
    reached = imported(Path(kernel.__file__))
    sources = {path for path in reached if path.is_relative_to(PACKAGE)} - set(deciding_sources())
    rooms = {path.relative_to(PACKAGE).parts[0] for path in sources}
    assert rooms == {"emulator", "errors.py"}, "generator_version has the emulator's"


def test_the_entries_used_least_recently_go_first(tmp_path: Path):
    cache = KernelCache(tmp_path, limit=2 * len(encode_entry(SPEC)))
    for age, extent in enumerate((3, 1, 2)):
        cache.store(group_of(extent), "cpu:a", SPEC)
        for path in entries(tmp_path):
            stat = path.stat()
            os.utime(path, (stat.st_atime, stat.st_mtime - 100 * (3 - age)))
    cache.load(group_of(3), "cpu:a")
    cache.trim()
    assert cache.load(group_of(3), "cpu:a") == SPEC
    assert cache.load(group_of(1), "cpu:a") is None
    assert cache.status().entries == 2


def test_the_cache_is_trimmed_once_an_hour(tmp_path: Path):
    """A process that comes within the hour asks for no entry's size."""
    cache = KernelCache(tmp_path, limit=0)
    cache.store(group_of(), "cpu:a", SPEC)
    cache.trim_hourly()
    assert not entries(tmp_path)
    cache.store(group_of(), "cpu:a", SPEC)
    KernelCache(tmp_path, limit=0).trim_hourly()
    assert entries(tmp_path)
    os.utime(tmp_path / STAMP, (0, time.time() - TRIM_SECONDS))
    cache.trim_hourly()
    assert not entries(tmp_path)
    cache.store(group_of(), "cpu:a", SPEC)
    os.utime(tmp_path / STAMP, (0, time.time() + 2 * TRIM_SECONDS))
    cache.trim_hourly()
    assert not entries(tmp_path), "a clock that was set back"


def test_status_counts_by_target(tmp_path: Path):
    cache = KernelCache(tmp_path)
    cache.store(group_of(), "cpu:a", SPEC)
    cache.store(group_of(), "cpu:b:+avx2", SPEC)
    status = cache.status()
    assert status.entries == len(status.targets) == 2
    assert status.nbytes == 2 * len(encode_entry(SPEC))


def test_the_environment_names_the_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("FLOWLOOM_CACHE", str(tmp_path / "here"))
    assert KernelCache().directory == tmp_path / "here"
    monkeypatch.delenv("FLOWLOOM_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert KernelCache().directory == tmp_path / "flowloom" / "kernels"


def test_texts_are_kept_by_key_and_target(tmp_path: Path):
    cache = KernelCache(tmp_path)
    cache.store_text("question", "cpu:a", "graph: \u03b1\n")
    assert cache.load_text("question", "cpu:a") == "graph: \u03b1\n"
    assert cache.load_text("question", "cpu:b") is None
    assert cache.load_text("other", "cpu:a") is None
    assert KernelCache(tmp_path, version="another").load_text("question", "cpu:a") is None
    assert cache.status().entries == 1
    assert cache.clear() == 1
    assert cache.load_text("question", "cpu:a") is None


@pytest.mark.parametrize("kept", [0, 10, 64, 70])
def test_a_truncated_text_is_warned_of(tmp_path: Path, kept: int):
    cache = KernelCache(tmp_path)
    cache.store_text("question", "cpu:a", "a graph")
    (path,) = tmp_path.rglob("*.mlir")
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.warns(UserWarning, match="damaged"):
        assert cache.load_text("question", "cpu:a") is None


def test_a_text_that_was_read_is_kept_longer(tmp_path: Path):
    cache = KernelCache(tmp_path, limit=120)
    for number, key in enumerate(("old", "new")):
        cache.store_text(key, "cpu:a", "a graph")
        for path in tmp_path.rglob("*.mlir"):
            os.utime(path, (number, number))
    cache.load_text("old", "cpu:a")
    cache.trim()
    assert cache.load_text("old", "cpu:a") == "a graph"
    assert cache.load_text("new", "cpu:a") is None
