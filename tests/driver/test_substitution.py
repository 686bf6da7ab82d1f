"""Whole models compiled with substitutions and without, run on the emulator."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from compiler.artifact.module import Module
from compiler.driver.build import build_module
from compiler.driver.settings import Settings
from compiler.frontend.importing import import_model
from compiler.kernels.building import KernelCache
from tests.frontend.checks import parse, run
from tests.kernels.gpu.emulator import COMPILER

pytestmark = pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")


def repvgg() -> tuple[onnx.ModelProto, dict[str, Any]]:
    """A block of RepVGG with batch normalisations, and an input."""
    random = np.random.default_rng(0)
    weights: dict[str, np.ndarray] = {
        name: 0.2 * random.standard_normal((8, 8, k, k), np.float32)
        for name, k in (("w", 3), ("v", 1))
    }
    for name in ("s", "b", "m"):
        weights[name] = random.standard_normal(8).astype(np.float32)
    weights["r"] = np.abs(weights["s"]) + 1
    text = """g (float[1,8,6,6] x) => (float[1,8,6,6] y) {
        c = Conv<pads=[1,1,1,1]>(x, w) n = BatchNormalization(c, s, b, m, r)
        p = Conv(x, v) o = BatchNormalization(p, b, s, m, r)
        i = BatchNormalization(x, s, s, m, r)
        t = Add(n, o) u = Add(t, i) y = Relu(u) }"""
    return parse(text, 21, **weights), {"x": random.standard_normal((1, 8, 6, 6), np.float32)}


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> KernelCache:
    """Kernels and decisions of these tests."""
    return KernelCache(tmp_path_factory.mktemp("kernels"))


def compiled(cache: KernelCache, substitution: bool) -> tuple[int, np.ndarray]:
    """How many kernels run, and their result."""
    model, inputs = repvgg()
    imported = import_model(model, None, False)
    settings = Settings("emu:sm_90:fp32", cache=cache, jobs=1, substitution=substitution)
    built = build_module(imported.module, imported.weights, settings)
    module = Module(built.content)
    return len(built.schedule.tasks), module.run(inputs)["y"]


def test_substitutions_save_kernels_and_results_stay(cache: KernelCache):
    model, inputs = repvgg()
    (expected,) = run(model, inputs)
    without, plain = compiled(cache, False)
    fewer, result = compiled(cache, True)
    assert fewer < without
    for array in (plain, result):
        np.testing.assert_allclose(array, expected, rtol=1e-4, atol=1e-5)
    assert list(Path(cache.directory or "").rglob("*.mlir"))
