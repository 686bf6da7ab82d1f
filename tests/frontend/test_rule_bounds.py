"""Constants of rules and lowerings are a bounded multiple of a model's inputs and outputs."""

import ast
import tracemalloc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import compiler
from compiler.errors import UnsupportedOperatorError
from compiler.frontend.importing import import_model
from compiler.frontend.rules.dead_taps import reads_image
from compiler.frontend.semantics import Semantics
from compiler.ir.dataflow import OperatorOp
from compiler.net.building.expansion import COPY_BYTES

ROOT = Path(compiler.__file__).parent
FLOAT, INT64, BOOL = (onnx.TensorProto.DataType.Value(n) for n in ("FLOAT", "INT64", "BOOL"))
Inputs = Mapping[str, tuple[int, Sequence[int]]]


def model_of(
    op_type: str,
    inputs: Inputs,
    outputs: Mapping[str, int] = MappingProxyType({"y": FLOAT}),
    constants: Mapping[str, Any] | None = None,
    domain: str = "",
    order: str | None = None,
    **attributes: Any,
) -> onnx.ModelProto:
    """A model of one operator, whose inputs are in `order`, words of which `-` is left out."""
    weights = constants or {}
    names = (order or " ".join([*inputs, *weights])).replace("-", "").split(" ")
    node = helper.make_node(op_type, names, [*outputs], domain=domain, **attributes)
    infos = [helper.make_tensor_value_info(name, *form) for name, form in inputs.items()]
    results = [helper.make_tensor_value_info(n, dtype, None) for n, dtype in outputs.items()]
    initial = [numpy_helper.from_array(np.asarray(array), name) for name, array in weights.items()]
    graph = helper.make_graph([node], "g", infos, results, initial)
    imports = [helper.make_opsetid("", 22)] + [helper.make_opsetid(domain, 1)] * bool(domain)
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


MICROSOFT = "com.microsoft"
LONG = 40_000
MODELS = {
    "causal mask": model_of(
        "Attention",
        {"x": (FLOAT, [1, LONG, 4])},
        constants={"w": np.ones((4, 12), np.float32), "b": np.zeros(12, np.float32)},
        domain=MICROSOFT,
        num_heads=1,
        unidirectional=1,
    ),
    "columns to image": model_of(
        "Col2Im",
        {"x": (FLOAT, [1, 1_500, 1_500])},
        constants={"s": np.array([2 * 1_499 * 1_500 + 1]), "b": np.array([1_500])},
        strides=[1_500],
        dilations=[1_500],
    ),
    "average of long windows": model_of(
        "AveragePool",
        {"x": (FLOAT, [1, 1, 400_000])},
        kernel_shape=[200_000],
        pads=[100_000, 100_000],
    ),
    "average with its padding": model_of(
        "AveragePool",
        {"x": (FLOAT, [1, 1, 400_000])},
        kernel_shape=[200_000],
        pads=[100_000, 100_000],
        count_include_pad=1,
        ceil_mode=1,
        strides=[3],
    ),
    "filters of a resize": model_of(
        "Resize",
        {"x": (FLOAT, [1, 1, 1, 100_001])},
        constants={"s": np.array([1, 1, 1, 0.5], np.float32)},
        order="x - s",
        mode="linear",
        antialias=1,
        coordinate_transformation_mode="align_corners",
    ),
    "maxima of long windows": model_of(
        "MaxPool",
        {},
        outputs={"y": FLOAT, "z": INT64},
        constants={"x": np.ones((1, 1, 100_000), np.float32)},
        kernel_shape=[50_000],
    ),
    "convolution of a constant": model_of(
        "Conv",
        {},
        constants={
            "x": np.ones((1, 1, 100_000), np.float32),
            "w": np.ones((1, 1, 50_000), np.float32),
        },
    ),
}
"""Models whose obvious constant has billions of bytes, of a few megabytes of data."""


@pytest.mark.parametrize("name", MODELS)
def test_importing_makes_no_large_array(name: str):
    tracemalloc.start()
    try:
        with suppress(UnsupportedOperatorError):
            import_model(MODELS[name], semantics=Semantics.parse("onnxruntime"))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1 << 30


FILLS = frozenset("zeros ones full eye tri tril triu indices outer tile repeat meshgrid".split())
"""Functions of numpy that write as many numbers as they are asked for."""

BOUNDED = {
    "columns.py:positions": "the offsets' or the columns' own number",
    "columns.py:_places": "asks the bound first",
    "fourier.py:rows": "at most LONGEST_PRIME squared, or the transform's own length",
    "fourier.py:_factored": "the transform's length",
    "fourier.py:_onnxruntime_bins": "the transform's length, at most LONGEST_TRANSFORM",
    "fourier.py:_prime": "about four times the transform's length",
    "sampling.py:rewrite_affine_grid": "one number",
    "group_query.py:_lengths": "one number",
    "others.py:rewrite_inverse": "at most _LARGEST_INVERSE squared",
    "quantised.py:integer_convolution": "as many as the weights",
    "dequantised.py:is_same": "one number",
    "dynamic.py:_factor": "one number",
    "four_bits.py:four_bits": "as many as the scales",
    "four_bits.py:_by_block": "as many as the weights",
    "tensor_cores.py:_shares": "as many as the pixels of an image",
    "counted.py:rewrite_constant_of_shape": "one number",
    "onnxruntime_resize.py:_use": "one number, broadcast",
    "onnxruntime_resize.py:_weighted": "one number",
}
"""Functions of rules that fill arrays, with the bound of their size."""


def filling_functions() -> Iterator[str]:
    """The functions of rules that call a function of numpy that fills an array."""
    rooms = (ROOT / name for name in ("frontend/rules", "rewrite/quantised"))
    rules = sorted(path for room in rooms for path in room.rglob("*.py"))
    for path in [*rules, ROOT / "net" / "building" / "quantised.py"]:
        for function in ast.walk(ast.parse(path.read_text())):
            if isinstance(function, ast.FunctionDef) and any(map(_fills, ast.walk(function))):
                yield f"{path.name}:{function.name}"


def _fills(node: ast.AST) -> bool:
    called = node.func if isinstance(node, ast.Call) else None
    return (
        isinstance(called, ast.Attribute)
        and called.attr in FILLS
        and isinstance(called.value, ast.Name)
        and called.value.id == "np"
    )


def test_arrays_that_rules_fill_are_bounded():
    assert {*filling_functions()} == BOUNDED.keys(), "write numbers with Call.filled, or the bound"


AVERAGES = (
    {"kernel_shape": [3], "strides": [2], "pads": [2, 1]},
    {"kernel_shape": [3], "dilations": [2], "pads": [1, 2]},
    {"kernel_shape": [4], "strides": [3], "dilations": [2], "pads": [3, 0], "ceil_mode": 1},
)


@pytest.mark.parametrize("attributes", AVERAGES)
def test_divisors_of_averages_are_those_of_every_window(attributes: dict[str, Any]):
    model = model_of("AveragePool", {"x": (FLOAT, [1, 1, 11])}, **attributes)
    x = np.random.default_rng(5).standard_normal((1, 1, 11)).astype(np.float32)
    y: Any = compiler.compile(model, budget=0).run({"x": x})["y"]
    kernel, stride, dilation = (
        int(attributes.get(name, [1])[0]) for name in ("kernel_shape", "strides", "dilations")
    )
    for window, mean in enumerate(y[0, 0]):
        first = window * stride - attributes["pads"][0]
        taps = [t for t in range(first, first + kernel * dilation, dilation) if 0 <= t < 11]
        np.testing.assert_allclose(mean, np.mean(x[0, 0, taps]), rtol=1e-5, atol=1e-6)


def test_a_large_mask_of_dropout_is_written_at_run_time():
    shape = [1 << 12, COPY_BYTES >> 10]
    model = model_of("Dropout", {"x": (FLOAT, shape)}, outputs={"y": FLOAT, "m": BOOL})
    operators = [one for one in import_model(model).module.walk() if isinstance(one, OperatorOp)]
    assert [one.type_name for one in operators] == ["Expand"]


def test_taps_that_read_an_image_are_those_of_all_windows():
    for first, stride, image, windows in product(range(-9, 10), (1, 2, 3), range(5), (1, 2, 4)):
        last = (windows - 1) * stride
        wanted = any(0 <= first + step < image for step in range(0, last + 1, stride))
        assert reads_image(first, last, stride, image) == wanted
