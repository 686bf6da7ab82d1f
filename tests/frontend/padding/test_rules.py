"""Each operator on tensors that are padded along a batch n and a length m."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.frontend.padding.graphs import padding_of
from compiler.frontend.padding.pairs import CannotPad
from tests.frontend.padding.checks import check, specialised

LARGE = {"n": 6, "m": 6}
SMALL = [dict(zip("nm", sizes, strict=True)) for sizes in product((1, 4, 6), (1, 3, 5, 6))]
RANDOM = np.random.default_rng(2)


def floats(*shape: int) -> np.ndarray:
    """Random numbers."""
    return RANDOM.standard_normal(shape).astype("f4")


CONSTANTS = {
    **{f"axis{i}": np.array([i]) for i in range(4)},
    "axes01": np.array([0, 1]),
    "w": floats(4, 4),
    "gates": floats(1, 16, 4),
    "rows": np.array([-1, 4]),
    "flat": np.array([-1, 4]),
    "heads": np.array([0, -1, 2, 2]),
    "merged": np.array([-1, 2]),
    "one": np.array([1]),
    "two": np.array([2]),
    "kernel": floats(5, 4, 3),
    "turned": floats(4, 5, 3),
    "bias": floats(4),
    "scale": np.abs(floats(4)),
    "last": np.array([-1]),
    "first": np.array([[0, 0], [0, -1]]),
    "pads": np.array([0, 1, 0, 0, 2, 0]),
    "four": np.array([4]),
    "three": np.array(3, "u1"),
    "two8": np.array(2, "u1"),
    "kernel8": RANDOM.integers(0, 255, (5, 4, 3)).astype("u1"),
    "scales": np.array([1, 1, 2], "f4"),
    "fill": np.array(0.5, "f4"),
    "values": np.array([0, 1], "f4"),
    "depth": np.array(5),
    "twice": np.array([1, 2, 1]),
    "end": np.array([2**40]),
    "lasts": np.array([-1, 1]),
    "lasts_end": np.array([2**40, 3]),
    "axes12": np.array([1, 2]),
    "steps": np.array([1, 1]),
    "thirds": np.array([-3]),
    "wide": np.array([0, 2, 0, 0, 0, 0]),
    "starts": np.array([1]),
    "ends": np.array([-1]),
}
X = "float[n, m, 4] x"
TOKENS = "int64[n, m] x"

RULES = {
    "rows": (X, "f = Reshape(x, flat)\n y = MatMul(f, w)"),
    "gemm": (X, "f = Reshape(x, flat)\n y = Gemm<transB = 1>(f, w, bias)"),
    "gemm and back": (
        X,
        "s = Shape(x)\n f = Reshape(x, flat)\n g = Gemm(f, w)\n y = Reshape(g, s)",
    ),
    "sum of rows": (X, "f = Reshape(x, flat)\n y = ReduceSum<keepdims = 0>(f, axis0)"),
    "mean of rows": (X, "f = Reshape(x, flat)\n y = ReduceMean(f, axis0)"),
    "mean": (X, "y = ReduceMean(x, axis1)"),
    "mean of both": (X, "y = ReduceMean<keepdims = 0>(x, axes01)"),
    "softmax of rows": (X, "f = Reshape(x, flat)\n y = Softmax<axis = 0>(f)"),
    "flattened": (X, "y = Flatten<axis = 2>(x)"),
    "log sum": (X, "a = Abs(x)\n y = ReduceLogSum(a, axis1)"),
    "norm": (X, "y = LpNormalization<axis = 1>(x)"),
    "first maximum": (X, "y = ArgMax<axis = 1>(x)"),
    "heads": (
        X,
        "h = Reshape(x, heads)\n q = Transpose<perm = [0, 2, 1, 3]>(h)\n"
        " k = Transpose<perm = [0, 2, 3, 1]>(h)\n s = MatMul(q, k)\n p = Softmax(s)\n"
        " y = MatMul(p, q)",
    ),
    "MatMul of merged axes": (
        X,
        "f = Reshape(x, flat)\n t = Transpose<perm = [1, 0]>(f)\n y = MatMul(t, f)",
    ),
    "integers": ("uint8[n, 4, m] x, uint8[n, m, 4] z", "y = MatMulInteger(x, z, three, two8)"),
    "convolution of integers": (
        "uint8[n, 4, m] x",
        "y = ConvInteger<pads = [1, 2], kernel_shape = [3]>(x, kernel8, three)",
    ),
    "einsum": (X, 'y = Einsum<equation = "nmc,nkc->nmk">(x, x)'),
    "einsum of a length": (X, 'y = Einsum<equation = "nmc,nmd->ncd">(x, x)'),
    "expanded": (
        X,
        "s = Shape(x)\n r = ReduceMax(x, axis1)\n e = Expand(r, s)\n y = Reshape(e, flat)",
    ),
    "tiled": (X, "t = Tile(x, twice)\n y = ReduceSum(t, axis1)"),
    "after a constant": (
        X,
        "s = Shape(x)\n n = Slice(s, axis0, one, axis0)\n c = Concat<axis = 0>(n, one, four)\n"
        " e = Expand(bias, c)\n y = Concat<axis = 1>(e, x)",
    ),
    "inner slice": (X, "y = Slice(x, starts, ends, axis1)"),
    "last slice": (X, "y = Slice(x, last, end, axis1)"),
    "last slice of some channels": (X, "y = Slice(x, lasts, lasts_end, axes12, steps)"),
    "inner slice from the end": (
        X,
        "p = Pad(x, wide)\n y = Slice(p, thirds, ends, axis1)",
    ),
    "every second from the end": (
        X,
        "p = Pad(x, wide)\n y = Slice(p, thirds, end, axis1, two)",
    ),
    "pad": (X, "p = Pad(x, pads, fill)\n y = ReduceSum(p, axis1)"),
    "last token": (X, "y = Gather<axis = 1>(x, last)"),
    "gather of data": (
        f"{X}, int64[n, m] i",
        "o = Sub(i, two)\n o1 = Unsqueeze(o, axis2)\n y = GatherElements<axis = 1>(x, o1)",
    ),
    "gather of rows": (
        X,
        "a = ArgMax<axis = 1, keepdims = 0>(x)\n f = ReduceMin(a, axis1)\n"
        " y = GatherND<batch_dims = 1>(x, f)",
    ),
    "gather of tuples": (
        f"{X}, int64[n, 2] i",
        "o = Sub(i, two)\n y = GatherND(x, o)",
    ),
    "constant tuples": (X, "y = GatherND(x, first)"),
    "first of a sort": (X, "y, i = TopK<axis = 1>(x, one)"),
    "last of a sort": (X, "y, i = TopK<axis = 1, largest = 0>(x, one)"),
    "one hot": (TOKENS, "y = OneHot<axis = 1>(x, depth, values)"),
    "backward sum": (X, "y = CumSum<reverse = 1>(x, axis1)"),
    "triangle": (X, "t = Transpose<perm = [2, 0, 1]>(x)\n y = Trilu(t)"),
    "scattered": (
        f"{X}, float[n, 1, 4] u",
        "s = Shape(u)\n i = ConstantOfShape<value: tensor = int64[1] {-1}>(s)\n"
        " y = ScatterElements<axis = 1>(x, i, u)",
    ),
    "scattered tuples": (X, "g = GatherND(x, first)\n d = Neg(g)\n y = ScatterND(x, first, d)"),
    "convolution": (
        X,
        "t = Transpose<perm = [0, 2, 1]>(x)\n"
        " y = Conv<pads = [1, 1], strides = [2], kernel_shape = [3]>(t, kernel)",
    ),
    "transposed convolution": (
        X,
        "t = Transpose<perm = [0, 2, 1]>(x)\n y = ConvTranspose<strides = [2]>(t, turned)",
    ),
    "maxima of windows": (
        X,
        "t = Transpose<perm = [0, 2, 1]>(x)\n"
        " y = MaxPool<kernel_shape = [3], pads = [1, 1], strides = [2]>(t)",
    ),
    "means of windows": (
        X,
        "t = Transpose<perm = [0, 2, 1]>(x)\n"
        " y = AveragePool<kernel_shape = [1], strides = [2]>(t)",
    ),
    "global mean": (
        X,
        "t = Transpose<perm = [0, 2, 1]>(x)\n g = GlobalAveragePool(t)\n y = Flatten(g)",
    ),
    "global maximum": (X, "t = Transpose<perm = [0, 2, 1]>(x)\n y = GlobalMaxPool(t)"),
    "batch normalisation": (
        X,
        "t = Transpose<perm = [0, 2, 1]>(x)\n y = BatchNormalization(t, scale, bias, bias, scale)",
    ),
    "layer normalisation": (X, "f = Reshape(x, flat)\n y = LayerNormalization(f, scale, bias)"),
    "instance normalisation": (
        "float[n, 4, 3] x",
        "y = InstanceNormalization(x, scale, bias)",
    ),
    "resize": (
        "float[n, 4, 3] x",
        'y = Resize<mode = "linear">(x, , scales)',
    ),
    "image to row": ("float[n, 4, 3] x", "c = MaxPool<kernel_shape = [3]>(x)\n y = Flatten(c)"),
    "recurrence": (
        X,
        "t = Transpose<perm = [1, 0, 2]>(x)\n y = LSTM(t, gates, gates)",
    ),
    "reversed": (
        X,
        "s = Shape(x)\n n = Slice(s, axis0, one, axis0)\n"
        " l = ConstantOfShape<value: tensor = int64[1] {1}>(n)\n"
        " y = ReverseSequence<batch_axis = 0, time_axis = 1>(x, l)",
    ),
}


@pytest.mark.parametrize("name", RULES)
def test_padding_does_not_reach_elements(name: str):
    inputs, nodes = RULES[name]
    text = f"g ({inputs}) => (float[a, b] y) {{\n {nodes}\n}}"
    for small in SMALL:
        if small["m"] > 1 or "windows" not in name:  # one window becomes a global pool
            check(text, LARGE, small, CONSTANTS)


def test_flat_places_in_a_mask_are_those_of_its_elements():
    """PyTorch's exporter writes a mask of each query as elements of the flat one."""
    text = """g (int64[n, m] x) => (int64[n, 1, m] y) {
        s = Shape(x)
        flat = Flatten<axis = 2>(x)
        row = Reshape(flat, last)
        n = Slice(s, axis0, one, axis0)
        m = Slice(s, one, two, axis0)
        n0 = Squeeze(n)
        m0 = Squeeze(m)
        zero = Constant<value_int = 0>()
        step = Constant<value_int = 1>()
        ns = Range(zero, n0, step)
        ms = Range(zero, m0, step)
        starts = Mul(ns, m0)
        column = Unsqueeze(starts, sides)
        places = Add(column, ms)
        y = Gather(row, places)
    }"""
    for small in SMALL:
        check(text, LARGE, small, {**CONSTANTS, "sides": np.array([1, 2])})


def test_dimensions_that_cannot_be_told_apart_share_no_extent():
    text = """g (float[n, m, 4] x) => (float[n, m, 4] y) {
        a = Softmax<axis = 0>(x)
        y = Softmax<axis = 1>(a)
    }"""
    graphs = [specialised(text, {"n": n, "m": m}, {}) for n, m in ((6, 6), (3, 3), (6, 2))]
    bucket, example, exact = graphs
    unnamed = {"x": ["", "", ""]}
    whole = padding_of(bucket, example, example, unnamed)
    assert whole.sizes == (6,)
    with pytest.raises(CannotPad, match="other tensors are padded at this size"):
        whole.extents_of(padding_of(bucket, example, exact, unnamed))


@pytest.mark.parametrize(
    ("inputs", "nodes", "reason"),
    [
        (X, "f = Flatten<axis = 2>(x)\n y = ArgMax<axis = 0>(f)", r"merged \(dimension n \* m\)"),
        (X, "y = ArgMax<axis = 1, select_last_index = 1>(x)", r"all of a padded axis \(.* m\)"),
        (X, "r = Reshape(x, turned_shape)\n y = Neg(r)", r"mixes padding .* \(dimension n and m\)"),
        (X, "y = Concat<axis = 1>(x, x)", r"Concat .* a padded axis \(dimension m\)"),
        (X, "p, q = Split<axis = 0, num_outputs = 2>(x)\n y = Neg(p)", r"\(dimension n\)"),
        (X, "y = LayerNormalization<axis = 1>(x, fill)", r"all of a padded axis \(dimension m\)"),
        (
            X,
            "t = Transpose<perm = [0, 2, 1]>(x)\n"
            " y = AveragePool<kernel_shape = [3], pads = [1, 1]>(t)",
            r"AveragePool .* \(dimension m\)",
        ),
        (
            f"{X}, int64[n, 1, 4] i, float[n, 1, 4] u",
            "y = ScatterElements<axis = 0>(x, i, u)",
            r"ScatterElements .* all of a padded axis \(dimension n\)",
        ),
        (
            f"{X}, int64[n, 1] i, float[n, m, 4] u",
            "y = ScatterND(x, i, u)",
            r"ScatterND .* all of a padded axis \(dimension n\)",
        ),
        ("float[n, 4] x, float[m, 4] z", "y = Add(x, z)", "combines dimensions .* n and m"),
    ],
)
def test_what_padding_would_change_is_refused(inputs: str, nodes: str, reason: str):
    text = f"g ({inputs}) => (float[a, b] y) {{\n {nodes}\n}}"
    constants = {**CONSTANTS, "turned_shape": np.array([4, -1])}
    sizes = {"n": 6, "m": 6} if "z" in inputs else {"n": 6, "m": 8}
    small = {"n": 1, "m": 6} if "z" in inputs else {"n": 4, "m": 6}
    with pytest.raises(CannotPad, match=reason):
        check(text, sizes, small, constants)


_STEPS = (
    "{out} = Relu({a})",
    "{out} = Add({a}, {b})",
    "{out} = Add({a}, bias)",
    "f{out} = Reshape({a}, flat)\n g{out} = Gemm(f{out}, w)\n s{out} = Shape({a})\n"
    " {out} = Reshape(g{out}, s{out})",
    "f{out} = Reshape({a}, flat)\n m{out} = ReduceSum(f{out}, axis0)\n {out} = Sub({a}, m{out})",
    "f{out} = Reshape({a}, flat)\n m{out} = Softmax<axis = 0>(f{out})\n s{out} = Shape({a})\n"
    " {out} = Reshape(m{out}, s{out})",
    "h{out} = Reshape({a}, heads)\n t{out} = Transpose<perm = [0, 2, 3, 1]>(h{out})\n"
    " q{out} = Transpose<perm = [0, 2, 1, 3]>(h{out})\n s{out} = MatMul(q{out}, t{out})\n"
    " p{out} = Softmax(s{out})\n c{out} = MatMul(p{out}, q{out})\n"
    " d{out} = Transpose<perm = [0, 2, 1, 3]>(c{out})\n z{out} = Shape({a})\n"
    " {out} = Reshape(d{out}, z{out})",
    "m{out} = ReduceMean({a}, axis{axis})\n {out} = Sub({a}, m{out})",
    "m{out} = ReduceMax({a}, axis{axis})\n {out} = Sub({a}, m{out})",
    "m{out} = Gather<axis = 1>({a}, last)\n {out} = Sub({a}, m{out})",
    "{out} = LayerNormalization({a}, scale)",
    "t{out} = Transpose<perm = [0, 2, 1]>({a})\n"
    " c{out} = Conv<pads = [1, 1], kernel_shape = [3]>(t{out}, depthwise)\n"
    " {out} = Transpose<perm = [0, 2, 1]>(c{out})",
    "{out} = CumSum({a}, axis1)",
)
"""Operators on tensors of the shape [n, m, 4], which they keep."""


@st.composite
def graphs(draw: st.DrawFn) -> str:
    """The text of a graph of tensors [n, m, 4] with a flat result."""
    lines, values = list[str](), ["x", "z"]
    for index in range(draw(st.integers(1, 6))):
        a, b = draw(st.sampled_from(values)), draw(st.sampled_from(values))
        step = draw(st.sampled_from(_STEPS))
        axis = draw(st.integers(0, 2))
        lines.append(step.format(a=a, b=b, axis=axis, out=f"v{index}"))
        values.append(f"v{index}")
    lines.append(f"y = Reshape({values[-1]}, flat)\n total = ReduceSum(y, axis0)")
    body = "\n ".join(lines)
    inputs = "float[n, m, 4] x, float[n, m, 4] z"
    outputs = f"float[n, m, 4] {values[-1]}, float[a, 4] y, float[1, 4] total"
    return f"g ({inputs}) => ({outputs}) {{\n {body}\n}}"


@given(graphs(), st.integers(2, 5), st.integers(2, 6), st.data())
def test_any_graph_of_two_dimensions_is_right(text: str, n: int, m: int, data: st.DataObject):
    small = {"n": data.draw(st.integers(1, n)), "m": data.draw(st.integers(1, m))}
    depthwise = np.random.default_rng(4).standard_normal((4, 4, 3)).astype("f4")
    check(text, {"n": n, "m": m}, small, {**CONSTANTS, "depthwise": depthwise})
