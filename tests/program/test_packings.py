"""Modules of one program for several sizes share the packing of a weight."""

import numpy as np
import onnx
import pytest

import compiler
from compiler.program.model import DynamicModule
from tests.program.checks import assert_equal, model_of, reference


def apart_model(weight: np.ndarray) -> onnx.ModelProto:
    """The product of any number of rows and a weight; integers beside it need sizes as numbers."""
    model = model_of(
        "g (float[n, 256] x, float[256, 192] w, uint8[n, 8] i) => (float[n, 192] y, int32[n, n] z)"
        "{y = MatMul(x, w) t = Transpose<perm = [1, 0]>(i) z = MatMulInteger(i, t)}"
    )
    model.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    del model.graph.input[1]
    return model


def apart_inputs(random: np.random.Generator, rows: int) -> dict[str, np.ndarray]:
    """Its inputs."""
    return {
        "x": random.standard_normal((rows, 256)).astype("f4"),
        "i": random.integers(0, 9, (rows, 8), np.uint8),
    }


@pytest.mark.parametrize("arch", ["x86-64-v4", None])
def test_sizes_compiled_alone_share_one_packing_of_a_weight(arch: str | None):
    """Of 64 and 128 rows the likeliest register tiles are of different widths with AVX-512."""
    random = np.random.default_rng(0)
    weight = random.standard_normal((256, 192)).astype("f4")
    model = apart_model(weight)
    module = compiler.compile(model, arch=arch, threads=1)
    assert isinstance(module, DynamicModule)
    for rows in (128, 64):
        module.prepare({"n": rows})
    assert len(module.compiler.modules) == 2
    assert module.memory.weights < 1.1 * weight.nbytes
    for rows in (64, 128) if arch is None else ():
        given = apart_inputs(random, rows)
        assert_equal(module.run(given)["y"], reference(model, given)["y"])
