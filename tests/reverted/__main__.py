"""The command line: see the package's docstring."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from time import monotonic

import tests.reverted

ROOT = Path(__file__).parents[2]
PATCHES = Path(__file__).parent / "patches"
PYTEST = (sys.executable, "-m", "pytest", "-q", "-x")
PASSED, FAILED = 0, 1
"""Exit statuses of pytest; others mean that no test ran."""

SECONDS = 600
"""The most that the tests of a fix may take."""


@dataclass(frozen=True)
class Fix:
    """A fix, the patch that undoes it, and the tests that must fail then."""

    name: str
    text: str
    patch: Path
    tests: tuple[str, ...]

    @classmethod
    def of(cls, patch: Path) -> "Fix":
        """The fix of a patch; raises ValueError for a patch without its two lines."""
        lines = patch.read_text().splitlines()
        heads = dict(line.split(": ", 1) for line in lines[:2] if ": " in line)
        if heads.keys() != {"Fix", "Tests"}:
            raise ValueError(f"{patch} does not begin with the lines `Fix: ...` and `Tests: ...`")
        return cls(patch.stem, heads["Fix"], patch, tuple(heads["Tests"].split()))


def fixes(patterns: Sequence[str] = (), folder: Path = PATCHES) -> list[Fix]:
    """The fixes whose names match a pattern, or all."""
    found = [Fix.of(patch) for patch in sorted(folder.glob("*.patch"))]
    return [fix for fix in found if not patterns or any(fnmatchcase(fix.name, p) for p in patterns)]


@contextmanager
def checkout() -> Generator[Path]:
    """A copy of the commit that is checked out here, for as long as it is used."""
    with tempfile.TemporaryDirectory(prefix="flowloom-reverted-") as folder:
        tree = Path(folder) / "tree"
        _git(ROOT, "worktree", "add", "--quiet", "--detach", str(tree), "HEAD")
        try:
            yield tree
        finally:
            _git(ROOT, "worktree", "remove", "--force", str(tree))


def _git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=folder, check=True)


def applies(fix: Fix, tree: Path) -> bool:
    """Whether a patch changes a tree, which it then does, or not as it is."""
    command = ["git", "apply", "--recount", str(fix.patch)]
    return subprocess.run(command, cwd=tree, capture_output=True).returncode == 0


def tested(names: Sequence[str], tree: Path) -> tuple[int | None, list[str]]:
    """pytest's exit status for some tests of a tree, None where they take too long, and the test
    that failed."""
    with tempfile.TemporaryDirectory(prefix="flowloom-reverted-") as folder:
        command = [*PYTEST, "-o", f"cache_dir={folder}", *names]
        environment = {**os.environ, "PYTHONPATH": str(tree)}
        try:
            ran = subprocess.run(
                command,
                cwd=tree,
                env=environment,
                capture_output=True,
                timeout=SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return None, []
        failed = Path(folder, "v", "cache", "lastfailed")
        return ran.returncode, list(json.loads(failed.read_text())) if failed.exists() else []


def verdict(fix: Fix, tree: Path) -> str:
    """What is wrong with the tests of a fix, or nothing where one fails without it alone."""
    if not applies(fix, tree):
        return "the patch does not apply: undo the fix by hand, and write it anew"
    try:
        status, failed = tested(fix.tests, tree)
    finally:
        _git(tree, "checkout", "--quiet", "--", ".")
    if status == PASSED:
        return f"nothing fails without the fix: {' '.join(fix.tests)}"
    if status != FAILED:
        return f"no verdict, pytest's exit status is {status}: {' '.join(fix.tests)}"
    status, _ = tested(failed, tree)
    return "" if status == PASSED else f"it fails with the fix, too: {' '.join(failed)}"


def main(arguments: list[str] | None = None) -> int:
    """Undo the fixes; 1 if a test misses one or a patch does not apply."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.reverted",
        description=tests.reverted.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="PATTERN", help="default: all fixes")
    chosen = fixes(parser.parse_args(arguments).names)
    wrong = 0
    with checkout() as tree:
        for fix in chosen:
            start = monotonic()
            reason = verdict(fix, tree)
            wrong += bool(reason)
            print(f"{'WRONG' if reason else 'found'}  {fix.name} ({monotonic() - start:.0f} s)")
            print(f"       {reason or fix.text}", flush=True)
    print(f"{len(chosen) - wrong} of {len(chosen)} undone fixes are found")
    return 1 if wrong or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
