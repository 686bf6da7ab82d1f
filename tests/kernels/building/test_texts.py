"""Kernels' texts can be written where every kernel came from the cache."""

import subprocess
import sys
from pathlib import Path

PROGRAM = """
from onnx import parser
from compiler.driver.build import set_target
from compiler.frontend.importing import import_model
from compiler.kernels.building.texts import kernel_texts
from compiler.passes.runner import Runner
from compiler.passes.pipeline import parse

text = '<ir_version: 10, opset_import: ["" : 20]>'
text += ' g (float[2,8] x) => (float[2,8] y) {y = Softmax(x)}'
module = import_model(parser.parse_model(text)).module
set_target(module, "cuda:sm_80:fp32")
Runner().run(module, parse("fuse-operators"))
for target in ("cuda:sm_80:fp32", "hip:gfx90a:fp32"):
    ((name, text),) = kernel_texts(module, target)
    print(target, "__global__" in text, "_indirect" in text)
"""


def test_texts_need_no_kernel_to_be_built_before():
    root = str(Path(__file__).parents[2])
    command = [sys.executable, "-c", PROGRAM]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=root)
    assert ran.returncode == 0, ran.stderr
    cuda, hip = (line.split()[1:] for line in ran.stdout.splitlines())
    assert cuda[0] == hip[0] == "True"
    assert hip[1] == "False"  # second entry points are CUDA's
