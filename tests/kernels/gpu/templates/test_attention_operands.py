"""Attention's kernel takes every attention that is fused, whatever its operands are made of."""

from dataclasses import replace

import numpy as np
import pytest
from onnx import ModelProto, numpy_helper, parser

import compiler
from compiler.errors import KernelError
from compiler.frontend.importing import import_model
from compiler.graph.targets import set_target
from compiler.kernels.building.cuda_kernel import generate
from compiler.kernels.group import Group, extract_group
from compiler.kernels.tir.attention import attention_of
from compiler.passes.pipeline import DEFAULT_PIPELINE, parse, split_phases
from compiler.passes.runner import Runner
from compiler.target.target import parse_gpu
from compiler.tools.reference import run_onnxruntime
from tests.apply_passes import graph_of
from tests.kernels.gpu.emulator import COMPILER
from tests.strategies import Model

OPERANDS = {
    "flat batch": """
        qp = Reshape (q, flat)
        kf = Reshape (k, flat)
        kp = Transpose <perm = [0,2,1]> (kf)
        vp = Reshape (v, flat)
    """,
    "rotated keys": """
        qp = Identity (q)
        low, high = Split <axis = 3, num_outputs = 2> (k)
        minus = Neg (high)
        turned = Concat <axis = 3> (minus, low)
        straight = Mul (k, angles)
        bent = Mul (turned, angles)
        rotated = Add (straight, bent)
        kp = Transpose <perm = [0,1,3,2]> (rotated)
        vp = Identity (v)
    """,
    "keys of all heads": """
        qp = Identity (q)
        kj = Reshape (k, merged)
        kp = Transpose <perm = [0,1,3,2]> (kj)
        vp = Reshape (v, merged)
    """,
    "a scaled image": """
        image = Conv <pads = [1,1]> (x, filter)
        halves = Mul (image, half)
        kp = Reshape (halves, columns)
        vp = Transpose <perm = [0,1,3,2]> (kp)
        qp = Identity (q)
    """,
    "a mask of the values": """
        qp = Identity (q)
        kp = Transpose <perm = [0,1,3,2]> (k)
        vp = Identity (v)
        mask = Transpose <perm = [0,1,3,2]> (v)
    """,
    "one key": """
        qp = Slice (q, first, one, last)
        kp = Identity (unit)
        vp = Identity (unit)
    """,
}
"""How x, of (batch 2, rows 8, 3 of q, k and v, heads 2, columns 8), becomes the operands."""

MODEL = """
<ir_version: 10, opset_import: ["" : 20]>
small (float[2,8,48] x) => (float[4,8,N] y)
{{
    split = Reshape (x, five)
    moved = Transpose <perm = [2,0,3,1,4]> (split)
    q5, k5, v5 = Split <axis = 0, num_outputs = 3> (moved)
    q = Squeeze (q5, first)
    k = Squeeze (k5, first)
    v = Squeeze (v5, first)
    {operands}
    raw = MatMul (qp, kp)
    scores = {scores}
    weights = Softmax <axis = -1> (scores)
    seen = MatMul (weights, vp)
    lines = Reshape (seen, flat)
    y = Conv (lines, mixing)
}}
"""

CONSTANTS = {
    "five": np.array([2, 8, 3, 2, 8]), "flat": np.array([4, 8, -1]), "first": np.array([0]),
    "merged": np.array([2, 1, 16, 8]), "columns": np.array([2, 2, 8, 24]),
    "one": np.array([1]), "last": np.array([3]),
    "unit": np.ones((1, 1, 1, 1), np.float32), "half": np.array(0.5, np.float32),
}  # fmt: skip
WEIGHTS = {"angles": (8, 8), "filter": (8, 8, 3), "mixing": (8, 8, 1)}
BOUNDS = {"tf32": 3e-3, "fp16": 5e-3}


def attention(operands: str) -> ModelProto:
    """Attention over operands of one of these forms, and a convolution that reads its result."""
    scores = "Add (raw, mask)" if "mask =" in OPERANDS[operands] else "Identity (raw)"
    model = parser.parse_model(MODEL.format(operands=OPERANDS[operands], scores=scores))
    chance = np.random.default_rng(0)
    weights = {n: chance.standard_normal(s).astype(np.float32) / 3 for n, s in WEIGHTS.items()}
    for name, values in {**CONSTANTS, **weights}.items():
        model.graph.initializer.append(numpy_helper.from_array(values, name))
    return model


def attentions(model: ModelProto, precision: str) -> list[Group]:
    """The groups of the default passes that hold a softmax and a MatMul."""
    found = import_model(model)
    set_target(found.module, f"cuda:sm_90:{precision}")
    Runner().run(found.module, split_phases(parse(DEFAULT_PIPELINE))[0])
    groups = [extract_group(group) for group in graph_of(Model(found.module, {}, {})).groups]
    return [
        group for group in groups if {"MatMul", "Softmax"} <= {op.type for op in group.operators}
    ]


@pytest.mark.parametrize("precision", BOUNDS)
@pytest.mark.parametrize("operands", OPERANDS)
def test_fused_attentions_are_matched(operands: str, precision: str):
    groups = attentions(attention(operands), precision)
    assert len(groups) == (operands != "one key"), "a constant is not a read"
    assert all(attention_of(group) is not None for group in groups)


def test_no_other_kernel_takes_its_place():
    (group,) = attentions(attention("flat batch"), "tf32")
    first, *others = group.values
    blocked = replace(group, values=(replace(first, block=4), *others))
    with pytest.raises(KernelError, match="leave fuse-attention out"):
        generate(blocked, parse_gpu("cuda:sm_90:tf32"))


@pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")
@pytest.mark.parametrize("operands", OPERANDS)
def test_results(operands: str):
    model = attention(operands)
    inputs = {"x": np.random.default_rng(1).standard_normal((2, 8, 48), np.float32)}
    (expected,) = run_onnxruntime(model, inputs).values()
    found = compiler.compile(model, target="emu", precision="fp16").run(inputs)["y"]
    error = np.linalg.norm(found - expected) / np.linalg.norm(expected)
    assert error < BOUNDS["fp16"]
