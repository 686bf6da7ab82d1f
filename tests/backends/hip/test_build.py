"""What a host needs for a HIP module, and what is said where it lacks; no device is used."""

import json
import platform
import re
import shutil
import subprocess
from dataclasses import replace
from importlib import resources
from pathlib import Path
from unittest.mock import patch

import pytest

import compiler
from compiler.artifact import artifact
from compiler.artifact.module import Module
from compiler.backends.base import backend
from compiler.backends.hip.build import (
    HipBackend,
    check_device,
    compiled_architectures,
    needed_runtime,
)
from compiler.backends.hip.driver import HipRuntime
from compiler.backends.hip.interface import INTERFACE, Library
from compiler.driver.build import build, full_target
from compiler.driver.settings import Settings
from compiler.errors import ArtifactError, DeviceError, KernelError
from compiler.kernels.building import KernelCache
from compiler.schedule.choices import MODES
from compiler.target.devices import DEFAULT_ARCHITECTURES
from compiler.tools import cli
from compiler.verify.seals import sealed_library
from tests.backends.hip.projects import artifact_of, generated, model
from tests.forgery import redo_hashes
from tests.tools import needs

RUNTIME = """
#include <cstring>
extern "C" {
const char* hipGetErrorString(int error) { return error == 100 ? "no ROCm-capable device" : "?"; }
int hipGetDeviceCount(int* count) { return *count = COUNT, COUNT ? 0 : 100; }
int FUNCTION(char* properties, int device) {
  std::strcpy(properties, device ? "gfx906 look-alike" : "AMD Instinct MI210");
  std::strcpy(properties + PLACE, device ? "gfx1030" : "gfx90a:sramecc+:xnack-");
  return 0;
}
}
"""
OF_AN_INTERFACE = """
#include <cstddef>
static int asked = 0;
extern "C" {
int flowloom_check_interface(int interface) { return asked = interface, interface != VERSION; }
const char* flowloom_error() { return asked == INTERFACE ? "another interface than this" : "?"; }
const char* flowloom_version() { return "main"; }
const void* flowloom_input(size_t) { return nullptr; }
const void* flowloom_output(size_t) { return nullptr; }
size_t flowloom_input_count() { return 0; }
size_t flowloom_output_count() { return 0; }
size_t flowloom_weight_bytes() { return 0; }
size_t flowloom_arena_bytes() { return 0; }
void flowloom_destroy(void*) {}
}
"""
OLD = ("-DCOUNT=2", "-DFUNCTION=hipGetDeviceProperties", "-DPLACE=396")
NEW = ("-DCOUNT=2", "-DFUNCTION=hipGetDevicePropertiesR0600", "-DPLACE=1160")
NONE = ("-DCOUNT=0", "-DFUNCTION=hipGetDeviceProperties", "-DPLACE=396")
LIBRARY = b"\0libamdhip64.so.5\0..\0main hip:gfx90a,gfx942:fp32\0..."
needs_compiler = needs("g++")


def stand_in(place: Path, definitions: tuple[str, ...]) -> str:
    """The path of a library with the functions of AMD's runtime that are used."""
    source, built = place / "runtime.cpp", place / "libamdhip64.so.5"
    source.write_text(RUNTIME)
    command = ["g++", "-shared", "-fPIC", *definitions, "-o", built, source]
    subprocess.run(command, check=True)
    return str(built)


@needs_compiler
@pytest.mark.parametrize("definitions", [OLD, NEW])
def test_devices_are_told_apart(definitions: tuple[str, ...], tmp_path: Path):
    """With the structures of ROCm 5 and 6."""
    runtime = HipRuntime(stand_in(tmp_path, definitions))
    assert runtime.count == 2
    first, second = runtime.device(0), runtime.device(1)
    assert (first.name, first.architecture) == ("AMD Instinct MI210", "gfx90a")
    assert second.architecture == "gfx1030"
    with pytest.raises(DeviceError, match="no AMD GPU 2: 2 are visible"):
        runtime.device(2)


@needs_compiler
def test_a_device_must_run_what_was_compiled(tmp_path: Path):
    path = stand_in(tmp_path, OLD)
    check_device(path, ("gfx1030", "gfx90a"), 0)
    with pytest.raises(
        DeviceError, match=r"compiled for gfx90a, gfx906 look-alike \(device 1\) is"
    ):
        check_device(path, ("gfx90a",), 1)
    with pytest.raises(DeviceError, match="--arch gfx90a"):
        check_device(path, ("gfx942",), 0)


@needs_compiler
def test_no_device_is_said_with_the_runtime_s_reason(tmp_path: Path):
    with pytest.raises(DeviceError, match="no ROCm-capable device"):
        check_device(stand_in(tmp_path, NONE), ("gfx90a",), 0)


def test_a_missing_runtime_is_named():
    with pytest.raises(DeviceError, match=r"libamdhip64\.so\.99 .*install ROCm"):
        HipRuntime.open("libamdhip64.so.99")


def test_a_library_says_what_it_needs():
    assert compiled_architectures(LIBRARY) == ("gfx90a", "gfx942")
    assert needed_runtime(LIBRARY) == "libamdhip64.so.5"
    assert needed_runtime(b"") is None
    assert compiled_architectures(b"main emu:gfx90a:fp32\0") == ()


def test_the_interface_is_the_header_s():
    header = resources.files("compiler.artifact") / "project" / "include" / "flowloom" / "model.h"
    text = header.read_text()
    assert f"#define FLOWLOOM_INTERFACE {INTERFACE}\n" in text
    enumeration = re.search(r"typedef enum \{ (.*) \} flowloom_mode", text)
    assert enumeration is not None
    assert enumeration[1].split(", ") == [f"FLOWLOOM_{mode.upper()}" for mode in MODES]


@needs_compiler
def test_libraries_of_an_older_interface_are_used(tmp_path: Path):
    """Those of a newer one are refused with the remedy."""
    for version in (1, INTERFACE, INTERFACE + 1):
        library = tmp_path / f"{version}.so"
        values = [f"-DVERSION={version}", f"-DINTERFACE={INTERFACE}"]
        command = ["g++", "-shared", "-fPIC", *values, "-x", "c++", "-", "-o", str(library)]
        subprocess.run(command, input=OF_AN_INTERFACE, text=True, check=True)
    assert Library(tmp_path / "1.so").version == "main"
    assert Library(tmp_path / f"{INTERFACE}.so").version == "main"
    with pytest.raises(DeviceError, match=r"another interface than this.*compile the module"):
        Library(tmp_path / f"{INTERFACE + 1}.so")


def test_kernels_are_kept_for_one_compiler(tmp_path: Path):
    """With another compiler, or for another architecture, they are built again."""
    cache, built = KernelCache(tmp_path), list[str]()

    def compile_object(text: str, symbols: list[str], target: object) -> bytes:
        built.extend(symbols)
        return b"object"

    counts: list[int] = []
    for target, mark in (("gfx90a", "a"), ("gfx90a", "a"), ("gfx90a", "b"), ("gfx942", "b")):
        with (
            patch("compiler.kernels.building.cuda_kernel.compile_hip", compile_object),
            patch("compiler.kernels.building.module.hip_generator", lambda mark=mark: mark),
            patch("compiler.driver.build.with_library", lambda built, cache: built),  # pyright: ignore
        ):
            build(model("image"), None, Settings(f"hip:{target}:fp32", cache=cache, jobs=1))
        counts.append(len(built))
    assert counts == [counts[0], counts[0], 2 * counts[0], 3 * counts[0]]
    assert counts[0] >= 3


def test_targets(monkeypatch: pytest.MonkeyPatch):
    def missing(needed: str | None = None) -> HipRuntime:
        raise DeviceError("no runtime")

    monkeypatch.setattr(HipRuntime, "open", missing)
    assert full_target("hip") == f"hip:{DEFAULT_ARCHITECTURES['hip']}:fp32"
    assert full_target("hip", "gfx942", "bf16") == "hip:gfx942:bf16"
    assert full_target("hip:gfx1100:fp16") == "hip:gfx1100:fp16"
    needed = HipBackend().requirements("hip:gfx90a,gfx942:fp32")
    assert needed["architectures"] == ["gfx90a", "gfx942"]
    with pytest.warns(UserWarning, match="does not use the matrix cores of gfx90a"):
        assert full_target("hip", "gfx90a,gfx1030") == "hip:gfx90a,gfx1030:fp32"
    with pytest.raises(DeviceError, match="no precision 'tf32'; it has fp32, fp16, bf16"):
        full_target("hip", precision="tf32")
    for arch in ("sm_90", "gfx1", "gfx90a,sm_90"):
        with pytest.raises(
            KernelError, match=f"'{arch[-5:]}' is not an architecture of AMD.*gfx942"
        ):
            full_target("hip", arch)
    with pytest.raises(KernelError, match="'sm_90' is not an architecture of AMD"):
        HipBackend().requirements("hip:sm_90:fp32")


def test_the_emulator_has_the_precisions_of_the_architecture():
    assert full_target("emu", "gfx90a") == "emu:gfx90a:fp32"
    assert full_target("emu:gfx942") == "emu:gfx942:fp32"
    assert full_target("emu:gfx942", precision="bf16") == "emu:gfx942:bf16"
    assert full_target("emu", "sm_80") == "emu:sm_80:tf32"
    for target in ("emu:gfx90a", "emu:gfx90a:tf32"):
        with pytest.raises(DeviceError, match="'emu:gfx90a' has no precision 'tf32'; it has fp32,"):
            full_target(target, precision="tf32" if target.count(":") == 1 else None)


@needs_compiler
def test_the_present_device_is_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    runtime = HipRuntime(stand_in(tmp_path, ("-DCOUNT=1", *NEW[1:])))
    monkeypatch.setattr(HipRuntime, "open", lambda *_: runtime)  # pyright: ignore
    assert full_target("hip") == "hip:gfx90a:fp32"


def test_nothing_is_measured():
    with pytest.raises(DeviceError, match="for the target hip nothing is measured"):
        compiler.compile(model("image"), target="hip", budget=3)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An artifact whose library stands for one."""
    place = tmp_path_factory.mktemp("saved") / "module"
    found = artifact_of(generated(model("image"), "hip:gfx90a:fp32"), LIBRARY)
    needed = {"architectures": ["gfx90a"], "machine": platform.machine()}
    needed |= {"runtime": "libamdhip64.so.99", "compiler": "HIP version: 5.2"}
    artifact.save(replace(found, requirements=needed), place)
    return place


def test_an_artifact_keeps_its_library(saved: Path, tmp_path: Path):
    found = artifact.load(saved, lambda target, needed: None)
    assert found.library.startswith(LIBRARY)
    manifest = json.loads((saved / "manifest.json").read_text())
    assert manifest["requirements"]["architectures"] == ["gfx90a"]
    assert manifest["requirements"]["compiler"] == "HIP version: 5.2"
    place = shutil.copytree(saved, tmp_path / "edited")
    content = found.library
    (place / "library.so").write_bytes(b"x" + content[1:])
    with pytest.raises(ArtifactError, match=r"library.so was changed"):
        artifact.load(place, lambda target, needed: None)
    for wrong in (b"x" + content[1:], LIBRARY, sealed_library(LIBRARY, "another module")):
        (place / "library.so").write_bytes(wrong)
        redo_hashes(place)
        with pytest.raises(ArtifactError, match="library was not linked from this schedule"):
            artifact.load(place, lambda target, needed: None)
        with pytest.raises(KernelError, match="library was not linked from this schedule"):
            Module(replace(found, library=wrong))


def test_loading_says_what_lacks(saved: Path):
    with pytest.raises(DeviceError, match=r"libamdhip64\.so\.99 .*install ROCm"):
        compiler.load(saved)
    other = {"machine": "pdp11", "architectures": ["gfx90a"]}
    with pytest.raises(DeviceError, match="library is for pdp11"):
        backend("hip").check(other)
    found = artifact.load(saved, lambda target, needed: None)
    with pytest.raises(DeviceError, match="has no library: compile the model again"):
        backend("hip").load(found.schedule, found.kernels, found.weights)


@pytest.mark.parametrize("command", ["run", "bench"])
def test_commands_that_need_a_device(saved: Path, command: str, capsys: pytest.CaptureFixture[str]):
    assert cli.main([command, str(saved)]) == 1
    said = capsys.readouterr().err
    assert said.startswith("flowloom: DeviceError: the target 'hip' needs AMD's HIP runtime")
    assert said.count("\n") == 1


def test_commands_that_need_none(saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert cli.main(["check", str(saved)]) == 0
    assert "no race" in capsys.readouterr().out
    assert cli.main(["report", str(saved)]) == 0
    said = capsys.readouterr().out
    assert "needs architectures gfx90a" in said
    assert cli.main(["trace", str(saved), "-o", str(tmp_path / "trace.json")]) == 0
    assert "not measured" in capsys.readouterr().out
    assert cli.main(["export", str(saved), "-o", str(tmp_path / "project")]) == 0
    assert 'HIP_ARCHITECTURES "gfx90a"' in (tmp_path / "project" / "model.cmake").read_text()
    assert "mfma_gemm<" in "".join(
        path.read_text() for path in (tmp_path / "project" / "kernels").glob("*.cu")
    )


def test_several_architectures_are_listed_for_cmake(tmp_path: Path):
    found = artifact_of(generated(model("image"), "hip:gfx90a,gfx942:fp32"), LIBRARY)
    artifact.save(found, tmp_path / "module")
    assert cli.main(["export", str(tmp_path / "module"), "-o", str(tmp_path / "project")]) == 0
    text = (tmp_path / "project" / "model.cmake").read_text()
    assert 'HIP_ARCHITECTURES "gfx90a;gfx942"' in text
