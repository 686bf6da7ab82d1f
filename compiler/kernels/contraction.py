"""Lowerings of contractions: convolutions and matrix products, accumulated in float32 or wider."""
from typing import Any
from tvm import te, tirx
from compiler.kernels.lowering import Context, lowering


def accumulation_dtype(dtype: str) -> str:
    """The dtype in which products of a dtype are summed."""
    return "float32" if dtype in ("float16", "bfloat16") else dtype


def padding(context: Context, spatial: tuple[int, ...], kernel: tuple[int, ...], strides, dilations):
    """Pads at the begin of each spatial axis."""
    rank = len(spatial)
    mode = context.attribute("auto_pad", "NOTSET")
    if mode in ("NOTSET", ""):
        pads = context.attribute("pads") or [0] * 2 * rank
        return list(pads[:rank]), list(pads[rank:])
    if mode == "VALID":
        return [0] * rank, [0] * rank
    total = [
        max(0, (-(-n // s) - 1) * s + (k - 1) * d + 1 - n)
        for n, k, s, d in zip(spatial, kernel, strides, dilations)
    ]
    small, large = [t // 2 for t in total], [t - t // 2 for t in total]
    return (small, large) if mode == "SAME_UPPER" else (large, small)


def padded(tensor: te.Tensor, before: list[int], after: list[int], value: Any) -> te.Tensor:
    """Pad the last axes of a tensor by a value."""
    if not any(before) and not any(after):
        return tensor
    lead = len(tensor.shape) - len(before)
    shape = [int(n) for n in tensor.shape]
    full = shape[:lead] + [a + n + b for a, n, b in zip(before, shape[lead:], after)]

    def body(*indices: Any) -> Any:
        inner = [i - b for i, b in zip(indices[lead:], before)]
        inside = [
            c for i, n, b, a in zip(inner, shape[lead:], before, after)
            for c in ([i >= 0] if b else []) + ([i < n] if a else [])
        ]
        return tirx.if_then_else(tirx.all(*inside), tensor(*indices[:lead], *inner), value)

    return te.compute(full, body, name="padded")


@lowering("Conv")
def conv(context: Context) -> te.Tensor:
    data, weight = context.tensor(0), context.tensor(1)
    shape, kernel = context.info(0).shape, context.info(1).shape
    rank = len(shape) - 2
    strides = context.attribute("strides") or [1] * rank
    dilations = context.attribute("dilations") or [1] * rank
    groups = context.attribute("group", 1)
    before, after = padding(context, shape[2:], kernel[2:], strides, dilations)
    dtype = context.output.dtype
    wide = accumulation_dtype(dtype)
    source = padded(data, before, after, tirx.const(0, dtype))
    channel = te.reduce_axis((0, kernel[1]), "channel")
    window = [te.reduce_axis((0, k), f"window{i}") for i, k in enumerate(kernel[2:])]
    per_group = kernel[0] // groups

    def body(n: Any, c: Any, *place: Any) -> Any:
        at = [p * s + w * d for p, s, w, d in zip(place, strides, window, dilations)]
        first = c // per_group * kernel[1] if groups > 1 else 0
        left = source(n, first + channel, *at).astype(wide)
        return te.sum(left * weight(c, channel, *window).astype(wide), axis=[channel, *window])

    result = te.compute(context.output.shape, body, name="Conv")
    bias = context.tensor(2) if context.has(2) else None
    if bias is None and wide == dtype:
        return result
    return te.compute(
        context.output.shape,
        lambda *i: (result(*i) + (bias(i[1]).astype(wide) if bias is not None else 0)).astype(dtype),
        name="Conv_bias",
    )


@lowering("MatMul")
def matmul(context: Context) -> te.Tensor:
    a, b = context.tensor(0), context.tensor(1)
    left, right = context.info(0).shape, context.info(1).shape
    dtype = context.output.dtype
    wide = accumulation_dtype(dtype)
    k = te.reduce_axis((0, left[-1]), "k")
    rows, columns = len(left) > 1, len(right) > 1

    def batch(tensor, shape, indices):
        own = list(indices)[len(indices) - len(shape):] if shape else []
        return [0 if n == 1 else i for i, n in zip(own, shape)]

    def body(*indices: Any) -> Any:
        lead = list(indices)
        column = [lead.pop()] if columns else []
        row = [lead.pop()] if rows else []
        x = a(*batch(a, left[:-2], lead), *row, k)
        y = b(*batch(b, right[:-2], lead), k, *column)
        return te.sum(x.astype(wide) * y.astype(wide), axis=k)

    result = te.compute(context.output.shape, body, name="MatMul")
    if wide == dtype:
        return result
    return te.compute(context.output.shape, lambda *i: result(*i).astype(dtype), name="MatMul_cast")
