"""Every distinct kernel of the reduced zoo, and the whole models, on the emulator against numpy."""

import zlib
from dataclasses import replace

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import compiler
from compiler.backends.emu.device import device
from compiler.frontend.importing import import_model
from compiler.frontend.interpreter import interpret
from compiler.graph.targets import set_target
from compiler.ir.dataflow import GraphOp, GroupOp
from compiler.kernels.building import KernelCache, build_kernels
from compiler.kernels.building.kernel import build_kernel
from compiler.kernels.building.module import distinct_groups
from compiler.kernels.group import Group, TensorInfo
from compiler.kernels.template import KernelSource
from compiler.passes.pipeline import DEFAULT_PIPELINE, parse, split_phases
from compiler.passes.runner import Runner
from compiler.schedule.kernels import KernelSpec
from compiler.target.target import parse_target
from compiler.tensors.dtypes import numpy_dtype
from compiler.tools.reference import run_onnxruntime
from examples import zoo
from tests.backends.emu import reduced
from tests.kernels.gpu.emulator import Order, Program
from tests.kernels.gpu_kernels_prepare import BOUNDS
from tests.kernels.harness import run_kernel

pytestmark = pytest.mark.deep

PRECISIONS = ("tf32", "fp16", "bf16", "fp32")
ORDERS = (Order(0), Order(1, 64))
STORED = {"float16": 1e-3, "bfloat16": 8e-3}
"""Largest error that rounding a result to its type adds, relative to the result's norm."""


def module_of(name: str, precision: str) -> tuple[ModuleOp, dict[str, KernelSpec]]:
    """A reduced model after all passes that decide its kernels, and these kernels."""
    target = f"emu:sm_90:{precision}"
    module = import_model(reduced.load(name)).module
    set_target(module, target)
    graph_passes, _ = split_phases(parse(DEFAULT_PIPELINE))
    Runner().run(module, graph_passes)
    return module, build_kernels(module, target, KernelCache(), 1)


def draw(info: TensorInfo, seed: int) -> np.ndarray:
    """Normal floats; integers from 0 to 99."""
    generator, dtype = np.random.default_rng(seed), numpy_dtype(info.dtype)
    if dtype.kind in "biu":
        return generator.integers(0, 2 if dtype.kind == "b" else 100, info.shape).astype(dtype)
    return generator.standard_normal(info.shape, np.float32).astype(dtype)


def reference(op: GroupOp, group: Group, inputs: list[np.ndarray], opset: int) -> list[np.ndarray]:
    """What numpy makes of a group's operators.

    ONNX's reference gives pools in `ceil_mode` a wrong shape: these go to the CPU's kernels.
    """
    if any("ceil_mode" in operator.attributes for operator in op.operators):
        plain = replace(group, values=tuple(replace(v, block=0) for v in group.values))
        return run_kernel(build_kernel(plain, parse_target("cpu")), plain, inputs)
    names = [f"i{i}" for i in range(len(inputs))]
    results = [f"o{i}" for i in range(len(op.outputs))]
    module = ModuleOp([GraphOp("group", opset, names, results, op.body.clone())])
    found = interpret(module, {}, dict(zip(names, inputs, strict=True)))
    return [found[name] for name in results]


def error(result: np.ndarray, expected: np.ndarray) -> float:
    """The relative error in the Euclidean norm; wrong elements of other types than floats."""
    if expected.dtype.kind in "biu":
        return float(np.count_nonzero(result != expected))
    result, expected = result.astype("float64"), expected.astype("float64")
    known = np.isfinite(expected)
    if not np.array_equal(result[~known], expected[~known], equal_nan=True):
        return float("inf")
    size = max(float(np.linalg.norm(expected[known])), 1e-30)
    return float(np.linalg.norm(result[known] - expected[known])) / size


def check_group(op: GroupOp, group: Group, spec: KernelSpec, opset: int, bound: float) -> list[str]:
    """What is wrong with the kernel of a group, in all orders."""
    seeds = [zlib.crc32(f"{group.name}{i}".encode()) for i in range(group.inputs)]
    inputs = [draw(info, seed) for info, seed in zip(group.reads, seeds, strict=True)]
    expected = reference(op, group, inputs, opset)
    kernel = KernelSource("", spec.launches, spec.workspaces, spec.packings)
    program, wrong = Program(kernel, spec.code), list[str]()
    for order in ORDERS:
        results = program.run(kernel, group, inputs, order=order)
        for result, wanted, info in zip(results, expected, group.writes, strict=True):
            worst = error(result, wanted)
            if not worst <= bound + STORED.get(info.dtype, 0):
                wrong.append(f"{group.describe()} {order}: {worst:.2e}")
    return wrong


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", zoo.names())
def test_kernels(name: str, precision: str):
    module, kernels = module_of(name, precision)
    (graph,) = [op for op in module.ops if isinstance(op, GraphOp)]
    operations = {op.kernel.data: op for op in graph.groups if op.kernel}
    wrong = [
        message
        for key, group in distinct_groups(module).items()
        for message in check_group(
            operations[key], group, kernels[key], graph.opset.value.data, BOUNDS[precision]
        )
    ]
    print(f"{name} {precision}: {len(operations)} kernels")
    assert not wrong, "\n".join(wrong)


SEPARABLE = DEFAULT_PIPELINE.replace(
    "fuse-depthwise-pointwise", "fuse-depthwise-pointwise{policy=always}"
).replace("assign-layouts", "assign-layouts{policy=always}")


@pytest.mark.parametrize("precision", ["tf32", "fp16"])
@pytest.mark.parametrize("name", ["nasnetmobile", "pnasnet5large"])
def test_separable_convolutions(name: str, precision: str):
    """Whole models whose separable convolutions are one kernel each, images in blocks."""
    model = reduced.load(name)
    inputs = zoo.random_inputs(model, seed=1)
    expected = run_onnxruntime(model, inputs)
    module = compiler.compile(model, target="emu", precision=precision, pipeline=SEPARABLE)
    kernels = [spec.source for spec in module.kernels.values()]
    assert sum("separable_gemm" in source for source in kernels) > 30
    results = module.run(inputs)
    assert max(error(results[k], expected[k]) for k in expected) < 1e-2


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", zoo.names())
def test_models(name: str, precision: str):
    model = reduced.load(name)
    inputs = zoo.random_inputs(model, seed=1)
    expected = run_onnxruntime(model, inputs)
    module = compiler.compile(model, target="emu", precision=precision)
    for seed in range(5):
        device().configure(seed)
        results = module.run(inputs)
        worst = max(error(results[k], expected[k]) for k in expected)
        assert worst < 4 * BOUNDS[precision], f"seed {seed}: {worst:.2e}"
