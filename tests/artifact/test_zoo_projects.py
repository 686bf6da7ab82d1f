"""Exported projects of real models build with every compiler at hand, and run on the emulator.

ResNet-50 (64x64), Inception-v3 (96x96), BERT (128 tokens, two layers) and UNet (32x32).
"""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.artifact.projects import (
    attempt,
    build,
    export,
    hip_spills,
    needs_cmake,
    needs_hipcc,
    needs_nvcc,
    run,
)
from tests.artifact.test_project import ORDERS
from tests.backends.emu import reduced

pytestmark = [pytest.mark.deep, needs_cmake]
Projects = Callable[[str, str], Path]
NODES = {"resnet50": None, "inception_v3": None, "bert128": 76, "unet": None}
"""How many nodes of each model are kept; None for all."""
TARGET = "cuda:sm_80:tf32"


@pytest.fixture(scope="module")
def projects(tmp_path_factory: pytest.TempPathFactory) -> Projects:
    """The project of a model for a target, exported once."""

    @cache
    def exported(name: str, target: str) -> Path:
        place = tmp_path_factory.mktemp(name) / "project"
        export(reduced.load(name, NODES[name]), place, target)
        return place

    return exported


@needs_nvcc
@pytest.mark.parametrize("name", NODES)
def test_emulator_runs_it(name: str, projects: Projects):
    program = build(projects(name, TARGET), "EMU") / "flowloom_check"
    for seed, warp in ORDERS:
        order = {"FLOWLOOM_EMU_SEED": str(seed), "FLOWLOOM_EMU_WARP": str(warp)}
        assert "ok   streams" in run(program, "--check", "once", "--runs", "0", **order)


@needs_nvcc
@pytest.mark.parametrize("name", NODES)
def test_nvcc_builds_it(name: str, projects: Projects):
    project = projects(name, TARGET)
    folder = build(project, "CUDA", "-DFLOWLOOM_ARCHITECTURES=80;90a", name="build-cuda")
    assert attempt(folder / "flowloom_check", "--runs", "1").returncode in (0, 77)


@needs_hipcc
@pytest.mark.parametrize("architecture", ["gfx90a", "gfx1030"])
@pytest.mark.parametrize("name", NODES)
def test_hipcc_builds_it(name: str, architecture: str, projects: Projects):
    folder = build(projects(name, f"emu:{architecture}:fp32"), "HIP")
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
    assert "gpu_plan = {true," in (place / "src" / "plan.cpp").read_text()
    return build(place, "EMU")
