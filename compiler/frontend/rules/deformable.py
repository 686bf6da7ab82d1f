"""The rule for convolutions whose kernel reads at positions moved by offsets."""

from math import prod

from compiler.frontend.rules.call import Call, rule
from compiler.frontend.rules.columns import WindowTaps
from compiler.frontend.rules.sampling import Image, component, floating
from compiler.frontend.rules.types import in_type
from compiler.frontend.semantics.windows import Windows
from compiler.net.graph import Value


@rule("DeformConv")
def rewrite_deformable_convolution(call: Call) -> list[Value]:
    """A GEMM of the weights by pixels read at the kernel's positions moved by the offsets."""
    x, weight, offset = (floating(call, call.operand(i)) for i in range(3))
    taps = WindowTaps(Windows.of(call, weight.shape[2:]), offset.shape[2:])
    batch, channels, *sizes = x.shape
    groups, own = call["group"], call["offset_group"]
    count, places = prod(taps.kernel), prod(taps.output)
    flat = call.reshaped(x, [batch * own, channels // own, prod(sizes)])
    image = Image(call, flat, tuple(sizes))
    moves = call.reshaped(offset, [batch * own, count, len(sizes), places])
    positions = [
        image.op("Add", component(call, moves, axis, 2), call.builder.constant(base, x.dtype))
        for axis, base in enumerate(taps.positions())
    ]
    positions = [call.reshaped(p, [batch * own, 1, count * places]) for p in positions]
    pixels = image.interpolated(positions, "linear")
    if (mask := call.input(4)) is not None:
        held = call.reshaped(in_type(call, mask, x.dtype), [batch * own, 1, count * places])
        pixels = image.op("Mul", pixels, held)
    columns = call.reshaped(pixels, [batch, groups, channels // groups * count, places])
    rows = call.reshaped(weight, [1, groups, weight.shape[0] // groups, -1])
    result = call.reshaped(
        call.one("MatMul", rows, columns), [batch, weight.shape[0], *taps.output]
    )
    if (bias := call.input(3)) is not None:
        column = call.reshaped(in_type(call, bias, x.dtype), [-1, *[1] * len(sizes)])
        result = call.one("Add", result, column)
    return [in_type(call, result, call.data.dtype)]
