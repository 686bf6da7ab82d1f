"""The patches that undo fixes fit the code; `python -m tests.reverted` shows that tests notice."""

import subprocess

import pytest

from tests.reverted.__main__ import PATCHES, ROOT


@pytest.mark.parametrize("patch", sorted(PATCHES.iterdir()), ids=lambda path: path.stem)
def test_a_patch_fits_the_code(patch: object):
    command = ["git", "apply", "--check", str(patch)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"make it anew: {done.stderr}"
