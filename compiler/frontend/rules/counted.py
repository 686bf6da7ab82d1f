"""Rules for tensors that a few numbers describe: folded while small, else written at run time."""

from collections.abc import Callable, Mapping, Sequence
from math import ceil, isqrt

import numpy as np

from compiler.frontend.builder import supported
from compiler.frontend.evaluate import dtype_name, evaluate
from compiler.frontend.rules.call import Call, rule
from compiler.frontend.unsupported import NeedsHost
from compiler.net.building.builder import byte_count
from compiler.net.evaluation.rounding import double
from compiler.net.graph import Value, constant
from compiler.net.operators import POSITIONS, check_size
from compiler.tensors.dtypes import element_type
from compiler.tensors.substitution import as_extent, holds_extents


def rewrite_range(call: Call) -> list[Value]:
    """A constant; or, if that is large, the start plus multiples of the step."""
    if any(holds_extents(call.content(index)) for index in range(3)):
        return [_symbolic_range(call)]
    start, limit, step = (call.content(index).reshape(()) for index in range(3))
    dtype = call.data.dtype
    first, end, by = (double(array).item() for array in (start, limit, step))
    count = max(0, ceil((end - first) / by))
    check_size(dtype, (count,))
    if call.builder.folds(byte_count(dtype, (count,)), 0):
        (array,) = evaluate("Range", call.inputs, {}, [True])
        assert array is not None
        return [constant("", array)]
    # The interpreter computes in these types, too: float32 would round each multiple of the step.
    exact = "int64" if isinstance(first, int) else "float64"
    # The int64 numbers from 0 up to `count`, made of two vectors of about its square root.
    width = max(1, isqrt(count))
    rows = ceil(count / width)
    high = call.builder.constant(np.arange(rows)[:, None] * width, "int64")
    low = call.builder.constant(np.arange(width), "int64")
    numbers = call.reshaped(call.one("Add", high, low), [rows * width])
    numbers = call.part(numbers, 0, 0, count)
    if exact != "int64":
        numbers = call.one("Cast", numbers, to=element_type(exact))
    scaled = call.one("Mul", numbers, call.builder.constant(by, exact))
    result = call.one("Add", scaled, call.builder.constant(first, exact))
    return [result if dtype == exact else call.one("Cast", result, to=element_type(dtype))]


def _symbolic_range(call: Call) -> Value:
    """A range with ends that symbols decide."""
    start, limit, step = (as_extent(call.content(index).reshape(-1)[0]) for index in range(3))
    count = max(0, -((start - limit) // step))
    zero = call.builder.constant(0, call.data.dtype)
    return call.one(POSITIONS, zero, first=start, step=step, count=count)


def rewrite_constant_of_shape(call: Call) -> list[Value]:
    """One number in the given shape."""
    value = np.asarray(call.attributes.get("value", np.zeros(1, np.float32))).reshape(())
    shape = [as_extent(size) for size in call.content(0).reshape(-1)]
    number = constant("", value)
    check_size(number.dtype, tuple(shape))
    return [call.expanded(number, shape) if shape else number]


def rewrite_mel_weight_matrix(call: Call) -> list[Value]:
    """A constant [bins of the spectrum, bands]."""
    bands, length = (int(call.content(index).reshape(())) for index in range(2))
    dtype = dtype_name(call["output_datatype"]) or "float32"
    shape = max(0, length // 2 + 1), bands
    check_size(dtype, shape)
    if not call.builder.folds(byte_count(dtype, shape), 0):
        reason = f"its {bands:,} bands of {length:,} samples are too large for a constant"
        raise NeedsHost(reason, "make the matrix an input, or take fewer bands")
    (array,) = evaluate("MelWeightMatrix", call.inputs, call.attributes, [True])
    assert array is not None
    return [constant("", array)]


CREATED: Mapping[str, Callable[[Call], Sequence[Value]]] = {
    "ConstantOfShape": rewrite_constant_of_shape,
    "MelWeightMatrix": rewrite_mel_weight_matrix,
    "Range": rewrite_range,
}
"""Rules of operators whose inputs are constants that say how large the result is."""


@rule("EyeLike")
def rewrite_eye_like(call: Call) -> list[Value]:
    """A comparison of the number of the column with that of the row, moved to the diagonal."""
    dtype = dtype_name(call["dtype"]) or call.data.dtype
    supported(Value("", dtype))
    rows, columns = call.data.shape
    check_size(dtype, call.data.shape)
    # Beyond the matrix one diagonal is as empty as another.
    first = min(max(call["k"], -rows), columns)
    diagonal = call.vector(range(first, first + rows))
    equal = call.one("Equal", call.reshaped(diagonal, [rows, 1]), call.vector(range(columns)))
    return [equal if dtype == "bool" else call.one("Cast", equal, to=element_type(dtype))]
