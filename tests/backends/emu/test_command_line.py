"""A model on the emulator by the command line: compiled, saved, and run by another process."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import parser

import compiler
from compiler.errors import KernelError
from compiler.tools.cli import main
from tests.kernels.gpu.emulator import COMPILER

MODEL = """
<ir_version: 10, opset_import: ["" : 20]>
small (float[6,10] x, float[10,12] y) => (float[6,12] product, float[6,12] row)
{
    product = MatMul (x, y)
    row = Softmax (product)
}
"""

pytestmark = pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")


def flowloom(*words: str | Path, **environment: str) -> str:
    """What the command prints in a process that finds no compiler."""
    command = [sys.executable, "-m", "compiler", *map(str, words)]
    own = {**os.environ, "PATH": "", "CXX": "", **environment}
    ran = subprocess.run(command, env=own, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_an_artifact_runs_in_another_process(tmp_path: Path):
    model, built = tmp_path / "small.onnx", tmp_path / "built"
    model.write_bytes(parser.parse_model(MODEL).SerializeToString())
    inputs, outputs = tmp_path / "in.npz", tmp_path / "out.npz"
    chance = np.random.default_rng(5)
    shapes = {"x": (6, 10), "y": (10, 12)}
    drawn = {name: chance.standard_normal(shape, np.float32) for name, shape in shapes.items()}
    np.savez(inputs, **drawn)  # pyright: ignore[reportArgumentType]
    precision = ["--target", "emu", "--precision", "fp32"]
    assert main(["compile", str(model), "-o", str(built), *precision]) == 0
    given = ["run", built, "--inputs", inputs, "--outputs", outputs, "--check", model]
    first = flowloom(*given)
    assert "ok   product" in first
    assert "ok   row" in first
    found = {name: array.copy() for name, array in np.load(outputs).items()}
    assert found["product"].shape == (6, 12)
    again = flowloom(*given, FLOWLOOM_EMU_SEED="3", FLOWLOOM_EMU_WARP="64")
    assert "ok   product" in again
    for name, array in np.load(outputs).items():
        np.testing.assert_array_equal(array, found[name])


def test_kernels_of_an_amd_architecture_are_fp32_by_default():
    model = parser.parse_model(MODEL)
    assert compiler.compile(model, target="emu", arch="gfx90a").target == "emu:gfx90a:fp32"


@pytest.mark.parametrize(("arch", "known"), [("gfx1", "gfx90a"), ("sm_x", "sm_80"), ("7", "sm_80")])
def test_an_unknown_architecture_is_named(arch: str, known: str):
    with pytest.raises(KernelError, match=f"'{arch}' is not an architecture of .* such as {known}"):
        compiler.compile(parser.parse_model(MODEL), target="emu", arch=arch)
