"""Casts to float8 and from it, bit by bit against ml_dtypes, and the bytes that float8s take."""

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import compiler
from tests.frontend.checks import parse
from tests.kernels.gpu.emulator import COMPILER

KINDS = {"float8_e4m3fn": (ml_dtypes.float8_e4m3fn, 17), "float8_e5m2": (ml_dtypes.float8_e5m2, 19)}
TARGETS = [
    "cpu",
    pytest.param(
        "emu", marks=pytest.mark.skipif(COMPILER is None, reason="g++ compiles emulated kernels")
    ),
]

CASTS = """g (float[{count}] x) => ({type}[{count}] a, {type}[{count}] b, float[{count}] c) {{
 a = Cast<to={to}>(x)  b = Cast<to={to}, saturate=0>(x)  c = Cast<to=1>(b) }}"""


def all_of(kind: str) -> np.ndarray:
    """Every number of a format as float32."""
    return np.arange(256, dtype=np.uint8).view(KINDS[kind][0]).astype("f4")


def candidates(kind: str) -> np.ndarray:
    """All float8s, those halfway between neighbours and next to these, and random bits."""
    seed = np.random.SeedSequence().entropy
    print(f"seed {seed}")
    random = np.random.default_rng(seed)
    finite = np.sort(all_of(kind)[np.isfinite(all_of(kind))])
    halfway = np.concatenate([(finite[1:] + finite[:-1]) / 2, [464, -464, 61440, -61440]])
    halfway = halfway.astype("f4")
    bits = random.integers(0, 2**32, 3000, dtype=np.uint32).view("f4")
    sized = random.standard_normal(3000) * 2.0 ** random.integers(-22, 20, 3000)
    near = [np.nextafter(halfway, np.float32(end)) for end in (np.inf, -np.inf)]
    special = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 3e38], "f4")
    return np.concatenate([all_of(kind), halfway, *near, bits, sized.astype("f4"), special])


def largest(kind: str) -> float:
    """The largest finite number of a format."""
    limits: Any = ml_dtypes.finfo
    return float(limits(KINDS[kind][0]).max)


def rounded(x: np.ndarray, kind: str, saturate: bool) -> np.ndarray:
    """The result of a Cast as ONNX defines it."""
    dtype = KINDS[kind][0]
    most = largest(kind)
    with np.errstate(invalid="ignore", over="ignore"):
        return (np.clip(x, -most, most) if saturate else x).astype(dtype)


def assert_same(found: np.ndarray, expected: np.ndarray) -> None:
    """Equal bits; any NaN is one."""
    assert found.dtype == expected.dtype
    wide = expected.astype("f4")
    np.testing.assert_array_equal(np.isnan(found.astype("f4")), np.isnan(wide))
    kept = ~np.isnan(wide)
    np.testing.assert_array_equal(found.view(np.uint8)[kept], expected.view(np.uint8)[kept])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", KINDS)
def test_casts_from_float32_and_back(kind: str, target: str):
    x = candidates(kind)
    text = CASTS.format(count=x.size, type=kind.replace("_", ""), to=KINDS[kind][1])
    a, b, c = compiler.compile(parse(text, 21), target=target, dynamic=False).run({"x": x}).values()
    assert_same(a, rounded(x, kind, True))
    assert_same(b, rounded(x, kind, False))
    np.testing.assert_array_equal(c, rounded(x, kind, False).astype("f4"))


OTHERS = """g ({source}[n] x) => (float16[n] a, bfloat16[n] b, int32[n] c, bool[n] d, {to}[n] e) {{
 a = Cast<to=10>(x)  b = Cast<to=16>(x)  c = Cast<to=6>(x)  d = Cast<to=9>(x)
 e = Cast<to={number}, saturate=0>(x) }}"""


@pytest.mark.parametrize("target", TARGETS)
def test_casts_to_other_types(target: str):
    for kind, other in (tuple(KINDS), tuple(KINDS)[::-1]):
        dtype, number = KINDS[other]
        names = {"source": kind.replace("_", ""), "to": other.replace("_", ""), "number": number}
        model = parse(OTHERS.format(**names).replace("[n]", "[256]"), 21)
        x = np.arange(256, dtype=np.uint8).view(KINDS[kind][0])
        found = compiler.compile(model, target=target, dynamic=False).run({"x": x})
        wide = x.astype("f4")
        np.testing.assert_array_equal(found["a"], wide.astype("f2"))
        np.testing.assert_array_equal(found["b"].astype("f4"), wide)
        kept = np.isfinite(wide)
        np.testing.assert_array_equal(found["c"][kept], np.trunc(wide[kept]).astype("i4"))
        np.testing.assert_array_equal(found["d"], wide != 0)
        assert_same(found["e"], rounded(wide, other, False).astype(dtype))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("source", ["float16", "bfloat16", "float64", "int64", "uint8", "bool"])
def test_casts_from_other_types(source: str, target: str):
    types = {"float64": "double", "float32": "float"}
    text = f"""g ({types.get(source, source)}[512] x) => (float8e4m3fn[512] a, float8e5m2[512] b) {{
     a = Cast<to=17>(x)  b = Cast<to=19, saturate=0>(x) }}"""
    random = np.random.default_rng(7)
    dtype = np.dtype(getattr(ml_dtypes, source, source))
    x = (random.standard_normal(512) * 2.0 ** random.integers(-10, 14, 512)).astype(dtype)
    a, b = compiler.compile(parse(text, 21), target=target, dynamic=False).run({"x": x}).values()
    assert_same(a, rounded(x.astype("f4"), "float8_e4m3fn", True))
    assert_same(b, rounded(x.astype("f4"), "float8_e5m2", False))


MOVES = """g ({type}[2,3,40] x, float[120,2] z) => ({type}[120,2] y, float[120,2] s) {{
 a = Transpose<perm=[1,2,0]>(x)  y = Reshape(a, shape)  b = Add(z, w)
 c = Cast<to={to}>(b)  d = Transpose(c)  e = Cast<to=1>(d)  f = Transpose(e)  g = Cast<to=1>(v)
 s = Add(f, g) }}"""


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", KINDS)
def test_float8s_are_moved_stored_and_saved_as_bytes(kind: str, target: str, tmp_path: Path):
    random, dtype = np.random.default_rng(3), KINDS[kind][0]
    text = MOVES.format(type=kind.replace("_", ""), to=KINDS[kind][1])
    shape = np.array([120, 2], np.int64)
    model = parse(text, 21, shape=shape, w=random.standard_normal((120, 2), "f4"),
                  v=random.standard_normal((120, 2)).astype(dtype))  # fmt: skip
    module = compiler.compile(model, target=target, dynamic=False, precision=None)
    x = random.integers(0, 256, (2, 3, 40)).astype(np.uint8).view(dtype)
    inputs = {"x": x, "z": random.standard_normal((120, 2), "f4")}
    y, s = module.run(inputs).values()
    np.testing.assert_array_equal(
        y.view(np.uint8), x.view(np.uint8).transpose(1, 2, 0).reshape(120, 2)
    )
    views = [v for t in module.schedule.tasks for v in (*t.reads, *t.writes) if v.dtype == kind]
    assert views
    assert all(view.nbytes == np.prod(view.shape) for view in views)
    module.save(tmp_path / "saved")
    again = compiler.load(tmp_path / "saved").run(inputs)
    assert_same(again["y"], y)
    np.testing.assert_array_equal(again["s"], s)
