"""Refuses to start where a program that must be there is missing."""

import pytest

from tests.tools import missing, required


def pytest_sessionstart() -> None:
    """Fail rather than skip tests on a machine that says that it can run them all."""
    lacking = missing(required())
    if lacking:
        pytest.exit("FLOWLOOM_REQUIRED_TOOLS: " + "; ".join(lacking), returncode=3)
