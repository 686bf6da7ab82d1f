"""Every distinct kernel of the reduced zoo, and the whole models, on the emulator."""

import zlib

import numpy as np
import pytest
from xdsl.context import Context

import compiler
from compiler.backends.emu.target import device
from compiler.frontend import import_model
from compiler.kernels.build import distinct_groups
from compiler.kernels.cuda.contraction import CONTRACTIONS
from compiler.kernels.cuda.kernel import generate
from compiler.kernels.cuda.target import PRECISIONS, parse_cuda_target
from compiler.kernels.group import Group
from compiler.kernels.kernel import build_kernel
from compiler.kernels.target import parse_target
from compiler.passes import PASSES
from compiler.pipeline import DEFAULT_PIPELINE
from compiler.tools.reference import run_onnxruntime
from examples import zoo
from tests.backends.emu import reduced
from tests.kernels.cuda.emulator import Order, Program
from tests.kernels.gpu_kernels_check import random_read
from tests.kernels.gpu_kernels_prepare import BOUNDS
from tests.kernels.harness import run_kernel

pytestmark = pytest.mark.large

ORDERS = (Order(0), Order(1, 64))


def groups_of(name: str) -> list[Group]:
    """The distinct groups of a reduced model."""
    imported = import_model(reduced.load(name))
    for step in ("canonicalize", "fuse"):
        PASSES[step]().apply(Context(), imported.module)
    return list(distinct_groups(imported.module).values())


def error(result: np.ndarray, expected: np.ndarray) -> float:
    """The relative error in the Euclidean norm; wrong elements of other types than floats."""
    if expected.dtype.kind != "f":
        return float(np.count_nonzero(result != expected))
    size = max(float(np.linalg.norm(expected)), 1e-30)
    return float(np.linalg.norm(result.astype("float64") - expected)) / size


def check_group(group: Group) -> list[str]:
    """What is wrong with the kernels of a group, in all precisions and orders."""
    reads = [
        {"dtype": t.dtype, "shape": t.shape, "seed": zlib.crc32(f"{group.name}{i}".encode())}
        for i, t in enumerate(group.reads)
    ]
    inputs = [random_read(read) for read in reads]
    expected = run_kernel(build_kernel(group, parse_target("cpu")), group, inputs)
    contracts = any(operator.type in CONTRACTIONS for operator in group.operators)
    wrong: list[str] = []
    for precision in PRECISIONS if contracts else ["tf32"]:
        kernel = generate(group, parse_cuda_target(f"cuda:sm_90:{precision}"))
        program = Program(kernel)
        for order in ORDERS:
            results = program.run(kernel, group, inputs, order=order)
            worst = max(error(*pair) for pair in zip(results, expected, strict=True))
            if not worst <= BOUNDS[precision]:
                wrong.append(f"{group.describe()} {precision} {order}: {worst:.2e}")
    return wrong


@pytest.mark.parametrize("name", zoo.names())
def test_kernels(name: str):
    found = [message for group in groups_of(name) for message in check_group(group)]
    assert not found, "\n".join(found)


SEPARABLE = DEFAULT_PIPELINE.replace("fuse-separable", "fuse-separable{policy=always}").replace(
    "assign-layouts", "assign-layouts{policy=always}"
)


@pytest.mark.parametrize("precision", ["tf32", "fp16"])
@pytest.mark.parametrize("name", ["nasnetmobile", "pnasnet5large"])
def test_separable_convolutions(name: str, precision: str):
    """Whole models whose separable convolutions are one kernel each, images in blocks."""
    model = reduced.load(name)
    inputs = zoo.random_inputs(model, seed=1)
    expected = run_onnxruntime(model, inputs)
    module = compiler.compile(model, target="emu", precision=precision, pipeline=SEPARABLE)
    kernels = [spec.source for spec in module.kernels.values()]
    assert sum("contract_separable" in source for source in kernels) > 30
    results = module.run(inputs)
    assert max(error(results[k], expected[k]) for k in expected) < 1e-2


@pytest.mark.parametrize("name", zoo.names())
def test_models(name: str):
    model = reduced.load(name)
    inputs = zoo.random_inputs(model, seed=1)
    expected = run_onnxruntime(model, inputs)
    module = compiler.compile(model, target="emu")
    for seed in range(5):
        device().configure(seed)
        results = module.run(inputs)
        assert max(error(results[k], expected[k]) for k in expected) < 1e-2
