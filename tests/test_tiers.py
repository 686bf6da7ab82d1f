"""Every test is of one tier, and each tier has some."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.tiers import QUICK, is_quick

TESTS = Path(__file__).parent


def test_every_quick_path_is_there():
    assert not [pattern for pattern in QUICK if not [*TESTS.glob(pattern)]]


@pytest.mark.parametrize(
    ("file", "quick"),
    [
        ("ir/test_values.py", True),
        ("frontend/interpreter/test_exact.py", True),
        ("frontend/test_import.py", False),
        ("passes/test_runner.py", True),
        ("passes/graph/test_fuse_operators.py", False),
        ("test_words.py", True),
        ("kernels/test_words.py", False),
        ("rewrite/rules/test_proofs.py", False),
    ],
)
def test_a_path_is_below_its_folder(file: str, quick: bool):
    assert is_quick(Path(file)) == quick


def collected(*options: str) -> set[str]:
    """The tests of a file with some of each tier that are selected."""
    command = (sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider")
    files = ("tests/backends/cuda/test_calls.py", "tests/artifact/test_builds.py")
    ran = subprocess.run(
        [*command, *options, *files], cwd=TESTS.parent, capture_output=True, text=True, check=True
    )
    return {line for line in ran.stdout.splitlines() if "::" in line}


def test_tiers_are_selected_by_marker():
    """The default is everything but the deep tests; the quick ones are a part of it."""
    default, quick, deep = collected(), collected("-m", "quick"), collected("-m", "deep")
    assert quick
    assert deep
    assert quick < default
    assert not deep & default
