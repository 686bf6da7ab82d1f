"""The Hypothesis generators of every test: graphs, models with data, and pipelines.

Generated models use values of a few units and stay there, so float results may be compared with
small tolerances and int32 results (`dtype="int32"`) must agree in every bit. `mixed_models.py` has
ONNX models with control flow, symbolic dimensions and quantised operators, those of a run and of
four bits included, `shared_models.py` ones of weights and inputs shared around control flow,
`controlled.py` schedules with bodies.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import prod
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from compiler.ir.types import shape_of
from compiler.net.four_bits import four_bit_numbers
from compiler.scheduling.policies.streams import STREAM_ASSIGNMENTS
from compiler.support.dag import DAG
from tests.graphs import GraphBuilder

Array = NDArray[np.generic]
BLOCK_SIZES = (16, 32, 64, 128, 256)
"""The weights of four bits that share a scale."""
LARGEST = 64
"""No intermediate tensor is larger than this in magnitude (Clip keeps it so)."""


@st.composite
def dags(draw: st.DrawFn, max_nodes: int = 24, max_cost: int = 1000) -> DAG:
    """Weighted graphs of 1 to `max_nodes` nodes, from chains to dense ones; costs may be 0."""
    count = draw(st.integers(1, max_nodes))
    density = draw(st.sampled_from([0.05, 0.15, 0.4, 0.8]))
    reach = draw(st.sampled_from([2, 6, max_nodes]))
    random = draw(st.randoms(use_true_random=False))
    costs = [random.randint(0, max_cost) for _ in range(count)]
    near = ((u, v) for v in range(count) for u in range(max(0, v - reach), v))
    return DAG.from_edges(costs, [edge for edge in near if random.random() < density])


@st.composite
def tensors(
    draw: st.DrawFn, shape: Sequence[int], dtype: str = "float32", whole: bool = False
) -> Array:
    """An array of small values, with `whole` whole numbers, from one drawn seed."""
    random = np.random.default_rng(draw(st.integers(0, 2**16)))
    if dtype.startswith("float") and not whole:
        return random.uniform(-2, 2, tuple(shape)).astype(dtype)
    return random.integers(-8, 9, tuple(shape)).astype(dtype)


@dataclass(frozen=True)
class Model:
    """A module with its weights and random inputs: what `interpret` takes."""

    module: ModuleOp
    weights: dict[str, Array]
    inputs: dict[str, Array]

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Show a falsifying example as the IR is at that time."""
        printer.text(f"{self.module!s}")


@dataclass
class _State:
    """A model while it is drawn: all tensors so far, with a bound on their magnitude."""

    draw: st.DrawFn
    dtype: str
    whole: bool = False
    build: GraphBuilder = field(default_factory=GraphBuilder)
    bounds: dict[SSAValue, float] = field(default_factory=dict[SSAValue, float])

    @property
    def floating(self) -> bool:
        """Whether the tensors have floating-point numbers."""
        return self.dtype.startswith("float")

    @property
    def exact(self) -> bool:
        """Whether the tensors have whole numbers only."""
        return self.whole or not self.floating

    def pick(self, fits: Callable[[SSAValue], bool] = lambda _: True) -> SSAValue | None:
        """A tensor that fits, recent ones more often, or None."""
        fitting = [value for value in self.bounds if fits(value)]
        recent = st.sampled_from(fitting[-3:]) if fitting else st.none()
        return self.draw(recent | st.sampled_from(fitting)) if fitting else None

    def weight(self, shape: Sequence[int]) -> SSAValue:
        """A new weight, mostly; else a tensor of that shape."""
        other = self.pick(lambda v: shape_of(v.type) == tuple(shape))
        if other is not None and self.draw(st.integers(0, 3)) == 0:
            return other
        value = self.build.weight(self.draw(tensors(shape, self.dtype, self.whole)))
        self.bounds[value] = 8
        return value

    def integers(self, values: Sequence[int]) -> SSAValue:
        """A structural constant."""
        return self.build.constant(list(values), "int64")

    def add(self, value: SSAValue, bound: float) -> None:
        """Keep a new tensor, clipped where it may have become large."""
        if bound > LARGEST:
            low, high = (self.build.constant(x, self.dtype) for x in (-8, 8))
            value, bound = self.build.op("Clip", value, low, high), 8
        self.bounds[value] = bound


def _shape(value: SSAValue) -> tuple[int, ...]:
    return shape_of(value.type)


def _unary(state: _State) -> None:
    x = state.pick()
    assert x is not None
    names = ["Relu", "Neg", "Abs"]
    if not state.exact:
        names += ["Tanh", "Sigmoid", "Erf", "LeakyRelu", "HardSwish"]
    state.add(state.build.op(state.draw(st.sampled_from(names)), x), state.bounds[x] + 1)


def _binary(state: _State) -> None:
    x = state.pick()
    assert x is not None
    shape = _shape(x)
    kept = [size if state.draw(st.booleans()) else 1 for size in shape]
    cut = state.draw(st.integers(0, len(shape)))
    other = state.draw(st.sampled_from([shape, tuple(kept), tuple(kept)[cut:]]))
    y = state.weight(other) if state.draw(st.booleans()) else None
    y = y or state.pick(lambda v: _shape(v) == other) or state.build.constant(2, state.dtype)
    pair = state.draw(st.permutations([x, y]))
    name = state.draw(st.sampled_from(["Add", "Sub", "Mul", "Max", "Min"]))
    bounds = [state.bounds.get(v, 2) for v in pair]
    state.add(state.build.op(name, *pair), prod(bounds) if name == "Mul" else sum(bounds))


def _matmul(state: _State) -> None:
    x = state.pick(lambda v: len(_shape(v)) >= 2)
    if x is not None:
        *batch, rows, inner = _shape(x)
        columns = state.draw(st.integers(1, 4))
        y = state.weight((inner, columns))
        product = state.build.op("MatMul", x, y, shape=(*batch, rows, columns))
        state.add(product, inner * state.bounds[x] * state.bounds[y])


def _convolution(state: _State) -> None:
    x = state.pick(lambda v: len(_shape(v)) == 4)
    if x is not None and state.floating:
        images, channels, height, width = _shape(x)
        size = state.draw(st.sampled_from([1, 3]))
        depthwise = state.draw(st.booleans())
        filters = channels if depthwise else state.draw(st.integers(1, 4))
        w = state.weight((filters, 1 if depthwise else channels, size, size))
        operands = [x, w, state.weight((filters,))][: state.draw(st.integers(2, 3))]
        pads, group = [size // 2] * 4, channels if depthwise else 1
        shape = (images, filters, height, width)
        y = state.build.op(
            "Conv", *operands, shape=shape, pads=pads, group=group, kernel_shape=[size, size]
        )
        state.add(y, LARGEST + 1)


def _pool(state: _State) -> None:
    x = state.pick(lambda v: len(_shape(v)) == 4)
    if x is not None and not state.exact:
        name = state.draw(st.sampled_from(["MaxPool", "AveragePool"]))
        pooled = state.build.op(name, x, shape=_shape(x), kernel_shape=[3, 3], pads=[1] * 4)
        state.add(pooled, state.bounds[x])


def _reduction(state: _State) -> None:
    x = state.pick(lambda v: len(_shape(v)) >= 1)
    if x is not None:
        shape = _shape(x)
        axis = state.draw(st.integers(0, len(shape) - 1))
        keep = state.draw(st.integers(0, 1))
        name = state.draw(st.sampled_from(["ReduceSum", "ReduceMax", "ReduceMin"]))
        if not state.exact and state.draw(st.booleans()):
            name = "ReduceMean"
        result = (*shape[:axis], *[1] * keep, *shape[axis + 1 :])
        y = state.build.op(name, x, state.integers([axis]), shape=result, keepdims=keep)
        state.add(y, state.bounds[x] * shape[axis])


def _normalization(state: _State) -> None:
    x = state.pick(lambda v: len(_shape(v)) >= 1)
    if x is not None and not state.exact:
        if state.draw(st.booleans()):
            state.add(state.build.op("Softmax", x, axis=-1), 1)
        else:
            scale = state.weight(_shape(x)[-1:])
            y = state.build.op("LayerNormalization", x, scale, shape=_shape(x), epsilon=0.1)
            state.add(y, LARGEST + 1)


def _differ_only_on(axis: int, x: SSAValue, y: SSAValue) -> bool:
    a, b = _shape(x), _shape(y)
    return len(a) == len(b) and a[:axis] == b[:axis] and a[axis + 1 :] == b[axis + 1 :]


def _concat(state: _State) -> None:
    x = state.pick(lambda v: len(_shape(v)) >= 1)
    if x is not None:
        shape = _shape(x)
        axis = state.draw(st.integers(0, len(shape) - 1))
        others = st.integers(1, 2)
        fits = partial(_differ_only_on, axis, x)
        parts = [x, *(state.pick(fits) or x for _ in range(state.draw(others)))]
        size = sum(_shape(v)[axis] for v in parts)
        if size <= 16:
            result = (*shape[:axis], size, *shape[axis + 1 :])
            y = state.build.op("Concat", *parts, shape=result, axis=axis)
            state.add(y, max(state.bounds[v] for v in parts))


def _split(state: _State) -> None:
    x = state.pick(lambda v: any(size >= 2 for size in _shape(v)))
    if x is not None:
        shape = _shape(x)
        axis = state.draw(st.sampled_from([i for i, size in enumerate(shape) if size >= 2]))
        first = state.draw(st.integers(1, shape[axis] - 1))
        sizes = [first, shape[axis] - first]
        shapes = [(*shape[:axis], size, *shape[axis + 1 :]) for size in sizes]
        for value in state.build.split("Split", [x, state.integers(sizes)], shapes, axis=axis):
            state.add(value, state.bounds[x])


def _slice(state: _State) -> None:
    x = state.pick(lambda v: any(size >= 2 for size in _shape(v)))
    if x is not None:
        shape = _shape(x)
        axis = state.draw(st.sampled_from([i for i, size in enumerate(shape) if size >= 2]))
        start = state.draw(st.integers(0, shape[axis] - 1))
        result = (*shape[:axis], shape[axis] - start, *shape[axis + 1 :])
        bounds = (state.integers([value]) for value in (start, shape[axis], axis))
        state.add(state.build.op("Slice", x, *bounds, shape=result), state.bounds[x])


def _reshape(state: _State) -> None:
    x = state.pick(lambda v: len(_shape(v)) >= 1)
    if x is not None:
        shape = _shape(x)
        cut = state.draw(st.integers(1, len(shape)))
        result = state.draw(
            st.sampled_from([(prod(shape),), (1, *shape), (prod(shape[:cut]), *shape[cut:])])
        )
        y = state.build.op("Reshape", x, state.integers(result), shape=result)
        state.add(y, state.bounds[x])


def _transpose(state: _State) -> None:
    x = state.pick(lambda v: len(_shape(v)) >= 2)
    if x is not None:
        order = state.draw(st.permutations(range(len(_shape(x)))))
        result = tuple(_shape(x)[axis] for axis in order)
        y = state.build.op("Transpose", x, shape=result, perm=list(order))
        state.add(y, state.bounds[x])


def _siblings(state: _State) -> None:
    """Two MatMuls or convolutions of one tensor, or with the same weights, and their sum."""
    x = state.pick(lambda v: len(_shape(v)) >= 2)
    if x is None:
        return
    other = state.pick(lambda v: _shape(v) == _shape(x)) or x
    weights = _kernels if len(_shape(x)) == 4 and state.draw(st.booleans()) else _columns
    kind, shape, result = weights(_shape(x))
    first = state.weight(shape)
    same = state.draw(st.booleans())
    second = first if same else state.weight(shape)
    operands = (x, first), (other if same or state.draw(st.booleans()) else x, second)
    pair = [state.build.op(kind, *given, shape=result) for given in operands]
    bound = 8 * max(shape) * max(state.bounds[x], state.bounds[other])
    if state.draw(st.booleans()):
        state.add(state.build.op("Add", *pair), 2 * bound)
    for value in pair:
        state.bounds[value] = bound


def _kernels(shape: tuple[int, ...]) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
    """The 1x1 convolution of an image, its weights and its result."""
    return "Conv", (2, shape[1], 1, 1), (shape[0], 2, *shape[2:])


def _columns(shape: tuple[int, ...]) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
    """The MatMul of a tensor, its weights and its result."""
    return "MatMul", (shape[-1], 2), (*shape[:-1], 2)


_STEPS = [
    _unary, _unary, _unary, _binary, _binary, _binary, _matmul, _matmul, _convolution,
    _convolution, _pool, _reduction, _normalization, _concat, _split, _slice, _reshape, _transpose,
]  # fmt: skip


_EXACT = [
    _unary, _binary, _binary, _matmul, _convolution, _siblings, _siblings, _siblings, _concat,
    _concat, _split, _slice, _reshape, _transpose,
]  # fmt: skip
_REWRITABLE = [*_EXACT, _pool, _normalization]


@st.composite
def rewritable_graphs(draw: st.DrawFn, whole: bool = False, max_operators: int = 10) -> Model:
    """Models of float64 with many places for substitutions; with `whole` of whole numbers only."""
    steps = _EXACT if whole else _REWRITABLE
    return _model(_State(draw, "float64", whole), steps, max_operators)


@st.composite
def dataflow_graphs(draw: st.DrawFn, dtype: str = "float32", max_operators: int = 12) -> Model:
    """Valid ungrouped models of real ONNX operators over tensors of a few dozen elements.

    They have one or two inputs, one to three outputs (inputs, weights and repeated values among
    them) and operators whose results nobody uses.
    """
    return _model(_State(draw, dtype), _STEPS, max_operators)


def _model(state: _State, steps: Sequence[Callable[[_State], None]], most: int) -> Model:
    """A model of one to `most` steps."""
    draw, dtype = state.draw, state.dtype
    shapes = st.sampled_from([(1, 2, 4, 4), (1, 3, 2, 3), (2, 3, 4), (1, 4), (3, 4), (1, 2, 6)])
    count = draw(st.integers(1, 2))
    inputs = [draw(tensors(draw(shapes), dtype, state.whole)) for _ in range(count)]
    for index, array in enumerate(inputs):
        state.bounds[state.build.input(f"x{index}", array.shape, dtype)] = 8
    for _ in range(draw(st.integers(1, most))):
        draw(st.sampled_from(steps))(state)
    last = list(state.bounds)[-1]
    others = [state.pick() for _ in range(draw(st.integers(0, 2)))]
    outputs = [last, *(value for value in others if value is not None)]
    module = state.build.finish(*outputs)
    return Model(module, state.build.weights, {f"x{i}": a for i, a in enumerate(inputs)})


STREAMS = tuple(sorted(STREAM_ASSIGNMENTS))
PARTITIONS = ("ppd", "balanced", "none")
ORDERS = ("source", "critical-path", "opara")


@st.composite
def pipelines(draw: st.DrawFn, schedule: bool = True) -> str:
    """Pipelines of legal order with random options; with `schedule` they end in `taskflow`."""
    passes = ["canonicalize"] if draw(st.booleans()) else []
    limits = ("", "{max-ops=1}", "{max-ops=4}")
    passes.append(f"fuse-operators{draw(st.sampled_from(limits))}")
    if draw(st.booleans()):
        policy, most = draw(st.sampled_from(PARTITIONS)), draw(st.integers(1, 8))
        passes.append(f"partition-graph{{policy={policy} max-nodes={most}}}")
    streams, policy = draw(st.integers(1, 4)), draw(st.sampled_from(STREAMS))
    passes.append(f"assign-streams{{policy={policy} streams={streams}}}")
    if draw(st.booleans()):
        passes.append(f"order-launches{{policy={draw(st.sampled_from(ORDERS))}}}")
    passes += ["keep-weights{cache-bytes=64}"] if draw(st.booleans()) else []
    if schedule:
        passes += ["lower-to-taskflow", "insert-sync"]
        passes += ["elide-sync"] if draw(st.booleans()) else []
        passes.append(f"plan-memory{{reuse={draw(st.sampled_from(['none', 'concurrent']))}}}")
    return ",".join(passes)


@dataclass(frozen=True)
class FourBitMatmul:
    """The operands of a MatMulNBits, its attributes, and its result in float64."""

    operands: tuple[Array, ...]
    attributes: dict[str, int]

    @property
    def expected(self) -> NDArray[np.float64]:
        """The matmul by the numbers that the weights stand for."""
        x, packed, scales, *zeros = self.operands
        zero = zeros[0] if zeros else None
        if zero is not None and zero.dtype != np.uint8:
            zero = zero.astype(np.float64)
        weight = four_bit_numbers(packed, scales.astype(np.float64), zero, self.attributes["K"])
        return x.astype(np.float64) @ weight.T


def four_bit_operands(
    rows: Sequence[int], depth: int, columns: int, size: int, zeros: str = "", seed: int = 0
) -> FourBitMatmul:
    """Random operands; `zeros` is the dtype of the zero points, if there are any."""
    random, blocks = np.random.default_rng(seed), -(-depth // size)
    packed = random.integers(0, 256, (columns, blocks, size // 2)).astype(np.uint8)
    scales = random.uniform(0.01, 0.1, (columns, blocks)).astype(np.float32)
    operands = [random.standard_normal((*rows, depth)).astype(np.float32), packed, scales]
    if zeros == "uint8":
        operands.append(random.integers(0, 256, (columns, -(-blocks // 2))).astype(np.uint8))
    elif zeros:
        operands.append(random.uniform(0, 15, (columns, blocks)).astype(zeros))
    sizes = {"K": depth, "N": columns, "bits": 4, "block_size": size}
    return FourBitMatmul(tuple(operands), sizes)


@st.composite
def four_bit_matmuls(draw: st.DrawFn, most_rows: int = 16) -> FourBitMatmul:
    """Matmuls of up to `most_rows` rows, whose last block may not be whole."""
    rows = [draw(st.integers(1, most_rows))]
    if draw(st.booleans()):
        rows = [1, *rows]
    depth = draw(st.one_of(st.integers(1, 80), st.sampled_from([256, 260, 512, 521])))
    columns = draw(st.one_of(st.integers(1, 9), st.sampled_from([16, 33, 64, 70])))
    size = draw(st.sampled_from(BLOCK_SIZES))
    zeros = draw(st.sampled_from(["", "uint8", "float32"]))
    return four_bit_operands(rows, depth, columns, size, zeros, draw(st.integers(0, 99)))
