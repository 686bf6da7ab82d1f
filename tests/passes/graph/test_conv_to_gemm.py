"""Which convolutions become GEMMs of patches, and that their results stay the same."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import ModelProto, TensorProto, helper, numpy_helper

import compiler
from compiler.errors import ModelError
from compiler.frontend.importing import import_model
from compiler.graph.patches import FEWEST_ELEMENTS
from compiler.graph.rewriting.weights import reshaped_key, weight_array
from compiler.graph.targets import set_target
from compiler.ir.dataflow import GraphOp, OperatorOp
from compiler.passes.pipeline import parse
from compiler.passes.runner import Runner
from compiler.tools.reference import run_onnxruntime
from tests.kernels.gpu.emulator import COMPILER


def convolution(image: tuple[int, ...], kernel: tuple[int, ...], bias: bool = True,
                tokens: bool = False, **attributes: Any) -> ModelProto:  # fmt: skip
    """Four filters over an image; with `tokens` as a vision transformer reads them."""
    chance = np.random.default_rng(0)
    shape = (4, image[1] // attributes.get("group", 1), *kernel)
    weights = {"w": chance.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))}
    weights |= {"b": chance.standard_normal(4)} if bias else {}
    result = "conv" if tokens else "y"
    nodes = [helper.make_node("Conv", ["x", *weights], [result], **attributes)]
    constants = [
        numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()
    ]
    if tokens:
        constants.append(numpy_helper.from_array(np.array([image[0], 4, -1]), "flat"))
        nodes.append(helper.make_node("Reshape", ["conv", "flat"], ["rows"]))
        nodes.append(helper.make_node("Transpose", ["rows"], ["y"], perm=[0, 2, 1]))
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, image)
    made = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "patches", [given], [made], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def types_of(model: ModelProto, pipeline: str = "conv-to-gemm") -> list[str]:
    """The operators after a pipeline."""
    module = import_model(model).module
    set_target(module, "cpu")
    Runner().run(module, parse(pipeline))
    (graph,) = module.ops
    assert isinstance(graph, GraphOp)
    return [op.type_name for op in graph.body.block.ops if isinstance(op, OperatorOp)]


def check(model: ModelProto, target: str = "cpu", bound: float = 1e-5) -> None:
    """Compare a compiled model with onnxruntime."""
    shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    inputs = {"x": np.random.default_rng(1).standard_normal(shape).astype(np.float32)}
    (expected,) = run_onnxruntime(model, inputs).values()
    (found,) = compiler.compile(model, target=target).run(inputs).values()
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=bound, atol=bound * np.abs(expected).max())


SIZES = st.integers(1, 3)


@settings(max_examples=5, deadline=None)
@given(
    batch=SIZES, channels=SIZES, grid=st.lists(SIZES, min_size=1, max_size=3), bias=st.booleans(),
    data=st.data(),
)  # fmt: skip
def test_any_patches(
    batch: int, channels: int, grid: list[int], bias: bool, data: st.DataObject
):  # fmt: skip
    fewest = int(np.ceil((FEWEST_ELEMENTS / channels) ** (1 / len(grid))))
    patch = [data.draw(st.integers(fewest, fewest + 2)) for _ in grid]
    image = (batch, channels, *(g * p for g, p in zip(grid, patch, strict=True)))
    model = convolution(image, tuple(patch), bias, strides=patch)
    assert "Conv" not in types_of(model)
    check(model)


@pytest.mark.parametrize(("image", "kernel", "attributes"), [
    ((1, 3, 32, 32), (16, 16), {"strides": [8, 16]}),
    ((1, 3, 32, 32), (16, 16), {"strides": [16, 16], "dilations": [2, 1]}),
    ((1, 3, 32, 32), (16, 16), {"strides": [16, 16], "pads": [0, 0, 16, 0]}),
    ((1, 3, 40, 32), (16, 16), {"strides": [16, 16]}),
    ((1, 4, 32, 32), (16, 16), {"strides": [16, 16]}),
    ((1, 3, 32, 32), (4, 4), {"strides": [4, 4]}),
    ((1, 2, 32, 32), (16, 16), {"strides": [16, 16], "group": 2}),
    ((1, FEWEST_ELEMENTS + 1, 3, 3), (1, 1), {}),
], ids=["overlap", "dilated", "padded", "a rest", "blocks", "small", "groups", "dots"])  # fmt: skip
def test_others_stay(image: tuple[int, ...], kernel: tuple[int, ...], attributes: dict[str, Any]):
    assert types_of(convolution(image, kernel, **attributes)) == ["Conv"]


def test_tokens_are_not_moved():
    """The transposes after a vision transformer's patch embedding cancel out."""
    model = convolution((2, 3, 32, 48), (16, 16), tokens=True, strides=[16, 16])
    types = types_of(model, "conv-to-gemm,canonicalize")
    assert types.count("Transpose") == 1
    check(model)


@pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")
@pytest.mark.parametrize(("precision", "bound"), [("tf32", 2e-3), ("fp16", 4e-3)])
def test_on_the_emulator(precision: str, bound: float):
    model = convolution((2, 3, 32, 48), (16, 16), tokens=True, strides=[16, 16])
    check(model, f"emu:sm_90:{precision}", bound)


def test_reshaped_weights():
    store = {"w": np.arange(6.0).reshape(2, 3)}
    key = reshaped_key(reshaped_key("w", (6,)), (3, 2))
    np.testing.assert_array_equal(weight_array(store, key), store["w"].reshape(3, 2))
    with pytest.raises(ModelError, match="not in the store"):
        weight_array(store, reshaped_key("v", (6,)))
    with pytest.raises(ModelError, match="not in the store"):
        weight_array(store, '{"other": 1}')
