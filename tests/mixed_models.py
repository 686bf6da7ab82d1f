"""Random models in which control flow, symbolic dimensions and quantised operators meet.

Tensors are float32 of some rows of `WIDTH` whole numbers from -8 to 8, so that scales of powers of
two quantise them to the same integers everywhere; the results of a dynamic quantisation, whose
scale is any number, are summed and returned only.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from math import prod
from random import Random
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

WIDTH, ROWS = 4, 3
"""Columns of all tensors, and rows of the inputs of a model without symbolic dimensions."""

SCALES = (0.5, 1.0, 2.0)


@dataclass(frozen=True)
class Rows:
    """A tensor's name, the name of its number of rows, and whether its numbers are whole."""

    name: str
    rows: str
    whole: bool = True


@dataclass
class _Graph:
    """A graph while it is drawn: its nodes, and the tensors that they may read."""

    random: Random
    symbolic: bool
    constants: list[onnx.TensorProto]
    tensors: list[Rows]
    depth: int = 0
    numbers: Iterator[int] = field(default_factory=count)
    nodes: list[onnx.NodeProto] = field(default_factory=list[onnx.NodeProto])

    def name(self, stem: str) -> str:
        """A name that no other value of the model has."""
        return f"{stem}{next(self.numbers)}"

    def constant(self, value: object, dtype: str = "float32") -> str:
        """A new initializer of the model."""
        name = self.name("c")
        element = getattr(ml_dtypes, dtype) if dtype.endswith("int4") else dtype
        self.constants.append(numpy_helper.from_array(np.array(value).astype(element), name))
        return name

    def add(self, type: str, *inputs: str, outputs: int = 1, **attributes: Any) -> list[str]:
        """The outputs of a new node."""
        names = [self.name("v") for _ in range(outputs)]
        self.nodes.append(helper.make_node(type, inputs, names, name=names[0], **attributes))
        return names

    def one(self, type: str, *inputs: str, **attributes: Any) -> str:
        """The only output of a new node."""
        return self.add(type, *inputs, **attributes)[0]

    def pick(self, fits: Callable[[Rows], bool] = lambda t: t.whole) -> Rows:
        """One of the tensors that fit; a graph has whole ones of every number of rows."""
        return self.random.choice([t for t in self.tensors if fits(t)])

    def keep(self, name: str, like: Rows, rows: str = "") -> None:
        """A new tensor of whole numbers, clipped."""
        low, high = self.constant(-8), self.constant(8)
        self.tensors.append(Rows(self.one("Clip", name, low, high), rows or like.rows))

    def whole_number(self, most: int) -> str:
        """A number of int64 from 0 to below `most`, which only the data decide."""
        total = self.one("ReduceSum", self.pick().name, keepdims=0)
        number = self.one("Abs", self.one("Cast", total, to=TensorProto.INT64))
        return self.one("Mod", number, self.constant(most, "int64"))

    def condition(self) -> str:
        """A truth value that only the data decide."""
        return self.one("Equal", self.whole_number(2), self.constant(0, "int64"))

    def fill(self, most: int) -> None:
        """Draw nodes."""
        steps = [self.binary, self.pair, self.linear, self.dequantised, self.dynamic, self.sums]
        steps += [self.packed, self.unpacked]
        steps += [self.branches, self.loop] * (self.depth < 2)
        steps += [self.concat, self.cut, self.turned] * self.symbolic
        for _ in range(self.random.randint(1, most)):
            self.random.choice(steps)()

    def binary(self) -> None:
        """An operator on two tensors of as many rows."""
        x = self.pick()
        y = self.pick(lambda t: t.whole and t.rows == x.rows)
        type = self.random.choice(["Add", "Sub", "Mul", "Max"])
        self.keep(self.one(type, x.name, y.name), x)

    def code(self, dtype: str = "") -> list[str]:
        """A scale and a zero point."""
        dtype = dtype or self.random.choice(["uint8", "int8"])
        zero = self.random.randint(-3, 3) + (128 if dtype == "uint8" else 0)
        return [self.constant(self.random.choice(SCALES)), self.constant(zero, dtype)]

    def matrix(self) -> str:
        """Weights of int8."""
        size = range(WIDTH)
        return self.constant([[self.random.randint(-2, 2) for _ in size] for _ in size], "int8")

    def pair(self) -> None:
        """A QuantizeLinear and a DequantizeLinear."""
        x, code = self.pick(), self.code()
        rounded = self.one("DequantizeLinear", self.one("QuantizeLinear", x.name, *code), *code)
        self.keep(self.one("Round", rounded), x)

    def dequantised(self) -> None:
        """A MatMul of two dequantised tensors, which is one of bytes."""
        x, code, scale = self.pick(), self.code(), self.constant(self.random.choice(SCALES))
        numbers = self.one("DequantizeLinear", self.one("QuantizeLinear", x.name, *code), *code)
        weights = self.one("DequantizeLinear", self.matrix(), scale)
        self.keep(self.one("Round", self.one("MatMul", numbers, weights)), x)

    def linear(self) -> None:
        """A QLinearMatMul."""
        dtype = self.random.choice(["uint8", "int8"])  # onnxruntime takes one for both
        x, code, result = self.pick(), self.code(dtype), self.code(dtype)
        weights = [self.matrix(), self.constant(self.random.choice(SCALES)),
                   self.constant(self.random.randint(-1, 1), "int8")]  # fmt: skip
        bytes_ = self.one("QuantizeLinear", x.name, *code)
        bytes_ = self.one("QLinearMatMul", bytes_, *code, *weights, *result)
        self.keep(self.one("Round", self.one("DequantizeLinear", bytes_, *result)), x)

    def dynamic(self) -> None:
        """A MatMulInteger of a tensor that is quantised by its own range."""
        x = self.pick()
        quantised, scale, zero = self.add("DynamicQuantizeLinear", x.name, outputs=3)
        sums = self.one("MatMulInteger", quantised, *self.shifted(zero))
        numbers = self.one("Mul", self.one("Cast", sums, to=TensorProto.FLOAT), scale)
        self.tensors.append(Rows(self.one("Add", numbers, x.name), x.rows, whole=False))

    def shifted(self, zero: str) -> list[str]:
        """Weights and both zero points of a MatMulInteger whose left one is given."""
        if self.random.random() < 0.4:
            return [self.matrix(), zero]
        size, most = range(WIDTH), self.random.choice([127, 255])
        weights = [[self.random.randint(0, most) for _ in size] for _ in size]
        own = self.random.randint(0, 255)
        return [self.constant(weights, "uint8"), zero, self.constant(own, "uint8")]

    def packed(self) -> None:
        """A MatMulNBits of one block, whose last weights are not used."""
        x, columns = self.pick(), range(WIDTH)
        pairs = [[[self.random.randint(0, 255) for _ in range(8)]] for _ in columns]
        scales = [[self.random.choice(SCALES)] for _ in columns]
        operands = [self.constant(pairs, "uint8"), self.constant(scales)]
        if self.random.random() < 0.5:
            zeros = [[self.random.randint(0, 15)] for _ in columns]
            operands.append(self.constant(zeros, "uint8"))
        sizes = {"K": WIDTH, "N": WIDTH, "bits": 4, "block_size": 16, "accuracy_level": 1}
        result = self.one("MatMulNBits", x.name, *operands, domain="com.microsoft", **sizes)
        self.keep(self.one("Round", result), x)

    def unpacked(self) -> None:
        """A MatMul by dequantised weights of four bits, with one scale or one for each column."""
        x, dtype = self.pick(), self.random.choice(["int4", "uint4"])
        low, size = -8 if dtype == "int4" else 0, range(WIDTH)
        shape = self.random.choice([(), (WIDTH,)])
        weights = [[self.random.randint(low, low + 15) for _ in size] for _ in size]
        scales = np.reshape([self.random.choice(SCALES) for _ in range(prod(shape))], shape)
        operands = [self.constant(weights, dtype), self.constant(scales)]
        if self.random.random() < 0.5:
            zeros = [self.random.randint(low, low + 15) for _ in range(prod(shape))]
            operands.append(self.constant(np.reshape(zeros, shape), dtype))
        numbers = self.one("DequantizeLinear", *operands, axis=1)
        self.keep(self.one("Round", self.one("MatMul", x.name, numbers)), x)

    def sums(self) -> None:
        """The sums of columns, added to each row."""
        x = self.pick()
        columns = self.one("ReduceSum", x.name, self.constant([0], "int64"), keepdims=1)
        self.keep(self.one("Add", x.name, columns), x)

    def concat(self) -> None:
        """The rows of two tensors."""
        x, y = self.pick(), self.pick()
        if len(x.rows + y.rows) < 8:
            self.keep(self.one("Concat", x.name, y.name, axis=0), x, f"{x.rows}+{y.rows}")

    def cut(self) -> None:
        """The first rows of a tensor: as many as only the data decide."""
        x, first, last = self.pick(), self.constant([0], "int64"), self.whole_number(3)
        last = self.one("Add", last, self.constant([1], "int64"))
        self.keep(self.one("Slice", x.name, first, last, first), x, self.name("rows"))

    def turned(self) -> None:
        """The transpose of a tensor, in its own shape."""
        x = self.pick()
        turned = self.one("Transpose", x.name, perm=[1, 0])
        self.keep(self.one("Reshape", turned, self.one("Shape", x.name)), x)

    def inner(self, more: Sequence[Rows] = ()) -> "_Graph":
        """The graph of a body."""
        tensors = [*self.tensors, *more]
        depth = self.depth + 1
        return _Graph(self.random, self.symbolic, self.constants, tensors, depth, self.numbers)

    def result(self, rows: str) -> str:
        """A tensor of some rows as a result of a body."""
        return self.one("Identity", self.pick(lambda t: t.whole and t.rows == rows).name)

    def branches(self) -> None:
        """An If."""
        x, bodies = self.pick(), dict[str, onnx.GraphProto]()
        for branch in ("then_branch", "else_branch"):
            body = self.inner()
            body.fill(2)
            result = _info(body.result(x.rows))
            bodies[branch] = helper.make_graph(body.nodes, branch, [], [result])
        self.keep(self.one("If", self.condition(), **bodies), x)

    def loop(self) -> None:
        """A Loop with one carried tensor, and a trip count or a condition of the data."""
        x, names = self.pick(), [self.name(stem) for stem in ("step", "going", "state")]
        body = self.inner([Rows(names[2], x.rows)])
        body.fill(2)
        ends = self.random.random() < 0.5
        going = body.condition() if ends else body.one("Identity", names[1])
        inputs = [
            helper.make_tensor_value_info(names[0], TensorProto.INT64, []),
            helper.make_tensor_value_info(names[1], TensorProto.BOOL, []),
            _info(names[2]),
        ]
        outputs = [helper.make_tensor_value_info(going, TensorProto.BOOL, [])]
        graph = helper.make_graph(
            body.nodes, "body", inputs, [*outputs, _info(body.result(x.rows))]
        )
        start = self.constant(True, "bool")
        self.keep(self.one("Loop", self.whole_number(4), start, x.name, body=graph), x)


def _info(name: str, rows: int | str | None = None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, [rows, WIDTH])


@st.composite
def mixed_models(draw: st.DrawFn, symbolic: bool = True) -> onnx.ModelProto:
    """Models of inputs `x` and `y` float[n, 4], or without symbolic dimensions float[3, 4]."""
    return _drawn(draw(st.randoms(use_true_random=False)), symbolic)


def _drawn(random: Random, symbolic: bool) -> onnx.ModelProto:
    constants = list[onnx.TensorProto]()
    graph = _Graph(random, symbolic, constants, [Rows(name, "n") for name in "xy"])
    graph.fill(2)
    random.choice([graph.branches, graph.loop])()
    quantised = [graph.linear, graph.dequantised, graph.dynamic, graph.packed, graph.unpacked]
    random.choice(quantised)()
    results = list(dict.fromkeys([graph.tensors[-1], graph.tensors[-2], graph.pick()]))
    outputs = [graph.one("Identity", tensor.name) for tensor in results]
    rows = "n" if symbolic else ROWS
    made = helper.make_graph(
        graph.nodes, "mixed", [_info(n, rows) for n in "xy"], [*map(_info, outputs)], constants
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(made, opset_imports=opsets, ir_version=10)


def feeds(rows: int, seed: int) -> dict[str, np.ndarray]:
    """Inputs of a model."""
    random = np.random.default_rng(seed)
    return {name: random.integers(-8, 9, (rows, WIDTH)).astype("f4") for name in "xy"}
