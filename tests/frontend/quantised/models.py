"""Random models of quantised layers: each is dequantised, computed, and quantised again."""

from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import helper
from onnx.numpy_helper import from_array

BYTES = ("uint8", "int8")

FLOAT8 = {"float8_e4m3fn": ml_dtypes.float8_e4m3fn, "float8_e5m2": ml_dtypes.float8_e5m2}


@dataclass
class QuantisedModel:
    """A model under construction; `name` is the present tensor of floats, of `shape`."""

    draw: st.DrawFn
    numpy: np.random.Generator
    shape: tuple[int, ...]
    kinds: tuple[str, ...] = BYTES
    name: str = "x"
    nodes: list[onnx.NodeProto] = field(default_factory=list[onnx.NodeProto])
    constants: list[onnx.TensorProto] = field(default_factory=list[onnx.TensorProto])

    def constant(self, array: np.ndarray) -> str:
        """The name of a new initializer."""
        name = f"c{len(self.constants)}"
        self.constants.append(from_array(array, name))
        return name

    def add(self, type: str, *inputs: str, **attributes: Any) -> str:
        """The output of a new node."""
        output = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(type, list(inputs), [output], **attributes))
        return output

    def code(self, dtype: str, step: float) -> list[str]:
        """A scale and a zero point for the whole tensor."""
        if dtype in FLOAT8:
            zero = np.zeros((), FLOAT8[dtype])
            return [self.constant(np.array(step, np.float32)), self.constant(zero)]
        zero = self.numpy.integers(100, 140) if dtype == "uint8" else self.numpy.integers(-9, 9)
        return [self.constant(np.array(step, np.float32)), self.constant(np.array(zero, dtype))]

    def requantised(self, step: float) -> None:
        """Quantise and dequantise the present tensor."""
        code = self.code(self.draw(st.sampled_from(self.kinds)), step)
        self.name = self.add(
            "DequantizeLinear", self.add("QuantizeLinear", self.name, *code), *code
        )

    def weight(self, shape: tuple[int, ...], axis: int) -> str:
        """Dequantised weights, with a scale for each channel or one for all."""
        dtype = self.draw(st.sampled_from(self.kinds))
        size = (shape[axis],) if self.draw(st.booleans()) else ()
        if dtype in FLOAT8:
            numbers = (self.numpy.standard_normal(shape) * 32).astype(FLOAT8[dtype])
            scale = self.numpy.uniform(0.002, 0.02, size).astype(np.float32)
            operands = [self.constant(array) for array in (numbers, scale)]
            return self.add("DequantizeLinear", *operands, axis=axis)
        limits = np.iinfo(dtype)
        integers = self.numpy.integers(limits.min, limits.max + 1, shape).astype(dtype)
        scale = self.numpy.uniform(0.002, 0.02, size).astype(np.float32)
        middle = 0 if dtype == "int8" else 128
        zero = np.full(size, self.draw(st.sampled_from([middle, middle, middle + 9])), dtype)
        operands = [self.constant(array) for array in (integers, scale, zero)]
        return self.add("DequantizeLinear", *operands, axis=axis)

    def convolution(self) -> None:
        """A convolution with or without padding, groups and a bias."""
        groups = self.draw(st.sampled_from([1, 1, self.shape[1]]))
        filters = groups * self.draw(st.sampled_from([1, 2, 3, 5, 16]))
        kernel = self.draw(st.integers(1, 3))
        operands = [self.weight((filters, self.shape[1] // groups, kernel, kernel), 0)]
        if self.draw(st.booleans()):
            operands.append(self.constant(self.numpy.standard_normal(filters, np.float32)))
        pads = [kernel // 2] * 4
        self.name = self.add("Conv", self.name, *operands, pads=pads, group=groups)
        self.shape = (
            self.shape[0],
            filters,
            *(n + 2 * (kernel // 2) - kernel + 1 for n in self.shape[2:]),
        )

    def moved(self) -> None:
        """A pool, a Relu or a Transpose."""
        type = self.draw(st.sampled_from(["MaxPool", "Relu", "Transpose"]))
        if type == "MaxPool":
            self.name = self.add(type, self.name, kernel_shape=[2, 2], pads=[1, 1, 1, 1])
            self.shape = (*self.shape[:2], *(n + 1 for n in self.shape[2:]))
        elif type == "Relu":
            self.name = self.add(type, self.name)
        else:
            self.name = self.add(type, self.name, perm=[0, 1, 3, 2])
            self.shape = (*self.shape[:2], *self.shape[:1:-1])

    def matmul(self) -> None:
        """A MatMul by constant weights."""
        columns = self.draw(st.integers(1, 20))
        self.name = self.add("MatMul", self.name, self.weight((self.shape[-1], columns), 1))
        self.shape = (*self.shape[:-1], columns)

    def attention(self) -> None:
        """Self-attention over the last two axes, with a pair after each of its operators."""
        x, size = self.name, self.draw(st.integers(1, 20))
        operands = list[str]()
        for _ in range(3):
            self.name = self.add("MatMul", x, self.weight((self.shape[-1], size), 1))
            self.requantised(STEPS[1])
            operands.append(self.name)
        query, key, value = operands
        self.name = self.add("MatMul", query, self.add("Transpose", key, perm=[0, 1, 3, 2]))
        self.requantised(STEPS[1])
        self.name = self.add("Softmax", self.name, axis=-1)
        self.requantised(WEIGHT_STEP)
        self.name = self.add("MatMul", self.name, value)
        self.shape = (*self.shape[:-1], size)

    def residual(self) -> None:
        """The sum with the model's input, if that has the shape."""
        if self.shape == START:
            self.name = self.add("Add", self.name, "x")


START = (2, 3, 6, 5)

STEPS = (0.0317, 0.1003)
"""Scales of the input and of results; no byte times their ratio is halfway between integers."""

WEIGHT_STEP = 0.0097
"""The scale of weights of an attention, up to 1 from any zero point."""


@st.composite
def quantised_models(
    draw: st.DrawFn, kinds: tuple[str, ...] = BYTES, attends: bool = False
) -> onnx.ModelProto:
    """Models of one to four layers, whose tensors are quantised between layers."""
    model = QuantisedModel(draw, np.random.default_rng(draw(st.integers(0, 999))), START, kinds)
    steps = [model.convolution, model.moved, model.matmul, model.residual]
    steps += [model.attention] if attends else []
    model.requantised(STEPS[0])
    for step in draw(st.lists(st.sampled_from(steps), min_size=1, max_size=4)):
        step()
        model.requantised(STEPS[1])
    graph = helper.make_graph(
        model.nodes,
        "quantised",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, START)],
        [helper.make_tensor_value_info(model.name, onnx.TensorProto.FLOAT, model.shape)],
        model.constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
