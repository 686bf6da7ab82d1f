"""Libraries of kernels: what serves a target, damage, and a compilation that builds nothing."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import numpy
import onnx
import pytest
from onnx import TensorProto, helper

from compiler.errors import ArtifactError
from compiler.kernels.building import KernelCache, cache, library
from compiler.kernels.building.library import (
    VERSION,
    opened,
    serving,
    write_library,
)
from compiler.kernels.building.module import KeptKernels, compiler_text
from compiler.kernels.database import Database, Entry, Measured, save, user_file
from compiler.kernels.group import Group
from compiler.kernels.library.files import LIBRARY_MAGIC, VARIABLE, checksums, library_files
from compiler.schedule.kernels import KernelSpec
from compiler.support.caches import CHECKSUM
from compiler.target.target import CpuTarget, parse_cpu, parse_target
from compiler.tools.cli.commands.library import origin_of
from compiler.tools.cli.main import main
from tests.kernels.building.test_cache import SPEC, group_of

V3, V4 = (parse_cpu(f"cpu:x86-64-v{level}") for level in (3, 4))
GROUPS = [replace(group_of(extent), name=f"group{extent}") for extent in range(2, 12)]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder whose libraries are read, without any; nothing was measured."""
    monkeypatch.setenv(VARIABLE, str(tmp_path / "libraries"))
    monkeypatch.setenv("FLOWLOOM_TUNING", str(tmp_path / "tuning"))
    yield tmp_path / "libraries"
    library._libraries.cache_clear()  # pyright: ignore[reportPrivateUsage]


def spec_of(number: int) -> KernelSpec:
    return replace(SPEC, name=f"k{number}")


def write(
    folder: Path, target: CpuTarget = V3, groups: Sequence[Group] = GROUPS, **fields: str
) -> Path:
    """A library of a kernel for each group."""
    built = KernelCache(folder / "cache", version=VERSION)
    for number, group in enumerate(groups):
        built.store(group, str(target), spec_of(number), compiler_text(target))
    path = folder / f"{target.mcpu}.kernels"
    write_library(path, replace(origin_of(target), **fields), built.kernels())
    return path


def host(monkeypatch: pytest.MonkeyPatch, *features: str) -> CpuTarget:
    """The target of a host that has these features of x86-64 beyond level 3."""
    every = [*origin_of(V3).features, *features]
    target = CpuTarget(mcpu="ahost", features=",".join(f"+{name}" for name in every))
    monkeypatch.setattr(library, "host_target", lambda: target)
    return target


def test_each_kernel_comes_back_and_no_other(folder: Path):
    written = opened(write(folder))
    assert len(written) == len(GROUPS)
    assert [written.load(g, V3) for g in GROUPS] == [spec_of(n) for n in range(len(GROUPS))]
    assert written.load(group_of(12), V3) is None


def test_kernels_that_are_kept_come_first(folder: Path, tmp_path: Path):
    write(folder)
    own = KernelCache(tmp_path / "own")
    newer = replace(SPEC, name="newer")
    own.store(GROUPS[0], str(V3), newer, compiler_text(V3))
    for kept, first in ((own, newer), (KernelCache(tmp_path / "empty"), spec_of(0))):
        specs, missing = KeptKernels(kept, V3).load(GROUPS[:2], jobs=1)
        assert missing == []
        assert list(specs.values()) == [first, spec_of(1)]
    assert KeptKernels(None, V3).load(GROUPS[:2], jobs=1) == ({}, GROUPS[:2])


def test_a_library_is_for_cpus_that_run_it_as_fast(folder: Path, monkeypatch: pytest.MonkeyPatch):
    write(folder)
    more = write(folder, V4)
    assert [own.path for own in serving(V4)] == [more]
    assert [own.origin.target for own in serving(host(monkeypatch))] == [str(V3)]
    assert [own.origin.target for own in serving(host(monkeypatch, "avx512f"))] == []
    wide = host(monkeypatch, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "gfni")
    assert [own.origin.target for own in serving(wide)] == [str(V4)]
    assert serving(replace(wide, features="+avx512f")) == []
    assert serving(replace(wide, precision="bf16")) == []
    assert serving(parse_target("cuda:sm_90:tf32")) == []


def test_numbers_with_better_instructions_are_built(folder: Path, monkeypatch: pytest.MonkeyPatch):
    values = tuple(replace(info, dtype="int8") for info in GROUPS[0].values)
    narrow = replace(GROUPS[0], values=values)
    write(folder, groups=[*GROUPS, narrow])
    for features, expected in ((), spec_of(len(GROUPS))), (("avxvnni",), None):
        target = host(monkeypatch, *features)
        (own,) = serving(target)
        assert own.load(narrow, target) == expected
        assert own.load(GROUPS[0], target) == spec_of(0)


def test_what_the_user_measured_is_not_passed_over(folder: Path, monkeypatch: pytest.MonkeyPatch):
    write(folder)
    target = host(monkeypatch)
    assert len(serving(target)) == 1
    monkeypatch.setattr(cache, "database_name", Mock(return_value="ahost"))
    entry = Entry('{"template":"matmul"}', "some", "1", (Measured((("rows", 16),), 5.0),))
    save(user_file("ahost"), Database([entry]))
    assert serving(target) == []


def test_a_folder_that_is_not_there_is_warned_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path / "absent"))
    with pytest.warns(UserWarning, match="absent is not a folder.*: correct or unset it"):
        assert library_files() == []


def test_another_source_is_told_and_ignored(folder: Path):
    path = write(folder, version="0" * 64)
    with pytest.raises(ArtifactError, match=r"built by other source.*flowloom library build"):
        opened(path)
    with pytest.warns(UserWarning, match="other source.*built instead"):
        assert serving(V3) == []


def test_a_damaged_head_is_told_and_ignored(folder: Path):
    path = write(folder)
    content = path.read_bytes()
    head = len(LIBRARY_MAGIC) + CHECKSUM + 8 + int.from_bytes(
        content[len(LIBRARY_MAGIC) + CHECKSUM :][:8], "little"
    )  # fmt: skip
    for position in range(0, head, 7):
        damaged = bytearray(content)
        damaged[position] ^= 1
        path.write_bytes(damaged)
        with pytest.raises(ArtifactError, match="install Flowloom again"):
            opened(path)
    for length in (0, 10, head - 1):
        path.write_bytes(content[:length])
        with pytest.raises(ArtifactError, match="cannot be read"):
            opened(path)
    with pytest.warns(UserWarning, match="cannot be read.*built instead"):
        assert serving(V3) == []


def test_a_damaged_kernel_is_warned_of_and_built(folder: Path):
    path = write(folder)
    content = bytearray(path.read_bytes())
    for position in range(len(content) - 1, len(content) - 400, -100):
        content[position] ^= 1
    path.write_bytes(content)
    damaged = opened(path)
    with pytest.warns(UserWarning, match="is damaged: building the kernel"):
        specs = [damaged.load(group, V3) for group in GROUPS]
    assert None in specs
    assert all(spec in (None, spec_of(number)) for number, spec in enumerate(specs))


def test_modules_that_were_compiled_with_others_differ(folder: Path):
    marks = [*checksums()]
    write(folder)
    with_one = [*checksums()]
    write(folder, generators="other")
    assert marks == []
    assert len(with_one) == 1
    assert with_one != [*checksums()]


PROGRAM = """
import sys, compiler, numpy
from compiler.progress import KernelsBegan
events = []
module = compiler.compile(sys.argv[1], progress=events.append)
x = numpy.arange(12, dtype="float32").reshape(3, 4) - 6
numpy.save(sys.argv[2], module.run({"x": x})["y"])
(began,) = [event for event in events if isinstance(event, KernelsBegan)]
print(began.missing, "tvm" in sys.modules)
"""


def test_a_compilation_builds_no_kernel(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
):
    path = tmp_path / "model.onnx"
    weight = numpy.random.default_rng(0).standard_normal((4, 5)).astype("float32")
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["xw"]),
        helper.make_node("Softmax", ["xw"], ["s"]),
        helper.make_node("ReduceSum", ["s"], ["y"], keepdims=0),
    ]
    graph = helper.make_graph(
        nodes,
        "model",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [onnx.numpy_helper.from_array(weight, "w")],
    )
    path.write_bytes(helper.make_model(graph, ir_version=10).SerializeToString())
    assert main(["library", "build", "-o", str(folder), str(path)]) == 0
    assert "kernel" in capfd.readouterr().out
    monkeypatch.setenv("FLOWLOOM_CACHE", str(tmp_path / "cache"))
    outputs: list[numpy.ndarray] = []
    for libraries, missing in ((folder, 0), (tmp_path / "none", 3)):
        monkeypatch.setenv(VARIABLE, str(libraries))
        monkeypatch.setenv("FLOWLOOM_KEEP", "off")
        result = tmp_path / "y.npy"
        command = [sys.executable, "-c", PROGRAM, str(path), str(result)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stdout.split() == [str(missing), "False"]
        outputs.append(numpy.load(result))
    assert (outputs[0] == outputs[1]).all()


def test_kernels_of_a_machines_compilers_have_no_library(
    folder: Path, capsys: pytest.CaptureFixture[str]
):
    assert main(["library", "build", "-o", str(folder), "--target", "hip", "zoo:unet"]) == 1
    assert "a library is for cpu or cuda, not for hip" in capsys.readouterr().err
    assert not folder.exists()
