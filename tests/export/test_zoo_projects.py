"""Exported projects of real models build with every compiler at hand, and run on the emulator."""

import shutil
from pathlib import Path

import pytest

from tests.backends.emu import reduced
from tests.export.projects import CMAKE, attempt, build, export, run
from tests.export.test_project import hip_spills

pytestmark = [
    pytest.mark.large,
    pytest.mark.skipif(CMAKE is None, reason="there is no cmake"),
]
MODELS = ["resnet50", "inception_v3", "bert128", "unet"]
ORDERS = [(0, 32), (1, 32), (2, 64), (3, 64), (4, 32)]


@pytest.mark.parametrize("name", MODELS)
def test_emulator_runs_it(name: str, tmp_path: Path):
    export(reduced.load(name), tmp_path / "project", "emu:sm_80:tf32")
    program = build(tmp_path / "project", "EMU") / "flowloom_check"
    for seed, warp in ORDERS:
        order = {"FLOWLOOM_EMU_SEED": str(seed), "FLOWLOOM_EMU_WARP": str(warp)}
        assert "ok  " in run(program, "--runs", "0", **order)


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="there is no nvcc")
@pytest.mark.parametrize("name", MODELS)
def test_nvcc_builds_it(name: str, tmp_path: Path):
    export(reduced.load(name), tmp_path / "project", "emu:sm_80:tf32")
    folder = build(tmp_path / "project", "CUDA", "-DFLOWLOOM_ARCHITECTURES=80;90a")
    assert attempt(folder / "flowloom_check", "--runs", "1").returncode in (0, 77)


@pytest.mark.skipif(shutil.which("hipcc") is None, reason="there is no hipcc")
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("architecture", ["gfx90a", "gfx1030"])
def test_hipcc_builds_it(name: str, architecture: str, tmp_path: Path):
    export(reduced.load(name), tmp_path / "project", f"emu:{architecture}:fp32")
    folder = build(tmp_path / "project", "HIP")
    assert attempt(folder / "flowloom_check", "--runs", "1").returncode in (0, 77)
    assert hip_spills(folder, architecture) == {}


@pytest.mark.parametrize("seed", range(3))
def test_emulator_runs_what_was_compiled_for_cuda(seed: int, early: Path):
    order = {"FLOWLOOM_EMU_SEED": str(seed), "FLOWLOOM_EMU_WARP": "32"}
    assert "ok  " in run(early / "flowloom_check", "--runs", "2", **order)


@pytest.fixture(scope="module")
def early(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """BERT for sm_90, whose kernels begin early, built for the emulator."""
    place = tmp_path_factory.mktemp("early") / "project"
    export(reduced.load("bert128"), place, "cuda:sm_90:tf32")
    assert "                   true," in (place / "src" / "plan.cpp").read_text()
    return build(place, "EMU")
