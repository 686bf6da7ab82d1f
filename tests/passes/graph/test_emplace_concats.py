"""Which Concats and Splits of several images become views, and that the results stay the same."""

import numpy as np
import pytest
from onnx import ModelProto, numpy_helper, parser

import compiler
from compiler.frontend.importing import import_model
from compiler.graph.aliases import plan_views
from compiler.graph.targets import set_target
from compiler.ir.dataflow import ConstantOp, GraphOp, OperatorOp
from compiler.ir.edit import graphs_of
from compiler.passes.pipeline import DEFAULT_PIPELINE, parse, split_phases, without_pass
from compiler.passes.runner import Runner
from compiler.tools.reference import run_onnxruntime
from tests.kernels.gpu.emulator import COMPILER

BATCH = 3
MODEL = """
<ir_version: 10, opset_import: ["" : 20]>
network (float[{BATCH},8,6,5] x) => (float[{BATCH},16,6,5] y)
<int64[2] halves = {{16, 8}}, int64[1] from = {{8}}, int64[1] to = {{16}}, int64[1] axis = {{1}},
 int64[1] first = {{1}}, int64[1] last = {{6}}, int64[1] rows = {{2}},
 int64[8] around = {{0, 0, 1, 0, 0, 0, 0, 0}}>
{{
    a = Conv<pads = [1,1,1,1]> (x, w0)
    b = Conv<pads = [1,1,1,1]> (a, w1)
    ab = Concat<axis = 1> (a, b)
    c = Conv<pads = [1,1,1,1]> (ab, w2)
    small = MaxPool<kernel_shape = [3,3], pads = [1,1,1,1]> (b)
    abc = Concat<axis = 1> (c, small)
    all = Conv<pads = [1,1,1,1]> (abc, w7)
    d, e = Split<axis = 1> (all, halves)
    f = Conv<pads = [1,1,1,1]> (d, w3)
    part = Slice (f, from, to, axis)
    g = Conv<pads = [1,1,1,1]> (part, w4)
    h = Conv<pads = [1,1,1,1]> (e, w5)
    {LAST}
}}
"""
CONCAT = "y = Concat<axis = 1> (g, h)"
CROPPED = """cropped = Slice (h, first, last, rows)
    kept = Conv<pads = [1,1,1,1]> (cropped, w5)
    grown = Pad (kept, around)
    y = Concat<axis = 1> (g, grown)"""
AGAIN = """both = Concat<axis = 1> (g, h)
    i = Conv<pads = [1,1,1,1]> (both, w6)
    twice = Concat<axis = 1> (h, h)
    j = Conv<pads = [1,1,1,1]> (twice, w6)
    y = Add (i, j)"""
WEIGHTS = {"w0": (16, 8), "w1": (8, 16), "w2": (16, 24), "w3": (16, 16), "w4": (8, 8),
           "w5": (8, 8), "w6": (16, 16), "w7": (24, 24)}  # fmt: skip


def network(last: str = CONCAT, batch: int = BATCH) -> ModelProto:
    """Convolutions of several images whose channels are concatenated and split."""
    model = parser.parse_model(MODEL.format(BATCH=batch, LAST=last))
    chance = np.random.default_rng(0)
    for name, shape in WEIGHTS.items():
        values = chance.standard_normal((*shape, 3, 3)) / np.sqrt(9 * shape[1])
        model.graph.initializer.append(numpy_helper.from_array(values.astype(np.float32), name))
    return model


def emplaced(model: ModelProto, target: str) -> GraphOp:
    """The graph for a target after the passes that decide on kernels."""
    module = import_model(model).module
    set_target(module, target)
    Runner().run(module, split_phases(parse(without_pass(DEFAULT_PIPELINE, "substitute")))[0])
    (graph,) = graphs_of(module)
    return graph


def moving(graph: GraphOp) -> tuple[list[str], list[str]]:
    """The Concats, Splits and Slices outside groups, and those inside."""
    kinds = {"Concat", "Slice", "Split"}
    views = [op.type_name for op in graph.body.block.ops if isinstance(op, OperatorOp)]
    inside = [op.type_name for group in graph.groups for op in group.operators]
    return [v for v in views if v in kinds], [v for v in inside if v in kinds]


@pytest.mark.parametrize("target", ["cuda:sm_90:tf32", "cuda:sm_90:fp16", "cuda:sm_80:bf16"])
def test_concats_of_blocks_are_views(target: str):
    graph = emplaced(network(), target)
    assert moving(graph) == (["Concat", "Concat", "Split", "Slice"], ["Concat"])
    plan = plan_views(graph)
    assert not plan.copies
    assert all(op in plan.views for op in graph.body.block.ops if isinstance(op, OperatorOp))


def test_the_row_major_result_is_a_kernel_and_so_is_what_would_be_copied():
    assert moving(emplaced(network(), "cuda:sm_90:tf32"))[1] == ["Concat"]
    assert moving(emplaced(network(AGAIN), "cuda:sm_90:tf32"))[1] == ["Concat"]


def test_a_slice_of_rows_stays_a_kernel_and_leaves_no_constant():
    graph = emplaced(network(CROPPED), "cuda:sm_90:tf32")
    assert "Slice" in moving(graph)[1]
    for op in graph.body.block.ops:
        assert not isinstance(op, ConstantOp) or op.output.first_use is not None


def test_row_major_images_keep_their_kernels():
    assert not moving(emplaced(network(), "cpu:x86-64-v3"))[0]


@pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")
@pytest.mark.parametrize(
    ("precision", "bound", "last"),
    [
        ("fp32", 1e-5, CROPPED),
        ("tf32", 3e-3, CONCAT),
        ("tf32", 3e-3, AGAIN),
        ("fp16", 3e-3, CONCAT),
        ("fp16", 3e-3, CROPPED),
    ],
    ids=["fp32-cropped", "tf32-concat", "tf32-again", "fp16-concat", "fp16-cropped"],
)
def test_results(precision: str, bound: float, last: str):
    model = network(last)
    values = np.random.default_rng(1).standard_normal((BATCH, 8, 6, 5)).astype(np.float32)
    expected = run_onnxruntime(model, {"x": values})["y"]
    found = compiler.compile(model, target="emu", precision=precision).run({"x": values})["y"]
    assert np.linalg.norm(found - expected) <= bound * np.linalg.norm(expected)
