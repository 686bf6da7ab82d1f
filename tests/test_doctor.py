"""`flowloom doctor` says of each thing that Flowloom uses whether it works, and the remedy."""

import json
import os
import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest

from compiler.target.target import parse_target
from compiler.tools.cli import doctor


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command in a new process, as each looks compilers up once."""
    return subprocess.run(
        [sys.executable, "-m", "flowloom", "doctor", *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_words_and_json_say_the_same():
    words, read = run(), json.loads(run("--json").stdout)
    assert words.returncode == 0, words.stdout
    for name, text in read["targets"].items():
        assert f"{name:6} {text}" in words.stdout
        assert parse_target(name)
    for section, checks in read["checks"].items():
        assert section in words.stdout
        assert all(check["name"] in words.stdout and check["text"] for check in checks)


def test_what_the_path_lacks_is_absent_with_a_remedy(tmp_path: Path):
    done = run("--json", PATH=str(tmp_path), CXX="", FLOWLOOM_HIPCC="hipcc")
    read: dict[str, Any] = json.loads(done.stdout)
    absent = {
        (section, check["name"]): check["text"]
        for section, checks in read["checks"].items()
        for check in checks
        if check["status"] == "absent"
    }
    for key, remedy in {
        ("C++", "emulator"): "apt-get install g++",
        ("C++", "exported projects"): "apt-get install cmake",
        ("AMD GPUs", "compiler"): "apt-get install hipcc",
    }.items():
        assert remedy in absent[key]
    for name in ("emu", "hip"):
        assert read["targets"][name] == "cannot compile: see above"
    assert done.returncode == 0  # nobody has to have them


def test_a_cache_that_cannot_be_written_is_broken():
    done = run(FLOWLOOM_CACHE="/proc/flowloom")
    assert done.returncode == 1
    assert "!!  kernels" in done.stdout
    assert "set FLOWLOOM_CACHE" in done.stdout
    assert "warning" not in done.stderr


def test_a_missing_package_is_broken_and_a_missing_extra_is_not(monkeypatch: pytest.MonkeyPatch):
    def version(name: str) -> str:
        if name in ("onnx", "ray"):
            raise PackageNotFoundError(name)
        return "1.0"

    monkeypatch.setattr(doctor, "version", version)
    checks = {check.name: check for check in doctor.examine()["Flowloom"]}
    assert checks["onnx"].status == "broken"
    assert "pip install 'onnx>=" in checks["onnx"].text
    assert checks["extra ray"].status == "absent"
    assert checks["extra ray"].text == "missing ray: pip install 'flowloom[ray]'"
    assert checks["extra sign"].status == "ok"
