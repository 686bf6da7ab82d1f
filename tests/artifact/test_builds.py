"""A small convolutional network and a transformer's layer, built by every compiler there is."""

import ctypes
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from onnx import ModelProto, numpy_helper, parser

import compiler
from benchmarks.overlap import write_database
from compiler.artifact.gpu_part import kernel_headers
from compiler.backends.cuda import build as cuda
from compiler.errors import DeviceError
from compiler.target.devices import SPECIFIC_HEADERS
from tests.artifact.projects import (
    attempt,
    build,
    export,
    hip_spills,
    needs_cmake,
    needs_hipcc,
    needs_nvcc,
    run,
    vision_model,
)
from tests.artifact.test_interface import Library
from tests.artifact.test_project import ORDERS
from tests.tools import find, needs

QUICK = "-DCMAKE_CXX_FLAGS_RELEASE=-O1"
"""Half the time of a build for the emulator; the small model's has the usual options."""
BLACKWELL = SimpleNamespace(name="a B200", architecture="sm_100")


@pytest.fixture(scope="session")
def vision(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project of the CUDA kernels of a network with convolutions and a transformer's layer."""
    place = tmp_path_factory.mktemp("vision") / "project"
    export(vision_model(), place, "cuda:sm_80:tf32")
    return place


@needs("cmake", "clang++", "nvcc")
def test_clang_builds_for_the_emulator(vision: Path):
    compiler = f"-DCMAKE_CXX_COMPILER={find('clang++')}"
    program = build(vision, "EMU", compiler, QUICK, target="flowloom_check") / "flowloom_check"
    for seed, warp in ORDERS:
        order = {"FLOWLOOM_EMU_SEED": str(seed), "FLOWLOOM_EMU_WARP": str(warp)}
        said = run(program, "--check", "once", "--runs", "0", **order)
        assert said.count("ok  ") == 6  # two outputs in each of three modes


@needs_nvcc
def test_nvcc_builds_several_architectures(vision: Path):
    folder = build(vision, "CUDA", "-DFLOWLOOM_ARCHITECTURES=80;90a", name="build-cuda")
    library = (folder / "libflowloom.so").read_bytes()
    assert cubin_architectures(library) == {80, 90}
    check_on_this_machine(vision, folder, "cuda")


@needs_hipcc
@needs_nvcc
@pytest.mark.parametrize(
    "architectures", [["gfx1030"], pytest.param(["gfx90a", "gfx1030"], marks=pytest.mark.deep)]
)
def test_hipcc_builds_without_spills(architectures: list[str], vision: Path):
    chosen = f"-DFLOWLOOM_ARCHITECTURES={';'.join(architectures)}"
    folder = build(vision, "HIP", chosen, name="build-hip")
    check_on_this_machine(vision, folder, "hip")
    assert hip_spills(folder, *architectures) == {}


def check_on_this_machine(project: Path, folder: Path, platform: str) -> None:
    """The self-check passes; where it is skipped the library says that there is no device."""
    ran = attempt(folder / "flowloom_check", "--runs", "1")
    assert ran.returncode in (0, 77)
    library, model = Library(folder / "libflowloom.so"), ctypes.c_void_p()
    options = library.options(project / "weights.bin")
    created = library.c.flowloom_create(ctypes.byref(model), ctypes.byref(options)) == 0
    assert created == (ran.returncode == 0)
    assert created or f"there is no {platform} device: " in library.error
    library.c.flowloom_destroy(model)


def cubin_architectures(library: bytes) -> set[int]:
    """The compute capabilities that the GPU's ELF files in a library are for, by their flags."""
    found = re.finditer(rb"\x7fELF\x02\x01..(.).{9}\xbe\x00.{28}(.{4})", library, re.DOTALL)
    shift = {8: 8, 7: 0}  # where flags have it, by the version of the format
    return {int.from_bytes(m[2], "little") >> shift[m[1][0]] & 0xFF for m in found}


@pytest.mark.deep
@needs_cmake
def test_sanitizers_find_nothing_and_miss_nothing(project: Path, tmp_path: Path):
    place = tmp_path / "project"
    shutil.copytree(project, place, ignore=shutil.ignore_patterns("build*"))
    options = ("-DFLOWLOOM_SANITIZE=ON", QUICK)
    program = build(place, "EMU", *options, target="flowloom_check") / "flowloom_check"
    assert b"__asan_init" in program.read_bytes()
    run(program, "--runs", "0")
    kernel = next((place / "kernels").glob("Softmax*.cu"))
    text = kernel.read_text()
    wrong = "[[maybe_unused]] __shared__ float beyond[1]; beyond[1 + blockIdx.x] = 0.0f;"
    broken, count = re.subn(r"(__global__[^;{]*\{)", rf"\1 {wrong}", text)
    assert count
    kernel.write_text(broken)
    build(place, "EMU", *options, target="flowloom_check")
    ran = attempt(program, "--runs", "0")
    assert "out of bounds for type 'float [1]'" in ran.stderr
    assert ran.returncode != 0


def product(rows: int, depth: int, columns: int) -> ModelProto:
    """A matrix product with a weight."""
    model = parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 20]>'
        f"product (float[{rows},{depth}] x) => (float[{rows},{columns}] y) {{ y = MatMul (x, w) }}"
    )
    weight = np.ones((depth, columns), np.float32)
    model.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    return model


@needs_nvcc
def test_instructions_of_one_architecture_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Warpgroups multiply on sm_90a alone, whatever is built or present."""
    export(product(128, 512, 512), tmp_path / "project", "cuda:sm_90:tf32")
    said = refusal(tmp_path / "project", "80;90a")
    assert "instructions that only sm_90a has, not 80 (the first is MatMul_" in said
    assert "not 100" in refusal(tmp_path / "project", "90a;100")
    assert "run on sm_90a alone" in (tmp_path / "project" / "README.md").read_text()
    monkeypatch.setattr(cuda, "device", lambda: SimpleNamespace(device=BLACKWELL))
    with pytest.raises(DeviceError, match=r"for sm_90a, a B200 is sm_100: .*--arch sm_100"):
        compiler.load(tmp_path / "project-artifact")


@needs("cmake", "nvcc")
def test_kernels_that_overlap_with_their_neighbours_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """These specialise a template of the headers, which no other namespace may do."""
    monkeypatch.setenv("FLOWLOOM_TUNING", str(tmp_path / "tuning"))
    model, project = product(16, 64, 64), tmp_path / "project"
    assert write_database(model, "tf32", early=True, release=True)
    export(model, project, "emu:sm_90:tf32")
    kernels = [file.read_text() for file in (project / "kernels").glob("*.cu")]
    assert any("grid_dependency_wait()" in text for text in kernels)
    build(project, "CUDA", "-DFLOWLOOM_ARCHITECTURES=90", target="flowloom_kernels")
    emulated = build(project, "EMU", QUICK, name="emulated", target="flowloom_check")
    program = emulated / "flowloom_check"
    assert run(program, "--check", "once", "--runs", "0").count("ok  ") == 3


@needs_nvcc
def test_older_architectures_are_refused(tmp_path: Path):
    export(product(8, 32, 8), tmp_path / "project", "cuda:sm_90:tf32")
    assert 'ARCHITECTURES "90"' in (tmp_path / "project" / "model.cmake").read_text()
    assert "run on sm_90 and newer" in (tmp_path / "project" / "README.md").read_text()
    said = refusal(tmp_path / "project", "80-real")
    assert "generated for sm_90, and sm_80 is older: compile the model with --arch sm_80" in said


def refusal(project: Path, architectures: str) -> str:
    """What CMake says against architectures, on one line."""
    options = ["-DFLOWLOOM_GPU=CUDA", f"-DFLOWLOOM_ARCHITECTURES={architectures}"]
    ran = attempt("cmake", "-S", project, "-B", project / "refused", *options)
    assert ran.returncode != 0
    return " ".join(ran.stderr.split())


def test_headers_with_instructions_of_one_architecture_are_known():
    users = {n for n, text in kernel_headers().items() if "wgmma(" in text}
    assert users
    assert users <= set(SPECIFIC_HEADERS)
