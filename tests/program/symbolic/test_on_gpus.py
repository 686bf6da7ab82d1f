"""Segments on the emulated GPU that are compiled once for all sizes."""

import logging
import shutil
from collections.abc import Mapping

import numpy as np
import onnx
import pytest

import compiler
from compiler.artifact.module import Module
from compiler.backends.emu.driver import EmulatedDriver
from compiler.backends.gpu.sized import bucket_size
from compiler.driver import symbolic
from compiler.driver.build import Prepared
from compiler.driver.packed_weights import WeightPacker
from compiler.driver.settings import Settings
from compiler.driver.variants import Variant
from compiler.passes.pipeline import DEFAULT_PIPELINE
from compiler.program.model import DynamicModule
from compiler.tensors.extents import NotForAllSizes
from tests.program.checks import check, compiled, model_of

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="kernels are compiled by g++")

BLOCK = """g (float[batch, length, 32] x, float[32, 32] wq, float[32, 32] wk, float[32, 32] wv,
   float[32, 64] wi, float[64, 32] wo, float[32] s, float[32] b) => (float[n, l, m] z) {
    split = Constant <value = int64[4] {0, 0, 4, 8}> ()
    joined = Constant <value = int64[3] {0, 0, 32}> ()
    scale = Constant <value = float {0.35355338}> ()
    q = MatMul(x, wq) k = MatMul(x, wk) v = MatMul(x, wv)
    qs = Reshape(q, split) ks = Reshape(k, split) vs = Reshape(v, split)
    qh = Transpose <perm = [0, 2, 1, 3]> (qs)
    kh = Transpose <perm = [0, 2, 3, 1]> (ks)
    vh = Transpose <perm = [0, 2, 1, 3]> (vs)
    d = MatMul(qh, kh) e = Mul(d, scale) w = Softmax(e) c = MatMul(w, vh)
    t = Transpose <perm = [0, 2, 1, 3]> (c) j = Reshape(t, joined)
    a = Add(j, x) n1 = LayerNormalization(a, s, b)
    f = MatMul(n1, wi) g1 = Relu(f) h = MatMul(g1, wo) r = Add(h, n1)
    z = LayerNormalization(r, s, b) }"""

CHEAPEST = DEFAULT_PIPELINE.replace("substitute", "substitute{policy=taso select=cost}")
"""The pipeline whose substitutions are those of the least sum of kernels' times."""

SCAN = """g (float[rows, 8] x) => (float[n, 8] z) {
    axis = Constant <value = int64 {0}> () y = CumSum(x, axis) z = Sigmoid(y) }"""


def test_a_transformer_is_compiled_and_loaded_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    loads: list[int] = []
    load = EmulatedDriver.load_module

    def counted(driver: EmulatedDriver, image: bytes) -> object:
        loads.append(len(image))
        return load(driver, image)

    monkeypatch.setattr(EmulatedDriver, "load_module", counted)
    module, model = compiled(BLOCK, target="emu:sm_90:fp32"), model_of(BLOCK)
    numbers = np.random.default_rng(0)

    def draw(*shape: int) -> np.ndarray:
        return numbers.standard_normal(shape).astype("f4") / 4

    first = 0
    shapes = {"wi": (32, 64), "wo": (64, 32), "s": (32,), "b": (32,)}
    weights = {name: draw(*shapes.get(name, (32, 32))) for name in ("wq", "wk", "wv", *shapes)}
    with caplog.at_level(logging.WARNING, "compiler.program"):
        for batch, length in ((3, 40), (2, 65), (7, 2), (2, 33), (3, 40)):
            check(module, model, {"x": draw(batch, length, 32), **weights})
            first = len(loads) if (batch, length) == (3, 40) and not first else first
    (message,) = (record.getMessage() for record in caplog.records)
    assert "for all sizes of batch, length" in message
    assert len(loads) == first > 0


WEIGHTS: Mapping[str, tuple[int, ...]] = {
    **dict.fromkeys(("wq", "wk", "wv"), (32, 32)),
    "wi": (32, 64),
    "wo": (64, 32),
    "s": (32,),
    "b": (32,),
}


def with_weights(text: str, shapes: Mapping[str, tuple[int, ...]]) -> onnx.ModelProto:
    """The model of a text in which inputs of some names are weights."""
    model = model_of(text)
    numbers = np.random.default_rng(1)
    inputs = [value for value in model.graph.input if value.name not in shapes]
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    for name, shape in shapes.items():
        array = numbers.standard_normal(shape).astype("f4") / 4
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    return model


def tasks_of(module: DynamicModule | Module) -> int:
    """The tasks of a module's schedule, or of the one that a program has compiled for all sizes."""
    fixed = module if isinstance(module, Module) else next(iter(module.compiler.modules.values()))
    return len(fixed.schedule.tasks)


def test_operators_are_substituted_for_all_sizes(caplog: pytest.LogCaptureFixture):
    model = with_weights(BLOCK, WEIGHTS)
    module = compiler.compile(model, target="emu:sm_90:fp32", pipeline=CHEAPEST)
    assert isinstance(module, DynamicModule)
    numbers = np.random.default_rng(0)
    with caplog.at_level(logging.WARNING, "compiler.program"):
        for batch, length in ((3, 40), (2, 65), (7, 2), (2, 33)):
            array = numbers.standard_normal((batch, length, 32)).astype("f4")
            check(module, model, {"x": array})
    (message,) = (record.getMessage() for record in caplog.records)
    assert "for all sizes of batch, length" in message
    shapes = {"x": (3, 40, 32)}
    fixed = compiler.compile(model, target="emu:sm_90:fp32", input_shapes=shapes, pipeline=CHEAPEST)
    assert tasks_of(module) == tasks_of(fixed) == 6  # one product for queries, keys and values


def test_what_holds_for_some_sizes_only_is_not_substituted(caplog: pytest.LogCaptureFixture):
    text = """g (float[n, 8] x, float[m, 8] y, float[8, 8] w) => (float[k, 8] z) {
        one = Constant <value = int64[1] {1}> () last = Constant <value = int64[1] {-1}> ()
        axis = Constant <value = int64[1] {0}> ()
        both = Concat <axis = 0> (x, y) part = Slice (both, one, last, axis)
        p = MatMul (part, w) z = Relu (p) }"""
    model = with_weights(text, {"w": (8, 8)})
    module = compiler.compile(model, target="emu:sm_90:fp32")
    assert isinstance(module, DynamicModule)
    numbers = np.random.default_rng(0)
    with caplog.at_level(logging.WARNING, "compiler.program"):
        for n, m in ((40, 70), (70, 33), (2, 90), (64, 2)):
            shapes = {"x": (n, 8), "y": (m, 8)}
            check(
                module,
                model,
                {k: numbers.standard_normal(v).astype("f4") for k, v in shapes.items()},
            )
    (message,) = (record.getMessage() for record in caplog.records)
    assert "for all sizes of n, m" in message


def test_substitutions_without_kernels_for_all_sizes_are_left_out(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    asked: list[bool] = []
    prepare = symbolic.prepared

    def refusing(lowered: Variant, packer: WeightPacker, settings: Settings) -> Prepared:
        asked.append(settings.substitution)
        if settings.substitution:
            raise NotForAllSizes("no symbolic kernel")
        return prepare(lowered, packer, settings)

    monkeypatch.setattr(symbolic, "prepared", refusing)
    text = "g (float[n, 8] x) => (float[n, 8] y) { a = Sin (x) y = Add (a, x) }"
    module, model = compiled(text, target="emu"), model_of(text)
    with caplog.at_level(logging.WARNING, "compiler.program"):
        for n in (40, 70):
            check(module, model, {"x": np.ones((n, 8), "f4")})
    (message,) = (record.getMessage() for record in caplog.records)
    assert "for all sizes of n" in message
    assert asked == [True, False]


def test_sizes_of_a_bucket_share_a_graph(monkeypatch: pytest.MonkeyPatch):
    graphs: list[object] = []
    instantiate = EmulatedDriver.instantiate

    def counted(driver: EmulatedDriver, graph: object, stream: object) -> object:
        graphs.append(graph)
        return instantiate(driver, graph, stream)

    monkeypatch.setattr(EmulatedDriver, "instantiate", counted)
    text = """g (float[batch, n, 8] x) => (float[batch, n, 8] y) {
        t = Transpose<perm = [0, 2, 1]>(x) p = MatMul(x, t) s = Softmax(p) y = MatMul(s, x) }"""
    module, model = compiled(text, target="emu:sm_90:fp32"), model_of(text)
    numbers = np.random.default_rng(0)
    counts: list[int] = []
    for batch, n in ((3, 40), (3, 33), (3, 48), (3, 40), (3, 49), (2, 34), (3, 36)):
        check(module, model, {"x": numbers.standard_normal((batch, n, 8)).astype("f4")})
        counts.append(len(graphs))
    assert counts == [1, 1, 1, 1, 2, 3, 3]


@pytest.mark.parametrize(
    ("size", "most", "bucket"),
    [(2, None, 2), (3, None, 3), (5, None, 6), (64, None, 64), (65, None, 96), (97, 100, 100)],
)
def test_buckets_are_powers_of_two_and_three_quarters_of_them(
    size: int, most: int | None, bucket: int
):
    assert bucket_size(size, most) == bucket


def test_what_has_no_symbolic_kernel_is_compiled_for_each_size(caplog: pytest.LogCaptureFixture):
    module, model = compiled(SCAN, target="emu"), model_of(SCAN)
    with caplog.at_level(logging.WARNING, "compiler.program"):
        for rows in (30, 50):
            check(module, model, {"x": np.ones((rows, 8), "f4")})
    first, *compilations = [record.getMessage() for record in caplog.records]
    assert "is compiled for each size alone: CumSum" in first
    assert len(compilations) == 2
