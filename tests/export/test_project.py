"""Exported projects build with all compilers at hand, and run on the emulator."""

import ctypes
import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import compiler
from compiler.errors import ArtifactError
from compiler.export.generate import Check, export_project, kernel_text
from compiler.schedule import KernelSpec, Launch
from tests.export.projects import (
    attempt,
    build,
    export,
    hip_spills,
    needs_cmake,
    needs_hipcc,
    needs_nvcc,
    read_artifact,
    run,
    small_model,
)

ORDERS = [(seed, warp) for warp in (32, 64) for seed in range(5)]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small model's project."""
    place = tmp_path_factory.mktemp("exported") / "project"
    export(small_model(), place)
    return place


@pytest.fixture(scope="module")
def emulated(project: Path) -> Path:
    """Its build for the emulator."""
    return build(project, "EMU")


@needs_cmake
@pytest.mark.parametrize(("seed", "warp"), ORDERS)
def test_self_check_passes_on_the_emulator(emulated: Path, seed: int, warp: int):
    order = {"FLOWLOOM_EMU_SEED": str(seed), "FLOWLOOM_EMU_WARP": str(warp)}
    said = run(emulated / "flowloom_check", "--runs", "1", **order)
    assert said.count("ok  ") == 12  # two outputs, twice in each of three modes
    assert "latency" in said


@needs_cmake
def test_ctest_runs_the_self_check(emulated: Path):
    assert "100% tests passed" in run("ctest", "--test-dir", emulated)


def copied(project: Path, place: Path) -> Path:
    """A project's data in another place."""
    shutil.copytree(project, place, ignore=shutil.ignore_patterns("build*"))
    return place


@needs_cmake
@pytest.mark.parametrize("file", ["check/outputs.bin", "check/inputs.bin", "weights.bin"])
def test_self_check_fails_on_other_numbers(
    project: Path, emulated: Path, tmp_path: Path, file: str
):
    data = copied(project, tmp_path / "data")
    content = bytearray((data / file).read_bytes())
    content[300:304] = np.float32(30).tobytes()
    (data / file).write_bytes(content)
    ran = attempt(emulated / "flowloom_check", "--data", data, "--runs", "1")
    assert ran.returncode == 1
    assert "FAIL graph" in ran.stdout


@needs_cmake
def test_every_missing_edge_is_caught(project: Path, tmp_path: Path):
    """Without it, some order of the graph reads what is not written yet."""
    place = copied(project, tmp_path / "project")
    path = place / "src" / "plan.cpp"
    plan = path.read_text()
    edges = list(re.finditer(r"\{\d+\}(?=,\n +\{\{flowloom_)", plan))
    assert len(edges) == 4
    for edge in edges:
        path.write_text(plan[: edge.start()] + "{}" + plan[edge.end() :])
        program = build(place, "EMU") / "flowloom_check"
        orders = [{"FLOWLOOM_EMU_SEED": str(seed)} for seed in range(8)]
        ran = [attempt(program, "--runs", "1", **order) for order in orders]
        assert any(each.returncode == 1 and "FAIL" in each.stdout for each in ran), edge


class Tensor(ctypes.Structure):
    """flowloom_tensor."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("dtype", ctypes.c_char_p),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("rank", ctypes.c_size_t),
        ("bytes", ctypes.c_size_t),
    )


ALLOCATE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
RELEASE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


class Allocator(ctypes.Structure):
    """flowloom_allocator."""

    _fields_ = (("allocate", ALLOCATE), ("release", RELEASE), ("context", ctypes.c_void_p))


class Options(ctypes.Structure):
    """flowloom_options."""

    _fields_ = (
        ("weights", ctypes.c_char_p),
        ("mode", ctypes.c_int),
        ("device", ctypes.c_int),
        ("allocator", ctypes.POINTER(Allocator)),
    )


class Library:
    """The C interface from Python."""

    def __init__(self, path: Path) -> None:
        self.c: Any = ctypes.CDLL(str(path))
        self.c.flowloom_error.restype = self.c.flowloom_version.restype = ctypes.c_char_p
        self.c.flowloom_default_options.restype = Options
        for each in ("input", "output"):
            getattr(self.c, f"flowloom_{each}").restype = ctypes.POINTER(Tensor)
            getattr(self.c, f"flowloom_{each}").argtypes = [ctypes.c_size_t]

    def create(self, options: Options) -> ctypes.c_void_p:
        """A model; the status must be 0."""
        model = ctypes.c_void_p()
        assert self.c.flowloom_create(ctypes.byref(model), ctypes.byref(options)) == 0, self.error
        return model

    def options(self, weights: Path) -> Options:
        """The default options."""
        self._path = str(weights).encode()  # which the options point to
        return self.c.flowloom_default_options(self._path)

    @property
    def error(self) -> str:
        """The last error's text."""
        return self.c.flowloom_error().decode()

    def run_host(self, model: ctypes.c_void_p, check: Check) -> list[Any]:
        """The outputs for the inputs of a check."""
        outputs = [np.full_like(array, np.nan) for array in check.outputs.values()]
        pointers = [
            (ctypes.c_void_p * len(arrays))(*[a.ctypes.data for a in arrays])
            for arrays in (list(check.inputs.values()), outputs)
        ]
        assert self.c.flowloom_run_host(model, *pointers) == 0, self.error
        return outputs


@needs_cmake
def test_c_interface(project: Path, emulated: Path, tmp_path: Path):
    """Names, errors, an own allocator, other weights and a profile."""
    library = Library(emulated / "libflowloom.so")
    c = library.c
    assert (c.flowloom_input_count(), c.flowloom_output_count()) == (2, 2)
    image = c.flowloom_output(0).contents
    assert (image.name, image.dtype, image.bytes) == (b"image", b"float32", 5600)
    assert image.shape[: image.rank] == [1, 14, 10, 10]
    assert not c.flowloom_input(2)

    model = ctypes.c_void_p()
    options = library.options(tmp_path / "nowhere.bin")
    assert c.flowloom_create(ctypes.byref(model), ctypes.byref(options)) == 1
    assert not model
    assert "cannot read the weights" in library.error

    taken: dict[int, Any] = {}

    def allocate(_: int, nbytes: int) -> int:
        raw = np.full(nbytes + 256, 0xFF, np.uint8)
        address = -(-raw.ctypes.data // 256) * 256
        taken[address] = raw
        return address

    def release(_: int, memory: int) -> None:
        taken.pop(memory)

    allocator = Allocator(ALLOCATE(allocate), RELEASE(release), None)
    options = library.options(project / "weights.bin")
    options.allocator = ctypes.pointer(allocator)
    model = library.create(options)
    assert len(taken) == 2
    other = tmp_path / "other"
    check, changed = export(small_model(0), other), export(small_model(5), tmp_path / "changed")
    for result, expected in zip(
        library.run_host(model, check), check.outputs.values(), strict=True
    ):
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)
    weights = tmp_path / "changed" / "weights.bin"
    assert c.flowloom_load_weights(model, str(weights).encode()) == 0
    for result, expected in zip(
        library.run_host(model, changed), changed.outputs.values(), strict=True
    ):
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)

    size = ctypes.c_size_t()
    text = ctypes.create_string_buffer(1 << 16)
    assert c.flowloom_profile(model, 2, text, len(text), ctypes.byref(size)) == 0
    assert all(task["end"] >= task["start"] >= 0 for task in json.loads(text.value)["tasks"])

    unaligned = (ctypes.c_void_p * 2)(8, 16)
    assert c.flowloom_run(model, unaligned, unaligned, None) == 1
    assert "x is not device memory aligned to 16 bytes" in library.error
    shared = (ctypes.c_void_p * 2)(1 << 20, 1 << 20)
    assert c.flowloom_run(model, shared, shared, None) == 1
    assert "output image overlaps x" in library.error
    c.flowloom_destroy(model)
    assert not taken


@needs_cmake
@pytest.mark.parametrize(
    ("at", "message"), [(0, "no file of weights"), (8, "another model"), (None, "truncated")]
)
def test_bad_weights_are_named(
    project: Path, emulated: Path, tmp_path: Path, at: int | None, message: str
):
    data = copied(project, tmp_path / "data")
    content = bytearray((project / "weights.bin").read_bytes())
    if at is None:
        content.pop()
    else:
        content[at] ^= 0xFF
    (data / "weights.bin").write_bytes(content)
    ran = attempt(emulated / "flowloom_check", "--data", data)
    assert ran.returncode == 1
    assert message in ran.stderr


def test_weights_lie_where_the_plan_says(project: Path):
    found = read_artifact(project.parent / "project-artifact")
    image = (project / "weights.bin").read_bytes()[256:]
    row = re.compile(r'\{Kind::weight, "([^"]*)", "[^"]*", \{[^}]*\}, (\d+)U, (\d+)U\}')
    placed = row.findall((project / "src" / "plan.cpp").read_text())
    assert {name for name, _, _ in placed} == set(found.weights)
    for name, nbytes, offset in placed:
        part = image[int(offset) : int(offset) + int(nbytes)]
        assert part == found.weights[name].tobytes()


def test_kernels_name_their_nodes(project: Path):
    texts = [path.read_text() for path in (project / "kernels").glob("*.cu")]
    assert any("//   task 0: " in text for text in texts)
    assert all("namespace " in text and "GPU_EXPORT(" in text for text in texts)


def test_a_node_name_cannot_leave_its_comment():
    kernel = KernelSpec("k", "cuda", b"", (Launch("k_0", ()),), (), source="body")
    lines = kernel_text(kernel, ["task 0: a\\\nb"]).splitlines()
    assert lines[1] == "//   task 0: a??b"


def test_what_cannot_be_exported_is_refused(tmp_path: Path):
    module = compiler.compile(small_model(), target="cpu")
    module.save(tmp_path / "cpu")
    found = read_artifact(tmp_path / "cpu")
    with pytest.raises(ArtifactError, match="no C\\+\\+ source"):
        export_project(found, tmp_path / "project", version="0", check=None)


def test_only_projects_are_replaced(project: Path, tmp_path: Path):
    found = read_artifact(project.parent / "project-artifact")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("precious")
    with pytest.raises(ArtifactError, match="is no exported project"):
        export_project(found, tmp_path / "mine", version="0", check=None)
    for version in ("1", "2"):
        export_project(found, tmp_path / "project", version=version, check=None)
    assert "main 2 emu" in (tmp_path / "project" / "README.md").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "project"]


@needs_nvcc
def test_nvcc_builds_several_architectures(project: Path):
    folder = build(project, "CUDA", "-DFLOWLOOM_ARCHITECTURES=80;90a", name="build-cuda")
    library = (folder / "libflowloom.so").read_bytes()
    assert cubin_architectures(library) == {80, 90}
    assert attempt(folder / "flowloom_check", "--runs", "1").returncode in (0, 77)


@needs_hipcc
def test_hipcc_builds_without_spills(project: Path):
    folder = build(project, "HIP", "-DFLOWLOOM_ARCHITECTURES=gfx90a;gfx1030", name="build-hip")
    assert attempt(folder / "flowloom_check", "--runs", "1").returncode in (0, 77)
    assert hip_spills(folder, "gfx90a", "gfx1030") == {}


def cubin_architectures(library: bytes) -> set[int]:
    """The compute capabilities that the GPU's ELF files in a library are for, by their flags."""
    found = re.finditer(rb"\x7fELF\x02\x01..(.).{9}\xbe\x00.{28}(.{4})", library, re.DOTALL)
    shift = {8: 8, 7: 0}  # where flags have it, by the version of the format
    return {int.from_bytes(m[2], "little") >> shift[m[1][0]] & 0xFF for m in found}
