"""Segments in buckets: memory for padded inputs, which runs in a bucket take in turn."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnx
import pytest

import compiler
from compiler.program.model import DynamicModule
from compiler.program.padded import PaddedInput, PaddingPool
from tests.program.checks import assert_equal, compiled, model_of, reference

SOFTMAX = """g (float[n, 8] x, float[n, 8] bias) => (float[n, 8] y)
    { s = Add(x, bias)  y = Softmax<axis = 0>(s) }"""

ATTENTION = """g (float[2, n, 16] q, float[2, n, 16] k, float[2, n, 16] v) => (float[2, n, 16] y)
    { t = Transpose<perm = [0, 2, 1]>(k)  s = MatMul(q, t)  w = Softmax(s)
      u = Log(v)  y = MatMul(w, u) }"""
"""Padding of V is zero, whose logarithm is infinite."""


def test_nothing_of_an_earlier_run_is_left_in_the_padding():
    memory, random = PaddedInput((4, 6)), np.random.default_rng(0)
    boxes = {shape: tuple(map(slice, shape)) for shape in ((4, 5), (2, 6), (1, 1), (0, 3))}
    for shape in ((2, 6), (4, 5), (4, 5), (1, 1), (2, 6), (0, 3), (4, 5)):
        array = random.standard_normal(shape).astype("f4")
        wanted = np.zeros((4, 6), "f4")
        wanted[boxes[shape]] = array
        np.testing.assert_array_equal(memory.filled(array, boxes[shape]), wanted)


def test_runs_at_once_take_different_memory():
    pool = PaddingPool({"x": (4,)})
    first, second = pool.take(), pool.take()
    assert first is not second
    pool.give_back(first)
    assert pool.take() is first
    pool.give_back(first)
    assert pickle.loads(pickle.dumps(pool)).take() is not first
    pool.close()
    assert pool.take() is not first


def test_threads_run_different_lengths_of_a_bucket():
    model = model_of(SOFTMAX)
    module = compiled(SOFTMAX, buckets={"n": [40, 80]}, threads=1)
    random = np.random.default_rng(0)
    shapes = [(int(n), 8) for n in random.permutation([*range(30, 44), 40, 40, 80, 80])]
    given = [
        {name: random.standard_normal(shape).astype("f4") for name in ("x", "bias")}
        for shape in shapes
    ]
    wanted = [reference(model, inputs)["y"] for inputs in given]
    with ThreadPoolExecutor(4) as threads:
        for _ in range(3):
            for found, expected in zip(threads.map(module.run, given), wanted, strict=True):
                assert_equal(found["y"], expected)
    assert len(module.compiler.modules) == 2


def test_infinite_elements_of_a_longer_run_do_not_reach_a_shorter_one():
    module = compiled(SOFTMAX, buckets={"n": [40]}, threads=1)
    long, short = np.full((39, 8), np.inf, "f4"), np.ones((33, 8), "f4")
    module.run({"x": long, "bias": long})
    found = module.run({"x": short, "bias": short})["y"]
    np.testing.assert_allclose(found, np.full((33, 8), 1 / 33), rtol=1e-6)


def test_an_attention_in_a_bucket_is_one_kernel_without_the_padding():
    model = model_of(ATTENTION)
    module = compiled(ATTENTION, buckets={"n": [37, 64]}, threads=1)
    kernels = {task.kernel for m in module.compiler.modules.values() for task in m.schedule.tasks}
    assert not [name for name in kernels if name.startswith(("Softmax", "Where"))]
    random = np.random.default_rng(0)
    for length in (1, 9, 36, 37, 38, 63, 64):
        given = {name: random.uniform(0.5, 2, (2, length, 16)).astype("f4") for name in "qkv"}
        assert_equal(module.run(given)["y"], reference(model, given)["y"])


def product_model(weight: np.ndarray) -> onnx.ModelProto:
    """The product of any number of rows and a weight."""
    model = model_of(
        "g (float[n, 256] x, float[256, 192] w) => (float[n, 192] y) {y = MatMul(x, w)}"
    )
    model.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    del model.graph.input[1]
    return model


@pytest.mark.parametrize("arch", ["x86-64-v4", None])
def test_buckets_share_one_packing_of_a_weight(arch: str | None):
    """Of 64 and 128 rows the likeliest register tiles are of different widths with AVX-512."""
    random = np.random.default_rng(0)
    weight = random.standard_normal((256, 192)).astype("f4")
    model = product_model(weight)
    module = compiler.compile(model, buckets={"n": [64, 128]}, arch=arch, threads=1)
    assert isinstance(module, DynamicModule)
    assert len(module.compiler.modules) == 2
    assert module.memory.weights < 1.1 * weight.nbytes
    for rows in (1, 50, 64, 65, 128) if arch is None else ():
        given = {"x": random.standard_normal((rows, 256)).astype("f4")}
        assert_equal(module.run(given)["y"], reference(model, given)["y"])
