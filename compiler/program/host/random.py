"""Host operators that draw random numbers.

A node draws from a separate generator, which begins at the attribute `seed`, or anywhere without
one, when the model is compiled: the runs of a module differ from each other, those of two modules
with one seed do not. The numbers are those of numpy's Mersenne twister, as in ONNX's own cases.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from onnx import helper

from compiler.net.operators import check_room, check_size
from compiler.program.host.registry import HostCall, HostFunction, host_operator

Array = np.ndarray


def _generator(call: HostCall) -> Any:
    seed = call.attributes.get("seed")
    if seed is None or not np.isfinite(seed):
        return np.random.RandomState()
    return np.random.RandomState(int(seed) % 2**32)


def _dtype(call: HostCall, default: np.dtype | None = None) -> np.dtype:
    """The type that the node names, or a default."""
    element = call.attributes.get("dtype", 0)
    if not element:
        return np.dtype(np.float32) if default is None else default
    return np.dtype(helper.tensor_dtype_to_np_dtype(element))


@dataclass(frozen=True)
class RandomTensor:
    """Draws tensors of independent numbers: between two bounds, or around a mean."""

    call: HostCall
    generator: Any

    def draw(self, shape: Sequence[int], dtype: np.dtype) -> tuple[Array]:
        """A tensor of a shape; raises ValueError for another type than a float."""
        if "float" not in dtype.name:
            raise ValueError(f"it would draw random numbers of {dtype}; set its attribute dtype")
        # numpy draws in float64, whatever the type of the result is
        check_room(np.dtype(np.float64), tuple(shape))
        attributes = self.call.attributes
        if self.call.op_type.startswith("RandomNormal"):
            numbers = np.asarray(self.generator.standard_normal(tuple(shape)))
            numbers *= attributes.get("scale", 1.0)
            numbers += attributes.get("mean", 0.0)
        else:
            low = attributes.get("low", 0.0)
            numbers = np.asarray(self.generator.random_sample(tuple(shape)))
            numbers *= attributes.get("high", 1.0) - low
            numbers += low
        return (numbers.astype(dtype, copy=False),)

    def like(self, x: Array) -> tuple[Array]:
        """A tensor of the shape of another, and of its type unless the node names one."""
        return self.draw(x.shape, _dtype(self.call, x.dtype))

    def fixed(self) -> tuple[Array]:
        """A tensor of the shape that the node names."""
        return self.draw(self.call.attributes["shape"], _dtype(self.call))


@host_operator("RandomNormal", "RandomUniform")
def random_tensor(call: HostCall) -> HostFunction:
    """Tensors of the attribute `shape`."""
    check_size(_dtype(call).name, tuple(call.attributes["shape"]))
    return RandomTensor(call, _generator(call)).fixed


@host_operator("RandomNormalLike", "RandomUniformLike")
def random_like(call: HostCall) -> HostFunction:
    """Tensors of the input's shape."""
    return RandomTensor(call, _generator(call)).like


@host_operator("Bernoulli", first=15)
def bernoulli(call: HostCall) -> HostFunction:
    """One with the probability that the input has, else zero."""
    return partial(_bernoulli, call, _generator(call))


def _bernoulli(call: HostCall, generator: Any, p: Array) -> tuple[Array]:
    drawn = generator.random_sample(p.shape) < p.astype(np.float64)
    return (np.asarray(drawn).astype(_dtype(call, p.dtype)),)


@host_operator("Multinomial", first=7)
def multinomial(call: HostCall) -> HostFunction:
    """Classes by unnormalised logarithms of their probabilities: [batch, classes]."""
    return partial(_multinomial, call, _generator(call))


def _multinomial(call: HostCall, generator: Any, logits: Array) -> tuple[Array]:
    if logits.ndim != 2 or not logits.shape[1]:
        raise ValueError(f"its input has the shape {list(logits.shape)}, not [batch, classes]")
    wide = logits.astype(np.float64)
    weights = np.exp(wide - wide.max(axis=1, keepdims=True))
    bounds = np.cumsum(weights, axis=1)
    if not np.isfinite(bounds).all():
        raise ValueError("a row of its input has no finite largest element")
    count = call.attributes.get("sample_size", 1)
    dtype = _dtype(call, np.dtype(np.int32))
    check_room(dtype, (len(wide), count))
    result = np.zeros((len(wide), count), dtype)
    for row, limits in zip(result, bounds, strict=True):
        row[:] = np.searchsorted(limits, generator.random_sample(count) * limits[-1], "right")
    return (result,)


@host_operator("Dropout")
def dropout(call: HostCall) -> HostFunction:
    """Elements that become zero at random in training, and a mask of the others."""
    generator = _generator(call)
    if call.opset >= 12:
        return partial(_dropped, call, generator)
    training = call.opset < 7 and not call.attributes.get("is_test", 0)
    ratio = np.array(call.attributes.get("ratio", 0.5))
    return partial(_dropped, call, generator, ratio=ratio, training=np.array(training))


def _dropped(
    call: HostCall,
    generator: Any,
    x: Array,
    ratio: Array | None = None,
    training: Array | None = None,
) -> tuple[Array, Array]:
    share = 0.5 if ratio is None else float(ratio.reshape(()))
    if training is None or not training.any() or not share:
        mask = np.ones(x.shape, bool)
        return x, mask if call.opset >= 10 else mask.astype(x.dtype)
    if not 0 <= share < 1:
        raise ValueError(f"its ratio is {share}, not in [0, 1)")
    mask = np.asarray(generator.uniform(0, 1, x.shape) >= share)
    scaled = np.where(mask, x.astype(np.float64) * (1 / (1 - share)), 0)
    return scaled.astype(x.dtype), mask if call.opset >= 10 else mask.astype(x.dtype)
