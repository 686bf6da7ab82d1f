"""Models whose own tensors have 16 bits, with and without Casts around what needs more."""

import ml_dtypes
import numpy as np
import pytest
from onnx import ModelProto, TensorProto, numpy_helper, parser

import compiler
from compiler.frontend.importing import import_model
from compiler.frontend.interpreter import interpret
from compiler.graph.targets import set_target
from compiler.ir.edit import graphs_of
from compiler.kernels.building.select import best
from compiler.kernels.group import extract_group
from compiler.passes.pipeline import DEFAULT_PIPELINE, parse, split_phases
from compiler.passes.runner import Runner
from compiler.target.target import parse_gpu
from compiler.tools.reference import run_onnxruntime
from tests.backends.emu.test_templates import error
from tests.kernels.gpu.emulator import COMPILER

pytestmark = pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")

PLAIN = """
<ir_version: 10, opset_import: ["" : 20]>
halves (float16[6,40] x, float16[40] scale, float16[40] shift) => (float16[6,24] y)
{
    n = LayerNormalization (x, scale, shift)
    m = MatMul (n, w)
    y = Softmax (m)
}
"""
CAST = """
<ir_version: 10, opset_import: ["" : 20]>
halves (float16[6,40] x, float[40] scale, float[40] shift) => (float16[6,24] y)
{
    wide = Cast<to = 1> (x)
    n = LayerNormalization (wide, scale, shift)
    narrow = Cast<to = 10> (n)
    m = MatMul (narrow, w)
    scores = Cast<to = 1> (m)
    p = Softmax (scores)
    y = Cast<to = 10> (p)
}
"""


def network(text: str) -> ModelProto:
    """The model with its weight."""
    model, chance = parser.parse_model(text), np.random.default_rng(0)
    weight = (chance.standard_normal((40, 24)) / 6).astype(np.float16)
    model.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    return model


@pytest.mark.parametrize("text", [PLAIN, CAST])
def test_halves_are_right(text: str):
    model, chance = network(text), np.random.default_rng(1)
    kind = np.float16 if text is PLAIN else np.float32
    inputs = {
        "x": chance.standard_normal((6, 40)).astype(np.float16),
        "scale": chance.standard_normal(40).astype(kind),
        "shift": chance.standard_normal(40).astype(kind),
    }
    imported = import_model(model)
    expected = interpret(imported.module, imported.weights, inputs)["y"]
    module = compiler.compile(model, target="emu", precision="fp16")
    found = module.run(inputs)["y"]
    assert found.dtype == np.float16
    assert error(found, expected) < 2e-3


IMAGES = """
<ir_version: 10, opset_import: ["" : 20]>
images (float16[1,3,12,12] x) => (float16[1,24] y)
{
    first = Conv <strides = [2,2], pads = [1,1,1,1]> (x, stem, bias)
    a = Relu (first)
    deep = Conv <group = 32, pads = [1,1,1,1]> (a, depthwise)
    b = HardSwish (deep)
    mixed = Conv (b, pointwise)
    c = Add (mixed, a)
    mean = GlobalAveragePool (c)
    lines = Flatten (mean)
    y = Gemm <transB = 1> (lines, last, shift)
}
"""
SHAPES = {
    "stem": (32, 3, 3, 3), "bias": (32,), "depthwise": (32, 1, 3, 3), "pointwise": (32, 32, 1, 1),
    "last": (24, 32), "shift": (24,),
}  # fmt: skip


def images() -> ModelProto:
    """A network of convolutions in float16."""
    model, chance = parser.parse_model(IMAGES), np.random.default_rng(2)
    for name, shape in SHAPES.items():
        weight = chance.standard_normal(shape) / max(1, np.prod(shape[1:])) ** 0.5
        model.graph.initializer.append(numpy_helper.from_array(weight.astype(np.float16), name))
    return model


def test_convolutions_compute_in_float32():
    model = images()
    inputs = {"x": np.random.default_rng(3).standard_normal((1, 3, 12, 12)).astype(np.float16)}
    wide = {name: array.astype(np.float32) for name, array in inputs.items()}
    (expected,) = run_onnxruntime(in_float32(model), wide).values()
    found = compiler.compile(model, target="emu", precision="tf32").run(inputs)["y"]
    assert found.dtype == np.float16
    assert error(found.astype(np.float32), expected) < 2e-3


def in_float32(model: ModelProto) -> ModelProto:
    """The same model with tensors of float32."""
    wide = ModelProto()
    wide.CopyFrom(model)
    for value in (*wide.graph.input, *wide.graph.output):
        value.type.tensor_type.elem_type = TensorProto.FLOAT
    for tensor in wide.graph.initializer:
        array = numpy_helper.to_array(tensor).astype(np.float32)
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    return wide


@pytest.mark.parametrize("target", ["cuda:sm_90:tf32", "cuda:sm_90:fp16"])
@pytest.mark.parametrize("text", [PLAIN, IMAGES], ids=["rows", "images"])
def test_templates_take_halves(text: str, target: str):
    """Contractions and normalisations have templates, and tensors keep their type in memory."""
    module = import_model(images() if text is IMAGES else network(text)).module
    set_target(module, target)
    Runner().run(module, split_phases(parse(DEFAULT_PIPELINE))[0])
    groups = [extract_group(group) for group in graphs_of(module)[-1].groups]
    assert {info.dtype for group in groups for info in group.writes} == {"float16"}
    anchors = {"Conv", "Gemm", "LayerNormalization", "MatMul"}
    anchored = [group for group in groups if anchors & {op.type for op in group.operators}]
    assert len(anchored) == (4 if text is IMAGES else 2)
    assert all(best(group, parse_gpu(target)) is not None for group in anchored)


def test_bfloat16():
    model, chance = network(PLAIN.replace("float16", "bfloat16")), np.random.default_rng(4)
    (weight,) = model.graph.initializer
    array = numpy_helper.to_array(weight).astype(ml_dtypes.bfloat16)
    weight.CopyFrom(numpy_helper.from_array(array, "w"))
    shapes = {"x": (6, 40), "scale": (40,), "shift": (40,)}
    inputs = {n: chance.standard_normal(s).astype(ml_dtypes.bfloat16) for n, s in shapes.items()}
    wide = {name: array.astype(np.float32) for name, array in inputs.items()}
    (expected,) = run_onnxruntime(in_float32(model), wide).values()
    found = compiler.compile(model, target="emu", precision="bf16").run(inputs)["y"]
    assert found.dtype == ml_dtypes.bfloat16
    assert error(found.astype(np.float32), expected) < 2e-2


def test_rows_of_a_table_are_converted_after_they_are_gathered():
    text = PLAIN.replace("float16[6,40] x", "float16[99,40] table, int64[6] ids")
    text = text.replace("n = LayerNorm", "x = Gather (table, ids) n = LayerNorm")
    module = import_model(network(text)).module
    set_target(module, "cuda:sm_90:tf32")
    Runner().run(module, split_phases(parse(DEFAULT_PIPELINE))[0])
    (group,) = [
        group
        for group in map(extract_group, graphs_of(module)[-1].groups)
        if "Gather" in {op.type for op in group.operators}
    ]
    assert "LayerNormalization" in {op.type for op in group.operators}
    gather = next(op for op in group.operators if op.type == "Gather")
    assert gather.operand(0) < group.inputs
    assert group.values[gather.outputs[0]].dtype == "float16"
