"""A host that starts fewer threads than the emulator asks for."""

import os
import subprocess
import sys

import pytest

SCRIPT = """
import os, resource
import numpy as np
from onnx import parser
import compiler
from compiler.backends.emu.device import device

rows = 'float[256, 512]'
model = parser.parse_model(
    '<ir_version: 8, opset_import: ["": 18]> '
    f'g ({rows} x) => ({rows} y) {{ y = Neg (x) }}'
)
module = compiler.compile(model, target='emu', budget=0)
x = np.arange(256 * 512, dtype=np.float32).reshape(256, 512)
np.testing.assert_array_equal(module.run({'x': x})['y'], -x)
device().configure(threads=64)
resource.setrlimit(resource.RLIMIT_NPROC, (12, 12))  # which binds no user 0
os.setuid(65534)
np.testing.assert_array_equal(module.run({'x': x})['y'], -x)
print('computed')
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only user 0 may become a user without processes")
def test_fewer_threads_compute_the_same():
    found = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=120, check=False
    )
    assert found.stdout == "computed\n", found.stderr
