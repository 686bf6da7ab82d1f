"""Numba's cache is kept with Flowloom's, and is not needed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

SCRIPT = """
import numba, numpy
numba.config.CACHE_DIR = ""
from compiler.scheduling import event_loop
assert event_loop.__file__.startswith(%r)
assert numba.config.CACHE_DIR == ""
first, targets = event_loop.successors(numpy.array([[0, 1]]), 2)
assert targets.tolist() == [1]
"""


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    """A copy of what the event loop needs, in which no bytecode and no cache can be written."""
    for path in (
        "__init__.py",
        "errors.py",
        "module.py",
        "caches.py",
        "schedule.py",
        "dag.py",
        "control.py",
    ):
        (tmp_path / "compiler").mkdir(exist_ok=True)
        shutil.copy(ROOT / "compiler" / path, tmp_path / "compiler" / path)
    for room in ("scheduling", "verify", "target", "backends", "export", "emulator"):
        skip = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / "compiler" / room, tmp_path / "compiler" / room, ignore=skip)
    for folder in [tmp_path / "compiler", *(tmp_path / "compiler").rglob("*/")]:
        (folder / "__pycache__").write_text("no directory")
    return tmp_path


def run(place: Path, **changes: str) -> str:
    """Run the script with a copy of the package; what it prints to standard error."""
    kept = {n: v for n, v in os.environ.items() if n not in ("FLOWLOOM_CACHE", "XDG_CACHE_HOME")}
    environment = {**kept, "PYTHONPATH": str(place), "HOME": "/proc", **changes}
    command = [sys.executable, "-c", SCRIPT % str(place)]
    ran = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return ran.stderr


def test_a_read_only_installation_without_a_home_works_without_a_cache(sealed: Path):
    warned = run(sealed)
    assert warned.count("working without a cache: set FLOWLOOM_CACHE") == 1


def test_the_cache_is_below_flowlooms(sealed: Path, tmp_path: Path):
    assert "without a cache" not in run(sealed, FLOWLOOM_CACHE=str(tmp_path / "cache"))
    assert list((tmp_path / "cache" / "numba").rglob("*successors*.nbi"))
