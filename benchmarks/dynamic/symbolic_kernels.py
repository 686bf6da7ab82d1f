"""Kernels with symbols, and kernels built for each size: time of a run, and of building.

    python benchmarks/dynamic/symbolic_kernels.py [CASE ...] [--seconds 0.3] [--json FILE]

For each case and size: the microseconds of the kernel for that size, and the symbolic kernel's part
of it (least of runs in turns; median in brackets), on one thread. What they compute is compared.
"""

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, cast

sys.path.insert(0, str(Path(__file__).parents[2]))

import numpy as np

from compiler.backends.cpu.bound import BoundKernel
from compiler.backends.memory import Array, aligned_copy
from compiler.graph.packing import apply_packing
from compiler.kernels.building.kernel import build_cpu_kernel
from compiler.kernels.cpu.machine import host_target
from compiler.kernels.group import Group, Node, TensorInfo
from compiler.schedule.kernels import KernelSpec
from compiler.tensors.extents import extent_of
from compiler.tensors.symbols import Symbol

LENGTHS = (37, 64, 100, 128, 307)
HINT = 64
BURST = 2e-4
"""Seconds of the runs of one kernel before the other one's turn, about."""

Sizes = Mapping[str, int]
Shaped = tuple[str, tuple[int, ...]]
F = "float32"


def node(type: str, inputs: Sequence[int], output: int, **attributes: Any) -> Node[int]:
    """An operator of one result."""
    return Node(type, attributes, tuple(inputs), (output,))


def group(
    name: str,
    reads: Sequence[Shaped],
    operators: Sequence[Node[int]],
    values: Sequence[Shaped],
    weights: Sequence[int] = (),
) -> Group:
    """A group whose only result is that of its last operator."""
    infos = tuple(TensorInfo(*shaped) for shaped in (*reads, *values))
    flags = tuple(i in weights for i in range(len(reads)))
    return Group(name, infos, len(reads), flags, {}, tuple(operators), tuple(operators[-1].outputs))


def dense(length: int, depth: int, columns: int, epilogue: str) -> Group:
    """A matmul with a bias, and Gelu or the addition of another tensor."""
    rows, result = (F, (1, length, depth)), (F, (1, length, columns))
    reads = [rows, (F, (depth, columns)), (F, (columns,)), result]
    operators = [node("MatMul", [0, 1], 4), node("Add", [4, 2], 5)]
    if epilogue == "Gelu":
        reads = reads[:3]
        operators = [node("MatMul", [0, 1], 3), node("Add", [3, 2], 4)]
        operators.append(node("Gelu", [4], 5, approximate="none"))
    elif epilogue == "Add":
        operators.append(node("Add", [5, 3], 6))
    else:
        reads = reads[:3]
        operators = [node("MatMul", [0, 1], 3), node("Add", [3, 2], 4)]
    return group("dense", reads, operators, [result] * len(operators), [1])


def attention(batch: int, length: int) -> Group:
    """Attention of twelve heads of 64 with a mask of all pairs, as in a BERT."""
    rows, heads = (F, (batch, length, 768)), [batch, length, 12, 64]
    split, by_head = (F, tuple(heads)), (F, (batch, 12, length, 64))
    keys, scores = (F, (batch, 12, 64, length)), (F, (batch, 12, length, length))
    operators: list[Node[int]] = []
    for i, perm in enumerate(([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])):
        operators.append(node("Reshape", [i], 4 + 2 * i, shape=heads))
        operators.append(node("Transpose", [4 + 2 * i], 5 + 2 * i, perm=perm))
    operators += [
        node("MatMul", [5, 7], 10),
        node("Add", [10, 3], 11),
        node("Softmax", [11], 12, axis=3),
        node("MatMul", [12, 9], 13),
        node("Transpose", [13], 14, perm=[0, 2, 1, 3]),
    ]
    values = [split, by_head, split, keys, split, by_head, *[scores] * 3, by_head, split]
    mask = (F, (batch, 1, length, length))
    return group("attention", [rows, rows, rows, mask], operators, values)


def softmax(length: int) -> Group:
    """The weights of twelve heads."""
    shape = (F, (1, 12, length, length))
    return group("softmax", [shape], [node("Softmax", [0], 1, axis=3)], [shape])


def layer_norm(length: int) -> Group:
    """The rows of a BERT."""
    rows = (F, (1, length, 768))
    operator = node("LayerNormalization", [0, 1, 2], 3, axis=2, epsilon=1e-12)
    return group("norm", [rows, (F, (768,)), (F, (768,))], [operator], [rows])


def embedding(length: int) -> Group:
    """Words and positions, normalised."""
    rows, table = (F, (2, length, 768)), (F, (768,))
    operators = [
        node("Gather", [0, 1], 5, axis=0),
        node("Add", [5, 2], 6),
        node("LayerNormalization", [6, 3, 4], 7, axis=2, epsilon=1e-12),
    ]
    reads = [(F, (1000, 768)), ("int64", (2, length)), (F, (1, length, 768)), table, table]
    return group("embedding", reads, operators, [rows] * 3)


def chain(length: int) -> Group:
    """An elementwise chain."""
    rows = (F, (1, length, 3072))
    operators = [
        node("Mul", [0, 0], 1),
        node("Sigmoid", [1], 2),
        node("Mul", [2, 0], 3),
        node("Relu", [3], 4),
    ]
    return group("chain", [rows], operators, [rows] * 4)


def heads(length: int) -> Group:
    """A transposition of heads."""
    operators = [node("Transpose", [0], 1, perm=[0, 2, 1, 3])]
    before, after = (F, (2, length, 12, 64)), (F, (2, 12, length, 64))
    return group("heads", [before], operators, [after])


def batched(length: int, transposed: bool) -> Group:
    """A batched matmul of attention: scores, or their sums of values."""
    scores, rows = (F, (2, 12, length, length)), (F, (2, 12, length, 64))
    reads, result = (
        ([rows, (F, (2, 12, 64, length))], scores) if transposed else ([scores, rows], rows)
    )
    return group("matmul", reads, [node("MatMul", [0, 1], 2)], [result])


def convolution(channels: int, filters: int, kernel: int, stride: int = 1, groups: int = 1) -> Any:
    """A convolution with a bias and Relu, by the height and width of its image."""

    def case(height: int, width: int) -> Group:
        pad = kernel // 2
        rows, columns = ((n + 2 * pad - kernel) // stride + 1 for n in (height, width))
        result = (F, (1, filters, rows, columns))
        weight = (F, (filters, channels // groups, kernel, kernel))
        operators = [
            node(
                "Conv",
                [0, 1, 2],
                3,
                kernel_shape=[kernel, kernel],
                strides=[stride, stride],
                pads=[pad] * 4,
                group=groups,
            ),
            node("Relu", [3], 4),
        ]
        reads = [(F, (1, channels, height, width)), weight, (F, (filters,))]
        return group("conv", reads, operators, [result] * 2, [1])

    return case


def pool(kind: str) -> Any:
    """A pool of windows of three by three in steps of two."""

    def case(height: int, width: int) -> Group:
        result = (F, (1, 64, (height + 1) // 2, (width + 1) // 2))
        window = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4}
        operator = node(kind, [0], 1, **window)
        return group("pool", [(F, (1, 64, height, width))], [operator], [result])

    return case


PICTURES: Mapping[str, Callable[[Any, Any], Group]] = {
    "1x1 64-256": convolution(64, 256, 1),
    "1x1 1024-256": convolution(1024, 256, 1),
    "1x1 stride 2": convolution(256, 512, 1, 2),
    "3x3 64": convolution(64, 64, 3),
    "3x3 256": convolution(256, 256, 3),
    "3x3 stride 2": convolution(128, 128, 3, 2),
    "stem": convolution(3, 64, 7, 2),
    "depthwise": convolution(192, 192, 3, 1, 192),
    "depthwise stride 2": convolution(192, 192, 3, 2, 192),
    "max pool": pool("MaxPool"),
}
"""Groups by height and width, which may be numbers or symbols."""

PICTURE_SIZES = ((7, 7), (14, 14), (20, 27), (28, 28), (40, 40), (56, 56), (57, 57))
PICTURE_HINT = 28

CASES: Mapping[str, Callable[[Any], Group]] = {
    "chain": chain,
    "heads": heads,
    "softmax": softmax,
    "layer norm": layer_norm,
    "embedding": embedding,
    "768x768": lambda length: dense(length, 768, 768, ""),
    "768x3072 Gelu": lambda length: dense(length, 768, 3072, "Gelu"),
    "3072x768 Add": lambda length: dense(length, 3072, 768, "Add"),
    "attention": lambda length: attention(1, length),
    "attention of two": lambda length: attention(2, length),
    "context": lambda length: batched(length, False),
    "scores": lambda length: batched(length, True),
}
"""Groups by length, which may be a number or a symbol."""


def arrays_of(numeric: Group) -> list[Array]:
    """Random reads."""
    random = np.random.default_rng(0)
    return [
        random.integers(0, 9, info.shape)
        if info.dtype == "int64"
        else random.standard_normal(info.shape).astype(info.dtype)
        for info in numeric.reads
    ]


def bound(
    spec: KernelSpec, numeric: Group, arrays: Sequence[Array], sizes: Sizes
) -> tuple[BoundKernel, Array]:
    """A kernel on arrays, and its result."""
    values = [sizes[symbol.name] for symbol in spec.symbols]
    more = [np.array(values, np.int64)] if values else []
    packings = spec.packings or ("",) * len(arrays)
    reads = [
        aligned_copy(np.ascontiguousarray(apply_packing(array, packing)))
        for array, packing in zip([*arrays, *more], packings, strict=True)
    ]
    result = aligned_copy(np.zeros(numeric.writes[0].shape, np.float32))
    return BoundKernel(spec.at(sizes) if values else spec, reads, [result]), result


def compared(runs: Sequence[Callable[[], object]], seconds: float) -> list[tuple[float, float]]:
    """The least and the median seconds of each run, in turns."""
    counts: list[int] = []
    for run in runs:
        run()
        start = perf_counter()
        run()
        counts.append(max(1, int(BURST / max(perf_counter() - start, 1e-7))))
    samples: list[list[float]] = [[] for _ in runs]
    end = perf_counter() + seconds * len(runs)
    while perf_counter() < end or len(samples[0]) < 7:
        for run, count, own in zip(runs, counts, samples, strict=True):
            start = perf_counter()
            for _ in range(count):
                run()
            own.append((perf_counter() - start) / count)
    return [(min(own), float(np.median(own))) for own in samples]


def built(case: Group) -> tuple[KernelSpec, float]:
    """A kernel, and the seconds that building it took."""
    start = perf_counter()
    spec = build_cpu_kernel(case, host_target())
    return spec, perf_counter() - start


def measured(name: str, seconds: float) -> dict[str, Any]:
    """The figures of a case."""
    case: Callable[..., Group] = PICTURES[name] if name in PICTURES else CASES[name]
    every = PICTURE_SIZES if name in PICTURES else [(length,) for length in LENGTHS]
    hint = PICTURE_HINT if name in PICTURES else HINT
    symbols = [Symbol(f"s{i}", 2, None, hint) for i in range(len(every[0]))]
    spec, build_s = built(case(*map(extent_of, symbols)))
    sizes: list[dict[str, Any]] = []
    for size in every:
        numeric = case(*size)
        fixed, fixed_s = built(numeric)
        arrays = arrays_of(numeric)
        values = {symbol.name: n for symbol, n in zip(symbols, size, strict=True)}
        (one, first), (other, second) = (
            bound(own, numeric, arrays, values) for own in (fixed, spec)
        )
        (least, median), (own_least, own_median) = compared([one.run, other.run], seconds)
        np.testing.assert_allclose(first, second, 1e-3, 1e-3)
        figures = {"least": own_least / least, "median": own_median / median}
        length = "x".join(map(str, size))
        sizes.append({"length": length, "fixed_us": 1e6 * least, "build_s": fixed_s} | figures)
    kept = {"build_s": build_s, "code": len(spec.code), "containment": spec.containment}
    return {"case": name, **kept, "sizes": sizes}


def main() -> None:
    """Print a line for each case, and the geometric mean of all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    names = [*CASES, *PICTURES]
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(names)}")
    parser.add_argument("--seconds", type=float, default=0.3, help="of each kernel and size")
    parser.add_argument("--json", type=Path, help="write all figures there")
    options = parser.parse_args()
    every: list[dict[str, Any]] = []
    build_cpu_kernel(softmax(8), host_target())
    for name in cast(list[str], options.cases) or names:
        figures = measured(name, options.seconds)
        every.append(figures)
        parts = [
            f"{own['length']}: {own['fixed_us']:.1f} us {own['least']:.2f} ({own['median']:.2f})"
            for own in figures["sizes"]
        ]
        usual = np.median([own["build_s"] for own in figures["sizes"]])
        building = f"built in {figures['build_s']:.2f} s, fixed {usual:.2f} s"
        print(f"{name} [{figures['containment']}, {building}]: " + "; ".join(parts), flush=True)
    ratios = [own["least"] for figures in every for own in figures["sizes"]]
    print(f"symbolic / fixed: {np.exp(np.mean(np.log(ratios))):.3f}, worst {max(ratios):.2f}")
    if options.json:
        options.json.write_text(json.dumps(every, indent=1) + "\n")


if __name__ == "__main__":
    main()
