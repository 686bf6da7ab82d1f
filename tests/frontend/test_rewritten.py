"""Operators and types that rules compute by others, against NumPy."""

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from compiler.frontend.importing import import_model
from compiler.frontend.interpreter import interpret
from tests.frontend.checks import parse

Array = np.ndarray[Any, Any]


def numbers(*shape: int, dtype: Any = np.float32, seed: int = 0) -> Array:
    """Normal random numbers of a type."""
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def results(text: str, opset: int, inputs: Mapping[str, Array], **known: Array) -> list[Array]:
    """The outputs of a model for inputs."""
    imported = import_model(parse(text, opset, **known))
    imported.module.verify()
    return [*interpret(imported.module, imported.weights, inputs).values()]


def close(got: Array, wanted: Array, tolerance: float = 1e-5) -> None:
    """Check a result against one in float64."""
    assert got.shape == wanted.shape
    scale = np.abs(wanted).max(initial=1e-30)
    assert np.abs(got.astype(np.float64) - wanted).max(initial=0) <= tolerance * scale


@pytest.mark.parametrize("length", [1, 2, 97, 100, 521, 1000])
@pytest.mark.parametrize("inverse", [0, 1])
def test_fourier_transforms(length: int, inverse: int):
    text = f"""g (float[2,{length},3,2] x) => (float[2,{length},3,2] y) {{
        y = DFT<inverse={inverse}>(x, , axis) }}"""
    x = numbers(2, length, 3, 2)
    (y,) = results(text, 20, {"x": x}, axis=np.array(-3))
    transform = np.fft.ifft if inverse else np.fft.fft
    wanted = transform(x[..., 0].astype(np.float64) + 1j * x[..., 1], axis=1)
    close(y, np.stack([wanted.real, wanted.imag], -1))


@pytest.mark.parametrize("opset", [17, 20])
@pytest.mark.parametrize("length", [6, 9, 16])
def test_one_sided_transforms_of_real_numbers(opset: int, length: int):
    """Of signals that are padded or truncated to a length, and back again."""
    bins = length // 2 + 1
    text = f"""g (float[2,12,1] x) => (float[2,{bins},2] y, float[2,{length},1] z) {{
        y = DFT<onesided=1{", axis=1" if opset < 20 else ""}>(x, length)
        z = DFT<onesided=1, inverse=1{", axis=1" if opset < 20 else ""}>(y, length) }}"""
    x = numbers(2, 12, 1)
    if opset < 20:  # onnx refuses the inverse before opset 20
        text = text[: text.index("z =")] + "}"
        text = text.replace(f", float[2,{length},1] z", "")
    y, *back = results(text, opset, {"x": x}, length=np.array(length))
    wanted = np.fft.rfft(x[..., 0].astype(np.float64), length)
    close(y, np.stack([wanted.real, wanted.imag], -1))
    for z in back:
        close(z, np.fft.irfft(wanted, length)[..., None])


@pytest.mark.parametrize("onesided", [0, 1])
def test_short_time_transforms(onesided: int):
    text = f"""g (float[2,50,1] x, float[16] w) => (float[2,a,b,2] y, float[2,c,d,2] z) {{
        y = STFT<onesided={onesided}>(x, step, w)
        z = STFT<onesided={onesided}>(x, step, , length) }}"""
    x, w = numbers(2, 50, 1), numbers(16, seed=1)
    known = {"step": np.array(5), "length": np.array(7)}
    transform = np.fft.rfft if onesided else np.fft.fft
    windows = np.lib.stride_tricks.sliding_window_view
    for y, window in zip(
        results(text, 17, {"x": x, "w": w}, **known), (w, np.ones(7)), strict=True
    ):
        frames = windows(x[..., 0].astype(np.float64), window.size, axis=1)[:, ::5] * window
        wanted = transform(frames)
        close(y, np.stack([wanted.real, wanted.imag], -1))


def test_short_time_transforms_of_complex_signals_may_leave_out_half():
    text = """g (float[1,13,2] x) => (float[1,5,3,2] y) { y = STFT(x, step, , length) }"""
    x, known = numbers(1, 13, 2), {"step": np.array(2), "length": np.array(5)}
    signal = x[..., 0] + 1j * x[..., 1]
    frames = np.lib.stride_tricks.sliding_window_view(signal, 5, axis=1)[:, ::2]
    wanted = np.fft.fft(frames)[..., :3]
    (y,) = results(text, 17, {"x": x}, **known)
    close(y, np.stack([wanted.real, wanted.imag], -1))


def scanned(x: Array, axis: int, exclusive: bool, reverse: bool) -> Array:
    """A running multiplication."""
    x = np.flip(x, axis) if reverse else x
    if exclusive:
        rest = np.delete(x, -1, axis)
        x = np.concatenate([np.ones_like(np.take(x, [0], axis)), rest], axis)
    result = np.cumprod(x, axis).astype(x.dtype)
    return np.flip(result, axis) if reverse else result


@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize("exclusive", [0, 1])
def test_running_multiplications(exclusive: int, reverse: int):
    flags = f"<exclusive={exclusive}, reverse={reverse}>"
    text = f"""g (float[2,13,3] x, int32[2,13,3] i, bfloat16[2,13,3] h) =>
        (float[2,13,3] y, int32[2,13,3] j, bfloat16[2,13,3] k) {{
        y = CumProd{flags}(x, axis) j = CumProd{flags}(i, axis) k = CumProd{flags}(h, axis) }}"""
    x = numbers(2, 13, 3)
    i = np.random.default_rng(0).integers(-999, 999, x.shape, np.int32)
    h = x.astype(ml_dtypes.bfloat16)
    y, j, k = results(text, 26, {"x": x, "i": i, "h": h}, axis=np.array(-2))
    args = 1, bool(exclusive), bool(reverse)
    close(y, scanned(x.astype(np.float64), *args))
    assert (j == scanned(i, *args)).all()
    close(k, scanned(h.astype(np.float64), *args), 5e-3)


@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64])
def test_shifts_of_signed_integers(direction: str, dtype: Any):
    name, bits = np.dtype(dtype).name, np.dtype(dtype).itemsize * 8
    text = f"""g ({name}[{bits},9] x, {name}[{bits},1] n) => ({name}[{bits},9] y) {{
        y = BitShift<direction="{direction}">(x, n) }}"""
    ends = np.iinfo(dtype)
    row = np.array([0, 1, -1, 2, -2, ends.min, ends.max, ends.min + 1, 77], dtype)
    x, n = np.tile(row, (bits, 1)), np.arange(bits, dtype=dtype)[:, None]
    (y,) = results(text, 28, {"x": x, "n": n})
    assert (y == (np.left_shift if direction == "LEFT" else np.right_shift)(x, n)).all()


@pytest.mark.parametrize(
    ("dtype", "near"), [("float16", 2e-3), ("bfloat16", 1e-2), ("double", 1e-12)]
)
def test_celu_of_other_types(dtype: str, near: float):
    text = f"g ({dtype}[99] x) => ({dtype}[99] y) {{ y = Celu<alpha=1.5>(x) }}"
    x = (numbers(99) * 5).astype(
        {"double": np.float64, "bfloat16": ml_dtypes.bfloat16}.get(dtype, dtype)
    )
    (y,) = results(text, 28, {"x": x})
    wide = x.astype(np.float64)
    close(y, np.maximum(wide, 0) + np.minimum(0, 1.5 * np.expm1(wide / 1.5)), near)


@pytest.mark.parametrize("alpha", [-2.0, -0.5, 0.0, 0.1])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_celu_of_any_alpha(dtype: Any, alpha: float):
    name = "double" if dtype is np.float64 else "float"
    text = f"g ({name}[13] x) => ({name}[13] y) {{ y = Celu<alpha={alpha}>(x) }}"
    x = np.array([-30, -3, -1, -0.1, -1e-12, -0.0, 0, 1e-12, 0.1, 3, np.inf, -np.inf, np.nan])
    with np.errstate(all="ignore"):
        below = np.float64(np.float32(alpha)) * np.expm1(x / np.float64(np.float32(alpha)))
    (y,) = results(text, 28, {"x": x.astype(dtype)})
    rtol = 1e-14 if dtype is np.float64 else 1e-6
    np.testing.assert_allclose(y, np.where(x < 0, below, x), rtol)


def test_bfloat16_of_later_opsets():
    text = """g (bfloat16[4,3] x, bfloat16[3,5] w, int64[4] i) =>
        (bfloat16[4,5] y, bfloat16[4,3] z, bfloat16[4,3] o) {
        y = Einsum<equation="ij,jk->ik">(x, w)
        z = ReverseSequence<time_axis=0, batch_axis=1>(x, lengths)
        o = OneHot(i, depth, v) }"""
    x, w, v = (numbers(*s, dtype=ml_dtypes.bfloat16) for s in ((4, 3), (3, 5), (2,)))
    i = np.array([0, 2, 1, 2])
    known = {"lengths": np.array([4, 1, 2]), "depth": np.array(3), "v": v}
    y, z, o = results(text, 28, {"x": x, "w": w, "i": i}, **known)
    close(y, x.astype(np.float64) @ w.astype(np.float64), 1e-2)
    assert (z[:, 0] == x[::-1, 0]).all()
    expected: Array = np.array([[v[int(k == c)] for c in range(3)] for k in i.tolist()])
    np.testing.assert_array_equal(o, expected)


@pytest.mark.parametrize("dtype", ["float", "float16"])
def test_normalisation_by_the_batch(dtype: str):
    text = f"""g ({dtype}[4,3,5] x, {dtype}[3] s, {dtype}[3] b, float[3] m, float[3] v) =>
        ({dtype}[4,3,5] y, float[3] n, float[3] u) {{
        y, n, u = BatchNormalization<training_mode=1, momentum=0.75, epsilon=0.1>(
            x, s, b, m, v) }}"""
    kind = np.dtype("float32" if dtype == "float" else dtype)
    x, s, b = (
        numbers(4, 3, 5, dtype=kind) + 3,
        numbers(3, dtype=kind),
        numbers(3, dtype=kind, seed=2),
    )
    m, v = numbers(3, seed=3), np.abs(numbers(3, seed=4))
    y, n, u = results(text, 15, {"x": x, "s": s, "b": b, "m": m, "v": v})
    wide = x.astype(np.float64)
    mean, variance = wide.mean((0, 2)), wide.var((0, 2))
    factor = (s / np.sqrt(variance + 0.1))[:, None]
    close(y, (wide - mean[:, None]) * factor + b[:, None], 1e-5 if dtype == "float" else 2e-3)
    close(n, 0.75 * m + 0.25 * mean)
    close(u, 0.75 * v + 0.25 * variance)


@pytest.mark.parametrize("mode", ["linear", "circular"])
@pytest.mark.parametrize("axis", [1, -2])
def test_caches_are_written_where_the_run_says(mode: str, axis: int):
    text = f"""g (float[3,2,5,4] x, float[{"3,2,5,4" if axis == 1 else "3,2,2,4"}] u, int64[3] w) =>
        (float[3,2,5,4] y) {{ y = TensorScatter<axis={axis}, mode="{mode}">(x, u, w) }}"""
    x = numbers(3, 2, 5, 4)
    u = numbers(3, 2, 5, 4, seed=1) if axis == 1 else numbers(3, 2, 2, 4, seed=1)
    size = 2 if axis == 1 else 5
    last = size - u.shape[axis] if mode == "linear" else size - 1
    w = np.array([0, last, min(1, last)])
    given = {"x": x, "u": u, "w": w}
    (y,) = results(text, 24, given)
    inputs = text[text.index("(") : text.index("=>")]
    (folded,) = results(text.replace(inputs, "() ", 1), 24, {}, **given)
    wanted = np.moveaxis(x, axis, 1).copy()
    for batch, first in enumerate(w):
        for i, row in enumerate(np.moveaxis(u, axis, 1)[batch]):
            wanted[batch, (first + i) % size] = row
    for result in (y, folded):
        assert (result == np.moveaxis(wanted, 1, axis)).all()
