"""Building a module's kernels: distinct ones once, from cache, in workers; errors that name."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from xdsl.dialects.builtin import ModuleOp

from compiler.errors import KernelError
from compiler.ir.context import parse_module
from compiler.kernels.building import KernelCache, build_kernels, build_missing
from compiler.kernels.building import module as build
from compiler.kernels.building.module import build_groups, distinct_groups, exact_target
from compiler.kernels.cpu.machine import host_target, vector_bytes
from compiler.kernels.group import Group
from compiler.target.target import parse_cpu

GROUP = """
  %{n} = "dataflow.group"(%x) <{{kernel = "{kernel}"}}> ({{
  ^bb0(%a: tensor<{size}xf32>):
    %b = dataflow.op "{type}" named "node{n}" (%a) : (tensor<{size}xf32>) -> tensor<{size}xf32>
    dataflow.yield %b : tensor<{size}xf32>
  }}) : (tensor<{size}xf32>) -> tensor<{size}xf32>
"""


def module_of(kernels: list[tuple[str, str]], size: int = 8) -> ModuleOp:
    """A module with one group for each kernel name and operator type."""
    groups = "".join(
        GROUP.format(n=i, kernel=name, type=type, size=size)
        for i, (name, type) in enumerate(kernels)
    )
    text = f"""
    dataflow.graph @main opset 21 inputs ["x"] outputs ["y"] {{
    ^bb0(%x: tensor<{size}xf32>):
      {groups}
      dataflow.yield %{len(kernels) - 1} : tensor<{size}xf32>
    }}
    """
    return parse_module(text)


def test_groups_of_one_name_are_built_once(tmp_path: Path):
    module = module_of([("Relu_a", "Relu"), ("Relu_a", "Relu"), ("Exp_b", "Exp")])
    assert list(distinct_groups(module)) == ["Relu_a", "Exp_b"]
    specs = build_kernels(module, "cpu", KernelCache(tmp_path), 1)
    assert list(specs) == ["Relu_a", "Exp_b"]
    assert specs["Relu_a"].code.startswith(b"\x7fELF")
    assert build_kernels(module, "cpu", KernelCache(tmp_path), 1) == specs
    assert build_kernels(module, "cpu", None, 1).keys() == specs.keys()


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch):
    """Workers build two kernels and more."""
    monkeypatch.setattr(build, "WORKERS_PAY", 2)


def test_kernels_of_several_modules_are_built_once_into_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    first = module_of([("Relu_a", "Relu"), ("Exp_b", "Exp")])
    second = module_of([("Exp_b", "Exp"), ("Abs_c", "Abs"), ("Odd_d", "NoSuchOperator")])
    cache, built = KernelCache(tmp_path), list[str]()

    def recorded(groups: Sequence[Group], *others: Any) -> Iterator[Any]:
        built.extend(group.name for group in groups)
        return build_groups(groups, *others)

    monkeypatch.setattr("compiler.kernels.building.module.build_groups", recorded)
    build_missing([first, second], "cpu", cache, 1)
    assert built == ["Relu_a", "Exp_b", "Abs_c", "Odd_d"]
    build_kernels(first, "cpu", cache, 1)
    assert built[4:] == []
    with pytest.raises(KernelError, match="NoSuchOperator"):
        build_kernels(second, "cpu", cache, 1)
    assert built[4:] == ["Odd_d"]


@pytest.mark.usefixtures("workers")
def test_workers_give_the_same_code_as_the_process_itself():
    module = module_of([(f"Exp_{i}", "Exp") for i in range(4)])
    assert build_kernels(module, "cpu", None, 2) == build_kernels(module, "cpu", None, 1)


@pytest.mark.usefixtures("workers")
@pytest.mark.parametrize("jobs", [1, 2])
def test_an_error_names_kernel_operator_and_node(jobs: int):
    module = module_of([("Exp_0", "Exp"), ("Exp_1", "Exp"), ("Odd_1", "NoSuchOperator")])
    with pytest.raises(KernelError, match=r'Odd_1.*NoSuchOperator "node2"'):
        build_kernels(module, "cpu", None, jobs)


def test_an_unknown_target_is_an_error():
    with pytest.raises(KernelError, match="x86-64-v3"):
        build_kernels(module_of([("Exp_a", "Exp")]), "tpu", None, 1)


def test_the_host_is_a_named_cpu():
    assert exact_target("cpu") == host_target()
    assert exact_target(str(host_target())) == host_target()
    assert vector_bytes(parse_cpu("cpu")) == vector_bytes(host_target())
    assert vector_bytes(parse_cpu("cpu:x86-64-v3")) == 32
    assert vector_bytes(parse_cpu("cpu:x86-64")) == 16
    with pytest.raises(KernelError, match="LLVM knows no CPU 'nothing'"):
        exact_target("cpu:nothing")


def test_a_generic_target_uses_no_wider_registers():
    specs = {
        target: build_kernels(module_of([("Exp_a", "Exp")], 512), target, None, 1)["Exp_a"].code
        for target in ("cpu:x86-64", "cpu:x86-64-v4")
    }
    assert specs["cpu:x86-64"] != specs["cpu:x86-64-v4"]


WARM = """
import sys
from tests.kernels.building.test_module import module_of
from compiler.kernels.building import KernelCache, build_kernels, build_missing
build_kernels(module_of([("Relu_a", "Relu")]), "cpu", KernelCache(sys.argv[1]), 1)
assert ("tvm" in sys.modules) is (sys.argv[2] == "cold"), sys.argv[2]
assert not [name for name in sys.modules if name.startswith("compiler.kernels.gpu.templates")]
"""


def test_a_warm_cache_needs_no_tvm_and_a_cpu_no_templates_of_gpus(tmp_path: Path):
    for state in ("cold", "warm"):
        command = [sys.executable, "-c", WARM, str(tmp_path), state]
        subprocess.run(command, check=True, env={"PYTHONPATH": ":".join(filter(None, sys.path))})
