"""Small networks of all kinds of kernels, for projects that run on a CPU or under its emulator."""

from collections.abc import Callable, Mapping

import numpy as np
from onnx import ModelProto, numpy_helper, parser

from tests.artifact.projects import vision_model

CONVOLUTIONS = """
<ir_version: 10, opset_import: ["" : 20]>
convolutions (float[1,5,18,18] x) => (float[1,10] y)
{
    first = Conv<strides = [2,2], pads = [1,1,1,1]> (x, stem, stem_bias)
    active = Relu (first)
    deep = Conv<group = 12, pads = [1,1,1,1]> (active, depthwise)
    clipped = HardSwish (deep)
    wide = Conv (clipped, pointwise)
    joined = Add (wide, active)
    pooled = MaxPool<kernel_shape = [3,3], strides = [2,2], pads = [1,1,1,1]> (joined)
    last = Conv<pads = [1,1,1,1]> (pooled, filter)
    halved = AveragePool<kernel_shape = [2,2], strides = [2,2]> (last)
    grown = ConvTranspose<strides = [2,2]> (halved, transposed)
    mean = GlobalAveragePool (grown)
    flat = Flatten (mean)
    scores = Gemm (flat, head, head_bias)
    y = Softmax (scores)
}
"""
CONVOLUTION_WEIGHTS = {
    "stem": (12, 5, 3, 3),
    "stem_bias": (12,),
    "depthwise": (12, 1, 3, 3),
    "pointwise": (12, 12, 1, 1),
    "filter": (16, 12, 3, 3),
    "transposed": (16, 8, 2, 2),
    "head": (8, 10),
    "head_bias": (10,),
}

RECURRENCE = """
<ir_version: 10, opset_import: ["" : 20]>
recurrence (float[6,2,7] x) => (float[6,2,2,9] y, float[2,2,9] h)
{
    y0, h, c = LSTM<hidden_size = 9, direction = "bidirectional"> (x, w, r, b)
    y1 = Transpose<perm = [0,2,1,3]> (y0)
    y = Erf (y1)
}
"""
RECURRENCE_WEIGHTS = {"w": (2, 36, 7), "r": (2, 36, 9), "b": (2, 72)}

LOOP = """
<ir_version: 10, opset_import: ["" : 20]>
powers (float[3,4] x, int64 n) => (float[3,4] y)
{
    y = Loop (n, , x) <body = body (int64 i, bool going, float[3,4] z)
        => (bool again, float[3,4] next) {
        again = Identity (going)
        product = MatMul (z, m)
        next = Tanh (product)
    }>
}
"""

BYTES = """
<ir_version: 10, opset_import: ["" : 20]>
bytes (float[2,7,9,9] x, float[5,37] a) => (float[2,11,9,9] image, float[5,19] rows)
{
    xq = QuantizeLinear (x, step, middle)
    xf = DequantizeLinear (xq, step, middle)
    wf = DequantizeLinear (filter, fine)
    convolved = Conv<pads = [1,1,1,1]> (xf, wf)
    cq = QuantizeLinear (convolved, coarse, middle)
    image = DequantizeLinear (cq, coarse, middle)
    aq = QuantizeLinear (a, step, signed)
    af = DequantizeLinear (aq, step, signed)
    mf = DequantizeLinear (matrix, fine)
    multiplied = MatMul (af, mf)
    rq = QuantizeLinear (multiplied, coarse, signed)
    rows = DequantizeLinear (rq, coarse, signed)
}
"""

BYTE_WEIGHTS = {"filter": (11, 7, 3, 3), "matrix": (37, 19)}
SCALARS = {
    "step": np.float32(2**-5),
    "fine": np.float32(2**-9),
    "coarse": np.float32(2**-4),
    "middle": np.uint8(121),
    "signed": np.int8(-3),
}


def filled(text: str, weights: Mapping[str, tuple[int, ...]]) -> ModelProto:
    """A model with random weights of these shapes."""
    model, chance = parser.parse_model(text), np.random.default_rng(0)
    for name, shape in weights.items():
        values = (chance.standard_normal(shape) / 3).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(values, name))
    return model


def byte_model() -> ModelProto:
    """A convolution of unsigned bytes and a multiplication of signed ones; steps are powers of 2.

    With these float32 holds every sum, so that all ways to compute give the same bits.
    """
    model, chance = parser.parse_model(BYTES), np.random.default_rng(0)
    arrays = {n: chance.integers(-128, 128, s).astype(np.int8) for n, s in BYTE_WEIGHTS.items()}
    for name, values in (arrays | SCALARS).items():
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(values), name))
    return model


SMALL: Mapping[str, Callable[[], ModelProto]] = {
    "convolutions": lambda: filled(CONVOLUTIONS, CONVOLUTION_WEIGHTS),
    "attention": vision_model,
    "recurrence": lambda: filled(RECURRENCE, RECURRENCE_WEIGHTS),
    "loop": lambda: filled(LOOP, {"m": (4, 4)}),
    "bytes": byte_model,
}
"""The small networks by name."""
