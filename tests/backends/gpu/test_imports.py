"""A saved artifact runs on a GPU without the compiler's libraries."""

import subprocess
import sys

PROGRAM = """
import sys
for name in ("xdsl", "onnx", "tvm", "onnxruntime", "cuda"):
    sys.modules[name] = None
from compiler.backends.base import backend
from compiler.autotune import bindings
from compiler.errors import DeviceError
cuda = backend("cuda")
try:
    cuda.check({"architecture": "sm_90"})
except DeviceError as error:
    print(error)
"""


def test_the_runtime_imports_without_compiler_libraries():
    found = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    assert "pip install 'flowloom[cuda]'" in found.stdout
