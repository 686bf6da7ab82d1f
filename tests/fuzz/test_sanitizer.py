"""What a sanitized emulator shows."""

import os
import subprocess
import sys

from tests.fuzz.sanitizer import environment
from tests.tools import needs

READS_UNSET = """
from tests.emulator.launching import functions, launch, zeros

text = 'extern "C" __global__ void copy(float* to) { float x[1]; to[threadIdx.x] = x[0]; }'
result = zeros(32)
launch(functions(text, ("copy",))["copy"], [result])
print(abs(result).min())
"""


@needs("g++")
def test_what_nothing_has_set_is_seen_in_results():
    process = subprocess.run(
        [sys.executable, "-c", READS_UNSET],
        env={**os.environ, **environment()},
        capture_output=True,
        text=True,
        check=True,
    )
    assert float(process.stdout) > 1e30
