"""Contractions before a logarithm are in float32 where others are in TF32: terms may cancel."""

import numpy
import onnx.parser
import pytest

import compiler
from compiler.kernels.building.select import accurate_target
from compiler.target.target import parse_gpu
from tests.kernels.gpu.emulator import COMPILER
from tests.kernels.gpu.templates.test_segment_reduce import Case

MODEL = """<ir_version: 10, opset_import: ["": 20]>
    g (float[32,64] x, float[64,32] w) => (float[32,32] y) {
        least = Constant <value_float = 1e-4> ()
        sums = MatMul (x, w)  some = Max (sums, least)  y = Log (some)
    }"""


@pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")
def test_logarithms_of_sums_that_cancel():
    rng = numpy.random.default_rng(0)
    x, w = rng.standard_normal((2, 64, 32)).astype("float32")
    x = x.reshape(32, 64)
    module = compiler.compile(
        onnx.parser.parse_model(MODEL), target="emu", precision="tf32", budget=0
    )
    (found,) = module.run({"x": x, "w": w}).values()
    wanted = numpy.log(numpy.maximum(x.astype("float64") @ w, 1e-4))
    assert len(module.schedule.tasks) == 1
    assert numpy.linalg.norm(found - wanted) < 1e-5 * numpy.linalg.norm(wanted)


def test_others_keep_their_precision():
    group, target = Case(4, (8,), 9).group(), parse_gpu("cuda:sm_90:tf32")
    assert accurate_target(group, target) is target
