"""Groups with symbols as a BERT and others have them, and what they compute, by numpy."""

from collections.abc import Callable, Mapping, Sequence

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

CASES: Mapping[str, Group] = {**GENERIC, **MATMULS, **ATTENTIONS}


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
