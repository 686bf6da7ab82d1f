"""CPUs as targets: what LLVM knows of them, on this host and on others."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
import tvm
from tvm.target import codegen

import compiler
from compiler.errors import DeviceError, KernelError
from compiler.kernels.building.module import exact_target
from compiler.kernels.cpu.core import ONE_PIPE, Core, core_of
from compiler.kernels.cpu.machine import (
    byte_sums_of,
    features_of,
    host_target,
    second_cache_bytes,
)
from compiler.target.caches import data_caches, last_cache_bytes
from compiler.target.cpus import host_instruction_set, instruction_set
from compiler.target.target import parse_cpu
from tests.artifact.projects import small_model


@pytest.mark.parametrize("known", ["aarch64", "x86_64"])
def test_the_name_of_a_cpu_says_its_instruction_set(known: str):
    with tvm.target.Target({"kind": "llvm", "mtriple": f"{known}-linux-gnu"}):
        names = {str(name) for name in codegen.llvm_get_cpu_archlist()} - {"generic"}
    assert len(names) > 50
    assert {name for name in names if instruction_set(name) != known} == set()
    assert instruction_set("") == instruction_set("generic") == host_instruction_set()
    assert instruction_set("aarch64") == "aarch64"


def test_cpus_of_arm_have_their_registers_and_instructions():
    assert core_of(parse_cpu("cpu:neoverse-n1")) == Core(32, 4)
    assert core_of(parse_cpu("cpu:x86-64-v3")) == Core(16, 8)
    assert core_of(parse_cpu("cpu:x86-64-v4")) == Core(32, 16)
    assert core_of(parse_cpu("cpu:znver4")) == Core(32, 16, loads=ONE_PIPE)
    assert byte_sums_of(parse_cpu("cpu:aarch64")) == ""
    assert byte_sums_of(parse_cpu("cpu:neoverse-n1")) == "sdot"
    assert byte_sums_of(parse_cpu("cpu:aarch64:+dotprod,+i8mm")) == "usdot"
    assert byte_sums_of(parse_cpu("cpu:x86-64-v3")) == ""
    assert byte_sums_of(parse_cpu("cpu:znver4")) == "vnni"
    assert not {"sve", "sve2"} & features_of(parse_cpu("cpu:neoverse-v2"))
    with pytest.raises(KernelError, match=r"no CPU 'cortex-m4' that runs aarch64.*or 'aarch64'"):
        exact_target("cpu:cortex-m4")


def test_a_module_of_another_instruction_set_is_refused_before_it_runs():
    other = "cpu:x86-64" if host_instruction_set() == "aarch64" else "cpu:aarch64"
    module = compiler.compile(small_model(), target=other)
    with pytest.raises(DeviceError, match=r"made for the architecture .*`flowloom export` it"):
        module.run({})


def test_caches_are_as_linux_describes_them(tmp_path: Path):
    described = [("1", "Data", "48K"), ("1", "Instruction", "32K"), ("2", "Unified", "2048K")]
    for number, texts in enumerate([*described, ("3", "Unified", "307200K")]):
        folder = tmp_path / f"index{number}"
        folder.mkdir()
        for name, text in zip(("level", "type", "size"), texts, strict=True):
            (folder / name).write_text(f"{text}\n")
    (tmp_path / "index9").mkdir()
    assert data_caches(tmp_path) == {1: 48 << 10, 2: 2 << 20, 3: 300 << 20}
    assert data_caches(tmp_path / "missing") == {}
    assert last_cache_bytes() >= second_cache_bytes(host_target()) >= 1 << 17


@pytest.mark.parametrize(
    ("cpu", "feature"), [("sapphirerapids", "avx512fp16"), ("neoverse-n2", "fullfp16")]
)
def test_no_kernel_computes_in_float16(cpu: str, feature: str):
    assert feature not in features_of(parse_cpu(f"cpu:{cpu}"))
    asked = replace(parse_cpu(f"cpu:{cpu}"), features=f"+{feature}")
    assert feature not in features_of(asked)


def test_a_square_is_rounded_to_float16_before_a_difference():
    """LLVM would contract both where the CPU has instructions for float16: 90000 - 60000."""
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["": 18]>'
        "g (float16[32] x, float16[32] z) => (float16[32] y) { t = Mul(x, x)  y = Sub(t, z) }"
    )
    inputs = {"x": np.full(32, 300, "f2"), "z": np.full(32, 60000, "f2")}
    assert np.isinf(compiler.compile(model).run(inputs)["y"]).all()
