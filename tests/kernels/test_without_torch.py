"""Importing TVM does not import PyTorch."""

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys
import compiler.kernels.building.kernel
assert "tvm" in sys.modules
print("torch" in sys.modules)
import torch
print(torch.MARK)
"""


def test_tvm_is_imported_without_pytorch_which_others_still_import(tmp_path: Path):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("MARK = 'a package of that name'")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == ["False", "a package of that name"]
