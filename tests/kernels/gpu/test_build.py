"""Cubins without a GPU: targets, resources, limits, errors, the cache."""

import dataclasses
import re
import shutil
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy
import pytest
import tvm_ffi

from compiler.errors import KernelError
from compiler.kernels.building import KernelCache
from compiler.kernels.building.cuda_kernel import generate, programmatic, with_releases
from compiler.kernels.building.kernel import build_kernel
from compiler.kernels.gpu.compilers import nvrtc as compiling
from compiler.kernels.gpu.cubin import check_resources, read_resources
from compiler.kernels.gpu.entries.indirect import with_indirect_entries
from compiler.kernels.gpu.source import complete_text
from compiler.kernels.gpu.templates.gemm.candidates import candidates
from compiler.kernels.gpu.templates.gemm.config import shared_bytes
from compiler.kernels.gpu.templates.gemm.read import read_problem
from compiler.kernels.group import Group, TensorInfo
from compiler.schedule.kernels import Launch
from compiler.target.target import parse_gpu, parse_target
from tests.kernels.gpu.of_template import estimated_tile
from tests.kernels.harness import single

ARCHITECTURES = ("sm_80", "sm_90", "sm_100")


def zeros(*shape: int) -> numpy.ndarray:
    """Zeros."""
    return numpy.zeros(shape, "float32")


def test_tvm_compiles_nothing_where_a_device_is_present():
    callback, create = "tvm_callback_cuda_compile", "ffi.Module.create.cuda"
    source = tvm_ffi.get_global_func("runtime.CSourceModuleCreate")
    own, called = tvm_ffi.get_global_func(callback), list[str]()

    def create_as_the_runtime_does(text: str, *_: object) -> Any:
        tvm_ffi.get_global_func(callback)(text)
        return source('extern "C" __global__', "c", [], [])

    tvm_ffi.register_global_func(callback, called.append, override=True)
    tvm_ffi.register_global_func(create, create_as_the_runtime_does)
    try:
        generate(row_softmax(), parse_gpu("cuda"))
        assert called == []
        tvm_ffi.get_global_func(callback)("text")
        assert called == ["text"]
    finally:
        tvm_ffi.remove_global_func(create)
        tvm_ffi.register_global_func(callback, own, override=True)


def convolution() -> Group:
    """A convolution with split-K."""
    inputs = [zeros(1, 512, 7, 7), zeros(512, 512, 3, 3), zeros(512)]
    info = TensorInfo("float32", (1, 512, 7, 7))
    return single("Conv", inputs, [info], {"pads": [1] * 4}, weights=(1, 2))[0]


def row_softmax() -> Group:
    """A softmax of rows."""
    return single("Softmax", [zeros(8, 300)], [TensorInfo("float32", (8, 300))])[0]


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("precision", ["fp32", "tf32", "fp16", "bf16"])
def test_convolutions_compile_without_spills(arch: str, precision: str):
    spec = build_kernel(convolution(), parse_target(f"cuda:{arch}:{precision}"))
    assert spec.language == "cuda"
    assert spec.packings[1].startswith("reshape:512,512,9|transpose")
    found = read_resources(spec.code)
    assert set(found) == {launch.symbol for launch in spec.launches}
    for resources in found.values():
        assert 0 < resources.registers <= 255
        assert resources.stack_bytes == 0
    assert spec.flops == 2 * 512 * 512 * 9 * 49


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_rows_compile(arch: str):
    spec = build_kernel(row_softmax(), parse_target(f"cuda:{arch}"))
    (launch,) = spec.launches
    assert launch.grid == (8, 1, 1)
    assert launch.args == (1, 0)
    assert read_resources(spec.code)[launch.symbol].shared_bytes > 0


def test_nvcc_compiles_the_same_text():
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("there is no nvcc")
    target = parse_gpu("cuda")
    kernel = generate(convolution(), target)
    cubin = compiling.compile_by_nvcc(nvcc, complete_text(kernel.text), target)
    assert set(check_resources(cubin, kernel.launches, target)) == {
        launch.symbol for launch in kernel.launches
    }


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_kernels_of_newer_architectures_wait_themselves(arch: str):
    target = parse_gpu(f"cuda:{arch}")
    for group in (convolution(), row_softmax()):
        spec = build_kernel(group, target)
        assert {launch.programmatic for launch in spec.launches} == {arch != "sm_80"}
        text = complete_text(generate(group, target).text)
        heads = re.findall(r'extern "C" __global__ [^;{]*\{\n\s*(\w+)', text)
        assert heads == ["grid_dependency_wait"] * len(spec.launches)


@pytest.mark.parametrize(
    ("arch", "blocks", "shared", "first"),
    [
        ("sm_90", 132, 16 << 10, "launch_dependents"),
        ("sm_90", 133, 0, "grid_dependency_wait"),
        ("sm_90", 17, 17 << 10, "grid_dependency_wait"),
        ("sm_90", 16, 200 << 10, "launch_dependents"),
        ("sm_80", 8, 0, "grid_dependency_wait"),
    ],
)
def test_kernels_of_few_blocks_let_their_successors_be_placed_before_they_wait(
    arch: str, blocks: int, shared: int, first: str
):
    target = parse_gpu(f"cuda:{arch}")
    kernel = with_indirect_entries(generate(row_softmax(), target))
    resized = [
        dataclasses.replace(launch, grid=(blocks, 1, 1), shared_bytes=shared)
        for launch in kernel.launches
    ]
    text = with_releases(complete_text(kernel.text), programmatic(resized, target), target)
    heads = re.findall(r'extern "C" __global__ [^;{]*\{\n\s*(\w+)\(\);', text)
    assert heads == [first] * 2
    assert text.count("  grid_dependency_wait();\n") == len(heads)


@pytest.mark.parametrize(
    ("blocks", "others", "releasing"),
    [(64, 68, ["f", "g"]), (64, 69, ["g"]), (16, 132, ["f", "g"]), (16, 1000, ["f"])],
)
def test_a_launch_releases_the_next_one_of_its_kernel_if_both_fit_the_sms(
    blocks: int, others: int, releasing: list[str]
):
    target = parse_gpu("cuda:sm_90")
    launches = [Launch("f", (), (blocks, 1, 1)), Launch("g", (), (others, 1, 1))]
    text = "".join(f'extern "C" __global__ void {launch.symbol}() {{}}\n' for launch in launches)
    released = with_releases(text, programmatic(launches, target), target)
    heads = re.findall(r"void (\w+)\(\) \{\n  launch_dependents\(\);", released)
    assert heads == releasing


def test_compiler_errors_name_the_kernel(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("compiler.kernels.building.cuda_kernel.complete_text", str)
    with pytest.raises(KernelError, match=r'(?s)Softmax_test \(Softmax "node"\).*flowloom_exp'):
        build_kernel(row_softmax(), parse_target("cuda"))


def test_a_missing_compiler_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(compiling, "load_nvrtc", lambda: None)
    monkeypatch.setattr(compiling.shutil, "which", Mock(return_value=None))
    with pytest.raises(KernelError, match=r"pip install flowloom\[cuda\]"):
        build_kernel(row_softmax(), parse_target("cuda"))


def test_launches_beyond_the_limits_are_refused():
    target = parse_gpu("cuda")
    spec = build_kernel(row_softmax(), target)
    launch = spec.launches[0]
    with pytest.raises(KernelError, match="threads"):
        check_resources(spec.code, (dataclasses.replace(launch, block=(2048, 1, 1)),), target)
    with pytest.raises(KernelError, match="shared memory"):
        check_resources(spec.code, (dataclasses.replace(launch, shared_bytes=1 << 20),), target)
    with pytest.raises(KernelError, match="no kernel other"):
        check_resources(spec.code, (Launch("other", ()),), target)


@pytest.mark.parametrize("cubin", [b"", b"\x7fELF", b"PTX"])
def test_damaged_cubins_are_refused(cubin: bytes):
    with pytest.raises(KernelError, match="cubin"):
        read_resources(cubin)


def test_cache_keeps_cubins_by_target(tmp_path: Path):
    cache, group = KernelCache(tmp_path), row_softmax()
    spec = build_kernel(group, parse_target("cuda"))
    cache.store(group, "cuda:sm_90:tf32", spec)
    assert cache.load(group, "cuda:sm_90:tf32") == spec
    assert cache.load(group, "cuda:sm_80:tf32") is None


@pytest.mark.parametrize("arch", [*ARCHITECTURES, "sm_86"])
def test_tiles_fit_the_device(arch: str):
    target, group = parse_gpu(f"cuda:{arch}"), convolution()
    problem = read_problem(group, group.operators[0])
    assert problem is not None
    tiles = list(candidates(problem, target))
    assert estimated_tile(problem, target) in tiles
    assert all(shared_bytes(problem, tile, target) <= target.shared_bytes for tile in tiles)
    assert {tile.split_k for tile in tiles} > {1, 16}
