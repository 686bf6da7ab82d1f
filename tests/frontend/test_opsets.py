"""Old and new forms of operators compute the same after import."""

from itertools import product

import numpy as np
import pytest

from compiler.frontend.importing import import_model
from compiler.ir.dataflow import GraphOp
from compiler.ir.emit import NORMALISED_OPSET
from tests.frontend.checks import check, counts, parse, types

NEW = [13, 18, 21, 23]


def ints(*values: int) -> np.ndarray:
    """A vector of int64."""
    return np.array(values, np.int64)


def test_the_normalised_opset_is_recorded():
    model = parse("g (float[2] x) => (float[2] y) { y = Relu(x) }", 7)
    graph = next(op for op in import_model(model).module.walk() if isinstance(op, GraphOp))
    assert graph.opset.value.data == NORMALISED_OPSET


@pytest.mark.parametrize("opset", [7, 11, 12, *NEW])
@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize("axis", ["", "<axis=0>", "<axis=1>", "<axis=-1>"])
@pytest.mark.parametrize("shape", ["2,3,4", "2,5,1"])
def test_softmax(opset: int, op: str, axis: str, shape: str):
    text = f"g (float[{shape}] x) => (float[{shape}] y) {{ y = {op}{axis}(x) }}"
    check(parse(text, opset))


@pytest.mark.parametrize("opset", [7, 10])
def test_clip_attributes(opset: int):
    text = (
        "g (float[9] x) => (float[9] y, float[9] z) { y = Clip<min=-1.0>(x) z = Clip<max=.5>(x) }"
    )
    check(parse(text.replace("=.5", "=0.5"), opset))


@pytest.mark.parametrize("opset", [11, *NEW])
def test_clip_inputs(opset: int):
    text = "g (float[9] x) => (float[9] y) { y = Clip(x, low, high) }"
    check(parse(text, opset, low=np.float32(-1), high=np.float32(1)))


@pytest.mark.parametrize("opset", [7, 9])
def test_slice_attributes(opset: int):
    text = """g (float[4,5] x) => (float[2,3] y) {
        y = Slice<axes=[1,0], starts=[-4,1], ends=[-1,3]>(x) }"""
    check(parse(text, opset))


@pytest.mark.parametrize("opset", [10, *NEW])
def test_slice_inputs(opset: int):
    text = "g (float[4,5] x) => (float[a,b] y) { y = Slice(x, starts, ends, axes, steps) }"
    values = {"starts": ints(-1, 1), "ends": ints(-99, 99), "axes": ints(-1, 0)}
    check(parse(text, opset, **values, steps=ints(-2, 1)))


@pytest.mark.parametrize("data", ["x", "known"])
def test_slice_bounds_are_clamped(data: str):
    values = {f"v{i}": ints(i - 4) for i in range(9)} | {"low": ints(-100), "high": ints(100)}
    steps = {f"by{i}": ints(step) for i, step in enumerate((-2, -1, 1, 2))}
    cases = list(enumerate(product(values, values, steps)))
    nodes = " ".join(f"y{i} = Slice({data}, {a}, {b}, v4, {by})" for i, (a, b, by) in cases)
    outputs = ", ".join(f"float[n{i}] y{i}" for i, _ in cases)
    text = f"g (float[3] x) => ({outputs}) {{ {nodes} }}"
    check(parse(text, known=np.array([3, 1, 2], np.float32), **values, **steps))


def test_slice_of_everything_disappears():
    text = "g (float[4,5] x) => (float[a,b] y) { s = Slice(x, starts, ends) y = Relu(s) }"
    assert types(check(parse(text, starts=ints(0, 0), ends=ints(99, 5)))) == ["Relu"]


@pytest.mark.parametrize("opset", [7, 10])
def test_pad_attributes(opset: int):
    text = """g (float[2,3] x) => (float[2,6] y, float[2,5] z) {
        y = Pad<pads=[0,1,0,2], value=1.5>(x)
        z = Pad<mode="reflect", pads=[0,1,0,1]>(x) }"""
    check(parse(text, opset))


@pytest.mark.parametrize("opset", [11, *NEW])
def test_pad_inputs(opset: int):
    text = 'g (float[2,3] x) => (float[2,6] y) { y = Pad<mode="constant">(x, pads, value) }'
    check(parse(text, opset, pads=ints(0, 1, 0, 2), value=np.float32(2)))


def test_pad_axes():
    text = "g (float[2,3] x) => (float[2,6] y) { y = Pad(x, pads, , axes) }"
    check(parse(text, 18, pads=ints(1, 2), axes=ints(-1)))


@pytest.mark.parametrize("opset", [7, 11, 12])
def test_axes_attributes(opset: int):
    text = """g (float[2,1,3] x) => (float[2,3] y, float[2,1,1,3] z, float[2,3] q) {
        y = Squeeze<axes=[1]>(x) z = Unsqueeze<axes=[2]>(x) q = Squeeze(x) }"""
    check(parse(text, opset))


@pytest.mark.parametrize("opset", NEW)
def test_axes_inputs(opset: int):
    text = """g (float[2,1,3] x) => (float[2,3] y, float[2,1,1,3] z, float[2,3] q) {
        y = Squeeze(x, one) z = Unsqueeze(x, two) q = Squeeze(x) }"""
    check(parse(text, opset, one=ints(-2), two=ints(-2)))


REDUCTIONS = "L1 L2 LogSum LogSumExp Max Mean Min Prod Sum SumSquare".split()


@pytest.mark.parametrize("opset", [7, 11, 12, 13, 17])
@pytest.mark.parametrize("op", REDUCTIONS)
def test_reduction_attributes(op: str, opset: int):
    if op == "Sum" and opset >= 13:
        pytest.skip("axes are an input of ReduceSum since opset 13")
    text = f"""g (float[2,3,4] x) => (float[2,3] y, float[1,1,1] z) {{
        p = Abs(x) y = Reduce{op}<axes=[-1], keepdims=0>(p) z = Reduce{op}(p) }}"""
    check(parse(text, opset))


@pytest.mark.parametrize("opset", [18, 21, 23])
@pytest.mark.parametrize("op", REDUCTIONS)
def test_reduction_inputs(op: str, opset: int):
    text = f"""g (float[2,3,4] x) => (float[2,3] y, float[1,1,1] z) {{
        p = Abs(x) y = Reduce{op}<keepdims=0>(p, axes) z = Reduce{op}(p) }}"""
    check(parse(text, opset, axes=ints(-1)))


def test_reduction_over_nothing():
    text = """g (float[2,3] x) => (float[2,3] y, float[2,3] z) {
        y = ReduceSum<noop_with_empty_axes=1>(x) z = Relu(y) }"""
    assert types(check(parse(text, 18))) == ["Relu"]


@pytest.mark.parametrize("opset", [7, 11])
def test_split_attributes(opset: int):
    text = """g (float[2,6] x) => (float[2,1] a, float[2,5] b, float[2,3] c, float[2,3] d) {
        a, b = Split<axis=1, split=[1,5]>(x) c, d = Split<axis=-1>(x) }"""
    check(parse(text, opset))


@pytest.mark.parametrize("opset", [18, 21, 23])
def test_split_into_uneven_parts(opset: int):
    text = """g (float[2,7] x) => (float[2,3] a, float[2,3] b, float[2,1] c) {
        a, b, c = Split<axis=1, num_outputs=3>(x) }"""
    check(parse(text, opset))


@pytest.mark.parametrize("opset", [7, 9])
def test_topk_attribute(opset: int):
    text = "g (float[2,6] x) => (float[2,2] y, int64[2,2] i) { y, i = TopK<k=2>(x) }"
    check(parse(text, opset))


@pytest.mark.parametrize("opset", [7, 9, 10])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_upsample(opset: int, mode: str):
    scales = "scales=[1.0, 1.0, 2.0, 3.0]"
    text = "g (float[1,2,3,3] x) => (float[1,2,6,9] y) { y = %s }"
    if opset == 7:
        check(parse(text % f'Upsample<mode="{mode}", {scales}>(x)', opset))
    else:
        op = "Upsample" if opset == 9 else "Resize"
        factors = np.array([1, 1, 2, 3], np.float32)
        check(parse(text % f'{op}<mode="{mode}">(x, s)', opset, s=factors))


@pytest.mark.parametrize("factor", [0.5, 0.4])
def test_the_first_resize_shrinks(factor: float):
    text = 'g (float[1,1,6,5] x) => (float[1,1,a,b] y) { y = Resize<mode="nearest">(x, s) }'
    check(parse(text, 10, s=np.array([1, 1, factor, 2], np.float32)))


@pytest.mark.parametrize("opset", [11, *NEW])
def test_resize_sizes(opset: int):
    text = """g (float[1,2,4,4] x) => (float[1,2,8,6] y) {
        y = Resize<mode="linear", coordinate_transformation_mode="align_corners">(x, r, e, n) }"""
    empty = np.zeros(0, np.float32)
    check(parse(text, opset, r=empty, e=empty, n=ints(1, 2, 8, 6)))


def test_resize_axes():
    text = """g (float[1,2,4,4] x) => (float[1,2,8,6] y, float[1,2,6,4] z) {
        y = Resize<mode="linear", axes=[2,3]>(x, , , n)
        z = Resize<mode="nearest", axes=[2]>(x, , s) }"""
    check(parse(text, 18, n=ints(8, 6), s=np.array([1.5], np.float32)))


@pytest.mark.parametrize("opset", [7, 10, 12, 13, 22])
def test_dropout_and_identity_disappear(opset: int):
    text = "g (float[2,6] x) => (float[2,6] y) { a = Dropout(x) b = Identity(a) y = Relu(b) }"
    assert types(check(parse(text, opset))) == ["Relu"]


def test_group_normalization_by_group():
    values = {"s": np.array([1, 2], np.float32), "b": np.array([0.5, -1], np.float32)}
    text = """g (float[2,4,3] x) => (float[2,4,3] y) {
        y = GroupNormalization<num_groups=2>(x, s, b) }"""
    check(parse(text, 18, **values))
    by_channel = {name: np.repeat(value, 2) for name, value in values.items()}
    check(parse(text, 21, **by_channel))


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("op", ["Sum", "Mean", "Max", "Min"])
def test_variadic(op: str, count: int):
    names = ["x", "z", "x", "z"][:count]
    text = f"g (float[2,6] x, float[1,6] z) => (float[2,6] y) {{ y = {op}({', '.join(names)}) }}"
    found = counts(check(parse(text)))
    assert not found["Sum"] + found["Mean"]
    assert found["Add"] + found["Max"] + found["Min"] == count - 1


@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER", "VALID"])
@pytest.mark.parametrize("size", [8, 9])
def test_windows_get_explicit_pads(mode: str, size: int):
    text = f"""g (float[1,2,{size},{size}] x)
        => (float[a,b,c,d] y, float[a,b,e,f] p, float[a,b,g,h] q) {{
        y = Conv<auto_pad="{mode}", strides=[2,2]>(x, w)
        p = MaxPool<auto_pad="{mode}", kernel_shape=[2,2]>(x)
        q = AveragePool<auto_pad="{mode}", kernel_shape=[3,3], strides=[2,2]>(x) }}"""
    check(parse(text, 12, w=np.random.default_rng(0).random((3, 2, 3, 3), np.float32)))


@pytest.mark.parametrize(
    "attributes",
    [
        "",
        "output_padding=[1,1],",
        "pads=[1,0,0,1],",
        "output_shape=[8,9],",
        'auto_pad="SAME_UPPER",',
    ],
)
def test_transposed_convolution_gets_explicit_pads(attributes: str):
    text = f"""g (float[1,2,4,4] x) => (float[1,3,a,b] y) {{
        y = ConvTranspose<{attributes} strides=[2,2]>(x, w) }}"""
    check(parse(text, 12, w=np.random.default_rng(0).random((2, 3, 3, 3), np.float32)))


@pytest.mark.parametrize("opset", [7, 11, 13])
def test_hardmax(opset: int):
    check(parse("g (float[2,3,4] x) => (float[2,3,4] y) { y = Hardmax<axis=1>(x) }", opset))


@pytest.mark.parametrize(
    ("shape", "axis", "opset"),
    [("5", 0, 11), ("5", -1, 11), ("2,3", 0, 11), ("5", 0, 13), ("1", -1, 21)],
)
def test_hardmax_along_the_only_axis(shape: str, axis: int, opset: int):
    text = f"g (float[{shape}] x) => (float[{shape}] y) {{ y = Hardmax<axis={axis}>(x) }}"
    check(parse(text, opset))


def test_scatter_of_opset_9():
    text = "g (float[3,4] x, float[2,4] u) => (float[3,4] y) { y = Scatter(x, i, u) }"
    indices = np.array([[0, 1, 2, 0], [2, 0, 1, 2]], np.int64)
    check(parse(text, 9, i=indices))


def test_operators_newer_than_the_normalised_opset_expand():
    model = parse("g (float[2,3] x) => (float[2,3] y) { y = Swish<alpha=0.5>(x) }", 24)
    assert counts(import_model(model)) == {"Mul": 2, "Sigmoid": 1}
