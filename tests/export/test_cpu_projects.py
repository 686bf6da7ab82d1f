"""Projects of CPU targets: on this host, and for AArch64 by the cross compiler, under qemu."""

import ctypes
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.cpu_projects import built, execution, network, project_of
from tests.export.projects import attempt, needs_cmake, run
from tests.tools import needs

pytestmark = needs_cmake
needs_qemu = needs("aarch64-linux-gnu-g++", "qemu-aarch64")
EXACT = 1e-6
QUICKLY = ("-DCMAKE_BUILD_TYPE=Debug",)
HEADER = Path("include/flowloom/model.h")

ARM = {
    "convolutions": "cpu:aarch64",
    "recurrence": "cpu:aarch64",
    "bytes": "cpu:aarch64",
    "bytes by sdot": "cpu:neoverse-n1",
    "bytes by usdot": "cpu:neoverse-v1",
}
"""Small networks and the targets that they are compiled for."""


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project of the small loop for this host, built."""
    folder = tmp_path_factory.mktemp("native")
    built(project_of(network("small:loop"), "cpu", EXACT, folder), "cpu", *QUICKLY)
    return folder / "project"


@pytest.fixture(scope="module")
def arm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which one project of AArch64 replaces another: most of a build is kept."""
    return tmp_path_factory.mktemp("arm")


def said(program: Path, *words: str | Path, status: int = 0) -> str:
    """The text of a program that ends with an exit status."""
    ran = attempt(*words, program, "--runs", "0")
    assert ran.returncode == status, ran.stdout + ran.stderr
    return ran.stdout + ran.stderr


def test_a_project_of_this_host_checks_itself(native: Path, tmp_path: Path):
    program = native / "build" / "flowloom_check"
    assert said(program).startswith("ok   y: relative error")
    shutil.copytree(native / "check", tmp_path / "check")
    shutil.copy(native / "weights.bin", tmp_path)
    outputs = np.fromfile(tmp_path / "check" / "outputs.bin", np.float32)
    outputs[5] += 1
    outputs.tofile(tmp_path / "check" / "outputs.bin")
    failed = attempt(program, "--data", tmp_path, "--runs", "0")
    assert failed.returncode == 1
    assert "FAIL y: relative error" in failed.stdout


class Options(ctypes.Structure):
    """`flowloom_options`."""

    _fields_ = (("weights", ctypes.c_char_p), ("threads", ctypes.c_int))


class Library:
    """The C interface of a built project."""

    def __init__(self, project: Path):
        self.calls = ctypes.CDLL(str(project / "build" / "libflowloom.so"))
        self.calls.flowloom_error.restype = ctypes.c_char_p
        self.calls.flowloom_version.restype = ctypes.c_char_p
        self.calls.flowloom_destroy.argtypes = [ctypes.c_void_p]

    def create(self, weights: Path, threads: int = 0) -> tuple[int, ctypes.c_void_p]:
        """The status, and a model."""
        model = ctypes.c_void_p()
        options = Options(str(weights).encode(), threads)
        return self.calls.flowloom_create(ctypes.byref(model), ctypes.byref(options)), model

    def run(self, model: ctypes.c_void_p, inputs: list[int], outputs: list[int]) -> str:
        """Run on arrays at addresses; the error, or nothing."""
        arrays = ((ctypes.c_void_p * len(all))(*all) for all in (inputs, outputs))
        return self.error() if self.calls.flowloom_run_host(model, *arrays) else ""

    def error(self) -> str:
        """The last error's text."""
        return self.calls.flowloom_error().decode()


def test_the_library_exports_what_the_header_declares(native: Path):
    declared = re.findall(r"FLOWLOOM_API [^;]*?(flowloom_\w+)\(", (native / HEADER).read_text())
    table = run("nm", "-D", "--defined-only", native / "build" / "libflowloom.so")
    assert sorted(line.split()[-1] for line in table.splitlines()) == sorted(declared)


def test_a_program_runs_the_library_and_is_told_its_mistakes(native: Path, tmp_path: Path):
    library = Library(native)
    status, model = library.create(native / "weights.bin", threads=3)
    assert status == 0, library.error()
    x, n, y = (
        np.ones((3, 4), np.float32),
        np.zeros(8, np.int64),
        np.full((4, 4), np.nan, np.float32),
    )
    places = [x.ctypes.data, n.ctypes.data]
    assert library.run(model, places, [y.ctypes.data]) == ""
    np.testing.assert_array_equal(y[:3], x)  # no iterations
    assert np.isnan(y[3]).all()
    assert "y is not memory aligned to 16" in library.run(model, places, [y.ctypes.data + 4])
    assert "x is not memory" in library.run(model, [0, places[1]], [y.ctypes.data])
    assert "output y overlaps x" in library.run(model, places, [x.ctypes.data])
    library.calls.flowloom_destroy(model)
    for weights, threads, error in (
        (native / "weights.bin", -1, "threads is -1: it must be at least 1"),
        (tmp_path / "none.bin", 1, "cannot read the weights"),
        (native / "README.md", 1, "is not a file of weights"),
    ):
        status, _ = library.create(weights, threads)
        assert status == 1
        assert error in library.error()
    assert library.calls.flowloom_check_interface(7) == 1
    assert "has interface 1" in library.error()
    assert library.calls.flowloom_find_input(b"z", ctypes.byref(ctypes.c_size_t())) == 1
    assert "there is no input z: the inputs are x, n" in library.error()


@needs_qemu
@pytest.mark.parametrize("name", ARM)
def test_aarch64_computes_as_onnxruntime_does(name: str, arm: Path):
    own, target = name.partition(" ")[0], ARM[name]
    shutil.rmtree(arm / "artifact", ignore_errors=True)
    project = project_of(network(f"small:{own}"), target, 0.0 if own == "bytes" else EXACT, arm)
    program = built(project, target, *QUICKLY)
    assert "ok   " in said(program, *execution(target))
    by = name.rpartition(" by ")[2]
    if own == "bytes":
        objects = (project / "kernels").glob("*.o")
        code = run("aarch64-linux-gnu-objdump", "-d", *objects)
        assert {"sdot", "usdot"} & set(re.findall(r"\t(u?sdot)\t", code)) == {by} - {"bytes"}


@needs_qemu
def test_a_cpu_without_the_features_is_told_and_not_run(arm: Path):
    target = "cpu:neoverse-n1"
    shutil.rmtree(arm / "artifact", ignore_errors=True)
    project = project_of(network("small:bytes"), target, 0.0, arm)
    program, old = built(project, target, *QUICKLY), execution("cpu:cortex-a53")
    assert said(program, *old, status=77) == "skipped: this CPU does not have dotprod\n"
    refused = attempt("cmake", "-S", project, "-B", arm / "wrong")
    assert refused.returncode != 0
    assert "the kernels are aarch64 code and this build is for" in refused.stderr
