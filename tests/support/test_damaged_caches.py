"""Entries of caches that cannot be read count as absent, whatever stands in their place."""

import json
import os
import signal
import threading
import warnings
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import compiler
from compiler.artifact import library
from compiler.autotune.kernels.merge import merge_into
from compiler.emulator import compile as emulator
from compiler.errors import ArtifactError
from compiler.kernels import database
from compiler.kernels.building import KernelCache
from compiler.kernels.cpu.host import database_name
from compiler.kernels.cpu.machine import host_target
from compiler.support import caches
from compiler.tools.api import keeping
from tests.test_keeping import content

X = np.arange(6, dtype=np.float32).reshape(2, 3)
EXPECTED = np.maximum(X * np.array([1, 2, 3], np.float32), 0)

OLD = {"format": 2, "arch": "cpu", "device": "d", "compiler": "c"}
LINE: dict[str, Any] = {
    "problem": {"template": "matmul", "m": 4},
    "device": "d",
    "version": "v",
    "configs": [{"config": {"rows": 4}, "warm": 1.0, "cold": 2.0}],
}


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _replace(make: Callable[[Path], Any]) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        path.unlink()
        make(path)

    return damage


def _write(data: bytes) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        path.write_bytes(data)

    return damage


DAMAGE: dict[str, Callable[[Path], None]] = {
    "a directory": _replace(os.mkdir),
    "a FIFO": _replace(os.mkfifo),
    "a loop of links": _replace(lambda path: path.symlink_to(path.name)),
    "empty": _replace(Path.touch),
    "truncated": _truncate,
    "garbage": _write(bytes(range(256)) * 4),
    "a path": _write(b"../elsewhere"),
    "a NUL": _write(b"a\0b"),
    "JSON of another form": _write(b"[[[]]]"),
    "an older format": _write(json.dumps(OLD).encode()),
    "unreadable": lambda path: path.chmod(0),
}


@contextmanager
def _within(seconds: int) -> Generator[None]:
    """Interrupts what hangs."""

    def interrupt(*_: object) -> None:
        raise TimeoutError("it hangs")

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _check_compilation(model: bytes | Path | None = None, **options: Any) -> None:
    """Compile and run a small model; a module is kept in another thread."""
    module = compiler.compile(content() if model is None else model, **options)
    np.testing.assert_array_equal(module.run({"x": X})["y"], EXPECTED)
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()


def _kernels() -> None:
    os.environ[keeping.KEEPING] = "off"
    _check_compilation(budget=0)


def _records() -> None:
    path = Path(os.environ["FLOWLOOM_CACHE"]).with_name("model.onnx")
    if not path.exists():
        path.write_bytes(content())
    _check_compilation(path)


def _compile_in_folder() -> None:
    made = caches.compiled_once(lambda: b"code", (), "input")
    assert made == b"code"


def _host_object() -> None:
    folder = Path(os.environ["FLOWLOOM_CACHE"])
    sources = library.host_sources()[:1]

    class Ran:
        returncode = 0

    def compile_object(*arguments: Any) -> Any:
        Path(arguments[arguments.index("-o") + 1]).write_bytes(b"object")
        return Ran()

    for source in sources:
        made = library._cached_object(compile_object, folder, source)  # pyright: ignore[reportPrivateUsage]
        assert made == b"object"


def _engine() -> None:
    emulator.engine.cache_clear()
    assert emulator.engine() == b"engine"


def _database() -> None:
    folder = Path(os.environ[database.DATABASE_VARIABLE])
    path = folder / f"{database_name(host_target())}.jsonl"
    if not path.exists() and not path.is_symlink():
        folder.mkdir(exist_ok=True)
        head = {"format": database.FORMAT, "device": "d"}
        path.write_text("\n".join(map(json.dumps, (head, LINE, LINE))) + "\n")
    _check_compilation(budget=0)


CACHES: dict[str, tuple[Callable[[], None], str]] = {
    "kernels": (_kernels, "cache/**/*.kernel"),
    "records of kept modules": (_records, "cache/models/*/*.digest"),
    "manifests of kept modules": (_check_compilation, "cache/models/*/*/manifest.json"),
    "weights of kept modules": (_check_compilation, "cache/models/*/*/weights.safetensors"),
    "kernels of kept modules": (_check_compilation, "cache/models/*/*/kernels/*.o"),
    "compiled code": (_compile_in_folder, "compiled/*/*"),
    "host objects": (_host_object, "cache/*"),
    "the engine": (_engine, "cache/emulator/engine-*"),
    "tuned configs": (_database, "tuning/*.jsonl"),
}
"""Each cache: what reads and writes it, and the files in it."""


@pytest.fixture(autouse=True)
def _folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(keeping.KEEPING, "on")
    monkeypatch.setenv("FLOWLOOM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv(caches.COMPILED_VARIABLE, str(tmp_path / "compiled"))
    monkeypatch.setenv(database.DATABASE_VARIABLE, str(tmp_path / "tuning"))
    monkeypatch.setattr(keeping, "SETTLED_SECONDS", -1.0)
    monkeypatch.setattr(emulator, "_build_engine", lambda: b"engine")
    yield
    emulator.engine.cache_clear()  # so that later tests of this process have the true one


@pytest.mark.parametrize("cache", CACHES)
def test_damage_counts_as_absent(cache: str, tmp_path: Path):
    use, pattern = CACHES[cache]
    for damage in DAMAGE.values():
        use()
        paths = [path for path in tmp_path.glob(pattern) if path.is_file() or path.is_symlink()]
        assert paths
        for path in paths:
            damage(path)
        with _within(20), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            use()
        for warning in caught:
            assert str(tmp_path) in str(warning.message)
        for path in paths:
            _remove(path)


def _remove(path: Path) -> None:
    if path.is_dir():
        path.rmdir()
    else:
        path.unlink(missing_ok=True)


def test_a_record_leads_nowhere_else(tmp_path: Path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").touch()
    model = tmp_path / "model.onnx"
    model.write_bytes(content())
    os.utime(model, (0, 0))
    request = keeping.KeptModule.of(_arguments(model))
    assert request is not None
    request.folder.mkdir(parents=True)
    request._record.write_text(str(outside))  # pyright: ignore[reportPrivateUsage]
    assert request.load(None) is None
    assert (outside / "file").exists()


def _arguments(model: Path) -> dict[str, Any]:
    names = (*keeping.PASSING, "target")
    return {**dict.fromkeys(names), "model": model, "cache": True, "target": "cpu"}


def test_bad_lines_of_a_database_are_left_out_with_one_warning(tmp_path: Path):
    path = tmp_path / "d.jsonl"
    head = {"format": database.FORMAT, "device": "d"}
    bad: list[Any] = [
        {**LINE, "configs": [{"config": {"rows": {}}, "warm": 1.0, "cold": None}]},
        {**LINE, "configs": [{"config": {"rows": 4}, "warm": "1", "cold": None}]},
        {**LINE, "configs": [{"config": {"rows": 4}, "warm": float("nan"), "cold": None}]},
        {**LINE, "configs": []},
        {**LINE, "device": 3},
        {**LINE, "problem": {"m": 4}},
        {**LINE, "problem": {"template": "matmul", "m": None}},
        [],
    ]
    path.write_text("\n".join(map(json.dumps, (head, LINE, *bad))) + "\n{\n")
    files = ((path, 0),)
    with pytest.warns(UserWarning, match=f"{path}: 9 lines cannot be read.*remove the file"):
        (loaded,) = database._loaded(files)  # pyright: ignore[reportPrivateUsage]
    assert len(loaded.entries) == 1
    with pytest.raises(ArtifactError, match="is not a database of tuned configs"):
        merge_into(path, loaded.entries, "d")


@pytest.mark.parametrize("damage", ["a directory", "a FIFO", "garbage", "an older format"])
def test_commands_that_change_a_database_refuse_a_damaged_one(damage: str, tmp_path: Path):
    path = tmp_path / "d.jsonl"
    path.touch()
    DAMAGE[damage](path)
    with _within(20), pytest.raises(ArtifactError, match=r"d\.jsonl is not a database"):
        merge_into(path, [], "d")


def test_a_cleared_cache_keeps_what_is_no_file(tmp_path: Path):
    (tmp_path / "cpu" / "x.kernel").mkdir(parents=True)
    KernelCache(tmp_path).clear()
    assert (tmp_path / "cpu" / "x.kernel").is_dir()
