"""Kernels' texts can be written where every kernel came from the cache, and are always the same."""

import subprocess
import sys
from pathlib import Path

import pytest

from compiler.kernels.building.kernel import build_kernel, scheduled_launches
from compiler.kernels.cpu.codegen import llvm_text
from compiler.kernels.cpu.generic import schedule_cpu
from compiler.kernels.group import Group, Node, TensorInfo
from compiler.kernels.tir.launches import launch_module
from compiler.target.target import CpuTarget, parse_cpu

PROGRAM = """
from onnx import parser
from compiler.frontend.importing import import_model
from compiler.graph.targets import set_target
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


def test_functions_in_other_memory_have_the_same_llvm_code():
    """TVM names buffers by their addresses, which differ between processes too."""
    target, info = parse_cpu("cpu"), TensorInfo("float32", (8, 8))
    node = Node("Softmax", {"axis": 1}, (0,), (1,))
    group = Group("g", (info, info), 1, (False,), {}, (node,), (1,))
    function = schedule_cpu(group, target).function
    assert function is not None
    modules = [launch_module(scheduled_launches(group, function)[0]) for _ in range(2)]
    first, second = (llvm_text(module, target) for module in modules)
    assert '!"branch_weights"' in first
    assert "tbaa" not in first
    assert first == second


def code_of(dtype: str, target: str) -> bytes:
    """The object of a Sqrt of a type."""
    info = TensorInfo(dtype, (8, 8))
    group = Group("g", (info, info), 1, (False,), {}, (Node("Sqrt", {}, (0,), (1,)),), (1,))
    return build_kernel(group, parse_cpu(target)).code


def test_llvm_optimises_the_function_of_a_launch_once():
    """Inlined into its entry point, it would be optimised before and afterwards."""
    assert b"g_0_body" in code_of("float32", "cpu:x86-64-v3")


@pytest.mark.parametrize(
    ("dtype", "needed"), [("float32", False), ("float64", False), ("float16", True)]
)
def test_only_kernels_with_float16_have_its_conversions(dtype: str, needed: bool):
    assert (b"__extendhfsf2" in code_of(dtype, "cpu:x86-64")) == needed


def test_llvm_looks_for_vectors_only_where_a_kernel_has_none(monkeypatch: pytest.MonkeyPatch):
    asked: list[bool] = []

    def optimised(text: str, target: CpuTarget, slp: bool) -> bytes:
        asked.append(slp)
        return b""

    monkeypatch.setattr("compiler.kernels.cpu.codegen.optimise", optimised)
    info = TensorInfo("float32", (64, 64))
    sqrt, matmul = Node("Sqrt", {}, (0,), (1,)), Node("MatMul", {}, (0, 1), (2,))
    groups = [
        Group("g", (info, info), 1, (False,), {}, (sqrt,), (1,)),
        Group("g", (info, info, info), 2, (False, True), {}, (matmul,), (2,)),
    ]
    for group in groups:
        build_kernel(group, parse_cpu("cpu:x86-64-v3"))
    assert asked == [True, False]
