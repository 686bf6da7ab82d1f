"""The small model's project and its builds, once for all tests of one process."""

from pathlib import Path

import pytest

from tests.artifact.projects import WITHOUT_OPTIMISATION, build, export, run, small_model
from tests.cpu_projects import built


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
def on_cpu(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The build of the small model's project for this CPU."""
    place = tmp_path_factory.mktemp("on-cpu") / "project"
    export(small_model(), place, "cpu")
    return built(place, "cpu", *WITHOUT_OPTIMISATION).parent


@pytest.fixture(params=["emulated", "on_cpu"])
def library(request: pytest.FixtureRequest) -> Path:
    """A build of the small model's project, for each kind of device."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def installed(library: Path) -> Path:
    """Where that build is installed."""
    prefix = library.parent / "installed"
    run("cmake", "--install", library, "--prefix", prefix)
    return prefix
