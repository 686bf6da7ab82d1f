"""Refuses to start where a program that must be there is missing; chooses the search's seed.

The device of tests marked `gpu` is a fixture here.
"""

import gc
import importlib
import os
import secrets
import sys
import tempfile
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from compiler.backends.cuda.device import device
from compiler.backends.cuda.driver import CudaDriver
from compiler.emulator import compile as emulated
from compiler.errors import DeviceError
from compiler.kernels.building import module as kernels_build
from compiler.kernels.database import DATABASE_VARIABLE
from compiler.kernels.library.files import VARIABLE
from compiler.passes import runner
from compiler.support import family
from compiler.support.caches import COMPILED_VARIABLE, remove_oldest
from compiler.tools.api.keeping import KEEPING
from tests import compiler_launcher
from tests.tiers import is_quick
from tests.tools import missing, required

FUZZ_SEED = "FLOWLOOM_FUZZ_SEED"
TESTS = Path(__file__).parent
COMPILED_LIMIT = 4 << 30
"""Bytes of compiled code that stay in the folder of FLOWLOOM_COMPILED between runs."""


def pytest_configure() -> None:
    """Choose a fresh seed for the search and one thread for numpy, which worker processes inherit.

    Kernels are built by other processes only where a test asks for it, and no test learns from the
    user's database.
    """
    gc.set_threshold(10_000, 20, 20)  # by default a seventh of a compilation is spent on garbage
    # The tests' own workers fill the cores; each of a build's would import TVM once more.
    kernels_build.WORKERS_PAY = sys.maxsize
    family.EARLY = False
    runner.VERIFY_EACH = True
    os.environ[KEEPING] = "off"  # what a test compiles is compiled
    emulated.KERNELS_OPTIMISED = "-O1"  # most kernels run once, and compiling takes longer
    os.environ[DATABASE_VARIABLE] = tempfile.mkdtemp(prefix="flowloom-tests-")
    os.environ[VARIABLE] = os.environ[DATABASE_VARIABLE]  # which has no libraries either
    os.environ.setdefault(FUZZ_SEED, str(secrets.randbelow(10**9)))
    # Workers already fill the cores; numpy's threads would only spin against theirs.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if os.environ.get(COMPILED_VARIABLE):
        launcher = f"{sys.executable};{compiler_launcher.__file__}"
        for language in ("CXX", "CUDA"):
            os.environ.setdefault(f"CMAKE_{language}_COMPILER_LAUNCHER", launcher)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import no test that is not quick for the quick ones alone: that takes as long as they do."""
    if config.getoption("markexpr") != "quick" or not collection_path.is_relative_to(TESTS):
        return None
    path = collection_path.relative_to(TESTS)
    return (path.suffix == ".py" and not is_quick(path)) or None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the quick tests, before markers select."""
    for path, group in groupby(items, lambda item: item.path):
        if not (path.is_relative_to(TESTS) and is_quick(path.relative_to(TESTS))):
            continue
        for item in group:
            if item.get_closest_marker("deep") is None:
                item.add_marker("quick")


def pytest_collection_finish() -> None:
    """Leave what was imported and collected out of every later collection of garbage.

    These are millions of objects, through which each full collection would go in vain.
    """
    gc.collect()
    gc.freeze()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Remove compiled code that has not been used for long, once all workers are done."""
    folder = os.environ.get(COMPILED_VARIABLE)
    if folder and not hasattr(session.config, "workerinput"):
        remove_oldest((path for path in Path(folder).glob("*/*")), COMPILED_LIMIT)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what was searched, and the seed by which it can be found again."""
    reports: list[Any] = [
        r for name in ("passed", "failed") for r in terminalreporter.getreports(name)
    ]
    searched = [text for r in reports for name, text in r.user_properties if name == "search"]
    for text in searched:
        terminalreporter.write_line(f"{text} ({FUZZ_SEED}={os.environ[FUZZ_SEED]})")


def pytest_sessionstart() -> None:
    """Fail rather than skip tests on a machine that says that it can run them all."""
    lacking = missing(required())
    if lacking:
        pytest.exit("FLOWLOOM_REQUIRED_TOOLS: " + "; ".join(lacking), returncode=3)


@pytest.fixture(scope="session")
def cuda_device() -> CudaDriver:
    """The CUDA device; a test that needs it is skipped without one."""
    try:
        return device()
    except DeviceError as error:
        pytest.skip(str(error))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give a worker neighbours, which share fixtures, until it takes some that another has left."""
    if config.getoption("dist") != "load":
        return None
    scheduler: Any = importlib.import_module("xdist.scheduler")
    return scheduler.WorkStealingScheduling(config, log)
