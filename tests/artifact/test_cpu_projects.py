"""Projects of CPU targets: on this host, and for AArch64 by the cross compiler, under qemu."""

import ctypes
import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.artifact.projects import WITHOUT_OPTIMISATION, attempt, needs_cmake, run
from tests.artifact.test_interface import Library
from tests.cpu_projects import built, execution, network, project_of
from tests.tools import needs

pytestmark = needs_cmake
needs_qemu = needs("aarch64-linux-gnu-g++", "qemu-aarch64")
EXACT = 1e-6

TASK = re.compile(r'^    /\* \d+ \*/ \{"\w*", "[^"]*", \d+\},$', re.MULTILINE)
"""A task's row of plan.cpp: kernel, nodes and stream."""

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
    built(project_of(network("small:loop"), "cpu", EXACT, folder), "cpu", *WITHOUT_OPTIMISATION)
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
    text = said(program)
    assert text.count("ok   1 thread y: relative error") >= 2
    assert text.count("ok   ") == 4  # twice on one thread, and on several
    shutil.copytree(native / "check", tmp_path / "check")
    shutil.copy(native / "weights.bin", tmp_path)
    outputs = np.fromfile(tmp_path / "check" / "outputs.bin", np.float32)
    outputs[5] += 1
    outputs.tofile(tmp_path / "check" / "outputs.bin")
    failed = attempt(program, "--data", tmp_path, "--runs", "0")
    assert failed.returncode == 1
    assert "FAIL 1 thread y: relative error" in failed.stdout


def test_its_latency_and_the_times_of_its_tasks_are_said(native: Path, tmp_path: Path):
    program, profile = native / "build" / "flowloom_check", tmp_path / "profile.json"
    options = ("--check", "no", "--threads", "3", "--runs", "1", "--profile", profile)
    assert re.search(r" cpu 3 threads: latency [\d.]+ us \(medians of 1\)$", run(program, *options))
    tasks = json.loads(profile.read_text())["tasks"]
    assert len(tasks) == len(TASK.findall((native / "src" / "plan.cpp").read_text()))
    assert all(0 <= task["start"] < task["end"] for task in tasks)


def places(*arrays: NDArray[Any]) -> list[int]:
    """The addresses of arrays."""
    return [array.ctypes.data for array in arrays]


def error_of_run(library: Library, model: Any, inputs: list[int], outputs: list[int]) -> str:
    """The error of a run on arrays at addresses, or nothing."""
    arrays = ((ctypes.c_void_p * len(all))(*all) for all in (inputs, outputs))
    return library.error if library.c.flowloom_run_host(model, *arrays) else ""


def test_a_program_runs_the_library_and_is_told_its_mistakes(native: Path, tmp_path: Path):
    library = Library(native / "build" / "libflowloom.so")
    options = library.options(native / "weights.bin")
    options.threads = 3
    model = library.create(options)
    x, n = np.ones((3, 4), np.float32), np.zeros(8, np.int64)
    y = np.full((4, 4), np.nan, np.float32)
    inputs = places(x, n)
    assert error_of_run(library, model, inputs, places(y)) == ""
    np.testing.assert_array_equal(y[:3], x)  # no iterations
    assert np.isnan(y[3]).all()
    unaligned = error_of_run(library, model, inputs, [y.ctypes.data + 4])
    assert "y is not device memory aligned to 16" in unaligned
    assert error_of_run(library, model, [0, inputs[1]], places(y)) == "x is NULL"
    assert "output y overlaps x" in error_of_run(library, model, inputs, places(x))
    library.c.flowloom_destroy(model)
    for weights, field, value, error in (
        (native / "weights.bin", "threads", -1, "threads is -1: it must be at least 1"),
        (native / "weights.bin", "mode", 3, "unknown mode 3"),
        (native / "weights.bin", "device", 1, "there is no device 1: 1 are visible"),
        (tmp_path / "none.bin", "threads", 1, "cannot read the weights"),
        (native / "README.md", "threads", 1, "is not a file of weights"),
    ):
        options = library.options(weights)
        setattr(options, field, value)
        status = library.c.flowloom_create(ctypes.byref(ctypes.c_void_p()), ctypes.byref(options))
        assert status == 1
        assert error in library.error
    assert library.c.flowloom_check_interface(7) == 1
    assert "has interface 2" in library.error
    assert library.c.flowloom_find_input(b"z", ctypes.byref(ctypes.c_size_t())) == 1
    assert "there is no input z: the inputs are x, n" in library.error


@needs_qemu
@pytest.mark.parametrize("name", ARM)
def test_aarch64_computes_as_onnxruntime_does(name: str, arm: Path):
    own, target = name.partition(" ")[0], ARM[name]
    shutil.rmtree(arm / "artifact", ignore_errors=True)
    project = project_of(network(f"small:{own}"), target, 0.0 if own == "bytes" else EXACT, arm)
    program = built(project, target, *WITHOUT_OPTIMISATION)
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
    program, old = built(project, target, *WITHOUT_OPTIMISATION), execution("cpu:cortex-a53")
    assert said(program, *old, status=77) == "skipped: this CPU does not have dotprod\n"
    refused = attempt("cmake", "-S", project, "-B", arm / "wrong")
    assert refused.returncode != 0
    assert "the kernels are aarch64 code and this build is for" in refused.stderr
