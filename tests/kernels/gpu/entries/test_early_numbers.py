"""Weights of one number are loaded before anything else, by every launch that reads them."""

import re

import numpy
import pytest

from compiler.frontend.importing import import_model
from compiler.graph.targets import set_target
from compiler.ir.edit import graphs_of
from compiler.kernels.building.cuda_kernel import generate
from compiler.kernels.gpu.entries.early_numbers import with_early_numbers
from compiler.kernels.group import Group, extract_group
from compiler.passes.pipeline import parse
from compiler.passes.runner import Runner
from compiler.target.target import parse_gpu
from tests.frontend import checks

TARGET = "cuda:sm_90:fp16"
RANDOM = numpy.random.default_rng(4)


def groups(layers: int) -> list[Group]:
    """The groups of layers of a MatMul that is clipped to limits of each layer's own."""
    text, constants = "", {"w": RANDOM.standard_normal((64, 64)).astype("f4")}
    for i in range(layers):
        text += f"m{i} = MatMul(x{i}, w)  x{i + 1} = Clip(m{i}, low{i}, high{i})\n"
        constants |= {f"low{i}": numpy.array(-1 - i, "f4"), f"high{i}": numpy.array(2 + i, "f4")}
    text = f"g (float[64,64] x0) => (float[64,64] x{layers}) {{ {text} }}"
    module = import_model(checks.parse(text, 18, **constants)).module
    set_target(module, TARGET)
    Runner().run(module, parse("fuse-operators,reduce-precision,share-kernels"))
    return [extract_group(group) for graph in graphs_of(module) for group in graph.groups]


@pytest.mark.parametrize("layers", [2, 6])
def test_numbers_are_loaded_first(layers: int):
    found = [generate(group, parse_gpu(TARGET)).text for group in groups(layers)]
    matmuls = [text for text in found if "GEMM" in text or "gemm" in text]
    assert len(matmuls) == layers
    counts = [text.count("= load_number(") for text in matmuls]
    assert 2 in counts if layers > 2 else not any(counts), "two kernels keep their constants"
    for text in matmuls:
        for name in re.findall(r"= load_number\((\w+)\);", text):
            head = re.search(rf"\) \{{[^{{}}]*load_number\({name}\);\s*{name} = &own_{name};", text)
            assert head is not None


def test_kernels_without_numbers_stay_as_they_are():
    (group, *_) = groups(1)
    kernel = generate(group, parse_gpu(TARGET))
    assert with_early_numbers(kernel, group) is kernel
