"""The small model's project and its builds, once for all tests of one process."""

from pathlib import Path

import pytest

from tests.export.projects import build, export, run, small_model


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small model's project."""
    place = tmp_path_factory.mktemp("exported") / "project"
    export(small_model(), place)
    return place


@pytest.fixture(scope="session")
def emulated(project: Path) -> Path:
    """Its build for the emulator."""
    return build(project, "EMU")


@pytest.fixture(scope="session")
def installed(emulated: Path) -> Path:
    """Where that build is installed."""
    prefix = emulated.parent / "installed"
    run("cmake", "--install", emulated, "--prefix", prefix)
    return prefix
