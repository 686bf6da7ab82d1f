"""Frozen builds: the same bytes in every process, and no times of kernels that have changed."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from xdsl.dialects.builtin import ModuleOp

import compiler
from compiler.artifact.choice_json import choice_to_json
from compiler.autotune.kernel_times import (
    KernelTimeDatabase,
    KernelTimeKey,
    KernelTimeRecord,
    kernel_hash,
)
from compiler.autotune.schedule import decision
from compiler.autotune.schedule.costs import save_database
from compiler.errors import DeviceError
from compiler.schedule.kernels import KernelSpec
from compiler.verify.seals import sealed_kernel, unsealed_code
from tests.autotune.schedule import fakes

WIDTHS = (8, 24, 40, 56)
FUNCTIONS = ("Relu", "Tanh", "Sigmoid", "Softplus")
"""Columns between the two GEMMs of each branch: no two kernels are alike."""

BUILD = """
import os, sys
os.cpu_count = lambda: int(sys.argv[3])
if sys.argv[3] == "1":
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
import compiler
from tests.autotune.schedule.test_frozen import branches
module = compiler.compile(
    branches(), target="cuda", arch="sm_90", budget=0, profile=sys.argv[1]
)
module.save(sys.argv[2])
"""


def branches() -> onnx.ModelProto:
    """Branches of two GEMMs each, and their sum; other functions keep them from being merged."""
    lines, weights = list[str](), list[onnx.TensorProto]()
    for i, (width, function) in enumerate(zip(WIDTHS, FUNCTIONS, strict=True)):
        lines += [f"x{i} = {function}(x)", f"h{i} = MatMul(x{i}, a{i})", f"g{i} = {function}(h{i})"]
        lines += [f"m{i} = MatMul(g{i}, b{i})", f"e{i} = {function}(m{i})"]
        for name, shape in ((f"a{i}", (8, width)), (f"b{i}", (width, 8))):
            values = np.random.default_rng(i).standard_normal(shape, np.float32)
            weights.append(onnx.numpy_helper.from_array(values, name))
    ends = ", ".join(f"e{i}" for i in range(len(WIDTHS)))
    text = f"branches (float[8, 8] x) => (float[8, 8] y) {{ {' '.join(lines)} y = Sum({ends}) }}"
    graph = onnx.parser.parse_graph(text)
    graph.initializer.extend(weights)
    opset = onnx.helper.make_opsetid("", 18)
    return onnx.helper.make_model(graph, opset_imports=[opset], ir_version=10)


@pytest.fixture(autouse=True)
def no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(target: str) -> None:
        raise DeviceError("no CUDA device is present")

    monkeypatch.setattr(decision, "present_device", missing)


def times_of(kernels: Mapping[str, KernelSpec], path: Path) -> None:
    """Write a database in which every kernel has another time."""
    found = KernelTimeDatabase()
    for place, name in enumerate(sorted(kernels)):
        time = 2000.0 + 700.0 * place
        key = KernelTimeKey(kernel_hash(kernels[name]), "some", 10**6, "13.0")
        found.add(key, KernelTimeRecord(time, None, time, time, 5))
    found.save(path)


def content(directory: Path) -> dict[str, str]:
    """The hash of every file."""
    files = [path for path in directory.rglob("*") if path.is_file()]
    return {
        str(f.relative_to(directory)): hashlib.sha256(f.read_bytes()).hexdigest() for f in files
    }


def test_hash_seeds_and_cores_change_no_byte(tmp_path: Path):
    profile = tmp_path / "times.json"
    built = compiler.compile(branches(), target="cuda", arch="sm_90", budget=0)
    assert len(built.kernels) > len(WIDTHS)
    times_of(built.kernels, profile)
    here = compiler.compile(branches(), target="cuda", arch="sm_90", budget=0, profile=profile)
    here.save(tmp_path / "here")
    environment = {
        **os.environ,
        "PYTHONHASHSEED": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "FLOWLOOM_CACHE": str(tmp_path / "cache"),
    }
    given = (str(profile), str(tmp_path / "there"), "1" if (os.cpu_count() or 1) > 1 else "64")
    command = [sys.executable, "-W", "error::UserWarning", "-c", BUILD, *given]
    subprocess.run(command, env=environment, check=True)
    first, second = content(tmp_path / "here"), content(tmp_path / "there")
    assert first == second
    assert {"schedule.json", "manifest.json", "kernels/kernels.json"} <= first.keys()
    choice = json.loads((tmp_path / "here" / "manifest.json").read_text())["choice"]
    assert len(choice["costs"]) == len(built.kernels)


def compiled(profile: Path, monkeypatch: pytest.MonkeyPatch, suffix: bytes = b"") -> dict[str, Any]:
    """The choice of a build without a device, whose kernels' code ends in a suffix."""

    def kernels(module: ModuleOp, *_: Any) -> dict[str, KernelSpec]:
        return {
            name: sealed_kernel(replace(kernel, code=unsealed_code(kernel) + suffix))
            for name, kernel in fakes.kernels(module).items()
        }

    monkeypatch.setattr("compiler.driver.build.build_kernels", kernels)
    module = compiler.compile(fakes.model(), target="cuda", arch="sm_90", budget=0, profile=profile)
    assert module.choice is not None
    return {**choice_to_json(module.choice), "specs": module.kernels}


@pytest.mark.filterwarnings("error")
def test_times_of_kernels_that_changed_are_not_taken_in_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    profile = tmp_path / "times.json"
    KernelTimeDatabase().save(profile)
    with pytest.warns(UserWarning, match="times of 0 of this model's"):
        specs = compiled(profile, monkeypatch)["specs"]
    times_of(specs, profile)
    assert compiled(profile, monkeypatch)["costs"].keys() == specs.keys()
    with pytest.warns(
        UserWarning, match=rf"times.json has times of 0 of this model's {len(specs)}"
    ):
        found = compiled(profile, monkeypatch, b"another text")
    assert "costs" not in found


def test_what_another_process_measured_meanwhile_is_kept(tmp_path: Path):
    path = tmp_path / "times.json"
    mine, theirs = (
        KernelTimeDatabase(
            {KernelTimeKey(name, "some", 1, "13.0"): KernelTimeRecord(9.0, None, 9.0, 9.0, 5)}
        )
        for name in "ab"
    )
    save_database(theirs, path)
    save_database(mine, path)
    assert {key.kernel for key in KernelTimeDatabase.load(path).records} == {"a", "b"}


def test_a_database_that_cannot_be_written_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / "times.json"
    KernelTimeDatabase().save(path)
    before = path.read_bytes()

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("compiler.autotune.kernel_times.os.replace", full)
    entry = KernelTimeDatabase(
        {KernelTimeKey("a", "some", 1, "13.0"): KernelTimeRecord(9.0, None, 9.0, 9.0, 5)}
    )
    with pytest.raises(compiler.ArtifactError, match=r"times\.json: No space left on device"):
        save_database(entry, path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
