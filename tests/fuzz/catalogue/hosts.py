"""Operators without a kernel, and forms of others that only the host computes.

Nothing is evaluated when a node is made: judges do that in `tests.fuzz.contents`.
"""

from collections.abc import Sequence
from io import BytesIO
from math import prod
from typing import Any

import ml_dtypes
import numpy as np
from onnx import TensorProto, helper
from PIL import Image

from tests.fuzz.catalogue.registry import Generator
from tests.fuzz.draw import ANY, FLOATS, Shape
from tests.fuzz.grower import Grower

HOST_FAMILIES: dict[str, Generator] = {}
"""The generator of every operator that is made here."""

DRAWN = frozenset(
    "Bernoulli Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike".split()
)
"""Operators whose results are random: only types and shapes can be compared."""


def hosts(names: str):
    """Register a generator for operators."""

    def register(function: Generator) -> Generator:
        HOST_FAMILIES.update(dict.fromkeys(names.split(), function))
        return function

    return register


def place(
    g: Grower, op: str, inputs: Sequence[str], outputs: int = 1, domain: str = "", **given: Any
) -> None:
    """A node that nothing evaluates; attributes that are None are left out."""
    attributes = {name: value for name, value in given.items() if value is not None}
    names = [g.name() for _ in range(outputs)]
    g.model.graph.node.append(helper.make_node(op, inputs, names, domain=domain, **attributes))


def fresh(g: Grower, value: Any) -> str:
    """A new value by name, a sequence too."""
    name = g.name()
    g.values[name] = value
    return name


def small(g: Grower, low: int = 0, high: int = 3) -> Shape:
    """A small shape, now and then without elements."""
    sizes = [1, 2, 2, 3, 4, 0 if g.draw.chance(0.2) else 5]
    return tuple(g.draw.choices(sizes, k=g.draw.randint(low, high)))


def text(g: Grower, shape: Shape) -> np.ndarray:
    """Texts of few different kinds."""
    array = np.empty(prod(shape), object)
    array[:] = [g.draw.choice(["", "a", "b", "aa", "é", "10", "9"]) for _ in range(array.size)]
    return array.reshape(shape)


def few(g: Grower, shape: Shape, dtypes: Sequence[str] = (*ANY, "text")) -> np.ndarray:
    """Elements of which many are equal."""
    dtype = g.draw.choice(dtypes)
    if dtype == "text":
        return text(g, shape)
    array = g.draw.numpy.integers(0 if dtype.startswith("u") else -2, 3, shape).astype(dtype)
    if not g.draw.specials or array.dtype.kind != "f":
        return array
    return np.where(g.draw.numpy.random(shape) < 0.1, np.nan, array).astype(dtype)


@hosts("Unique")
def unique(g: Grower, op: str) -> None:
    """Of all elements or of slices, sorted or not, and any of the results."""
    g.require(g.opset >= 11)
    x = few(g, small(g, 1))
    axis = g.draw.choice([None, *range(-x.ndim, x.ndim)])
    outputs = g.draw.randint(1, 4)
    place(g, op, [fresh(g, x)], outputs, axis=axis, sorted=g.draw.choice([None, 0, 0, 1]))


@hosts("Compress")
def compress(g: Grower, op: str) -> None:
    """A condition that may be shorter."""
    g.require(g.opset >= 9)
    x = few(g, small(g, 1))
    axis = g.draw.choice([None, *(range(-x.ndim, x.ndim) if g.opset >= 11 else range(x.ndim))])
    size = x.size if axis is None else x.shape[axis]
    condition = g.draw.numpy.integers(0, 2, g.draw.randint(0, size)).astype(bool)
    place(g, op, [fresh(g, x), fresh(g, condition)], axis=axis)


@hosts("NonZero")
def non_zero(g: Grower, op: str) -> None:
    """Any rank."""
    g.require(g.opset >= 9)
    place(g, op, [fresh(g, few(g, small(g), ANY))])


@hosts("ConstantOfShape")
def filled(g: Grower, op: str) -> None:
    """Any shape, any value."""
    g.require(g.opset >= 9)
    value = g.draw.array((1,), g.draw.choice(ANY))
    tensor = helper.make_tensor("v", helper.np_dtype_to_tensor_dtype(value.dtype), [1], value)
    shape = fresh(g, np.array(small(g), np.int64))
    place(g, op, [shape], value=g.draw.choice([None, tensor]))


@hosts("Range")
def numbers(g: Grower, op: str) -> None:
    """Up, down, and nothing."""
    g.require(g.opset >= 11)
    name = g.draw.choice(["float32", "float64", "int16", "int32", "int64"])
    dtype: np.dtype[Any] = np.dtype(name)
    scale: float = g.draw.choice([0.25, 0.5, 1]) if dtype.kind == "f" else 1
    step = g.draw.choice([-3, -1, 1, 1, 2]) * scale
    bounds = [g.draw.randint(-5, 9) * scale, g.draw.randint(-5, 9) * scale, step]
    place(g, op, [fresh(g, np.array(bound, dtype)) for bound in bounds])


@hosts("Det")
def determinant(g: Grower, op: str) -> None:
    """Batches of square matrices."""
    g.require(g.opset >= 11)
    size = g.draw.randint(1, 4)
    x = g.draw.array((*small(g, 0, 2), size, size), g.draw.choice(["float32", "float64"]))
    place(g, op, [fresh(g, x)])


@hosts("BitCast")
def bits(g: Grower, op: str) -> None:
    """Types of one size."""
    g.require(g.opset >= 26)
    group = g.draw.choice(["int8 uint8", "float16 int16 uint16", "float32 int32 uint32"]).split()
    x = g.draw.array(small(g), g.draw.choice(group))
    target: np.dtype[Any] = np.dtype(g.draw.choice(group))
    place(g, op, [fresh(g, x)], to=helper.np_dtype_to_tensor_dtype(target))


@hosts("MelWeightMatrix")
def mel(g: Grower, op: str) -> None:
    """Few bands of a short spectrum."""
    g.require(g.opset >= 17)
    rate = g.draw.choice([8000, 16000])
    values = [g.draw.randint(1, 6), g.draw.choice([16, 32]), rate]
    names = [fresh(g, np.array(value, np.int64)) for value in values]
    low, high = g.draw.choice([0.0, 100.0]), rate / g.draw.choice([2, 3])
    names += [fresh(g, np.array(value, np.float32)) for value in (low, high)]
    place(g, op, names)


@hosts("NonMaxSuppression")
def suppression(g: Grower, op: str) -> None:
    """Boxes that overlap, ties, and all limits."""
    g.require(g.opset >= 10)
    batch, classes, count = g.draw.randint(1, 2), g.draw.randint(1, 2), g.draw.randint(1, 6)
    boxes = g.draw.numpy.integers(0, 8, (batch, count, 4)).astype(np.float32) / 4
    scores = g.draw.numpy.integers(-2, 5, (batch, classes, count)).astype(np.float32) / 4
    limits = [np.array([g.draw.choice([0, 1, 2, 9])], np.int64)]
    limits += [np.array([g.draw.choice([0.0, 0.3, 0.5, 1.0])], np.float32) for _ in range(2)]
    names = [fresh(g, array) for array in (boxes, scores, *limits[: g.draw.randint(0, 3)])]
    place(g, op, names, center_point_box=g.draw.choice([None, 0, 1]))


def _regions(g: Grower, count: int, dtype: str) -> np.ndarray:
    ends = g.draw.numpy.integers(-8, 40, (count, 4)) / g.draw.choice([1, 2, 4])
    return np.sort(ends.reshape(count, 2, 2), 1).reshape(count, 4).astype(dtype)


@hosts("MaxRoiPool")
def region_pool(g: Grower, op: str) -> None:
    """Regions inside and outside, also of no pixel."""
    dtype, batch = g.draw.choice(["float32", "float64"]), g.draw.randint(1, 2)
    x = g.draw.array((batch, 2, g.draw.randint(1, 9), g.draw.randint(1, 9)), dtype)
    count = g.draw.randint(1, 4)
    images = g.draw.numpy.integers(0, batch, (count, 1)).astype(dtype)
    regions = np.concatenate([images, _regions(g, count, dtype)], 1)
    shape, scale = [g.draw.randint(1, 3), g.draw.randint(1, 3)], g.draw.choice([None, 0.5, 0.3])
    place(g, op, [fresh(g, x), fresh(g, regions)], pooled_shape=shape, spatial_scale=scale)


@hosts("RoiAlign")
def region_align(g: Grower, op: str) -> None:
    """Regions that decide how often they are sampled."""
    g.require(10 <= g.opset < 22)
    dtype, batch = g.draw.choice(["float32", "float64"]), g.draw.randint(1, 2)
    x = g.draw.array((batch, 2, g.draw.randint(1, 9), g.draw.randint(1, 9)), dtype)
    count = g.draw.randint(1, 4)
    images = g.draw.numpy.integers(0, batch, count)
    names = [fresh(g, array) for array in (x, _regions(g, count, dtype), images)]
    attributes: dict[str, Any] = {
        "mode": g.draw.choice([None, "avg", "max"]),
        "output_height": g.draw.randint(1, 3),
        "output_width": g.draw.randint(1, 3),
        "spatial_scale": g.draw.choice([None, 0.5, 0.3]),
    }
    if g.opset >= 16:
        modes = [None, "half_pixel", "output_half_pixel"]
        attributes["coordinate_transformation_mode"] = g.draw.choice(modes)
    place(g, op, names, **attributes)


@hosts("RandomNormal RandomUniform")
def drawn(g: Grower, op: str) -> None:
    """Any type and shape."""
    shape = [*small(g, 1)]
    place(g, op, [], shape=shape, dtype=g.draw.choice([None, 1, 10, 11]), seed=_seed(g))


@hosts("RandomNormalLike RandomUniformLike")
def drawn_like(g: Grower, op: str) -> None:
    """Tensors of any type, texts too, give the shape."""
    x = few(g, small(g))
    dtype = g.draw.choice([1, 10, 11]) if x.dtype.kind != "f" else g.draw.choice([None, 1, 11])
    place(g, op, [fresh(g, x)], dtype=dtype, seed=_seed(g))


@hosts("Bernoulli")
def bernoulli(g: Grower, op: str) -> None:
    """Probabilities from 0 to 1."""
    g.require(g.opset >= 15)
    p = g.draw.array(small(g), g.draw.choice(["float32", "float64"]), 0.0, 1.0)
    place(g, op, [fresh(g, p)], dtype=g.draw.choice([None, 1, 6, 7, 9, 11]), seed=_seed(g))


@hosts("Multinomial")
def multinomial(g: Grower, op: str) -> None:
    """Logarithms of probabilities."""
    x = g.draw.numpy.normal(size=(g.draw.randint(1, 3), g.draw.randint(1, 4)))
    names = [fresh(g, x.astype(g.draw.choice(["float32", "float64"])))]
    place(
        g, op, names, dtype=g.draw.choice([None, 6, 7]), seed=_seed(g),
        sample_size=g.draw.choice([None, 1, 5]),
    )  # fmt: skip


def _seed(g: Grower) -> float | None:
    return g.draw.choice([None, 0.0, 7.0])


@hosts("Dropout")
def dropout(g: Grower, op: str) -> None:
    """Training or not decided by a run, with nothing and with all but nothing dropped."""
    g.require(g.opset >= 12)
    x, training = g.draw.array(small(g), g.draw.choice(["float32", "float64"])), g.draw.chance(0.5)
    ratio = np.array(0.0 if training else 0.5, np.float32)
    names = [fresh(g, array) for array in (x, ratio, np.array(training))]
    place(g, op, names, g.draw.randint(1, 2), seed=g.draw.choice([None, 3]))


@hosts("ImageDecoder")
def image(g: Grower, op: str) -> None:
    """Files of lossless formats."""
    g.require(g.opset >= 20)
    pixels = g.draw.numpy.integers(0, 256, (g.draw.randint(1, 6), g.draw.randint(1, 6), 3))
    stream = BytesIO()
    Image.fromarray(pixels.astype(np.uint8)).save(stream, g.draw.choice(["PNG", "BMP", "TIFF"]))
    data = np.frombuffer(stream.getvalue(), np.uint8)
    place(g, op, [fresh(g, data)], pixel_format=g.draw.choice([None, "RGB", "BGR", "Grayscale"]))


@hosts("Resize")
def old_resize(g: Grower, op: str) -> None:
    """The first form, and TensorFlow's half pixels; sizes by scales that a run decides."""
    x = g.draw.array((1, 2, g.draw.randint(1, 6), g.draw.randint(1, 6)), "float32")
    scales = np.array([1, 1, *g.draw.choices([0.5, 1, 1.5, 2, 3], k=2)], np.float32)
    mode = g.draw.choice(["nearest", "linear"])
    if g.opset == 10:
        place(g, op, [fresh(g, x), fresh(g, scales)], mode=mode)
        return
    g.require(g.opset >= 11)
    modes = ["half_pixel", "asymmetric", "pytorch_half_pixel"]
    modes += ["tf_half_pixel_for_nn"] if g.opset < 13 else []
    place(
        g, op, [fresh(g, x), fresh(g, np.zeros(0, np.float32)), fresh(g, scales)], mode=mode,
        coordinate_transformation_mode=g.draw.choice(modes),
        nearest_mode=g.draw.choice(["floor", "ceil", "round_prefer_floor"]),
    )  # fmt: skip


@hosts("Upsample")
def old_upsample(g: Grower, op: str) -> None:
    """Scales that a run decides."""
    g.require(g.opset == 9)
    x = g.draw.array((1, 2, g.draw.randint(1, 6), g.draw.randint(1, 6)), "float32")
    scales = np.array([1, 1, *g.draw.choices([1, 1.5, 2, 3], k=2)], np.float32)
    names = [fresh(g, x), fresh(g, scales)]
    place(g, op, names, mode=g.draw.choice([None, "nearest", "linear"]))


@hosts("OneHot")
def one_hot(g: Grower, op: str) -> None:
    """The depth is a scalar or a vector, and decided by a run."""
    g.require(g.opset >= 9)
    depth = g.draw.randint(1, 5)
    places = g.draw.numpy.integers(-depth, depth, small(g, 1, 2))
    given = np.array([depth] if g.draw.chance(0.5) else depth, np.int64)
    values = few(g, (2,), ["float32", "int64", "text"])
    axis = g.draw.choice([None, 0, -1])
    place(g, op, [fresh(g, array) for array in (places, given, values)], axis=axis)


@hosts("Pad")
def pad(g: Grower, op: str) -> None:
    """Negative pads in every mode."""
    g.require(g.opset >= 11)
    modes = ["constant", "edge", "reflect"] + (["wrap"] if g.opset >= 19 else [])
    mode = g.draw.choice(modes)
    shape = g.draw.shape(1, 3, 60)
    g.require(0 not in shape)
    pads = [[g.draw.randint(-1, 2) for _ in shape] for _ in range(2)]
    for axis, size in enumerate(shape):
        most = size - 1 if mode != "constant" else 2
        pads[0][axis], pads[1][axis] = (max(-(size // 2), min(p[axis], most)) for p in pads)
    dtypes = ["float32", "int64", "bool"] if g.opset >= 13 else FLOATS
    x = g.draw.array(shape, g.draw.choice(dtypes))
    place(g, op, [fresh(g, x), fresh(g, np.array(pads, np.int64).reshape(-1))], mode=mode)


@hosts("BlackmanWindow HammingWindow HannWindow")
def window(g: Grower, op: str) -> None:
    """Lengths that a run decides."""
    g.require(g.opset >= 17)
    size = np.array(g.draw.randint(1, 12), g.draw.choice(["int32", "int64"]))
    kind = g.draw.choice([None, TensorProto.DOUBLE, TensorProto.FLOAT])
    place(g, op, [fresh(g, size)], output_datatype=kind, periodic=g.draw.choice([None, 0, 1]))


@hosts("AffineGrid")
def grid(g: Grower, op: str) -> None:
    """Sizes that a run decides."""
    g.require(g.opset >= 20)
    axes = g.draw.choice([2, 3])
    theta = g.draw.array((2, axes, axes + 1), "float32")
    size = np.array([2, 1, *(g.draw.randint(2, 4) for _ in range(axes))], np.int64)
    corners = g.draw.choice([None, 0, 1])
    place(g, op, [fresh(g, theta), fresh(g, size)], align_corners=corners)


@hosts("QuantizeLinear DequantizeLinear")
def quantised(g: Grower, op: str) -> None:
    """Integers of four bits, which no kernel reads from memory."""
    g.require(g.opset >= 21)
    dtype = np.dtype(g.draw.choice([ml_dtypes.int4, ml_dtypes.uint4]))
    shape, scale = small(g, 1, 2), np.array(g.draw.choice([0.25, 0.5, 1.0]), np.float32)
    limits = ml_dtypes.iinfo(dtype)
    whole = g.draw.numpy.integers(limits.min, limits.max + 1, shape)
    zero = np.array(g.draw.randint(limits.min, limits.max)).astype(dtype)
    x = whole.astype(dtype) if op == "DequantizeLinear" else whole.astype(np.float32) / 3
    place(g, op, [fresh(g, array) for array in (x, scale, zero)])


@hosts("CenterCropPad")
def centre(g: Grower, op: str) -> None:
    """Sizes that a run decides, of all axes or of some."""
    g.require(g.opset >= 18)
    x = few(g, small(g, 1))
    axes = g.draw.choice([None, g.draw.sample(range(x.ndim), g.draw.randint(1, x.ndim))])
    count = x.ndim if axes is None else len(axes)
    size = np.array([g.draw.randint(1, 5) for _ in range(count)], np.int64)
    place(g, op, [fresh(g, x), fresh(g, size)], axes=axes)


TRAINING, OPTIMIZERS = "ai.onnx.preview.training", ("Adagrad", "Adam", "Momentum")


@hosts("Adagrad Adam Momentum")
def optimizer(g: Grower, op: str) -> None:
    """One or two tensors, before the first step and later."""
    count = g.draw.randint(1, 2)
    shapes = [small(g, 1, 2) for _ in range(count)]
    kinds = 4 if op == "Adam" else 3
    tensors = [g.draw.array(shape, "float32", 0.0, 1.0) for _ in range(kinds) for shape in shapes]
    head = [np.array(0.1, np.float32), np.array(g.draw.randint(0, 3), np.int64)]
    names = [fresh(g, array) for array in (*head, *tensors)]
    attributes: dict[str, Any] = {"norm_coefficient": g.draw.choice([0.0, 0.1])}
    if op == "Momentum":
        mode = g.draw.choice(["standard", "nesterov"])
        attributes |= {"alpha": 0.9, "beta": 0.5, "mode": mode}
    place(g, op, names, count * (kinds - 1), TRAINING, **attributes)
