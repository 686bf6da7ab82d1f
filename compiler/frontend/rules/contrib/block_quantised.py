"""The rule for MatMulNBits: weights of 2, 4 or 8 bits with a scale for each block."""

from compiler.frontend.rules.call import Call
from compiler.frontend.rules.contrib.quantised import biased
from compiler.frontend.rules.contrib.registry import contrib, refuse, refuse_inputs
from compiler.frontend.rules.types import in_type
from compiler.net.four_bits import LEAST_BLOCK
from compiler.net.graph import Value
from compiler.net.operators import ShapeMismatch


def unpacked(call: Call, packed: Value, bits: int) -> Value:
    """The integers of the last axis of bytes, of which the lowest bits come first."""
    count = 8 // bits
    if count == 1:
        return packed
    mask = call.builder.constant((1 << bits) - 1, "uint8")
    columns: list[Value] = []
    for index in range(count):
        shift = call.builder.constant(bits * index, "uint8")
        moved = call.one("BitShift", packed, shift, direction="RIGHT") if index else packed
        column = call.one("BitwiseAnd", moved, mask)
        columns.append(call.reshaped(column, [*packed.shape, 1]))
    whole = call.one("Concat", *columns, axis=packed.rank)
    return call.reshaped(whole, [*packed.shape[:-1], packed.shape[-1] * count])


def _zeros(call: Call, blocks: int) -> Value:
    """The zero points (N, blocks, 1): packed bytes, or numbers."""
    rows = call.attributes["N"]
    bits = call.attributes["bits"]
    dtype = call.data.dtype
    given = call.input(3)
    if given is None:
        return call.builder.constant(1 << (bits - 1), dtype)
    if given.dtype == "uint8":
        packed = call.reshaped(given, [rows, -1])
        given = call.part(unpacked(call, packed, bits), 1, 0, blocks)
    return call.reshaped(in_type(call, given, call.data.dtype), [rows, blocks, 1])


def _check_shape(name: str, value: Value | None, *allowed: list[int]) -> None:
    if value is not None and list(value.shape) not in allowed:
        wanted = " or ".join(map(str, allowed))
        raise ShapeMismatch(f"its {name} must be {wanted}, not {list(value.shape)}")


def _weight(call: Call) -> Value:
    """The weight (N, K) in the type of the left matrix."""
    rows, depth, size = (call.attributes[name] for name in ("N", "K", "block_size"))
    blocks = -(-depth // size)
    packed = unpacked(call, call.operand(1), call.attributes["bits"])
    integers = in_type(call, packed, call.data.dtype)
    scale = call.reshaped(call.operand(2), [rows, blocks, 1])
    numbers = call.one("Mul", call.one("Sub", integers, _zeros(call, blocks)), scale)
    return call.part(call.reshaped(numbers, [rows, blocks * size]), 1, 0, depth)


@contrib("MatMulNBits")
def rewrite_matmul_nbits(call: Call) -> list[Value]:
    """A MatMul of the dequantised, transposed weight."""
    refuse(call, "weight_prepacked")
    refuse_inputs(call, g_idx=4)
    rows, depth, size, bits = (call.attributes[name] for name in ("N", "K", "block_size", "bits"))
    blocks = -(-depth // size)
    zeros = call.input(3)
    columns = -(-blocks * bits // 8) if zeros is not None and zeros.dtype == "uint8" else blocks
    _check_shape("weight", call.operand(1), [rows, blocks, size * bits // 8])
    _check_shape("scales", call.operand(2), [rows * blocks], [rows, blocks])
    _check_shape("zero points", zeros, [rows * columns], [rows, columns])
    _check_shape("bias", call.input(5), [rows])
    given = [call.input(index) for index in (1, 2, 3)]
    constant = all(value is None or value.array is not None for value in given)
    size = call.attributes["block_size"]
    four = call.attributes["bits"] == 4
    blocks = size >= LEAST_BLOCK and size & (size - 1) == 0
    if constant and four and blocks and call.data.dtype == "float32":
        # The operator of the IR, its operands in their shapes.
        rows, depth, size = (call.attributes[name] for name in ("N", "K", "block_size"))
        blocks = -(-depth // size)
        zeros = call.input(3)
        inputs = [call.data, call.operand(1), call.reshaped(call.operand(2), [rows, blocks])]
        if zeros is not None and zeros.dtype == "uint8":
            inputs.append(call.reshaped(zeros, [rows, -1]))
        elif zeros is not None:
            inputs.append(call.reshaped(in_type(call, zeros, call.data.dtype), [rows, blocks]))
        return [
            biased(
                call,
                call.one("MatMulNBits", *inputs, K=depth, N=rows, bits=4, block_size=size),
                call.input(5),
            )
        ]
    weight = call.one("Transpose", _weight(call), perm=[1, 0])
    return [biased(call, call.one("MatMul", call.data, weight), call.input(5))]
