"""Sizes, ranks and names beyond all bounds: errors in the field's words, of bounded length."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import compiler
from compiler.errors import LONGEST_WORD, FlowloomError, ShapeError

HUGE = 2**40
DEEP = [1] * 70 + [2]
MANY, AXES = r"has \d+ elements, kernels index at most", "of 71 axes: a tensor has at most 64"

CASES: dict[str, tuple[str, list[object], str]] = {
    "elements of no element": ("ConstantOfShape", [[HUGE, 0, HUGE]], MANY),
    "expanded to none": ("Expand", [np.ones(1, np.float32), [HUGE, 0, HUGE]], MANY),
    "expanded": ("Expand", [np.ones(1, np.float32), [HUGE, HUGE]], MANY),
    "negative": ("ConstantOfShape", [[-1, 2]], r"has a size below 0"),
    "axes of a filled tensor": ("ConstantOfShape", [DEEP], AXES),
    "axes of a reshaped one": ("Reshape", [np.ones(2, np.float32), DEEP], AXES),
    "axes of an expanded one": ("Expand", [np.ones(2, np.float32), DEEP], AXES),
    "axes inserted": ("Unsqueeze", [np.ones(2, np.float32), list(range(70))], AXES),
    "steps of the least number": ("Range", [0.0, 1.0, 5e-324], "in steps of 4.9.*: kernels index"),
    "steps of the least float": (
        "Range",
        [np.float32(0), np.float32(1), np.float32(1e-45)],
        "in steps of 1.4.*: kernels index",
    ),
    "steps of integers": ("Range", [-(2**63), 2**63 - 1, 1], "in steps of 1: kernels index"),
    "repeated": ("Tile", [np.ones(2, np.float32), [2**62]], MANY),
    "padded": ("Pad", [np.ones(2, np.float32), [2**62, 2**62]], MANY),
}
NUMPYS_WORDS = ("ndarray", "arr.size", "infinity to integer", "indexing result", "dimensions are")


def model_of(
    op_type: str, arrays: list[np.ndarray], constants: int, name: str = "n"
) -> onnx.ModelProto:
    """A model of one node whose last inputs are constants."""
    names = [f"i{index}" for index in range(len(arrays))]
    given = zip(names[: len(names) - constants], arrays, strict=False)
    types = [(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in given]
    known = zip(names, arrays, strict=True)
    weights = [numpy_helper.from_array(a, n) for n, a in [*known][len(types) :]]
    dtype = arrays[0].dtype if op_type != "ConstantOfShape" else np.dtype(np.float32)
    graph = helper.make_graph(
        [helper.make_node(op_type, names, ["y"], name=name)],
        "sized",
        [helper.make_tensor_value_info(*type) for type in types],
        [helper.make_tensor_value_info("y", helper.np_dtype_to_tensor_dtype(dtype), None)],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.mark.parametrize("constant", ["nothing", "sizes", "everything"])
@pytest.mark.parametrize("name", CASES)
def test_impossible_sizes_are_refused(name: str, constant: str):
    op_type, values, message = CASES[name]
    arrays = [np.asarray(value) for value in values]
    constants = {"nothing": 0, "sizes": max(1, len(arrays) - 1), "everything": len(arrays)}
    model = model_of(op_type, arrays, constants[constant])
    inputs = {info.name: arrays[i] for i, info in enumerate(model.graph.input)}
    with pytest.raises(ShapeError, match=message) as caught:
        compiler.compile(model).run(inputs)
    text = str(caught.value)
    assert op_type in text
    assert "correct the model" in text
    assert not any(words in text for words in NUMPYS_WORDS)


@pytest.mark.parametrize("op_type", ["RandomNormal", "RandomUniform"])
def test_random_tensors_of_impossible_sizes_are_refused_when_compiled(op_type: str):
    node = helper.make_node(op_type, [], ["y"], shape=[HUGE])
    graph = helper.make_graph(
        [node], "sized", [], [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    )
    with pytest.raises(FlowloomError, match=MANY):
        compiler.compile(helper.make_model(graph, ir_version=10))


def test_long_names_are_shortened_in_messages():
    name = "a" + "n" * 100_000 + "z"
    graph = helper.make_graph(
        [helper.make_node("MatMul", [name, "w"], ["y"], name=name)],
        "named",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.ones((4, 4), np.float32), "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    with pytest.raises(ShapeError) as caught:
        compiler.compile(model)
    text = str(caught.value)
    assert "MatMul 'an" in text
    assert "nz'" in text
    assert len(text) < 4 * LONGEST_WORD
