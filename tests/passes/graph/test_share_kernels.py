"""Quantised layers that differ by scales and zero points: one kernel, the same bits."""

from itertools import product

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.numpy_helper import from_array

import compiler
from compiler.frontend.export import export_model
from compiler.graph.targets import set_target
from compiler.ir.edit import graphs_of
from compiler.ir.types import dtype_of, shape_of
from compiler.passes.pipeline import DEFAULT_PIPELINE, parse, without_pass
from compiler.passes.runner import Runner
from compiler.tensors.contraction import Contraction
from tests.frontend import checks
from tests.lowered import import_lowered

WIDTH = 24
BEFORE = "canonicalize,fuse-operators"
X = np.random.default_rng(5).standard_normal((6, WIDTH)).astype("f4")


def layered(zeros: list[int], dtype: str = "uint8") -> onnx.ModelProto:
    """Layers of a MatMul, each between QDQ pairs with its scale and its zero point."""
    generator = np.random.default_rng(7)
    nodes: list[onnx.NodeProto] = []
    constants: list[onnx.TensorProto] = []

    def add(type: str, *inputs: str | np.ndarray) -> str:
        names = [name if isinstance(name, str) else f"c{len(constants)}" for name in inputs]
        for i, value in enumerate(inputs):
            if not isinstance(value, str):
                names[i] = f"c{len(constants)}"
                constants.append(from_array(value, names[i]))
        nodes.append(helper.make_node(type, names, [f"t{len(nodes)}"]))
        return nodes[-1].output[0]

    value = "x"
    for i, zero in enumerate([*zeros, zeros[0]]):
        code = np.float32(0.04 + 0.003 * i), np.array(zero, dtype)
        value = add("QuantizeLinear", value, *map(np.asarray, code))
        value = add("DequantizeLinear", value, *map(np.asarray, code))
        if i < len(zeros):
            weight = generator.integers(-60, 60, (WIDTH, WIDTH)).astype("i1")
            scale = np.asarray(np.float32(0.007 + 0.0002 * i))
            value = add("MatMul", value, add("DequantizeLinear", weight, scale))
    nodes[-1].output[0] = "y"
    x, y = (helper.make_tensor_value_info(name, 1, [6, WIDTH]) for name in "xy")
    graph = helper.make_graph(nodes, "layered", [x], [y], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def names_of(
    model: onnx.ModelProto, target: str, passes: str, way: Contraction = Contraction.BYTES
) -> set[str]:
    """The distinct kernels after some passes."""
    module = import_lowered(model, contraction=way).module
    set_target(module, target)
    Runner().run(module, parse(passes))
    groups = (group for graph in graphs_of(module) for group in graph.groups)
    return {group.kernel.data for group in groups if group.kernel is not None}


@pytest.mark.parametrize(
    ("dtype", "zeros"), [("uint8", [131, 97, 240, 3]), ("int8", [9, -9, 4, -120])]
)
def test_layers_share_kernels_and_keep_their_bits(dtype: str, zeros: list[int]):
    model = layered(zeros, dtype)
    results = [
        compiler.compile(model, pipeline=pipeline).run({"x": X})["y"]
        for pipeline in (DEFAULT_PIPELINE, without_pass(DEFAULT_PIPELINE, "share-kernels"))
    ]
    np.testing.assert_array_equal(results[0], results[1])
    assert np.unique(results[0]).size > 30
    before = names_of(model, "cpu", BEFORE)
    after = names_of(model, "cpu", f"{BEFORE},share-kernels")
    assert len(before) >= 5
    assert len(after) <= len(before) - 2


def operands(zeros: list[int]) -> list[tuple[str, ...]]:
    """The types of the weights of one element that groups read after the pass."""
    module = import_lowered(layered(zeros), contraction=Contraction.BYTES).module
    set_target(module, "cpu")
    Runner().run(module, parse(f"{BEFORE},share-kernels"))
    groups = [group for graph in graphs_of(module) for group in graph.groups]
    scalars = [[v.type for v in group.inputs if shape_of(v.type) == ()] for group in groups]
    return [tuple(map(dtype_of, types)) for types in scalars]


def test_zero_points_are_bytes_but_those_of_nothing_stay():
    assert any("uint8" in types for types in operands([131, 97, 240, 3]))
    unshifted = operands([0, 0, 0, 0])
    assert any("float32" in types for types in unshifted)
    assert not any("uint8" in types for types in unshifted)


def test_two_kernels_keep_their_constants():
    model = layered([131, 97])
    assert names_of(model, "cpu", BEFORE) == names_of(model, "cpu", f"{BEFORE},share-kernels")


def test_a_second_time_changes_nothing_and_a_dump_runs_in_onnxruntime():
    model = layered([131, 97, 240, 3])
    found = import_lowered(model, contraction=Contraction.BYTES)
    set_target(found.module, "cpu")
    Runner().run(found.module, parse(f"{BEFORE},share-kernels"))
    once = str(found.module)
    Runner().run(found.module, parse("share-kernels"))
    assert str(found.module) == once
    (dumped,) = checks.run(export_model(found.module, found.weights), {"x": X})
    (expected,) = checks.run(model, {"x": X})
    step = 0.04 + 0.003 * 4
    np.testing.assert_allclose(dumped, expected, atol=1.01 * step)


def attention(i: int) -> str:
    """An attention with pairs after each operator, whose scales are its own."""
    steps = {f"q{i}": "MatMul(x, wq)", f"k{i}": "MatMul(x, wk)", f"v{i}": "MatMul(x, wv)"}
    steps |= {f"a{i}": f"MatMul(dq{i}, t{i})", f"e{i}": f"Softmax(da{i})"}
    steps |= {f"f{i}": f"MatMul(de{i}, dv{i})"}
    lines = list[str]()
    for name, step in steps.items():
        code = "o, w" if name == f"e{i}" else f"s{name}, z"
        lines += [f"{name} = {step}  c{name} = QuantizeLinear({name}, {code})"]
        lines += [f"d{name} = DequantizeLinear(c{name}, {code})"]
        lines += [f"t{i} = Transpose<perm=[0,2,1]>(dk{i})"] if name == f"k{i}" else []
    return "  ".join(lines)


def attentions(layers: int) -> onnx.ModelProto:
    """The sum of attentions on one tensor."""
    generator, steps = (
        np.random.default_rng(3),
        {"q": 0.05, "k": 0.04, "v": 0.06, "a": 0.3, "f": 0.008},
    )
    constants = {"z": np.array(128, "u1"), "w": np.array(0, "u1"), "o": np.array(1 / 255, "f4")}
    constants |= {w: generator.standard_normal((16, 16), "f4") for w in ("wq", "wk", "wv")}
    for i, (name, step) in product(range(layers), steps.items()):
        constants[f"s{name}{i}"] = np.array(step * (1 + 0.07 * i), "f4")
    results = ", ".join(f"df{i}" for i in range(layers))
    body = " ".join(map(attention, range(layers)))
    text = f"g (float[2,24,16] x) => (float[2,24,16] y) {{ {body} y = Sum({results}) }}"
    return checks.parse(text, 21, **constants)


@pytest.mark.parametrize("quantised", ["unrounded", "operands", "bytes"])
@pytest.mark.parametrize("model", [layered([131, 97, 240, 3]), attentions(3)])
def test_scales_are_shared_on_a_gpu(model: onnx.ModelProto, quantised: str):
    target, (given,) = "emu:sm_90:fp16", model.graph.input
    shape = [axis.dim_value for axis in given.type.tensor_type.shape.dim]
    x = np.random.default_rng(2).standard_normal(shape, "f4")
    plain = without_pass(DEFAULT_PIPELINE, "substitute")
    modules = [
        compiler.compile(model, target=target, pipeline=pipeline, quantised=quantised)
        for pipeline in (plain, without_pass(plain, "share-kernels"))
    ]
    shared, apart = (len(module.kernels) for module in modules)
    assert shared <= apart - 2
    (found,), (expected,) = (module.run({given.name: x}).values() for module in modules)
    assert np.unique(found).size > 30
    rounded_otherwise = (found != expected).mean()  # scales of an attention are multiplied later
    assert rounded_otherwise <= (0.05 if model.graph.name == "g" and quantised == "bytes" else 0)
    np.testing.assert_allclose(found, expected, atol=0.008 * 1.5)
    (exact,) = checks.run(model, {given.name: x})
    assert np.linalg.norm(found - exact) / np.linalg.norm(exact) < 0.04
