"""Invariants of storage in 16 bits: boundary types, ranges, and values within a tolerance."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from onnx import numpy_helper, parser
from xdsl.dialects.builtin import ModuleOp

from compiler.frontend.export import export_model
from compiler.frontend.importing import import_model
from compiler.frontend.interpreter import interpret
from compiler.graph.aliases import plan_views
from compiler.graph.signature import signature
from compiler.graph.targets import set_target
from compiler.ir.context import parse_module
from compiler.ir.dataflow import OperatorOp
from compiler.ir.edit import graphs_of
from compiler.ir.types import dtype_of, nbytes_of
from compiler.passes.pipeline import parse
from compiler.passes.runner import Runner
from compiler.tools.reference import run_onnxruntime
from examples import zoo
from tests.apply_passes import graph_of
from tests.graphs import GraphBuilder
from tests.strategies import Model, dataflow_graphs

Array = NDArray[Any]

CUDA = "cuda:sm_90:fp16"

ERRORS = {"float16": 5e-3, "bfloat16": 4e-2}
"""Largest relative error of a zoo model's output in the Euclidean norm."""


def reduced(model: Model, dtype: str) -> None:
    """Fuse, then store in 16 bits; the text must round-trip."""
    Runner().run(model.module, parse(f"fuse-operators,reduce-precision{{storage={dtype}}}"))
    text = str(model.module)
    assert str(parse_module(text)) == text


def outputs_of(
    module: ModuleOp, weights: Mapping[str, Array], inputs: Mapping[str, Array], dtype: str
) -> Mapping[str, Array]:
    """Run a dump: by onnxruntime where it knows the type, else in numpy."""
    if dtype == "bfloat16":
        return interpret(module, weights, inputs)
    return run_onnxruntime(export_model(module, weights), inputs)


@settings(max_examples=30, deadline=None)
@given(dataflow_graphs(max_operators=24), st.sampled_from(sorted(ERRORS)))
def test_any_graph(model: Model, dtype: str):
    exact = interpret(model.module, model.weights, model.inputs)
    reduced(model, dtype)
    graph = graph_of(model)
    outer = (*graph.body.block.args, *graph.results_yielded)
    assert all(dtype_of(value.type) == "float32" for value in outer)
    plan = plan_views(graph)
    assert not plan.copies
    for op in graph.body.block.ops:
        assert not isinstance(op, OperatorOp) or op in plan.views
    for group in graph.groups:
        assert group.kernel is not None
        assert group.kernel.data == signature(group)
        for op in group.operators:
            if op.type_name != "Cast":
                assert all(dtype_of(v.type) != dtype for v in (*op.inputs, *op.outputs))
    for name, array in interpret(model.module, model.weights, model.inputs).items():
        assert array.dtype == exact[name].dtype
        assert np.isfinite(array).all()
    text = str(model.module)
    Runner().run(model.module, parse(f"reduce-precision{{storage={dtype}}}"))
    assert str(model.module) == text


@pytest.mark.parametrize(
    ("channels", "groups", "window", "target", "dtype"),
    [
        (40, 1, 3, CUDA, "float16"),
        (36, 1, 3, CUDA, "float32"),
        (18, 1, 3, CUDA, "float32"),
        (36, 1, 1, CUDA, "float16"),
        (36, 36, 3, CUDA, "float16"),
        (32, 4, 3, "hip:gfx90a:fp16", "float16"),
        (16, 4, 3, CUDA, "float16"),
        (16, 4, 3, "emu:sm_90:fp16", "float16"),
        (16, 4, 3, "cuda:sm_80:bf16", "bfloat16"),
        (16, 4, 3, "hip:gfx90a:fp16", "float32"),
        (16, 4, 3, "emu:gfx90a:fp16", "float32"),
        (12, 3, 3, CUDA, "float32"),
        (8, 2, 3, CUDA, "float32"),
        (48, 4, 3, CUDA, "float32"),
    ],
)
def test_images_are_stored_as_convolutions_read_them_fast(
    channels: int, groups: int, window: int, target: str, dtype: str
):
    """In 16 bits 8 channels are a block, in 32 bits 4; copies of 2 bytes are not asynchronous.

    Groups of 4 channels are in a block with others where these are one on tensor cores.
    """
    assert stored_image(channels, groups, window, target) == dtype


def test_images_of_groups_that_are_not_merged_stay():
    """A convolution whose weights are not constant."""
    assert stored_image(16, 4, 3, CUDA, constant=False) == "float32"


def stored_image(
    channels: int, groups: int, window: int, target: str, constant: bool = True
) -> str:
    """How the image of a convolution in groups between two pointwise ones is stored."""
    shapes = {"v": (channels, channels, 1, 1), "w": (channels, channels // groups, window, window)}
    given = "" if constant else f", float[{','.join(map(str, shapes.pop('w')))}] w"
    model = parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 20]>
        net (float[1,{channels},6,6] x{given}) => (float[1,{channels},6,6] y) {{
          a = Conv (x, v) b = Relu (a)
          c = Conv <group={groups}, auto_pad="SAME_UPPER"> (b, w)
          d = Relu (c)
          y = Conv (d, v)
        }}"""
    )
    for name, shape in shapes.items():
        model.graph.initializer.append(numpy_helper.from_array(np.ones(shape, np.float32), name))
    module = import_model(model).module
    set_target(module, target)
    Runner().run(module, parse("fuse-operators,reduce-precision"))
    (graph,) = graphs_of(module)
    first = next(iter(graph.groups))
    return dtype_of(first.outputs[0].type)


@pytest.mark.parametrize("constant", [True, False])
def test_a_masked_softmax_keeps_its_scores(constant: bool):
    b = GraphBuilder()
    x = b.input("x", (2, 8))
    eye = b.weight(np.eye(8, dtype=np.float32))
    hidden = np.zeros((2, 8), np.float32)
    hidden[1] = 1  # a row that is masked whole: uniform, but NaN if its scores were infinite
    mask = b.weight(hidden * (1 if constant else -1e9))
    mask = b.op("Mul", mask, b.constant(-1e9)) if constant else mask
    masked = b.op("Add", b.op("MatMul", x, eye, shape=(2, 8)), mask)
    cut = b.op("Slice", masked, *(b.constant([n], "int64") for n in (0, 2, 0)), shape=(2, 8))
    y = b.op("MatMul", b.op("Softmax", b.op("Relu", b.op("Abs", cut)), axis=-1), eye, shape=(2, 8))
    z = b.op("MatMul", b.op("Softmax", masked, axis=-1), eye, shape=(2, 8))
    inputs: dict[str, Array] = {"x": np.linspace(-1, 1, 16, dtype=np.float32).reshape(2, 8)}
    model = Model(b.finish(y, z), b.weights, inputs)
    exact = interpret(model.module, model.weights, model.inputs)
    reduced(model, "float16")
    results = interpret(model.module, model.weights, model.inputs)
    for name, array in exact.items():
        np.testing.assert_allclose(results[name], array, atol=2e-3)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("googlenet", "float16"),
        ("t5small", "float16"),
        ("deepfm", "float16"),
        ("rnntc_sru", "bfloat16"),
        ("deepfm", "bfloat16"),
    ],
)
def test_models_stay_within_bounds(name: str, dtype: str):
    proto = zoo.load(name)
    inputs = zoo.random_inputs(proto, seed=3)
    exact = run_onnxruntime(proto, inputs)
    imported = import_model(proto)
    module = imported.module
    passes = f"canonicalize,fuse-operators,reduce-precision{{storage={dtype}}}"
    Runner(verified=False).run(module, parse(passes))
    (graph,) = graphs_of(module)
    stored = [v.type for group in graph.groups for v in group.outputs]
    narrow = sum(2 * nbytes_of(t) for t in stored if dtype_of(t) == dtype)
    assert narrow > 0.7 * (narrow + sum(nbytes_of(t) for t in stored if dtype_of(t) != dtype))
    results = outputs_of(module, imported.weights, inputs, dtype)
    for key, array in exact.items():
        error = np.linalg.norm(results[key].astype(np.float64) - array) / np.linalg.norm(array)
        assert error <= ERRORS[dtype]
