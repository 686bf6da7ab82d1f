"""Random models of types that numpy lacks: bfloat16, and constants of a byte or less."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx

from tests.fuzz.case import Array, Case
from tests.fuzz.draw import Draw, Shape
from tests.fuzz.graphs import BFLOAT16, NEWEST, grow, make_case
from tests.fuzz.grower import Grower, Unsuitable
from tests.fuzz.oracle import free_names, value_info
from tests.fuzz.pipelines import pipeline
from tests.fuzz.precise import Either

SMALL = {"int4": 21, "uint4": 21, "float8_e4m3fn": 19, "float8_e5m2": 19}
"""Types of a byte or less, and the opset that has them; integers are constants only."""


class Typed(Grower):
    """Grows a model whose nodes take only the types that ONNX allows: onnxruntime takes more."""

    def add(self, node: onnx.NodeProto) -> None:
        """A node; raises Unsuitable if its types do not fit too."""
        oracle = self.oracle(self.model)
        model = oracle.model_of(node, {})
        feeds = {name: self.values[name] for name in free_names(node)}
        model.graph.input.extend(value_info(name, value) for name, value in feeds.items())
        try:
            onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
        except onnx.shape_inference.InferenceError as error:
            raise Unsuitable(str(error)) from error
        super().add(node)


class Bfloat(Typed):
    """Grows a model in bfloat16 where others have floats."""

    oracle = Either

    def tensor(
        self,
        dtypes: Sequence[str],
        shape: Callable[[Shape], bool] | None = None,
        make: Callable[[], Shape] | None = None,
        values: tuple[float, float] = (-2.0, 2.0),
        within: bool = False,
    ) -> str:
        """A tensor of a dtype that suits, bfloat16 for float32."""
        renamed = {"float32": BFLOAT16.name, "float64": "", "float16": ""}
        kept = [name for dtype in dtypes if (name := renamed.get(dtype, dtype))]
        self.require(bool(kept))
        return super().tensor(kept, shape, make, values, within)

    def new(self, array: Array) -> str:
        """A new tensor, most of those in float32 as bfloat16."""
        if array.dtype == np.float32 and self.draw.chance(0.8):
            array = array.astype(BFLOAT16)
        return super().new(array)


def random_narrow(seed: int, target: str) -> Case | None:
    """A model in bfloat16, or one that reads constants of few bits."""
    draw = Draw(seed)
    if draw.chance(0.5):
        grower = Bfloat(draw, draw.randint(13, NEWEST))
        grow(draw, grower, draw.choice([1, 1, 2, 3, 5, 8]))
    else:
        grower = Typed(draw, draw.randint(19, NEWEST))
        for _ in range(draw.randint(1, 3)):
            grower.attempt(_small)
    return make_case("narrow", seed, draw, grower, target, pipeline(draw))


def _small(g: Grower) -> None:
    """A constant of few bits, moved about, as numbers that a tensor of run time meets."""
    dtype = g.draw.choice([name for name, opset in SMALL.items() if g.opset >= opset])
    shape = g.draw.shape(1, 3, 200)
    if g.draw.chance(0.3):
        x = _quantized(g, shape, dtype)
    else:
        x = g.constant(_values(g.draw, shape, dtype))
    for move in g.draw.some([_transposed, _sliced, _reshaped], 0.25):
        x = move(g, x)
    y = g.draw.choice([_dequantized, _dequantized, _cast])(g, x)
    other = g.tensor([g.values[y].dtype.name], lambda s: s == g.values[y].shape, lambda: shape)
    g.require(g.values[other].shape == g.values[y].shape)
    g.emit(g.draw.choice(["Add", "Mul", "Sub"]), [y, other])


def _values(draw: Draw, shape: Shape, dtype: str) -> Array:
    low, high = {"int4": (-8, 8), "uint4": (0, 16)}.get(dtype, (-30, 30))
    return draw.numpy.integers(low, high, shape).astype(np.float32).astype(np.dtype(dtype))


def _scales(g: Grower, shape: Shape) -> str:
    return g.constant(g.draw.numpy.choice([0.05, 0.1, 0.25, 1.0], shape).astype(np.float32))


def _scaled(g: Grower, shape: Shape) -> tuple[Shape, dict[str, Any]]:
    """The shape of the scales, and the attributes that say what they belong to."""
    axis = g.draw.randrange(len(shape))
    if g.draw.chance(0.4):
        return (), {}
    if g.opset < 21 or g.draw.chance(0.5):
        return (shape[axis],), {"axis": axis}
    block = g.draw.choice([n for n in range(1, shape[axis] + 1) if shape[axis] % n == 0])
    blocks = (*shape[:axis], shape[axis] // block, *shape[axis + 1 :])
    return blocks, {"axis": axis, "block_size": block}


def _zeros(g: Grower, shape: Shape, dtype: str) -> str:
    zeros = _values(g.draw, shape, dtype)
    return g.constant(np.zeros(shape, zeros.dtype) if dtype.startswith("float") else zeros)


def _quantized(g: Grower, shape: Shape, dtype: str) -> str:
    """Numbers that become small: constants, for float8 tensors of run time too."""
    scales, attributes = _scaled(g, shape)
    if dtype.startswith("float") and g.draw.chance(0.6):
        x = g.tensor(["float32"], lambda s: s == shape, lambda: shape)
        g.require(g.values[x].shape == shape)
    else:
        x = g.constant(g.draw.array(shape, "float32", -3.0, 3.0))
    return g.emit(
        "QuantizeLinear", [x, _scales(g, scales), _zeros(g, scales, dtype)], **attributes
    )[0]


def _dequantized(g: Grower, x: str) -> str:
    array = g.values[x]
    scales, attributes = _scaled(g, array.shape)
    zero = [_zeros(g, scales, array.dtype.name)] if g.draw.chance(0.6) else []
    return g.emit("DequantizeLinear", [x, _scales(g, scales), *zero], **attributes)[0]


def _cast(g: Grower, x: str) -> str:
    return g.emit("Cast", [x], to=g.draw.choice([1, 1, 6, 7, 10, 11]))[0]


def _transposed(g: Grower, x: str) -> str:
    order = list(range(g.values[x].ndim))
    g.draw.shuffle(order)
    return g.emit("Transpose", [x], perm=order)[0]


def _sliced(g: Grower, x: str) -> str:
    return g.emit("Slice", [x, g.ints([0]), g.ints([g.draw.randint(1, 4)]), g.ints([0])])[0]


def _reshaped(g: Grower, x: str) -> str:
    return g.emit("Reshape", [x, g.ints([-1])])[0]
