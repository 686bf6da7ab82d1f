"""Small models at the edges of types and shapes, against onnxruntime, on the CPU and emulated."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import compiler
from compiler.errors import KernelError
from compiler.kernels.ops.resizing import resize
from compiler.kernels.ops.resizing.computed_taps import COMPUTED
from tests.frontend.checks import parse, run
from tests.kernels.gpu.emulator import COMPILER

NO_COMPILER = pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")
TARGETS = pytest.mark.parametrize("target", ["cpu", pytest.param("emu", marks=NO_COMPILER)])


def compare(text: str, inputs: Mapping[str, np.ndarray], target: str, **weights: np.ndarray):
    """Run a model, and check shapes and values against onnxruntime's; NaN equals NaN."""
    model = parse(text, 21, **weights)
    module = compiler.compile(model, target=target)
    actual = module.run(inputs)
    names = [output.name for output in model.graph.output]
    for name, expected in zip(names, run(model, inputs), strict=True):
        assert actual[name].shape == expected.shape
        np.testing.assert_allclose(actual[name], expected, rtol=1e-5, atol=1e-6)


def normal(*shape: int) -> np.ndarray:
    """Random float32 numbers."""
    return np.random.default_rng(0).standard_normal(shape, dtype=np.float32)


@TARGETS
def test_bools_are_compared(target: str):
    inputs = {"a": np.array([1, 1, 0, 0], bool), "b": np.array([1, 0, 1, 0], bool)}
    text = """g (bool[4] a, bool[4] b) => (bool[4] y, bool[4] z) {
        y = Equal(a, b) n = Not(a) c = Equal(n, b) z = Or(c, y) }"""
    compare(text, inputs, target)


@TARGETS
def test_einsum_of_one_operand(target: str):
    text = """g (float[3,3] a, float[2,3] b, float[2,2,5] c)
        => (float[3] p, float q, float[3,2] r, float s, float[2,5,2] t, float[5] u) {
        p = Einsum<equation="ii->i">(a) q = Einsum<equation="ii">(a)
        r = Einsum<equation="ij->ji">(b) s = Einsum<equation="ij->">(b)
        t = Einsum<equation="...ij->...ji">(c) u = Einsum<equation="iij->j">(c) }"""
    compare(text, {"a": normal(3, 3), "b": normal(2, 3), "c": normal(2, 2, 5)}, target)


@TARGETS
@pytest.mark.parametrize("shape", ["1", "1,1", "3,1"])
def test_positions_along_an_axis_of_one_element(shape: str, target: str):
    text = f"""g (float[{shape}] x) => (int64[{shape}] y, int64[{shape}] z, float[{shape}] h) {{
        y = ArgMax<axis=-1>(x) z = ArgMin<axis=-1>(x) h = Hardmax(x) }}"""
    compare(text, {"x": normal(*map(int, shape.split(",")))}, target)


@TARGETS
def test_tensors_without_elements(target: str):
    text = """g (float[0,3] x, float[0,2,5,5] i, float[2,0] n, int32[2,0] k)
        => (float[0,3] r, float[0,4] p, float[0,2,3,3] c, float[2,3] e, float[0,3] s,
            float[2,1] m, int32[2,1] j, float[1,3] t) {
        r = Relu(x) p = MatMul(x, w) c = Conv(i, f) e = MatMul(n, x) s = Softmax(r)
        m = ReduceMean(n, last) j = ReduceMean(k, last) t = ReduceMean(x, first) }"""
    inputs = {"x": normal(0, 3), "i": normal(0, 2, 5, 5), "n": normal(2, 0)}
    weights = {"w": normal(3, 4), "f": normal(2, 2, 3, 3), "last": np.array([1])}
    inputs["k"] = np.zeros((2, 0), np.int32)
    compare(text, inputs, target, **weights, first=np.array([0]))


@TARGETS
def test_not_a_number(target: str):
    x = np.array([np.nan, -0.0, 0, 3, -2, 0.5, np.inf, -np.inf], np.float32)
    text = """g (float[8] x) => (float[8] y, float[8] z) {
        y = Sign(x) z = ThresholdedRelu<alpha=0.5>(x) }"""
    compare(text, {"x": x}, target)


@TARGETS
@pytest.mark.parametrize(
    "mode", ["asymmetric", "half_pixel", "pytorch_half_pixel", "half_pixel_symmetric"]
)
def test_coordinates_are_rounded_where_neighbours_are_equally_near(mode: str, target: str):
    sizes = {"a": (7, 0.6, 4), "b": (5, 0.3, 1), "c": (9, 1.7, 15), "d": (30, 0.1, 3)}
    resize = (
        f'Resize<mode="nearest", nearest_mode="floor", coordinate_transformation_mode="{mode}">'
    )
    nodes = [f"y{name} = {resize}({name}, , s{name})" for name in sizes]
    inputs = ", ".join(f"float[{n}] {name}" for name, (n, _, _) in sizes.items())
    outputs = ", ".join(f"float[{n}] y{name}" for name, (_, _, n) in sizes.items())
    arrays = {name: np.arange(n, dtype=np.float32) for name, (n, _, _) in sizes.items()}
    scales = {f"s{name}": np.array([scale], np.float32) for name, (_, scale, _) in sizes.items()}
    compare(f"g ({inputs}) => ({outputs}) {{ {' '.join(nodes)} }}", arrays, target, **scales)


@TARGETS
@pytest.mark.parametrize(("rounding", "extent", "size"), [("ceil", 29, 15), ("floor", 39, 10)])
def test_corners_of_whole_sizes_are_aligned(rounding: str, extent: int, size: int, target: str):
    text = f"""g (float[{extent}] x) => (float[{size}] y) {{ y = Resize<mode="nearest",
        coordinate_transformation_mode="align_corners", nearest_mode="{rounding}">(x, , , n) }}"""
    inputs = {"x": np.arange(extent, dtype=np.float32)}
    compare(text, inputs, target, n=np.array([size]))


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("coordinates", COMPUTED)
def test_long_axes_have_no_tables(
    coordinates: str, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"""g (float[3,7] x, float[9] z) => (float[3,19] y, float[5] w) {{
        y = Resize<mode="{mode}", coordinate_transformation_mode="{coordinates}">(x, , , n)
        w = Resize<mode="{mode}", coordinate_transformation_mode="{coordinates}">(z, , s) }}"""
    known = {"n": np.array([3, 19]), "s": np.array([0.6], np.float32)}
    model, inputs = parse(text, 21, **known), {"x": normal(3, 7), "z": normal(9)}
    way: dict[str, Any] = {"cache": False, "semantics": "onnx"}
    by_tables = compiler.compile(model, **way).run(inputs)
    monkeypatch.setattr(resize, "LONG_AXIS", 4)
    monkeypatch.setattr(resize, "TableTaps", pytest.fail)
    computed = compiler.compile(model, **way).run(inputs)
    for name, expected in by_tables.items():
        np.testing.assert_allclose(computed[name], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("attributes", "sizes"),
    [
        ('coordinate_transformation_mode="half_pixel_symmetric"', (4, 1 << 22)),
        ("antialias=1", (1 << 26, 2)),
    ],
)
def test_tables_of_resizes_are_bounded(attributes: str, sizes: tuple[int, int]):
    old, new = sizes
    text = f"""g (float[{old}] x) => (float[{new}] y) {{
        y = Resize<mode="linear", {attributes}>(x, , , n) }}"""
    with pytest.raises(KernelError, match=r"would be tables of \d+ numbers; use coordinates"):
        compiler.compile(parse(text, 21, n=np.array([new])))


@pytest.mark.parametrize("mode", ["asymmetric", "half_pixel", "half_pixel_symmetric"])
@pytest.mark.parametrize("rounding", ["round_prefer_floor", "round_prefer_ceil"])
def test_halves_that_quotients_miss_are_ties(rounding: str, mode: str):
    """Such as 19 * 7 / 38 and 9.5 * 14 / 19 - 0.5."""
    sizes = list(enumerate(((7, 2), (7, 38), (14, 19), (14, 31), (14, 39))))
    nodes = [
        f"""y{i} = Resize<mode="nearest", coordinate_transformation_mode="{mode}",
        nearest_mode="{rounding}", axes=[0]>(x{extent}, , , n{size})"""
        for i, (extent, size) in sizes
    ]
    outputs = ", ".join(f"float[{size}] y{i}" for i, (_, size) in sizes)
    arrays = {f"x{extent}": np.arange(extent, dtype=np.float32) for extent in (7, 14)}
    wanted = {f"n{size}": np.array([size]) for _, (_, size) in sizes}
    text = f"g (float[7] x7, float[14] x14) => ({outputs}) {{ {' '.join(nodes)} }}"
    compare(text, arrays, "cpu", **wanted)


@TARGETS
def test_padding_with_computed_numbers(target: str):
    text = """g (float[2,3] x, float16[2,3] z, float16[1] one) => (float[4,4] y, float16[3,4] w) {
        low = ReduceMin<keepdims=0>(x) r = Relu(x) p = Pad(r, pads, low) y = Exp(p)
        w = Pad(z, few, one) }"""
    inputs = {
        "x": normal(2, 3),
        "z": normal(2, 3).astype(np.float16),
        "one": np.array([1.5], np.float16),
    }
    compare(text, inputs, target, pads=np.array([1, 0, 1, 1]), few=np.array([1, 1, 0, 0]))
