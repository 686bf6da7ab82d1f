"""The rule for GatherBlockQuantized: slices of a table of few bits, such as an embedding."""

import numpy as np

from compiler.frontend.rules.call import Call
from compiler.frontend.rules.contrib.block_quantised import unpacked
from compiler.frontend.rules.contrib.registry import contrib
from compiler.frontend.unsupported import Unsupported
from compiler.net.graph import Value
from compiler.net.operators import Mismatch, ShapeMismatch
from compiler.tensors.dtypes import element_type

_BYTES = {"int4": np.int8, "uint4": np.uint8}


@contrib("GatherBlockQuantized")
def rewrite_gather_block_quantised(call: Call) -> list[Value]:
    """Gathers of the integers, scales and zero points, the packed ones before they are unpacked."""
    indices = call.operand(1)
    along, axis = call.axis("gather_axis"), call.axis("quantize_axis")
    _check(call, along, axis)
    size = call.data.shape[along]
    call.check_indices(1, -size, size - 1)

    def gathered(value: Value) -> Value:
        return call.one("Gather", _of_bytes(call, value), indices, axis=along)

    axis += indices.rank - 1 if axis > along else 0
    rows = _unpacked(call, gathered(call.data))
    scales = gathered(call.operand(2))
    zeros = call.input(3)
    centre = _unpacked(call, gathered(zeros)) if zeros is not None else _centre(call)
    blocks = scales.shape[axis]
    if zeros is not None:
        centre = _repeated(call, call.part(centre, axis, 0, blocks), axis, rows.shape[axis])
    repeated = _repeated(call, scales, axis, rows.shape[axis])
    return [call.one("Mul", call.one("Sub", rows, centre), repeated)]


def _check(call: Call, along: int, axis: int) -> None:
    """Raise an error for operands that onnxruntime does not take, or that there is no rule for."""
    if along == axis:
        reason = f"it gathers along axis {axis}, which has the blocks"
        raise Unsupported(reason, "dequantise the table before it is gathered from")
    if call.data.dtype == "uint8" and axis != call.data.rank - 1:
        raise Mismatch(f"its packed axis {call.data.rank - 1} is not quantize_axis {axis}")
    columns = call.data.shape[axis]
    size = call.attributes["block_size"]
    if call.data.dtype == "uint8":
        columns *= 8 // call.attributes["bits"]
    wanted = [*call.data.shape[:axis], -(-columns // size), *call.data.shape[axis + 1 :]]
    if list(call.operand(2).shape) != wanted:
        found = list(call.operand(2).shape)
        raise ShapeMismatch(f"its scales must be {wanted}, not {found}")


def _of_bytes(call: Call, value: Value) -> Value:
    """A constant of four bits as bytes, of which kernels can gather."""
    if value.dtype not in _BYTES or value.array is None:
        return value
    return call.builder.constant(value.array.astype(_BYTES[value.dtype]))


def _unpacked(call: Call, value: Value) -> Value:
    """The integers of gathered bytes, in the type of the scales."""
    if call.data.dtype == "uint8":
        value = unpacked(call, value, call.attributes["bits"])
    return call.one("Cast", value, to=element_type(call.operand(2).dtype))


def _centre(call: Call) -> Value:
    """The zero point where none is given."""
    packed = call.data.dtype == "uint8"
    number = 1 << (call.attributes["bits"] - 1) if packed else 0
    return call.builder.constant(number, call.operand(2).dtype)


def _repeated(call: Call, value: Value, axis: int, count: int) -> Value:
    """Each element of an axis as often as its block is long, `count` of them."""
    size = call.attributes["block_size"]
    shape = list(value.shape)
    split = call.reshaped(value, [*shape[: axis + 1], 1, *shape[axis + 1 :]])
    wide = [*shape[: axis + 1], size, *shape[axis + 1 :]]
    whole = call.expanded(split, wide)
    merged = [*shape[:axis], shape[axis] * size, *shape[axis + 1 :]]
    return call.part(call.reshaped(whole, merged), axis, 0, count)
