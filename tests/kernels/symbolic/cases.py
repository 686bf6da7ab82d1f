"""Groups with symbols as a BERT and others have them, and what they compute, by numpy."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.dynamic.symbolic_kernels import Sizes, group, node
from compiler.backends.memory import Array
from compiler.frontend.interpreter.evaluation import evaluate_node
from compiler.kernels.group import Group
from compiler.schedule.kernels import KernelSpec
from compiler.tensors.extents import extent_of
from compiler.tensors.symbols import Symbol
from tests.kernels.harness import Order, run_kernel, whole

F, INDEX, BOOL = "float32", "int64", "bool"

ROWS, LENGTH = (extent_of(Symbol(f"s{i}", 2, None, hint)) for i, hint in enumerate((64, 50)))
"""Two sizes, with examples that are not alike."""

SIZES: Sequence[Sizes] = tuple(
    {"s0": rows, "s1": length} for rows, length in ((2, 3), (3, 50), (17, 16), (5, 37), (2, 128))
)
"""The sizes at which kernels are run."""


def attention(batch: int, rows: int, keys: int) -> Group:
    """Attention of twelve heads of 64 with a mask of all pairs, as in a BERT."""
    queries, split = (F, (batch, rows, 768)), [batch, rows, 12, 64]
    memory, parts = (F, (batch, keys, 768)), [batch, keys, 12, 64]
    scores = (F, (batch, 12, rows, keys))
    operators = [
        node("Reshape", [0], 4, shape=split),
        node("Transpose", [4], 5, perm=[0, 2, 1, 3]),
        node("Reshape", [1], 6, shape=parts),
        node("Transpose", [6], 7, perm=[0, 2, 3, 1]),
        node("Reshape", [2], 8, shape=parts),
        node("Transpose", [8], 9, perm=[0, 2, 1, 3]),
        node("MatMul", [5, 7], 10),
        node("Add", [10, 3], 11),
        node("Softmax", [11], 12, axis=3),
        node("MatMul", [12, 9], 13),
        node("Transpose", [13], 14, perm=[0, 2, 1, 3]),
    ]
    by_head = (F, (batch, 12, rows, 64))
    values = [
        *((F, tuple(split)), by_head),
        *((F, tuple(parts)), (F, (batch, 12, 64, keys))),
        *((F, tuple(parts)), (F, (batch, 12, keys, 64))),
        *(scores, scores, scores, by_head, (F, tuple(split))),
    ]
    mask = (F, (batch, 1, rows, keys))
    return group("attention", [queries, memory, memory, mask], operators, values)


def _matmul(left: tuple[int, ...], right: tuple[int, ...], result: tuple[int, ...]) -> Group:
    product = node("MatMul", [0, 1], 2)
    return group("matmul", [(F, left), (F, right)], [product], [(F, result)])


n, L = ROWS, LENGTH
TABLE = extent_of(Symbol("s0", 2, 512, 50))
"""A length that a table of 512 rows bounds."""

GENERIC: Mapping[str, Group] = {
    "map": group(
        "map",
        [(F, (n, 768)), (F, (768,))],
        [node("Add", [0, 1], 2), node("Sigmoid", [2], 3)],
        [(F, (n, 768)), (F, (n, 768))],
    ),
    "flat map": group("flat", [(F, (n, L))], [node("Sigmoid", [0], 1)], [(F, (n, L))]),
    "mask": group(
        "mask",
        [(INDEX, (n, L)), (F, (n, 12, L, L))],
        [
            node("Cast", [0], 2, to=1),
            node("Unsqueeze", [2], 3, axes=[1, 2]),
            node("Add", [1, 3], 4),
        ],
        [(F, (n, L)), (F, (n, 1, 1, L)), (F, (n, 12, L, L))],
    ),
    "where": group(
        "where",
        [(BOOL, (n, 1, L)), (F, (n, 12, L)), (F, ())],
        [node("Where", [0, 1, 2], 3)],
        [(F, (n, 12, L))],
    ),
    "heads": group(
        "heads",
        [(F, (n, L, 768))],
        [
            node("Reshape", [0], 1, shape=[n, L, 12, 64]),
            node("Transpose", [1], 2, perm=[0, 2, 1, 3]),
        ],
        [(F, (n, L, 12, 64)), (F, (n, 12, L, 64))],
    ),
    "transpose": group(
        "transpose", [(F, (n, L))], [node("Transpose", [0], 1, perm=[1, 0])], [(F, (L, n))]
    ),
    "rows": group(
        "rows",
        [(F, (n * L, 768))],
        [node("Reshape", [0], 1, shape=[n, L, 768]), node("Neg", [1], 2)],
        [(F, (n, L, 768)), (F, (n, L, 768))],
    ),
    "embedding": group(
        "embedding",
        [(INDEX, (3, TABLE)), (F, (1000, 64)), (F, (512, 64))],
        [
            node("Gather", [1, 0], 3, axis=0),
            node("Slice", [2], 4, start=[0, 0], size=[TABLE, 64], step=[1, 1]),
            node("Add", [3, 4], 5),
        ],
        [(F, (3, TABLE, 64)), (F, (TABLE, 64)), (F, (3, TABLE, 64))],
    ),
    "layer norm": group(
        "norm",
        [(F, (n, L, 768)), (F, (768,)), (F, (768,))],
        [node("LayerNormalization", [0, 1, 2], 3, axis=2, epsilon=1e-5)],
        [(F, (n, L, 768))],
    ),
    "layer norm of a length": group(
        "norm",
        [(F, (n, L)), (F, (L,)), (F, (L,))],
        [node("LayerNormalization", [0, 1, 2], 3, axis=1, epsilon=1e-5)],
        [(F, (n, L))],
    ),
    "softmax": group("softmax", [(F, (n, L))], [node("Softmax", [0], 1, axis=1)], [(F, (n, L))]),
    "masked softmax": group(
        "softmax",
        [(F, (n, 4, L, L)), (F, (n, 1, 1, L))],
        [node("Add", [0, 1], 2), node("Softmax", [2], 3, axis=3)],
        [(F, (n, 4, L, L)), (F, (n, 4, L, L))],
    ),
    "softmax along a middle axis": group(
        "softmax", [(F, (n, L, 64))], [node("Softmax", [0], 1, axis=1)], [(F, (n, L, 64))]
    ),
    "mean over a length": group(
        "mean",
        [(F, (n, L, 768))],
        [node("ReduceMean", [0], 1, axes=[1], keepdims=0)],
        [(F, (n, 768))],
    ),
    "sum of all": group(
        "sum", [(F, (n, L))], [node("ReduceSum", [0], 1, axes=[0, 1], keepdims=1)], [(F, (1, 1))]
    ),
    "position": group(
        "position", [(F, (n, L))], [node("ArgMax", [0], 1, axis=1, keepdims=0)], [(INDEX, (n,))]
    ),
    "concat": group(
        "concat",
        [(F, (n, L, 64)), (F, (n, 3, 64))],
        [node("Concat", [0, 1], 2, axis=1)],
        [(F, (n, L + 3, 64))],
    ),
    "first token": group(
        "first",
        [(F, (n, L, 64))],
        [
            node("Slice", [0], 1, start=[0, 0, 0], size=[n, 1, 64], step=[1, 1, 1]),
            node("Squeeze", [1], 2, axes=[1]),
            node("Tanh", [2], 3),
        ],
        [(F, (n, 1, 64)), (F, (n, 64)), (F, (n, 64))],
    ),
    "half": group(
        "half",
        [(F, (n, L * 2))],
        [
            node("Slice", [0], 1, start=[0, L], size=[n, L], step=[1, 1]),
            node("Sigmoid", [1], 2),
        ],
        [(F, (n, L)), (F, (n, L))],
    ),
    "expand": group(
        "expand", [(F, (1, 1, L))], [node("Expand", [0], 1, shape=[n, 4, L])], [(F, (n, 4, L))]
    ),
}
"""Groups by the generic schedule."""

MATMULS: Mapping[str, Group] = {
    "rows and an epilogue": group(
        "dense",
        [(F, (n, L, 96)), (F, (96, 130)), (F, (130,)), (F, (n, L, 130))],
        [
            node("MatMul", [0, 1], 4),
            node("Add", [4, 2], 5),
            node("Gelu", [5], 6, approximate="none"),
            node("Add", [6, 3], 7),
        ],
        [(F, (n, L, 130))] * 4,
        [1],
    ),
    "Gemm": group(
        "gemm",
        [(F, (n, 96)), (F, (64, 96)), (F, (64,))],
        [node("Gemm", [0, 1, 2], 3, transB=1), node("Tanh", [3], 4)],
        [(F, (n, 64)), (F, (n, 64))],
        [1],
    ),
    "context": _matmul((n, 4, L, L), (n, 4, L, 64), (n, 4, L, 64)),
    "scores": _matmul((n, 4, L, 64), (n, 4, 64, L), (n, 4, L, L)),
    "all symbols": _matmul((n, L), (L, n), (n, n)),
}
"""Groups around a matmul."""

ATTENTIONS: Mapping[str, Group] = {
    "attention": attention(n, L, L),
    "attention of one text": attention(1, ROWS, ROWS),
    "attention to a text": attention(1, 40, ROWS),
    "attention to a prompt": attention(1, ROWS, 77),
}
"""Groups that are an attention."""

H, W = ROWS, LENGTH
"""The height and width of a picture."""


def convolution(
    batch: int,
    channels: int,
    filters: int,
    kernel: tuple[int, ...],
    image: tuple[int, ...],
    groups: int = 1,
    **attributes: Any,
) -> Group:
    """A convolution with a bias, and Relu."""
    rank = len(kernel)
    own = {"strides": [1] * rank, "dilations": [1] * rank, "pads": [0] * 2 * rank} | attributes
    steps = zip(image, kernel, *(own[name] for name in ("strides", "dilations")), strict=True)
    ends = zip(own["pads"][:rank], own["pads"][rank:], strict=True)
    counts = [
        (n + before + after - (k - 1) * d - 1) // s + 1
        for (n, k, s, d), (before, after) in zip(steps, ends, strict=True)
    ]
    result = (F, (batch, filters, *counts))
    reads = [
        (F, (batch, channels, *image)),
        (F, (filters, channels // groups, *kernel)),
        (F, (filters,)),
    ]
    conv = node("Conv", [0, 1, 2], 3, kernel_shape=list(kernel), group=groups, **own)
    return group("conv", reads, [conv, node("Relu", [3], 4)], [result] * 2, [1])


def pool(kind: str, channels: int = 5, **attributes: Any) -> Group:
    """A pool of three by three in steps of two over a picture."""
    own = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4} | attributes
    result = (F, (2, channels, (H - 1) // 2 + 1, (W - 1) // 2 + 1))
    return group("pool", [(F, (2, channels, H, W))], [node(kind, [0], 1, **own)], [result])


def resize(scales: tuple[int, int], mode: str, **attributes: Any) -> Group:
    """A picture that is enlarged."""
    factors = [1.0, 1.0, *map(float, scales)]
    own = {"scales": factors, "sizes": [], "roi": [], "mode": mode} | attributes
    result = (F, (1, 3, H * scales[0], W * scales[1]))
    return group("resize", [(F, (1, 3, H, W))], [node("Resize", [0], 1, **own)], [result])


CONVOLUTIONS: Mapping[str, Group] = {
    "one tap": convolution(1, 20, 18, (1, 1), (H, W)),
    "one tap, groups": convolution(2, 24, 36, (1, 1), (H, W), 12),
    "one tap, many channels": convolution(1, 256, 32, (1, 1), (H, W), strides=[2, 2]),
    "one tap, strides": convolution(2, 20, 18, (1, 1), (H, W), strides=[2, 2]),
    "three by three": convolution(1, 16, 20, (3, 3), (H, W), pads=[1] * 4),
    "few channels": convolution(1, 3, 10, (3, 3), (H, W), pads=[1] * 4),
    "strides": convolution(1, 6, 10, (3, 3), (H, W), pads=[1] * 4, strides=[2, 2]),
    "stem": convolution(1, 3, 8, (7, 7), (H, W), pads=[3] * 4, strides=[2, 2]),
    "uneven": convolution(1, 4, 5, (3, 2), (H, W), pads=[2, 0, 1, 1], strides=[1, 3]),
    "dilated": convolution(1, 4, 5, (3, 3), (H, W), pads=[2] * 4, dilations=[2, 2]),
    "dilated strides": convolution(
        1, 4, 5, (3, 3), (H, W), pads=[2] * 4, dilations=[2, 2], strides=[2, 4]
    ),
    "groups": convolution(1, 12, 18, (3, 3), (H, W), 3, pads=[1] * 4),
    "depthwise": convolution(1, 18, 18, (3, 3), (H, W), 18, pads=[1] * 4),
    "depthwise strides": convolution(1, 18, 18, (5, 5), (H, W), 18, pads=[2] * 4, strides=[2, 2]),
    "patches": convolution(1, 3, 8, (8, 8), (H + 8, W + 8), strides=[8, 8]),
    "lines": convolution(H, 6, 9, (5,), (W,), pads=[2, 2]),
    "volumes": convolution(1, 3, 5, (3, 3, 3), (4, H, W), pads=[1] * 6),
    "volumes of a depth": convolution(1, 3, 5, (3, 3, 3), (H, W, 7), pads=[1] * 6),
}
"""Groups around a convolution."""

PICTURES: Mapping[str, Group] = {
    "MaxPool": pool("MaxPool"),
    "AveragePool": pool("AveragePool", count_include_pad=0),
    "AveragePool with padding": pool("AveragePool", count_include_pad=1),
    "LpPool": pool("LpPool", p=2),
    "GlobalAveragePool": group(
        "pool",
        [(F, (2, 5, H // 2, W // 2))],
        [node("GlobalAveragePool", [0], 1)],
        [(F, (2, 5, 1, 1))],
    ),
    "nearest": resize((2, 3), "nearest", coordinate_transformation_mode="asymmetric"),
    "linear": resize((2, 4), "linear", coordinate_transformation_mode="half_pixel"),
    "cubic": resize((3, 2), "cubic", coordinate_transformation_mode="half_pixel"),
    "corners": resize((2, 2), "linear", coordinate_transformation_mode="align_corners"),
    "transposed": group(
        "transposed",
        [(F, (1, 6, H, W)), (F, (6, 4, 2, 2))],
        [node("ConvTranspose", [0, 1], 2, kernel_shape=[2, 2], strides=[2, 2])],
        [(F, (1, 4, H * 2, W * 2))],
        [1],
    ),
}
"""Other groups on pictures."""


def scan(shape: tuple[int, ...], axis: int, **attributes: int) -> Group:
    """Running sums along an axis."""
    own = {"axis": axis, "exclusive": 0, "reverse": 0} | attributes
    return group("scan", [(F, shape)], [node("CumSum", [0], 1, **own)], [(F, shape)])


SCANS: Mapping[str, Group] = {
    "running sums of rows": scan((n, L), 1, exclusive=1),
    "running sums of columns": scan((n, L), 0),
    "running sums of columns, backwards": scan((n, L), 0, reverse=1),
    "running sums of one row": scan((n * L,), 0),
    "running sums of one row, backwards": scan((n * L,), 0, reverse=1, exclusive=1),
    "running sums along a middle axis": scan((3, n, 40), 1, reverse=1),
}
"""Running sums, in parts of rows and in tiles of columns."""


CASES: Mapping[str, Group] = {
    **GENERIC,
    **MATMULS,
    **ATTENTIONS,
    **CONVOLUTIONS,
    **PICTURES,
    **SCANS,
}


UNPROVED = (
    "three by three",
    "strides",
    "stem",
    "uneven",
    "dilated strides",
    "depthwise strides",
    "volumes",
    "volumes of a depth",
    "MaxPool",
    "AveragePool",
    "AveragePool with padding",
    "LpPool",
    "cubic",
)
"""Cases of which some accesses are not proved to be inside: of planes by strides and in three
dimensions, of windows of padded images, and of an image that is read along chunks of its plane."""


def feeds(numeric: Group, seed: int = 0) -> list[Array]:
    """Arrays for the reads of a group: indices are small, masks are 0 or very negative."""
    generator = np.random.default_rng(seed)
    draw: Mapping[str, Callable[[tuple[int, ...]], Array]] = {
        F: lambda shape: generator.standard_normal(shape).astype(np.float32),
        INDEX: lambda shape: generator.integers(-3, 9, shape),
        BOOL: lambda shape: generator.integers(0, 2, shape).astype(bool),
    }
    return [draw[info.dtype](info.shape) for info in numeric.reads]


def expected(numeric: Group, arrays: Sequence[Array]) -> Array:
    """The result of a group by numpy."""
    values: dict[int, Array] = dict(enumerate(arrays))
    for operator in numeric.operators:
        inputs = [None if i is None else values[i] for i in operator.inputs]
        (result,) = evaluate_node(operator.type, inputs, operator.attributes)
        assert result is not None, operator.label
        values[operator.outputs[0]] = result
    return values[numeric.outputs[0]]


def run_at(
    spec: KernelSpec, group: Group, sizes: Sizes, arrays: Sequence[Array], order: Order = whole
) -> Array:
    """The result of a kernel of a group with symbols for sizes."""
    values = np.array([sizes[symbol.name] for symbol in spec.symbols], np.int64)
    return run_kernel(spec.at(sizes), group.at(sizes), [*arrays, values], order)[0]
