"""Random uses of operators: the table's shapes are those of onnx's inference."""

from typing import Any

import numpy as np
import onnx
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper, shape_inference

from compiler.net.operators import KnownTensor, Mismatch
from compiler.net.operators.canonical import infer_onnx as infer

Attributes = dict[str, Any]
OPSET = 23
SIZES = st.integers(1, 5)
EXAMPLES = settings(max_examples=30, deadline=None, database=None)


def run_time(*shape: int) -> KnownTensor:
    """A float32 tensor without a value."""
    return KnownTensor("float32", shape)


def vector(*values: int) -> KnownTensor:
    """A constant vector of int64."""
    return KnownTensor("int64", (len(values),), np.array(values, np.int64))


def by_onnx(
    op_type: str, inputs: list[KnownTensor], attributes: Attributes, outputs: int
) -> list[tuple[int, ...] | None]:
    """The shapes of the results by onnx, None if it cannot infer them or refuses."""
    names = [f"i{i}" for i in range(len(inputs))]
    results = [f"o{i}" for i in range(outputs)]
    node = helper.make_node(op_type, names, results, **attributes)
    elements = {"float32": 1, "int64": 7}
    types = {
        name: helper.make_tensor_type_proto(elements[t.dtype], t.shape)
        for name, t in zip(names, inputs, strict=True)
    }
    data = {
        name: numpy_helper.from_array(t.array)
        for name, t in zip(names, inputs, strict=True)
        if t.array is not None
    }
    schema = onnx.defs.get_schema(op_type, OPSET, "")
    try:
        found = shape_inference.infer_node_outputs(
            schema, node, types, data, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10
        )
    except Exception:  # onnx raises several kinds of errors for what does not fit
        return [None] * outputs
    return [
        tuple(d.dim_value for d in found[name].tensor_type.shape.dim) if name in found else None
        for name in results
    ]


def agree(
    op_type: str, inputs: list[KnownTensor], attributes: Attributes | None = None, outputs: int = 1
):
    """Check that the table and onnx give the same shapes, or both refuse."""
    wanted = by_onnx(op_type, inputs, attributes or {}, outputs)
    try:
        shapes = [tensor.shape for tensor in infer(op_type, inputs, attributes or {}, outputs)]
    except Mismatch:
        shapes = [None] * outputs
    assert shapes == wanted


def fits(
    op_type: str, inputs: list[KnownTensor], attributes: Attributes | None = None, outputs: int = 1
):
    """Check that a valid use gives what onnx gives."""
    shapes = [tensor.shape for tensor in infer(op_type, inputs, attributes or {}, outputs)]
    assert shapes == by_onnx(op_type, inputs, attributes or {}, outputs)


@EXAMPLES
@given(st.lists(st.integers(1, 3), max_size=3), st.lists(st.integers(1, 3), max_size=3))
def test_broadcasting(left: list[int], right: list[int]):
    agree("Add", [run_time(*left), run_time(*right)])


@EXAMPLES
@given(st.lists(SIZES, max_size=4), st.lists(SIZES, max_size=4))
def test_matmul(left: list[int], right: list[int]):
    agree("MatMul", [run_time(*left), run_time(*right)])


@EXAMPLES
@given(st.lists(st.integers(0, 4), max_size=3), st.lists(st.integers(-1, 4), max_size=3))
def test_reshape(shape: list[int], target: list[int]):
    kept = [shape[i] if s == 0 and i < len(shape) else s for i, s in enumerate(target)]
    others = int(np.prod([s for s in kept if s != -1]))
    fit = others == np.prod(shape) if -1 not in kept else others and np.prod(shape) % others == 0
    valid = (
        fit and kept.count(-1) < 2 and all(target[i] or i < len(shape) for i in range(len(kept)))
    )
    if valid:
        fits("Reshape", [run_time(*shape), vector(*target)])
    else:
        refused("Reshape", [run_time(*shape), vector(*target)])


def refused(op_type: str, inputs: list[KnownTensor]) -> None:
    """Check that a use is refused."""
    try:
        infer(op_type, inputs, {})
    except Mismatch:
        return
    raise AssertionError(f"{op_type} of {inputs} is taken")


WINDOWS = st.fixed_dictionaries(
    {
        "strides": st.lists(st.integers(1, 3), min_size=2, max_size=2),
        "dilations": st.lists(st.integers(1, 2), min_size=2, max_size=2),
        "pads": st.lists(st.integers(0, 2), min_size=4, max_size=4),
        "auto_pad": st.sampled_from(["NOTSET", "SAME_UPPER", "SAME_LOWER"]),
    }
)


def consistent(window: Attributes) -> Attributes:
    """The attributes of a window: pads only where they are not automatic."""
    explicit = window["auto_pad"] == "NOTSET"
    return window if explicit else {n: v for n, v in window.items() if n != "pads"}


@EXAMPLES
@given(WINDOWS, st.integers(1, 3), st.integers(5, 12), st.integers(1, 2), st.booleans())
def test_windows(window: Attributes, kernel: int, size: int, groups: int, ceil: bool):
    image, weight = run_time(2, 4, size, size), run_time(6, 4 // groups, kernel, kernel)
    attributes = consistent(window)
    fits("Conv", [image, weight], {**attributes, "group": groups})
    if window["auto_pad"] == "NOTSET":
        pads = [min(pad, kernel - 1) for pad in window["pads"]]
        pool = {**attributes, "kernel_shape": [kernel] * 2, "ceil_mode": int(ceil), "pads": pads}
        fits("MaxPool", [image], pool, 2)
        fits("AveragePool", [image], pool)
        transposed = {n: v for n, v in attributes.items() if n != "auto_pad"}
        fits("ConvTranspose", [image, run_time(4, 3, 5, 5)], {**transposed, "group": groups})
