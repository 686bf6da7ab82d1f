"""Hypothesis generators of single operators with their inputs, over attributes, types and ranks."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from hypothesis import strategies as st
from numpy.typing import NDArray

from compiler.net.operators import OPERATORS, KnownTensor
from compiler.net.operators.canonical import canonical_node, deciding_inputs
from compiler.tensors.dtypes import ELEMENT_BYTES

Array = NDArray[Any]
OPSET = 23
FLOATS = ("float32", "float32", "float64", "float16", "bfloat16")
FLOAT8_TYPES = (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2)


@dataclass(frozen=True)
class Case:
    """One operator of the normalised opset with its inputs."""

    op_type: str
    inputs: list[Array | None]
    attributes: dict[str, Any] = field(default_factory=dict[str, Any])
    outputs: int = 1

    @property
    def canonical(self) -> "Case":
        """The use with attributes in place of the inputs that decide shapes."""
        tensors = [
            None if a is None else KnownTensor(a.dtype.name, a.shape, a) for a in self.inputs
        ]
        use = canonical_node(self.op_type, tensors, self.attributes, self.outputs)
        arrays = [tensor and tensor.array for tensor in use.inputs]
        return Case(self.op_type, arrays, dict(use.attributes), self.outputs)

    @property
    def fixed(self) -> frozenset[int]:
        """The inputs that must be constants."""
        decided = deciding_inputs(self.op_type)
        others = [index for index in range(len(self.inputs)) if index not in decided]
        structural = OPERATORS[self.op_type].structural
        return frozenset({*(others[index] for index in structural), *decided})


@cache
def dtypes(op_type: str, index: int = 0) -> tuple[str, ...]:
    """The compiled element types that an operator's input takes."""
    formal = onnx.defs.get_schema(op_type, OPSET, "").inputs
    types = formal[min(index, len(formal) - 1)].types
    return tuple(d for d in ELEMENT_BYTES if f"tensor({_onnx_name(d)})" in types)


def _onnx_name(dtype: str) -> str:
    return {"float32": "float", "float64": "double"}.get(dtype, dtype)


class Draw:
    """The source of the generators below: random numbers of one seed."""

    def __init__(self, seed: int):
        self.random = np.random.default_rng(seed)

    def integer(self, low: int, high: int) -> int:
        """An integer of a range, its ends included."""
        return int(self.random.integers(low, high, endpoint=True))

    def one(self, *choices: Any) -> Any:
        """One of some values."""
        return choices[self.integer(0, len(choices) - 1)]

    def flag(self) -> bool:
        """True or False."""
        return bool(self.integer(0, 1))

    def integers(self, count: int, low: int, high: int) -> list[int]:
        """Several integers of a range."""
        return [self.integer(low, high) for _ in range(count)]

    def shape(self, low: int = 0, high: int = 4, empty: bool = True) -> tuple[int, ...]:
        """A shape with a rank in a range; now and then a dimension is empty."""
        sizes = self.integers(self.integer(low, high), 1, 4)
        if empty and sizes and self.integer(0, 15) == 0:
            sizes[self.integer(0, len(sizes) - 1)] = 0
        return tuple(sizes)

    def narrower(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """A shape that broadcasts to another."""
        kept = [size if self.flag() else 1 for size in shape]
        return tuple(kept[self.integer(0, len(kept)) :])

    def array(self, shape: Sequence[int], dtype: str, extreme: bool = False) -> Array:
        """Values of a few units; with `extreme` also what is at the ends of the type."""
        kind = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
        if dtype == "bool":
            return self.random.integers(0, 2, shape).astype(bool)
        if "float" in dtype:
            values = np.round(self.random.standard_normal(shape) * 3, self.integer(0, 3))
            odd = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, 300.0, -1e-3]
        else:
            values = self.random.integers(0 if dtype[0] == "u" else -9, 10, shape)
            odd = [np.iinfo(dtype).min, np.iinfo(dtype).max, 0, 1, 2]
        array = np.asarray(values).astype(kind)
        if extreme:
            chosen = self.random.choice(np.array(odd, kind if "int" in dtype else float), shape)
            array = np.where(self.random.random(shape) < 0.2, chosen, array).astype(kind)
        return array

    def integral(self, values: object) -> Array:
        """A vector of int64."""
        return np.array(values, np.int64)


UNARY = (
    "Abs Acos Acosh Asin Asinh Atan Atanh BitwiseNot Ceil Cos Cosh Elu Erf Exp Floor Gelu HardSwish"
    " Identity IsNaN Log Mish Neg Not Reciprocal Relu Round Sigmoid Sign Sin Sinh Softplus Softsign"
    " Sqrt Tan Tanh"
).split()
BINARY = (
    "Add And BitwiseAnd BitwiseOr BitwiseXor Div Equal Greater GreaterOrEqual Less LessOrEqual"
    " Mul Or PRelu Sub Xor"
).split()
ACTIVATIONS: dict[str, tuple[str, ...]] = {
    "Celu": ("alpha",),
    "Elu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
    "LeakyRelu": ("alpha",),
    "Selu": ("alpha", "gamma"),
    "Shrink": ("lambd", "bias"),
    "ThresholdedRelu": ("alpha",),
}


def unary(d: Draw) -> Case:
    """One input and no attributes."""
    op_type = d.one(*UNARY)
    x = d.array(d.shape(), d.one(*dtypes(op_type)), True)
    attributes = {"approximate": "tanh"} if op_type == "Gelu" and d.flag() else {}
    return Case(op_type, [x], attributes)


def binary(d: Draw) -> Case:
    """Two inputs that broadcast."""
    op_type = d.one(*BINARY)
    dtype, shape = d.one(*dtypes(op_type)), d.shape()
    shapes = [shape, d.narrower(shape)]
    if d.flag() and op_type != "PRelu":
        shapes.reverse()
    return Case(op_type, [d.array(s, dtype, op_type != "Erf") for s in shapes])


def activation(d: Draw) -> Case:
    """Activations with numbers for attributes."""
    op_type = d.one(*ACTIVATIONS)
    names = ACTIVATIONS[op_type]
    attributes = {n: d.one(0.25, 0.5, 1.5, 2.0) for n in names if d.flag()}
    return Case(op_type, [d.array(d.shape(), d.one(*dtypes(op_type)), True)], attributes)


def variadic(d: Draw) -> Case:
    """Max and Min of one to four inputs."""
    op_type = d.one("Max", "Min")
    dtype, shape = d.one(*dtypes(op_type)), d.shape()
    others = [d.array(d.narrower(shape), dtype) for _ in range(d.integer(0, 3))]
    return Case(op_type, [d.array(shape, dtype), *others])


def selection(d: Draw) -> Case:
    """Where, Clip and IsInf."""
    op_type, shape = d.one("Where", "Clip", "IsInf"), d.shape()
    if op_type == "IsInf":
        names = [n for n in ("detect_positive", "detect_negative") if d.flag()]
        x = d.array(shape, d.one("float32", "float64", "float16", "bfloat16"), True)
        return Case(op_type, [x], dict.fromkeys(names, d.integer(0, 1)))
    if op_type == "Where":
        dtype = d.one(*dtypes("Where", 1))
        arrays = [d.array(s, dtype) for s in (shape, d.narrower(shape))]
        return Case(op_type, [d.array(d.narrower(shape), "bool"), *arrays])
    dtype = d.one(*dtypes("Clip"))
    low, high = sorted(d.array((2,), dtype).tolist())
    bounds = [np.array(v).astype(d.array((), dtype).dtype) for v in (low, high)]
    given = [b if d.flag() else None for b in bounds]
    return Case(op_type, [d.array(shape, dtype, True), *given])


def arithmetic(d: Draw) -> Case:
    """Mod, Pow and BitShift."""
    op_type, shape = d.one("Mod", "Pow", "BitShift"), d.shape()
    dtype = d.one(*dtypes(op_type))
    x, other = d.array(shape, dtype, op_type != "Pow"), d.narrower(shape)
    if op_type == "BitShift":
        bits = ELEMENT_BYTES[dtype] * 8
        counts = d.random.integers(0, bits, other).astype(dtype)
        return Case(op_type, [x, counts], {"direction": d.one("LEFT", "RIGHT")})
    if op_type == "Mod":
        kind = 1 if "float" in dtype else d.integer(0, 1)
        return Case(op_type, [x, d.array(other, dtype)], {"fmod": kind} if kind else {})
    exponent = d.array(other, d.one(*dtypes("Pow", 1)))
    if exponent.dtype.kind in "iu" and x.dtype.kind in "iu":
        exponent = np.abs(exponent)
    return Case(op_type, [x, exponent])


def cast(d: Draw) -> Case:
    """Any type to any other."""
    source, target = d.one(*ELEMENT_BYTES), d.one(*ELEMENT_BYTES)
    x = d.array(d.shape(), source)
    element = onnx.helper.np_dtype_to_tensor_dtype(d.array((), target).dtype)
    return Case("Cast", [x], {"to": element})


def reduction(d: Draw) -> Case:
    """Reductions over any axes, the last ones or all."""
    kinds = "L1 L2 LogSum LogSumExp Max Mean Min Prod Sum SumSquare".split()
    op_type = "Reduce" + d.one(*kinds)
    dtype, shape = d.one(*dtypes(op_type)), d.shape()
    x = d.array(shape, dtype)
    x = np.abs(x) if op_type == "ReduceLogSum" and x.dtype != bool else x
    axes = [a - d.one(0, len(shape)) for a in range(len(shape)) if d.flag()]
    attributes = {"keepdims": d.integer(0, 1)} if d.flag() else {}
    if not axes and d.flag():
        attributes["noop_with_empty_axes"] = d.integer(0, 1)
    return Case(op_type, [x, d.integral(axes)] if axes or d.flag() else [x], attributes)


def position(d: Draw) -> Case:
    """ArgMax and ArgMin."""
    op_type, shape = d.one("ArgMax", "ArgMin"), d.shape(1, empty=False)
    attributes: dict[str, Any] = {"axis": d.integer(-len(shape), len(shape) - 1)}
    attributes |= {n: d.integer(0, 1) for n in ("keepdims", "select_last_index") if d.flag()}
    return Case(op_type, [d.array(shape, d.one(*dtypes(op_type)))], attributes)


def normalization(d: Draw) -> Case:
    """Softmax and normalisations over axes."""
    op_type = d.one(
        *("Softmax", "LogSoftmax", "LpNormalization", "LayerNormalization", "RMSNormalization")
    )
    shape, dtype = d.shape(1, empty=False), d.one(*FLOATS)
    axis = d.integer(-len(shape), len(shape) - 1)
    attributes: dict[str, Any] = {"axis": axis} if d.flag() else {}
    axis = attributes.get("axis", -1)
    inputs: list[Array | None] = [d.array(shape, dtype)]
    if op_type == "LpNormalization" and d.flag():
        attributes["p"] = d.integer(1, 2)
    if op_type in ("LayerNormalization", "RMSNormalization"):
        attributes |= {"epsilon": 0.1} if d.flag() else {}
        tail = shape[axis % len(shape) :]
        count = 1 + (op_type == "LayerNormalization" and d.flag())
        inputs += [d.array(tail, dtype) for _ in range(count)]
    outputs = d.integer(1, 3) if op_type == "LayerNormalization" else 1
    return Case(op_type, inputs, attributes, outputs)


def channel_normalization(d: Draw) -> Case:
    """Normalisations of (N, C, ...)."""
    op_type = d.one(
        "InstanceNormalization", "GroupNormalization", "BatchNormalization", "LRN",
        "MeanVarianceNormalization",
    )  # fmt: skip
    dtype, groups = d.one(*FLOATS), d.integer(1, 3)
    spatial = d.integers(d.integer(1, 3), 1, 4)
    shape = (d.integer(1, 2), groups * d.integer(1, 3), *spatial)
    x = d.array(shape, dtype)
    parts: list[Array | None] = [d.array(shape[1:2], dtype) for _ in range(3)]
    variance = np.abs(d.array(shape[1:2], dtype)) + np.asarray(0.5).astype(x.dtype)
    epsilon = {"epsilon": 0.25} if d.flag() else {}
    match op_type:
        case "LRN":
            numbers = {n: d.one(0.25, 0.5, 1.0) for n in ("alpha", "beta", "bias") if d.flag()}
            return Case(op_type, [x], {"size": d.one(1, 3, 5, 7), **numbers})
        case "MeanVarianceNormalization":
            axes = [a for a in range(len(shape)) if d.flag()] or [0]
            return Case(op_type, [x], {"axes": axes})
        case "BatchNormalization":
            return Case(op_type, [x, *parts, variance], epsilon)
        case "GroupNormalization":
            return Case(op_type, [x, *parts[:2]], {"num_groups": groups, **epsilon})
        case _:
            return Case(op_type, [x, *parts[:2]], epsilon)


def _windows(d: Draw, rank: int, kernel: list[int]) -> dict[str, Any]:
    """Attributes of a sliding window, each of them there or not."""
    attributes: dict[str, Any] = {}
    if d.flag():
        attributes["strides"] = d.integers(rank, 1, 3)
    if d.flag():
        attributes["dilations"] = d.integers(rank, 1, 2)
    if d.flag():
        attributes["pads"] = [d.integer(0, k - 1) for k in kernel * 2]
    return attributes


def pooling(d: Draw) -> Case:
    """MaxPool, AveragePool (mostly) and LpPool in one to three dimensions."""
    op_type = d.one("MaxPool", "AveragePool", "AveragePool", "LpPool")
    rank = d.integer(1, 3)
    kernel = d.integers(rank, 1, 3)
    shape = (d.integer(1, 2), d.integer(1, 3), *[2 * k + d.integer(0, 3) for k in kernel])
    attributes = {"kernel_shape": kernel, **_windows(d, rank, kernel)}
    if d.flag():
        attributes["ceil_mode"] = d.integer(0, 1)
    if op_type == "AveragePool" and d.flag():
        attributes["count_include_pad"] = d.integer(0, 1)
    if op_type == "LpPool" and d.flag():
        attributes["p"] = d.integer(1, 3)
    outputs = 1
    if op_type == "MaxPool":
        outputs = d.integer(1, 2)
    return Case(op_type, [d.array(shape, d.one(*dtypes(op_type)))], attributes, outputs)


def global_pooling(d: Draw) -> Case:
    """Pooling over all spatial axes."""
    op_type = d.one("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
    attributes = {"p": d.integer(1, 3)} if op_type == "GlobalLpPool" and d.flag() else {}
    shape = d.shape(3, 5, empty=False)
    return Case(op_type, [d.array(shape, d.one(*FLOATS))], attributes)


def convolution(d: Draw) -> Case:
    """Conv and ConvTranspose in one to three dimensions, with groups and all attributes."""
    transposed, rank, dtype = d.flag(), d.integer(1, 3), d.one(*FLOATS)
    kernel, groups = d.integers(rank, 1, 3), d.integer(1, 3)
    attributes = _windows(d, rank, kernel)
    if groups > 1:
        attributes["group"] = groups
    inner, outer = groups * d.integer(1, 2), d.integer(1, 2)
    x = d.array((d.integer(1, 2), inner, *[2 * k + d.integer(0, 2) for k in kernel]), dtype)
    channels = (inner, outer) if transposed else (outer * groups, inner // groups)
    inputs: list[Array | None] = [x, d.array((*channels, *kernel), dtype)]
    if d.flag():
        inputs.append(d.array((outer * groups,), dtype))
    if transposed and d.flag():
        ones = [1] * rank
        limits = zip(
            attributes.get("strides", ones), attributes.get("dilations", ones), strict=True
        )
        attributes["output_padding"] = [d.integer(0, max(limit) - 1) for limit in limits]
    return Case("ConvTranspose" if transposed else "Conv", inputs, attributes)


def integer_contraction(d: Draw) -> Case:
    """MatMulInteger and ConvInteger, with zero points or without."""
    first, second = d.one("int8", "uint8"), d.one("int8", "uint8")
    zeros = [d.array((), first), d.array((), second)][: d.integer(0, 2)]
    if d.flag():
        rows, inner, columns = d.integers(3, 1, 9)
        batch = d.shape(0, 2, empty=False)
        left, right = (*d.narrower(batch), rows, inner), (*batch, inner, columns)
        return Case("MatMulInteger", [d.array(left, first), d.array(right, second), *zeros], {})
    rank = d.integer(1, 3)
    kernel, groups = d.integers(rank, 1, 3), d.integer(1, 3)
    attributes = _windows(d, rank, kernel) | ({"group": groups} if groups > 1 else {})
    inner, outer = d.integer(1, 5), d.integer(1, 3)
    x = d.array(
        (d.integer(1, 2), groups * inner, *[2 * k + d.integer(0, 2) for k in kernel]), first
    )
    w = d.array((outer * groups, inner, *kernel), second)
    return Case("ConvInteger", [x, w, *zeros], attributes)


def packed_contraction(d: Draw) -> Case:
    """MatMulNBits of weights of four bits, with zero points or without."""
    depth, columns, size = d.integer(1, 70), d.integer(1, 5), d.one(16, 32)
    blocks = -(-depth // size)
    x = d.array((*d.shape(0, 2, empty=False), d.integer(1, 3), depth), "float32")
    packed = d.random.integers(0, 256, (columns, blocks, size // 2)).astype(np.uint8)
    inputs: list[Array | None] = [x, packed, d.array((columns, blocks), "float32")]
    if d.flag():
        inputs.append(d.random.integers(0, 256, (columns, -(-blocks // 2))).astype(np.uint8))
    sizes = {"K": depth, "N": columns, "bits": 4, "block_size": size}
    return Case("MatMulNBits", inputs, sizes)


def contraction(d: Draw) -> Case:
    """MatMul, Gemm and Einsum."""
    op_type = d.one("MatMul", "Gemm", "Einsum")
    if op_type == "Einsum":
        return _einsum(d)
    dtype = d.one(*dtypes(op_type))
    rows, inner, columns = d.integers(3, 1, 4)
    if op_type == "Gemm":
        return _gemm(d, dtype, rows, inner, columns)
    batch = d.shape(0, 2)
    left = () if d.integer(0, 5) == 0 else (*d.narrower(batch), rows)
    right = (inner,) if d.integer(0, 5) == 0 else (*batch, inner, columns)
    return Case(op_type, [d.array((*left, inner), dtype), d.array(right, dtype)])


def _gemm(d: Draw, dtype: str, rows: int, inner: int, columns: int) -> Case:
    flips = {name: d.integer(0, 1) for name in ("transA", "transB") if d.flag()}
    left = (inner, rows) if flips.get("transA") else (rows, inner)
    right = (columns, inner) if flips.get("transB") else (inner, columns)
    scales = {n: d.one(0.5, -1.5, 2.0, 0.0) for n in ("alpha", "beta") if d.flag()}
    if dtype[0] == "u":  # what a negative number is in an unsigned type is undefined
        scales = {name: abs(scale) for name, scale in scales.items()}
    inputs: list[Array | None] = [d.array(left, dtype), d.array(right, dtype)]
    if d.flag():
        inputs.append(d.array(d.narrower((rows, columns)), dtype))
    return Case("Gemm", inputs, {**flips, **scales})


_EQUATIONS = (
    "ij,jk->ik", "bij,bjk", "i,j->ij", "ii->i", "ij->ji", "ij->", "...ij,...jk->...ik",
    "ij,jk,kl->il", "bhid,bhjd->bhij", "...i->...", "ij->j", "ba",
    " i j , j k -> i k ", "ij,ij->", "i,i",
)  # fmt: skip


def _einsum(d: Draw) -> Case:
    equation, dtype = d.one(*_EQUATIONS), d.one(*dtypes("Einsum"))
    sizes = {letter: d.integer(1, 3) for letter in "abdhijkl"}
    batch = d.shape(0, 2, empty=False)
    inputs: list[Array | None] = []
    for term in equation.replace(" ", "").split("->")[0].split(","):
        lead = batch if term.startswith("...") else ()
        inputs.append(d.array((*lead, *[sizes[x] for x in term if x != "."]), dtype))
    return Case("Einsum", inputs, {"equation": equation})


def quantisation(d: Draw) -> Case:
    """QuantizeLinear and DequantizeLinear by one scale, along an axis, or in blocks."""
    shape = tuple(d.integers(d.integer(1, 3), 2, 5))
    axis, block = d.integer(0, len(shape) - 1), 0
    match d.integer(0, 3):
        case 0 | 1:
            parts = d.one((), (1,))
        case 2:
            parts = (shape[axis],)
        case _:
            block = d.integer(2, shape[axis])
            parts = (*shape[:axis], -(-shape[axis] // block), *shape[axis + 1 :])
    own = {"axis": d.one(axis, axis - len(shape)), "block_size": block} if parts else {}
    code = np.dtype(d.one("int8", "uint8", "int16", "uint16", *FLOAT8_TYPES))
    kind = d.one("float32", "float16") if code.itemsize == 1 else "float32"
    scale = (2.0 ** d.random.integers(-3, 3, parts) * d.one(1, 1.1)).astype(kind)
    whole = d.flag() or "float" in code.name
    zero = None if whole else np.asarray(d.random.integers(0, 9, parts)).astype(code)
    if d.flag():
        codes = d.array(shape, "float32" if whole else "int32").astype(code)
        return Case("DequantizeLinear", [codes, scale, zero], own)
    typed = {} if zero is not None else {"output_dtype": onnx.helper.np_dtype_to_tensor_dtype(code)}
    saturates = {"saturate": int(d.flag())} if "float" in code.name else {}
    numbers = d.array(shape, kind)
    return Case("QuantizeLinear", [numbers * 20, scale, zero], own | typed | saturates)


FAMILIES: dict[str, Callable[[Draw], Case]] = {
    f.__name__: f
    for f in (
        *(unary, binary, activation, variadic, selection, arithmetic, cast, reduction, position),
        *(normalization, channel_normalization, pooling, global_pooling, convolution, contraction),
        *(integer_contraction, packed_contraction, quantisation),
    )
}
"""The generators of this module by name."""


class _Shrinking(Draw):
    """Draws by Hypothesis, which can then make a case smaller."""

    def __init__(self, draw: st.DrawFn):
        super().__init__(draw(st.integers(0, 2**32 - 1)))
        self.draw = draw

    def integer(self, low: int, high: int) -> int:
        """An integer of a range, its ends included."""
        return self.draw(st.integers(low, high))


def cases(family: Callable[[Draw], Case]) -> st.SearchStrategy[Case]:
    """Cases of one family of operators."""
    return st.composite(lambda draw: family(_Shrinking(draw)))()
