"""What nodes mean where onnxruntime gives something else, in numpy, and which nodes those are."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import helper

from tests.fuzz.call import Call

Array = NDArray[Any]


class Incomparable(Exception):
    """onnxruntime's result is not what the node means, and nothing puts it right.

    Then float64 alone judges the model, element by element.
    """


def mean_variance(call: Call) -> list[Array]:
    """The text's formula in float64."""
    x: Array = call.inputs[0]
    axes = tuple(call.attributes.get("axes", (0, 2, 3)))
    wide = x.astype(np.float64)
    away = wide - wide.mean(axes, keepdims=True)
    deviation = np.sqrt((away**2).mean(axes, keepdims=True))
    return [(away / (deviation + 1e-9)).astype(x.dtype)]


def exponential_unit(call: Call) -> list[Array]:
    """Elu, Selu or Celu in float64, by expm1."""
    selu = call.op == "Selu"
    alpha = call.attributes.get("alpha", 1.67326319217681884765625 if selu else 1.0)
    gamma = call.attributes.get("gamma", 1.05070102214813232421875) if selu else 1.0
    x: Array = call.inputs[0]
    wide = x.astype(np.float64)
    with np.errstate(all="ignore"):
        below = alpha * np.expm1(wide / alpha if call.op == "Celu" else wide)
        return [(gamma * np.where(wide >= 0, wide, below)).astype(x.dtype)]


def instance_normalization(call: Call) -> list[Array]:
    """The text's formula in float64."""
    x: Array = call.inputs[0]
    axes, channels = tuple(range(2, x.ndim)), (-1, *[1] * (x.ndim - 2))
    scale, bias = (v.astype(np.float64).reshape(channels) for v in call.inputs[1:3])
    away = x.astype(np.float64) - x.astype(np.float64).mean(axes, keepdims=True)
    variance = (away**2).mean(axes, keepdims=True) + call.attributes.get("epsilon", 1e-5)
    return [(away / np.sqrt(variance) * scale + bias).astype(x.dtype)]


def large_powers(call: Call) -> bool:
    """Whether a power of integers may be more than floating point or its type holds."""
    x, exponent = call.inputs[0], call.inputs[1]
    if x.dtype.kind not in "iu" or not x.size or not exponent.size:
        return False
    with np.errstate(all="ignore"):
        powers = np.abs(x.astype(np.float64)) ** np.abs(exponent.astype(np.float64))
    return not bool((powers < 2.0 ** (31 if x.dtype.itemsize < 8 else 53)).all())


def power(call: Call) -> list[Array]:
    """Powers of integers, which wrap around."""
    x, exponent = call.inputs[0], call.inputs[1]
    if exponent.dtype.kind not in "iu" or not ((exponent >= 0) & (exponent < 2**31)).all():
        raise Incomparable("Pow of large integers to a fraction, a negative or a huge power")
    return [np.power(x.astype(np.int64), exponent.astype(np.int64)).astype(x.dtype)]


def out_of_range(call: Call) -> bool:
    """Whether a float becomes an integer that cannot hold it."""
    x = call.inputs[0]
    if call.op == "CastLike":
        dtype = call.inputs[1].dtype
    else:
        dtype = helper.tensor_dtype_to_np_dtype(call.attributes["to"])
    if x.dtype.kind != "f" or dtype.kind not in "iu":
        return False
    return not _holds(dtype, x)


def stacks_nothing(call: Call) -> bool:
    """Whether a Loop has no iterations, and results to stack whose shapes are not declared."""
    trips, go = (np.asarray(x).reshape(-1) if x is not None else None for x in call.inputs[:2])
    ends = (trips is not None and trips.size == 1 and int(trips[0]) <= 0) or (
        go is not None and go.size == 1 and not go[0]
    )
    stacked = call.attributes["body"].output[len(call.inputs) - 1 :]
    types = [info.type.tensor_type for info in stacked]
    open_ones = [
        not t.HasField("shape") or not all(d.HasField("dim_value") for d in t.shape.dim)
        for t in types
    ]
    return ends and any(open_ones)


def rounded_beyond(call: Call) -> bool:
    """Whether a number becomes one of float8e4m3fn or float8e5m2 that is just too large."""
    if call.op == "Cast":
        dtype = np.dtype(helper.tensor_dtype_to_np_dtype(call.attributes["to"]))
    elif len(call.inputs) > (zero := 1 if call.op == "CastLike" else 2):
        dtype = call.inputs[zero].dtype
    else:
        dtype = np.dtype(helper.tensor_dtype_to_np_dtype(call.attributes.get("output_dtype") or 2))
    bounds = {"float8_e4m3fn": (480, 496), "float8_e5m2": (61440, 65536)}.get(dtype.name)
    if bounds is None or call.attributes.get("saturate", 1) or call.inputs[0].dtype == object:
        return False
    size: Array = np.abs(call.inputs[0].astype(np.float64))
    if call.op == "QuantizeLinear":
        if call.inputs[1].size != 1:  # any of many scales may do it
            return True
        size = size / np.abs(call.inputs[1].astype(np.float64).reshape(()))
    return bool(((size >= bounds[0]) & (size < bounds[1])).any())


def _holds(dtype: np.dtype[Any], values: Array) -> bool:
    """Whether a type is a float, or holds the integers of all values."""
    if dtype.kind not in "iu":
        return True
    limits = np.iinfo(dtype)
    with np.errstate(all="ignore"):
        cut = np.trunc(values.astype(np.float64))
    return bool(((cut >= float(limits.min)) & (cut <= float(limits.max))).all())


def gelu(call: Call) -> list[Array]:
    """The text's approximation, in the type of x."""
    x: Array = call.inputs[0]
    return [0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))]


def hard_swish(call: Call) -> list[Array]:
    """The text's formula, in the type of x."""
    x: Array = call.inputs[0]
    return [x * np.clip(x / 6 + 0.5, 0, 1)]


def wider_than_float32(call: Call) -> bool:
    """Whether float32 does not hold some element."""
    x: Array = call.inputs[0]
    if x.dtype.kind == "f":
        return x.dtype.itemsize == 8
    return bool((np.abs(x.astype(np.float64)) >= 2.0**24).any())


def _shrunk(call: Call) -> Array:
    x: Array = call.inputs[0].astype(np.float64)
    limit, bias = (call.attributes.get(k, d) for k, d in (("lambd", 0.5), ("bias", 0.0)))
    return np.where(x < -limit, x + bias, np.where(x > limit, x - bias, 0.0))


def shrinks_out_of_range(call: Call) -> bool:
    """Whether Shrink of integers gives some that its type cannot hold."""
    return not _holds(call.inputs[0].dtype, _shrunk(call))


def shrink(call: Call) -> list[Array]:
    """The text's formula in float64."""
    x: Array = call.inputs[0]
    if x.dtype.kind != "f" and (np.abs(x.astype(np.float64)) >= 2.0**53).any():
        raise Incomparable("Shrink of integers that float64 does not hold")
    return [_shrunk(call).astype(x.dtype)]


def large_integers(call: Call) -> bool:
    """Whether a reduction of integers, or a part of it, may be above 2**53."""
    x: Array = call.inputs[0]
    if x.dtype.kind not in "iu" or not x.size:
        return False
    size = np.maximum(np.abs(x.astype(np.float64)), 1)
    if call.op == "ReduceProd":
        return float(np.log2(size).sum()) > 30
    powers = size**2 if call.op in ("ReduceSumSquare", "ReduceL2") else size
    return float(powers.sum()) >= 2.0 ** (31 if x.dtype.itemsize < 8 else 53)


def _sum(x: Array, axes: tuple[int, ...] | None, keep: bool) -> Array:
    return np.asarray(np.sum(x, axis=axes, keepdims=keep, dtype=x.dtype))


def _product(x: Array, axes: tuple[int, ...] | None, keep: bool) -> Array:
    return np.asarray(np.prod(x, axis=axes, keepdims=keep, dtype=x.dtype))


_FOLDS: dict[str, Callable[[Array, tuple[int, ...] | None, bool], Array]] = {
    "ReduceSum": _sum,
    "ReduceProd": _product,
    "ReduceL1": lambda x, axes, keep: _sum(np.abs(x), axes, keep),
    "ReduceSumSquare": lambda x, axes, keep: _sum(x * x, axes, keep),
}
"""Reductions of integers, modulo 2 to the power of their bits."""


def folded(call: Call) -> list[Array]:
    """A reduction of integers, modulo 2 to the power of their bits."""
    x: Array = call.inputs[0]
    axes = call.attributes.get("axes")
    if len(call.inputs) > 1 and call.inputs[1] is not None:
        axes = call.inputs[1].tolist()
    if not axes and call.attributes.get("noop_with_empty_axes"):
        raise Incomparable("a reduction over no axes")
    if call.op not in _FOLDS:
        raise Incomparable(f"{call.op} of large integers")
    keep = bool(call.attributes.get("keepdims", 1))
    return [_FOLDS[call.op](x, tuple(axes) if axes else None, keep)]


def large_contractions(call: Call) -> bool:
    """Whether an Einsum of integers, or a part of it, may be above what floating point holds."""
    operands: list[Array] = call.inputs
    if any(x.dtype.kind not in "iu" for x in operands):
        return False
    sizes = [float(np.abs(x.astype(np.float64)).sum()) for x in operands]
    return float(np.prod(sizes)) >= 2.0 ** (31 if operands[0].dtype.itemsize < 8 else 53)


def contracted(call: Call) -> list[Array]:
    """An Einsum of integers, modulo 2 to the power of their bits."""
    equation = call.attributes["equation"].decode()
    return [np.asarray(np.einsum(equation, *call.inputs))]


def has_texts(call: Call) -> bool:
    """Whether an operand is a tensor of texts."""
    arrays: list[Array] = [x for x in call.inputs if isinstance(x, np.ndarray)]
    return any(x.dtype.hasobject for x in arrays)


def gathered(call: Call) -> list[Array]:
    """Gather by numpy; raises Incomparable for other operators."""
    if call.op != "Gather":
        raise Incomparable(f"{call.op} of texts")
    x, indices, *_ = call.inputs
    taken = np.take(x, indices, call.attributes.get("axis", 0))
    return [taken if isinstance(taken, np.ndarray) else np.array(taken, x.dtype)]


def _first_states(call: Call) -> list[Array | None]:
    """The initial states of a recurrence: (directions, batch, hidden), None for 0."""
    return [*call.inputs[5:7], None, None][:2]


def starts_without_steps(call: Call) -> bool:
    """Whether a sequence of length 0 has an initial state."""
    lengths = call.inputs[4] if len(call.inputs) > 4 else None
    if lengths is None or call.attributes.get("layout", 0):
        return False
    states = [state for state in _first_states(call) if state is not None]
    return any(bool(state[:, lengths == 0].any()) for state in states)


def keeps_initial_state(call: Call, outputs: list[Array]) -> list[Array]:
    """A recurrence whose sequences of length 0 end with their initial states."""
    empty = call.inputs[4] == 0
    repaired = list(outputs[:1])
    for state, first in zip(outputs[1:], _first_states(call), strict=False):
        last = state.copy()
        last[:, empty] = 0 if first is None else first[:, empty]
        repaired.append(last)
    return repaired


def gives_masked_scores(call: Call) -> bool:
    """Whether an Attention gives its scores after what masks them."""
    mask = call.inputs[3] if len(call.inputs) > 3 else None
    masked = bool(call.attributes.get("is_causal", 0)) or getattr(mask, "dtype", None) == np.bool_
    return masked and call.attributes.get("qk_matmul_output_mode", 0) == 2 and call.outputs > 1


def masked_by_infinity(call: Call, outputs: list[Array]) -> list[Array]:
    """The outputs of an Attention whose last, the scores, is minus infinity where it is masked."""
    *others, scores = outputs
    lowest = np.finfo(scores.dtype).min
    return [*others, np.where(scores == lowest, scores.dtype.type(-np.inf), scores)]
